"""``PrivateProjection``, ``RandomizedResponse`` and ``SketchDenoiser``, as scikit-learn steps."""

from collections.abc import Sequence
from numbers import Real
from typing import Any, Final, Self

import numpy as np
import scipy
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, OneToOneFeatureMixin, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.utils.validation import check_is_fitted, validate_data

from dimly.analyst.structure.coordinates import Coordinates
from dimly.analyst.structure.denoise import shrinkage
from dimly.errors import ParameterError
from dimly.estimators.base import Output, ReleasingTransformer
from dimly.mechanisms.make import DIRECTED, RANDOMIZED_RESPONSE, Sketching, is_open
from dimly.mechanisms.plan import Plan
from dimly.privacy import Budget, Unit


class PrivateProjection(ClassNamePrefixFeaturesOutMixin, ReleasingTransformer):  # type: ignore[misc]
    """Random projection of people with noise, so that the odds of any one attribute change by at most e^ε.

    **Every transform is a release**, counted in ``spent_``. A second transform of the same rows or users in this
    process is refused unless ``allow_repeats`` is set, and so are scikit-learn's searches and cross-validations:
    release once, and search over what follows. Noise has no seed. Steps before this one must not learn from the private
    table, or the promise is void.

    Parameters
    ----------
    n_components : int, default=256
        Dimension k of a sketch; :func:`dimly.best_k` suggests one.
    epsilon : float, default=1.0
        What one transform may cost any one attribute of a person.
    delta : float, default=0.0
        Needed by Gaussian noise only.
    mechanism : str, default="counting+laplace"
        Family and noise of the sketch; see :data:`dimly.MECHANISMS`.
    blocks : int, default=1
        Entries per attribute of ``sparse`` and ``dasgupta``.
    resolution : int, default=1
        1 for bits; R for values in [0, 1] in steps of 1/R.
    unit : {"attribute", "column"}, default="attribute"
        "column" where a categorical column is spread over several columns of ``X``.
    seed : bytes or str, optional
        Public seed of the projection, 32 bytes or 64 hexadecimal digits; fresh at each fit by default. Noise has none.
    plan : Plan, optional
        A plan made beforehand, in the place of all the parameters above.
    clip : bool, default=False
        Whether values outside of [0, 1] are clipped; else they are refused.
    output : {"points", "integers"}, default="points"
        Points, float32, whose squared distances are on average those of people plus 2·``bias_``; or the published
        integers themselves.
    allow_repeats : bool, default=False
        Whether people may be released again, for the full cost each time.

    Attributes
    ----------
    plan_ : Plan
        Public. Nothing in it depends on the values that it was fitted on.
    spent_ : Composition
        What all transforms of this object cost any one person together, at most. Clones count for themselves.
    bias_ : float
        What noise adds to the squared norm of a point.
    n_features_in_, feature_names_in_
        As in scikit-learn. Names, where there are some, are the attributes.

    Examples
    --------
    >>> people = np.random.default_rng(0).random((100, 50)) < 0.3
    >>> projection = PrivateProjection(16, epsilon=2.0)
    >>> projection.fit_transform(people).shape
    (100, 16)
    >>> projection.spent_.epsilon
    2.0
    """

    _PLANNED = ("n_components", "epsilon", "delta", "mechanism", "blocks", "resolution", "unit", "seed")

    def __init__(
        self,
        n_components: int = 256,
        *,
        epsilon: float = 1.0,
        delta: float = 0.0,
        mechanism: str = "counting+laplace",
        blocks: int = 1,
        resolution: int = 1,
        unit: Unit = "attribute",
        seed: bytes | str | None = None,
        plan: Plan | None = None,
        clip: bool = False,
        output: Output = "points",
        allow_repeats: bool = False,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.mechanism = mechanism
        self.blocks = blocks
        self.resolution = resolution
        self.unit = unit
        self.seed = seed
        self.plan = plan
        self.clip = clip
        self.output = output
        self.allow_repeats = allow_repeats

    @property
    def _n_features_out(self) -> int:
        return self.plan_.published_shape(1)[1]

    def _check_mechanism(self, mechanism: str) -> None:
        if mechanism not in DIRECTED:
            Sketching.of(mechanism)

    def _plan_by_parameters(self, names: Sequence[str] | None) -> Plan:
        closed: dict[str, Any] = {}
        self._check_mechanism(self.mechanism)
        if not is_open(self.mechanism):
            closed = {"n_attributes": self.n_features_in_} if names is None else {"vocabulary": list(names)}
        return Plan.of(
            self.mechanism,
            Budget(self.epsilon, self.delta),
            k=self.n_components,
            blocks=self.blocks,
            resolution=self.resolution,
            unit=self.unit,
            seed=self.seed,
            dtype="int32",  # nothing is stored, so that there is room for every sum
            **closed,
        )

    def _prepared(self, X: Any) -> Any:  # noqa: N803
        if not self.clip:
            return X
        if not scipy.sparse.issparse(X):
            return np.clip(X, 0, 1)
        X = X.copy()  # noqa: N806
        X.data = np.clip(X.data, 0, 1)
        return X


class RandomizedResponse(OneToOneFeatureMixin, ReleasingTransformer):  # type: ignore[misc]
    """Every bit flipped with probability 1/(1 + e^ε), or 1/(1 + e^(ε/2)) if the unit is a column: a column for each.

    Wins over :class:`PrivateProjection` where columns are few or people far apart. **Every transform is a release**,
    counted in ``spent_``; a second one of the same rows or users in this process is refused unless ``allow_repeats`` is
    set, and so are scikit-learn's searches and cross-validations. Flips have no seed. Steps before this one must not
    learn from the private table.

    Parameters
    ----------
    epsilon : float, default=1.0
        What one transform may cost any one attribute of a person.
    unit : {"attribute", "column"}, default="attribute"
        "column" where a categorical column is spread over several columns of ``X``.
    plan : Plan, optional
        A plan made beforehand, in the place of the parameters above.
    threshold : float, optional
        At least 0, public: larger values are ones. By default anything but 0 and 1 is refused.
    output : {"points", "integers"}, default="points"
        Points, float32: unbiased estimates of the bits, −p/(1 − 2p) or (1 − p)/(1 − 2p); their squared distances are on
        average those of people plus 2·``bias_``. Or the flipped bits themselves, 0 and 1.
    allow_repeats : bool, default=False
        Whether people may be released again, for the full cost each time.

    Attributes
    ----------
    plan_, spent_, bias_, n_features_in_, feature_names_in_
        As of :class:`PrivateProjection`.

    Examples
    --------
    >>> people = np.random.default_rng(1).random((1000, 5)) < 0.3
    >>> response = RandomizedResponse(epsilon=2.0)
    >>> abs(float(response.fit_transform(people).mean()) - 0.3) < 0.1  # estimates are unbiased
    True
    """

    _PLANNED = ("epsilon", "unit")

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        unit: Unit = "attribute",
        plan: Plan | None = None,
        threshold: float | None = None,
        output: Output = "points",
        allow_repeats: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.unit = unit
        self.plan = plan
        self.threshold = threshold
        self.output = output
        self.allow_repeats = allow_repeats

    def _check_mechanism(self, mechanism: str) -> None:
        if mechanism != RANDOMIZED_RESPONSE:
            raise ParameterError(f"mechanism must be randomized-response, got {mechanism!r}. Use PrivateProjection.")

    def _plan_by_parameters(self, names: Sequence[str] | None) -> Plan:
        closed: dict[str, Any] = {"n_attributes": self.n_features_in_}
        if names is not None:
            closed = {"vocabulary": list(names)}
        return Plan.of(RANDOMIZED_RESPONSE, Budget(self.epsilon), unit=self.unit, **closed)

    def _prepared(self, X: Any) -> Any:  # noqa: N803
        threshold: Any = self.threshold
        if threshold is None:
            return X
        if isinstance(threshold, bool) or not isinstance(threshold, Real) or not float(threshold) >= 0:
            raise ParameterError(f"threshold must be a number of at least 0, got {threshold!r}.")
        if not scipy.sparse.issparse(X):
            return np.asarray(X) > threshold
        X = X.copy()  # noqa: N806
        X.sum_duplicates()
        X.data = X.data > threshold
        return X

    def _integers(self, rows: NDArray[Any]) -> NDArray[Any]:
        return np.unpackbits(rows, axis=1, count=self.n_features_in_, bitorder="little")


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
            raise ParameterError(
                "plan or noise_variance must be given, and not both: the noise to take off. Give both steps one plan: "
                "PrivateProjection(plan=plan), SketchDenoiser(plan)."
            )
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
        return coordinates.noise_variance, coordinates.free

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
