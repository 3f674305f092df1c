"""What one pass over a table checked must hold in the pass that publishes, whatever became of the table in between.

A table is checked, its people are found, and then it is read again, sorted, and published. A data frame can be written
to by another thread of the curator's, a view can be of files that change, and a file's footer can say something else
than its pages hold. Here all noise is zero, so that published numbers show what the noise would have to cover.
"""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from tests.plans import SEED
from tests.streams import NO_NOISE

from dimly.curator.options import Options, Silence
from dimly.curator.publication import publish_in_memory
from dimly.curator.tables import numbered_table
from dimly.curator.tables.numbered_table import open_table
from dimly.errors import DataError
from dimly.mechanisms import Plan
from dimly.privacy import Budget

N = 20
LONG: dict[str, Any] = {"user": "user", "attribute": "page", "value": "much"}


class Meddler(Silence):
    """Does something to the table when it has been checked, and before it is sorted and published."""

    def __init__(self, meddle: Callable[[], None]) -> None:
        self._meddle = meddle

    def phase(self, name: str) -> None:
        if name == "sorting":
            self._meddle()


def plan_at(resolution: int = 4, *, unit: Any = "attribute") -> Plan:
    return Plan.of("counting+laplace", Budget(1.0), k=8, resolution=resolution, unit=unit, seed=SEED)


def exact(source: Any, plan: Plan, meddle: Callable[[], None] = lambda: None, **columns: Any) -> NDArray[np.int64]:
    """Return what would be published without noise."""
    options = Options(**columns, threads=1, progress=Meddler(meddle))
    sketches = publish_in_memory(open_table(source, plan, options), plan, options, words=lambda: NO_NOISE)
    return sketches.values.astype(np.int64)


@pytest.mark.parametrize(("later", "counts_as"), [(1998.0, 4), (-1998.0, 0), (np.nan, 0), (np.inf, 4), (-np.inf, 0)])
def test_values_of_a_frame_that_changes_stay_in_range(later: float, counts_as: int) -> None:
    much = np.ones(N)
    frame = pa.table({"user": range(N), "page": ["tea"] * N, "much": pa.array(much)})

    def meddle() -> None:
        much[:] = later

    assert exact(frame, plan_at(), meddle, **LONG).sum(axis=1).tolist() == [counts_as] * N


@pytest.mark.parametrize("roster", [list(range(N)), None])
@pytest.mark.parametrize(("fits", "counts_as"), [(True, 2), (False, 1)])
def test_an_attribute_that_repeats_later_counts_once(
    roster: list[int] | None, fits: bool, counts_as: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows whose people and attributes fit in memory are read once, so that what comes later is not looked at."""
    if not fits:
        monkeypatch.setattr(numbered_table._CodedRows, "of", lambda *_, **__: None)
    page = np.arange(2 * N)
    frame = pa.table({"user": [i // 2 for i in range(2 * N)], "page": pa.array(page)})

    def meddle() -> None:
        page[:] = 7

    published = exact(frame, plan_at(1), meddle, user="user", attribute="page", roster=roster)
    assert published.sum(axis=1).tolist() == [counts_as] * N


def test_a_person_keeps_one_row_where_the_unit_is_the_column() -> None:
    """By a second row somebody would have two values of one column: a change of the column would move four bits."""
    user = np.arange(2 * N)
    frame = pa.table({"user": pa.array(user), "color": [f"color {i}" for i in range(2 * N)]})

    def meddle() -> None:
        user[:] = user // 2

    published = exact(frame, plan_at(1, unit="column"), meddle, user="user", columns=["color"])
    assert published.sum(axis=1).tolist() == [1] * (2 * N)


@pytest.mark.parametrize("kind", ["view", "dataset"])
def test_what_stands_for_other_files_is_read_once(tmp_path: Path, kind: str) -> None:
    inner = tmp_path / "inner.parquet"

    def write(page: str) -> None:
        pq.write_table(pa.table({"user": range(N), "page": [page] * N, "much": [1.0] * N}), inner)

    write("tea")
    source: Any = pyarrow.dataset.dataset(inner)
    if kind == "view":
        source = tmp_path / "shop.duckdb"
        with duckdb.connect(source) as connection:
            connection.read_parquet(str(inner)).create_view("visits")
    steady = exact(source, plan_at(), **LONG)
    np.testing.assert_array_equal(exact(source, plan_at(), lambda: write("jam"), **LONG), steady)


def lying(file: Path, number: float) -> None:
    """Make the footer of a Parquet file say that its largest number is 1."""
    content = file.read_bytes()
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    packed = {"d": struct.pack("<d", number), "f": struct.pack("<f", number), "q": struct.pack("<q", int(number))}
    footer = content[start:]
    for form, old in packed.items():
        footer = footer.replace(old, struct.pack(f"<{form}", 1))
    assert footer != content[start:]
    file.write_bytes(content[:start] + footer)


TYPES = [pa.float64(), pa.float32(), pa.int64()]


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("shape", [{"columns": ["much", "less"]}, {"attribute": "page", "value": "much"}])
def test_a_footer_is_not_believed(tmp_path: Path, kind: pa.DataType, shape: dict[str, Any]) -> None:
    file = tmp_path / "table.parquet"
    much = pa.array([1] * (N - 2) + [0, 1000], kind)
    table = pa.table({"user": range(N), "page": ["tea"] * N, "much": much, "less": pa.array([1] * N, kind)})
    pq.write_table(table, file, use_dictionary=False)
    lying(file, 1000)
    assert pq.read_metadata(file).row_group(0).column(2).statistics.max == 1
    with pytest.raises(DataError, match="outside"):
        exact(file, plan_at(), user="user", **shape)
    clamped = exact(file, plan_at(), user="user", values="clamp", **shape)
    assert (clamped[-1] == clamped[0]).all()


@pytest.mark.parametrize("kind", TYPES[:2])
@pytest.mark.parametrize("resolution", [1, 4])
@pytest.mark.parametrize("shape", [{"columns": ["much", "less"]}, {"attribute": "page", "value": "much"}])
def test_nan_is_missing_whatever_the_statistics_say(
    tmp_path: Path, kind: pa.DataType, resolution: int, shape: dict[str, Any]
) -> None:
    file = tmp_path / "table.parquet"
    much = pa.array([1.0] * (N - 2) + [0.0, float("nan")], kind)
    pq.write_table(
        pa.table({"user": range(N), "page": ["tea"] * N, "much": much, "less": pa.array([0] * N, kind)}), file
    )
    for values in ("refuse", "clamp"):
        with pytest.raises(DataError, match="missing"):
            exact(file, plan_at(resolution), user="user", values=values, **shape)
        dropped = exact(file, plan_at(resolution), user="user", values=values, nulls="drop", **shape)
        assert dropped.sum(axis=1).tolist() == [resolution] * (N - 2) + [0, 0]
