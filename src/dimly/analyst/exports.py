"""A release in other tools: what :class:`~dimly.analyst.release.Release` can be turned into."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dimly.analyst.coordinates import Points
from dimly.analyst.denoising import Denoiser
from dimly.analyst.export_faiss import FaissIndex, write_faiss
from dimly.analyst.export_frames import as_arrow, as_numpy, as_pandas, write_npz, write_parquet
from dimly.analyst.export_points import About, Exported
from dimly.analyst.export_postgres import Column, PostgresIndex, write_pgvector
from dimly.analyst.neighbors import Progress
from dimly.analyst.selection import Published, Who

if TYPE_CHECKING:
    import pyarrow as pa


class Exports:
    """People as points, for other tools. Inherited by releases.

    Points are float32, centered where the family needs it. Squared distances of two of them, less the *excess* of both
    people, are the estimates of :meth:`Release.distance`; less that of the one person if the other point is a vector
    of one's own. Its average is the bias, which is the same for everybody. With ``denoise=True`` points are denoised,
    and have as few coordinates as are kept, to cluster by: their distances estimate nothing, and leave out what
    :meth:`Release.neighbors` counts of people outside of these directions.
    Noisy distances have no points, and are refused.
    """

    _sketches: Published

    @cached_property
    def denoiser(self) -> Denoiser:
        """The map that shrinks noise; fitted to the whole release when it is first asked for."""
        return Denoiser.of(self._sketches)

    def point(self, who: Who, *, denoise: bool = False) -> Points:
        """Return the point of a user, NaN if nothing is known of him, or of a vector of one's own: to search by."""
        return self._exported(denoise).point(who)

    def to_numpy(self, *, denoise: bool = False) -> Points:
        """Return everybody's point, float32 (users, dimension), in the order of ``users``.

        Those of people with a saturated number, of whom nothing is known, are NaN.
        """
        return as_numpy(self._exported(denoise))

    def to_pandas(self, *, denoise: bool = False) -> Any:
        """Return everybody's point as a data frame: a row per user, columns x0, x1, …; NaN as of :meth:`to_numpy`.

        ``frame.attrs["dimly"]`` says what it is, as a dictionary.
        """
        return as_pandas(self._exported(denoise))

    def to_arrow(self, *, denoise: bool = False) -> "pa.Table":
        """Return everybody as an Arrow table of ``user``, ``point``, a list of one length, and ``excess``.

        The latter two are missing for somebody with a saturated number; there is no excess of denoised points. The
        schema's metadata says what the table is, as JSON under "dimly".
        """
        return as_arrow(self._exported(denoise))

    def to_parquet(
        self, path: str | Path, *, denoise: bool = False, overwrite: bool = False, progress: Progress | None = None
    ) -> About:
        """Write the table of :meth:`to_arrow` to a Parquet file, in parts; return what it says of itself.

        Raises
        ------
        ParameterError
            If the file exists and ``overwrite`` is not said, or its folder does not.
        """
        return write_parquet(self._exported(denoise), path, overwrite=overwrite, progress=progress)

    def to_npz(
        self, path: str | Path, *, denoise: bool = False, overwrite: bool = False, progress: Progress | None = None
    ) -> About:
        """Write ``user``, ``point``, ``excess`` and ``about``, which is JSON, for ``numpy.load``; return the latter.

        Raises
        ------
        ParameterError
            As of :meth:`to_parquet`; also if a user id ends in NUL, which NumPy cannot hold.
        """
        return write_npz(self._exported(denoise), path, overwrite=overwrite, progress=progress)

    def to_faiss(
        self,
        path: str | Path,
        *,
        index: FaissIndex = "flat",
        denoise: bool = False,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> About:
        """Write an index for FAISS (``dimly[search]``), and beside it who is who; return what the latter says.

        FAISS numbers people as they stand in the release, from 0. ``path.users.parquet`` holds ``user`` and ``excess``
        in that order, also of people with a saturated number, who are not in the index.

        Parameters
        ----------
        path : str or Path
        index : {"flat", "hnsw"}
            Exact, or a graph that is searched faster and misses some. Either is built in memory.
        denoise, overwrite, progress
            As of :meth:`to_parquet`.

        Raises
        ------
        ParameterError
            If a file exists and ``overwrite`` is not said, or the folder does not.
        MissingExtraError
            If FAISS is not there.
        """
        return write_faiss(self._exported(denoise), path, index=index, overwrite=overwrite, progress=progress)

    def to_pgvector(
        self,
        dsn: str,
        *,
        table: str,
        index: PostgresIndex = "auto",
        column: Column = "vector",
        denoise: bool = False,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> About:
        """Write everybody's point to a table of PostgreSQL with pgvector (``dimly[postgres]``); return what it says.

        ``table`` has the columns ``user_id``, ``point`` and ``excess``, as of :meth:`to_arrow`; ``table_about`` has one
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
            As of :meth:`to_parquet`.

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
        return write_pgvector(
            self._exported(denoise),
            dsn,
            table=table,
            index=index,
            column=column,
            overwrite=overwrite,
            progress=progress,
        )

    def _exported(self, denoise: bool) -> Exported:
        return Exported.of(self._sketches, self.denoiser if denoise else None)
