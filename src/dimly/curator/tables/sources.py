"""``open_source``: recognizes whatever a curator has, and makes it one relation; Parquet files and their types."""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypeGuard

import pyarrow as pa
import pyarrow.parquet

from dimly.curator.tables.columns import check_names, check_same_columns, listing, nearest, quoted
from dimly.curator.tables.csv import CsvOptions, open_csv
from dimly.curator.tables.database import PrivateDatabase
from dimly.curator.tables.formats import (
    JsonCells,
    arrow_data,
    open_duckdb,
    open_json_cells,
    open_json_lines,
    open_sqlite,
)
from dimly.curator.tables.input_files import Stamp, find_files, glob_literal
from dimly.errors import DataError, ParameterError

_AS_WRITTEN: Final = CsvOptions()
_READABLE = "a path, pattern or list of paths, or a pandas, polars or Arrow table"


class WideColumns(NamedTuple):
    """Columns of a wide table that are published together: the user's, and which others."""

    user: str
    chosen: tuple[str, ...] | None
    """None: all but the user's."""


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
        What is read from its files at each pass. Those that were copied do not count: they were compared with their
        stamps right after that.
    is_held : bool
        Whether all passes see the same, unless :meth:`check_unchanged` says otherwise.
    has_private_names : bool
        Whether the names of columns may come from people's rows (JSON, CSV without a header), and must not be shown.
    index : tuple of str
        What the index of a pandas table is called, which is not read.
    cells : JsonCells or None
        Of wide JSON objects what is in them: then the relation has a row for each, with little else than its user.
    """

    name: str
    columns: dict[str, str]
    has_types: bool = True
    files: tuple[Stamp, ...] = ()
    is_held: bool = True
    has_private_names: bool = False
    index: tuple[str, ...] = ()
    cells: JsonCells | None = None

    @property
    def listing(self) -> str:
        """A sentence with the columns that there are, for errors."""
        if self.has_private_names and self.has_types:
            return "Look at the file: names that its rows hold may be private, and are not listed here."
        if self.has_private_names:
            return (
                "The first line of the file lacks some of the names given. It is not shown here, because it may be a "
                "person's row. Look at it: use the names that stand there, add a line of names if there is none, and "
                "check its delimiter, quote and encoding (--delimiter, --quote, --encoding)."
            )
        index = (
            f" Its index is {', '.join(self.index)}: pass table.reset_index() to have it read." if self.index else ""
        )
        return listing(self.columns) + index

    def meant(self, name: str) -> str:
        """Return a question after the column that was meant by ``name``, for errors, if its names may be shown."""
        return "" if self.has_private_names else nearest(name, self.columns)

    def naming(self, names: Collection[str], database: PrivateDatabase | None = None) -> "Source":
        """Return the table with its columns listed only if its first line is surely one of names: it has one of these.

        A CSV file without a header, or in another encoding, has a person's row there, or all of them. In a damaged one
        a row may be joined to the names: then the rows that follow have fewer cells, and ``database`` refuses them.
        """
        known, wanted = ({name.casefold() for name in some} for some in (self.columns, names))
        if self.has_types or wanted <= known or (wanted & known and self._has_rows_of_as_many_cells(database)):
            return self
        return replace(self, has_private_names=True)

    def _has_rows_of_as_many_cells(self, database: PrivateDatabase | None) -> bool:
        try:
            return database is None or len(database.fetch(f"SELECT * FROM {self.name} LIMIT 1")) > 0
        except DataError:
            return False

    def held(self, database: PrivateDatabase) -> "Source":
        """Return the table in the private database, where nobody can change it between two passes.

        Files are not copied: whether they stayed as they were is asked after the last pass.
        """
        if self.is_held:
            return self
        return replace(self, name=database.create_table(f"SELECT * FROM {self.name}"), is_held=True)

    def check_unchanged(self) -> None:
        """Refuse if a file that is still read changed since it was opened.

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
    wanted: Collection[str] | None = None,
    wide: WideColumns | None = None,
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
        How CSV is written, where it is not as usual.
    wanted : collection of str, optional
        The columns that will be read; all by default. Others may have different types in different Parquet files, and
        are then left out.
    wide : WideColumns, optional
        Where each row holds many columns to publish: JSON objects are then taken apart.

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
        named = [name for name in getattr(getattr(source, "index", None), "names", ()) if isinstance(name, str)]
        return replace(_open_arrow(database, data, wanted), index=tuple(named))
    if not are_paths(source):
        if type(source).__module__.startswith("pyspark."):
            raise ParameterError("source is a Spark frame. Use dimly.spark.publish, or dimly.spark.survey.")
        remedy = (
            "reset_index() makes a table of a pandas Series."
            if type(source).__name__ == "Series"
            else "pandas.DataFrame(…) makes a table of dictionaries and lists."
            if isinstance(source, dict | list)
            else "Name what holds the rows."
        )
        raise ParameterError(f"source must be {_READABLE}, got {type(source).__name__}. {remedy}")
    form, files = find_files(source)
    if form in {"DuckDB", "SQLite"}:
        if len(files) > 1:
            raise ParameterError(f"source must be one {form} file, got several. Publish them one by one.")
        for stamp in files:
            database.inputs[os.fspath(stamp.path)] = (stamp.name, form)
        opened = open_duckdb if form == "DuckDB" else open_sqlite
        name, columns = opened(database, files[0], table=table, query=query)
        files[0].check_unchanged()
        return Source(name, columns, files=_still_read(database, files))
    _refuse(form, table=table, query=query)
    for stamp in files:
        database.inputs[os.fspath(stamp.path)] = (stamp.name, form)
    if form == "CSV":
        name, columns = open_csv(database, files, csv)
        return Source(name, columns, has_types=False, files=_still_read(database, files))
    if form == "Parquet":
        name, columns = _open_parquet(database, files, wanted)
        return Source(name, columns, files=_still_read(database, files))
    return _open_json(database, files, wide)


def _still_read(database: PrivateDatabase, files: Sequence[Stamp]) -> tuple[Stamp, ...]:
    return tuple(stamp for stamp in files if stamp.name not in database.copied)


def _open_json(database: PrivateDatabase, files: Sequence[Stamp], wide: WideColumns | None) -> Source:
    if wide is None:
        name, columns = open_json_lines(database, files)
        return Source(name, columns, files=_still_read(database, files), has_private_names=True)
    name, columns, cells = open_json_cells(database, files, user=wide.user, chosen=wide.chosen)
    return Source(name, columns, has_private_names=True, cells=cells)


def _open_arrow(database: PrivateDatabase, data: Any, wanted: Collection[str] | None) -> Source:
    check_names(data.schema.names, "the table")
    for field in data.schema:
        _check_known(field, field.name)
    is_stream = not isinstance(data, pa.Table)
    if not is_stream:
        check_sound(data if wanted is None else data.select([one for one in data.column_names if one in wanted]))
    name = database.register(data)
    if is_stream:
        # A stream can be read only once, and the files of a dataset may be others the next time.
        name = database.create_table(f"SELECT * FROM {name}")
    return Source(name, dict(database.columns(name)), is_held=is_stream)


def check_sound(table: pa.Table) -> None:
    """Refuse memory that is not what its type says, such as text that is no UTF-8, or codes without a category.

    Whoever made it may not have looked, as Arrow's reader of Parquet and Spark do not. DuckDB believes it, and when it
    sorts it cuts ids off where they cease to be text: two people would have one id.

    Raises
    ------
    DataError
        The text holds nothing of the table.
    """
    try:
        table.validate(full=True)
        return
    except pa.ArrowNotImplementedError:  # of types that nobody reads
        return
    except pa.ArrowException:
        pass
    raise DataError(
        "the table must hold what its types say, but some of it is no UTF-8, or else damaged. Decode the source with "
        "its true encoding."
    )


_KNOWN: Final = {"arrow.uuid", "arrow.json", "arrow.bool8"}


def _check_known(field: pa.Field, column: str, *, is_fixed: bool = False) -> None:
    """Refuse what DuckDB would misread: types by what they are stored in, and codes in lists of a fixed length.

    Of pandas' months it would count them; of the categories in polars' arrays it reads codes, or memory beyond them.
    """
    kind = field.type
    if isinstance(kind, pa.BaseExtensionType):
        own = "" if kind.extension_name in _KNOWN else kind.extension_name
    else:  # whose type nobody has registered here: in a program that has not loaded pandas
        own = (field.metadata or {}).get(b"ARROW:extension:name", b"").decode(errors="replace")
        own = own if own.startswith("pandas.") else ""
    if own:
        raise ParameterError(f"column {column!r} must be of a type that DuckDB knows, got {own}. Turn it into text.")
    if pa.types.is_dictionary(kind):
        if is_fixed:
            raise ParameterError(
                f"column {column!r} must hold its lists of fixed length as plain text or numbers, got categories. Cast "
                "it: with polars, to pl.List(pl.String)."
            )
        _check_known(pa.field("", kind.value_type), column)
    for number in range(kind.num_fields):
        _check_known(kind.field(number), column, is_fixed=pa.types.is_fixed_size_list(kind))


def _open_parquet(
    database: PrivateDatabase, files: Sequence[Stamp], wanted: Collection[str] | None
) -> tuple[str, dict[str, str]]:
    schemas = parquet_schemas(files, wanted=wanted, nulls_fit=True)
    for field in (field for schema in schemas for field in schema):
        if wanted is None or field.name in wanted:
            _check_known(field, field.name)
            if pa.types.is_duration(field.type):  # Parquet has none: only Arrow knows what the integers stand for
                raise ParameterError(f"column {field.name!r} must not hold durations. Turn it into text or numbers.")
    kinds = {name: {_plain(schema.field(name).type) for schema in schemas} - {pa.null()} for name in schemas[0].names}
    # Files of the same types are read together. Of a column that holds nothing in some file, and has no type there, the
    # others say what it is.
    groups: dict[tuple[tuple[str, pa.DataType], ...], list[str]] = {}
    for schema, stamp in zip(schemas, files, strict=True):
        groups.setdefault(tuple((field.name, _plain(field.type)) for field in schema), []).append(
            glob_literal(stamp.path)
        )
    parts = []
    for group in groups:
        is_null = {name: kind == pa.null() and bool(kinds[name]) for name, kind in group}
        selected = [
            f"NULL AS {quoted(name)}" if is_null[name] else quoted(name) for name in kinds if len(kinds[name]) <= 1
        ]
        parts.append(f"SELECT {', '.join(selected)} FROM read_parquet(?, hive_partitioning = false)")
    name = database.create_view(" UNION ALL ".join(parts), list(groups.values()))
    return name, dict(database.columns(name))


def parquet_schemas(
    files: Sequence[Stamp], *, wanted: Collection[str] | None = None, nulls_fit: bool = False
) -> list[pa.Schema]:
    """Return the types of the columns of each file; files that differ in their columns, or in types, are refused.

    DuckDB would turn types that differ into one that holds both, often text, and Spark would fail. Only the types of
    ``wanted`` columns must agree, of all by default. A column that holds nothing may have been written without a type,
    which fits any if ``nulls_fit``.
    """
    schemas = [_parquet_schema(stamp) for stamp in files]
    for schema, stamp in zip(schemas, files, strict=True):
        check_names(schema.names, stamp.name)
    check_same_columns((schema.names for schema in schemas), files)
    first: dict[str, tuple[pa.DataType, Stamp]] = {}
    for schema, stamp in zip(schemas, files, strict=True):
        for field in schema:
            kind = _plain(field.type)
            if (wanted is not None and field.name not in wanted) or (nulls_fit and pa.types.is_null(kind)):
                continue
            known, where = first.setdefault(field.name, (kind, stamp))
            if kind != known:
                raise ParameterError(
                    f"files must have columns of the same types, but {field.name!r} of {stamp.name} has another type "
                    f"than in {where.name}. Write them alike."
                )
    return schemas


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return a type as Parquet has it: dictionaries, large texts and names of time zones are Arrow's own affair."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    return kind


def _parquet_schema(stamp: Stamp) -> pa.Schema:
    try:
        schema = pyarrow.parquet.read_schema(stamp.path)
        schema.names  # noqa: B018 - decodes them, and fails where a name is not UTF-8
        return schema
    except Exception:  # noqa: BLE001, S110 - also what a type of somebody else's says of a footer that is not its own
        pass
    raise DataError(f"{stamp.name} must be a readable Parquet file. It is damaged, incomplete or of another format.")


def are_paths(source: object) -> TypeGuard[str | os.PathLike[str] | Sequence[str | os.PathLike[str]]]:
    """Return whether a source is files, and not data in memory."""
    if isinstance(source, str | os.PathLike):
        return True
    return isinstance(source, list | tuple) and all(isinstance(one, str | os.PathLike) for one in source)


def _refuse(what: object, *, table: str | None, query: str | None) -> None:
    if table is not None or query is not None:
        given = "table" if table is not None else "query"
        name = what if isinstance(what, str) else type(what).__name__
        raise ParameterError(f"{given} must be left out unless source is a DuckDB or SQLite file, got it with {name}.")
