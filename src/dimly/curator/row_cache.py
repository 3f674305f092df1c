"""Rows of the projection for attributes that are known by number, in bounded memory."""

from collections.abc import Sequence
from typing import Any, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from dimly.errors import ParameterError
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.rows import IntArray, Rows

Integers = NDArray[np.integer[Any]]


class Texts(Protocol):
    """Canonical texts of attributes by number, wherever they are kept."""

    def __len__(self) -> int: ...

    def between(self, start: int, stop: int) -> list[str]:
        """Return the texts of the attributes ``start`` … ``stop`` − 1."""

    def at(self, codes: IntArray) -> list[str]:
        """Return the texts of these attributes, whose numbers rise."""


class ListedTexts:
    """Texts of attributes in a list, such as a closed vocabulary."""

    def __init__(self, attributes: Sequence[str]) -> None:
        self._attributes = attributes

    def __len__(self) -> int:
        return len(self._attributes)

    def between(self, start: int, stop: int) -> list[str]:
        """Return the texts of the attributes ``start`` … ``stop`` − 1."""
        return list(self._attributes[start:stop])

    def at(self, codes: IntArray) -> list[str]:
        """Return the texts of these attributes."""
        return [self._attributes[code] for code in codes.tolist()]


class RowCache:
    """Projects people whose attributes are numbered; a row of P is derived once if there is room to keep it.

    Numbers should fall with frequency: the first rows are kept, as many as ``memory`` holds, and those of rare
    attributes are derived again for each batch in which they occur.

    Parameters
    ----------
    plan : Plan
        One that sketches.
    texts : Texts
    memory : int
        Bytes for the rows that are kept.
    """

    def __init__(self, plan: Plan, texts: Texts, *, memory: int) -> None:
        if plan.projection is None:
            raise ParameterError(f"mechanism must be one that sketches to have rows, got {plan.mechanism!r}.")
        self.k = plan.projection.k
        self._plan = plan
        self._texts = texts
        self._capacity = max(1, memory // _row_bytes(plan))
        self._kept = plan.rows(_First(texts, min(len(texts), self._capacity)))

    def project(
        self, indptr: Integers, indices: Integers, values: Integers | None = None, *, out: IntArray | None = None
    ) -> IntArray:
        """Return the exact sketches of people in compressed sparse rows, as :meth:`~dimly.mechanisms.Rows.project`."""
        if len(self._texts) <= self._capacity:
            return self._kept.project(indptr, indices, values, out=out)
        used = slice(int(indptr[0]), int(indptr[-1]))
        indptr, indices = indptr - indptr[0], indices[used]
        values = None if values is None else values[used]
        kept = indices < len(self._kept)
        out = self._project_some(self._kept, kept, indices, (indptr, values), out)
        rare = np.unique(indices[~kept]).astype(np.int64)
        for start in range(0, len(rare), self._capacity):
            codes = rare[start : start + self._capacity]
            mask = (indices >= codes[0]) & (indices <= codes[-1])
            positions = np.searchsorted(codes, indices)
            out += self._project_some(self._plan.rows(self._texts.at(codes)), mask, positions, (indptr, values), None)
        return out

    def _project_some(
        self,
        rows: Rows,
        mask: NDArray[np.bool_],
        positions: Integers,
        people: tuple[Integers, Integers | None],
        out: IntArray | None,
    ) -> IntArray:
        indptr, values = people
        starts = np.concatenate([[0], np.cumsum(mask)])[indptr]
        return rows.project(starts, positions[mask], None if values is None else values[mask], out=out)


class _First(Sequence[str]):
    """The first ``size`` texts, fetched slice by slice."""

    def __init__(self, texts: Texts, size: int) -> None:
        self._texts = texts
        self._size = size

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        chosen = range(self._size)[index]
        if isinstance(chosen, int):
            return self._texts.between(chosen, chosen + 1)[0]
        return self._texts.between(chosen.start, max(chosen.start, chosen.stop))[:: chosen.step]


def _row_bytes(plan: Plan) -> int:
    """Return what one row takes in memory, at most."""
    part = plan.projection
    assert part is not None  # noqa: S101
    return 4 * part.k if part.matrix.record.layout == "dense" else 5 * part.blocks
