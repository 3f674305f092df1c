"""``Exported``: everybody's point in batches, and the facts needed to read distances off them.

Points as they are published have squared distances that are too large by 2·bias on average, whatever the two people;
so any tool that ranks by Euclidean distance ranks as :meth:`Release.neighbors` does with ``denoise=False``, and
subtracting a constant makes unbiased estimates. Subtracting the excess of both people instead makes those of
:meth:`Release.distance`: it is the bias, but for ``counting`` on bits, which knows more of each person's norm than
the point tells. Denoised points are to cluster by: their distances estimate nothing, and leave out what of people lies
outside of the directions that are kept, which :meth:`Release.neighbors` counts where it ranks by them.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from dimly.analyst.estimate import Vector
from dimly.analyst.neighbors.spaces import sketch_norms
from dimly.analyst.pairs import Published, SketchReader, chosen, reader_of
from dimly.analyst.structure.coordinates import Coordinates, Points, known
from dimly.analyst.structure.denoise import Denoiser
from dimly.errors import ParameterError
from dimly.mechanisms.guarantee import guarantee
from dimly.progress import OnProgress
from dimly.release.reader import StoredSketches

_BLOCK = 1 << 21  # coordinates of a batch: 8 MB


class AboutExport(TypedDict):
    """What an export says of itself. Nothing in it depends on more than the release."""

    release: str | None
    """Id of the release; None of one that was never written."""
    plan_digest: str
    mechanism: str
    epsilon: float
    delta: float
    unit: str
    measure: str
    """What squared distances of the points estimate."""
    private: bool
    guarantee: str
    people: int
    dimension: int
    denoised: bool
    bias: float | None
    """Average excess: subtract it twice from squared distances, or once if one side is a vector of one's own, which
    has no noise; None if denoised."""


class PointBatch(NamedTuple):
    """Consecutive people."""

    start: int
    """Place of the first in the release."""
    users: NDArray[Any]
    points: Points
    known: NDArray[np.bool_]
    """Who has no saturated number: of the others nothing is known, and their points are NaN."""
    excess: NDArray[np.float64] | None
    """By how much everybody's part makes squared distances too large, NaN if not known; None if denoised."""


@dataclass(frozen=True, slots=True, eq=False)
class Exported:
    """A release as points. Make one with :meth:`of`.

    Attributes
    ----------
    sketches : Sketches or StoredSketches
    coordinates : Coordinates
    denoiser : Denoiser, optional
        If points are to be denoised; they then have as many coordinates as it keeps directions.
    """

    sketches: Published
    coordinates: Coordinates
    denoiser: Denoiser | None

    @classmethod
    def of(cls, sketches: Published, denoiser: Denoiser | None = None) -> "Exported":
        """Return a release as it is exported.

        Raises
        ------
        ParameterError
            For noisy distances, which place nobody anywhere; or if denoising would leave nothing.
        """
        coordinates = Coordinates.of(sketches.plan)
        if denoiser is not None and not denoiser.rank:
            raise ParameterError("denoise must be False here: nothing in this release rises above its noise.")
        return cls(sketches, coordinates, denoiser)

    def __len__(self) -> int:
        return len(self.sketches)

    @property
    def dimension(self) -> int:
        """Number of coordinates of a point."""
        return self.coordinates.dimension if self.denoiser is None else self.denoiser.rank

    @property
    def about(self) -> AboutExport:
        """What must be known to use the points."""
        plan, sketches = self.coordinates.plan, self.sketches
        return {
            "release": sketches.manifest.release if isinstance(sketches, StoredSketches) else None,
            "plan_digest": plan.digest,
            "mechanism": plan.mechanism,
            "epsilon": plan.cost.epsilon,
            "delta": plan.cost.delta,
            "unit": plan.unit,
            "measure": plan.measured,
            "private": sketches.private,
            "guarantee": promise(sketches),
            "people": len(self),
            "dimension": self.dimension,
            "denoised": self.denoiser is not None,
            "bias": self.coordinates.bias if self.denoiser is None else None,
        }

    @property
    def about_json(self) -> str:
        """The same as one line of JSON."""
        return json.dumps(self.about, ensure_ascii=False, allow_nan=False)

    def batches(self, progress: OnProgress | None = None) -> Iterator[PointBatch]:
        """Return everybody in the order of the release, in batches of bounded size.

        ``progress`` is told of a batch once its taker is done with it.
        """
        step = max(1, _BLOCK // self.coordinates.dimension)
        done = 0
        for users, rows in self.sketches.parts():
            for start in range(0, len(users), step):
                piece = slice(start, start + step)
                inside = known(rows[piece])
                points = self._points(rows[piece], inside)
                yield PointBatch(done, users[piece], points, inside, self._excess(rows[piece], points))
                done += len(inside)
                if progress is not None:
                    progress(done, len(self))

    def point(self, who: Any) -> Points:
        """Return the point of one user, NaN if nothing is known of them, or of a vector of one's own.

        Raises
        ------
        ParameterError
            If the user is not in the release, or the vector belongs to another one.
        """
        side = chosen(self.sketches, who)
        if len(side) != 1:
            raise ParameterError(f"point takes one user or vector, got {len(side)}. Use export.numpy for all.")
        if isinstance(side.vector, Vector):
            points = self.coordinates.own(side.vector)[None, :]
            if self.denoiser is not None:
                points = self.denoiser.reduce(points, noisy=False)
        else:
            points = self._points(side.rows, known(side.rows))
        point: Points = points[0]
        return point

    def _points(self, rows: NDArray[Any], inside: NDArray[np.bool_]) -> Points:
        points = self.coordinates.points(rows)
        if self.denoiser is not None:
            points = self.denoiser.reduce(points)
        points[~inside] = np.nan
        return points

    def _excess(self, rows: NDArray[Any], points: Points) -> NDArray[np.float64] | None:
        """Return squared norms of points less the unbiased ones of people; rows of the former may be NaN."""
        if self.denoiser is not None:
            return None
        reader = reader_of(self.coordinates.plan)
        if isinstance(reader, SketchReader) and reader.error.centered:
            squares = np.einsum("nk,nk->n", points, points, dtype=np.float64)
            return np.asarray(squares - sketch_norms(reader, rows))
        return np.where(np.isnan(points[:, 0]), np.nan, self.coordinates.bias)


def promise(sketches: Published) -> str:
    """Return what a release promises, and what it does not, in words."""
    if isinstance(sketches, StoredSketches):
        return sketches.manifest.promise
    return guarantee(
        sketches.plan,
        len(sketches),
        private=sketches.private,
        roster=sketches.roster,
        pseudonyms=sketches.pseudonyms,
        volunteers=sketches.volunteers,
    )
