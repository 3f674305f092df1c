"""Randomized response as a scikit-learn transformer."""

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import OneToOneFeatureMixin

from dimly.errors import ParameterError
from dimly.estimators.releasing import Output, ReleasingTransformer
from dimly.mechanisms.mechanism import RANDOMIZED_RESPONSE
from dimly.mechanisms.plan import Plan
from dimly.privacy import Budget, Unit


class RandomizedResponse(OneToOneFeatureMixin, ReleasingTransformer):  # type: ignore[misc]
    """Every bit of every person flipped with probability 1/(1 + e^ε): a column for each column.

    Wins over :class:`PrivateProjection` where columns are few or people far apart. **Every transform is a release**,
    counted in ``spent_``; a second one of the same people is refused unless ``allow_repeats`` is set, and so are
    searches and cross-validations. Flips have no seed. Steps before this one must not learn from the private table.

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
