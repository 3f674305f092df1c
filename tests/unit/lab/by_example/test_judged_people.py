from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.typing import NDArray

from dimly.lab.by_example.judged_people import FigureName, JudgedPeople, children, extrapolated
from dimly.mechanisms import Plan
from dimly.privacy import Budget

N, D = 60, 40


def table(seed: int = 0) -> scipy.sparse.csr_array:
    generator = np.random.default_rng(seed)
    likes = np.full((2, D), 0.1)
    likes[0, : D // 2] = likes[1, D // 2 :] = 0.7
    return scipy.sparse.csr_array((generator.random((N, D)) < likes[np.arange(N) % 2]).astype(np.float32))


def without(people: scipy.sparse.csr_array, where: Any) -> scipy.sparse.csr_array:
    dense = np.asarray(people.todense())
    dense[where] = 0
    return scipy.sparse.csr_array(dense)


def judged() -> NDArray[np.bool_]:
    return np.arange(N) < N // 2


def judged_people(size: int = 240) -> JudgedPeople:
    return JudgedPeople.of(table(), judged(), size=size)


def named() -> list[str]:
    return [f"place {i}" for i in range(D)]


def test_people_who_are_judged_come_first_and_children_fill_up() -> None:
    made = judged_people()
    assert made.table.shape == (240, D)
    assert made.repeats == 2
    for start in (0, made.n_judged):
        assert (made.table[start : start + made.n_judged] != table()[judged()]).nnz == 0


def test_nobody_is_made_up_where_there_is_no_room_beside_those_who_are_judged() -> None:
    made = judged_people(size=10)
    assert made.table.shape[0] == N // 2
    assert made.repeats == 1


def test_children_have_attributes_of_their_parents_alone_and_as_many() -> None:
    parents = without(table(), np.s_[:, :3])
    made = children(parents, 2_000)
    assert made[:, :3].nnz == 0
    assert set(np.unique(made.data)) == {1.0}
    mean, spread = parents.sum(axis=1).mean(), parents.sum(axis=1).std()
    # Standard error of the mean of 2,000 is a 45th of the spread; parents are drawn with repeats, like them.
    assert abs(made.sum(axis=1).mean() - mean) < 0.5 * spread
    assert (children(parents, 50) != children(parents, 50)).nnz == 0
    assert (children(parents, 50) != children(parents, 50, seed=1)).nnz > 0


def test_children_keep_what_goes_together() -> None:
    made = np.asarray(children(table(), 1_000).todense())
    apart = made[:, : D // 2].sum(axis=1) - made[:, D // 2 :].sum(axis=1)
    assert np.mean(np.abs(apart) > D / 8) > 0.9  # of one kind or the other, hardly in between


def test_without_noise_everything_is_as_it_is() -> None:
    made = judged_people()
    release = made.published(Plan.of("randomized-response", Budget(30.0), vocabulary=named()), named())
    figures: tuple[FigureName, ...] = ("error", "ranking", "closeness", "recall", "agreement")
    found = made.measured(release, figures, n_groups=2, n_users=made.n_judged)
    assert found["error"] == pytest.approx(0, abs=1e-6)
    assert found["ranking"] == 1
    assert found["agreement"] > 0.7  # the groups are found in a sketch, with collisions
    assert found["recall"] > 0.6  # ranked by denoised points, and not by cosines
    assert found["closeness"] > 0.8


def test_with_noise_alone_nothing_is_found() -> None:
    made = judged_people()
    release = made.published(Plan.of("counting+laplace", Budget(1e-3), k=8, dtype="int32"), named())
    found = made.measured(release, ("ranking", "closeness", "agreement"), n_groups=2, n_users=made.n_judged)
    assert abs(found["ranking"] - 0.5) < 0.2
    assert found["closeness"] < 0.4
    assert found["agreement"] < 0.4


def test_two_groups_come_out_again() -> None:
    assert judged_people().soundness[2] > 0.9
    assert judged_people().soundest >= 2


def test_a_list_from_the_others_lacks_what_only_the_judged_have() -> None:
    made = JudgedPeople.of(without(table(), np.s_[N // 2 :, 0]), judged(), size=100)
    names = made.names(named())
    assert names == named()[1:]
    plan = Plan.of("randomized-response", Budget(1.0), vocabulary=names)
    assert len(made.published(plan, named())) == 100


def test_one_share_alone_says_nothing_of_others() -> None:
    assert extrapolated([0.1], [0.4], 0.001) == 0.4


def test_people_who_are_all_alike_have_two_groups_that_are_not_sound() -> None:
    alike = JudgedPeople.of(scipy.sparse.csr_array(np.ones((N, 1), np.float32)), judged(), size=N)
    assert alike.soundness == {}
    assert alike.soundest == 2
