"""Denoising as a scikit-learn transformer: of what was released, at no cost."""

from numbers import Real
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.utils.validation import check_is_fitted, validate_data

from dimly.analyst.coordinates import Coordinates
from dimly.analyst.denoising import directions, noise_variance, shrinkage
from dimly.errors import ParameterError
from dimly.mechanisms.plan import Plan

_WIDEST: Final = 4096  # dimension up to which all directions are found
_RANK: Final = 100  # how many beyond that


class SketchDenoiser(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Shrinks released points to what many people have in common, by the noise that the plan is known to have added.

    Post-processing of what is public: it may be fitted, searched over and cross-validated at will. Distances of
    denoised points are biased; they rank and they cluster. See docs/denoising.md.

    Parameters
    ----------
    plan : Plan
        By which the points were released.
    noise_variance : float, optional
        Of noise in every direction, for points of another origin, in the place of ``plan``; > 0.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
    components_ : ndarray of shape (rank, n_features)
        Directions that are kept, strongest first.
    gains_ : ndarray of shape (rank,)
        What each keeps of a deviation from the mean, in (0, 1).
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from dimly.estimators import PrivateProjection
    >>> from dimly.privacy import Budget
    >>> from sklearn.pipeline import make_pipeline
    >>> people = np.repeat(np.random.default_rng(2).random((2, 400)) < 0.3, 100, axis=0)
    >>> plan = Plan.of("hashing+laplace", Budget(2.0), k=64)
    >>> pipeline = make_pipeline(PrivateProjection(plan=plan), SketchDenoiser(plan))
    >>> points = pipeline.fit_transform(people)
    >>> bool(pipeline[-1].gains_[0] > 0.9)  # two kinds of people differ in one direction
    True
    """

    def __init__(self, plan: Plan | None = None, *, noise_variance: float | None = None) -> None:
        self.plan = plan
        self.noise_variance = noise_variance

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803, ARG002
        """Find the directions in which ``X`` varies by more than noise.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Released points, of at least two people.
        y : object
            Not used.
        """
        X = self._validated(X, reset=True)  # noqa: N806
        noise, free = self._noise()
        n, d = X.shape
        wide = d > _WIDEST
        found = PCA(
            min(_RANK, n, d) if wide else None,
            svd_solver="randomized" if wide else "covariance_eigh",
            random_state=0,  # of a search for directions of public points
        ).fit(X)
        gains = shrinkage(found.explained_variance_ * ((n - 1) / n), noise, free / n)
        kept = gains > 0
        self.mean_ = found.mean_
        self.components_ = found.components_[kept]
        self.gains_ = gains[kept]
        return self

    def transform(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return denoised points, in the coordinates of the given ones.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        X = self._validated(X, reset=False)  # noqa: N806
        components = self.components_.astype(X.dtype, copy=False)
        mean = self.mean_.astype(X.dtype, copy=False)
        denoised: NDArray[Any] = ((X - mean) @ components.T * self.gains_.astype(X.dtype)) @ components + mean
        return denoised

    def _validated(self, X: Any, *, reset: bool) -> Any:  # noqa: N803
        return validate_data(self, X, reset=reset, dtype=[np.float64, np.float32], ensure_min_samples=1 + reset)

    def _noise(self) -> tuple[float, int]:
        """Return the variance of noise, and in how many directions it goes."""
        if (self.plan is None) == (self.noise_variance is None):
            raise ParameterError("plan or noise_variance must be given, and not both: the noise to take off.")
        if self.plan is None:
            variance: Any = self.noise_variance
            if isinstance(variance, bool) or not isinstance(variance, Real) or not 0 < float(variance) < np.inf:
                raise ParameterError(f"noise_variance must be a number > 0, got {variance!r}.")
            return float(variance), self.n_features_in_
        if not isinstance(self.plan, Plan):
            raise ParameterError(f"plan must be a Plan, got {type(self.plan).__name__}.")
        coordinates = Coordinates.of(self.plan)
        if coordinates.dimension != self.n_features_in_:
            raise ParameterError(
                f"X must have {coordinates.dimension} columns by this plan, got {self.n_features_in_}. Pass its points."
            )
        return noise_variance(coordinates), directions(coordinates)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
