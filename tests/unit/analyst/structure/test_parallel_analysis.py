import numpy as np
import pytest
from numpy.typing import NDArray
from tests.matrices import publish_matrix
from tests.plans import plan_of
from tests.releases import READABLE, release_of
from tests.streams import Recorded

from dimly.analyst import Release
from dimly.analyst.structure import parallel_analysis as structure
from dimly.analyst.structure.parallel_analysis import Shuffling, Structure, structure_of, unmixed
from dimly.mechanisms import Plan
from dimly.privacy import Budget

TWO = (np.random.default_rng(0).random((2, 100)) < 0.4)[np.arange(400) % 2]
ALIKE = np.random.default_rng(4).random((400, 100)) < 0.4


@pytest.mark.parametrize("mechanism", ["counting+laplace", "hashing+laplace", "randomized-response", "sparse+laplace"])
def test_two_kinds_of_people(mechanism: str) -> None:
    found = Release(publish_matrix(TWO, plan_of(mechanism), words=Recorded(3))).structure
    assert found.components == 1
    assert found.strongest > found.threshold > 1
    assert 0 < found.share <= 1
    assert found.words.startswith("1 component beyond")


@pytest.mark.parametrize("mechanism", READABLE)
def test_every_mechanism_is_looked_at(mechanism: str) -> None:
    found = release_of(mechanism).structure  # thirty people of independent attributes
    assert found.components == 0
    assert found.share == 0
    assert found.words == "no structure beyond what independent attributes would show"
    assert structure_of(release_of(mechanism)._sketches) == found


def test_fewer_than_twenty_people_show_nothing() -> None:
    release = Release(publish_matrix(TWO[:19], plan_of("hashing+laplace"), words=Recorded(3)))
    assert release.structure == Structure(0, 0.0, 0.0, float("inf"))


@pytest.mark.parametrize("n", [0, 400])
def test_nobody_and_a_single_coordinate_show_nothing(n: int) -> None:
    plan = Plan.of("hashing+laplace", Budget(1.0), k=1 if n else 8)
    release = Release(publish_matrix(TWO[:n], plan, words=Recorded(3)))
    assert release.structure == Structure(0, 0.0, 0.0, float("inf"))


def test_a_coordinate_that_never_varies_does_not_matter() -> None:
    generator = np.random.default_rng(0)
    plan = plan_of("hashing+laplace")
    people = generator.normal(size=(100, 8)).astype(np.float32)
    people[:, 3] = 0
    table = structure._ComparedPeople.of(people, plan)
    assert np.isfinite(table.people).all()
    assert structure._ComparedPeople.of(np.zeros((100, 8), np.float32), plan).signal == 0


@pytest.mark.parametrize(("people", "n_shuffles"), [(TWO, 12), (ALIKE, 4)])
def test_nothing_beyond_chance_is_told_by_few_shuffles(
    people: NDArray[np.bool_], n_shuffles: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    release = Release(publish_matrix(people, plan_of("hashing+laplace"), words=Recorded(3)))
    shuffle = Shuffling.__call__

    def counted(self: Shuffling, generator: np.random.Generator) -> NDArray[np.float32]:
        seen.append(1)
        return shuffle(self, generator)

    monkeypatch.setattr(Shuffling, "__call__", counted)
    found = release.structure
    assert len(seen) == n_shuffles
    assert (found.components > 0) == (n_shuffles == 12)
    assert np.isfinite(found.threshold)


def correlation(people: NDArray[np.float32], a: int, b: int) -> float:
    return float(np.corrcoef(people[:, a], people[:, b]).ravel()[1])


def alleles(n_groups: int) -> NDArray[np.bool_]:
    """Return 400 people and 3,000 variants, whose frequencies drift apart in the groups (Balding and Nichols)."""
    generator = np.random.default_rng(4)
    common = generator.uniform(0.05, 0.5, 3_000)
    likely = generator.beta(common * 19, (1 - common) * 19, (n_groups, 3_000))
    return generator.random((400, 3_000)) < likely[np.arange(400) % n_groups]


def test_few_people_are_compared_by_all_of_many_coordinates() -> None:
    """Three groups that segments found with an agreement of 0.96, where 1,024 sums of coordinates showed nothing."""
    plan = Plan.of("randomized-response", Budget(1.0), n_attributes=3_000)
    grouped, alike = (Release(publish_matrix(alleles(n), plan, words=Recorded(3))) for n in (3, 1))
    assert grouped.structure.components == 2
    assert alike.structure.components == 0


def test_many_people_and_mixed_attributes_are_compared_by_sums() -> None:
    assert [structure._widest(n) for n in (100_000, 2_048, 1_000, 400, 1)] == [1_024, 1_024, 4_294, 20_971, 1 << 23]
    plan = Plan.of("sign+laplace", Budget(8.0), k=1_100)
    assert Release(publish_matrix(TWO[:30], plan, words=Recorded(3))).structure.threshold < float("inf")


def test_shuffling_keeps_each_coordinate_and_nothing_between_them() -> None:
    generator = np.random.default_rng(0)
    factor = generator.normal(size=(2000, 1))
    people = (factor * np.array([1, -1, 1, -1]) + 0.3 * generator.normal(size=(2000, 4)) + 3).astype(np.float32)
    made = Shuffling.of(people)(np.random.default_rng(1))
    np.testing.assert_array_equal(np.sort(made, axis=0), np.sort(people, axis=0))
    assert abs(correlation(people, 0, 2)) > 0.8
    assert abs(correlation(made, 0, 2)) < 0.2


@pytest.mark.parametrize("n", [20, 64, 127, 300])
def test_shuffling_is_that_of_numpy_in_strata(n: int) -> None:
    people = np.random.default_rng(0).standard_normal((n, 5)).astype(np.float32)
    expected, generator = people[np.argsort(people @ people.mean(axis=0), kind="stable")], np.random.default_rng(1)
    whole = max(n // 64 - 1, 0) * 64
    for start, end in [*((at, at + 64) for at in range(0, whole, 64)), (whole, n)]:
        expected[start:end] = generator.permuted(expected[start:end], axis=0)
    np.testing.assert_array_equal(Shuffling.of(people)(np.random.default_rng(1)), expected)


def test_shuffling_keeps_activity() -> None:
    generator = np.random.default_rng(0)
    weight = generator.lognormal(0, 1, (2000, 1))
    people = (weight * np.ones(20) + 0.1 * generator.normal(size=(2000, 20))).astype(np.float32)
    made = Shuffling.of(people)(np.random.default_rng(1))
    assert correlation(made, 0, 1) > 0.8  # the most active differ among themselves


def test_several_components_in_words() -> None:
    words = Structure(3, 0.25, 4.0, 2.0).words
    assert words.startswith("3 components")
    assert "which explain 25 % of how people differ, noise left out" in words


def test_which_families_mix_attributes() -> None:
    assert all(unmixed(plan_of(name)) for name in ("counting+laplace", "hashing+gaussian", "randomized-response"))
    assert not any(unmixed(plan_of(name)) for name in ("sparse+laplace", "sign+gaussian", "gaussian+gaussian"))
