"""Questions to the planner."""

from typing import Any

from dimly.planner.question import Question
from dimly.privacy import Budget


def ask(budget: Any = Budget(1.0), **changes: Any) -> Question:  # noqa: B008 (frozen)
    """Return a question; attributes that are counted are numbers, unless it says otherwise."""
    arguments: dict[str, Any] = {
        "purpose": "distances",
        "n_attributes": None,
        "vocabulary": None,
        "n_users": None,
        "distance": 400.0,
        "weight": None,
        "values": "bits",
        "resolution": None,
        "unit": "attribute",
        "mechanisms": None,
        "max_bytes_per_user": None,
        "numbered": changes.get("n_attributes") is not None and changes.get("vocabulary") is None,
    }
    return Question.of(budget, **(arguments | changes))
