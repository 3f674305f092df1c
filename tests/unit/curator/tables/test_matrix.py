"""From a table to a release: what is published of whom, in which order, and what is refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.typing import NDArray
from scipy.spatial.distance import pdist
from tests.matrices import publish_matrix
from tests.plans import N_ATTRIBUTES, N_USERS, SEED, plan_of
from tests.streams import NO_FLIPS, NO_NOISE, Recorded

from dimly.curator.people import people_of
from dimly.curator.perturb import Perturber
from dimly.curator.randomness import Keystream, WordSource
from dimly.curator.tables.matrix import publish_people
from dimly.errors import DataError, ParameterError
from dimly.mechanisms import MECHANISMS, Plan, Vocabulary
from dimly.privacy import Budget
from dimly.release import Sketches

SKETCHING = [mechanism for mechanism in MECHANISMS if "+" in mechanism]
TEXTS = [str(i) for i in range(N_ATTRIBUTES)]
every_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS)


def silence(mechanism: str) -> WordSource:
    return NO_FLIPS if mechanism == "randomized-response" else NO_NOISE


def bits(n: int = 30, d: int = N_ATTRIBUTES, *, seed: int = 0) -> NDArray[np.int64]:
    generator = np.random.default_rng(seed)
    table = (generator.random((n, d)) < generator.random((n, 1)) / 2).astype(np.int64)
    table[n // 2] = 0
    return table


MATRICES: dict[str, Callable[[NDArray[Any]], Any]] = {
    "bool": lambda table: table.astype(bool),
    "int": lambda table: table.astype(np.int32),
    "float": lambda table: table.astype(np.float64),
    **{name: getattr(scipy.sparse, f"{name}_array") for name in ("csr", "csc", "coo", "lil", "dok", "bsr")},
}
every_matrix = pytest.mark.parametrize("make", MATRICES.values(), ids=MATRICES.keys())


# What a matrix is made of is read before anything is known of the mechanism: each is tried once.
@pytest.mark.parametrize(
    ("mechanism", "make"),
    [(mechanism, list(MATRICES.values())[i % len(MATRICES)]) for i, mechanism in enumerate(SKETCHING)],
    ids=SKETCHING,
)
def test_sketches_without_noise_are_the_product_with_the_projection(
    mechanism: str, make: Callable[[NDArray[Any]], Any]
) -> None:
    plan = plan_of(mechanism)
    release = publish_matrix(make(bits()), plan, words=NO_NOISE)
    rows = scipy.sparse.csr_array(plan.rows(TEXTS).to_dense())
    np.testing.assert_array_equal(release.values, (scipy.sparse.csr_array(bits()) @ rows).toarray())
    assert release.values.dtype == plan.dtype
    assert release.plan == plan


@pytest.mark.parametrize("mechanism", SKETCHING)
def test_sketches_of_values_without_noise_are_the_product_at_the_resolution(mechanism: str) -> None:
    plan = plan_of(mechanism, resolution=5)
    values = np.random.default_rng(1).random((30, N_ATTRIBUTES)) * bits()
    for table in (values, scipy.sparse.csc_array(values)):
        release = publish_matrix(table, plan, words=NO_NOISE)
        exact = np.rint(5 * values) @ plan.rows(TEXTS).to_dense()
        np.testing.assert_array_equal(release.values, exact)
        # In the data's own units this is the projection of the rounded values.
        assert plan.projection is not None
        real = np.rint(5 * values) / 5 @ (plan.rows(TEXTS).to_dense() * plan.projection.matrix.scale)
        np.testing.assert_allclose(release.values * plan.scale, real, atol=1e-12)


@every_matrix
def test_bits_without_flips_are_packed_from_the_lowest_on(make: Callable[[NDArray[Any]], Any]) -> None:
    release = publish_matrix(make(bits()), plan_of("randomized-response"), words=NO_FLIPS)
    np.testing.assert_array_equal(release.values, np.packbits(bits(), axis=1, bitorder="little"))
    assert release.values[0, 17 // 8] >> (17 % 8) & 1 == bits()[0, 17]


@every_matrix
@pytest.mark.parametrize("resolution", [1, 5])
def test_distances_without_noise_are_squared_and_condensed(
    make: Callable[[NDArray[Any]], Any], resolution: int
) -> None:
    table = bits()
    release = publish_matrix(make(table), plan_of("noisy-distances", resolution=resolution), words=NO_NOISE)
    np.testing.assert_array_equal(release.values, pdist(resolution * table, "sqeuclidean"))


@every_mechanism
def test_rows_are_published_by_user_and_never_by_arrival(mechanism: str) -> None:
    plan, table = plan_of(mechanism), bits()
    ids = np.random.default_rng(2).permutation(1000)[: len(table)] - 500
    in_order = np.argsort(ids)
    expected = publish_matrix(table[in_order], plan, users=ids[in_order], words=Recorded(1))
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(table))
        release = publish_matrix(table[order], plan, users=ids[order], words=Recorded(1))
        np.testing.assert_array_equal(release.users, np.sort(ids))
        # With the same words: the noise goes by the published row too.
        np.testing.assert_array_equal(release.values, expected.values)


@every_mechanism
def test_rows_of_values_follow_their_users_too(mechanism: str) -> None:
    if mechanism == "randomized-response":
        return
    plan = plan_of(mechanism, resolution=5)
    table = np.random.default_rng(3).random((30, N_ATTRIBUTES)) * bits()
    order = np.random.default_rng(4).permutation(len(table))
    one = publish_matrix(table, plan, words=NO_NOISE)
    other = publish_matrix(scipy.sparse.csr_array(table[order]), plan, users=order, words=NO_NOISE)
    np.testing.assert_array_equal(one.values, other.values)


def test_text_ids_are_ordered_by_code_point() -> None:
    ids = ["zoë", "Zoe", "zoe", "10", "9", "", "ä", "𝒶", "\uffff"]
    release = publish_matrix(np.eye(9), plan_of("counting+laplace"), users=ids, words=NO_NOISE)
    assert release.users.tolist() == sorted(ids)
    rows = plan_of("counting+laplace").rows([str(i) for i in range(9)]).to_dense()
    np.testing.assert_array_equal(release.values, rows[[ids.index(user) for user in sorted(ids)]])


@every_mechanism
def test_the_order_of_columns_does_not_matter(mechanism: str) -> None:
    plan, table = plan_of(mechanism), bits()
    expected = publish_matrix(table, plan, words=silence(mechanism)).values
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(N_ATTRIBUTES)
        names = [TEXTS[i] if i % 2 else int(i) for i in order]
        for shuffled in (table[:, order], scipy.sparse.csr_array(table[:, order])):
            release = publish_matrix(shuffled, plan, attributes=names, words=silence(mechanism))
            np.testing.assert_array_equal(release.values, expected)


@every_mechanism
def test_columns_of_one_attribute_count_once(mechanism: str) -> None:
    plan, table = plan_of(mechanism), bits()
    merged = table.copy()
    merged[:, 42] = np.maximum(table[:, 42], table[:, 7])
    merged[:, 7] = 0
    names: list[object] = list(TEXTS)
    names[7], names[42] = 42, "42"
    release = publish_matrix(table, plan, attributes=names, words=silence(mechanism))
    expected = publish_matrix(merged, plan, words=silence(mechanism))
    np.testing.assert_array_equal(release.values, expected.values)


@every_mechanism
def test_columns_that_nobody_has_can_be_left_out(mechanism: str) -> None:
    plan, table = plan_of(mechanism), bits()
    table[:, 50:] = 0
    part = publish_matrix(table[:, :50], plan, attributes=range(50), words=silence(mechanism))
    whole = publish_matrix(table, plan, words=silence(mechanism))
    np.testing.assert_array_equal(part.values, whole.values)


@every_mechanism
def test_no_people_and_people_without_attributes(mechanism: str) -> None:
    plan = plan_of(mechanism)
    assert len(publish_matrix(np.zeros((0, N_ATTRIBUTES)), plan)) == 0
    everyone = publish_matrix(scipy.sparse.csr_array((5, N_ATTRIBUTES)), plan, users=list("edcba"))
    assert everyone.users.tolist() == list("abcde")
    assert everyone.values.any()  # noise alone


@pytest.mark.parametrize("mechanism", ["hashing+laplace", "dasgupta+laplace", "randomized-response"])
def test_a_listed_vocabulary_is_the_plans_or_refused(mechanism: str) -> None:
    names = ["tea", "coffee", "42", "milk"]
    arguments: dict[str, Any] = {"vocabulary": names}
    if "+" in mechanism:
        arguments |= {"k": 8, "seed": SEED, "blocks": 2 if mechanism.startswith("dasgupta") else 1}
    plan = Plan.of(mechanism, Budget(1.0), **arguments)
    table = np.array([[1, 0, 1, 1], [0, 1, 0, 1]])
    release = publish_matrix(table, plan, attributes=["tea", "coffee", 42, "milk"], words=silence(mechanism))
    if "+" in mechanism:
        np.testing.assert_array_equal(release.values, table @ plan.rows(names).to_dense())
    else:
        np.testing.assert_array_equal(release.values, np.packbits(table, axis=1, bitorder="little"))
    # 42 and "42" side by side are one attribute of the list.
    twice = publish_matrix(
        np.insert(table, 3, 1, axis=1), plan, attributes=[*names[:3], 42, "milk"], words=silence(mechanism)
    )
    table[:, 2] = 1
    again = publish_matrix(table, plan, attributes=names, words=silence(mechanism))
    np.testing.assert_array_equal(twice.values, again.values)
    for others in (["tea", "coffee", "43", "milk"], ["coffee", "tea", "42", "milk"], None):
        with pytest.raises(ParameterError, match="digest differs"):
            publish_matrix(table, plan, attributes=others)
    with pytest.raises(ParameterError, match="digest differs"):
        publish_matrix(table[:, :3], plan, attributes=names[:3])


def test_attributes_outside_a_numbered_vocabulary_are_refused_and_not_quoted() -> None:
    for plan in (plan_of("ternary+laplace"), plan_of("randomized-response")):
        for secret in ("secret", N_ATTRIBUTES, "007", "-1"):
            with pytest.raises(DataError, match="must all be of the plan's vocabulary") as error:
                publish_matrix(np.ones((3, 2)), plan, attributes=["5", secret])
            assert str(secret) not in str(error.value)


@pytest.mark.parametrize("mechanism", ["gaussian+laplace", "randomized-response", "noisy-distances"])
@pytest.mark.parametrize("width", [N_ATTRIBUTES - 1, N_ATTRIBUTES + 1])
def test_another_width_than_the_plans_is_refused(mechanism: str, width: int) -> None:
    with pytest.raises(DataError, match="must have 100 columns") as error:
        publish_matrix(np.zeros((3, width)), plan_of(mechanism))
    assert str(width) not in str(error.value)


def test_more_people_than_a_noisy_distances_plan_holds_are_refused() -> None:
    with pytest.raises(DataError, match=f"at most {N_USERS} people") as error:
        publish_matrix(np.zeros((N_USERS + 1, N_ATTRIBUTES)), plan_of("noisy-distances"))
    assert str(N_USERS + 1) not in str(error.value)


def test_users_that_do_not_fit_are_refused() -> None:
    with pytest.raises(DataError, match="one id for each row"):
        publish_matrix(bits(), plan_of("counting+laplace"), users=[1, 2, 3])
    with pytest.raises(DataError, match="all be different"):
        publish_matrix(bits(2), plan_of("counting+laplace"), users=["a", "a"])


def test_nothing_is_drawn_for_what_is_refused() -> None:
    words = Recorded(0)
    with pytest.raises(DataError):
        publish_matrix(bits(2), plan_of("counting+laplace"), users=["a", "a"], words=words)
    with pytest.raises(DataError):
        publish_matrix(bits(2) * 2, plan_of("counting+laplace"), words=words)
    assert not words.asked


def test_the_table_and_the_ids_stay_the_callers() -> None:
    table, ids = bits(3).astype(bool), np.array([4, 5, 6])
    strings = np.array(["a", "b", "c"], np.dtypes.StringDType())
    before = table.copy()
    for users in (ids, strings):
        publish_matrix(table, plan_of("counting+laplace"), users=users)
        assert users.flags.writeable
    np.testing.assert_array_equal(table, before)
    assert table.flags.writeable


def test_what_is_published_is_frozen() -> None:
    release = publish_matrix(bits(3), plan_of("counting+laplace"))
    assert isinstance(release, Sketches)
    assert not release.values.flags.writeable
    assert not release.users.flags.writeable


def test_batches_of_people_are_published_like_tables() -> None:
    plan = plan_of("hashing+laplace")
    people, names = people_of(bits(), resolution=1, n_columns=None, attributes=None)
    one = publish_people(people, Perturber(plan, names), words=Recorded(5))
    other = publish_matrix(bits(), plan, words=Recorded(5))
    np.testing.assert_array_equal(one.values, other.values)


def test_only_a_keystream_makes_a_release_private() -> None:
    plan = plan_of("counting+laplace")
    assert publish_matrix(bits(3), plan).private
    assert publish_matrix(bits(3), plan, words=Keystream()).private
    assert not publish_matrix(bits(3), plan, words=Recorded(6)).private


def test_the_numbered_vocabulary_is_the_plans_whatever_columns_there_are() -> None:
    plan = plan_of("ternary+laplace")
    release = publish_matrix(np.array([[1, 1]]), plan, attributes=["99", 3], words=NO_NOISE)
    rows = plan.rows(Vocabulary.numbered(N_ATTRIBUTES)).to_dense()
    np.testing.assert_array_equal(release.values, [rows[99] + rows[3]])
