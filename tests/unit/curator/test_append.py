from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimly.curator.append import Rows, merged
from dimly.errors import ReleaseError

people = st.sets(st.integers(-50, 50), max_size=40)


def ids(users: list[int], text: bool) -> np.ndarray:
    # The text of a number with a fixed width sorts as the number does. NumPy keeps text from 16 bytes on elsewhere.
    if not text:
        return np.array(users, np.int64)
    return np.array([f"{user + 100:03d}é" * (1 + user % 2 * 5) for user in users], object)


def pieces(users: set[int], size: int, mark: int, text: bool) -> Iterator[Rows]:
    ordered = sorted(users)
    for start in range(0, len(ordered), size):
        part = ordered[start : start + size]
        yield ids(part, text), np.array([[user, mark] for user in part], np.int16)


@pytest.mark.parametrize("text", [False, True])
@given(old=people, new=people, old_size=st.integers(1, 7), new_size=st.integers(1, 7), size=st.integers(1, 9))
def test_everybody_once_and_in_order(
    text: bool, old: set[int], new: set[int], old_size: int, new_size: int, size: int
) -> None:
    found = list(merged(pieces(old, old_size, 1, text), pieces(new, new_size, 2, text), size=size, replace=True))
    expected = [[user, 2 if user in new else 1] for user in sorted(old | new)]
    assert [row for _, values in found for row in values.tolist()] == expected
    assert [user for users, _ in found for user in users.tolist()] == ids([u for u, _ in expected], text).tolist()
    assert all(len(users) == size for users, _ in found[:-1])
    assert all(0 < len(users) == len(values) for users, values in found)


def test_somebody_in_both_is_refused_where_nobody_may_be() -> None:
    old: Any = pieces({1, 2, 3}, 2, 1, False)
    with pytest.raises(ReleaseError, match="some are in both"):
        list(merged(old, pieces({3, 4}, 2, 2, False), size=10, replace=False))
