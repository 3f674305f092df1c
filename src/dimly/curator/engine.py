"""The local engine: sorted rows cut into batches of whole people, perturbed by threads, written as parts.

One thread cuts the sorted stream into batches of whole people at fixed positions of the list of people; a pool perturbs
them; whoever completes a part writes it. Nothing waits for a whole part's rows, and no position, size or order of what
is written depends on them.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dimly.curator import kernels
from dimly.curator.options import Progress, Resources
from dimly.curator.people import People
from dimly.curator.perturb import Perturber, Texts
from dimly.curator.randomness import Keystream, WordSource, is_secret
from dimly.curator.tables.numbered_table import NumberedRows
from dimly.errors import DataError
from dimly.mechanisms.plan import Plan
from dimly.release.format import Layout, layout_of

_MOST_ROWS = 1 << 21
"""Rows of a batch, unless one person has more: some 50 MB with all copies. A row with a value counts as two."""


class NamedTable(Protocol):
    """A private table in which people and attributes are numbers, and which says what those of attributes stand for."""

    @property
    def n_users(self) -> int:
        """How many people there are."""

    def users(self, start: int, stop: int) -> pa.Array:
        """Return the published ids of people ``start`` … ``stop`` − 1."""

    def rows(self) -> Iterator[NumberedRows]:
        """Return all rows in the order of people and then attributes."""

    def texts(self) -> Texts:
        """Return what the numbers of attributes stand for."""


class Parts(Protocol):
    """Where parts of a release go. Called by several threads, for different parts and in any order."""

    def write_part(self, index: int, users: pa.Array, values: NDArray[Any]) -> None:
        """Take the people of one part, and what is published of them."""


class Batch(NamedTuple):
    """The rows of people ``first`` … ``stop`` − 1, in pieces of the sorted stream."""

    first: int
    stop: int
    pieces: list[NumberedRows]


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Publishes a table on this machine, within its limits."""

    plan: Plan
    resources: Resources
    progress: Progress
    words: Callable[[], WordSource] = Keystream

    @property
    def private(self) -> bool:
        """Whether all noise comes from fresh secret keystreams."""
        return is_secret(self.words())

    def publish(self, table: NamedTable, parts: Parts, *, before_noise: Callable[[], None] = lambda: None) -> None:
        """Perturb everybody of ``table`` and hand over the parts.

        ``before_noise`` is called once, when the rows are sorted and nothing has been drawn yet.
        """
        perturber = self._perturber(table)
        with ThreadPoolExecutor(max_workers=self.resources.workers, thread_name_prefix="dimly") as pool:
            # While the rows are being sorted: deriving rows of the projection and proving a noise table take a while.
            making = pool.submit(perturber)
            try:
                if self.plan.places_people:
                    _Run(self, table, parts, making).publish_all(pool, before_noise)
                else:
                    self._publish_pairs(table, parts, making.result(), before_noise)
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def _perturber(self, table: NamedTable) -> Callable[[], Perturber]:
        plan, memory = self.plan, self.resources.rows_memory
        if plan.by_position:
            return lambda: Perturber(plan)
        texts = table.texts()  # now, and not while the rows are streamed
        return lambda: Perturber.numbered(plan, texts, memory=memory)

    def _publish_pairs(
        self, table: NamedTable, parts: Parts, perturber: Perturber, before_noise: Callable[[], None]
    ) -> None:
        """Publish noisy distances: everybody with everybody, so that all rows are needed at once."""
        n, layout = table.n_users, layout_of(self.plan)
        (batch,) = cut_batches(table.rows(), n_users=n, step=n, most_rows=None)
        before_noise()
        self.progress.start(n)
        values = perturber.perturb(people_of_sorted(batch, resolution=self.plan.resolution), self.words())
        for index, (first, stop, some) in enumerate(pair_parts(values, n_users=n, layout=layout)):
            parts.write_part(index, table.users(first, stop), some)
            self.progress.advance(stop - first)


class _OpenPart:
    """A part that is being filled, in any order."""

    def __init__(self, users: pa.Array, plan: Plan) -> None:
        self.users = users
        self.missing = len(users)
        self._plan = plan

    @cached_property
    def values(self) -> NDArray[Any]:
        """What is published of them; made when the first of them is, not while the part waits."""
        return np.empty(self._plan.published_shape(len(self.users)), self._plan.published_dtype)


class _Run:
    """One pass over the rows: parts that are open, and what their threads do."""

    def __init__(self, engine: LocalEngine, table: NamedTable, parts: Parts, making: Future[Perturber]) -> None:
        self._engine = engine
        self._table = table
        self._parts = parts
        self._making = making
        self._layout = layout_of(engine.plan)
        self._open: dict[int, _OpenPart] = {}
        self._lock = threading.Lock()

    def publish_all(self, pool: ThreadPoolExecutor, before_noise: Callable[[], None]) -> None:
        """Publish all batches; as many at a time as there are workers, and few more waiting."""
        n_users, progress = self._table.n_users, self._engine.progress
        waiting: set[Future[int]] = set()

        def reap(most: int) -> None:
            nonlocal waiting
            while len(waiting) > most:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                progress.advance(sum(future.result() for future in done))

        batches = cut_batches(self._table.rows(), n_users=n_users, step=self._layout.users_per_group)
        first = next(batches)  # after all rows are read, and written if they do not fit in memory
        self._making.result()  # if it failed, nothing was drawn
        before_noise()
        progress.start(n_users)
        for batch in chain([first], batches):
            self._open_part(batch.first)
            waiting.add(pool.submit(self._publish, batch))
            reap(self._engine.resources.workers + 1)
        reap(0)

    def _open_part(self, position: int) -> None:
        index, offset = divmod(position, self._layout.users_per_part)
        if offset == 0:
            stop = min(position + self._layout.users_per_part, self._table.n_users)
            part = _OpenPart(self._table.users(position, stop), self._engine.plan)
            with self._lock:
                self._open[index] = part

    def _publish(self, batch: Batch) -> int:
        """Perturb a batch, write its part if this completes it, and return how many people are done with that."""
        index, offset = divmod(batch.first, self._layout.users_per_part)
        part = self._open[index]
        people = people_of_sorted(batch, resolution=self._engine.plan.resolution)
        batch.pieces.clear()  # whoever waits for this batch holds it
        perturber = self._making.result()
        with self._lock:
            values = part.values
        perturber.perturb(people, self._engine.words(), out=values[offset : offset + len(people)])
        with self._lock:
            part.missing -= len(people)
            complete = part.missing == 0
        if complete:
            self._parts.write_part(index, part.users, part.values)
            with self._lock:
                del self._open[index]
        return len(part.users) if complete else 0


def pair_parts(values: NDArray[Any], *, n_users: int, layout: Layout) -> Iterator[tuple[int, int, NDArray[Any]]]:
    """Return where each part of noisy distances starts and stops, in people, and the distances in it."""
    at = 0
    for first in range(0, n_users, layout.users_per_part):
        stop = min(first + layout.users_per_part, n_users)
        size = sum(n_users - 1 - i for i in range(first, stop))
        yield first, stop, values[at : at + size]
        at += size


def cut_batches(
    chunks: Iterator[NumberedRows], *, n_users: int, step: int, most_rows: int | None = _MOST_ROWS, together: int = 1
) -> Iterator[Batch]:
    """Cut sorted rows into batches of whole people that cover everybody, in order.

    Parameters
    ----------
    chunks : iterator of NumberedRows
    n_users : int
        At least 1.
    step : int
        No batch crosses a multiple of it.
    most_rows : int, optional
        A batch with more rows is split between two people if it can be. Rows with values take twice the memory, and
        count twice.
    together : int, default=1
        Of ``step`` a divisor: no batch is split but at a multiple of it, so that pairs of people stay together.
    """
    first = 0
    pending: list[NumberedRows] = []
    for chunk in chunks:
        rest = chunk
        while len(rest):
            boundary = min((first // step + 1) * step, n_users)
            inside = rest.rows_before(boundary)
            pending.append(rest.slice(0, inside))
            rest = rest.slice(inside, len(rest))
            if len(rest):
                yield Batch(first, boundary, pending)
                first, pending = boundary, []
        if most_rows is not None and pending and sum(map(len, pending)) * _size_of(pending[-1]) > most_rows:
            last = int(pending[-1].keys[-1] >> 32)  # whose rows may go on
            last -= last % together
            if last > first:
                yield Batch(first, last, [piece.slice(0, piece.rows_before(last)) for piece in pending])
                later = [piece.slice(piece.rows_before(last), len(piece)) for piece in pending]
                first, pending = last, [piece for piece in later if len(piece)]
            elif not pending[-1].in_steps:  # many rows of one person, who may have few attributes
                pending[-1] = pending[-1].distinct()
    while first < n_users:
        boundary = min((first // step + 1) * step, n_users)
        yield Batch(first, boundary, pending)
        first, pending = boundary, []


def _size_of(rows: NumberedRows) -> int:
    """Return for how many keys each row counts, by its memory."""
    return 1 if rows.values is None else 2


def people_of_sorted(batch: Batch, *, resolution: int) -> People:
    """Return the people of a batch: repeats once, of several values of one attribute the largest.

    Values become integers in 0…resolution here, where they are published: what an earlier pass over the table found is
    no promise about this one.

    Raises
    ------
    DataError
        If the rows are not in order, or are not of these people.
    """
    keys, values, in_steps = _in_one_piece(batch.pieces)
    indptr = np.empty(batch.stop - batch.first + 1, np.int64)
    indices = np.empty(len(keys), np.int32)
    steps = np.empty(0 if values is None else len(keys), np.int64)
    found = None if in_steps else values
    right = kernels.rows_of_sorted(keys, found, batch.first, resolution, indptr, indices, steps)
    size = int(indptr[-1])
    if not right or (in_steps and size < len(keys)):
        raise DataError("the table's rows must be in the order of people and attributes, but they are not.")
    if resolution == 1:
        return People(indptr, indices[:size], None)
    if values is None:
        return People(indptr, indices[:size], np.full(size, resolution, np.int64))
    return People(indptr, indices[:size], np.clip(values, 0, resolution) if in_steps else steps[:size])


def _in_one_piece(pieces: list[NumberedRows]) -> NumberedRows:
    if len(pieces) == 1:
        return pieces[0]
    if not pieces:
        return NumberedRows(np.empty(0, np.int64), None)
    values = None if pieces[0].values is None else np.concatenate([piece.values for piece in pieces])
    return NumberedRows(np.concatenate([piece.keys for piece in pieces]), values, pieces[0].in_steps)
