"""The private DuckDB database: memory limit, spill folder, views, streams of Arrow, words for damaged files."""

import contextlib
import os
import tempfile
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeVar

import duckdb
import pyarrow as pa

from dimly.curator.tables.columns import check_names
from dimly.errors import DataError, DimlyError, ParameterError
from dimly.files import LockedFolder, check_outside_releases, locked_folder, sweep

_DISK_FULL = ("max_temp_directory_size", "No space left", "Disk quota", "not enough disk")
_NOT_SQL = (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException, duckdb.SyntaxException)

_NOT_IN_PARALLEL = "Not implemented Error: The Parallel CSV Reader"


class NotInParallelError(DataError):
    """A CSV file has quoted line breaks just where DuckDB wanted to begin in the middle of it."""


def translated(  # noqa: C901, PLR0911 - a list of cases
    error: Exception, inputs: dict[str, tuple[str, str]]
) -> DimlyError:
    """Return one line of our own for an error of DuckDB or Arrow, which is only looked at to see what it is about.

    Parameters
    ----------
    error : Exception
        What a call of DuckDB, or the reader of its batches, raised.
    inputs : dict
        Path as DuckDB knows it → the curator's name of the file and its format: what the line may name.
    """
    if isinstance(error, DimlyError):
        return error
    text = str(error)  # batches of a stream fail as OSError, with the text alone to tell why
    if any(sign in text for sign in _DISK_FULL):
        return DimlyError("temp must be on a disk with room for the data: it is full. Free some space or pass another.")
    if isinstance(error, duckdb.OutOfMemoryException | MemoryError) or text.startswith("Out of Memory"):
        return DimlyError("memory must be larger for this table: it ran out. Pass more memory, or fewer threads.")
    if isinstance(error, duckdb.InterruptException) or text.startswith("INTERRUPT"):
        return DimlyError("the query was interrupted.")
    if isinstance(error, _NOT_SQL):
        return ParameterError("query must be SQL that DuckDB understands, with tables and columns that exist.")
    if text.startswith(_NOT_IN_PARALLEL):
        return NotInParallelError(
            "CSV files that a query or a view reads must be readable in parallel, but one has cells with line breaks "
            "in them that are not. Add parallel = false to its read_csv, or name the file itself as the table."
        )
    if isinstance(error, duckdb.NotImplementedException):
        return DataError("columns must be of types that DuckDB reads, but one is not. Turn it into text or numbers.")
    named = max((path for path in inputs if path in text), key=len, default=None)
    if named is not None:
        return _unreadable(text, *inputs[named])
    if isinstance(error, duckdb.ConversionException) or text.startswith("Conversion Error"):
        return DataError("the table must hold values of its columns' types. Some value cannot be converted.")
    if isinstance(error, duckdb.IOException) or text.startswith("IO Error"):
        return DimlyError(
            "the files of the table, and temp, must stay readable and writable: reading or writing failed."
        )
    if inputs:  # not every text names the file
        (name, kind), *others = inputs.values()
        return _unreadable(text, f"{name} (or another of the files)" if others else name, kind)
    return DataError("the table must be readable. DuckDB refused it; its reason may quote the data and is not shown.")


def _unreadable(text: str, name: str, kind: str) -> DataError:
    if "not utf-8 encoded" in text:
        return DataError(
            f"{name} must be text in UTF-8, but some of it is not. If this file is the table, pass its encoding "
            "(--encoding), often cp1252. If it is a list, such as a roster, save it as UTF-8."
        )
    if "lock on file" in text:
        return DataError(f"{name} must not be open for writing in another program. Close it there, or pass a copy.")
    if kind != "CSV":
        return DataError(f"{name} must be a readable {kind} file. It is damaged, incomplete or of another format.")
    return misfit(name)


def misfit(name: str) -> DataError:
    """Return what is wrong with a CSV file that does not parse."""
    return DataError(
        f"{name} must have as many fields in each line as in the first, quotes in pairs, lines below 2 MB and one kind "
        "of line end. Correct it, or pass its delimiter, quote and escape (--delimiter, --quote, --escape) if it is "
        "the data. diagnose=FILE (--diagnose FILE) names the lines, in private."
    )


T = TypeVar("T")
Parameters = Sequence[object]


class SerialReading(NamedTuple):
    """What to read in place of a view that cannot be read in parallel."""

    sql: str
    parameters: Parameters
    check: Callable[[], None]
    """Raises a DataError if DuckDB must not read it so."""


_Serial = dict[str, SerialReading]

SPILL_PREFIX: Final = "dimly-spill-"
MIN_MEMORY: Final = 1 << 26
_PATIENCE = 0.05  # seconds between two interrupts: one that arrives between two queries is lost

# Nothing is fetched from the network, nothing in the caller's Python frames is looked at, nothing is cached, printed or
# logged, and no query can change that.
_SETTINGS: Final = (
    "SET allow_community_extensions = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET python_enable_replacements = false",
    "SET python_scan_all_frames = false",
    "SET enable_external_file_cache = false",
    "SET preserve_insertion_order = false",  # we sort, and keeping it costs memory
    "SET allocator_background_threads = true",  # what was freed goes back to the system: else up to 100 MiB stay
    "SET GLOBAL TimeZone = 'UTC'",
)


class Cursor:
    """A session of a private database: a connection, the thread that its calls run in, its errors in our words.

    A context manager that closes it.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, inputs: dict[str, tuple[str, str]], serial: _Serial
    ) -> None:
        self._connection = connection
        self.inputs = inputs
        """Path as DuckDB knows it → the curator's name of the file and its format: what errors may name."""
        self._serial = serial
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="dimly-duckdb")

    def execute(self, sql: str, parameters: Parameters = ()) -> None:
        """Run a statement for its effect."""
        self.fetch(sql, parameters)

    def fetch(self, sql: str, parameters: Parameters = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a small result as Python values."""
        return self._run(lambda: self._connection.execute(sql, list(parameters)).fetchall())

    def names(self, sql: str) -> list[str]:
        """Return the names of a query's columns as it gives them, before two alike are renamed."""
        return self._run(lambda: list(self._query(sql, ()).columns))

    def table(self, sql: str, parameters: Parameters = ()) -> pa.Table:
        """Return a result as an Arrow table."""
        return self._run(lambda: self._query(sql, parameters).to_arrow_table())

    def stream(
        self, sql: str, parameters: Parameters = (), *, batch_rows: int
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yield a result in batches, one read ahead.

        Any other call on the same session ends the stream: use a second :class:`Cursor` for a second one.
        """

        def begin() -> tuple[pa.RecordBatchReader, pa.RecordBatch | None]:
            reader = self._query(sql, parameters).to_arrow_reader(batch_rows)
            return reader, _next_batch(reader)

        reader, batch = self._run(begin)
        while batch is not None:
            ahead = self._thread.submit(_next_batch, reader)
            try:
                yield batch
                batch = self._result(ahead)
            finally:
                self._stop(ahead)  # the reader may have stopped half-way

    def _put_view(self, name: str, sql: str, parameters: Parameters) -> None:
        self._run(lambda: self._query(sql, parameters).create_view(name[1:-1]))

    def _put_data(self, name: str, data: Any) -> None:
        self._run(lambda: self._connection.register(name[1:-1], data))

    def insert(self, table: str, data: pa.Table) -> None:
        """Add rows to a table."""

        def run() -> None:
            self._connection.register("dimly rows", data)
            try:
                self._connection.execute(f'INSERT INTO {table} SELECT * FROM "dimly rows"').fetchall()
            finally:
                self._connection.unregister("dimly rows")

        self._run(run)

    def interrupt(self) -> None:
        """Stop the query that runs; its caller gets a DimlyError. For other threads: Ctrl-C does it by itself."""
        self._connection.interrupt()

    def close(self) -> None:
        """End the thread and the connection."""
        self._thread.shutdown()
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _query(self, sql: str, parameters: Parameters) -> duckdb.DuckDBPyRelation:
        # DuckDB takes parameters of a query only if there are any.
        return self._connection.sql(sql, params=list(parameters) or None)

    def _run(self, call: Callable[[], T]) -> T:
        try:
            return self._result(self._thread.submit(call))
        except NotInParallelError:
            if not self._serial:
                raise
        # The rows are the same either way, and so is all that follows from them but the time it takes.
        for reading in self._serial.values():
            reading.check()
        while self._serial:
            name, (sql, parameters, _) = self._serial.popitem()
            self._put_view(name, sql, parameters)
        return self._result(self._thread.submit(call))

    def _result(self, future: "Future[T]") -> T:
        try:
            return future.result()
        except BaseException as error:
            if not (future.done() and future.exception() is error and isinstance(error, Exception)):
                self._stop(future)
                raise  # a signal's: Ctrl-C, or what its handler raised
            failure = translated(error, self.inputs)
        # Outside of the handler, so that not even the context of our error holds DuckDB's text.
        raise failure

    def _stop(self, future: "Future[Any]") -> None:
        while not future.done():
            self._connection.interrupt()
            wait([future], timeout=_PATIENCE)


class PrivateDatabase(Cursor):
    """An in-memory DuckDB whose spill lives in an own folder of mode 0700. A context manager that removes it.

    Spill is not encrypted: DuckDB's encryption is safe only with an extension from the network, and takes twice the
    time (measured). What a killed run leaves in the folder is readable by its owner alone, until the next start
    removes it.

    Parameters
    ----------
    memory : int
        Bytes that DuckDB may use, at least 64 MiB; more is spilled.
    threads : int
        At least 1.
    temp : Path, optional
        Existing folder to spill into, on a disk with room for the data; the system's folder for temporary files by
        default.

    Raises
    ------
    ParameterError
        If a parameter is out of range, or ``temp`` is no folder that can be written to.

    Examples
    --------
    >>> with PrivateDatabase(memory=1 << 28, threads=1) as database:
    ...     database.fetch("SELECT sum(range) FROM range(?)", [5])
    [(10,)]
    """

    def __init__(self, *, memory: int, threads: int, temp: Path | None = None) -> None:
        if memory < MIN_MEMORY:
            raise ParameterError(f"memory must be at least 64 MiB, got {memory} bytes.")
        if threads < 1:
            raise ParameterError(f"threads must be at least 1, got {threads}.")
        self.copied: set[str] = set()
        """The curator's names of files whose content is held here: what becomes of them no longer matters."""
        self._objects: dict[str, Any] = {}  # Arrow data by name, registered again with every cursor
        self._names = 0
        self._spill = private_folder(temp, SPILL_PREFIX)
        try:
            super().__init__(_connect(memory, threads, self.folder), {}, {})
        except BaseException:
            self._spill.remove()
            raise

    @property
    def folder(self) -> Path:
        """The private folder, of mode 0700, removed at the end."""
        return self._spill.path

    def new_name(self) -> str:
        """Return a quoted name that no view, table or registered object of this database has yet."""
        self._names += 1
        return f'"dimly {self._names}"'

    def create_view(
        self, sql: str, parameters: Parameters = (), *, serial: tuple[str, Callable[[], None]] | None = None
    ) -> str:
        """Make a view of a query, also with parameters, which CREATE VIEW does not take; return its quoted name.

        Parameters
        ----------
        sql : str
        parameters : sequence
        serial : tuple of str and callable, optional
            The same rows by another query, which takes the view's place if DuckDB cannot read them in parallel, and
            what raises a DataError if it must not.
        """
        name = self.new_name()
        self._put_view(name, sql, parameters)
        if serial is not None:
            self._serial[name] = SerialReading(serial[0], parameters, serial[1])
        return name

    def create_table(self, sql: str) -> str:
        """Make a table, held in memory or spilled, of a query; return its quoted name."""
        name = self.new_name()
        self.execute(f"CREATE TABLE {name} AS {sql}")
        return name

    def create_table_within(self, catalog: str, query: str) -> str:
        """Make a table of a query whose names are looked up in an attached database; return its quoted name.

        Raises
        ------
        ParameterError
            If the query is not one SELECT, or gives two columns one name.
        """
        if not _is_select(query):
            raise ParameterError("query must be one SELECT that DuckDB can parse.")
        name = self.new_name()
        with self.cursor() as cursor:  # USE holds for one session only
            cursor.execute(f"USE {catalog}")
            check_names(cursor.names(query), "the query")  # two of one name would be renamed without a word
            cursor.execute(f"CREATE TABLE memory.main.{name} AS {query}")
        return name

    def register(self, data: pa.Table | Any) -> str:
        """Make Arrow data that can be scanned any number of times readable, without copying; return its quoted name."""
        name = self.new_name()
        self._put_data(name, data)
        self._objects[name] = data
        return name

    def register_again(self, name: str, data: pa.Table) -> None:
        """Put other Arrow data of the same columns under a registered name: views of it see that from now on."""
        self._put_data(name, data)
        self._objects[name] = data

    def unregister(self, name: str) -> None:
        """Let registered Arrow data go; views of it can no longer be read."""
        del self._objects[name]
        self._run(lambda: self._connection.unregister(name[1:-1]))

    def keep_copy(self, pieces: Iterable[bytes], name: str, kind: str) -> Path:
        """Write a file into the private folder, closed to others; errors about it will speak of ``name``.

        What is packed is unpacked in this way, and never by DuckDB, which reads a file that is cut short as far as it
        goes, and asks for no checksum.

        Raises
        ------
        DimlyError
            If the disk is full.
        """
        path = self.folder / f"copy-{len(self.inputs)}"
        self.inputs[os.fspath(path)] = (name, kind)
        try:
            with open(path, "xb", opener=lambda file, flags: os.open(file, flags, 0o600)) as copy:
                copy.writelines(pieces)
            self.copied.add(name)
            return path
        except OSError:
            pass
        raise DimlyError("temp must be on a disk with room for the data: writing a copy there failed.")

    def columns(self, relation: str) -> list[tuple[str, str]]:
        """Return name and DuckDB type of each column of a view or table."""
        return [(row[0], row[1]) for row in self.fetch(f"DESCRIBE SELECT * FROM {relation}")]

    def cursor(self) -> Cursor:
        """Return a second session on the same data, for a second stream or another thread."""
        cursor = Cursor(self._run(self._connection.cursor), self.inputs, self._serial)
        for name, data in self._objects.items():
            cursor._put_data(name, data)
        return cursor

    def close(self) -> None:
        """Forget everything and remove the folder. A second call does nothing."""
        try:
            super().close()
        finally:
            self._spill.remove()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
            return
        # What went wrong first is what the caller must hear of.
        with contextlib.suppress(Exception):
            self.close()


def _is_select(query: str) -> bool:
    try:
        statements = duckdb.extract_statements(query)
    except (duckdb.Error, TypeError):  # which it says of text that is no Unicode
        return False
    return len(statements) == 1 and statements[0].type == duckdb.StatementType.SELECT


def _next_batch(reader: pa.RecordBatchReader) -> pa.RecordBatch | None:
    try:
        return reader.read_next_batch()
    except StopIteration:
        return None


def private_folder(temp: str | os.PathLike[str] | None, prefix: str) -> LockedFolder:
    """Return a new folder of our own for private data, and remove what dead runs left of those with this prefix.

    Raises
    ------
    ParameterError
        If ``temp`` is no folder that can be written to, or lies in a release.
    """
    parent = Path(tempfile.gettempdir()) if temp is None else Path(temp)
    check_outside_releases(parent, "temp")
    sweep(parent, prefix)
    try:
        return locked_folder(parent, prefix)
    except OSError:
        pass
    raise ParameterError(
        f"temp must be a folder that can be written to, with room for the data, got {os.fspath(parent)}."
    )


def _connect(memory: int, threads: int, folder: Path, *, believing: bool = False) -> duckdb.DuckDBPyConnection:
    quoted = os.fspath(folder).replace("'", "''")
    settings = [f"SET memory_limit = '{memory}B'", f"SET threads = {threads}", f"SET temp_directory = '{quoted}'"]
    # What a Parquet file says of its columns leaves NaN out, and may be false: by it DuckDB would cut integers to fewer
    # bytes, and take several people for one. Nor may a filter reach its reader, which leaves row groups out by it. To
    # believe files would sort integers a fifth faster.
    if not believing:
        settings.append("SET disabled_optimizers = 'statistics_propagation,filter_pushdown'")
    try:
        connection = duckdb.connect(":memory:")
        # A notebook without ipywidgets may not change this one, even where it is off already.
        if connection.execute("SELECT current_setting('enable_progress_bar')").fetchone() != (False,):
            connection.execute("SET enable_progress_bar = false")
        for setting in (*_SETTINGS, *settings, "SET lock_configuration = true"):
            connection.execute(setting)
    except (duckdb.Error, RuntimeError, MemoryError) as error:  # so early the machine itself has no memory left
        failure = translated(error, {})
        if isinstance(failure, DataError):
            failure = DimlyError("the database could not start: the machine has too little memory or too few threads.")
    else:
        return connection
    raise failure
