"""Releases of different kinds together: they rank and group, better than either alone, and never measure."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from dimly.analyst import Release
from dimly.analyst.combine import combine
from dimly.analyst.joined_releases import Joined
from dimly.api import publish
from dimly.errors import ParameterError
from dimly.mechanisms import Directions, Plan
from dimly.privacy import Budget
from dimly.release.sketches import Sketches

N_GROUPS, D = 3, 120
GROUPS = np.arange(900) % N_GROUPS
NAMES = [str(i) for i in range(D)]
ODDS = 0.15 + 0.25 * (np.arange(D) % N_GROUPS == np.arange(N_GROUPS)[:, None])
PEOPLE = (np.random.default_rng(0).random((len(GROUPS), D)) < ODDS[GROUPS]).astype(int)
TOLD = Directions.of_values(NAMES, (np.arange(D)[:, None] % N_GROUPS == np.arange(2)) * 1.0, origin="tests")


def along(epsilon: float, users: NDArray[Any] | None = None) -> Release:
    people = PEOPLE if users is None else PEOPLE[: len(users)]
    return publish(people, Plan.of("directions+laplace", Budget(epsilon), directions=TOLD), users=users)


def ordinary(mechanism: str = "counting+laplace", epsilon: float = 3.0) -> Release:
    arguments: dict[str, Any] = {"n_attributes": D} if mechanism == "randomized-response" else {"k": 64}
    return publish(PEOPLE, Plan.of(mechanism, Budget(epsilon), **arguments))


def agreement(found: Release | Joined) -> float:
    return float(adjusted_rand_score(GROUPS, found.segments(N_GROUPS).labels))


def nearness(found: Release | Joined) -> float:
    """Return the average true distance of ten neighbors of some people."""
    asked = range(0, 900, 30)
    return float(np.mean([(PEOPLE[found.neighbors(i, 10).users] != PEOPLE[i]).sum(axis=1).mean() for i in asked]))


@pytest.mark.parametrize("mechanism", ["counting+laplace", "randomized-response"])
def test_together_they_see_more_than_either(mechanism: str) -> None:
    epsilon = {"counting+laplace": 2.0, "randomized-response": 1.0}[mechanism]
    releases = [along(0.25), ordinary(mechanism, epsilon)]
    together = combine(releases)
    assert isinstance(together, Joined)
    alone = [agreement(release) for release in releases]
    assert max(alone) < 0.9  # else there would be nothing to gain
    assert agreement(together) > max(alone) + 0.03
    assert nearness(together) < min(nearness(release) for release in releases) + 0.3


def test_a_release_that_says_nothing_does_no_harm() -> None:
    clear, vague = along(2.0), ordinary(epsilon=0.02)
    assert agreement(combine([clear, vague])) > agreement(clear) - 0.05


def test_distances_are_refused_in_one_line() -> None:
    together = combine([along(1.0), ordinary()])
    for ask in (together.distance, together.distances):
        with pytest.raises(ParameterError, match="never averaged"):
            ask(1, 2)
    with pytest.raises(ParameterError, match="of one kind"):
        together.segments(2).distances()
    with pytest.raises(ParameterError, match="distance and weight must be left out"):
        combine([along(1.0), ordinary()], distance=10)
    assert "never averaged" in together.words
    assert "directions+laplace" in repr(together)
    assert together.private


def test_whom_they_are_about() -> None:
    some = along(1.0, users=np.arange(0, 400, 2))
    together = combine([some, ordinary()])
    assert together.users.tolist() == list(range(0, 400, 2))
    assert (len(together), 2 in together, 3 in together) == (200, True, False)
    found = together.neighbors(2, 3, metric="cosine")
    assert (len(found), found.metric, 2 in found.users) == (3, "cosine", False)
    with pytest.raises(ParameterError, match="who must be one user"):
        together.neighbors(3)
    with pytest.raises(ParameterError, match="n must be an integer"):
        together.neighbors(2, 200)
    with pytest.raises(ParameterError, match="metric must be"):
        together.neighbors(2, metric="jaccard")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="nobody is in all"):
        len(combine([along(1.0, users=np.arange(1000, 1100)), ordinary()]))


def test_people_of_whom_one_release_knows_nothing_come_last() -> None:
    first, second = along(2.0), ordinary()
    values = first.values.copy()
    values[5, 1] = np.iinfo(values.dtype).max
    known = Release(Sketches(first.plan, first.users, values))
    together = combine([known, second])
    assert together.neighbors(1, 899).users[-1] == 5
    assert together.segments(2).labels[5] == -1
    assert "NOT PRIVATE" in repr(together)


def test_noisy_distances_place_nobody() -> None:
    plan = Plan.of("noisy-distances", Budget(1.0, 1e-6), n_attributes=D, n_users=20)
    with pytest.raises(ParameterError, match="must be of points"):
        combine([along(1.0), publish(PEOPLE[:20], plan)])
