"""Directions as a file: what comes back, what anyone can read, what is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dimly.errors import ParameterError, ReleaseError
from dimly.mechanisms.projection.directions import Buckets, Directions
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.release.documents.directions_file import encode_directions, read_directions, write_directions

MADE = {
    "named": Directions.of_values(["tea", "café"], [[0.5, -0.25], [1.0, 0.0]], origin="by hand"),
    "numbered": Directions("learned", "x", 9, np.arange(20_000).reshape(-1, 1), Vocabulary.numbered(20_000)),
    "buckets": Directions("learned", "x", 3, np.array([[1], [-2], [3]]), None, Buckets(3, bytes(32))),
    "categories": Directions.of_categories([*"abc"], ["x", "y", "x"], origin="x"),
    "weights": Directions.of_weights([*"abc"], [0, 0.5, 1], origin="x", count=5),
}


@pytest.mark.parametrize("name", MADE)
def test_what_was_written_is_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / "directions.parquet"
    write_directions(path, MADE[name])
    found = read_directions(path)
    assert found == MADE[name]
    assert np.array_equal(found.matrix, MADE[name].matrix)
    with pytest.raises(ParameterError, match="exist"):
        write_directions(path, MADE[name])


def test_anyone_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "directions.parquet"
    write_directions(path, MADE["categories"])
    assert pq.read_table(path).to_pydict() == {
        "attribute": ["a", "b", "c"],
        "category": ["x", "y", "x"],
        "direction": [[1, 0], [0, 1], [1, 0]],
    }
    facts = json.loads(pq.read_schema(path).metadata[b"dimly.directions"])
    assert facts == {
        "format": 1,
        "kind": "categories",
        "origin": "x",
        "scale": 1,
        "count": 2,
        "l1": 1,
        "l2_squared": 1,
        "digest": MADE["categories"].digest,
    }


def changed(name: str, *, table: Any = None, facts: Any = None, **writing: Any) -> bytes:
    """Return a file of directions in which something was changed."""
    file = pq.ParquetFile(pa.BufferReader(encode_directions(MADE[name])))
    stated = json.loads(file.metadata.metadata[b"dimly.directions"]) | (facts or {})
    content = file.read() if table is None else table(file.read())
    out = pa.BufferOutputStream()
    options = {"use_dictionary": False, "store_schema": False} | writing
    with pq.ParquetWriter(out, content.schema, **options) as writer:
        writer.write_table(content)
        writer.add_key_value_metadata({"dimly.directions": json.dumps(stated)})
    return bytes(out.getvalue())


def with_direction(lists: Any) -> Any:
    def change(table: Any) -> Any:
        field = table.schema.field("direction")
        return table.set_column(table.schema.get_field_index("direction"), field, [pa.array(lists, field.type)])

    return change


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"attribute,weight\n", "must be a directions file"),
        (changed("named", facts={"format": 2}), "must be a directions file"),
        (changed("named", facts={"seed": "00" * 32}), "must be a directions file"),
        (changed("named", facts={"origin": "x" * 90_000}), "must be a directions file"),
        (changed("named", facts={"kind": "categories"}), "must be a directions file"),
        (
            changed("named", table=lambda table: table.append_column("user", [["ada", "bob"]])),
            "must be a directions file",
        ),
        (changed("named", facts={"origin": "by foot"}), "digest"),
        (changed("named", facts={"l1": 1}), "norms"),
        (changed("named", table=with_direction([[64, -32], [127, 0]])), "digest"),
        (changed("named", table=with_direction([[64], [128, 0, 0]])), "exactly 2 numbers"),
        (changed("named", table=with_direction([[64, 1], [128, 0, 0]])), "as many entries"),
        (changed("named", table=with_direction([[0, 0], [0, 0]])), "not zero"),
        (changed("named", use_dictionary=True), "as the format says"),
        (changed("named", data_page_version="2.0"), "data pages alone"),
        (changed("buckets", table=lambda table: table.take([1, 0, 2])), "numbered from 0"),
        (changed("categories", table=with_direction([[1, 0], [0, 1], [0, 1]])), "one direction"),
        (encode_directions(MADE["named"]).to_pybytes()[:-9], "must be a directions file"),
    ],
)
def test_what_was_changed_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "directions.parquet"
    path.write_bytes(content)
    with pytest.raises(ReleaseError, match=message):
        read_directions(path)


def test_rows_of_a_bomb_are_not_decoded(tmp_path: Path) -> None:
    """A file of kilobytes whose footer promises a billion numbers."""
    numbers = pa.ListArray.from_arrays(
        pa.array(np.arange(0, 300_001, dtype=np.int32)), pa.array(np.zeros(300_000, np.int16))
    )
    path = tmp_path / "directions.parquet"
    path.write_bytes(changed("named", table=lambda _: pa.table({"direction": numbers}), facts={"count": 65_536}))
    with pytest.raises(ReleaseError):
        read_directions(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="existing file"):
        read_directions(tmp_path / "nothing.parquet")
