"""How often and when runs are ended."""

import os
from random import Random

KILLS = int(os.environ.get("DIMLY_KILLS", "20"))


SEED = os.environ.get("DIMLY_KILL_SEED", "0")


JITTER = 0.01


def share(number: int) -> float:
    """Return at what part of the time that may pass a kill strikes, in [0, 1)."""
    return Random(f"{SEED} {number}").random()  # noqa: S311 - to be the same again
