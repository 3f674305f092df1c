"""scikit-learn transformers whose output may be published. See docs/estimators.md.

Every ``transform`` of :class:`PrivateProjection` and :class:`RandomizedResponse` is a release. :class:`SketchDenoiser`
works on what was released, and costs nothing.
"""

from dimly.estimators.transformers import PrivateProjection, RandomizedResponse, SketchDenoiser

__all__ = ["PrivateProjection", "RandomizedResponse", "SketchDenoiser"]
