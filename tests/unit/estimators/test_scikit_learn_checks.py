"""scikit-learn's own checks of estimators. What cannot pass is named, with the reason, and must not pass."""

from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.unit.estimators.known import ESTIMATORS, NOISE, ONE_COLUMN

from dimly.estimators import PrivateProjection, SketchDenoiser


def expected(estimator: Any) -> dict[str, str]:
    if isinstance(estimator, SketchDenoiser):
        return {}
    counting = isinstance(estimator, PrivateProjection) and estimator.mechanism == "counting+laplace"
    return NOISE | (ONE_COLUMN if counting else {})


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected)
def test_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)
