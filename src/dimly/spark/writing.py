"""What workers do with private rows last: perturb whole people, and write each part to a file of this attempt's own.

A task may run more than once: it failed, its machine was lost, or Spark ran two copies. Every attempt draws fresh noise
and writes under a name that nobody else has; only the names that arrive at the driver become part of the release.
"""

import errno
import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dimly.curator.coding import CodedRows
from dimly.curator.engine import Batch, pair_parts, people_of_sorted
from dimly.curator.perturbing import Perturber
from dimly.curator.randomness import WordSource
from dimly.errors import DataError
from dimly.mechanisms.attributes import Vocabulary
from dimly.mechanisms.plan import Plan
from dimly.release.layout import PARTS_FOLDER, UserType, layout_of
from dimly.release.parts import FileRecord, WrittenPart, as_user_column, encode_part, users_after, write_part
from dimly.spark.frames import Batches
from dimly.spark.reading import parsed

_FILE = "part int, attempt string, bytes bigint, sha256 string, rows bigint"
WRITTEN = f"{_FILE}, first {{0}}, last {{0}}, after bigint, full boolean"
"""What is known of a part that was written, or that the disk is full; ids are of the release's type."""

MARK: Final = b"PAR1"
"""How every Parquet file ends."""

_MOST_ROWS = 1 << 20
_CHANGED = "the table must stay as it is while it is read, and did not: it was computed twice. Write it to files first."


@dataclass(frozen=True)
class PerturbParts(ABC):
    """Perturbs sorted rows of whole people and hands over their parts.

    Attributes
    ----------
    plan_json : str
    user_type : {"int64", "text"}
    n_users : int
        Of the whole release.
    parts : mapping of int to int
        Number of the part by its place.
    listed : bool
        Whether only those are published who have a row without an attribute: a roster was given.
    words : callable
        Makes a source of random words for each batch.
    """

    plan_json: str
    user_type: UserType
    n_users: int
    parts: Mapping[int, int]
    listed: bool
    words: Callable[[], WordSource]

    def __call__(self, batches: Batches) -> Batches:
        """Go through a partition, whose rows are ordered by place and user."""
        perturber = _perturber(self.plan_json)
        plan = perturber.plan
        pairs = plan.n_users is not None
        held: list[tuple[pa.Array, NDArray[Any]]] = []
        place: int | None = None
        for piece in whole_people(batches, most_rows=None if pairs else _MOST_ROWS):
            for here, rows in _by_place(piece):
                if held and here != place:
                    yield from self._write(plan, self.parts[place or 0], held)
                    held = []
                place = here
                perturbed = self._perturbed(perturber, rows)
                if len(perturbed[0]):
                    held.append(perturbed)
        if held:
            yield from self._write(plan, self.parts[place or 0], held)

    def _perturbed(self, perturber: Perturber, rows: pa.Table) -> tuple[pa.Array, NDArray[Any]]:
        """Return people and what is published of them."""
        coded = rows.column("u").combine_chunks().dictionary_encode()
        users, who, what = (
            coded.dictionary,
            coded.indices.to_numpy().astype(np.int64),
            rows.column("a").combine_chunks(),
        )
        has = what.is_valid().to_numpy(zero_copy_only=False)
        if self.listed:
            there = np.zeros(len(users), np.bool_)
            there[who[~has]] = True
            numbers = np.cumsum(there) - 1
            has &= there[who]
            users, who = users.filter(pa.array(there)), numbers[who]
        if perturber.plan.projection is None:
            attributes = what.filter(pa.array(has)).to_numpy().astype(np.int64)
        else:
            spelled = what.filter(pa.array(has)).dictionary_encode()
            attributes = spelled.indices.to_numpy().astype(np.int64)
            perturber = perturber.with_attributes(spelled.dictionary.to_pylist())
        keys = (who[has] << 32) | attributes
        values = rows.column("v").to_numpy()[has] if "v" in rows.column_names else None
        if values is None:
            keys.sort()
        else:
            order = np.argsort(keys, kind="stable")
            keys, values = keys[order], values[order]
        people = people_of_sorted(Batch(0, len(users), [CodedRows(keys, values)]), resolution=perturber.plan.resolution)
        return users, perturber.perturb(people, self.words())

    def _write(self, plan: Plan, index: int, held: list[tuple[pa.Array, NDArray[Any]]]) -> Batches:
        users = pa.chunked_array([some for some, _ in held]).combine_chunks()
        values = held[0][1] if len(held) == 1 else np.concatenate([some for _, some in held])
        layout = layout_of(plan)
        if plan.n_users is not None:
            if len(users) != self.n_users:
                raise DataError(_CHANGED)
            for number, (first, stop, some) in enumerate(pair_parts(values, n_users=len(users), layout=layout)):
                yield self._write_one(plan, number, users.slice(first, stop - first), some)
            return
        if len(users) != layout.users_in(index, self.n_users):
            raise DataError(_CHANGED)
        yield self._write_one(plan, index, users, values)

    @abstractmethod
    def _write_one(self, plan: Plan, index: int, users: pa.Array, values: NDArray[Any]) -> pa.RecordBatch:
        """Hand over one part."""


@dataclass(frozen=True)
class WriteParts(PerturbParts):
    """Writes parts to a folder that all machines see, and answers with :data:`WRITTEN`.

    Attributes
    ----------
    folder : str
        Where attempts are written.
    """

    folder: str

    def _write_one(self, plan: Plan, index: int, users: pa.Array, values: NDArray[Any]) -> pa.RecordBatch:
        attempt = secrets.token_hex(16)
        folder = Path(self.folder) / attempt
        folder.mkdir()  # and not its parents: who comes after the end of the job must fail
        (folder / PARTS_FOLDER).mkdir()
        column = as_user_column(users, self.user_type)
        record: FileRecord | None
        try:
            record = write_part(folder, index, column, values, plan)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            # How many bytes a part takes depends on its noise. Were the task tried again until they fit, the release
            # would come from another distribution than the one that was promised: so this is no failure of the task.
            record = None
        fields = {
            "part": pa.array([index], pa.int32()),
            "attempt": pa.array([attempt]),
            "bytes": pa.array([record and record.bytes], pa.int64()),
            "sha256": pa.array([record and record.sha256], pa.string()),
            "rows": pa.array([len(column)]),
            "first": column.slice(0, 1),
            "last": column.slice(len(column) - 1),
            "after": pa.array([users_after(plan, len(column), values.size)], pa.int64()),
            "full": pa.array([record is None]),
        }
        return pa.RecordBatch.from_pydict(fields)


@dataclass(frozen=True)
class SendParts(PerturbParts):
    """Answers with the content of each part's file, and then with what is known of it: see :func:`sent`.

    Spark writes one file of each row. Its writer of texts copies bytes as they are, but ends every file with a mark of
    at least one byte: that of Parquet, which every part ends with anyway.
    """

    def _write_one(self, plan: Plan, index: int, users: pa.Array, values: NDArray[Any]) -> pa.RecordBatch:
        from pyspark import TaskContext

        column = as_user_column(users, self.user_type)
        record, content = encode_part(index, column, values, plan)
        task = TaskContext.get()
        assert task is not None  # noqa: S101 - workers run tasks
        known = {
            **record.model_dump(),
            "part": index,
            "first": column[0].as_py(),
            "last": column[-1].as_py(),
            "after": users_after(plan, len(column), values.size),
            "task": [task.stageId(), task.partitionId(), task.attemptNumber()],
        }
        # In digits, so that no id can hold the mark.
        rows = [memoryview(content)[: -len(MARK)], json.dumps(known).encode().hex().encode()]
        return pa.RecordBatch.from_arrays([pa.array(rows, pa.binary()).view(pa.string())], ["value"])


@dataclass(frozen=True, slots=True)
class SentPart:
    """What is known of a part whose content was handed to Spark.

    Attributes
    ----------
    part : WrittenPart
        Its folder means nothing.
    stage, partition, attempt : int
        The attempt at a task of Spark's that made it.
    """

    part: WrittenPart
    stage: int
    partition: int
    attempt: int


def sent(text: str) -> SentPart:
    """Return what is known of a part, from what :class:`SendParts` says of it."""
    known = json.loads(bytes.fromhex(text))
    file = FileRecord(**{name: known[name] for name in FileRecord.model_fields})
    part = WrittenPart(known["part"], Path(), file, known["first"], known["last"], known["after"])
    return SentPart(part, *known["task"])


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


@lru_cache(maxsize=4)
def _perturber(plan_json: str) -> Perturber:
    """Return the perturber of a plan; once for each worker, because its noise tables are proven."""
    plan = parsed(plan_json)
    if plan.projection is not None:
        return Perturber(plan, ())
    assert plan.vocabulary is not None  # noqa: S101 - these plans have one
    return Perturber(plan, Vocabulary.numbered(plan.vocabulary.size))  # attributes come as numbers here
