"""See how far apart people are, without seeing who they are.

Names are loaded when they are first used, so that ``import dimly`` is instant.
"""

import importlib

TYPE_CHECKING = False  # for type checkers it is true; typing is slow to load, and Ctrl-C is not caught until then
if TYPE_CHECKING:
    from dimly.analyst import Estimate, Release, Vector
    from dimly.analyst.combine import Combined, combine
    from dimly.analyst.release import open_release
    from dimly.api import publish, survey
    from dimly.curator.ledger.ledger import Ledger
    from dimly.curator.sketcher import Sketcher
    from dimly.errors import (
        BudgetError,
        DataError,
        DimlyError,
        MissingExtraError,
        ParameterError,
        PrivacyWarning,
        ReleaseError,
    )
    from dimly.lab.directions.from_sample import learn_directions
    from dimly.lab.planning import advise, plan
    from dimly.mechanisms import MECHANISMS, Directions, Plan, Vocabulary, best_k
    from dimly.privacy import (
        Budget,
        Composition,
        Cost,
        compose,
        delta_of,
        epsilon_of,
        gaussian_scale,
        laplace_scale,
    )

__version__ = "0.2.0"

_HOME = {
    "errors": (
        "BudgetError",
        "DataError",
        "DimlyError",
        "MissingExtraError",
        "ParameterError",
        "PrivacyWarning",
        "ReleaseError",
    ),
    "analyst": ("Estimate", "Release", "Vector"),
    "analyst.combine": ("Combined", "combine"),
    "analyst.release": ("open_release",),
    "api": ("publish", "survey"),
    "curator.ledger.ledger": ("Ledger",),
    "curator.sketcher": ("Sketcher",),
    "lab.directions.from_sample": ("learn_directions",),
    "lab.planning": ("advise", "plan"),
    "mechanisms": ("MECHANISMS", "Directions", "Plan", "Vocabulary", "best_k"),
    "privacy": (
        "Budget",
        "Composition",
        "Cost",
        "compose",
        "delta_of",
        "epsilon_of",
        "gaussian_scale",
        "laplace_scale",
    ),
}
_ROOM_OF = {name: room for room, names in _HOME.items() for name in names}

__all__ = [
    "MECHANISMS",
    "Budget",
    "BudgetError",
    "Combined",
    "Composition",
    "Cost",
    "DataError",
    "DimlyError",
    "Directions",
    "Estimate",
    "Ledger",
    "MissingExtraError",
    "ParameterError",
    "Plan",
    "PrivacyWarning",
    "Release",
    "ReleaseError",
    "Sketcher",
    "Vector",
    "Vocabulary",
    "advise",
    "best_k",
    "combine",
    "compose",
    "delta_of",
    "epsilon_of",
    "gaussian_scale",
    "laplace_scale",
    "learn_directions",
    "open_release",
    "plan",
    "publish",
    "survey",
]


def __getattr__(name: str) -> object:
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'dimly' has no attribute {name!r}.{_meant(name)}")
    value = getattr(importlib.import_module(f"dimly.{_ROOM_OF[name]}"), name)
    globals()[name] = value
    return value


def _meant(name: str) -> str:
    """Return a question after the name that was meant, if it is not one of Python's own."""
    if name.startswith("_"):
        return ""
    import difflib  # noqa: PLC0415  (slow to import, and seldom needed)

    also = {"load": "open_release", "open": "open_release", "read": "open_release", "make_plan": "plan"}.get(name)
    near = [also] if also is not None else difflib.get_close_matches(name, __all__, n=1, cutoff=0.7)
    return f" Did you mean {near[0]!r}?" if near else ""


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
