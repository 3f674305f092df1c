import errno
import os
import stat
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.plans import K, plan_of

from dimly.errors import ReleaseError
from dimly.mechanisms import Plan
from dimly.privacy import Budget
from dimly.release import parts
from dimly.release.format import VERY_FEW_ROWS, FileRecord, column_of, part_schema
from dimly.release.page_headers import BYTES_PER_TEXT
from dimly.release.parts import (
    as_user_column,
    check_footer,
    encode_part,
    path_of,
    read_table,
    users_of,
    values_of,
    write_part,
)

TEXT = np.dtype(object)
LAYOUTS = ["counting+laplace", "randomized-response", "noisy-distances"]


def numbers(plan: Plan, n: int, rest: int = 0) -> Any:
    dtype, shape = plan.published_dtype, plan.published_shape(n)
    if plan.n_users is not None:
        shape = (shape[0] + n * rest,)
    limits = np.iinfo(dtype)
    drawn = np.random.default_rng(n).integers(limits.min, limits.max, shape, dtype, endpoint=True)
    if dtype == np.uint8:
        drawn[:, -1] &= 0x0F  # 100 bits
    return drawn


def read(folder: Path, record: FileRecord, plan: Plan, rest: int = 0) -> tuple[Any, Any]:
    with parts.open_parquet(folder / record.path, record.path) as file:
        table = read_table(file, record.path)
    return users_of(table.column("user")), values_of(table, plan, record.path, rest=rest)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sketches").mkdir()
    return tmp_path


@pytest.mark.parametrize("mechanism", LAYOUTS)
@pytest.mark.parametrize("rest", [0, 5])
@pytest.mark.parametrize("n", [1, 2, 33])
def test_what_is_written_is_read(mechanism: str, n: int, rest: int, folder: Path) -> None:
    plan = plan_of(mechanism)
    values = numbers(plan, n, rest)
    record = write_part(folder, 3, as_user_column(np.arange(n), "int64"), values, plan)
    assert record.path == "sketches/part-000003.parquet"
    assert (folder / record.path).stat().st_size == record.bytes
    assert record.rows == n
    users, found = read(folder, record, plan, rest)
    np.testing.assert_array_equal(users, np.arange(n))
    np.testing.assert_array_equal(found, values)
    assert found.dtype == values.dtype


@given(st.lists(st.text(st.characters(codec="utf-8")), min_size=1, max_size=20, unique=True))
def test_any_text_is_kept(tmp_path_factory: pytest.TempPathFactory, ids: list[str]) -> None:
    folder = tmp_path_factory.mktemp("parts")
    (folder / "sketches").mkdir()
    plan = plan_of("counting+laplace")
    users = np.sort(np.array(ids, TEXT))
    record = write_part(folder, 0, as_user_column(users, "text"), numbers(plan, len(users)), plan)
    found, _ = read(folder, record, plan)
    assert found.dtype == TEXT
    assert found.tolist() == users.tolist()


def test_wide_numbers_are_kept(folder: Path) -> None:
    plan = plan_of("counting+laplace", dtype="int32")
    values = numbers(plan, 10)
    record = write_part(folder, 0, as_user_column(np.arange(10), "int64"), values, plan)
    np.testing.assert_array_equal(read(folder, record, plan)[1], values)


@pytest.mark.parametrize("mechanism", LAYOUTS)
@pytest.mark.parametrize("user_type", ["int64", "text"])
def test_a_part_says_nothing_but_its_columns(mechanism: str, user_type: Any, folder: Path) -> None:
    plan = plan_of(mechanism)
    ids = np.arange(3) if user_type == "int64" else np.array(["a", "b", "c"], TEXT)
    record = write_part(folder, 0, as_user_column(ids, user_type), numbers(plan, 3), plan)
    metadata = pq.read_metadata(folder / record.path)
    assert metadata.metadata is None
    group = metadata.row_group(0)
    user, sketch = group.column(0), group.column(1)
    assert user.is_stats_set
    assert not sketch.is_stats_set
    assert not sketch.has_dictionary_page
    assert sketch.compression == "UNCOMPRESSED"
    assert user.compression == ("UNCOMPRESSED" if user_type == "int64" else "ZSTD")
    encoding = "PLAIN" if mechanism == "randomized-response" else "DELTA_BINARY_PACKED"
    assert encoding in sketch.encodings
    assert pq.read_schema(folder / record.path).equals(part_schema(plan, user_type))


def test_row_groups_are_cut_by_the_plan(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dimly.release.format._MOST_USERS", 16)
    plan = plan_of("counting+laplace")
    record = write_part(folder, 0, as_user_column(np.arange(7), "int64"), numbers(plan, 7), plan)
    metadata = pq.read_metadata(folder / record.path)
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [2, 2, 2, 1]


def test_a_file_may_be_read_by_all_and_written_once(folder: Path) -> None:
    plan = plan_of("counting+laplace")
    before = os.umask(0o022)
    try:
        record = write_part(folder, 0, as_user_column(np.arange(3), "int64"), numbers(plan, 3), plan)
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / record.path).stat().st_mode) == 0o644
    with pytest.raises(FileExistsError):
        write_part(folder, 0, as_user_column(np.arange(3), "int64"), numbers(plan, 3), plan)


def test_values_are_not_copied() -> None:
    plan = plan_of("counting+laplace")
    values = numbers(plan, 100)
    column = column_of(plan).to_arrow(values, 100)
    assert column.values.buffers()[1].address == values.ctypes.data


def test_a_large_part_is_encoded_in_less_memory_than_it_takes() -> None:
    plan = Plan.of("counting+laplace", Budget(1.0), k=1024, seed=bytes(32))
    values = np.zeros((1 << 15, 1024), np.int16)
    values[:] = np.random.default_rng(0).integers(-300, 300, 1024)
    usual, counting = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(counting)
    try:
        record = encode_part(0, as_user_column(np.arange(len(values)), "int64"), values, plan)[0]
    finally:
        pa.set_memory_pool(usual)
    assert record.bytes > values.nbytes // 2
    assert counting.max_memory() < values.nbytes


def test_a_part_is_written_while_it_is_encoded(folder: Path) -> None:
    """Held whole beside its values it took a share of ``--memory`` that nobody had counted."""
    plan = Plan.of("counting+laplace", Budget(1.0), k=1024, seed=bytes(32))
    values = np.zeros((1 << 14, 1024), np.int16)
    values[:] = np.random.default_rng(0).integers(-300, 300, 1024)
    users = as_user_column(np.arange(len(values)), "int64")
    tracemalloc.start()
    try:
        record = write_part(folder, 0, users, values, plan)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert record.bytes > values.nbytes // 2
    assert peak < values.nbytes // 4
    expected, content = encode_part(0, users, values, plan)
    assert record == expected
    assert (folder / record.path).read_bytes() == content.to_pybytes()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only some systems have a disk that is always full")
def test_a_disk_that_fills_up_within_a_part_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of("counting+laplace")
    users, values = as_user_column(np.arange(1 << 14), "int64"), numbers(plan, 1 << 14)
    really = os.open
    monkeypatch.setattr(os, "open", lambda *_: really("/dev/full", os.O_WRONLY))
    with pytest.raises(OSError, match="No space") as caught:
        write_part(folder, 0, users, values, plan)
    assert caught.value.errno == errno.ENOSPC


@pytest.mark.parametrize("shape", [(2, K), (3, K + 1), (3 * K,)])
def test_values_of_another_shape_are_refused(shape: tuple[int, ...], folder: Path) -> None:
    plan = plan_of("counting+laplace")
    with pytest.raises(ReleaseError, match=r"values must be int16 of shape \(3, 32\), contiguous, for this part, got"):
        write_part(folder, 0, as_user_column(np.arange(3), "int64"), np.zeros(shape, np.int16), plan)


def test_values_of_another_type_or_order_are_refused(folder: Path) -> None:
    plan = plan_of("counting+laplace")
    for values in (np.zeros((3, K)), np.zeros((3, K), ">i2"), np.zeros((K, 3), np.int16).T):
        with pytest.raises(ReleaseError, match="values must be int16 of shape"):
            write_part(folder, 0, as_user_column(np.arange(3), "int64"), values, plan)


@pytest.mark.parametrize("size", [0, 1, 2, 4, 5])
def test_distances_that_make_no_triangle_are_refused(size: int, folder: Path) -> None:
    plan = plan_of("noisy-distances")
    with pytest.raises(ReleaseError, match="values must be int16 of shape"):
        write_part(folder, 0, as_user_column(np.arange(3), "int64"), np.zeros(size, np.int16), plan)


@pytest.mark.parametrize(
    ("users", "user_type"),
    [
        (np.arange(3.0), "int64"),
        (np.array(["a"], TEXT), "int64"),
        (np.arange(3), "text"),
        (pa.array([1, None]), "int64"),
        (pa.array(["a", None]), "text"),
        (pa.array([2**63], pa.uint64()), "int64"),
        (pa.array([b"a"]), "text"),
    ],
)
def test_users_of_another_type_are_refused(users: Any, user_type: Any) -> None:
    with pytest.raises(ReleaseError, match=f"users must be {user_type}, none missing, as this release says") as refusal:
        as_user_column(users, user_type)
    assert "9223372036854775808" not in str(refusal.value)


NOT_UTF_8 = pa.StringArray.from_buffers(
    3, pa.py_buffer(np.array([0, 1, 2, 4], np.int32)), pa.py_buffer(b"\xfea\xff\xff")
)


@pytest.mark.parametrize("few", [0, VERY_FEW_ROWS])
@pytest.mark.parametrize("users", [[1, 1], [2, 1], ["b", "a"], ["a", "a"], ["😀", "\uffff"], NOT_UTF_8])
def test_users_out_of_order_are_refused(users: Any, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "VERY_FEW_ROWS", few)
    with pytest.raises(ReleaseError, match="ascending order, without repeats"):
        as_user_column(users if users is NOT_UTF_8 else pa.array(users), "int64" if users[0] in (1, 2) else "text")


@pytest.mark.parametrize("few", [0, VERY_FEW_ROWS])
def test_few_ids_and_many_are_looked_at_alike(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "VERY_FEW_ROWS", few)
    for users in (pa.array([-(2**63), 0, 2**63 - 1]), pa.array(["", "a", "é", "\uffff", "😀"])[1:], NOT_UTF_8[1:]):
        assert as_user_column(users, "int64" if pa.types.is_integer(users.type) else "text") is users
    allowed = BYTES_PER_TEXT - 4
    for kind in (pa.string(), pa.large_string()):
        texts = pa.array(["x" * 9000, "é", "", "😀"], kind)[1:]
        assert parts.excess_of(texts) == 2 + 4 - 3 * allowed
        assert parts.excess_of(texts[:0]) == 0


def test_users_come_in_any_container() -> None:
    for users in (
        np.arange(3, dtype=np.int32),
        pa.array([0, 1, 2], pa.uint8()),
        pa.chunked_array([[0], [1, 2]]),
        [0, 1, 2],
    ):
        assert as_user_column(users, "int64").equals(pa.array([0, 1, 2]))
    for text in (
        np.array(["a", "é"], TEXT),
        pa.array(["a", "é"], pa.large_string()),
        pa.array(["a", "é"], pa.string_view()),
        ["a", "é"],
    ):
        assert as_user_column(text, "text").equals(pa.array(["a", "é"]))
    assert as_user_column([], "text").type == pa.string()


def damaged(folder: Path, table: pa.Table, **options: Any) -> tuple[FileRecord, pq.ParquetFile]:
    path = folder / "sketches" / "part-000000.parquet"
    pq.write_table(table, path, **options)
    record = FileRecord(
        path="sketches/part-000000.parquet", bytes=path.stat().st_size, sha256="0" * 64, rows=table.num_rows
    )
    return record, parts.open_parquet(path, record.path)


def table_of(lists: list[Any], kind: Any = None, users: list[Any] | None = None) -> pa.Table:
    kind = kind or pa.list_(pa.int16())
    return pa.table({"user": pa.array(users or range(len(lists)), pa.int64()), "sketch": pa.array(lists, kind)})


def test_a_footer_that_differs_is_refused(folder: Path) -> None:
    plan = plan_of("counting+laplace")
    schema = part_schema(plan, "int64")
    record, file = damaged(folder, table_of([[0] * K] * 4))
    with file, pytest.raises(ReleaseError, match=r"part-000000\.parquet must hold the columns user \(int64\), sketch"):
        check_footer(file, record, schema, groups=[4])
    table = table_of([[0] * K] * 4).cast(schema)
    record, file = damaged(folder, table, row_group_size=3, store_schema=False, use_dictionary=False)
    with file:
        check_footer(file, record, schema, groups=[3, 1], entries=lambda _, rows: rows * K)
        with pytest.raises(ReleaseError, match="as many entries of sketch as the plan says"):
            check_footer(file, record, schema, groups=[3, 1], entries=lambda _, rows: rows * K + 1)
        with pytest.raises(ReleaseError, match="must hold row groups of 2 users"):
            check_footer(file, record, schema, groups=[2, 2])
        with pytest.raises(ReleaseError, match="must hold 5 rows, got 4"):
            check_footer(file, record.model_copy(update={"rows": 5}), schema, groups=[3, 1])


def test_missing_entries_are_refused(folder: Path) -> None:
    for lists, users in (([[1, None]], None), ([None], None), ([[1]], [None])):
        record, file = damaged(folder, table_of(lists, users=users))
        with file, pytest.raises(ReleaseError, match="must not hold missing values"):
            read_table(file, record.path)


@pytest.mark.parametrize("length", [K - 1, K + 1, 0])
def test_lists_of_another_length_are_refused(length: int, folder: Path) -> None:
    _, file = damaged(folder, table_of([[0] * K, [0] * length]))
    with file, pytest.raises(ReleaseError, match="x must hold lists of exactly 32 numbers"):
        values_of(read_table(file, "x"), plan_of("counting+laplace"), "x", rest=0)


def test_distances_of_another_number_are_refused(folder: Path) -> None:
    _, file = damaged(folder, table_of([[1, 2], [3], []]))
    with file:
        table = read_table(file, "x")
    plan = plan_of("noisy-distances")
    assert values_of(table, plan, "x", rest=0).tolist() == [1, 2, 3]
    with pytest.raises(ReleaseError, match="x must hold lists of the distances to the users after each"):
        values_of(table, plan, "x", rest=1)


def test_bits_outside_the_vocabulary_are_refused(folder: Path) -> None:
    plan = plan_of("randomized-response")
    _, file = damaged(folder, table_of([bytes(12) + b"\x0f", bytes(12) + b"\x10"], pa.binary(13)))
    with file, pytest.raises(ReleaseError, match="x must hold bits of the vocabulary only"):
        values_of(read_table(file, "x"), plan, "x", rest=0)


def test_what_is_no_parquet_is_refused(folder: Path) -> None:
    path = folder / "file"
    path.write_bytes(b"PAR1 and no more PAR1")
    with pytest.raises(ReleaseError, match="file must be a Parquet file, but it cannot be read"):
        parts.open_parquet(path, "file")


def test_damaged_pages_are_refused(folder: Path) -> None:
    plan = plan_of("counting+laplace")
    users = as_user_column(np.array([f"user {i:04}" for i in range(500)], TEXT), "text")
    record = write_part(folder, 0, users, numbers(plan, 500), plan)
    path = folder / record.path
    content = bytearray(path.read_bytes())
    content[60:500] = b"\xff" * 440  # the compressed users
    path.write_bytes(content)
    with parts.open_parquet(path, record.path) as file, pytest.raises(ReleaseError, match="but it is damaged"):
        read_table(file, record.path)


def test_a_file_is_located_if_it_is_one(folder: Path) -> None:
    plan = plan_of("counting+laplace")
    record = write_part(folder, 0, as_user_column(np.arange(3), "int64"), numbers(plan, 3), plan)
    path = folder / record.path
    assert path_of(folder, record) == path
    with pytest.raises(ReleaseError, match=f"must hold {record.bytes + 1} bytes, got {record.bytes}"):
        path_of(folder, record.model_copy(update={"bytes": record.bytes + 1}))
    path.rename(folder / "moved")
    with pytest.raises(ReleaseError, match="must be a file of the release, but it is missing"):
        path_of(folder, record)
    path.symlink_to(folder / "moved")
    with pytest.raises(ReleaseError, match="must be a file of the release, but it is a link"):
        path_of(folder, record)
    path.unlink()
    (folder / "sketches").rename(folder / "elsewhere")
    (folder / "moved").rename(folder / "elsewhere" / "part-000000.parquet")
    (folder / "sketches").symlink_to(folder / "elsewhere")
    with pytest.raises(ReleaseError, match="must be a file of the release, but it is a link"):
        path_of(folder, record)


def test_a_plan_of_one_coordinate_works(folder: Path) -> None:
    plan = Plan.of("hashing+laplace", Budget(1.0), k=1, seed=bytes(32))
    values = numbers(plan, 5)
    record = write_part(folder, 0, as_user_column(np.arange(5), "int64"), values, plan)
    np.testing.assert_array_equal(read(folder, record, plan)[1], values)
