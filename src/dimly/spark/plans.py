"""Plans on their way to the workers: as JSON; directions, which may be large, are brought to each machine once."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from dimly.curator.perturb import Perturber
from dimly.mechanisms.plan import Plan


@lru_cache(maxsize=4)
def parsed(plan_json: str) -> Plan:
    """Return a plan; once for each worker, because it is proven each time that it is read."""
    return Plan.from_json(plan_json)


@dataclass(frozen=True)
class CarriedPlan:
    """What a worker needs to perturb people by a plan. Equal if the plans are, which hold their directions' digest.

    Attributes
    ----------
    json : str
    directions : Broadcast or None
        Of a plan that has some.
    """

    json: str
    directions: Any = field(default=None, compare=False, repr=False)

    def perturber(self) -> Perturber:
        """Return the perturber of the plan; once for each worker, because its noise tables are proven."""
        return _perturber(self)


@lru_cache(maxsize=1)  # one job's at a time: directions may take half a gigabyte
def _perturber(carried: CarriedPlan) -> Perturber:
    plan = parsed(carried.json)
    return Perturber(plan if carried.directions is None else plan.along(carried.directions.value))


@contextlib.contextmanager
def carried_plan(plan: Plan, context: Any) -> Iterator[CarriedPlan]:
    """Give a plan for the workers of a Spark context; Spark forgets its directions at the end.

    Spark sends a broadcast to each machine once, in pieces that machines pass on to each other. With the tasks they
    would be sent once for each.
    """
    if plan.matrix is None:
        yield CarriedPlan(plan.to_json())
        return
    directions = context.broadcast(plan.matrix)
    try:
        yield CarriedPlan(plan.to_json(), directions)
    finally:
        with contextlib.suppress(Exception):  # what went wrong first is what the caller must hear of
            directions.destroy()
