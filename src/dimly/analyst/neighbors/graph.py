"""The nearest people of everybody: all pairs compared in tiles on all cores.

Each pair is compared once, and tells both sides. A tile gives single-precision keys, so that a few more than are asked
for are kept of each person; their exact keys then decide, and ties go to the smaller id.
"""

import math
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dimly.analyst.estimate import Estimate
from dimly.analyst.neighbors import kernels
from dimly.analyst.neighbors.expected_precision import expected_true
from dimly.analyst.neighbors.query import (
    Neighbors,
    Positions,
    check,
    estimate,
    own_threads,
    smallest,
    space_of,
)
from dimly.analyst.neighbors.spaces import DenoisedSpace, Metric, SketchSpace, Space
from dimly.analyst.pairs import ChosenSide, Published, at_limit, lost_rows
from dimly.errors import ParameterError
from dimly.progress import OnProgress
from dimly.release.reader import THREADS, in_turn

if TYPE_CHECKING:
    from dimly.analyst.release import Release


Engine = Literal["auto", "tiles", "faiss"]
"""Three names for our tiles: what FAISS's flat index finds, in a sixth of its time."""

_SPARE = 8
"""People kept of each beyond those asked for: rounding may have put the wrong one last."""
_TILE = 1024
_ASKED = 12  # people whose expected number of true neighbors is averaged
_PAIRS = 1 << 18  # pairs that are worked on at a time
_BLOCK = 1 << 20  # published numbers that are turned into rows at a time


def graph_of(
    release: "Release", n: int, *, metric: Metric, denoise: bool, engine: Engine, progress: OnProgress | None
) -> Neighbors:
    """Return the nearest people of everybody; see :meth:`Release.neighbor_graph`."""
    sketches = release._sketches
    if engine not in get_args(Engine):
        raise ParameterError(f"engine must be 'auto', 'tiles' or 'faiss', got {engine!r}.")
    check(release, n, metric, others=max(0, len(sketches) - 1))
    space = space_of(release, metric, denoise=denoise)
    found = _by_distances(sketches, n, progress) if space is None else _by_comparing(sketches, space, n, progress)

    def expected() -> float:
        asked = np.unique(np.linspace(0, len(sketches) - 1, _ASKED).astype(np.int64))
        people = (ChosenSide(sketches, asked[i : i + 1]) for i in range(len(asked)))
        told = [expected_true(release, one, n, metric=metric, space=space) for one in people]
        known = [one for one in told if not math.isnan(one)]
        return sum(known) / len(known) if known else math.nan

    estimates, others = _estimates(release, found, metric).possible, len(sketches) - 1
    denoised = isinstance(space, DenoisedSpace)
    return Neighbors(_named(sketches, found), estimates, metric, denoised, _expect=expected, _others=others)


def _by_comparing(sketches: Published, space: Space, n: int, progress: OnProgress | None) -> Positions:
    lost = lost_rows(sketches.values)
    known, unknown = np.flatnonzero(~lost), np.flatnonzero(lost)
    rows = _rows(space, sketches.values if not len(unknown) else sketches.values[known])
    most = min(n + _SPARE, max(0, len(known) - 1))
    with own_threads():
        near = _by_tiles(space, rows, most, progress) if most else np.empty((len(known), 0), np.int64)
        near = _settled(space, rows, near)[:, :n]
    if not len(unknown):
        return near
    # People of whom nothing is known come after all others, and have nobody near.
    found = np.empty((len(sketches), n), np.int64)
    found[known, : near.shape[1]] = known[near]
    found[known, near.shape[1] :] = unknown[: n - near.shape[1]]
    first = np.arange(n + 1)
    for position in unknown:
        found[position] = first[first != position][:n]
    return found


def _rows(space: Space, values: NDArray[Any]) -> NDArray[Any]:
    if isinstance(space, SketchSpace):
        return values
    step = max(1, _BLOCK // values.shape[1])
    with own_threads():
        blocks = in_turn(lambda start: space.rows(values[start : start + step]), range(0, len(values), step))
        return np.concatenate(list(blocks))


def _by_tiles(space: Space, rows: NDArray[Any], most: int, progress: OnProgress | None) -> Positions:
    """Return the nearest of everybody, unordered, by comparing blocks of people with each other."""
    n = len(rows)
    step = min(_TILE, max(64, -(-n // (4 * THREADS))))
    n_blocks = -(-n // step)
    keys, names = np.full((n, most), np.inf, np.float32), np.full((n, most), n, np.int64)
    locks = [Lock() for _ in range(n_blocks)]
    apart = 0

    def compare(block: int) -> None:
        # Blocks that lie as far apart around a circle: those at work at the same time are mostly others.
        first, second = sorted((block, (block + apart) % n_blocks))
        tile = space.tile(*(rows[i * step : (i + 1) * step] for i in (first, second)))
        with locks[first]:
            if first == second:
                kernels.offer(tile, first * step, second * step, keys, names)
                return
            with locks[second]:
                kernels.offer(tile, first * step, second * step, keys, names)

    rounds = n_blocks // 2 + 1
    for apart in range(rounds):
        opposite = 2 * apart == n_blocks and apart > 0  # each pair of blocks would come twice
        for _ in in_turn(compare, range(n_blocks // 2 if opposite else n_blocks)):
            pass
        if progress is not None:
            progress(n * (apart + 1) // rounds, n)
    return names


def _settled(space: Space, rows: NDArray[Any], near: Positions) -> Positions:
    """Return the nearest in order of their exact keys, and then of their ids."""
    n, most = near.shape
    ordered = np.empty_like(near)
    step = max(1, _PAIRS // max(most, 1))

    def settle(start: int) -> None:
        names = np.sort(near[start : start + step], axis=1)
        first = np.repeat(np.arange(start, start + len(names)), most)
        keys = space.keys_of_pairs(rows, first, names.reshape(-1)).reshape(names.shape)
        ordered[start : start + step] = np.take_along_axis(names, np.argsort(keys, axis=1, kind="stable"), axis=1)

    for _ in in_turn(settle, range(0, n, step)):
        pass
    return ordered


def _by_distances(sketches: Published, n: int, progress: OnProgress | None) -> Positions:
    """Return the nearest of everybody by noisy distances."""
    count = len(sketches)
    everyone = np.arange(count)
    step = max(1, _PAIRS // count)
    found = np.empty((count, n), np.int64)
    for start in range(0, count, step):
        rows = everyone[start : start + step]
        steps = sketches.pairs(np.repeat(rows, count), np.tile(everyone, len(rows))).reshape(-1, count)
        keys = np.where(at_limit(steps), np.inf, steps.astype(np.float64))
        for row, key in zip(rows, keys, strict=True):
            key[row] = -np.inf
            found[row] = smallest(key, n + 1)[1:]
        if progress is not None:
            progress(start + len(rows), count)
    return found


def _named(sketches: Published, found: Positions) -> NDArray[Any]:
    return sketches.named(found.reshape(-1)).reshape(found.shape)


def _estimates(release: "Release", found: Positions, metric: Metric) -> "Estimate[NDArray[np.float64]]":
    sketches, ask = release._sketches, estimate(release, metric)
    n, most = found.shape
    measure = ask(ChosenSide(sketches, found[:0, 0]), ChosenSide(sketches, found[:0, 0])).measure
    whole = Estimate(*(np.empty((n, most)) for _ in range(4)), measure=measure)
    step = max(1, _PAIRS // most)

    def fill(start: int) -> None:
        names = found[start : start + step]
        rows = np.repeat(np.arange(start, start + len(names)), most)
        part = ask(ChosenSide(sketches, rows), ChosenSide(sketches, names.reshape(-1)))
        for field in ("value", "stderr", "low", "high"):
            getattr(whole, field)[start : start + step] = getattr(part, field).reshape(names.shape)

    for _ in in_turn(fill, range(0, n, step)):
        pass
    return whole
