"""How a release is cut into files, and what stands in them: decided by the plan alone, never by the data."""

import math
from typing import Final, Literal

import pyarrow as pa
from pydantic import BaseModel, Field

from dimly.mechanisms.plan import Plan
from dimly.mechanisms.plan_parts import STRICT

UserType = Literal["int64", "text"]

MANIFEST: Final = "manifest.json"
PARTS_FOLDER: Final = "sketches"
ATTRIBUTES: Final = "attributes.parquet"
PROJECTION: Final = "projection.parquet"

_MOST_USERS = 1 << 16
_MOST_BYTES = 1 << 26
_GROUPS = 8
_MOST_PARTS = 10**6


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
    if plan.dtype == "bit":
        return _required(user=users, sketch=pa.binary(bytes_of_bits(plan)))
    return _required(user=users, sketch=list_of(pa.from_numpy_dtype(plan.dtype)))


def attributes_schema() -> pa.Schema:
    """Return the Arrow schema of attributes.parquet."""
    return _required(attribute=pa.string())


def projection_schema(plan: Plan) -> pa.Schema:
    """Return the Arrow schema of projection.parquet."""
    return _required(attribute=pa.string(), row=list_of(pa.from_numpy_dtype(entry_type(plan))))


def entry_type(plan: Plan) -> Literal["int8", "int16", "int32"]:
    """Return the smallest type that holds every entry of P: none is farther from zero than a row's ℓ₂ norm."""
    largest = 0 if plan.projection is None else math.isqrt(plan.projection.l2_squared)
    return "int8" if largest < 2**7 else "int16" if largest < 2**15 else "int32"


def described_schema(plan: Plan, user_type: UserType) -> dict[str, str]:
    """Return the columns of a part in words, as the manifest says them."""
    if plan.projection is not None:
        sketch = f"LIST of exactly {plan.projection.k} {plan.dtype.upper()}"
    elif plan.dtype == "bit":
        sketch = (
            f"FIXED_LEN_BYTE_ARRAY of {bytes_of_bits(plan)}: {plan.n_attributes} bits, bit i in byte i//8 as bit i%8"
        )
    else:
        sketch = f"LIST of {plan.dtype.upper()}: the distances to the users after this one"
    return {"user": "INT64" if user_type == "int64" else "STRING", "sketch": sketch}


def bytes_of_bits(plan: Plan) -> int:
    """Return the bytes of one person's bits in randomized response."""
    return -(-(plan.n_attributes or 0) // 8)


def list_of(element: pa.DataType, length: int = -1) -> pa.DataType:
    """Return a list type without missing elements."""
    return pa.list_(pa.field("element", element, nullable=False), length)


def _required(**columns: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in columns.items()])
