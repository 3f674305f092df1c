"""Sorted rows into batches of whole people, the same ones however the rows arrive: ``ExactRows``.

Noise is drawn batch by batch, under a key that follows from what the batch holds. So an attempt at a task that reads
the same rows again must come to the same batches, although they may arrive in other pieces and in another order, and
repeats may be fewer or more.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dimly.curator import kernels
from dimly.curator.engine import Batch, people_of_sorted
from dimly.curator.tables.numbered_table import NumberedRows
from dimly.errors import DataError
from dimly.mechanisms.plan import Plan
from dimly.spark.workers.people_in_order import ColumnDigest
from dimly.spark.workers.pieces import CHANGED, SortedRows, numbered_together, only_used


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ExactRows:
    """All that is perturbed of some people, in the one form that it has.

    Attributes
    ----------
    users : Array
        Published ids, in order.
    indptr : ndarray of int64
        Where each person's attributes start, from 0 on, and where the last one's end.
    attributes : ndarray of int32
        Places in ``texts``, or in the plan's list. Those of a person rise, each once.
    texts : Array or None
        Those attributes that somebody here has, in order; None: the plan has a list.
    steps : ndarray of int64 or None
        Their values, in 0…resolution; None: bits.
    """

    users: pa.Array
    indptr: NDArray[np.int64]
    attributes: NDArray[np.int32]
    texts: pa.Array | None
    steps: NDArray[np.int64] | None

    def __len__(self) -> int:
        return len(self.users)

    @classmethod
    def of(cls, pieces: list[SortedRows], plan: Plan, *, listed: bool) -> "ExactRows":
        """Return what is perturbed of the people of some pieces.

        Parameters
        ----------
        pieces : list of SortedRows
            At least one. Several may have rows of one person.
        plan : Plan
        listed : bool
            Whether only those are taken who are in a piece that is a list of people: a roster was given.

        Raises
        ------
        DataError
            If somebody has several rows of a table in which everybody had one.
        """
        who, users = numbered_together([piece.users for piece in pieces])
        marks = np.zeros(len(users), np.int64)
        for people, piece in zip(who, pieces, strict=True):
            if piece.marks is not None and not piece.is_list:
                marks[people] += piece.marks
        if marks.max(initial=0) > 1:
            raise DataError(CHANGED)
        there = np.full(len(users), not listed)
        for people, piece in zip(who, pieces, strict=True):
            there[people] |= piece.is_list
        numbers = np.cumsum(there) - 1
        tables = [(people, piece) for people, piece in zip(who, pieces, strict=True) if not piece.is_list]
        ranks, texts = [np.empty(0, np.int64)] * len(tables), None
        if not plan.by_position:
            ranks, texts = numbered_together([piece.texts for _, piece in tables] or [pa.array([], pa.string())])
        rows = _numbered([(numbers[people], piece) for people, piece in tables], ranks)
        if listed:
            kept = np.concatenate([np.repeat(there[people], piece.counts) for people, piece in tables] or [there[:0]])
            rows = NumberedRows(rows.keys[kept], None if rows.values is None else rows.values[kept])
        if rows.values is None:
            rows.keys.sort()
        else:
            order = np.argsort(rows.keys, kind="stable")
            rows = NumberedRows(rows.keys[order], rows.values[order])
        users = users if there.all() else users.filter(pa.array(there))
        found = people_of_sorted(Batch(0, len(users), [rows]), resolution=plan.resolution)
        attributes: NDArray[Any] = found.indices
        if texts is not None:
            attributes, texts = only_used(attributes, texts)
        return cls(users, found.indptr, attributes, texts, found.values)

    @classmethod
    def joined(cls, first: "ExactRows", second: "ExactRows") -> "ExactRows":
        """Return the people of both, one after the other."""
        attributes, texts = [first.attributes, second.attributes], None
        if first.texts is not None and second.texts is not None:
            ranks, texts = numbered_together([first.texts, second.texts])
            attributes = [rank[some].astype(np.int32) for rank, some in zip(ranks, attributes, strict=True)]
        steps = [one for one in (first.steps, second.steps) if one is not None]
        return cls(
            pa.concat_arrays([first.users, second.users]),
            np.concatenate([first.indptr, first.indptr[-1] + second.indptr[1:]]),
            np.concatenate(attributes),
            texts,
            np.concatenate(steps) if steps else None,
        )

    def between(self, start: int, stop: int) -> "ExactRows":
        """Return people ``start`` … ``stop`` − 1."""
        first, last = int(self.indptr[start]), int(self.indptr[stop])
        attributes, texts = self.attributes[first:last], self.texts
        if texts is not None:
            attributes, texts = only_used(attributes, texts)
        return ExactRows(
            self.users.slice(start, stop - start),
            self.indptr[start : stop + 1] - first,
            attributes,
            texts,
            None if self.steps is None else self.steps[first:last],
        )

    def digest(self) -> bytes:
        """Return a SHA-256 that no other people or rows have: of ids, rows of each, attributes and values."""
        parts = [self.users, pa.array(np.diff(self.indptr)), pa.array(self.attributes), self.texts]
        parts.append(None if self.steps is None else pa.array(self.steps))
        return hashlib.sha256(b"".join(b"-" if part is None else _digest_of(part) for part in parts)).digest()


def _numbered(
    tables: Sequence[tuple[NDArray[np.int64], SortedRows]], ranks: Sequence[NDArray[np.int64]]
) -> NumberedRows:
    """Return the rows of some pieces, one after another, by numbers of people and ranks of texts."""
    ends = np.cumsum([0, *(len(piece.codes) for _, piece in tables)])
    keys = np.empty(ends[-1], np.int64)
    for i, (numbers, piece) in enumerate(tables):
        counts, codes = (some.astype(np.int32, copy=False) for some in (piece.counts, piece.codes))
        kernels.join_keys(numbers, counts, codes, ranks[i], keys[ends[i] : ends[i + 1]])
    values = [piece.values for _, piece in tables if piece.values is not None]
    return NumberedRows(keys, np.concatenate(values) if values else None)


def batches_of_place(
    pieces: list[SortedRows], plan: Plan, *, listed: bool, most_rows: int | None
) -> Iterator[tuple[int, ExactRows]]:
    """Yield number and people of each batch of a place.

    Where a batch ends depends on the rows of its place alone: it takes as many people as have ``most_rows`` different
    rows together, and one person may have more.

    Parameters
    ----------
    pieces : list of SortedRows
        All of the place.
    plan : Plan
    listed : bool
        As :meth:`ExactRows.of` takes it.
    most_rows : int, optional
        None: one batch of all.
    """
    number = 0
    held: ExactRows | None = None
    for some in whole_people(pieces, most_rows=most_rows):
        people = ExactRows.of(some, plan, listed=listed)
        if not len(people):
            continue
        held = people if held is None else ExactRows.joined(held, people)
        while most_rows is not None and (stop := _fitting(held, most_rows)) < len(held):
            yield number, held.between(0, stop)
            number, held = number + 1, held.between(stop, len(held))
    if held is not None:
        yield number, held


def _fitting(people: ExactRows, most_rows: int) -> int:
    """Return how many of the first people have at most so many rows together; at least one."""
    return max(1, int(np.searchsorted(people.indptr[1:], most_rows, side="right")))


def whole_people(pieces: list[SortedRows], *, most_rows: int | None) -> Iterator[list[SortedRows]]:
    """Yield the pieces of some people after the other, so that few rows are looked at together.

    Parameters
    ----------
    pieces : list of SortedRows
    most_rows : int, optional
        Of all pieces that are yielded at once; one person may have more. None: everything at once.
    """
    if most_rows is None or sum(len(piece.codes) for piece in pieces) <= most_rows:
        if pieces:
            yield pieces
        return
    who, users = numbered_together([piece.users for piece in pieces])
    rows = np.zeros(len(users), np.int64)
    for people, piece in zip(who, pieces, strict=True):
        rows[people] += piece.counts
    ends = np.cumsum(rows)
    start = 0
    while start < len(users):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + most_rows, side="right")))
        cuts = [np.searchsorted(people, [start, stop]).tolist() for people in who]
        yield [piece.between(*cut) for cut, piece in zip(cuts, pieces, strict=True) if cut[0] < cut[1]]
        start = stop


def _digest_of(column: pa.Array) -> bytes:
    found = ColumnDigest()
    found.update(column)
    return found.digest()
