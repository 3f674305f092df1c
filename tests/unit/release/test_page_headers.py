"""Files that unpack to far more than they should are refused before anything of them is decoded."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.folders import people, release_folder, write
from tests.golden.edited import PART, edit, sign
from tests.plans import plan_of

from dimly.curator.ledger.ledger import Ledger
from dimly.curator.options import Options
from dimly.curator.publication import publish_table
from dimly.errors import ParameterError, ReleaseError
from dimly.mechanisms import Directions, Plan, Vocabulary
from dimly.mechanisms.plan_parts import VocabularyPart
from dimly.privacy import Budget
from dimly.release import ReleaseWriter, open_folder, verify
from dimly.release.documents.directions_file import read_directions, write_directions
from dimly.release.page_headers import ByteReader, _fields, _page

K = 8
MANY = 20_000_000  # entries that the bombs here claim; as zeros they take some kilobytes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "out", people(plan_of("counting+laplace", k=K), text=True))


def rewritten(folder: Path, sketches: Callable[[pa.Table], pa.Array], **options: Any) -> None:
    """Write the part anew with other sketches, and sign it."""
    table = pq.read_table(folder / PART)
    names = ["user", "sketch"]
    made = pa.Table.from_arrays([table.column("user"), sketches(table)], names=names)
    schema = pa.schema([pa.field(name, made.schema.field(name).type, nullable=False) for name in names])
    written: dict[str, Any] = {"use_dictionary": False, "compression": "zstd"} | options
    pq.write_table(made.cast(schema), folder / PART, store_schema=False, **written)
    sign(folder, PART)


def refused_everywhere(folder: Path, reason: str) -> None:
    for read in (
        lambda: verify(folder),
        lambda: open_folder(folder).values,
        lambda: open_folder(folder).take(np.array([0])),
        lambda: open_folder(folder).locate(np.array(["a"], object)),
    ):
        with pytest.raises(ReleaseError, match=reason):
            read()


def test_a_list_of_far_too_many_entries(folder: Path) -> None:
    def bomb(table: pa.Table) -> pa.Array:
        lengths = np.full(table.num_rows, K)
        lengths[3] = MANY
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
        kind = table.schema.field("sketch").type
        return pa.ListArray.from_arrays(offsets, pa.array(np.zeros(lengths.sum(), np.int16)), type=kind)

    rewritten(folder, bomb, column_encoding={"user": "PLAIN", "sketch.list.element": "DELTA_BINARY_PACKED"})
    assert (folder / PART).stat().st_size < 200_000
    refused_everywhere(folder, "as many entries of sketch as the plan says")


@pytest.mark.parametrize("column", [0, 1])
def test_a_page_that_holds_more_than_the_footer_says(folder: Path, column: int) -> None:
    chunk = pq.read_metadata(folder / PART).row_group(0).column(column)
    content = bytearray((folder / PART).read_bytes())
    start = chunk.data_page_offset
    size = _fields(bytes(content[start : start + 4096]), 0, 0)[1]
    folded = 2 * chunk.num_values
    old = bytes([folded]) if folded < 128 else bytes([folded & 127 | 128, folded >> 7])
    at = content.index(bytes([0x15]) + old, start + 4, start + size) + 1  # field 1 of the data page's header
    content[at : at + len(old)] = bytes([126]) if len(old) == 1 else bytes([254, 127])
    (folder / PART).write_bytes(content)
    sign(folder, PART)
    for read in (lambda: verify(folder), lambda: open_folder(folder).values):
        with pytest.raises(ReleaseError, match="pages of the sizes that its footer says"):
            read()


@pytest.mark.parametrize(
    "options",
    [
        {"use_dictionary": True},
        {"column_encoding": {"user": "DELTA_BYTE_ARRAY", "sketch.list.element": "PLAIN"}},
        {"data_page_version": "2.0"},
    ],
)
def test_what_grows_by_decoding_is_refused(folder: Path, options: dict[str, Any]) -> None:
    rewritten(folder, lambda table: table.column("sketch"), **options)
    with pytest.raises(ReleaseError, match=r"as the format says|plain and delta-packed data pages alone"):
        verify(folder)


def test_texts_that_unpack_to_more_than_texts_are(folder: Path) -> None:
    table = pq.read_table(folder / PART)
    longer = [f"{user}{'x' * (1 << 20)}" for user in sorted(table.column("user").to_pylist())]
    rewritten(folder, lambda _: table.column("sketch"))
    made = table.set_column(0, pa.field("user", pa.string(), nullable=False), pa.array(longer))
    pq.write_table(made, folder / PART, store_schema=False, use_dictionary=False, compression="zstd")
    sign(folder, PART)
    refused_everywhere(folder, "user as the format says, in no more bytes than it takes")


def test_ids_that_no_reader_would_take_are_not_written(tmp_path: Path) -> None:
    plan = plan_of("counting+laplace", k=K)
    users = [f"{i:02d}{'x' * (1 << 20)}" for i in range(30)]
    reason = "users must be texts of at most 1,000 bytes on average"
    with ReleaseWriter(tmp_path / "out", plan, user_type="text") as writer, pytest.raises(ReleaseError, match=reason):
        writer.write_part(0, pa.array(users), np.zeros((30, K), np.int16))


@pytest.mark.parametrize("length", [1200, 1500])
@pytest.mark.parametrize("mechanism", ["counting+laplace", "gaussian+laplace"])
def test_a_list_of_attributes_that_no_reader_would_take_is_not_published(
    tmp_path: Path, length: int, mechanism: str
) -> None:
    names = [f"{i:05d}{'x' * length}" for i in range(24_000)]  # 29 or 36 MB, where readers take 24 and some slack
    plan = Plan.of(mechanism, Budget(1.0), k=K, vocabulary=names)
    table = pa.table({"u": [1], "a": [names[0]]})
    options: dict[str, Any] = {"user": "u", "attribute": "a", "vocabulary": names, "out": tmp_path / "out"}
    if length == 1200:
        publish_table(table, plan, Options(**options))
        assert open_folder(tmp_path / "out", verify=True).vocabulary == Vocabulary.listed(names)
        return
    for dry_run in (False, True):
        with pytest.raises(ParameterError, match="vocabulary must hold attributes of at most 1,000 bytes on average"):
            publish_table(table, plan, Options(**options, dry_run=dry_run))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("dry_run", [False, True])
def test_long_ids_are_refused_before_noise_is_drawn(tmp_path: Path, dry_run: bool) -> None:
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("visits", epsilon=3.0)
    plan = plan_of("counting+laplace", k=K)
    table = pa.table({"u": [f"{i:02d}{'x' * (1 << 20)}" for i in range(12)], "a": ["tea"] * 12})
    options: dict[str, Any] = {"user": "u", "attribute": "a", "ledger": ledger.path, "dataset": "visits"}
    with pytest.raises(ReleaseError, match="users must be texts of at most 1,000 bytes on average"):
        publish_table(table, plan, Options(**options, out=tmp_path / "out", dry_run=dry_run))
    assert [charge.state for charge in ledger.status("visits").charges] == ([] if dry_run else ["returned"])


def test_long_headers_are_read_in_small_steps_up_to_a_limit() -> None:
    def header(length: int) -> bytes:
        """A page header whose statistics hold a text of some length."""
        size = bytes([128 | length & 127, 128 | length >> 7 & 127, length >> 14])
        statistics = bytes([0x18]) + size + bytes(length) + b"\0"
        data = bytes([0x15, 2, 0x15, 0, 0x15, 6, 0x15, 6, 0x1C]) + statistics + b"\0"
        return bytes([0x15, 0, 0x15, 20, 0x15, 20, 0x2C]) + data + b"\0"

    asked: list[int] = []

    def reader(content: bytes) -> ByteReader:
        def read(start: int, size: int) -> bytes:
            asked.append(size)
            return content[start : start + size]

        return read

    assert _page(reader(header(20_000)), 0, "part").n_values == 1
    assert asked == [4096, 8192, 16384, 32768]
    asked.clear()
    with pytest.raises(ReleaseError, match="must be a Parquet file, but it is damaged"):
        _page(reader(header(70_000)), 0, "part")
    assert max(asked) == 65536


def test_a_manifest_of_twenty_gigabytes(folder: Path) -> None:
    os.truncate(folder / "manifest.json", 20 << 30)  # which takes no room on the disk
    for read in (verify, open_folder):
        with pytest.raises(ReleaseError, match=r"manifest\.json must hold at most 268435456 bytes"):
            read(folder)


def test_a_part_of_twenty_gigabytes(folder: Path) -> None:
    def change(fields: dict[str, Any]) -> None:
        fields["files"][0]["bytes"] = 20 << 30

    os.truncate(folder / PART, 20 << 30)
    edit(folder, change)
    for read in (verify, open_folder):
        with pytest.raises(ReleaseError, match="no more bytes than their rows need"):
            read(folder)


def test_a_numbered_vocabulary_of_billions(tmp_path: Path) -> None:
    """Nobody goes through 2³¹ names because a plan says that there are as many."""
    with pytest.raises(ParameterError, match="must be the list that the plan was made with"):
        VocabularyPart(size=2**31).matching(["tea"])
    fields = json.loads(Plan.of("ternary+laplace", Budget(1.0), k=K, n_attributes=100).to_json())
    fields["vocabulary"]["size"] = 2**31
    plan = Plan.from_json(json.dumps(fields))
    with ReleaseWriter(tmp_path / "out", plan, user_type="int64") as writer:
        writer.write_part(0, np.arange(5), np.zeros((5, K), plan.dtype))
        writer.seal(roster="given")
        path = writer.publish()
    assert "too large to go through" in verify(path).limits


@pytest.mark.parametrize("mechanism", ["noisy-distances", "randomized-response", "gaussian+gaussian"])
@pytest.mark.parametrize("n", [1, 2, 30])
def test_what_is_sound_is_read(tmp_path: Path, mechanism: str, n: int) -> None:
    assert verify(release_folder(tmp_path / "out", mechanism, n)).n_users == n


@pytest.mark.parametrize("letter", [b"X", b"\xff"])
def test_columns_of_other_names_at_any_place_of_the_footer(folder: Path, tmp_path: Path, letter: bytes) -> None:
    """Schema and chunks name columns, each in bytes of their own: whatever they say, the file was changed."""
    path = tmp_path / "directions.parquet"
    write_directions(path, Directions.of_values(["tea"], [[1.0]], origin="tests"))
    reads: tuple[tuple[Path, bytes, Callable[[], object]], ...] = (
        (folder / PART, b"sketch", lambda: verify(folder)),
        (path, b"direction", lambda: read_directions(path)),
    )
    for written, name, read in reads:
        sound = written.read_bytes()
        places = [place for place in range(len(sound)) if sound.startswith(name, place)]
        assert len(places) > 1
        for place in places:
            written.write_bytes(sound[: place + 1] + letter + sound[place + 2 :])
            sign(folder, PART)
            with pytest.raises(ReleaseError):
                read()
        written.write_bytes(sound)
