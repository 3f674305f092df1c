"""Rows between two stages, packed as pieces of Arrow that Spark moves; sorted, out of core if need be.

A row of its own costs Spark about two microseconds on the way: it is made into Java's form, sorted, and turned back.
A piece of thousands of rows costs hardly more than one row. So workers pack the rows of each place together, Spark
sends every piece to the task of its place, and that task sorts what it got, in memory or, where that is too much, out
of core.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dimly.curator.tables.database import PrivateDatabase
from dimly.spark.cluster import Batches
from dimly.spark.workers.batches import numbered
from dimly.spark.workers.private_rows import WORKER_MEMORY

PIECES: Final = "place int, piece binary"
"""The columns of a frame of pieces."""

_ROWS, _BYTES = 1 << 21, 1 << 26  # that a worker holds before it packs them: the more, the larger the pieces
_IN_MEMORY = 1 << 27  # bytes of unpacked rows of one place; more are sorted out of core
_STREAMED = 1 << 17  # rows of a batch that comes back from there
_BASE = b"base"
_DICTIONARY = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True)
class PackRows:
    """Yields rows in pieces: ``place`` and ``piece``, which is what :data:`PIECES` says.

    Attributes
    ----------
    work : callable
        Reads a partition: ``place``, ``u`` and, if there are any, ``a``, ``v`` and ``m``.
    listed : Array or None
        The attributes that count; None: all, or the others are gone already.
    coded : bool
        Whether those are given by their place in the list.
    """

    work: Callable[[Batches], Iterator[pa.Table]]
    listed: pa.Array | None = None
    coded: bool = False

    def __call__(self, batches: Batches) -> Batches:
        """Go through a partition."""
        return packed(map(self._of_list, self.work(batches)))

    def _of_list(self, rows: pa.Table) -> pa.Table:
        if self.listed is None:
            return rows
        attributes = rows.column("a")
        codes = pc.index_in(attributes, value_set=self.listed)
        if self.coded:
            rows = rows.set_column(rows.schema.get_field_index("a"), "a", codes)
        return rows.filter(pc.or_(pc.is_null(attributes), pc.is_valid(codes)))


@dataclass(frozen=True)
class PlainRows:
    """Yields the rows that some work places as they are, for Spark to look into."""

    work: Callable[[Batches], Iterator[pa.Table]]

    def __call__(self, batches: Batches) -> Batches:
        """Go through a partition."""
        for rows in self.work(batches):
            yield from rows.to_batches()


def as_tables(batches: Batches) -> Iterator[pa.Table]:
    """Yield rows that were placed before as :class:`PackRows` takes them."""
    return (pa.Table.from_batches([batch]) for batch in batches)


def packed(tables: Iterable[pa.Table]) -> Batches:
    """Yield pieces of the rows of each place: ``place`` and ``piece``.

    Parameters
    ----------
    tables : iterable of Table
        ``place``, ``u`` and, if there are any, ``a``, ``v`` and ``m``, in any order.
    """
    held: list[pa.Table] = []
    for table in tables:
        if table.num_rows:
            held.append(table)
        if sum(one.num_rows for one in held) >= _ROWS or sum(one.nbytes for one in held) >= _BYTES:
            yield _pieces(pa.concat_tables(held))
            held = []
    if held:
        yield _pieces(pa.concat_tables(held))


def _pieces(rows: pa.Table) -> pa.RecordBatch:
    places = rows.column("place").to_numpy()
    order = np.argsort(places, kind="stable")
    rows, places = rows.drop_columns("place").take(order), places[order]
    starts = np.flatnonzero(np.diff(places, prepend=places[0] - 1))
    stops = [*starts[1:].tolist(), len(places)]
    made = [_piece(rows.slice(start, stop - start)) for start, stop in zip(starts.tolist(), stops, strict=True)]
    columns = {"place": pa.array(places[starts], pa.int32()), "piece": pa.array(made, pa.binary())}
    return pa.RecordBatch.from_pydict(columns)


def _piece(rows: pa.Table) -> bytes:
    """Return rows as a stream of Arrow: texts of attributes once each, numbers of people from the least of them on."""
    columns: dict[str, Any] = {name: rows.column(name).combine_chunks() for name in rows.column_names}
    for name, column in columns.items():
        if pa.types.is_large_string(column.type):  # as Spark hands texts over if it is told to
            columns[name] = column.cast(pa.string())
    base = 0
    if pa.types.is_integer(columns["u"].type):
        users = columns["u"].to_numpy()
        base, largest = int(users.min()), int(users.max())
        if largest - base < 1 << 32:
            columns["u"] = pa.array((users - base).astype(np.uint32))
    table = _texts_once(pa.table(columns)).replace_schema_metadata({_BASE: str(base).encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _texts_once(rows: pa.Table) -> pa.Table:
    """Return rows with texts of attributes, if they are texts, once each."""
    at = rows.schema.get_field_index("a")
    if at < 0 or not pa.types.is_string(rows.schema.field(at).type):
        return rows
    return rows.set_column(at, "a", rows.column(at).dictionary_encode())


def _unpacked(piece: pa.Buffer) -> pa.Table:
    with pa.ipc.open_stream(piece) as reader:
        rows = reader.read_all()
    if pa.types.is_uint32(rows.schema.field("u").type):
        users = rows.column("u").to_numpy().astype(np.int64) + int(rows.schema.metadata[_BASE])
        rows = rows.set_column(rows.schema.get_field_index("u"), "u", pa.array(users))
    return rows.replace_schema_metadata(None)


def in_order(batches: Batches, schema: pa.Schema) -> Batches:
    """Yield the rows of pieces, which come ordered by place, in the order of place and user.

    Parameters
    ----------
    batches : iterator of RecordBatch
        Of :data:`PIECES`. Those of a place follow each other.
    schema : Schema
        Of the rows, without their place. A piece may lack all columns but ``u``.
    """
    for place, pieces in groupby(_each(batches), key=itemgetter(0)):
        for rows in _sorted((_aligned(_unpacked(piece), schema) for _, piece in pieces), schema):
            placed = rows.add_column(0, "place", pa.array(np.full(len(rows), place, np.int32)))
            yield from placed.to_batches()


def _each(batches: Batches) -> Iterator[tuple[int, pa.Buffer]]:
    for batch in batches:
        for place, piece in zip(batch.column(0), batch.column(1), strict=True):
            yield place.as_py(), piece.as_buffer()


def _aligned(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows with all columns; texts of attributes once each."""
    columns = []
    for field in schema:
        kind = _DICTIONARY if field.name == "a" and pa.types.is_string(field.type) else field.type
        there = field.name in rows.column_names
        columns.append(rows.column(field.name) if there else pa.nulls(len(rows), kind))
    return pa.table(columns, names=schema.names)


def _sorted(tables: Iterator[pa.Table], schema: pa.Schema) -> Iterator[pa.Table]:
    held: list[pa.Table] = []
    size = 0
    for table in tables:
        held.append(table)
        size += table.nbytes
        if size > _IN_MEMORY:
            yield from _sorted_out_of_core(chain(held, tables), schema)
            return
    rows = pa.concat_tables(held).unify_dictionaries().combine_chunks()
    yield rows.take(np.argsort(_keys(rows.column("u").combine_chunks()), kind="stable"))


def _sorted_out_of_core(tables: Iterable[pa.Table], schema: pa.Schema) -> Iterator[pa.Table]:
    with PrivateDatabase(memory=WORKER_MEMORY, threads=1) as database:
        name = database.create_table(f"SELECT * FROM {database.register(schema.empty_table())}")
        for table in tables:
            database.insert(name, table.cast(schema))
        for batch in database.stream(f"SELECT * FROM {name} ORDER BY u", batch_rows=_STREAMED):
            rows = pa.Table.from_batches([batch]).cast(schema)
            # As rows that were sorted in memory: a task may have places of either kind, and joins their rows.
            yield _texts_once(rows)


def _keys(users: pa.Array) -> NDArray[np.int64]:
    keys: NDArray[np.int64] = users.to_numpy() if pa.types.is_integer(users.type) else numbered(users)[0]
    return keys
