"""The choice: from a budget and a purpose to a plan, with predicted errors and a verdict. No data."""

from dimly.planner.advice import Advice, advise
from dimly.planner.brief import Brief
from dimly.planner.candidates import Candidate, LeftOut
from dimly.planner.paper import (
    crossover_attributes,
    crossover_distance,
    crossover_users,
    least_distance,
    paper_distance,
    paper_users,
)
from dimly.planner.scales import Scales, plan_scales

__all__ = [
    "Advice",
    "Brief",
    "Candidate",
    "LeftOut",
    "Scales",
    "advise",
    "crossover_attributes",
    "crossover_distance",
    "crossover_users",
    "least_distance",
    "paper_distance",
    "paper_users",
    "plan_scales",
]
