"""Similarities from exact and from uncertain norms and inner products; releases test the rest."""

import numpy as np
import pytest

from dimly.analyst.pairs import Pairs, cosine_of, jaccard_of


def pairs(x: float, y: float, shared: float) -> Pairs:
    return Pairs(*(np.array([value]) for value in (x, y, shared, x + y - 2 * shared)))


def test_exact_pairs_have_exact_similarities() -> None:
    for ask, expected in ((cosine_of, 0.5), (jaccard_of, 3 / 9)):
        found = ask(pairs(4.0, 9.0, 3.0) if ask is cosine_of else pairs(6.0, 6.0, 3.0), None, 0.95)
        assert found.value == pytest.approx([expected])
        assert found.stderr.tolist() == [0.0]
        assert found.low.tolist() == found.high.tolist() == found.value.tolist()


def test_two_empty_sets_are_alike() -> None:
    assert jaccard_of(pairs(0.0, 0.0, 0.0), None, 0.95).value == [1.0]
    assert np.isnan(cosine_of(pairs(0.0, 4.0, 0.0), None, 0.95).value).all()


def test_errors_follow_from_the_covariance() -> None:
    # Only the inner product is uncertain: the cosine then errs by its error over the norms, Jaccard by its slope.
    covariance = np.zeros((1, 3, 3))
    covariance[0, 2, 2] = 0.04
    cosine = cosine_of(pairs(100.0, 100.0, 50.0), covariance, 0.95)
    assert cosine.stderr == pytest.approx([0.2 / 100])
    jaccard = jaccard_of(pairs(100.0, 100.0, 50.0), covariance, 0.95)
    assert jaccard.value == pytest.approx([50 / 150])
    assert jaccard.stderr == pytest.approx([0.2 * (1 + 50 / 150) / 150])
    assert jaccard.low < jaccard.value < jaccard.high
    assert np.isnan(jaccard_of(pairs(-1.0, -1.0, 0.0), covariance, 0.95).value).all()
