"""docs/estimators.md names the checks of scikit-learn that cannot pass, and those alone."""

import re
from pathlib import Path

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator
from tests.unit.estimators.known import ESTIMATORS, NOISE, ONE_COLUMN

from dimly.estimators import SketchDenoiser

PAGE = Path(__file__).parents[2] / "docs" / "estimators.md"
NAMED = [re.findall(r"`(check_\w+)`", row) for row in re.findall(r"^\| `check_.*$", PAGE.read_text("utf-8"), re.M)]


def test_failures_are_named() -> None:
    failing, left_out, of_counting = NAMED
    assert sorted(failing) == sorted(NOISE)
    assert sorted(of_counting) == sorted(ONE_COLUMN)
    assert not set(left_out) & {*failing, *of_counting}


@pytest.mark.filterwarnings("ignore")
def test_what_is_left_out_is_what_scikit_learn_leaves_out() -> None:
    checks: list[set[str]] = []
    for estimator in ESTIMATORS:
        made = estimator_checks_generator(estimator, legacy=True)
        checks.append({getattr(check, "func", check).__name__ for _, check in made})
    *noisy, denoiser = checks
    assert isinstance(ESTIMATORS[-1], SketchDenoiser)
    for found in noisy:
        assert denoiser - found <= {*NAMED[1], "check_transformer_preserve_dtypes", "check_estimator_sparse_tag"}
