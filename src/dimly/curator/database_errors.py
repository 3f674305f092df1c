"""What went wrong in DuckDB, in words of our own: its texts quote the data."""

import duckdb

from dimly.errors import DataError, DimlyError, ParameterError

_DISK_FULL = ("max_temp_directory_size", "No space left", "Disk quota", "not enough disk")
_NOT_SQL = (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException, duckdb.SyntaxException)


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
    if isinstance(error, duckdb.NotImplementedException):
        return DataError("columns must be of types that DuckDB reads, and one is not. Turn it into text or numbers.")
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
        return DataError(f"{name} must be text in UTF-8, and some of it is not. Pass its true encoding (--encoding).")
    if kind != "CSV":
        return DataError(f"{name} must be a readable {kind} file. It is damaged, incomplete or of another format.")
    return DataError(
        f"{name} must have as many fields in each line as in the first, quotes in pairs, lines below 2 MB and one kind "
        "of line end. Correct it, or pass its delimiter, quote and escape."
    )
