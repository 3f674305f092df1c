"""Rows sorted by person, packed as pieces of Arrow that Spark moves: cut between people, and merged.

A row of its own costs Spark about two microseconds on the way: it is made into Java's form, sorted, and turned back.
A piece of thousands of rows costs hardly more than one row. So workers sort rows by person as soon as they have read
them, and pack many together. A piece that is sorted is cut between two people without looking at its rows, and pieces
of the same people are merged by their ids alone.
"""

import mmap
import tempfile
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import IO, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dimly.curator import kernels
from dimly.curator.people import Pseudonyms
from dimly.errors import DataError
from dimly.spark.cluster import Batches, in_pieces

PIECES: Final = "place int, people binary, rows binary"
"""The columns of a frame of pieces: where they go, and what :meth:`SortedRows.packed` gives."""

CHANGED: Final = (
    "the table must stay as it is while it is read, but it changed: parts of it were computed again. Write it to files "
    "first."
)
"""What to say of a table that is not the same each time."""

_PACKED_ROWS, _PACKED_BYTES = 1 << 21, 1 << 26  # that are packed together: the more, the larger the pieces
_IN_MEMORY = 1 << 27  # bytes of the pieces of one place; more are put into a file
_ALIGNED = 64  # bytes, as Arrow recommends
_FIRST = b"first"
_LOW = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True, eq=False, repr=False)
class SortedRows:
    """Some people in the order of their ids, and their rows.

    Attributes
    ----------
    users : Array
        Published ids, each once and in order.
    own : Array or None
        Their own ids, if they are published under pseudonyms.
    counts : ndarray of integers
        How many rows each of them has.
    marks : ndarray of integers or None
        How many rows of the table itself each of them has, where nobody may have several.
    codes : ndarray of integers
        The attribute of each row: its place in ``texts``, or in the plan's list.
    texts : Array or None
        Attributes that occur, each once.
    values : ndarray of float64 or None
    is_list : bool
        Whether this is a list of people, who have no rows here, and not a piece of the table.
    """

    users: pa.Array
    own: pa.Array | None
    counts: NDArray[np.integer[Any]]
    marks: NDArray[np.integer[Any]] | None
    codes: NDArray[np.integer[Any]]
    texts: pa.Array | None
    values: NDArray[np.float64] | None
    is_list: bool = False

    def __len__(self) -> int:
        return len(self.users)

    @classmethod
    def of_people(cls, own: pa.Array, *, key: bytes | None) -> "SortedRows":
        """Return a list of people, who may come several times and in any order."""
        rows = pa.table({"u": own, "a": pa.nulls(len(own), pa.int32())})
        return replace(cls.of(rows, key=key), is_list=True)

    @classmethod
    def of(cls, rows: pa.Table, *, key: bytes | None) -> "SortedRows":
        """Return rows in order, those of bits each once.

        Parameters
        ----------
        rows : Table
            ``u``, ``a`` and, if there are any, ``v`` and ``m``, in any order; a row without an attribute only names a
            person. Where there is an ``m``, it is true once for each row of the table itself.
        key : bytes or None
            Of pseudonyms, under which the people are published.
        """
        who, ids = _numbered_people(rows.column("u").combine_chunks(), key)
        attributes, texts = rows.column("a").combine_chunks(), None
        if not pa.types.is_integer(attributes.type):
            coded = attributes.dictionary_encode()
            attributes, texts = coded.indices, coded.dictionary.cast(pa.string())
        keys = who << np.uint64(32)
        keys += pc.fill_null(attributes.cast(pa.int32()), -1).to_numpy().view(np.uint32) + np.uint32(1)  # 0: none
        if "v" in rows.column_names:
            order = np.argsort(keys)
            keys, values = keys[order], rows.column("v").to_numpy()[order]
            upper, has = keys >> np.uint64(32), (keys & _LOW) != 0
            starts = np.flatnonzero(np.diff(upper, prepend=~upper[:1]))
            people, values = upper[starts], values[has]
            counts = np.add.reduceat(has, starts, dtype=np.int32) if len(starts) else np.empty(0, np.int32)
            codes = ((keys[has] & _LOW) - np.uint64(1)).astype(np.int32)
        else:
            keys.sort()
            people, counts, codes = np.empty_like(keys), np.empty(len(keys), np.int32), np.empty(len(keys), np.int32)
            n_people, n_codes = kernels.split_keys(keys, people, counts, codes)
            people, counts, codes, values = people[:n_people], counts[:n_people], codes[:n_codes], None
        marks = None
        if "m" in rows.column_names:
            marked = who[rows.column("m").combine_chunks().is_valid().to_numpy(zero_copy_only=False)]
            marks = np.bincount(np.searchsorted(people, marked), minlength=len(people)).astype(np.int32)
        users, own = ids.at(people)
        return cls(users, own, counts, marks, codes, texts, values)

    def between(self, start: int, stop: int) -> "SortedRows":
        """Return people ``start`` … ``stop`` − 1."""
        first, last = self._offsets[start], self._offsets[stop]
        codes, texts = self.codes[first:last], self.texts
        if texts is not None:
            codes, texts = only_used(codes, texts)
        return SortedRows(
            self.users.slice(start, stop - start),
            None if self.own is None else self.own.slice(start, stop - start),
            self.counts[start:stop],
            None if self.marks is None else self.marks[start:stop],
            codes,
            texts,
            None if self.values is None else self.values[first:last],
            self.is_list,
        )

    @cached_property
    def _offsets(self) -> NDArray[np.int64]:
        return np.concatenate([[0], np.cumsum(self.counts, dtype=np.int64)])

    def cut_at(self, firsts: Sequence[Any]) -> list[int]:
        """Return where people from each of some rising ids on start."""
        if pa.types.is_integer(self.users.type):
            found: list[int] = np.searchsorted(self.users.to_numpy(), np.array(firsts, np.int64)).tolist()
            return found
        places = range(len(self.users))
        return [bisect_left(places, first, key=lambda i: self.users[i].as_py()) for first in firsts]

    def packed(self) -> tuple[bytes, bytes | None]:
        """Return people and, if there are any, their rows as streams of Arrow.

        Integers take as few bytes as the largest of them needs. Ids that are integers are told by their distances,
        which are small: compression finds nothing in the ids themselves, and they are most of a piece.
        """
        columns: dict[str, Any] = {"u": self.users}
        first = 0
        if pa.types.is_integer(self.users.type):
            users = self.users.to_numpy().view(np.uint64)
            first = int(users[0]) if len(users) else 0
            columns["u"] = _narrow(np.diff(users, prepend=users[:1]))
        if self.own is not None:
            columns["own"] = self.own
        if not self.is_list:
            columns["n"] = _narrow(self.counts)
        if self.marks is not None:
            columns["m"] = _narrow(self.marks)
        people = _packed(pa.table(columns).replace_schema_metadata({_FIRST: str(first).encode()}))
        if self.is_list:
            return people, None
        codes = _narrow(self.codes)
        if self.texts is not None:
            codes = pa.DictionaryArray.from_arrays(codes, self.texts)
        rows = {"a": codes} if self.values is None else {"a": codes, "v": pa.array(self.values)}
        return people, _packed(pa.table(rows))

    @classmethod
    def unpacked(cls, people: pa.Buffer | bytes, rows: pa.Buffer | bytes | None) -> "SortedRows":
        """Return what was packed; of people without their rows a list."""
        table = _unpacked(people)
        users = table.column("u").combine_chunks()
        if pa.types.is_integer(users.type):
            found = np.cumsum(users.to_numpy(), dtype=np.uint64)
            found += np.uint64(int(table.schema.metadata[_FIRST]))
            users = pa.array(found.view(np.int64))
        own = table.column("own").combine_chunks() if "own" in table.column_names else None
        marks = table.column("m").to_numpy() if "m" in table.column_names else None
        if rows is None:
            none = np.zeros(len(users), np.int32)
            return cls(users, own, none, marks, none[:0], None, None, is_list=True)
        counts = table.column("n").to_numpy()
        content = _unpacked(rows)
        codes, texts = content.column("a").combine_chunks(), None
        if pa.types.is_dictionary(codes.type):
            codes, texts = codes.indices, codes.dictionary
        values = content.column("v").to_numpy() if "v" in content.column_names else None
        return cls(users, own, counts, marks, codes.to_numpy(), texts, values)

    def as_table(self) -> pa.Table:
        """Return the rows as they are given to :meth:`of`, each person with one more row, or one for each mark."""
        rows, people = np.repeat(np.arange(len(self)), self.counts), np.arange(len(self))
        if self.marks is not None:
            people = np.repeat(people, self.marks)
        codes: pa.Array = pa.array(self.codes)
        codes = codes if self.texts is None else self.texts.take(codes)
        columns = {"u": self.users.take(pa.array(np.concatenate([rows, people])))}
        columns["a"] = pa.concat_arrays([codes, pa.nulls(len(people), codes.type)])
        if self.values is not None:
            columns["v"] = pa.concat_arrays([pa.array(self.values), pa.nulls(len(people), pa.float64())])
        if self.marks is not None:
            columns["m"] = pa.concat_arrays([pa.nulls(len(rows), pa.bool_()), pa.repeat(True, len(people))])
        return pa.table(columns)


@dataclass(frozen=True, slots=True)
class _Ids:
    """Ids by number: numbers from ``base`` on, or those of a list."""

    base: int
    users: pa.Array | None = None
    own: pa.Array | None = None

    def at(self, numbers: NDArray[np.uint64]) -> tuple[pa.Array, pa.Array | None]:
        """Return these ids, and own ids if there are pseudonyms."""
        if self.users is None:
            return pa.array(numbers.view(np.int64) + self.base), None
        places = pa.array(numbers.view(np.int64))
        return self.users.take(places), None if self.own is None else self.own.take(places)


def _numbered_people(ids: pa.Array, key: bytes | None) -> tuple[NDArray[np.uint64], _Ids]:
    """Return a number of 32 bits for each id, in the order of published ids."""
    if key is None and pa.types.is_integer(ids.type):
        users = ids.to_numpy()
        base, largest = (int(users.min()), int(users.max())) if len(users) else (0, 0)
        if largest - base < 1 << 32:
            return (users - base).view(np.uint64), _Ids(base)
        (who,), found = numbered_together([ids])
        return who.view(np.uint64), _Ids(0, found)
    if key is None:
        who, found = numbered(ids.cast(pa.string()))
        return who.view(np.uint64), _Ids(0, found)
    coded = ids.dictionary_encode()  # each id is hashed once
    names = pseudonyms_of(coded.dictionary.cast(pa.string()), key)
    rank, found = numbered(names)
    own = coded.dictionary.take(pc.sort_indices(names))
    return rank[coded.indices.to_numpy()].view(np.uint64), _Ids(0, found, own)


def pseudonyms_of(texts: pa.Array, key: bytes) -> pa.Array:
    """Return the pseudonyms of ids."""
    return pa.array(Pseudonyms(key).of(texts.to_pylist()), pa.string())


def numbered(texts: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """Return the number of each text among all different ones in their order, and those."""
    coded = texts.dictionary_encode()
    order = pc.sort_indices(coded.dictionary)
    rank = np.empty(len(order), np.int64)
    rank[order.to_numpy()] = np.arange(len(order))
    return rank[coded.indices.to_numpy()], coded.dictionary.take(order)


def numbered_together(columns: Sequence[pa.Array]) -> tuple[list[NDArray[np.int64]], pa.Array]:
    """Return the number of each id or text of some columns among all different ones in their order, and those."""
    if pa.types.is_integer(columns[0].type):
        parts = [column.to_numpy() for column in columns]
        dense = _numbered_by_place(parts)
        if dense is not None:
            return dense
        found = np.sort(np.concatenate(parts))  # np.unique takes several times as long: it hashes
        found = found[np.diff(found, prepend=~found[:1]) != 0]
        return [np.searchsorted(found, part) for part in parts], pa.array(found)
    # As large text, because together they may take more than 2 GiB.
    numbers, texts = numbered(pa.concat_arrays([column.cast(pa.large_string()) for column in columns]))
    ends = np.cumsum([len(column) for column in columns])
    return np.split(numbers, ends[:-1]), texts


def _numbered_by_place(parts: Sequence[NDArray[np.int64]]) -> tuple[list[NDArray[np.int64]], pa.Array] | None:
    """Return what :func:`numbered_together` does, without sorting, of numbers that lie close together; else None."""
    total = sum(map(len, parts))
    if not total:
        return None
    lowest = min(int(part.min()) for part in parts if len(part))
    highest = max(int(part.max()) for part in parts if len(part))
    if highest - lowest >= 2 * total:
        return None
    there = np.zeros(highest - lowest + 1, np.bool_)
    places = [part - lowest for part in parts]
    for place in places:
        there[place] = True
    numbers = np.cumsum(there, dtype=np.int64) - 1
    return [numbers[place] for place in places], pa.array(np.flatnonzero(there) + lowest)


def only_used(codes: NDArray[Any], texts: pa.Array) -> tuple[NDArray[Any], pa.Array]:
    """Return codes of those texts only that they name, in the same order."""
    if len(codes) < len(texts) // 8:
        few, numbers = np.unique(codes, return_inverse=True)
        return numbers.astype(np.int32), texts.take(pa.array(few))
    seen = np.zeros(len(texts), np.bool_)
    seen[codes] = True
    used = np.flatnonzero(seen)
    if len(used) == len(texts):
        return codes, texts
    return (np.cumsum(seen, dtype=np.int32) - np.int32(1))[codes], texts.take(pa.array(used))


@dataclass(frozen=True)
class Places:
    """Where people go: the first id of every part, and the number by which Spark finds the part's task.

    Attributes
    ----------
    firsts : sequence of int or of str
        Rising; the first person of each part. Nobody comes before the first of them.
    places : ndarray of int32
        One for each part, all different.
    """

    firsts: Sequence[Any]
    places: NDArray[np.int32]

    def cut(self, rows: SortedRows) -> Iterator[tuple[int, SortedRows]]:
        """Yield the place of each part, and those of its people who are there."""
        starts = rows.cut_at(self.firsts)
        for place, start, stop in zip(self.places.tolist(), starts, [*starts[1:], len(rows)], strict=True):
            if start < stop:
                yield place, rows.between(start, stop)


@dataclass(frozen=True)
class CutRows:
    """Yields pieces of what was read, each for one place: see :data:`PIECES`."""

    places: Places

    def __call__(self, batches: Batches) -> Batches:
        """Go through a partition of what :func:`kept_rows` takes."""
        for rows in kept_rows(batches):
            yield from pieces_of(rows, self.places)


def kept_rows(batches: Batches) -> Iterator[SortedRows]:
    """Yield what was read: ``people`` and, if there are any, ``rows``, ``problem`` and ``last``.

    Where there is no ``last``, each row is a piece of its own.

    Raises
    ------
    DataError
        If there is a problem. A pass before this one saw none: what it had read was lost, and read again.
    """
    slices: dict[str, list[pa.Buffer]] = {"people": [], "rows": []}
    for batch in batches:
        given = {name: batch.column(name) for name in batch.schema.names}
        if "problem" in given and given["problem"].null_count < len(batch):
            raise DataError(CHANGED)
        for i in range(len(batch)):
            for name, held in slices.items():
                if name in given and given[name][i].is_valid:
                    held.append(given[name][i].as_buffer())
            if "last" not in given or given["last"][i].as_py():
                people, rows = map(_joined, slices.values())
                yield SortedRows.unpacked(people, rows)
                slices = {"people": [], "rows": []}


def _joined(slices: list[pa.Buffer]) -> Any:
    return slices[0] if len(slices) == 1 else b"".join(slices) if slices else None


def pieces_of(rows: SortedRows, places: Places) -> Batches:
    """Yield the pieces of some people and their rows."""
    for place, some in places.cut(rows):
        people, content = some.packed()
        columns = {
            "place": pa.array([place], pa.int32()),
            "people": pa.array([people], pa.binary()),
            "rows": pa.array([content], pa.binary()),
        }
        yield pa.RecordBatch.from_pydict(columns)


@dataclass(frozen=True)
class PlainRows:
    """Yields what was read as rows, for Spark to look into: ``u``, ``a`` and, if there are any, ``v`` and ``m``."""

    def __call__(self, batches: Batches) -> Batches:
        """Go through a partition of what :func:`kept_rows` takes."""
        for rows in kept_rows(batches):
            yield from rows.as_table().to_batches()


@dataclass(frozen=True)
class PackRows:
    """Yields pieces of rows that Spark has looked into, each for one place: see :data:`PIECES`."""

    places: Places

    def __call__(self, batches: Batches) -> Batches:
        """Go through a partition of rows as :class:`PlainRows` yields them."""
        for rows in in_pieces(batches, rows=_PACKED_ROWS, size=_PACKED_BYTES):
            yield from pieces_of(SortedRows.of(rows, key=None), self.places)


def of_places(batches: Batches) -> Iterator[tuple[int, list[SortedRows]]]:
    """Yield the pieces of each place; they must be used before the next one's are asked for.

    Parameters
    ----------
    batches : iterator of RecordBatch
        Of :data:`PIECES`. Those of a place follow each other.
    """
    for place, pieces in groupby(_each(batches), key=itemgetter(0)):
        with ExitStack() as stack:
            yield place, _held((buffers for _, buffers in pieces), stack)


_Buffers = tuple[pa.Buffer, pa.Buffer | None]


def _each(batches: Batches) -> Iterator[tuple[int, _Buffers]]:
    for batch in batches:
        for place, people, rows in zip(*batch.columns, strict=True):
            yield place.as_py(), (people.as_buffer(), rows.as_buffer() if rows.is_valid else None)


def _held(pieces: Iterator[_Buffers], stack: ExitStack) -> list[SortedRows]:
    """Return all pieces; where they are many, from a file without a name, of which the system reads what is used."""
    held: list[_Buffers] = []
    written: list[tuple[_Span, _Span | None]] = []
    size, file = 0, None
    for piece in pieces:
        held.append(piece)
        size += sum(one.size for one in piece if one is not None)
        if size > _IN_MEMORY:
            file = file or stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it
            written += [(_write(file, people), rows and _write(file, rows)) for people, rows in held]
            held, size = [], 0
    found = [SortedRows.unpacked(*piece) for piece in held]
    if file is not None:
        file.flush()
        content = pa.py_buffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        found += [
            SortedRows.unpacked(content.slice(*people), rows and content.slice(*rows)) for people, rows in written
        ]
    return found


_Span = tuple[int, int]


def _write(file: IO[bytes], content: pa.Buffer) -> _Span:
    start = file.seek(-(-file.tell() // _ALIGNED) * _ALIGNED)
    return start, file.write(content)


def _narrow(numbers: NDArray[np.integer[Any]]) -> pa.Array:
    """Return integers from 0 on as the type of fewest bytes that holds the largest of them."""
    return pa.array(numbers.astype(np.min_scalar_type(numbers.max(initial=0))))


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _unpacked(stream: pa.Buffer | bytes) -> pa.Table:
    with pa.ipc.open_stream(stream) as reader:
        return reader.read_all()
