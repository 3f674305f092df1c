"""Private sketches as a scikit-learn transformer."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin

from dimly.errors import ParameterError
from dimly.estimators.releasing import Output, ReleasingTransformer
from dimly.mechanisms.families import family_named
from dimly.mechanisms.mechanism import sketching
from dimly.mechanisms.plan import Plan
from dimly.privacy import Budget, Unit


class PrivateProjection(ClassNamePrefixFeaturesOutMixin, ReleasingTransformer):  # type: ignore[misc]
    """Random projection of people with noise, so that the odds of any one attribute change by at most e^ε.

    **Every transform is a release**, counted in ``spent_``. A second transform of the same people is refused unless
    ``allow_repeats`` is set, and so are searches and cross-validations: release once, and search over what follows.
    Noise has no seed. Steps before this one must not learn from the private table, or the promise is void.

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
        assert self.plan_.projection is not None  # noqa: S101
        return self.plan_.projection.k

    def _check_mechanism(self, mechanism: str) -> None:
        if sketching(mechanism) is None:
            raise ParameterError(f"mechanism must be one that sketches, got {mechanism!r}.")

    def _plan_by_parameters(self, names: Sequence[str] | None) -> Plan:
        self._check_mechanism(self.mechanism)
        kind = sketching(self.mechanism)
        assert kind is not None  # noqa: S101
        closed: dict[str, Any] = {}
        if not family_named(kind.family).open_vocabulary:
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
