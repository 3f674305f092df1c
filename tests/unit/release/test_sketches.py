from typing import Any

import numpy as np
import pytest
from tests.plans import N_USERS, K, plan_of

from dimly.errors import ReleaseError
from dimly.mechanisms import MECHANISMS, Plan
from dimly.privacy import Budget
from dimly.release import Sketches


def sketches_of(mechanism: str = "counting+laplace", n: int = 4, *, private: bool = True, **changes: Any) -> Sketches:
    """Return zeros in the layout of a mechanism, with some parts changed."""
    plan = plan_of(mechanism)
    dtype, shape = plan.published_dtype, plan.published_shape(n)
    parts: dict[str, Any] = {"users": np.arange(n), "values": np.zeros(shape, dtype)}
    return Sketches(plan, private=private, **(parts | changes))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("n", [0, 1, 5])
def test_every_mechanism_has_its_layout(mechanism: str, n: int) -> None:
    sketches = sketches_of(mechanism, n)
    assert len(sketches) == n
    expected: dict[str, tuple[str, tuple[int, ...]]] = {
        "randomized-response": ("uint8", (n, 13)),  # ⌈100/8⌉
        "noisy-distances": ("int16", (n * (n - 1) // 2,)),
    }
    dtype, shape = expected.get(mechanism, ("int16", (n, K)))
    assert sketches.values.dtype == dtype
    assert sketches.values.shape == shape


def test_the_published_type_is_the_plans() -> None:
    plan = plan_of("counting+laplace", dtype="int32")
    assert (plan.published_dtype, plan.published_shape(3)) == (np.dtype(np.int32), (3, K))
    with pytest.raises(ReleaseError, match=r"values must be int32 of shape \(3, 32\) for this plan, got int16"):
        Sketches(plan, np.arange(3), np.zeros((3, K), np.int16))


@pytest.mark.parametrize(
    "values",
    [
        np.zeros((4, K), np.int32),
        np.zeros((4, K), np.float64),
        np.zeros((4, K), np.uint16),
        np.zeros((4, K), ">i2"),
        np.zeros((4, K + 1), np.int16),
        np.zeros((3, K), np.int16),
        np.zeros(4 * K, np.int16),
        np.zeros((4, K, 1), np.int16),
    ],
    ids=str,
)
def test_values_of_another_layout_are_refused(values: Any) -> None:
    with pytest.raises(ReleaseError, match=r"values must be int16 of shape \(4, 32\) for this plan, got"):
        sketches_of(values=values)


@pytest.mark.parametrize(
    "users",
    [
        np.arange(4.0),
        np.array(list("abcd")),  # fixed width: text that ends in zeros would change
        np.array(["a", "b", "c", 4], object),
        np.array([True, False, True, False]),
        np.arange(4, dtype=np.uint64),
        np.arange(4).reshape(4, 1),
        np.array(7),
    ],
    ids=lambda users: f"{users.dtype} {users.shape}",
)
def test_users_that_are_no_list_of_integers_or_text_are_refused(users: Any) -> None:
    with pytest.raises(ReleaseError, match="users must be a list of integers or of text"):
        sketches_of(users=users)


def test_users_out_of_order_are_refused() -> None:
    text = np.dtypes.StringDType()
    for users in ([0, 1, 3, 2], [0, 1, 1, 2], [3, 2, 1, 0]):
        with pytest.raises(ReleaseError, match="ascending order, without repeats"):
            sketches_of(users=np.array(users))
        with pytest.raises(ReleaseError, match="ascending order, without repeats"):
            sketches_of(users=np.array([f"user {user}" for user in users], text))
    assert len(sketches_of(users=np.array(["10", "2", "9", "a"], text))) == 4


def test_more_people_than_a_plan_holds_are_refused() -> None:
    assert len(sketches_of("noisy-distances", N_USERS)) == N_USERS
    with pytest.raises(ReleaseError, match="users must be at most 40, as the plan says, got 41"):
        sketches_of("noisy-distances", N_USERS + 1)


def test_sketches_cannot_be_changed() -> None:
    sketches = sketches_of()
    with pytest.raises(ValueError, match="read-only"):
        sketches.values[0, 0] = 1
    with pytest.raises(ValueError, match="read-only"):
        sketches.users[0] = 1
    with pytest.raises(AttributeError):
        sketches.private = False  # type: ignore[misc]


def test_what_is_not_private_says_so() -> None:
    assert "NOT PRIVATE" in repr(sketches_of(private=False))
    text = repr(sketches_of())
    assert "PRIVATE" not in text
    assert "4 users by counting+laplace" in text
    assert plan_of("counting+laplace").digest[:12] in text


def test_the_callers_arrays_stay_as_they_are() -> None:
    plan = Plan.of("counting+laplace", Budget(1.0), k=4)
    users, values = np.arange(2), np.zeros((2, 4), np.int16)
    sketches = Sketches(plan, users, values)
    assert users.flags.writeable
    assert values.flags.writeable
    assert not sketches.values.flags.writeable
    assert not sketches.private  # nobody has published this
