"""Sorted rows into batches of whole people, the same ones however the rows arrive: ``ExactRows``.

Noise is drawn batch by batch, under a key that follows from what the batch holds. So an attempt at a task that reads
the same rows again must come to the same batches, although Spark may hand them over in other pieces and, within a
person, in another order, and repeats may be fewer or more.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dimly.curator.engine import Batch, people_of_sorted
from dimly.curator.tables.numbered_table import NumberedRows
from dimly.errors import DataError
from dimly.mechanisms.plan import Plan
from dimly.spark.cluster import Batches
from dimly.spark.workers.private_rows import CHANGED, ColumnDigest


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ExactRows:
    """All that is perturbed of some people, in the one order that it has.

    Attributes
    ----------
    users : Array
        Published ids, in order.
    indptr : ndarray of int64
        Where each person's attributes start, from 0 on, and where the last one's end.
    attributes : Array
        Texts, or positions in the plan's list. Those of a person rise, each once.
    steps : ndarray of int64 or None
        Their values, in 0…resolution; None: bits.
    """

    users: pa.Array
    indptr: NDArray[np.int64]
    attributes: pa.Array
    steps: NDArray[np.int64] | None

    def __len__(self) -> int:
        return len(self.users)

    @classmethod
    def of(cls, rows: pa.Table, plan: Plan, *, listed: bool) -> "ExactRows":
        """Return what is perturbed of the people of some rows, which are ordered by user.

        Parameters
        ----------
        rows : Table
            ``u``, ``a`` and, if there are any, ``v`` and ``m``, as ``PlaceRows`` of ``private_rows`` says.
        plan : Plan
        listed : bool
            Whether only those are taken who have a row without an attribute: a roster was given.

        Raises
        ------
        DataError
            If somebody has several rows of a table in which everybody had one.
        """
        coded = rows.column("u").combine_chunks().dictionary_encode()
        users, who, what = (
            coded.dictionary,
            coded.indices.to_numpy().astype(np.int64),
            rows.column("a").combine_chunks(),
        )
        has = what.is_valid().to_numpy(zero_copy_only=False)
        marked = np.zeros(len(who), np.bool_)
        if "m" in rows.column_names:  # one for each row of the table
            marked = rows.column("m").combine_chunks().is_valid().to_numpy(zero_copy_only=False)
            if np.bincount(who[marked], minlength=1).max() > 1:
                raise DataError(CHANGED)
        if listed:
            there = np.zeros(len(users), np.bool_)
            there[who[~has & ~marked]] = True
            numbers = np.cumsum(there) - 1
            has &= there[who]
            users, who = users.filter(pa.array(there)), numbers[who]
        if plan.by_position:
            positions, texts = what.filter(pa.array(has)).to_numpy().astype(np.int64), None
        else:
            positions, texts = numbered(what.filter(pa.array(has)))
        keys = (who[has] << 32) | positions
        values = rows.column("v").to_numpy()[has] if "v" in rows.column_names else None
        if values is None:
            keys.sort()
        else:
            order = np.argsort(keys, kind="stable")
            keys, values = keys[order], values[order]
        people = people_of_sorted(Batch(0, len(users), [NumberedRows(keys, values)]), resolution=plan.resolution)
        found = pa.array(people.indices) if texts is None else texts.take(pa.array(people.indices))
        return cls(users, people.indptr, found, people.values)

    @classmethod
    def joined(cls, pieces: list["ExactRows"]) -> "ExactRows":
        """Return the people of all pieces, one after the other."""
        counts = np.concatenate([np.diff(piece.indptr) for piece in pieces])
        steps = [piece.steps for piece in pieces if piece.steps is not None]
        return cls(
            pa.concat_arrays([piece.users for piece in pieces]),
            np.concatenate([[0], np.cumsum(counts)]),
            pa.concat_arrays([piece.attributes for piece in pieces]),
            np.concatenate(steps) if steps else None,
        )

    def between(self, start: int, stop: int) -> "ExactRows":
        """Return people ``start`` … ``stop`` − 1."""
        first, last = int(self.indptr[start]), int(self.indptr[stop])
        return ExactRows(
            self.users.slice(start, stop - start),
            self.indptr[start : stop + 1] - first,
            self.attributes.slice(first, last - first),
            None if self.steps is None else self.steps[first:last],
        )

    def digest(self) -> bytes:
        """Return a SHA-256 that no other people or rows have: of ids, rows of each, attributes and values."""
        parts = [_digest_of(self.users), _digest_of(pa.array(np.diff(self.indptr))), _digest_of(self.attributes)]
        if self.steps is not None:
            parts.append(_digest_of(pa.array(self.steps)))
        return hashlib.sha256(b"".join(parts)).digest()


def numbered(texts: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """Return the number of each text among some different ones in their order, and those.

    They are the texts that occur or, where texts come as a dictionary, all of it.
    """
    coded = texts
    if not pa.types.is_dictionary(texts.type):
        coded = texts.cast(pa.large_string()).dictionary_encode()  # whose texts may take more than 2 GiB together
    order = pc.sort_indices(coded.dictionary)
    rank = np.empty(len(order), np.int64)
    rank[order.to_numpy()] = np.arange(len(order))
    return rank[coded.indices.to_numpy()], coded.dictionary.take(order)


def batches_of_places(
    batches: Batches, plan: Plan, *, listed: bool, most_rows: int | None
) -> Iterator[tuple[int, int, ExactRows]]:
    """Yield place, number within the place, and people of each batch.

    Where a batch ends depends on the rows of its place alone: it takes as many people as have ``most_rows`` different
    rows together, and one person may have more.

    Parameters
    ----------
    batches : iterator of RecordBatch
        Ordered by place and user.
    plan : Plan
    listed : bool
        As :meth:`ExactRows.of` takes it.
    most_rows : int, optional
        None: one batch of each place.
    """
    place, number = 0, 0
    held: ExactRows | None = None
    for piece in whole_people(batches, most_rows=most_rows):
        for here, rows in _by_place(piece):
            if held is not None and here != place:
                yield place, number, held
                number, held = 0, None
            place = here
            people = ExactRows.of(rows, plan, listed=listed)
            if not len(people):
                continue
            held = people if held is None else ExactRows.joined([held, people])
            while most_rows is not None and (stop := _fitting(held, most_rows)) < len(held):
                yield place, number, held.between(0, stop)
                number, held = number + 1, held.between(stop, len(held))
    if held is not None:
        yield place, number, held


def _fitting(people: ExactRows, most_rows: int) -> int:
    """Return how many of the first people have at most so many rows together; at least one."""
    return max(1, int(np.searchsorted(people.indptr[1:], most_rows, side="right")))


def whole_people(batches: Batches, *, most_rows: int | None) -> Iterator[pa.Table]:
    """Join batches, ordered by place and user, to tables that end between two people.

    Parameters
    ----------
    batches : iterator of RecordBatch
    most_rows : int, optional
        A table with more ends at the next person if it can; one person may have more. None: one table of all.
    """
    held: list[pa.Table] = []
    size, limit = 0, most_rows
    for batch in batches:
        if not batch.num_rows:
            continue
        held.append(pa.Table.from_batches([batch]))
        size += batch.num_rows
        if limit is None or most_rows is None or size <= limit:
            continue
        table = pa.concat_tables(held).combine_chunks()
        end = size - _rows_of_last(table)
        if end:
            yield table.slice(0, end)
            table = table.slice(end)
        held, size = [table], table.num_rows
        limit = max(most_rows, 2 * size)  # somebody who has many: no looking again before there are twice as many
    if held:
        yield pa.concat_tables(held).combine_chunks()


def _rows_of_last(table: pa.Table) -> int:
    last = [pc.equal(table.column(name), table.column(name)[-1]) for name in ("place", "u")]
    return int(pc.sum(pc.and_(*last)).as_py())


def _by_place(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    places = table.column("place").to_numpy()
    starts = np.flatnonzero(np.diff(places, prepend=places[0] - 1 if len(places) else 0))
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(places)], strict=True):
        yield int(places[start]), table.slice(start, stop - start)


def _digest_of(column: pa.Array) -> bytes:
    found = ColumnDigest()
    found.update(column)
    return found.digest()
