"""``Joined``: a release along directions beside ordinary sketches, to rank and group the same people.

Their distances differ in kind and are never averaged. But both tell who is like whom. Everybody's points in all of the
releases stand side by side, each divided by the deviation of its noise, so that what is seen more clearly counts more;
what goes together in these columns is denoised at once, as in a single release. So numbers along directions help to
tell signal from noise in an ordinary sketch, and the other way round.

Segments are groups of these points. Neighbors are ranked by the part that belongs to the ordinary sketches, as denoised
with the help of all: it is in the units of full distances, whatever the scale of the directions.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, Literal, Never

import numpy as np
from numpy.typing import NDArray

from dimly.analyst.neighbors.query import smallest
from dimly.analyst.pairs import User, lost_rows, positions_of
from dimly.analyst.release import Release
from dimly.analyst.segments.segments import Activity, Count, Segments, segments_of
from dimly.analyst.structure.coordinates import JoinedCoordinates, JoinedPlan, Points, blocks
from dimly.analyst.structure.denoise import Denoiser
from dimly.analyst.structure.parallel_analysis import Structure
from dimly.errors import ParameterError
from dimly.progress import OnProgress

_MOST_BYTES = 2 << 30
RankMetric = Literal["euclidean", "cosine"]


@dataclass(frozen=True, slots=True, eq=False)
class SideBySide:
    """Published numbers of several releases, one row a person who is in all of them. Offers what ``Sketches`` does."""

    plan: Any
    users: NDArray[Any]
    values: NDArray[Any]

    def __len__(self) -> int:
        return len(self.users)

    @property
    def directions(self) -> None:
        """None: not all of the numbers are along directions."""
        return


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """People in the order of how near they are, the nearest first. It holds no distances: these would differ in kind.

    Attributes
    ----------
    users : ndarray
        Ids. Ask each of the releases for distances to them: ``release.distances(who, ranking.users)``.
    metric : {"euclidean", "cosine"}
    """

    users: NDArray[Any]
    metric: RankMetric

    def __len__(self) -> int:
        return len(self.users)


class Joined:
    """Neighbors and segments by releases of different kinds. Made by :func:`~dimly.analyst.combine.combine`.

    The people are those who are in all of the releases; their numbers are held in memory.

    Attributes
    ----------
    releases : tuple of Release
    """

    def __init__(self, releases: tuple[Release, ...]) -> None:
        self.releases = releases
        for release in releases:
            if not release.plan.places_people:
                raise ParameterError("releases of different kinds must be of points: noisy distances give none.")

    @property
    def words(self) -> str:
        """What they are good for together, in a sentence or two."""
        kinds = " and ".join(release.plan.mechanism for release in self.releases)
        found = (
            f"{kinds} together rank people and find segments. Their distances differ in kind and are never averaged: "
            "ask each release for its own."
        )
        return found if self.private else f"{found} NOT PRIVATE: at least one of them was made for tests only."

    @property
    def private(self) -> bool:
        """Whether all noise came from fresh secret keystreams, as far as the publisher's software says."""
        return all(release.private for release in self.releases)

    @property
    def users(self) -> NDArray[Any]:
        """Ids of the people who are in all of the releases, in ascending order."""
        return self._sketches.users

    @property
    def plan(self) -> Any:
        """The plans, side by side."""
        return self._sketches.plan

    def __len__(self) -> int:
        return len(self._sketches)

    def __contains__(self, user: object) -> bool:
        return all(user in release for release in self.releases)

    def __repr__(self) -> str:
        kinds = ", ".join(release.plan.mechanism for release in self.releases)
        return f"<Joined releases, to rank and to group: {kinds}{'' if self.private else ', NOT PRIVATE'}>"

    def distance(self, *_: Any, **__: Any) -> Never:
        """Refuse: distances of different kinds are never averaged.

        Raises
        ------
        ParameterError
            Always.
        """
        raise ParameterError(
            "distances along directions are of another kind than others, and are never averaged with them. Ask each of "
            "the releases for its own, or this for neighbors and segments."
        )

    distances = distance

    @cached_property
    def denoiser(self) -> Denoiser:
        """The map that shrinks the noise of all releases at once."""
        return Denoiser.of(self._sketches)  # type: ignore[arg-type]

    @cached_property
    def structure(self) -> Structure:
        """The structure of the release that shows most of it: each is judged by itself, as its kind needs."""
        return max((release.structure for release in self.releases), key=lambda found: found.components)

    def segments(
        self,
        count: Count = "auto",
        *,
        denoise: bool = True,
        activity: Activity = "auto",
        progress: OnProgress | None = None,
    ) -> Segments:
        """Return the people in groups; see :meth:`Release.segments`. Distances between segments are refused."""
        return segments_of(self, count, denoise=denoise, activity=activity, progress=progress)  # type: ignore[arg-type]

    def neighbors(self, who: User, n: int = 10, *, metric: RankMetric = "euclidean") -> Ranking:
        """Return the n nearest people of a user, who is not among them, without distances.

        Parameters
        ----------
        who : user
        n : int, default=10
            From 1 to the number of other people.
        metric : {"euclidean", "cosine"}
            As guessed for the full vectors of people.

        Raises
        ------
        ParameterError
            If n or the metric cannot be, or the user is not in all of the releases.
        """
        if metric not in ("euclidean", "cosine"):
            raise ParameterError(f"metric must be 'euclidean' or 'cosine', got {metric!r}.")
        if type(n) is not int or not 1 <= n <= len(self) - 1:
            raise ParameterError(f"n must be an integer from 1 to the {len(self) - 1} other people, got {n!r}.")
        if np.ndim(who) or who not in self:
            raise ParameterError("who must be one user who is in all of the releases, but is not.")
        position = int(np.flatnonzero(self.users == who)[0])
        points, rest = self._ranked
        if metric == "cosine":
            lengths = np.linalg.norm(points, axis=1)
            keys = -(points @ points[position]) / np.maximum(lengths * lengths[position], 1e-30)
        else:
            keys = ((points - points[position]) ** 2).sum(axis=1) + rest
        keys = np.where(self._lost, np.inf, keys).astype(np.float64)
        keys[position] = -np.inf
        return Ranking(self.users[smallest(keys, n + 1)[1:]], metric)

    @cached_property
    def _sketches(self) -> SideBySide:
        users = common_users(self.releases)
        values = [release.values for release in self.releases]
        held = np.result_type(*(np.int16 if part.dtype == np.uint8 else part.dtype for part in values))
        size = len(users) * held.itemsize * sum(part.shape[1] for part in values)
        if size > _MOST_BYTES:
            raise ParameterError(
                f"releases of different kinds must take at most {_MOST_BYTES >> 30} GB side by side, got {size >> 30}. "
                "Ask each of them alone."
            )
        limits, parts = np.iinfo(held), []
        for release in self.releases:
            rows = release._sketches.take(positions_of(release._sketches, users))
            part = rows.astype(held)
            part[lost_rows(rows), 0] = limits.max  # still saturated, in a wider type
            parts.append(part)
        plan = JoinedPlan(tuple(release.plan for release in self.releases))
        return SideBySide(plan, users, np.concatenate(parts, axis=1))

    @cached_property
    def _lost(self) -> NDArray[np.bool_]:
        return lost_rows(self._sketches.values)

    @cached_property
    def _ranked(self) -> tuple[Points, Points]:
        """Everybody's place for ranking, and what is added to distances to them: see ``worth_of_rest``."""
        denoiser, coordinates = self.denoiser, self.denoiser.coordinates
        assert isinstance(coordinates, JoinedCoordinates)  # noqa: S101 - what a joined plan has
        ordinary = [release.plan.measures_attributes for release in self.releases]
        # In the units of full distances; where all are along directions there are none, and noise is the unit.
        scales = np.concatenate(
            [
                np.full(part.dimension, unit if kind else 0.0) if any(ordinary) else np.ones(part.dimension)
                for part, unit, kind in zip(coordinates.parts, coordinates.units, ordinary, strict=True)
            ]
        )
        scaled = denoiser.basis * scales[:, None].astype(np.float32)
        mean = denoiser.mean * scales.astype(np.float32)
        # As few coordinates as there are directions, and one for the average person: the same products and distances.
        turn = np.linalg.qr(np.column_stack([scaled, mean]))[0]
        matrix, origin = denoiser.map * 1.0 @ (scaled.T @ turn), mean @ turn
        points, rest = [], []
        share = max([r.denoiser.rest for r, kind in zip(self.releases, ordinary, strict=True) if kind], default=0.0)
        for block in blocks(self._sketches):  # type: ignore[arg-type]
            apart = block.points - denoiser.mean
            away = apart @ matrix
            points.append(away + origin)
            own = ((apart * scales.astype(np.float32)) ** 2).sum(axis=1) - (away**2).sum(axis=1)
            rest.append(np.maximum(share * own, 0.0))
        return np.concatenate(points).astype(np.float32), np.concatenate(rest).astype(np.float32)


def common_users(releases: Iterable[Any]) -> NDArray[Any]:
    """Return the ids of the people who are in all of some releases, in ascending order.

    Raises
    ------
    ParameterError
        If nobody is.
    """
    first, *others = (release.users for release in releases)
    common: NDArray[Any] = reduce(lambda a, b: np.intersect1d(a, b, assume_unique=True), others, first)
    if not len(common):
        raise ParameterError(
            "releases must be of the same people, but nobody is in all of them. Combine releases whose people have the "
            "same ids: pseudonyms by one key, or none."
        )
    return common
