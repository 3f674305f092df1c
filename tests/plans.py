"""Plans for tests, small and made once: proving a wide noise table takes a second."""

from functools import cache
from typing import Any

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
