"""The promise: budgets, what releases cost, how much noise that takes, and how costs add up."""

from dimly.privacy.budget import UNITS, VALUES_MOVED, Budget, Unit
from dimly.privacy.calibration import RULES, Rule, delta_of, epsilon_of, gaussian_scale, laplace_scale
from dimly.privacy.composition import Composition, Cost, compose

__all__ = [
    "RULES",
    "UNITS",
    "VALUES_MOVED",
    "Budget",
    "Composition",
    "Cost",
    "Rule",
    "Unit",
    "compose",
    "delta_of",
    "epsilon_of",
    "gaussian_scale",
    "laplace_scale",
]
