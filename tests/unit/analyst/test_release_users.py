"""Who is in a release, how users are named, and how far apart they are."""

from typing import Any

import numpy as np
import pytest
from tests.matrices import publish_matrix
from tests.plans import plan_of
from tests.releases import PARTS, PEOPLE, RESOLUTION, every_mechanism, parts, release_of, same, silent
from tests.streams import Recorded

from dimly.analyst import Estimate, Release
from dimly.errors import ParameterError
from dimly.mechanisms import MECHANISMS


@every_mechanism
def test_a_release_says_who_is_in_it_and_what_it_promises(mechanism: str) -> None:
    release = release_of(mechanism)
    assert len(release) == 30
    assert release.users.tolist() == list(range(30))
    assert 7 in release
    assert np.int32(7) in release
    assert all(other not in release for other in (30, -1, 2**64 - 1, 2**80, "07", 7.0, True, None, [7]))
    assert release.plan == plan_of(mechanism)
    assert not release.private
    assert release.guarantee.startswith("NOT PRIVATE")
    assert repr(release).startswith(f"<Release of 30 users by {mechanism}, plan ")
    assert "NOT PRIVATE" in repr(release)
    assert not release.values.flags.writeable


@pytest.mark.parametrize("name", ["user é", "somebody whose name is longer than NumPy keeps inside of an array: "])
@pytest.mark.parametrize("mechanism", ["counting+laplace", "randomized-response", "noisy-distances"])
def test_users_may_be_named_by_text(mechanism: str, name: str) -> None:
    names = [f"{name}{i}" for i in range(30)]
    order = np.argsort(names)
    shuffled = Release(publish_matrix(PEOPLE, plan_of(mechanism), users=names, words=Recorded(7)))
    sorted_first = Release(publish_matrix(PEOPLE[order], plan_of(mechanism), words=Recorded(7)))
    position = {names[i]: place for place, i in enumerate(order)}
    a, b = names[4], names[21]
    assert a in shuffled
    assert "someone else" not in shuffled
    assert a + "\0" not in shuffled
    assert 4 not in shuffled
    same(shuffled.distance(a, b), sorted_first.distance(position[a], position[b]))
    for form in (list, np.array, lambda ids: np.array(ids, object), lambda ids: np.array(ids, np.dtypes.StringDType())):
        same(shuffled.distances(form([a, b]), form([b, names[0]])), shuffled.distances([a, b], [b, names[0]]))


@every_mechanism
def test_ids_may_come_in_any_form(mechanism: str) -> None:
    release = release_of(mechanism)
    expected = release.distances([3, 4, 5], [6, 7, 8])
    for form in (tuple, np.array, lambda ids: np.array(ids, np.uint8), lambda ids: np.array(ids, object)):
        same(release.distances(form([3, 4, 5]), form([6, 7, 8])), expected)
    assert release.distances([], []).value.shape == (0,)
    assert release.distances([], 3).value.shape == (0,)
    assert release.distance_matrix([]).value.shape == (0, 0)


@every_mechanism
@pytest.mark.parametrize("unknown", [30, -1, 2**64 - 1])
def test_who_is_not_in_it_is_refused_by_name(mechanism: str, unknown: int) -> None:
    with pytest.raises(ParameterError, match=f"users must be in this release, but {unknown} is not"):
        release_of(mechanism).distance(0, unknown)


def test_of_many_who_are_not_in_it_three_are_named() -> None:
    with pytest.raises(ParameterError, match=r"but 40, 41, 42 and 1,997 more are not\. Ids go from 0 to 29\."):
        release_of("counting+laplace").distances(3, [5, *range(40, 2040)])


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("Ada", "Did you mean 'ada'?"),
        (" ada ", "Did you mean 'ada'?"),
        ("EVE", "Did you mean 'Eve'?"),
        ("42", "Did you mean '0042'?"),
        ("adda", "Did you mean 'ada'?"),
        ("customer-18", "Did you mean 'customer-19' or 'customer-17'?"),
        ("zoe", "but 'zoe' is not. release.users"),
        ("", "but '' is not. release.users"),
        ("a\x1b[2J", r"but 'a\x1b[2J' is not. release.users"),
        ("x" * 5000, f"but '{'x' * 60}…' is not. release.users"),
    ],
)
def test_ids_that_are_spelled_alike_are_named(asked: str, hint: str) -> None:
    users = sorted(["ada", "Eve", "0042", "customer-17", "customer-19", "y" * 5000])
    plan = plan_of("counting+laplace")
    release = Release(publish_matrix(PEOPLE[: len(users)], plan, users=users, words=Recorded(7)))
    with pytest.raises(ParameterError, match="users must be in this release") as raised:
        release.distance("ada", asked)
    assert hint in str(raised.value)
    assert len(str(raised.value)) < 200


def test_of_numbers_the_range_is_told() -> None:
    release = release_of("counting+laplace")
    with pytest.raises(ParameterError, match=r"300 is not\. Ids go from 0 to 29\."):
        release.distance(0, 300)


@pytest.mark.parametrize("ids", ["07", 7.0, [7.0, 8.0], [True, False], None, ["x", 8], [[1], [2, 3]], 2**80, object()])
def test_integers_are_asked_for_where_ids_are_integers(ids: Any) -> None:
    with pytest.raises(ParameterError, match="users must be integers, as in this release"):
        release_of("counting+laplace").distances(ids, 1)


@pytest.mark.parametrize("ids", [True, None, b"a", np.array([b"a"]), 7.0])
def test_text_is_asked_for_where_ids_are_text(ids: Any) -> None:
    plan = plan_of("counting+laplace")
    release = Release(publish_matrix(PEOPLE[:2], plan, users=["7", "a"], words=Recorded(7)))
    with pytest.raises(ParameterError, match="users must be text, as in this release"):
        release.distances(ids, "a")


def test_ids_come_one_by_one_or_in_one_list() -> None:
    with pytest.raises(ParameterError, match="users must be one id or a list of ids"):
        release_of("counting+laplace").distances([[0, 1]], [[2, 3]])


@every_mechanism
def test_both_sides_must_be_equally_many(mechanism: str) -> None:
    with pytest.raises(ParameterError, match="equally many users, got 2 and 3"):
        release_of(mechanism).distances([0, 1], [2, 3, 4])


def test_a_distance_is_of_two() -> None:
    with pytest.raises(ParameterError, match="Use distances"):
        release_of("counting+laplace").distance([0, 1], 2)  # type: ignore[arg-type]


# --- distances ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mechanism", "resolution"),
    [
        *((mechanism, 1) for mechanism in MECHANISMS),
        *((mechanism, RESOLUTION) for mechanism in MECHANISMS if mechanism != "randomized-response"),
    ],
)
def test_distances_agree_in_every_form(mechanism: str, resolution: int) -> None:
    release = release_of(mechanism, resolution)
    chosen = [5, 0, 29, 12]
    matrix = release.distance_matrix(chosen)
    assert matrix.value.shape == (4, 4)
    assert not parts(matrix)[:, range(4), range(4)].any()
    np.testing.assert_allclose(parts(matrix), parts(matrix).transpose(0, 2, 1), rtol=1e-12)
    rows, columns = np.triu_indices(4, 1)
    lists = release.distances(np.array(chosen)[rows], np.array(chosen)[columns])
    np.testing.assert_allclose(parts(matrix)[:, rows, columns], parts(lists), rtol=1e-9)
    for i, (a, b) in enumerate(zip(rows, columns, strict=True)):
        one = release.distance(chosen[a], chosen[b])
        assert all(type(getattr(one, part)) is float for part in PARTS)
        np.testing.assert_allclose(parts(one), parts(lists)[:, i], rtol=1e-9)
        same(one, release.distance(chosen[b], chosen[a]))
    same(release.distances(5, [0, 29]), release.distances([5, 5], [0, 29]))
    everyone = release.distance_matrix()
    assert everyone.value.shape == (30, 30)
    np.testing.assert_allclose(parts(everyone)[:, 5, 12], parts(matrix)[:, 0, 3], rtol=1e-9)


@every_mechanism
def test_nobody_is_at_any_distance_from_himself(mechanism: str) -> None:
    release = release_of(mechanism)
    assert release.distance(3, 3) == Estimate(0.0, 0.0, 0.0, 0.0)
    found = parts(release.distances([3, 4], [3, 5]))
    assert not found[:, 0].any()
    assert found[1, 1] > 0
    assert not parts(release.distance_matrix([3, 3])).any()


def test_noisy_distances_hold_every_pair() -> None:
    release = silent("noisy-distances")
    truth = ((PEOPLE[:, None] - PEOPLE[None]) ** 2).sum(axis=2)
    np.testing.assert_array_equal(release.distance_matrix().value, truth)
    rows, columns = np.nonzero(~np.eye(30, dtype=bool))
    np.testing.assert_array_equal(release.distances(rows, columns).value, truth[rows, columns])
    assert release.hamming(3, 8) == release.distance(3, 8)


def test_noisy_distances_tell_nothing_else() -> None:
    release = release_of("noisy-distances")
    for ask, what in (
        (lambda: release.inner_product(0, 1), "inner products"),
        (lambda: release.cosine(0, 1), "inner products"),
        (lambda: release.jaccard(0, 1), "inner products"),
        (lambda: release.norm(0), "norms"),
        (lambda: release.attribute(0, "1"), "attributes"),
        (lambda: release.project({"1"}), "vectors of one's own"),
    ):
        with pytest.raises(ParameterError, match=f"noisy distances say nothing about {what}"):
            ask()
    vector = release_of("counting+laplace").project({"1"})
    for pair in ((0, vector), (vector, 0)):
        with pytest.raises(ParameterError, match="pairs of published people only"):
            release.distance(*pair)


def test_noisy_distances_of_one_person_are_none() -> None:
    release = Release(publish_matrix(PEOPLE[:1], plan_of("noisy-distances"), words=Recorded(7)))
    assert release.distance_matrix().value.tolist() == [[0.0]]


def test_a_matrix_has_its_limits() -> None:
    with pytest.raises(ParameterError, match="users must be at most 3000 for a matrix, got 10001"):
        release_of("counting+laplace").distance_matrix([0] * 10_001)
