"""Rows that were released before are recognized, and nothing else is known of them."""

import pickle
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dimly.curator.repeats import Account, Register, _TagSet
from dimly.privacy import Cost

ROWS = (np.array([0, 2, 2, 3]), np.array([1, 4, 4]), np.array([1.0, 0.5, 0.5]))


def test_contents_tell_rows_apart() -> None:
    register = Register()
    tags = register.contents(*ROWS, width=5)
    assert len(set(tags.tolist())) == 3
    np.testing.assert_array_equal(register.contents(*ROWS, width=5), tags)
    assert not set(tags.tolist()) & set(register.contents(*ROWS, width=6).tolist())
    assert not set(tags.tolist()) & set(Register().contents(*ROWS, width=5).tolist())  # each has a key of its own
    assert len(register.contents(np.array([0]), np.empty(0), np.empty(0), width=5)) == 0


def test_one_row_of_two_entries_is_not_another_of_the_same_bytes() -> None:
    register = Register()
    long = register.contents(np.array([0, 3]), np.array([0, 0, 0]), np.zeros(3), width=5)
    short = register.contents(np.array([0, 2]), np.array([0, 0]), np.zeros(2), width=5)
    assert long[0] != short[0]


def test_ids_are_one_by_their_text() -> None:
    register = Register()
    tags = register.users([42, "42", "ada"]).tolist()
    assert tags[0] == tags[1] != tags[2]


def test_entering_is_checking() -> None:
    register = Register()
    tags: Any = np.arange(10, dtype=np.uint64)
    users = tags + np.uint64(100)
    assert register.enter(tags[:5], None, repeats=False)
    assert not register.enter(tags[4:], None, repeats=False)
    assert register.enter(tags[5:], users[:5], repeats=False)  # what was refused was not entered
    assert not register.enter(tags[9:], None, repeats=False)
    assert not register.enter(tags[:1], users[9:], repeats=False)
    assert register.enter(tags[5:], users[5:], repeats=False)
    assert not register.enter(tags[5:], users[5:], repeats=False)
    assert register.enter(tags[5:], users[5:], repeats=True)


@given(st.lists(st.lists(st.integers(0, 200), max_size=20), max_size=40), st.integers(0, 200))
def test_sets_of_tags_are_sets(batches: list[list[int]], asked: int) -> None:
    tags = _TagSet()
    for batch in batches:
        tags.add(np.array(batch, np.uint64))
    assert tags.meets(np.array([asked], np.uint64)) == any(asked in batch for batch in batches)
    assert not tags.meets(np.array([], np.uint64))
    sizes = list(map(len, tags._arrays))
    assert all(one > 2 * two for one, two in pairwise(sizes))


def test_accounts_add_up_whom_they_cannot_tell_apart() -> None:
    account = Account()
    assert account.spent.epsilon == 0.0
    one, two = np.arange(3, dtype=np.uint64), np.arange(2, 5, dtype=np.uint64)
    account.charge(Cost(0.5), one)
    account.charge(Cost(0.5), one + np.uint64(10))
    assert (account.spent.epsilon, account.spent.n_costs) == (0.5, 1)
    account.charge(Cost(0.5), two)
    account.charge(Cost(0.25), two)
    account.charge(Cost(0.25), None)
    account.charge(Cost(0.25), np.empty(0, np.uint64))
    assert (account.spent.epsilon, account.spent.n_costs) == (1.5, 4)
    copy = pickle.loads(pickle.dumps(account))  # noqa: S301
    assert copy.spent == account.spent
    assert not copy._users
