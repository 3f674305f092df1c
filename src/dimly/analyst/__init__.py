"""Party B: what can be told from published numbers, and how surely."""

from dimly.analyst.estimate import Estimate, Vector
from dimly.analyst.release import Release

__all__ = ["Estimate", "Release", "Vector"]
