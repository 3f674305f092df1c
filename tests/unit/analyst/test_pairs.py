"""Similarities from exact and from uncertain norms and inner products; releases test the rest."""

from functools import partial

import numpy as np
import pytest

from dimly.analyst.estimate import within_one
from dimly.analyst.pairs import Pairs, cosine_of, jaccard_of
from dimly.mechanisms.error.models import SILENT, SignedSketchError


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
    cosine = cosine_of(pairs(100.0, 100.0, 50.0), lambda _: covariance, 0.95)
    assert (cosine.low, cosine.high) == pytest.approx((0.5 - 1.96 * 0.002, 0.5 + 1.96 * 0.002), abs=2**-11)
    assert cosine.stderr == pytest.approx([0.2 / 100])
    jaccard = jaccard_of(pairs(100.0, 100.0, 50.0), covariance, 0.95)
    assert jaccard.value == pytest.approx([50 / 150])
    assert jaccard.stderr == pytest.approx([0.2 * (1 + 50 / 150) / 150])
    assert jaccard.low < jaccard.value < jaccard.high
    assert np.isnan(jaccard_of(pairs(-1.0, -1.0, 0.0), covariance, 0.95).value).all()


@pytest.mark.parametrize(("k", "cosine"), [(4, 0.6), (8, 0.3), (8, 0.9), (32, 0.6), (32, 0.95)])
def test_intervals_of_cosines_hold_where_few_numbers_were_projected(k: int, cosine: float) -> None:
    """5,000 pairs, without noise: fewer than 93 % hold the truth with probability 1e-6, were it 95."""
    generator = np.random.default_rng(1)
    x, own = generator.normal(size=(2, 5_000, k)) * 10 / k**0.5
    y = cosine * x + (1 - cosine**2) ** 0.5 * own
    xx, yy, xy = (np.einsum("nk,nk->n", *both) for both in ((x, x), (y, y), (x, y)))
    model = SignedSketchError(k, 3.0, SILENT, bits=False)
    found = cosine_of(Pairs(xx, yy, xy, xx + yy - 2 * xy), partial(model.joint, (xx, yy)), 0.95, least=-1.0)
    assert np.mean((found.low <= cosine) & (cosine <= found.high)) > 0.93
    # Power: those by the error at the estimate itself do not.
    plain = within_one(found.value, found.stderr, 0.95, least=-1.0)
    assert np.mean((plain.low <= cosine) & (cosine <= plain.high)) < 0.93
