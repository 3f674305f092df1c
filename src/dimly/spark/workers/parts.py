"""Workers perturb whole people and write or send parts, by a plan that was carried there.

A task may run more than once: it failed, its machine was lost, or Spark ran two copies. Every attempt writes under a
name that nobody else has; only the names that arrive at the driver become part of the release. But until the job ends
what other attempts wrote can be read by whoever may read the folder, and would there be other noise in it, that would
be a second draw of the same people for one charge. So an attempt that reads the same rows draws the same noise, and one
that reads others draws noise that has nothing to do with it: the key of a batch's noise follows from a secret of the
run and from all that the batch holds.
"""

import contextlib
import errno
import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dimly.curator.engine import pair_parts
from dimly.curator.people import People
from dimly.curator.perturb import Perturber
from dimly.curator.randomness import WordSource
from dimly.curator.tables.columns import encoded_texts
from dimly.errors import DataError
from dimly.mechanisms.plan import Plan
from dimly.release.format import PARTS_FOLDER, FileRecord, UserType, column_of, layout_of
from dimly.release.parts import WrittenPart, as_user_column, encode_part, write_part
from dimly.spark.cluster import Batches
from dimly.spark.workers.batches import ExactRows, batches_of_place
from dimly.spark.workers.people_in_order import Segment, is_same
from dimly.spark.workers.pieces import CHANGED, of_places

_FILE = "part int, attempt string, bytes bigint, sha256 string, rows bigint"
WRITTEN = f"{_FILE}, first {{0}}, last {{0}}, after bigint, full boolean"
"""What is known of a part that was written, or that the disk is full; ids are of the release's type."""

MARK: Final = b"PAR1"
"""How every Parquet file ends."""

_MOST_ROWS = 1 << 21  # so that most parts are one batch


@lru_cache(maxsize=4)
def parsed(plan_json: str) -> Plan:
    """Return a plan; once for each worker, because it is proven each time that it is read."""
    return Plan.from_json(plan_json)


@dataclass(frozen=True)
class CarriedPlan:
    """What a worker needs to perturb people by a plan. Equal if the plans are, which hold their directions' digest.

    Attributes
    ----------
    json : str
    directions : Broadcast or None
        Of a plan that has some.
    """

    json: str
    directions: Any = field(default=None, compare=False, repr=False)

    def perturber(self) -> Perturber:
        """Return the perturber of the plan; once for each worker, because its noise tables are proven."""
        return _perturber(self)


@lru_cache(maxsize=1)  # one job's at a time: directions may take half a gigabyte
def _perturber(carried: CarriedPlan) -> Perturber:
    plan = parsed(carried.json)
    return Perturber(plan if carried.directions is None else plan.along(carried.directions.value))


@contextlib.contextmanager
def carried_plan(plan: Plan, context: Any) -> Iterator[CarriedPlan]:
    """Give a plan for the workers of a Spark context; Spark forgets its directions at the end.

    Spark sends a broadcast to each machine once, in pieces that machines pass on to each other. With the tasks they
    would be sent once for each.
    """
    if plan.matrix is None:
        yield CarriedPlan(plan.to_json())
        return
    directions = context.broadcast(plan.matrix)
    try:
        yield CarriedPlan(plan.to_json(), directions)
    finally:
        with contextlib.suppress(Exception):  # what went wrong first is what the caller must hear of
            directions.destroy()


@dataclass(frozen=True)
class PerturbParts(ABC):
    """Merges the rows of pieces, perturbs whole people and hands over their parts.

    Attributes
    ----------
    plan : CarriedPlan
    user_type : {"int64", "text"}
    parts : mapping of int to int
        Number of the part by its place.
    people : mapping of int to segments
        Who must be in each part.
    listed : bool
        Whether only those are published who have a row without an attribute: a roster was given.
    words : callable
        Makes the source of random words of each batch, given what no other batch has: see :func:`batch_name`.
    """

    plan: CarriedPlan
    user_type: UserType
    parts: Mapping[int, int]
    people: Mapping[int, tuple[Segment, ...]]
    listed: bool
    words: Callable[[bytes], WordSource]

    def __call__(self, batches: Batches) -> Batches:
        """Go through a partition, whose pieces are ordered by place."""
        perturber = self.plan.perturber()
        plan = perturber.plan
        most_rows = _MOST_ROWS if plan.places_people else None
        for place, pieces in of_places(batches):
            part = self.parts[place]
            held: list[pa.Array] = []
            values = self._room(plan, part)
            for number, people in batches_of_place(pieces, plan, listed=self.listed, most_rows=most_rows):
                words = self.words(batch_name(plan, part, number, people))
                start = sum(map(len, held))
                out = None if values is None else values[start : start + len(people)]
                if out is not None and len(out) < len(people):
                    raise DataError(CHANGED)
                perturbed = _perturbed(perturber, people, words, out)
                values = perturbed if values is None else values
                held.append(people.users)
            if held and values is not None:
                yield from self._write(plan, part, pa.chunked_array(held).combine_chunks(), values)

    def _room(self, plan: Plan, part: int) -> NDArray[Any] | None:
        """Return where the people of a part are published, batch after batch; None if they are one batch."""
        if not plan.places_people:
            return None
        n_users = sum(segment.n for segment in self.people[part])
        return np.empty(plan.published_shape(n_users), plan.published_dtype)

    def _write(self, plan: Plan, index: int, users: pa.Array, values: NDArray[Any]) -> Batches:
        layout = layout_of(plan)
        if not is_same(users, self.people[index]):
            raise DataError(CHANGED)
        if not plan.places_people:
            for number, (first, stop, some) in enumerate(pair_parts(values, n_users=len(users), layout=layout)):
                yield self._write_one(plan, number, users.slice(first, stop - first), some)
            return
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
            # How many bytes a part takes depends on its noise. The same bytes would not fit the next time either; and
            # were other rows, with other noise, tried until they fit, the release would come from another distribution
            # than the one that was promised. So this is no failure of the task.
            record = None
        fields = {
            "part": pa.array([index], pa.int32()),
            "attempt": pa.array([attempt]),
            "bytes": pa.array([record and record.bytes], pa.int64()),
            "sha256": pa.array([record and record.sha256], pa.string()),
            "rows": pa.array([len(column)]),
            "first": column.slice(0, 1),
            "last": column.slice(len(column) - 1),
            "after": pa.array([column_of(plan).users_after(len(column), values.size)], pa.int64()),
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
            "after": column_of(plan).users_after(len(column), values.size),
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


def batch_name(plan: Plan, part: int, number: int, people: ExactRows) -> bytes:
    """Return what no other batch of a run has, and the same batch has whenever it is read.

    The plan's digest, the part's number and the batch's within it, and the SHA-256 of its people and of all their rows.
    Two batches that differ in anything that is perturbed, or in where it is published, must differ here: noise that was
    added to both would show their difference.
    """
    return b"%s\0%d\0%d\0%s" % (plan.digest.encode(), part, number, people.digest())


def _perturbed(perturber: Perturber, people: ExactRows, words: WordSource, out: NDArray[Any] | None) -> NDArray[Any]:
    """Return what is published of people, written to ``out`` if that is given."""
    if people.texts is not None:
        perturber = perturber.with_attributes(encoded_texts(people.texts))
    return perturber.perturb(People(people.indptr, people.attributes, people.steps), words, out=out)
