"""Party B: what can be told from published numbers, and how surely."""

from dimly.analyst.combining import Combined, combine
from dimly.analyst.estimate import Estimate
from dimly.analyst.release import Release
from dimly.analyst.vector import Vector

__all__ = ["Combined", "Estimate", "Release", "Vector", "combine"]
