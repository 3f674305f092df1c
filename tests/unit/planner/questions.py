"""Questions to the planner."""

from typing import Any

from dimly.planner.brief import Brief, Question
from dimly.privacy import Budget


def ask(budget: Any = Budget(1.0), **changes: Any) -> Question:  # noqa: B008 (frozen)
    """Return a question; attributes that are counted are numbers, unless it says otherwise."""
    numbered = changes.get("n_attributes") is not None and changes.get("vocabulary") is None
    return Question.of(Brief(budget, **({"distance": 400.0, "numbered": numbered} | changes)))
