"""Input that breaks off or goes bad half-way: one line, nothing written, nothing charged, nothing of the data told."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.cli.lines import refusal
from tests.crash.scenes import ATTRIBUTE, DATASET, PERSON, Scene, person

from dimly.curator.ledger.ledger import Ledger

N_LINES = 50_000  # far more than anything looks at before it reads on
ROWS = [(person(number), f"{ATTRIBUTE.decode()}-{number % 100}") for number in range(N_LINES)]
LINES = ["person,page", *(",".join(row) for row in ROWS)]

Breaking = Callable[[Path, Path], Path]
"""Makes a broken file in a folder, of a Parquet file that is whole or of lines."""


def damaged_row_group(whole: Path, folder: Path) -> Path:
    data = bytearray(whole.read_bytes())
    last = pq.read_metadata(whole)
    column = last.row_group(last.num_row_groups - 1).column(1)
    start, size = column.data_page_offset, column.total_compressed_size // 2
    data[start : start + size] = bytes(size)
    return written(folder / "table.parquet", bytes(data))


def truncated_parquet(whole: Path, folder: Path) -> Path:
    data = whole.read_bytes()
    return written(folder / "table.parquet", data[: len(data) * 2 // 3])


def second_file_damaged(whole: Path, folder: Path) -> Path:
    parts = folder / "parts"
    parts.mkdir()
    written(parts / "0.parquet", whole.read_bytes())
    damaged_row_group(whole, parts).rename(parts / "1.parquet")
    return parts


def ragged_csv(_: Path, folder: Path) -> Path:
    lines = [*LINES, ",".join((*ROWS[0], *ROWS[1]))]
    return written(folder / "table.csv", "\n".join(lines).encode())


def csv_with_an_open_quote(_: Path, folder: Path) -> Path:
    lines = [*LINES[:-1], '"' + LINES[-1]]
    return written(folder / "table.csv", "\n".join(lines).encode())


def csv_that_leaves_utf8(_: Path, folder: Path) -> Path:
    return written(folder / "table.csv", "\n".join(LINES).encode() + b"\n\xff\xfe" + LINES[1].encode())


def packed_csv_cut_off(_: Path, folder: Path) -> Path:
    packed = gzip.compress("\n".join(LINES).encode())
    return written(folder / "table.csv.gz", packed[: len(packed) * 2 // 3])


def json_cut_off(_: Path, folder: Path) -> Path:
    lines = "\n".join(json.dumps({"person": user, "page": page}) for user, page in ROWS)
    return written(folder / "table.jsonl", lines[:-5].encode())


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    "breaking",
    [
        damaged_row_group,
        truncated_parquet,
        second_file_damaged,
        ragged_csv,
        csv_with_an_open_quote,
        csv_that_leaves_utf8,
        packed_csv_cut_off,
        json_cut_off,
    ],
)
def test_nothing_comes_of_it(
    breaking: Breaking, scene: Scene, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = breaking(scene.inputs.newcomers, tmp_path)
    line = ["publish", source, "--plan", scene.inputs.plan_file, "--user", "person", "--attribute", "page"]
    line += ["--ledger", scene.ledger, "--dataset", DATASET, "--temp", scene.temp, "--out", scene.target]
    text = refusal(*line, code=1)
    assert text.startswith("error: ")
    assert PERSON.decode() not in text
    assert ATTRIBUTE.decode() not in text
    assert capfd.readouterr() == ("", "")  # nor does a library print anything by itself
    assert scene.leftovers() == []
    assert not scene.target.exists()
    assert Ledger(scene.ledger).status(DATASET).spent.epsilon == 0
