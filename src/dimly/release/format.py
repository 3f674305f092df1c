"""How a release is cut into parts and row groups, and what columns hold: ids, and numbers, bits or distances."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from dimly.errors import ParameterError, ReleaseError
from dimly.files import MANIFEST_NAME, PARTS_NAME
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.plan_kinds import DirectionsPlan, DistancePlan, ResponsePlan, SketchPlan
from dimly.mechanisms.plan_parts import STRICT
from dimly.mechanisms.projection.directions import LONGEST_ORIGIN
from dimly.release.page_headers import SLACK, Claim

UserType = Literal["int64", "text"]

MANIFEST: Final = MANIFEST_NAME
README: Final = "README.md"
PARTS_FOLDER: Final = PARTS_NAME
ATTRIBUTES: Final = "attributes.parquet"
PROJECTION: Final = "projection.parquet"
DIRECTIONS: Final = "directions.parquet"

DIRECTIONS_PER_GROUP: Final = 1 << 14
"""Rows of a row group of directions.parquet."""
LONGEST_FACTS: Final = 8 * LONGEST_ORIGIN
"""Bytes of what directions.parquet says of itself."""

_MOST_USERS = 1 << 16
_MOST_BYTES = 1 << 26
_GROUPS = 8
_MOST_PARTS = 10**6


class FileRecord(BaseModel):
    """What the manifest says of one file."""

    model_config = STRICT

    path: str
    bytes: int = Field(ge=1)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    rows: int = Field(ge=1)


class Layout(BaseModel):
    """Where parts and row groups end, in people. Only the last part, and its last group, may hold fewer.

    Parameters
    ----------
    users_per_part : int
    users_per_group : int
    """

    model_config = STRICT

    users_per_part: int = Field(ge=1)
    users_per_group: int = Field(ge=1)

    def n_parts(self, n_users: int) -> int:
        """Return the number of files that hold ``n_users`` people."""
        return -(-n_users // self.users_per_part)

    def users_in(self, index: int, n_users: int) -> int:
        """Return how many of ``n_users`` people are in part ``index``."""
        return max(0, min(self.users_per_part, n_users - index * self.users_per_part))

    def groups_in(self, n_rows: int) -> list[int]:
        """Return the number of rows of each row group of a part of ``n_rows``."""
        return [min(self.users_per_group, n_rows - start) for start in range(0, n_rows, self.users_per_group)]


def layout_of(plan: Plan) -> Layout:
    """Return the layout of every release by ``plan``.

    People per part: the largest power of two that is at most 2¹⁶ and keeps ``plan.bytes_per_user`` times it within
    64 MiB; at least 1. People per row group: an eighth of it; at least 1.

    Examples
    --------
    >>> from dimly.privacy import Budget
    >>> layout_of(Plan.of("counting+laplace", Budget(1.0), k=4096, seed=bytes(32)))
    Layout(users_per_part=8192, users_per_group=1024)
    """
    fitting = max(1, math.floor(_MOST_BYTES / max(plan.bytes_per_user, 1.0)))
    users_per_part = min(_MOST_USERS, 1 << (fitting.bit_length() - 1))
    return Layout(users_per_part=users_per_part, users_per_group=max(1, users_per_part // _GROUPS))


def part_path(index: int) -> str:
    """Return the path of a part within its release; names sort as their numbers do.

    Examples
    --------
    >>> part_path(7)
    'sketches/part-000007.parquet'
    """
    if not 0 <= index < _MOST_PARTS:
        raise ValueError(f"index must be in 0…{_MOST_PARTS - 1}, got {index}.")
    return f"{PARTS_FOLDER}/part-{index:06d}.parquet"


def part_index(path: str) -> int:
    """Return the number of the part at ``path``."""
    return int(path.removeprefix(f"{PARTS_FOLDER}/part-").removesuffix(".parquet"))


def part_schema(plan: Plan, user_type: UserType) -> pa.Schema:
    """Return the Arrow schema that a part is read with."""
    users = pa.int64() if user_type == "int64" else pa.string()
    return _required(user=users, sketch=column_of(plan).arrow_type)


def attributes_schema() -> pa.Schema:
    """Return the Arrow schema of attributes.parquet."""
    return _required(attribute=pa.string())


def projection_schema(plan: Plan) -> pa.Schema:
    """Return the Arrow schema of projection.parquet."""
    return _required(attribute=pa.string(), row=list_of(pa.from_numpy_dtype(entry_type(plan))))


def directions_schema(*, buckets: bool, categories: bool) -> pa.Schema:
    """Return the Arrow schema of directions.parquet."""
    named: dict[str, pa.DataType] = {"bucket": pa.int32()} if buckets else {"attribute": pa.string()}
    if categories:
        named["category"] = pa.string()
    return _required(**named, direction=list_of(pa.int16()))


def format_version(plan: Plan, *, volunteers: bool = False, about: bool = False) -> Literal[1, 2, 3]:
    """Return the version of the format that a release by ``plan`` has: the first one that knows all of it.

    2 came with directions, streams of version 2 and a promise that excepts volunteers, 3 with what the publisher says
    of the release.
    """
    if about:
        return 3
    return 2 if volunteers else column_of(plan).format


def entry_type(plan: Plan) -> Literal["int8", "int16", "int32"]:
    """Return the smallest type that holds every entry of P: none is farther from zero than a row's ℓ₂ norm."""
    largest = math.isqrt(plan.longest_row.l2_squared)
    return "int8" if largest < 2**7 else "int16" if largest < 2**15 else "int32"


def schema_in_words(plan: Plan, user_type: UserType) -> dict[str, str]:
    """Return the columns of a part in words, as the manifest says them."""
    return {"user": "INT64" if user_type == "int64" else "STRING", "sketch": column_of(plan).words}


class Column(ABC):
    """What is published by one kind of plan: the column ``sketch`` of a part, and the files beside the parts."""

    plan: Plan
    leaf: ClassVar[str] = "sketch.list.element"
    """The column's name in Parquet, where lists are columns of their elements."""
    encoding: ClassVar[str] = "DELTA_BINARY_PACKED"

    def __init__(self, plan: Any) -> None:
        self.plan = plan

    @property
    def format(self) -> Literal[1, 2]:
        """The first version of the format that knows it."""
        return 1

    @property
    def arrow_type(self) -> pa.DataType:
        """The type that the column is read with."""
        return list_of(pa.from_numpy_dtype(self.plan.published_dtype))

    @property
    @abstractmethod
    def words(self) -> str:
        """The column in words, as the manifest says it."""

    @property
    def public_files(self) -> dict[str, tuple[pa.Schema, int]]:
        """What a release may hold beside its parts: the schema of each file, and how many numbers its rows have."""
        if self.plan.vocabulary is None:
            return {}
        files = {ATTRIBUTES: (attributes_schema(), 0)}
        if self.plan.k is not None:
            files[PROJECTION] = projection_schema(self.plan), self.plan.k
        return files

    @property
    def needed_files(self) -> dict[str, int]:
        """The public files without which nobody could read a release, and how many rows they have."""
        return {}

    def entries(self, first: int, rows: int, n_users: int) -> int:
        """Return how many numbers ``rows`` of ``n_users`` people have, from position ``first`` on."""
        del first, n_users
        return math.prod(self.plan.published_shape(rows))

    def start(self, position: Any, n_users: int) -> Any:
        """Return where the numbers of the person at a position start, among those of ``n_users``."""
        del n_users
        return position

    def users_after(self, rows: int, n_values: int) -> int | None:
        """Return how many people come after a part, if the number of its values tells."""
        del rows, n_values
        return None

    def to_arrow(self, values: NDArray[Any], rows: int) -> pa.Array:
        """Return the column of ``rows`` people whose values are these.

        Raises
        ------
        ReleaseError
            If the values do not fit the plan.
        """
        dtype, shape = self.plan.published_dtype, self._shape(values, rows)
        if values.dtype != dtype or values.shape != shape or not values.flags.c_contiguous:
            got = f"{values.dtype} of {values.shape}"
            raise ReleaseError(f"values must be {dtype} of shape {shape}, contiguous, for this part, got {got}.")
        return self._packed(values, rows)

    @abstractmethod
    def to_values(self, column: pa.ChunkedArray, path: str, *, rest: int) -> NDArray[Any]:
        """Return the values of a column, after whose people ``rest`` others come; what :meth:`to_arrow` took.

        Raises
        ------
        ReleaseError
            If a list has another length than the plan says.
        """

    def _shape(self, values: NDArray[Any], rows: int) -> tuple[int, ...]:
        del values
        return self.plan.published_shape(rows)

    @abstractmethod
    def _packed(self, values: NDArray[Any], rows: int) -> pa.Array: ...


class NumberLists(Column):
    """Lists of k numbers."""

    plan: SketchPlan | DirectionsPlan

    @property
    def format(self) -> Literal[1, 2]:
        """The first version of the format that knows these rows of P."""
        return 1 if self.plan.projection is None or self.plan.projection.stream is None else 2

    @property
    def words(self) -> str:
        """The column in words, as the manifest says it."""
        return f"LIST of exactly {self.plan.k} {self.plan.dtype.upper()}"

    def to_values(self, column: pa.ChunkedArray, path: str, *, rest: int) -> NDArray[Any]:
        """Return the numbers of a column, one person a row."""
        del rest
        return _flat(column, self.plan.k, f"exactly {self.plan.k} numbers", path).reshape(len(column), self.plan.k)

    def _packed(self, values: NDArray[Any], rows: int) -> pa.Array:
        del rows
        numbers = as_column(values.reshape(-1))
        return pa.FixedSizeListArray.from_arrays(numbers, type=list_of(numbers.type, self.plan.k))


class DirectionLists(NumberLists):
    """Lists of numbers along directions, which the release holds, too."""

    plan: DirectionsPlan

    @property
    def format(self) -> Literal[1, 2]:
        """The first version of the format that knows directions."""
        return 2

    @property
    def public_files(self) -> dict[str, tuple[pa.Schema, int]]:
        """The directions."""
        part = self.plan.directions
        return {DIRECTIONS: (directions_schema(buckets=part.buckets, categories=part.kind == "categories"), part.count)}

    @property
    def needed_files(self) -> dict[str, int]:
        """The directions."""
        return {DIRECTIONS: self.plan.directions.size}


class PackedBits(Column):
    """The bits of a person in bytes."""

    plan: ResponsePlan
    leaf = "sketch"
    encoding = "PLAIN"

    @property
    def width(self) -> int:
        """Bytes of one person."""
        return self.plan.published_shape(1)[1]

    @property
    def arrow_type(self) -> pa.DataType:
        """The type that the column is read with."""
        return pa.binary(self.width)

    @property
    def words(self) -> str:
        """The column in words, as the manifest says it."""
        return f"FIXED_LEN_BYTE_ARRAY of {self.width}: {self.plan.n_attributes} bits, bit i in byte i//8 as bit i%8"

    def to_values(self, column: pa.ChunkedArray, path: str, *, rest: int) -> NDArray[Any]:
        """Return the bytes of a column, one person a row."""
        del rest
        # Chunk by chunk: a fixed-size binary array may start anywhere in its buffer.
        pieces = [
            np.frombuffer(chunk.buffers()[1], np.uint8)[
                chunk.offset * self.width : (chunk.offset + len(chunk)) * self.width
            ]
            for chunk in column.chunks
        ]
        packed = (pieces[0] if len(pieces) == 1 else np.concatenate(pieces)).reshape(-1, self.width)
        if (packed[:, -1] & self.plan.padding).any():
            raise ReleaseError(f"{path} must hold bits of the vocabulary only, but it holds others.")
        return packed

    def _packed(self, values: NDArray[Any], rows: int) -> pa.Array:
        return pa.FixedSizeBinaryArray.from_buffers(self.arrow_type, rows, [None, pa.py_buffer(values)])


class DistanceLists(Column):
    """Lists of a person's distances to those after: the rows of an upper triangle, end to end."""

    plan: DistancePlan

    @property
    def words(self) -> str:
        """The column in words, as the manifest says it."""
        return f"LIST of {self.plan.dtype.upper()}: the distances to the users after this one"

    def entries(self, first: int, rows: int, n_users: int) -> int:
        """Return how many distances some people have; an empty list counts as one to Parquet."""
        after = n_users - first - rows  # people who come after these
        return rows * (rows - 1) // 2 + rows * after + (after == 0)

    def start(self, position: Any, n_users: int) -> Any:
        """Return where the distances of the person at a position start."""
        return row_start(n_users, position)

    def users_after(self, rows: int, n_values: int) -> int:
        """Return how many people come after a part, by the number of its distances.

        Of ``rows`` people with r after them, the first has rows − 1 + r distances and the last has r.
        """
        return (n_values - rows * (rows - 1) // 2) // max(rows, 1)

    def to_values(self, column: pa.ChunkedArray, path: str, *, rest: int) -> NDArray[Any]:
        """Return the distances of a column, end to end."""
        return _flat(column, _lengths(len(column), rest), "the distances to the users after each", path)

    def _shape(self, values: NDArray[Any], rows: int) -> tuple[int]:
        return (self.plan.published_shape(rows)[0] + rows * max(self.users_after(rows, values.size), 0),)

    def _packed(self, values: NDArray[Any], rows: int) -> pa.Array:
        numbers, lengths = as_column(values), _lengths(rows, self.users_after(rows, values.size))
        offsets = as_column(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
        return pa.ListArray.from_arrays(offsets, numbers, type=list_of(numbers.type))


_COLUMNS: Final[Mapping[type[Plan], type[Column]]] = {
    SketchPlan: NumberLists,
    DirectionsPlan: DirectionLists,
    ResponsePlan: PackedBits,
    DistancePlan: DistanceLists,
}


def column_of(plan: Plan) -> Column:
    """Return how what a plan publishes is stored."""
    return _COLUMNS[type(plan)](plan)


class FileShape(NamedTuple):
    """What a file of a release must hold."""

    schema: pa.Schema
    groups: list[int] | None
    """Rows of each row group; None: any."""
    entries: Callable[[int, int], int]
    """How many entries the lists of some rows have together, given the first of them and their number."""


def file_shape(file: FileRecord, plan: Plan, layout: Layout, *, n_users: int, user_type: UserType) -> FileShape:
    """Return what a file of a release of ``n_users`` people must hold."""
    column = column_of(plan)
    public = column.public_files
    if file.path in public:
        schema, k = public[file.path]
        return FileShape(schema, None, lambda _, rows: rows * k)
    first = part_index(file.path) * layout.users_per_part
    return FileShape(
        part_schema(plan, user_type),
        layout.groups_in(file.rows),
        lambda start, rows: column.entries(first + start, rows, n_users),
    )


def check_files(files: Sequence[FileRecord], plan: Plan, layout: Layout, *, n_users: int, user_type: UserType) -> None:
    """Refuse files that are not those of a release of ``n_users`` people, in order, each of as many rows and bytes.

    Raises
    ------
    ParameterError
        Saying what they must be.
    """
    n_parts, column = layout.n_parts(n_users), column_of(plan)
    if n_parts > len(files):
        raise ParameterError(f"files must hold the {n_parts} parts of {n_users} users, but it does not")
    rows = {part_path(index): layout.users_in(index, n_users) for index in range(n_parts)} | column.needed_files
    paths = [record.path for record in files]
    if paths != sorted(set(paths)) or not set(rows) <= set(paths) <= set(rows) | set(column.public_files):
        raise ParameterError("files must be the parts of the release, and what goes with its vocabulary, in order")
    for record in files:
        if record.rows != rows.get(record.path, plan.n_attributes):
            raise ParameterError(f"files must hold as many rows as the layout says, but {record.path} does not")
        schema, groups, entries = file_shape(record, plan, layout, n_users=n_users, user_type=user_type)
        most, n_groups = 0, 1 if groups is None else len(groups)
        if record.path == DIRECTIONS:
            most, n_groups = LONGEST_FACTS, -(-record.rows // DIRECTIONS_PER_GROUP)
        for kind in schema.types:  # see docs/release-format.md
            n_values = entries(0, record.rows) if pa.types.is_list(kind) else record.rows
            most += Claim.of(kind, record.rows, n_values).most_bytes
        if record.bytes > most + (n_groups * len(schema) + 1) * SLACK:
            raise ParameterError(f"files must take no more bytes than their rows need, but {record.path} does")


# Ids that are text are Python's own strings in an array of objects. NumPy's text of any length (StringDType) would be
# the obvious type, but in 2.4, the newest for Python 3.11, it reads or writes wrong memory where texts are searched
# (numpy issue 31533), put in chosen places (32153) or taken from two arrays at once (pull request 31609).
def text_ids(texts: Iterable[str]) -> NDArray[np.object_]:
    """Return ids that are text as an array.

    >>> text_ids(["ada", "eve"])
    array(['ada', 'eve'], dtype=object)
    """
    return np.array(list(texts), object)


def user_type_of(ids: NDArray[Any]) -> UserType:
    """Return of which type ids in memory are."""
    return "int64" if ids.dtype.kind == "i" else "text"


def row_start(n_users: int, position: Any) -> Any:
    """Return where somebody's distances to the people after them start in the upper triangle, row after row."""
    return position * (2 * n_users - position - 1) // 2


def _lengths(rows: int, rest: int) -> NDArray[np.int64]:
    return np.arange(rows - 1, -1, -1) + rest


def _flat(column: pa.ChunkedArray, lengths: Any, what: str, path: str) -> NDArray[Any]:
    """Return the numbers of lists that must have these lengths."""
    found = lengths_of(column)
    if not np.array_equal(found, np.broadcast_to(lengths, found.shape)):
        raise ReleaseError(f"{path} must hold lists of {what}, but some are longer or shorter.")
    return flattened(column)


VERY_FEW_ROWS: Final = 1 << 12
"""Python has looked at so many before ``pyarrow.compute`` is loaded, whose functions serve too."""


def plain_values(column: pa.Array) -> list[Any]:
    r"""Return a few integers, or texts as their bytes: nobody has seen yet whether they are UTF-8.

    Examples
    --------
    >>> plain_values(pa.array([7, -1])), plain_values(pa.array(["tea", "é"]))
    ([7, -1], [b'tea', b'\xc3\xa9'])
    """
    if pa.types.is_string(column.type):
        column = column.view(pa.binary())
    elif not pa.types.is_integer(column.type):
        column = column.cast(pa.large_binary())
    values: list[Any] = column.to_pylist()
    return values


# Of pyarrow.compute, whose functions serve too, loading takes longer than most questions.
def lengths_of(lists: pa.ChunkedArray) -> NDArray[np.int32]:
    """Return how many numbers each list of a column holds."""
    return np.concatenate([np.empty(0, np.int32), *(np.diff(numbers_of(piece.offsets)) for piece in lists.chunks)])


def flattened(lists: pa.ChunkedArray) -> NDArray[Any]:
    """Return the numbers of all lists of a column."""
    return numbers_of(pa.chunked_array([elements_of(piece) for piece in lists.chunks], lists.type.value_type))


def elements_of(lists: pa.ListArray) -> pa.Array:
    """Return the elements of all lists, of which none is missing."""
    first, last = lists.offsets[0].as_py(), lists.offsets[-1].as_py()
    return lists.values.slice(first, last - first)


# Arrow's own `to_numpy` and `pa.array` load pandas where it is installed, which takes longer than most questions.
def numbers_of(column: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """Return a column of numbers of which none is missing; one that is in one piece is not copied."""
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return np.from_dlpack(column)


def as_column(numbers: NDArray[Any]) -> pa.Array:
    """Return numbers as a column, which must not change from here on: they are not copied."""
    kind = pa.from_numpy_dtype(numbers.dtype)
    return pa.Array.from_buffers(kind, numbers.size, [None, pa.py_buffer(np.ascontiguousarray(numbers))])


def list_of(element: pa.DataType, length: int = -1) -> pa.DataType:
    """Return a list type without missing elements."""
    return pa.list_(pa.field("element", element, nullable=False), length)


def _required(**columns: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in columns.items()])
