import math
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr
from sklearn.metrics import adjusted_rand_score
from tests.unit.planner.questions import ask

from dimly.analyst.structure import denoise as denoising
from dimly.mechanisms.error.models import FlippedBitsError, Noise, NoisyDistanceError, SignedSketchError
from dimly.planner.advice import answer
from dimly.planner.predicted_figures import (
    PASSES,
    SEARCHED,
    SUBSPACE,
    closeness_by_coincidence,
    expected_agreement,
    expected_closeness,
    probability_of_own_group,
    ranking_probability,
    searched_share,
    share_found,
)
from dimly.planner.verdicts import COARSE
from dimly.privacy import Budget


def test_groups_show_only_above_the_transition() -> None:
    """A spike of variance gap/2g among n people and m numbers is lost below √(m/n) times the noise."""
    model, gap = SignedSketchError(200, 3.0, Noise(1.0, 3.0)), 4.0  # λ/s² = 1/3
    edge = 200 * 9
    assert expected_agreement(gap, 0.0, model, n_users=edge - 1) == 0.0
    shares = [expected_agreement(gap, 0.0, model, n_users=n) for n in (edge + 100, 10 * edge, 1000 * edge)]
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] == pytest.approx(expected_agreement(gap, 0.0, model, n_users=None), abs=1e-3)
    assert expected_agreement(gap, 1.0, SignedSketchError(8, 3.0, Noise(0.0, 0.0)), n_users=99) > 0.9
    assert expected_agreement(gap, 0.0, SignedSketchError(8, 3.0, Noise(0.0, 0.0)), n_users=99) == 1.0
    assert expected_agreement(gap, 0.0, NoisyDistanceError(Noise(1.0, 3.0)), n_users=99) == 0.0
    assert expected_agreement(3.0, 0.0, FlippedBitsError(100, 0.25), n_users=None, n_groups=2) == pytest.approx(
        (2 * float(ndtr(1.0)) - 1) ** 2, abs=1e-3
    )


@pytest.mark.parametrize("n_groups", [2, 6])
def test_expected_agreement_is_that_of_normal_groups(n_groups: int) -> None:
    """People around equally far middles, put to the nearest: with known middles nothing but the placing is uncertain.

    20,000 people: the index is off by less than 0.02 but with probability 1e-6 (its standard error is below 0.004).
    """
    generator = np.random.default_rng(5)
    middles, gap = np.eye(n_groups) * math.sqrt(3.0), 6.0
    groups = generator.integers(n_groups, size=20_000)
    people = middles[groups] + generator.normal(size=(20_000, n_groups))
    found = adjusted_rand_score(groups, people.argmax(axis=1))
    model = SignedSketchError(n_groups, 3.0, Noise(1.0, 3.0))
    assert expected_agreement(gap, 0.0, model, n_users=None, n_groups=n_groups) == pytest.approx(found, abs=0.02)
    assert expected_agreement(1.2 * gap, 0.0, model, n_users=None, n_groups=n_groups) > found + 0.02  # power


def test_expected_closeness_is_that_of_normal_distances() -> None:
    """Ten of 2,000 by noisy distances, 400 times: off by less than 0.05 but with probability 1e-6."""
    generator = np.random.default_rng(6)
    true = generator.normal(size=(400, 2_000))
    noisy = true + 1.5 * generator.normal(size=true.shape)
    best = np.sort(true, axis=1)[:, :10].mean()
    found = np.take_along_axis(true, np.argsort(noisy, axis=1)[:, :10], axis=1).mean()
    assert expected_closeness(-best, 1.5, n_users=2_000) == pytest.approx(found / best, abs=0.05)
    assert expected_closeness(-best, 1.2, n_users=2_000) > found / best + 0.05  # power: 20 % less noise
    assert expected_closeness(1.0, 0.0, n_users=5) == 1.0


def test_closeness_by_coincidence_is_that_of_light_people() -> None:
    """Three of 50 attributes each, ten of 1,000 people, errors that grow with the distance, 1,000 times."""
    generator = np.random.default_rng(7)
    true = (6 - 2 * generator.binomial(3, 0.06, size=(1_000, 1_000))).astype(np.float64)

    def errors(distances: NDArray[np.float64]) -> NDArray[np.float64]:
        return 0.8 * np.sqrt(1 + distances)

    noisy = true + errors(true) * generator.normal(size=true.shape)
    near, far = np.sort(true, axis=1)[:, :10].mean(), true.mean()
    found = np.take_along_axis(true, np.argsort(noisy, axis=1)[:, :10], axis=1).mean()
    share = (far - found) / (far - near)
    predicted = closeness_by_coincidence(near, far, errors, weight=3.0, n_users=1_000)
    assert predicted == pytest.approx(share, abs=0.03)
    less = closeness_by_coincidence(near, far, lambda d: 0.8 * errors(d), weight=3.0, n_users=1_000)
    assert less > share + 0.05  # power: 20 % less noise
    assert (
        expected_closeness(far - near, float(errors(np.array(far))), n_users=1_000) > share + 0.1
    )  # if it were normal


@pytest.mark.parametrize("weight", [None, 400.0, 3e6])
def test_for_heavier_people_and_equal_errors_both_closenesses_agree(weight: float | None) -> None:
    high = 50.0 if weight is None else 1.8 * weight
    for error, n_users in ((0.1 * high, 1_000), (0.3 * high, 30), (0.2 * high, 10**9)):
        found = closeness_by_coincidence(
            high / 2, high, partial(np.full_like, fill_value=error), weight=weight, n_users=n_users
        )
        assert found == pytest.approx(expected_closeness(high / 2, error, n_users=n_users), abs=0.01)


def test_who_is_nearer_to_his_own_group() -> None:
    flips = FlippedBitsError(100, 0.25)  # variance 3/4 in each bit
    assert probability_of_own_group(3.0, 0.0, flips) == pytest.approx(float(ndtr(1.0)))
    sketch = SignedSketchError(10, 3.0, Noise(0.5, 1.0))
    assert probability_of_own_group(4.0, 10.0, sketch) == pytest.approx(float(ndtr(1.0)))
    assert probability_of_own_group(4.0, 0.0, SignedSketchError(10, 3.0, Noise(0.0, 0.0))) == 1.0
    assert probability_of_own_group(4.0, 0.0, NoisyDistanceError(Noise(0.5, 1.0))) == 0.5


def test_the_share_of_neighbors_that_are_right() -> None:
    """Circles of eleven friends, squared distances 92 and 388: 24 and 5 % were right at ε = 0.5, 81 and 49 % at 1."""
    measured = {(0.5, 990): 0.24, (0.5, 19_998): 0.05, (1.0, 990): 0.81, (1.0, 19_998): 0.49}
    for (epsilon, n_users), share in measured.items():
        arguments = {"purpose": "neighbors", "distance": (92, 388), "weight": 200, "n_attributes": 5_000}
        found = answer(ask(Budget(epsilon), n_users=n_users, **arguments))
        assert found.share_found is not None
        assert found.share_found == pytest.approx(share, abs=0.15)
        assert (
            f"if ten of {n_users:,} people are near, about {100 * found.share_found:.0f} % of the ten found are right"
            in found.words
        )
        assert ("denoising finds more" in found.words) is (found.verdict == "unknown")
    assert share_found(10.0, 1.0, 1.0, n_users=15) == pytest.approx(1.0)
    assert share_found(10.0, 0.0, 1.0, n_users=15) == 1.0
    assert answer(ask(purpose="neighbors")).share_found is None


def test_what_a_hundred_people_can_tell() -> None:
    """The reason for the lower threshold: ten times less error makes 0.55 as good as 0.9."""
    assert ranking_probability(100.0, 562.7) == pytest.approx(COARSE["distances"], abs=1e-4)
    assert ranking_probability(100.0, 56.27) == pytest.approx(0.9, abs=0.005)
    assert ranking_probability(1.0, 0.0) == 1.0


def test_the_planner_knows_how_denoising_searches() -> None:
    assert (SEARCHED, SUBSPACE, PASSES) == (denoising.WIDEST, denoising._RANK + denoising._SPARE, denoising._PASSES)


def test_weak_groups_are_missed_where_directions_are_searched_for() -> None:
    def agreement(epsilon: float, n_attributes: int) -> float:
        flip = FlippedBitsError(n_attributes, 1 / (1 + math.exp(epsilon)))
        return expected_agreement(38.0, 153.0, flip, n_users=20_000)

    # The demo's people, 5,000 attributes: segments agreed to 0.00, 0.55 and 0.85.
    assert agreement(0.5, 5_000) == 0.0
    assert agreement(0.7, 5_000) == pytest.approx(0.55, abs=0.1)
    assert agreement(1.0, 5_000) > 0.8
    # With the whole covariance in hand a part would be found.
    assert agreement(0.5, SEARCHED) > 0.2
    # So many people that nothing is missed.
    many = expected_agreement(38.0, 153.0, FlippedBitsError(5_000, 0.1), n_users=10_000_000)
    assert many == pytest.approx(expected_agreement(38.0, 153.0, FlippedBitsError(5_000, 0.1), n_users=None), abs=1e-3)


@pytest.mark.parametrize(("spike", "aspect"), [(0.8, 0.25), (1.8, 0.25), (2.5, 0.25), (1.6, 0.05)])
def test_what_a_search_finds(spike: float, aspect: float) -> None:
    """The search of denoising, on a covariance of known spectrum; the first direction is too weak to be kept."""
    generator, size = np.random.default_rng(0), 4_800
    noise = generator.standard_normal((round(300 / aspect), 300))
    law = np.linalg.eigvalsh(noise.T @ noise / len(noise))
    variances = np.interp((np.arange(size) + 0.5) / size, (np.arange(300) + 0.5) / 300, law)
    variances[:3] = (1 + spike) * (1 + aspect / spike)
    basis = generator.standard_normal((size, SUBSPACE))
    for _ in range(PASSES):
        basis = np.linalg.qr(variances[:, None] * basis)[0]
    seen, turn = np.linalg.eigh(basis.T @ (variances[:, None] * basis))
    kept = (basis @ turn)[:, seen > (1 + aspect**0.5) ** 2]
    assert searched_share(spike, aspect, size) == pytest.approx((kept[:3] ** 2).sum() / 3, abs=0.05)
    assert searched_share(spike, aspect, 2 * size) < searched_share(spike, aspect, size) or spike == 0.8


def test_nobody_is_nearer_where_one_distance_is_stated() -> None:
    assert closeness_by_coincidence(400.0, 400.0, np.sqrt, weight=300.0, n_users=1_000) == 0.0
