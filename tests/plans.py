"""Plans for tests, small and made once: proving a wide noise table takes a second."""

import json
from functools import cache
from typing import Any

import numpy as np

from dimly.mechanisms import Plan
from dimly.privacy import Budget

SEED = bytes(range(32))
N_ATTRIBUTES = 100
N_USERS = 40
K = 32


@cache
def plan_of(mechanism: str, **changes: Any) -> Plan:
    """Return a plan for attributes "0" … "99": closed where that is needed, else open unless asked for."""
    arguments: dict[str, Any] = {}
    if mechanism == "randomized-response":
        arguments = {"n_attributes": N_ATTRIBUTES}
    elif mechanism == "noisy-distances":
        arguments = {"n_attributes": N_ATTRIBUTES, "n_users": N_USERS}
    else:
        blocks = 4 if mechanism.startswith(("sparse", "dasgupta")) else 1
        arguments = {"k": K, "seed": SEED, "blocks": blocks}
        if not mechanism.startswith(("counting", "hashing", "sparse", "sign")):
            arguments["n_attributes"] = N_ATTRIBUTES
    return Plan.of(mechanism, Budget(1.0, 1e-6), **(arguments | changes))


def lowered(*, listed: bool) -> tuple[str, str, list[str]]:
    """Return the JSON of a plan that states less than its longest row has, with noise to match.

    Beside it the attribute of the shortest row, and all attributes.
    """
    names = [f"name {i}" if listed else str(i) for i in range(N_ATTRIBUTES)]
    closed: dict[str, Any] = {"vocabulary": names} if listed else {"n_attributes": N_ATTRIBUTES}
    plan = Plan.of("ternary+laplace", Budget(1.0), k=K, seed=SEED, **closed)
    fields = json.loads(plan.to_json())
    less = fields["projection"]["l1"] - 1
    fields["projection"]["l1"] = fields["projection"]["l2_squared"] = fields["noise"]["l1_sensitivity"] = less
    return json.dumps(fields), names[int(np.argmin(plan.rows(names).l1_norms))], names
