"""The artifact: what is published, and what it promises in words."""

from dimly.release.guarantee import guarantee
from dimly.release.sketches import Sketches

__all__ = ["Sketches", "guarantee"]
