# ruff: noqa: S608 - names that the database made itself
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from tests.processes import in_a_fork

from dimly.curator.tables.database import SPILL_PREFIX, PrivateDatabase
from dimly.errors import BudgetError, DataError, DimlyError, ParameterError

LONG = "SELECT count(*) FROM range(1000000000000) WHERE hash(range) = 1"
SORTED = "SELECT range FROM range(100000000) ORDER BY hash(range)"


def folders(parent: Path) -> list[Path]:
    return list(parent.glob(f"{SPILL_PREFIX}*"))


def test_the_folder_is_private_and_goes_away(tmp_path: Path) -> None:
    with PrivateDatabase(memory=1 << 26, threads=1, temp=tmp_path) as database:
        assert stat.S_IMODE(database.folder.stat().st_mode) == 0o700
        assert folders(tmp_path) == [database.folder]
    assert folders(tmp_path) == []
    database.close()  # again


def test_the_folder_goes_away_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), PrivateDatabase(memory=1 << 26, threads=1, temp=tmp_path):
        raise ZeroDivisionError
    assert folders(tmp_path) == []


def test_the_folder_of_a_dead_run_is_swept(tmp_path: Path) -> None:
    def die() -> bytes:
        database = PrivateDatabase(memory=1 << 26, threads=1, temp=tmp_path)
        (database.folder / "spill").write_text("SECRET")
        return b"made"

    assert in_a_fork(die) == b"made"
    assert len(folders(tmp_path)) == 1
    with PrivateDatabase(memory=1 << 26, threads=1, temp=tmp_path) as living:
        assert folders(tmp_path) == [living.folder]
        with PrivateDatabase(memory=1 << 26, threads=1, temp=tmp_path) as other:
            assert set(folders(tmp_path)) == {living.folder, other.folder}


def test_spill_stays_in_the_folder(tmp_path: Path) -> None:
    with PrivateDatabase(memory=1 << 26, threads=1, temp=tmp_path) as database:
        sizes = []
        for batch in database.stream("SELECT range FROM range(12000000) ORDER BY hash(range)", batch_rows=1 << 20):
            sizes.append(batch.num_rows)
            spilled = [file for file in database.folder.iterdir() if file.stat().st_size]
            assert spilled or len(sizes) > 1
        assert sum(sizes) == 12_000_000


@pytest.mark.parametrize(
    ("changes", "message"), [({"memory": 1 << 25}, "memory must be at least"), ({"threads": 0}, "threads")]
)
def test_parameters_out_of_range(changes: dict[str, int], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        PrivateDatabase(**({"memory": 1 << 26, "threads": 1} | changes))  # type: ignore[arg-type]


def test_temp_must_be_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"temp must be a folder .* got .*missing"):
        PrivateDatabase(memory=1 << 26, threads=1, temp=tmp_path / "missing")


def test_nothing_stays_if_duckdb_does_not_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("duckdb.connect", fail)
    with pytest.raises(DimlyError):
        PrivateDatabase(memory=1 << 26, threads=1, temp=tmp_path)
    assert folders(tmp_path) == []


def test_settings(database: PrivateDatabase) -> None:
    def setting(name: str) -> object:
        return database.fetch("SELECT current_setting(?)", [name])[0][0]

    for name in (
        "autoinstall_known_extensions",
        "autoload_known_extensions",
        "allow_community_extensions",
        "python_enable_replacements",
        "enable_external_file_cache",
        "preserve_insertion_order",
    ):
        assert setting(name) is False
    assert setting("allocator_background_threads") is True  # else what was freed stays ours
    assert setting("TimeZone") == "UTC"
    assert setting("threads") == 2
    assert setting("temp_directory") == str(database.folder)
    with database.cursor() as cursor:
        assert cursor.fetch("SELECT current_setting('TimeZone')") == [("UTC",)]
    with pytest.raises(DataError):
        database.execute("SET threads = 1")  # locked


def test_variables_of_the_caller_are_not_tables(database: PrivateDatabase) -> None:
    frame = pa.table({"x": [1]})
    with pytest.raises(ParameterError, match="query must be SQL"):
        database.fetch("SELECT * FROM frame")
    assert frame.num_rows == 1


def test_views_tables_and_registered_data(database: PrivateDatabase) -> None:
    view = database.create_view("SELECT range AS x FROM range(?)", [4])
    table = database.create_table(f"SELECT x + 1 AS y FROM {view} WHERE x > 1")
    data = database.register(pa.table({"z": [7]}))
    assert len({view, table, data}) == 3
    assert database.columns(table) == [("y", "BIGINT")]
    assert sorted(database.fetch(f"SELECT y FROM {table}")) == [(3,), (4,)]
    database.insert(table, pa.table({"y": [9]}))
    with database.cursor() as cursor:
        assert sorted(cursor.fetch(f"SELECT y FROM {table} UNION ALL SELECT z FROM {data}")) == [(3,), (4,), (7,), (9,)]
        assert cursor.table(f"SELECT z FROM {data}").to_pydict() == {"z": [7]}
    assert database.table("SELECT 1 AS a").to_pydict() == {"a": [1]}


def test_two_streams_at_once(database: PrivateDatabase) -> None:
    table = database.create_table("SELECT range AS x FROM range(100000)")
    with database.cursor() as cursor:
        first = database.stream(f"SELECT x FROM {table} ORDER BY x", batch_rows=5000)
        second = cursor.stream(f"SELECT x FROM {table} WHERE x >= ? ORDER BY x DESC", [50_000], batch_rows=3000)
        ups = downs = 0
        for up, down in zip(first, second, strict=False):
            ups += up.num_rows
            downs += down.num_rows
        assert ups >= downs > 40_000


def test_a_stream_can_be_left(database: PrivateDatabase) -> None:
    for _ in database.stream("SELECT range FROM range(10000000)", batch_rows=1000):
        break
    assert database.fetch("SELECT 1") == [(1,)]


@contextmanager
def alarm(seconds: float, handler: Callable[..., None]) -> Iterator[None]:
    previous = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


class Terminated(BaseException):
    """What a handler of SIGTERM may raise."""


@pytest.mark.parametrize("kind", [KeyboardInterrupt, Terminated, ValueError])
@pytest.mark.parametrize("how", ["fetch", "stream"])
def test_a_signal_interrupts_and_keeps_its_exception(
    database: PrivateDatabase, kind: type[BaseException], how: str
) -> None:
    def handler(*_: object) -> None:
        raise kind

    reads: dict[str, Callable[[], object]] = {
        "fetch": lambda: database.fetch(LONG),
        "stream": lambda: list(database.stream(SORTED, batch_rows=1000)),
    }
    with pytest.raises(kind), alarm(0.2, handler):
        reads[how]()
    assert database.fetch("SELECT 1") == [(1,)]  # nothing runs any more


def test_another_thread_interrupts(database: PrivateDatabase) -> None:
    timer = threading.Timer(0.2, database.interrupt)
    timer.start()
    with pytest.raises(DimlyError, match="interrupted") as caught:
        database.fetch(LONG)
    assert caught.value.__context__ is None
    timer.join()


def test_out_of_memory(tmp_path: Path) -> None:
    with (
        PrivateDatabase(memory=1 << 26, threads=1, temp=tmp_path) as database,
        pytest.raises(DimlyError, match="memory must be larger"),
    ):
        database.fetch("SELECT list(range) FROM range(50000000)")


@pytest.mark.parametrize("how", ["fetch", "stream", "table", "view"])
def test_no_text_of_duckdb_comes_through(database: PrivateDatabase, how: str) -> None:
    data = database.register(pa.table({"x": [*["1"] * 300_000, "SECRET"]}))
    sql = f"SELECT CAST(x AS INTEGER) AS x FROM {data}"
    reads: dict[str, Callable[[], object]] = {
        "fetch": lambda: database.fetch(sql),
        "stream": lambda: list(database.stream(sql, batch_rows=1000)),
        "table": lambda: database.table(sql),
        "view": lambda: database.create_view("SELECT 'SECRET'::INTEGER FROM nowhere"),
    }
    with pytest.raises(DimlyError) as caught:
        reads[how]()
    assert "SECRET" not in str(caught.value)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


def test_a_corrupt_file_is_named_and_nothing_else(database: PrivateDatabase, tmp_path: Path) -> None:
    path = tmp_path / "half.parquet"
    texts = [f"SECRET {number * number}" for number in range(10_000)]
    pyarrow.parquet.write_table(pa.table({"x": texts}), path, compression="zstd", use_dictionary=False)
    content = bytearray(path.read_bytes())
    content[1000:2000] = bytes(1000)
    path.write_bytes(content)
    database.inputs[str(path)] = ("half.parquet", "Parquet")
    view = database.create_view("SELECT * FROM read_parquet(?)", [str(path)])
    for read in (
        lambda: database.fetch(f"SELECT max(length(x)) FROM {view}"),
        lambda: list(database.stream(f"FROM {view}", batch_rows=10)),
    ):
        with pytest.raises(DataError, match=r"^half.parquet must be a readable Parquet file"):
            read()
    database.inputs["other.parquet"] = ("other.parquet", "Parquet")
    with pytest.raises(DataError, match=r"^half.parquet \(or another of the files\) must be a readable"):
        database.fetch(f"SELECT max(length(x)) FROM {view}")


def test_lost_files_and_full_disks_are_not_the_datas_fault(database: PrivateDatabase, tmp_path: Path) -> None:
    with pytest.raises(DimlyError, match="must stay readable") as caught:
        database.fetch("SELECT * FROM read_parquet(?)", [str(tmp_path / "lost.parquet")])
    assert not isinstance(caught.value, DataError)

    def full() -> None:
        raise OSError("IO Error: Could not write file: No space left on device, SECRET")

    with pytest.raises(DimlyError, match="disk with room") as caught:
        database._run(full)
    assert not isinstance(caught.value, DataError)


def test_types_that_duckdb_does_not_know(database: PrivateDatabase) -> None:
    with pytest.raises(DataError, match="types that DuckDB reads"):
        database.register(pa.table({"x": pa.array([0.5], pa.float16())}))


def test_our_own_errors_pass(database: PrivateDatabase) -> None:
    def fail() -> None:
        raise BudgetError("spent")

    with pytest.raises(BudgetError, match=r"^spent$"):
        database._run(fail)


@pytest.mark.parametrize("query", ["SELECT 1; SELECT 2", "DROP TABLE x", "SELEC", "COPY (SELECT 1) TO 'x'", "\ud800"])
def test_queries_are_one_select(database: PrivateDatabase, query: str) -> None:
    with pytest.raises(ParameterError, match="one SELECT"):
        database.create_table_within("memory", query)


IN_A_NOTEBOOK = """
import sys, types
kernel = types.ModuleType("IPython")
kernel.get_ipython = lambda: types.SimpleNamespace(config={"IPKernelApp": {}})
sys.modules["IPython"] = kernel  # what DuckDB looks at to find out whether it runs in a notebook
sys.modules["ipywidgets"] = None
import duckdb
try:
    duckdb.connect(":memory:").execute("SET enable_progress_bar = false")
except duckdb.Error:
    print("refused")
from dimly.curator.tables.database import PrivateDatabase
PrivateDatabase(memory=2**28, threads=1).close()
print("started")
"""


def test_it_starts_in_a_notebook_without_widgets() -> None:
    done = subprocess.run([sys.executable, "-c", IN_A_NOTEBOOK], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.split() == ["refused", "started"]
