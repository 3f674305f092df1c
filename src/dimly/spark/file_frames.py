"""Parquet, CSV and JSON files as Spark frames that hold exactly what the local engine reads.

Spark reads Parquet itself. Of CSV and JSON it would guess types, mend lines and skip what it cannot decode, so there
the workers read whole files with the database and the settings of the local engine.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from dimly.curator.tables.columns import quoted
from dimly.curator.tables.csv import CsvOptions, csv_headers, open_csv
from dimly.curator.tables.database import PrivateDatabase
from dimly.curator.tables.formats import check_json_names, json_names, json_view, plain_files
from dimly.curator.tables.input_files import Stamp, changed, find_files, format_of
from dimly.curator.tables.sources import parquet_schemas
from dimly.errors import DataError, DimlyError, ParameterError
from dimly.spark.cluster import Batches, asked, mapped
from dimly.spark.hadoop import FileStates, file_states, is_address
from dimly.spark.origins import names_come_from_rows
from dimly.spark.workers.private_rows import WORKER_MEMORY, CellKind

_BATCH = 1 << 16  # rows
_MOST_TASKS = 1 << 14
_AS_WRITTEN = CsvOptions()
_PATTERNS = str.maketrans({letter: f"\\{letter}" for letter in "\\*?[]{}"})


@dataclass(frozen=True, slots=True)
class FrameSource:
    """A frame, and what is known of where it comes from.

    Attributes
    ----------
    frame : DataFrame
    cells : {"typed", "text", "json"}
    files : tuple of Stamp
        What was opened, if it was files that the driver sees.
    states : mapping of str to (int, int)
        Other files that the frame reads, as they were, by address.
    """

    frame: Any
    cells: CellKind = "typed"
    files: tuple[Stamp, ...] = ()
    states: FileStates = field(default_factory=dict)

    @property
    def has_private_names(self) -> bool:
        """Whether columns may be called as some row says, so that no error may list them."""
        return self.cells == "json" or names_come_from_rows(self.frame)

    def stamped(self) -> "FrameSource":
        """Return the frame with the state of its files now, if they were not looked at when it was opened."""
        if self.files:
            return self
        read = asked(self.frame.inputFiles, "reading the table")
        here = {address: stamp for address in read if (stamp := stamp_here(address)) is not None}
        elsewhere = file_states(self.frame.sparkSession, (address for address in read if address not in here))
        return replace(self, files=tuple(here.values()), states=elsewhere)

    def check_unchanged(self) -> None:
        """Refuse if a file changed since it was opened.

        Raises
        ------
        DataError
            Naming the file.
        """
        for stamp in self.files:
            stamp.check_unchanged()
        if self.states:
            now = file_states(self.frame.sparkSession, self.states)
            for name, state in self.states.items():
                if now[name] != state:
                    raise changed(name)


def stamp_here(address: str) -> Stamp | None:
    """Return the state of a file by its address; None of one that this machine does not see as a file of its own."""
    parts = urlsplit(address)
    try:
        return Stamp.of(unquote(parts.path)) if parts.scheme == "file" else None
    except DimlyError:
        return None


def read_files(session: Any, paths: str | Sequence[str], *, csv: CsvOptions = _AS_WRITTEN) -> FrameSource:
    """Return files as a frame: paths, patterns and folders as the local engine takes them, or addresses of Parquet.

    Parameters
    ----------
    session : SparkSession
    paths : str or sequence of str
        Of files that the driver and all workers see; or addresses that Spark reads.
    csv : CsvOptions, optional
        How CSV is written, where it is not as usual.

    Raises
    ------
    ParameterError
        For other formats, and for files that differ in their columns.
    DataError
        If a file cannot be read; the text holds nothing of its content.
    """
    given = [paths] if isinstance(paths, str) else list(paths)
    far = [one for one in given if "://" in one or is_address(one)]
    if far:
        return _read_addresses(session, far, given)
    form, files = find_files(given)
    if form == "Parquet":
        return FrameSource(_read_parquet(session, files), files=tuple(files))
    if form == "CSV":
        names: Sequence[str] = csv_headers(files, csv)[0][1]
        return FrameSource(_read_whole(session, files, names, "CSV", csv), "text", tuple(files))
    if form == "JSON lines":
        found = mapped(_numbers(session, len(files)), _NameColumns(tuple(files)), "name string").distinct()
        names = sorted(row.name for row in asked(found.collect, "reading the files"))
        check_json_names(names, files)
        return FrameSource(_read_whole(session, files, names, form, csv), "json", tuple(files))
    raise ParameterError(
        f"data must be Parquet, CSV or JSON lines with --engine spark, got {form}. Write the table to such files, or "
        "leave --engine out."
    )


def _read_addresses(session: Any, far: Sequence[str], given: Sequence[str]) -> FrameSource:
    if len(far) < len(given):
        raise ParameterError("data must be paths or addresses, got some of each. Give all of them as addresses.")
    for one in far:
        if Path(one).suffix and _format(one) not in (None, "Parquet"):
            raise ParameterError(
                f"data must be Parquet where it is an address, got {one}. Read it in Spark yourself and call "
                "dimly.spark.publish, or copy it to where all workers see it under one path."
            )
    # All columns of all files: by default Spark takes those of one, and leaves the others' out without a word.
    reader = session.read.option("mergeSchema", "true")
    try:
        return FrameSource(asked(lambda: reader.parquet(*far), "opening the files"))
    except DimlyError:
        pass
    raise DataError(
        f"{far[0]} must be Parquet that Spark can read, but it is not: it is not there, closed to you, or of another "
        "format. Read it in Spark yourself and call dimly.spark.publish."
    )


def _format(name: str) -> str | None:
    try:
        return format_of(name)
    except DimlyError:
        return None  # a folder, or a pattern


def _read_parquet(session: Any, files: Sequence[Stamp]) -> Any:
    for stamp in files:
        if stamp.path.name.startswith(("_", ".")) or ":" in str(stamp.path):
            raise ParameterError(
                f"{stamp.name} must have a name that Spark reads: with no colon in it, and neither _ nor a dot first. "
                "Rename it, or leave --engine out."
            )
    parquet_schemas(files)
    paths = [str(stamp.path).translate(_PATTERNS) for stamp in files]
    try:
        return asked(lambda: session.read.parquet(*paths), "opening the files")
    except DimlyError:
        pass
    raise DataError(
        f"{files[0].name} must be Parquet that Spark reads, but it is not: Spark has no times of day, and none to the "
        "nanosecond. Write such columns as text, or leave --engine out."
    )


def _read_whole(
    session: Any, files: Sequence[Stamp], names: Sequence[str], form: Literal["CSV", "JSON lines"], csv: CsvOptions
) -> Any:
    columns = ", ".join(f"`{name.replace('`', '``')}` string" for name in names)
    work = _ReadFiles(tuple(files), tuple(names), form, csv)
    return mapped(_numbers(session, len(files)), work, columns)


def _numbers(session: Any, n_files: int) -> Any:
    """Return a frame of the numbers of all files, a task for each."""
    return session.range(0, n_files, numPartitions=min(n_files, _MOST_TASKS))


@dataclass(frozen=True)
class _NameColumns:
    """Yields every name that occurs in files of JSON."""

    files: tuple[Stamp, ...]

    def __call__(self, batches: Batches) -> Batches:
        for stamp, database in _opened(self.files, batches, "JSON lines"):
            yield pa.record_batch({"name": pa.array(json_names(database, plain_files(database, [stamp])), pa.string())})


@dataclass(frozen=True)
class _ReadFiles:
    """Yields the cells of whole files as text."""

    files: tuple[Stamp, ...]
    names: tuple[str, ...]
    form: Literal["CSV", "JSON lines"]
    csv: CsvOptions

    def __call__(self, batches: Batches) -> Batches:
        columns = ", ".join(f"CAST({quoted(name)} AS VARCHAR) AS {quoted(name)}" for name in self.names)
        for stamp, database in _opened(self.files, batches, self.form):
            if self.form == "CSV":
                view, _ = open_csv(database, [stamp], self.csv)
            else:
                view = json_view(database, plain_files(database, [stamp]), self.names)
            yield from database.stream(f"SELECT {columns} FROM {view}", batch_rows=_BATCH)


def _opened(files: Sequence[Stamp], batches: Batches, form: str) -> Iterator[tuple[Stamp, PrivateDatabase]]:
    """Yield the files of some numbers, each with a database to read it; refuse those that a worker sees otherwise."""
    for stamp in (files[number] for batch in batches for number in batch.column(0).to_pylist()):
        _check_seen(stamp)
        with PrivateDatabase(memory=WORKER_MEMORY, threads=1) as database:
            database.inputs[str(stamp.path)] = (stamp.name, form)
            yield stamp, database
        _check_seen(stamp)


def _check_seen(stamp: Stamp) -> None:
    try:
        here, there = Stamp.of(stamp.path).state, stamp.state
        # Other machines may number their devices and files otherwise, and set their own times of change.
        same = (here.size, here.modified) == (there.size, there.modified)
    except DataError:
        same = False
    if not same:
        raise DataError(
            f"{stamp.name} must be the same file for the driver and all workers, but it is not. Put it where all of "
            "them see it under this path, and leave it as it is."
        )
