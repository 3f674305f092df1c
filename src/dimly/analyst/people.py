"""The people of a release as points, block by block: what is fitted to all of them never holds all of them."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from dimly.analyst.coordinates import Coordinates, Points
from dimly.mechanisms.error_models import CountingError, FlippedBitsError
from dimly.mechanisms.plan import Plan
from dimly.release.sketches import Sketches
from dimly.release.stored import StoredSketches

_PART = 1 << 16  # people of one part of a release in memory
_BLOCK = 1 << 22  # coordinates of a block: 16 MB
_READ = 16  # people read for each one of a sample


class Block(NamedTuple):
    """Consecutive people."""

    start: int
    """Place of the first in the release."""
    points: Points
    known: NDArray[np.bool_]
    """Who has no saturated number: of the others nothing is known, and their points are not to be used."""


def blocks(
    sketches: Sketches | StoredSketches, *, most: int | None = None, parts: Iterable[int] | None = None
) -> Iterator[Block]:
    """Return the people of a release in order, in blocks of bounded size.

    Parameters
    ----------
    sketches : Sketches or StoredSketches
        Not noisy distances, which place nobody.
    most : int, optional
        Stop reading at about this many people: whole parts of the release, evenly spaced. Which ones depends on the
        number of people only.
    parts : iterable of int, optional
        Read these parts only.
    """
    coordinates = Coordinates.of(sketches.plan)
    step = max(1, _BLOCK // coordinates.dimension)
    for part_start, rows in _parts(sketches, most, parts):
        for start in range(0, len(rows), step):
            cut = rows[start : start + step]
            yield Block(part_start + start, coordinates.points(cut), known(cut))


def sample(sketches: Sketches | StoredSketches, n: int, convert: Callable[[NDArray[Any]], Points]) -> Points:
    """Return about ``n`` people, evenly spaced, without those of whom nothing is known; all if there are fewer.

    Parameters
    ----------
    sketches : Sketches or StoredSketches
    n : int
    convert : callable
        From published rows to what is wanted of them; it is given few at a time.
    """
    most = _READ * n
    stride = max(1, min(len(sketches), most) // n)
    found = []
    for part_start, part in _parts(sketches, most):
        rows = part[-part_start % stride :: stride]
        rows = rows[known(rows)]
        step = max(1, _BLOCK // (8 * rows.shape[1]))  # a byte may hold eight coordinates
        found += [convert(rows[start : start + step]) for start in range(0, max(len(rows), 1), step)]
    return np.concatenate(found)


def coordinates_of(plan: Plan, *, widest: int | None = None) -> Callable[[NDArray[Any]], Points]:
    """Return what turns published rows into coordinates about nobody's zero: those of points, but never centered.

    Parameters
    ----------
    plan : Plan
    widest : int, optional
        Where there are more coordinates, they are added up at random signs into as many. Which ones go together is
        fixed; each goes to one place, so that what was independent stays so.
    """
    coordinates = Coordinates.of(plan)
    d = coordinates.dimension
    if isinstance(plan.error, FlippedBitsError):
        convert: Callable[[NDArray[Any]], Points] = coordinates.points
    else:
        scale = np.float32(plan.scale)

        def convert(rows: NDArray[Any]) -> Points:
            return rows.astype(np.float32) * scale

    if widest is None or d <= widest:
        return convert
    generator = np.random.default_rng(0)
    places, signs = generator.integers(widest, size=d), generator.choice([-1.0, 1.0], size=d)
    folding = scipy.sparse.csr_array((signs.astype(np.float32), (np.arange(d), places)), shape=(d, widest))
    return lambda rows: np.ascontiguousarray(convert(rows) @ folding)


def placed(people: Points, plan: Plan) -> Points:
    """Return the points of people whose coordinates are about nobody's zero."""
    if not isinstance(plan.error, CountingError):
        return people
    k = people.shape[1]
    centered: Points = people - people.mean(axis=1, keepdims=True)
    centered *= np.float32((k / (k - 1)) ** 0.5)
    return centered


def known(rows: NDArray[Any]) -> NDArray[np.bool_]:
    """Return whose published numbers all lie within the limits of their type; packed bits have none."""
    if rows.dtype == np.uint8:
        return np.ones(len(rows), np.bool_)
    limits = np.iinfo(rows.dtype)
    inside: NDArray[np.bool_] = (rows.min(axis=1) > limits.min) & (rows.max(axis=1) < limits.max)
    return inside


def _parts(
    sketches: Sketches | StoredSketches, most: int | None, chosen: Iterable[int] | None = None
) -> Iterator[tuple[int, NDArray[Any]]]:
    size = sketches.manifest.layout.users_per_part if isinstance(sketches, StoredSketches) else _PART
    n_parts = max(1, -(-len(sketches) // size))  # nobody is an empty part
    wanted = n_parts if most is None else min(n_parts, max(1, -(-most // size)))
    for index in chosen if chosen is not None else (i * n_parts // wanted for i in range(wanted)):
        start = index * size
        if isinstance(sketches, StoredSketches):
            yield start, sketches.read_values(index)
        else:
            yield start, sketches.values[start : start + size]
