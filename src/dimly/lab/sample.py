"""``Sample``, people whose data is public: read by the curator's reader, thinned, in memory.

Unlike a private table it may be looked at, learned from and tried out on. It is read by the curator's own reader, so
that its attributes are spelled as those of the table that is published later.

However many rows there are, few are kept in memory: they are sorted by the curator's database, out of core, and of more
than 2²⁵ (a third of a million people with a hundred attributes each) every second person is left out, then every second
of those who are left, and so on: the same people each time.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import scipy
from numpy.typing import NDArray

from dimly.curator.options import Options
from dimly.curator.people import people_of, user_ids
from dimly.curator.publication import is_matrix
from dimly.curator.tables.numbered_table import open_table
from dimly.errors import DataError, ParameterError
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.projection.directions import Buckets
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.privacy.budget import Budget, Unit

Floats = NDArray[np.float64]

_OF_COLUMNS: Final = (
    "attribute",
    "columns",
    "delimiter",
    "encoding",
    "escape",
    "query",
    "quote",
    "table",
    "user",
    "value",
)
_RESOLUTION: Final = 1000  # steps in which values of a sample are told apart
_MOST_ENTRIES: Final = 1 << 25  # of a sample in memory, 12 bytes each; beyond, every second person is left out
_IDS: Final = 1 << 16  # of people, fetched at once


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Public people.

    Attributes
    ----------
    table : csr_array of float32
        One row per person, one column per attribute; values in [0, 1].
    attributes : Vocabulary or Buckets
        What the columns are.
    users : ndarray
        Ids of the people, integers or text.
    name : str
        Where they come from, in words.
    """

    table: scipy.sparse.csr_array
    attributes: Vocabulary | Buckets
    users: NDArray[Any]
    name: str

    def __post_init__(self) -> None:
        if self.table.shape[0] < 2:
            raise ParameterError(
                f"a sample must be of at least 2 people, got {self.table.shape[0]}. "
                "A hundred or more tell groups apart."
            )
        if not self.table.nnz:
            raise ParameterError("a sample must be of people with attributes, but nobody in the sample has any.")

    def in_buckets(self, buckets: Buckets) -> "Sample":
        """Return the same people with a column for each hash bucket, in which attributes add up."""
        if isinstance(self.attributes, Buckets):
            raise ParameterError("buckets must be given once.")
        codes = buckets.codes(self.attributes)
        ones = np.ones(len(codes), np.float32)
        places = scipy.sparse.csr_array((ones, (np.arange(len(codes)), codes)), shape=(len(codes), buckets.count))
        return Sample(scipy.sparse.csr_array(self.table @ places), buckets, self.users, self.name)


def read_sample(source: Any, reading: Options | None = None, *, unit: Unit = "attribute") -> Sample:
    """Read public people from all that :func:`dimly.publish` takes: files, frames, databases, or a matrix.

    Parameters
    ----------
    source : path, list of paths, data frame, Arrow table, array_like or SciPy sparse matrix
    reading : Options, optional
        How the table is read; the other options mean nothing here. A matrix needs none.
    unit : {"attribute", "column"}, default="attribute"
        As the plan's: with "column", text columns of a wide table become attributes ``column=value``.

    Raises
    ------
    ParameterError
        If the call cannot work, or there are fewer than two people.
    DataError
        If the table does not fit.
    """
    given = Options() if reading is None else reading
    if is_matrix(source):
        return _matrix_sample(source, given)
    _ = given.user_column  # refused before anything is read
    has_values = given.value is not None or given.columns is not None
    # No noise is drawn: of this plan only the unit and the resolution are looked at.
    plan = Plan.of(
        "counting+laplace", Budget(1.0), k=2, seed=bytes(32), unit=unit, resolution=_RESOLUTION if has_values else 1
    )
    with open_table(source, plan, given) as table:
        texts = table.texts()
        attributes = texts.between(0, len(texts))
        collected = _SampledRows()
        for rows in table.rows():
            collected.add(rows.keys, rows.values)
        kind = np.dtype(np.int64) if table.user_type == "int64" else np.dtype(object)
        users = np.concatenate(
            [
                np.array(table.users(start, min(start + _IDS, table.n_users)).to_pylist(), kind)[:: collected.step]
                for start in range(0, table.n_users, max(_IDS, collected.step))  # both are powers of two
            ]
            or [np.empty(0, kind)]
        )
        if not attributes:
            raise ParameterError("a sample must be of people with attributes, but nobody in the sample has any.")
        matrix = collected.matrix(table.n_users, len(attributes))
    return Sample(matrix, Vocabulary.listed(attributes), users, source_name(source))


class _SampledRows:
    """Rows that arrive in the order of people; half of the people are let go whenever there are too many rows."""

    def __init__(self) -> None:
        self.step = 1
        """Every how manyeth person is kept; a power of two."""
        self._keys: list[NDArray[np.int64]] = []
        self._values: list[NDArray[np.float32]] = []
        self._size = 0

    def add(self, keys: NDArray[np.int64], values: NDArray[np.float64] | None) -> None:
        numbers = np.ones(len(keys), np.float32) if values is None else values.astype(np.float32)
        self._put(keys, numbers)
        while self._size > _MOST_ENTRIES and self.step < 1 << 32:
            self.step *= 2
            old = list(zip(self._keys, self._values, strict=True))
            self._keys, self._values, self._size = [], [], 0
            for pair in old:
                self._put(*pair)

    def _put(self, keys: NDArray[np.int64], values: NDArray[np.float32]) -> None:
        if self.step > 1:
            keep = (keys >> 32) % self.step == 0
            keys, values = keys[keep], values[keep]
        self._keys.append(keys)
        self._values.append(values)
        self._size += len(keys)

    def matrix(self, n_users: int, n_attributes: int) -> scipy.sparse.csr_array:
        """Return the people who were kept; of repeated attributes the largest value. Forgets the rows."""
        kept = -(-n_users // self.step)
        keys = np.concatenate([np.empty(0, np.int64), *self._keys])
        self._keys = []
        values = np.concatenate([np.empty(0, np.float32), *self._values])
        self._values = []
        starts = np.flatnonzero(np.diff(keys, prepend=-1))
        if len(starts) < len(keys):
            keys, values = keys[starts], np.maximum.reduceat(values, starts)
        # In order already: no sorting by people and attributes, of which SciPy would make copies.
        attributes = (keys & 0xFFFFFFFF).astype(np.int32)
        indptr = np.searchsorted(keys, np.arange(kept + 1, dtype=np.int64) * (self.step << 32))
        return scipy.sparse.csr_array((values, attributes, indptr), shape=(kept, n_attributes))


def _matrix_sample(table: Any, given: Options) -> Sample:
    for name in _OF_COLUMNS:
        if getattr(given, name) is not None:
            raise ParameterError(
                f"{name} must be given for a table with columns only, and this is a matrix. Make a table of it: "
                "pandas.DataFrame(rows, columns=[…])."
            )
    people, names = people_of(table, resolution=_RESOLUTION, n_columns=None, attributes=given.attributes)
    if not len(names):
        raise DataError("the table must have at least one column.")
    values = np.float32(1) if people.values is None else people.values.astype(np.float32) / _RESOLUTION
    shape = (len(people), len(names))
    data = np.broadcast_to(values, people.indices.shape).astype(np.float32)
    matrix = scipy.sparse.csr_array((data, people.indices, people.indptr), shape=shape)
    known = names if isinstance(names, Vocabulary) else Vocabulary.listed(names)
    return Sample(matrix, known, user_ids(given.users, len(people)), "a matrix")


def source_name(source: Any) -> str:
    """Return what a source is called in public: its file, and no folder."""
    return Path(source).name if isinstance(source, str | os.PathLike) else "a table"


def cosines_of(table: scipy.sparse.csr_array) -> Floats:
    """Return how alike people are, each with each; −∞ with themselves."""
    lengths = np.sqrt(np.asarray((table * table).sum(axis=1)).ravel())
    directed = scipy.sparse.csr_array(scipy.sparse.diags_array(1 / np.maximum(lengths, 1e-9)) @ table)
    cosines = np.asarray((directed @ directed.T).todense(), np.float64)
    np.fill_diagonal(cosines, -np.inf)
    return cosines


def squared_distances_of(table: scipy.sparse.csr_array) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """Return all pairs of people, as two lists of rows, and their squared distances."""
    a, b = np.triu_indices(table.shape[0], 1)
    squares = np.asarray((table * table).sum(axis=1), np.float64).ravel()
    shared = np.asarray((table @ table.T).todense(), np.float64)
    return a, b, squares[a] + squares[b] - 2 * shared[a, b]
