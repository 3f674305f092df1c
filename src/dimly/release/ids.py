"""Ids of people in memory: int64, or Python texts.

Texts are Python's own strings in an array of objects. NumPy's text of any length (StringDType) would be the obvious
type, but in 2.4, the newest for Python 3.11, it reads or writes wrong memory where texts are searched (numpy issue
31533), put in chosen places (32153) or taken from two arrays at once (pull request 31609).
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def text_ids(texts: Iterable[str]) -> NDArray[np.object_]:
    """Return texts as an array.

    >>> text_ids(["ada", "eve"])
    array(['ada', 'eve'], dtype=object)
    """
    return np.array(list(texts), object)


def empty_ids(n: int, *, textual: bool) -> NDArray[Any]:
    """Return room for ``n`` ids."""
    return np.empty(n, object if textual else np.int64)


def are_texts(ids: NDArray[Any]) -> bool:
    """Return whether ids are texts; else they are integers."""
    return ids.dtype.kind != "i"
