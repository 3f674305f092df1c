"""``release.export``: NumPy, pandas, Arrow, Parquet, .npz, and indexes of FAISS."""

import contextlib
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, cast, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dimly.errors import DimlyError, MissingExtraError, ParameterError
from dimly.files import new_file
from dimly.progress import OnProgress
from dimly.release.format import list_of, user_type_of
from dimly.release.parts import as_user_column

if TYPE_CHECKING:
    from dimly.analyst.export.exported_points import AboutExport, Exported, PointBatch
    from dimly.analyst.export.postgres import Column, PostgresIndex
    from dimly.analyst.release import Release
    from dimly.analyst.structure.coordinates import Points


FaissIndex = Literal["flat", "hnsw"]

# HNSW: links of a point, and candidates looked at when it is put in and when others are searched for. FAISS's own 40
# and 16 find too few: noise makes neighbors nearly as far as everybody else (docs/exports.md).
_LINKS = 32
_BUILD = 128
_SEARCH = 128


def users_beside(path: str | Path) -> Path:
    """Return where the ids of an index's people are."""
    return Path(f"{path}.users.parquet")


def write_faiss(
    exported: "Exported", path: str | Path, *, index: FaissIndex, overwrite: bool, progress: OnProgress | None
) -> "AboutExport":
    """Write an index and the ids of its people; see :meth:`Exports.faiss`."""
    if index not in get_args(FaissIndex):
        raise ParameterError(f"index must be 'flat' or 'hnsw', got {index!r}.")
    try:
        import faiss  # type: ignore[import-not-found, import-untyped, unused-ignore]  # noqa: PLC0415  (an extra)
    except ImportError:
        raise MissingExtraError("export.faiss needs FAISS. Run pip install 'dimly[search]'.") from None
    with (
        new_file(path, overwrite=overwrite) as draft,
        new_file(users_beside(path), overwrite=overwrite) as users,
        users_writer(exported, users) as write,
    ):
        made = faiss.IndexIDMap2(_empty(faiss, exported.dimension, index))
        for batch in exported.batches(progress):
            write(batch)
            places = batch.start + np.flatnonzero(batch.known)
            made.add_with_ids(np.ascontiguousarray(batch.points[batch.known]), places)
        try:
            faiss.write_index(made, str(draft))
        except RuntimeError:  # whose text is about FAISS's source
            raise DimlyError(f"{path} cannot be written. Is the disk full?") from None
    return exported.about


def _empty(faiss: Any, dimension: int, index: FaissIndex) -> Any:
    if index == "flat":
        return faiss.IndexFlatL2(dimension)
    graph = faiss.IndexHNSWFlat(dimension, _LINKS)
    graph.hnsw.efConstruction, graph.hnsw.efSearch = _BUILD, _SEARCH
    return graph


METADATA = "dimly"
"""Under this name Arrow and Parquet schemas hold what the export says of itself, as JSON."""


def as_numpy(exported: "Exported") -> "Points":
    """Return everybody's point; see :meth:`Exports.numpy`."""
    points = np.empty((len(exported), exported.dimension), np.float32)
    for batch in exported.batches():
        points[batch.start : batch.start + len(batch.points)] = batch.points
    return points


def as_pandas(exported: "Exported") -> Any:
    """Return a data frame; see :meth:`Exports.pandas`."""
    try:
        import pandas as pd  # noqa: PLC0415  (no dependency)
    except ImportError:
        raise MissingExtraError(
            "export.pandas needs pandas. Run pip install pandas, or use export.arrow or export.numpy."
        ) from None
    users = pd.Index(exported.sketches.users.tolist() if exported.sketches.textual else exported.sketches.users)
    names = [f"x{i}" for i in range(exported.dimension)]
    frame = pd.DataFrame(as_numpy(exported), index=users.rename("user"), columns=names, copy=False)
    frame.attrs[METADATA] = exported.about
    return frame


def as_arrow(exported: "Exported") -> pa.Table:
    """Return an Arrow table; see :meth:`Exports.arrow`."""
    schema = _schema(exported)
    return pa.Table.from_batches([_record(batch, schema) for batch in exported.batches()], schema)


def write_parquet(
    exported: "Exported", path: str | Path, *, overwrite: bool, progress: OnProgress | None
) -> "AboutExport":
    """Write a Parquet file; see :meth:`Exports.parquet`."""
    schema = _schema(exported)
    with new_file(path, overwrite=overwrite) as draft, pq.ParquetWriter(draft, schema, compression="zstd") as writer:
        for batch in exported.batches(progress):
            writer.write_batch(_record(batch, schema))
    return exported.about


@contextlib.contextmanager
def users_writer(exported: "Exported", path: Path) -> "Iterator[Callable[[PointBatch], None]]":
    """Write the table without its points, ids and excess in the order of the release, as its batches come by."""
    schema = _schema(exported)
    schema = schema.remove(schema.get_field_index("point"))
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        yield lambda batch: writer.write_batch(_record(batch, schema))


def write_npz(exported: "Exported", path: str | Path, *, overwrite: bool, progress: OnProgress | None) -> "AboutExport":
    """Write an archive of arrays; see :meth:`Exports.npz`."""
    users = exported.sketches.users
    if exported.sketches.textual:
        texts = users.tolist()
        users = np.array(texts, np.str_)
        if any(text.endswith("\0") for text in texts):
            raise ParameterError("user ids must not end in NUL, which NumPy drops, but one does. Use export.parquet.")
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


def _schema(exported: "Exported") -> pa.Schema:
    fields = {
        "user": pa.string() if exported.sketches.textual else pa.int64(),
        "point": list_of(pa.float32(), exported.dimension),
    }
    if exported.denoiser is None:
        fields["excess"] = pa.float64()
    nullable = [pa.field(name, kind, nullable=name != "user") for name, kind in fields.items()]
    return pa.schema(nullable, metadata={METADATA: exported.about_json})


def _record(batch: "PointBatch", schema: pa.Schema) -> pa.RecordBatch:
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
    return as_user_column(users, user_type_of(users))


P = ParamSpec("P")
R = TypeVar("R")


class Exports:
    """``release.export``: people as points, for other tools.

    Points are float32, centered where the family needs it. Squared distances of two of them, less the *excess* of both
    people, are the estimates of :meth:`Release.distance`; less that of the one person if the other point is a vector
    of one's own. Its average is the bias, which is the same for everybody. With ``denoise=True`` points are denoised,
    and have as few coordinates as are kept, to cluster by: their distances estimate nothing, and leave out what
    :meth:`Release.neighbors` counts of people outside of these directions.
    Noisy distances have no points, and are refused.
    """

    def __init__(self, release: "Release") -> None:
        self._release = release

    def numpy(self, *, denoise: bool = False) -> "Points":
        """Return everybody's point, float32 (users, dimension), in the order of ``users``.

        Those of people with a saturated number, of whom nothing is known, are NaN.
        """
        return as_numpy(self._exported(denoise))

    def pandas(self, *, denoise: bool = False) -> Any:
        """Return everybody's point as a data frame: a row per user, columns x0, x1, …; NaN as of :meth:`numpy`.

        ``frame.attrs["dimly"]`` says what it is, as a dictionary.
        """
        return as_pandas(self._exported(denoise))

    def arrow(self, *, denoise: bool = False) -> "pa.Table":
        """Return everybody as an Arrow table of ``user``, ``point``, a list of one length, and ``excess``.

        The latter two are missing for somebody with a saturated number; there is no excess of denoised points. The
        schema's metadata says what the table is, as JSON under "dimly".
        """
        return as_arrow(self._exported(denoise))

    def parquet(
        self, path: str | Path, *, denoise: bool = False, overwrite: bool = False, progress: OnProgress | None = None
    ) -> "AboutExport":
        """Write the table of :meth:`arrow` to a Parquet file, in parts; return what it says of itself.

        Raises
        ------
        ParameterError
            If the file exists and ``overwrite`` is not said, or its folder does not.
        """
        return write_parquet(self._exported(denoise), path, overwrite=overwrite, progress=progress)

    def npz(
        self, path: str | Path, *, denoise: bool = False, overwrite: bool = False, progress: OnProgress | None = None
    ) -> "AboutExport":
        """Write ``user``, ``point``, ``excess`` and ``about``, which is JSON, for ``numpy.load``; return the latter.

        Raises
        ------
        ParameterError
            As of :meth:`parquet`; also if a user id ends in NUL, which NumPy cannot hold.
        """
        return write_npz(self._exported(denoise), path, overwrite=overwrite, progress=progress)

    def faiss(
        self,
        path: str | Path,
        *,
        index: FaissIndex = "flat",
        denoise: bool = False,
        overwrite: bool = False,
        progress: OnProgress | None = None,
    ) -> "AboutExport":
        """Write an index for FAISS (``dimly[search]``), and beside it who is who; return what the latter says.

        FAISS numbers people as they stand in the release, from 0. ``path.users.parquet`` holds ``user`` and ``excess``
        in that order, also of people with a saturated number, who are not in the index.

        Parameters
        ----------
        path : str or Path
        index : {"flat", "hnsw"}
            Exact, or a graph that is searched faster and misses some. Either is built in memory.
        denoise, overwrite, progress
            As of :meth:`parquet`.

        Raises
        ------
        ParameterError
            If a file exists and ``overwrite`` is not said, or the folder does not.
        MissingExtraError
            If FAISS is not there.
        """
        return write_faiss(self._exported(denoise), path, index=index, overwrite=overwrite, progress=progress)

    def pgvector(
        self,
        dsn: str,
        *,
        table: str,
        index: "PostgresIndex" = "auto",
        column: "Column" = "vector",
        denoise: bool = False,
        overwrite: bool = False,
        progress: OnProgress | None = None,
    ) -> "AboutExport":
        """Write everybody's point to a table of PostgreSQL with pgvector (``dimly[postgres]``); return what it says.

        ``table`` has the columns ``user_id``, ``point`` and ``excess``, as of :meth:`arrow`; ``table_about`` has one
        row, that tells what the points are. Both are made in one transaction. Queries: docs/exports.md.

        Parameters
        ----------
        dsn : str
            Connection string of libpq, for a role that may make tables; "" connects as the environment says.
        table : str
            New, or of an earlier export if ``overwrite``; with its schema or without.
        index : {"auto", "flat", "hnsw"}
            "auto": HNSW if pgvector can, else none. It takes up to 2,000 coordinates as they are and up to 4,000 in
            half precision; "flat" is no index, so that every search is exact.
        column : {"vector", "halfvec"}
            Single precision or half, up to 16,000 coordinates. Half takes half the room, and its distances are
            rounded.
        denoise, overwrite, progress
            As of :meth:`parquet`.

        Raises
        ------
        ParameterError
            If the table exists and is not to be replaced, is not ours to replace, or cannot hold the points.
        MissingExtraError
            If the packages are not there.
        DataError
            If a user id holds what PostgreSQL cannot.
        DimlyError
            If the server refuses; nothing is then changed.
        """
        from dimly.analyst.export.postgres import write_pgvector  # noqa: PLC0415  (of this one alone)

        return write_pgvector(
            self._exported(denoise),
            dsn,
            table=table,
            index=index,
            column=column,
            overwrite=overwrite,
            progress=progress,
        )

    def _exported(self, denoise: bool) -> "Exported":
        return self._release._exported(denoise)


class Alias(Generic[P, R]):
    """A method of releases that passes on to one of their :class:`Exports`: its name before these were grouped."""

    def __init__(self, method: Callable[Concatenate[Exports, P], R]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, release: "Release | None", _: object = None) -> Callable[P, R]:
        # Of the class itself, for those who read its documentation, the method as it is.
        return cast("Callable[P, R]", self._method if release is None else partial(self._method, release.export))
