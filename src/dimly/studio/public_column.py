"""A public column of the user's own, joined to a release by id, to color the map by."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dimly.errors import DataError
from dimly.studio.point_map import UNKNOWN_COLOR, Bytes

_MOST_NAMES: Final = 12
_SHOWN: Final = 60  # characters of a name


@dataclass(frozen=True, slots=True, eq=False)
class PublicColumn:
    """What people have in a column.

    Attributes
    ----------
    numbers : ndarray (users,) or None
        NaN for those without one.
    codes : ndarray of uint8 (users,) or None
        Where there are names instead: which one, the most frequent first; 255 without one.
    names : list of str
    n_joined : int
        People who have a value.
    """

    numbers: NDArray[np.float64] | None
    codes: Bytes | None
    names: list[str]
    n_joined: int


def read_column(
    path: Path, ids: str, shown: str, locate: Callable[[NDArray[Any]], NDArray[np.int64]], n_users: int
) -> PublicColumn:
    """Read a column of a CSV or Parquet file, and give everybody who is named in it their value.

    Raises
    ------
    DataError
        If the file cannot be read, or names nobody of the release.
    """
    table = _table(path, ids, shown)
    texts = np.array(_texts(table.column(ids), ids), object)
    places = locate(np.array(["" if text is None else text for text in texts], object))
    inside = places >= 0
    if not inside.any():
        raise DataError(f"column {ids!r} must hold ids of this release, but none of them is in it.")
    values = table.column(shown).filter(pa.array(inside))
    where = places[inside]
    if pa.types.is_floating(values.type) or (pa.types.is_integer(values.type) and len(pc.unique(values)) > _MOST_NAMES):
        numbers = np.full(n_users, np.nan)
        numbers[where] = pc.cast(values, pa.float64(), safe=False).to_numpy(zero_copy_only=False)  # 2⁵³ + 1 is rounded
        return PublicColumn(numbers, None, [], int(np.isfinite(numbers).sum()))
    codes, names = _coded(_texts(values, shown))
    everybody = np.full(n_users, UNKNOWN_COLOR, np.uint8)
    everybody[where] = codes
    return PublicColumn(None, everybody, names, int((everybody != UNKNOWN_COLOR).sum()))


def _coded(texts: list[str | None]) -> tuple[Bytes, list[str]]:
    """Return each value's rank among the most frequent ones; the last rank stands for all others, if these are many."""
    cells = np.array([text or "" for text in texts], object)  # NumPy's own texts all take the room of the longest
    found, inverse, counts = np.unique(cells, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    order = order[[bool(found[i]) for i in order]]
    kept = order if len(order) <= _MOST_NAMES else order[: _MOST_NAMES - 1]
    rank = np.full(len(found), UNKNOWN_COLOR if len(order) <= _MOST_NAMES else _MOST_NAMES - 1, np.uint8)
    rank[[i for i, text in enumerate(found) if not text]] = UNKNOWN_COLOR
    rank[kept] = np.arange(len(kept))
    names = [str(found[i])[:_SHOWN] for i in kept]
    return rank[inverse], names if len(kept) == len(order) else [*names, f"{len(order) - len(kept):,} others"]


def _texts(column: pa.ChunkedArray, name: str) -> list[str | None]:
    try:
        found: list[str | None] = column.cast(pa.string()).to_pylist()
    except pa.ArrowException:  # whose text may quote a cell
        pass
    else:
        return found
    raise DataError(f"column {name!r} must hold text in UTF-8, numbers or dates, but it holds something else.")


def _table(path: Path, ids: str, shown: str) -> pa.Table:
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            return pq.read_table(path, columns=list(dict.fromkeys([ids, shown])))
        with path.open("rb") as file:
            line = file.readline(1 << 16).decode("utf-8-sig", "replace")
        parse = pyarrow.csv.ParseOptions(delimiter=max(",;\t|", key=line.count))
        convert = pyarrow.csv.ConvertOptions(
            column_types={ids: pa.string()}, include_columns=list(dict.fromkeys([ids, shown]))
        )
        return pyarrow.csv.read_csv(path, parse_options=parse, convert_options=convert)
    except (pa.ArrowException, KeyError, OSError):
        raise DataError(
            "the file must be CSV with names in its first line, or Parquet, but it could not be read."
        ) from None
