"""The menu: plans, projections, noise, randomized response, and how far off estimates will be.

Public mathematics: no data, no secrets, no input or output.
"""

from dimly.mechanisms.error.bounds import invert_interval
from dimly.mechanisms.error.dimension import best_k
from dimly.mechanisms.error.models import ErrorModel, Polynomial
from dimly.mechanisms.make import MECHANISMS
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.plan_kinds import DirectionsPlan, DistancePlan, ResponsePlan, SketchPlan
from dimly.mechanisms.projection.directions import Directions
from dimly.mechanisms.projection.families import Family
from dimly.mechanisms.projection.random_matrix import FAMILIES, Projection, Sensitivity
from dimly.mechanisms.projection.rows import Rows
from dimly.mechanisms.vocabulary import Vocabulary, attribute_text

__all__ = [
    "FAMILIES",
    "MECHANISMS",
    "Directions",
    "DirectionsPlan",
    "DistancePlan",
    "ErrorModel",
    "Family",
    "Plan",
    "Polynomial",
    "Projection",
    "ResponsePlan",
    "Rows",
    "Sensitivity",
    "SketchPlan",
    "Vocabulary",
    "attribute_text",
    "best_k",
    "invert_interval",
]
