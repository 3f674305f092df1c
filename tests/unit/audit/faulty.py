"""Samplers that break the promise, for audits that must notice."""

from typing import Any

import numpy as np

from dimly.audit.plan_audit import Audit
from dimly.curator.sampling import NoiseSampler


class Clipped:
    """Noise that ends where the plan's does not: what lies beyond is certain."""

    def __init__(self, table: Any, most: int) -> None:
        self._sound, self._most = NoiseSampler(table), most

    def add(self, sketch: Any, words: Any, out: Any) -> None:
        noise = np.empty(sketch.shape, out.dtype)
        self._sound.add(np.zeros_like(sketch), words, noise)
        out[...] = sketch + np.clip(noise, -self._most, self._most)


def result(found: Audit, name: str) -> str:
    """Return what one check of an audit says."""
    return next(check.words for check in found.checks if check.name == name)
