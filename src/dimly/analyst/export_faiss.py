"""Points as a FAISS index, and beside it who is who: an index knows its people by numbers only."""

from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from dimly.analyst.export_files import new_file
from dimly.analyst.export_frames import users_writer
from dimly.analyst.export_points import About, Exported
from dimly.analyst.neighbors import Progress
from dimly.errors import DimlyError, MissingExtraError, ParameterError

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
    exported: Exported, path: str | Path, *, index: FaissIndex, overwrite: bool, progress: Progress | None
) -> About:
    """Write an index and the ids of its people; see :meth:`Release.to_faiss`."""
    if index not in get_args(FaissIndex):
        raise ParameterError(f"index must be 'flat' or 'hnsw', got {index!r}.")
    try:
        import faiss  # type: ignore[import-not-found, import-untyped, unused-ignore]  # noqa: PLC0415  (an extra)
    except ImportError:
        raise MissingExtraError("to_faiss needs FAISS. Install dimly[search].") from None
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
