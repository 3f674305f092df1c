"""Tables of Python: pandas, polars and Arrow, as Arrow data that DuckDB scans in place."""

from typing import Any

import pyarrow as pa
import pyarrow.dataset

from dimly.errors import DataError, ParameterError

# What Arrow and pandas raise for cells that do not fit together; their texts quote the cells.
_UNFIT = (pa.ArrowException, TypeError, ValueError, OverflowError)


def arrow_data(source: Any) -> pa.Table | pa.RecordBatchReader | pyarrow.dataset.Dataset | None:
    """Return a table of Python as Arrow, without copying where that is possible; None if it is no such table.

    Raises
    ------
    ParameterError
        For columns whose names are neither text nor integers.
    DataError
        For a column whose cells are of several types.
    """
    if isinstance(source, pa.Table | pa.RecordBatchReader | pyarrow.dataset.Dataset):
        return source
    if isinstance(source, pa.RecordBatch):
        return pa.Table.from_batches([source])
    room = type(source).__module__.partition(".")[0]
    if room == "polars" and hasattr(source, "collect"):
        source = source.collect(engine="streaming")
    if room == "polars" and hasattr(source, "get_columns"):
        return source.to_arrow()
    if room == "pandas" and hasattr(source, "items") and hasattr(source, "columns"):
        return _of_pandas(source)
    if hasattr(source, "__arrow_c_stream__") and not _is_column(source):
        return pa.RecordBatchReader.from_stream(source)
    return None


def arrow_column(source: Any) -> pa.ChunkedArray | None:
    """Return a column of Python (Arrow, pandas, polars) as Arrow; None if it is none."""
    if isinstance(source, pa.ChunkedArray):
        return source
    if isinstance(source, pa.Array):
        return pa.chunked_array([source])
    room = type(source).__module__.partition(".")[0]
    if room == "polars" and _is_column(source):
        return pa.chunked_array([source.to_arrow()])
    if room == "pandas" and (_is_column(source) or hasattr(source, "to_series")):
        return _array(source, str(getattr(source, "name", None)))
    return None


def _is_column(source: object) -> bool:
    # In this order: to ask a lazy table of polars for its columns would make it work.
    return hasattr(source, "dtype") and not hasattr(source, "columns")


def _of_pandas(frame: Any) -> pa.Table:
    names, arrays = [], []
    for label, column in frame.items():
        if isinstance(label, bool) or not isinstance(label, str | int):
            raise ParameterError(
                f"columns of a pandas table must be named by text or integers, got {type(label).__name__}. Rename them."
            )
        names.append(str(label))
        arrays.append(_array(column, str(label)))
    return pa.Table.from_arrays(arrays, names=names)


def _array(column: Any, name: str) -> pa.ChunkedArray:
    try:
        array = pa.array(column, from_pandas=True)
    except _UNFIT:
        array = None
    if array is None:
        raise DataError(f"column {name!r} must hold cells of one type. Turn them all into text, for example.")
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])
