"""Points as arrays and tables, in memory and in files."""

import contextlib
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dimly.analyst.coordinates import Points
from dimly.analyst.export_files import new_file
from dimly.analyst.export_points import About, Batch, Exported
from dimly.analyst.neighbors import Progress
from dimly.errors import MissingExtraError, ParameterError
from dimly.release.layout import UserType, list_of
from dimly.release.parts import as_user_column

METADATA = "dimly"
"""Under this name Arrow and Parquet schemas hold what the export says of itself, as JSON."""


def as_numpy(exported: Exported) -> Points:
    """Return everybody's point; see :meth:`Release.to_numpy`."""
    points = np.empty((len(exported), exported.dimension), np.float32)
    for batch in exported.batches():
        points[batch.start : batch.start + len(batch.points)] = batch.points
    return points


def as_pandas(exported: Exported) -> Any:
    """Return a data frame; see :meth:`Release.to_pandas`."""
    try:
        import pandas as pd  # noqa: PLC0415  (no dependency)
    except ImportError:
        raise MissingExtraError("to_pandas needs pandas. Install pandas, or use to_arrow or to_numpy.") from None
    users = pd.Index(exported.sketches.users.tolist() if exported.sketches.textual else exported.sketches.users)
    names = [f"x{i}" for i in range(exported.dimension)]
    frame = pd.DataFrame(as_numpy(exported), index=users.rename("user"), columns=names, copy=False)
    frame.attrs[METADATA] = exported.about
    return frame


def as_arrow(exported: Exported) -> pa.Table:
    """Return an Arrow table; see :meth:`Release.to_arrow`."""
    schema = _schema(exported)
    return pa.Table.from_batches([_record(batch, schema) for batch in exported.batches()], schema)


def write_parquet(exported: Exported, path: str | Path, *, overwrite: bool, progress: Progress | None) -> About:
    """Write a Parquet file; see :meth:`Release.to_parquet`."""
    schema = _schema(exported)
    with new_file(path, overwrite=overwrite) as draft, pq.ParquetWriter(draft, schema, compression="zstd") as writer:
        for batch in exported.batches(progress):
            writer.write_batch(_record(batch, schema))
    return exported.about


@contextlib.contextmanager
def users_writer(exported: Exported, path: Path) -> Iterator[Callable[[Batch], None]]:
    """Write the table without its points, ids and excess in the order of the release, as its batches come by."""
    schema = _schema(exported)
    schema = schema.remove(schema.get_field_index("point"))
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        yield lambda batch: writer.write_batch(_record(batch, schema))


def write_npz(exported: Exported, path: str | Path, *, overwrite: bool, progress: Progress | None) -> About:
    """Write an archive of arrays; see :meth:`Release.to_npz`."""
    users = exported.sketches.users
    if exported.sketches.textual:
        texts = users.tolist()
        users = np.array(texts, np.str_)
        if any(text.endswith("\0") for text in texts):
            raise ParameterError("user ids must not end in NUL, which NumPy drops, and one does. Use to_parquet.")
    excess = []
    header = {"descr": "<f4", "fortran_order": False, "shape": (len(exported), exported.dimension)}
    with new_file(path, overwrite=overwrite) as draft, zipfile.ZipFile(draft, "w") as archive:
        # As numpy.savez, but for the points, which need not all be in memory.
        with archive.open("point.npy", "w", force_zip64=True) as file:
            np.lib.format.write_array_header_1_0(file, header)
            for batch in exported.batches(progress):
                file.write(np.ascontiguousarray(batch.points, "<f4").data)
                excess.append(batch.excess)
        arrays = {"user": users, "about": np.array(exported.about_json)}
        if exported.denoiser is None:
            arrays["excess"] = np.concatenate([part for part in excess if part is not None])
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
    return exported.about


def _schema(exported: Exported) -> pa.Schema:
    fields = {
        "user": pa.string() if exported.sketches.textual else pa.int64(),
        "point": list_of(pa.float32(), exported.dimension),
    }
    if exported.denoiser is None:
        fields["excess"] = pa.float64()
    nullable = [pa.field(name, kind, nullable=name != "user") for name, kind in fields.items()]
    return pa.schema(nullable, metadata={METADATA: exported.about_json})


def _record(batch: Batch, schema: pa.Schema) -> pa.RecordBatch:
    """Return one batch; what is said of people of whom nothing is known is missing."""
    lost = None if batch.known.all() else ~batch.known
    columns = {"user": _user_column(batch.users)}
    if "point" in schema.names:
        numbers, kind = pa.array(np.ascontiguousarray(batch.points).reshape(-1)), schema.field("point").type
        mask = None if lost is None else pa.array(lost)
        columns["point"] = pa.FixedSizeListArray.from_arrays(numbers, type=kind, mask=mask)
    if batch.excess is not None:
        columns["excess"] = pa.array(batch.excess, mask=lost)
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _user_column(users: NDArray[Any]) -> pa.Array:
    user_type: UserType = "text" if users.dtype.kind == "T" else "int64"
    return as_user_column(users, user_type)
