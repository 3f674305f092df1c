"""The menu: plans, projections, noise, randomized response, and how far off estimates will be.

Public mathematics: no data, no secrets, no input or output.
"""

from dimly.mechanisms.attributes import Vocabulary, attribute_text
from dimly.mechanisms.dimension import best_k
from dimly.mechanisms.error_models import ErrorModel, Polynomial
from dimly.mechanisms.families import FAMILIES, Family
from dimly.mechanisms.intervals import invert_interval
from dimly.mechanisms.mechanism import MECHANISMS
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.projection import Projection, Sensitivity
from dimly.mechanisms.rows import Rows

__all__ = [
    "FAMILIES",
    "MECHANISMS",
    "ErrorModel",
    "Family",
    "Plan",
    "Polynomial",
    "Projection",
    "Rows",
    "Sensitivity",
    "Vocabulary",
    "attribute_text",
    "best_k",
    "invert_interval",
]
