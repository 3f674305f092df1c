"""Whom a report looks at: some people, evenly spaced, numbered anew, so that it holds no id."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimly.analyst.pairs import lost_rows
from dimly.analyst.release import Release
from dimly.analyst.structure.coordinates import Coordinates
from dimly.analyst.structure.denoise import WIDEST
from dimly.curator.options import Progress
from dimly.release.reader import StoredSketches
from dimly.release.sketches import Sketches

_MOST = 1 << 16  # people
_WORK = 1 << 36  # multiplications to denoise them: some ten seconds
_FEWEST = 2000  # people, however many numbers each has
_DIRECTIONS = 480  # times a coordinate is multiplied where directions are searched for instead of computed
_RUNS = 256  # pieces of a release that are read, evenly spaced: so reading is bounded, whatever its size
_MOST_COMPARED = 200  # people whose distances are looked at, where these are all that is published


class ShownPeople(NamedTuple):
    """Some people of a release, in memory."""

    release: Release
    """Their numbers; ids are 0, 1, 2 …"""
    looked_at: int
    """How many people were read."""
    saturated: int
    """How many of those are left out because of a saturated number."""
    positions: NDArray[np.int64]
    """Where those who are left are in the release."""

    @property
    def places_people(self) -> bool:
        """Whether people have places, or only distances."""
        return self.release.plan.places_people


def sample_of(sketches: StoredSketches, *, progress: Progress) -> ShownPeople:
    """Return people of a release: all of up to 65,536, else stretches of them, evenly spaced.

    Which ones depends on the number of people and on the plan only. Of noisy distances all those between 200 people
    at most are read.
    """
    plan = sketches.plan
    if not plan.places_people:
        positions = _evenly(len(sketches), _MOST_COMPARED)
        rows, columns = np.triu_indices(len(positions), 1)
        values = sketches.pairs(positions[rows], positions[columns])
        people = Sketches(plan, np.arange(len(positions)), values, private=sketches.private)
        return ShownPeople(Release(people), len(positions), 0, positions)
    dimension = Coordinates.of(plan).dimension
    most = min(_MOST, max(_FEWEST, _WORK // (dimension * (dimension if dimension <= WIDEST else _DIRECTIONS))))
    positions = _evenly(len(sketches), most)
    progress.start(len(positions))
    read = []
    for piece in np.array_split(positions, min(32, len(positions))):
        read.append(sketches.take(piece))
        progress.advance(len(piece))
    rows = np.concatenate(read)
    lost = lost_rows(rows)
    known: NDArray[Any] = rows[~lost]
    people = Sketches(plan, np.arange(len(known)), known, private=sketches.private)
    return ShownPeople(Release(people), len(rows), int(lost.sum()), positions[~lost])


def _evenly(n: int, most: int) -> NDArray[np.int64]:
    """Return positions of at most ``most`` of ``n`` people: all, or stretches of the same length, evenly spaced."""
    if n <= most:
        return np.arange(n)
    runs = min(_RUNS, most)
    length = most // runs
    starts = np.arange(runs) * n // runs
    positions: NDArray[np.int64] = (starts[:, None] + np.arange(length)).reshape(-1)
    return positions
