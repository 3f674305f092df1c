"""Everything that a curator may have, as one relation of a private database."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

import pyarrow as pa
import pyarrow.parquet

from dimly.curator.arrow_data import arrow_data
from dimly.curator.column_names import check_names, check_same_columns
from dimly.curator.csv_dialect import CsvOptions
from dimly.curator.csv_tables import open_csv
from dimly.curator.database import PrivateDatabase
from dimly.curator.database_files import open_duckdb, open_sqlite
from dimly.curator.files import Stamp, find_files, glob_literal
from dimly.curator.json_lines import open_json_lines
from dimly.errors import DataError, ParameterError

_AS_WRITTEN: Final = CsvOptions()
_READABLE = "a path, pattern or list of paths, or a pandas, polars or Arrow table"


@dataclass(frozen=True, slots=True)
class Source:
    """A private table, ready to be queried.

    Attributes
    ----------
    name : str
        Quoted name of the relation, for FROM.
    columns : dict of str to str
        DuckDB type of each column, by name, in order.
    has_types : bool
        False where every column is text because the format knows nothing else (CSV).
    files : tuple of Stamp
        What was opened.
    """

    name: str
    columns: dict[str, str]
    has_types: bool = True
    files: tuple[Stamp, ...] = ()

    def check_unchanged(self) -> None:
        """Refuse if a file changed since it was opened.

        Raises
        ------
        DataError
            Naming the file.
        """
        for stamp in self.files:
            stamp.check_unchanged()


def open_source(
    database: PrivateDatabase,
    source: object,
    *,
    table: str | None = None,
    query: str | None = None,
    csv: CsvOptions = _AS_WRITTEN,
) -> Source:
    """Make a private table readable in ``database``.

    Parameters
    ----------
    database : PrivateDatabase
    source : path, glob, folder or list of these; or a pandas, polars or Arrow table
        Files are Parquet, CSV, JSON lines, DuckDB or SQLite, by their suffix; several must be of one format and have
        the same columns.
    table, query : str, optional
        Which table, or which SELECT, of a DuckDB or SQLite file; its only table by default.
    csv : CsvOptions, optional
        How CSV is written, where sniffing gets it wrong.

    Raises
    ------
    ParameterError
        If the call cannot work.
    DataError
        If a file cannot be read; the text holds nothing of its content.
    """
    data = arrow_data(source)
    if data is not None:
        _refuse(data, table=table, query=query)
        return _open_arrow(database, data)
    if not _are_paths(source):
        raise ParameterError(f"source must be {_READABLE}, got {type(source).__name__}.")
    form, files = find_files(source)
    if form in {"DuckDB", "SQLite"}:
        if len(files) > 1:
            raise ParameterError(f"source must be one {form} file, got several. Publish them one by one.")
        for stamp in files:
            database.inputs[os.fspath(stamp.path)] = (stamp.name, form)
        opened = open_duckdb if form == "DuckDB" else open_sqlite
        name, columns = opened(database, files[0], table=table, query=query)
        return Source(name, columns, files=tuple(files))
    _refuse(form, table=table, query=query)
    for stamp in files:
        database.inputs[os.fspath(stamp.path)] = (stamp.name, form)
    if form == "CSV":
        name, columns = open_csv(database, files, csv)
        return Source(name, columns, has_types=False, files=tuple(files))
    opened_files = _open_parquet if form == "Parquet" else open_json_lines
    name, columns = opened_files(database, files)
    return Source(name, columns, files=tuple(files))


def _open_arrow(database: PrivateDatabase, data: Any) -> Source:
    check_names(data.schema.names, "the table")
    name = database.register(data)
    if isinstance(data, pa.RecordBatchReader):
        name = database.create_table(f"SELECT * FROM {name}")  # it can be read only once
    return Source(name, dict(database.columns(name)))


def _open_parquet(database: PrivateDatabase, files: Sequence[Stamp]) -> tuple[str, dict[str, str]]:
    schemas = parquet_schemas(files)
    alike = all(schema.equals(schemas[0]) for schema in schemas)
    name = database.create_view(
        "SELECT * FROM read_parquet(?, hive_partitioning = false, union_by_name = ?)",
        [[glob_literal(stamp.path) for stamp in files], not alike],
    )
    return name, dict(database.columns(name))


def parquet_schemas(files: Sequence[Stamp]) -> list[pa.Schema]:
    """Return the types of the columns of each file; files that differ in their columns are refused."""
    schemas = [_parquet_schema(stamp) for stamp in files]
    for schema, stamp in zip(schemas, files, strict=True):
        check_names(schema.names, stamp.name)
    check_same_columns((schema.names for schema in schemas), files)
    return schemas


def _parquet_schema(stamp: Stamp) -> pa.Schema:
    try:
        return pyarrow.parquet.read_schema(stamp.path)
    except (pa.ArrowException, OSError):
        pass
    raise DataError(f"{stamp.name} must be a readable Parquet file. It is damaged, incomplete or of another format.")


def _are_paths(source: object) -> TypeGuard[str | os.PathLike[str] | Sequence[str | os.PathLike[str]]]:
    if isinstance(source, str | os.PathLike):
        return True
    return isinstance(source, list | tuple) and all(isinstance(one, str | os.PathLike) for one in source)


def _refuse(what: object, *, table: str | None, query: str | None) -> None:
    if table is not None or query is not None:
        given = "table" if table is not None else "query"
        name = what if isinstance(what, str) else type(what).__name__
        raise ParameterError(f"{given} must be left out unless source is a DuckDB or SQLite file, got it with {name}.")
