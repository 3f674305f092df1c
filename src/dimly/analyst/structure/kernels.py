"""Numba kernels: bits that people share, coordinates shuffled in strata, k-means, what groups explain of people.

Kernels check nothing. They run on one core without holding the interpreter's lock.
"""

# mypy: disallow-untyped-decorators=False

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimly.analyst.neighbors.kernels import population
from dimly.compiled import compiled

Floats = NDArray[np.float64]
Keys = NDArray[np.float32]
Tiles = NDArray[np.float32]  # (tiles, attributes, people)
Labels = NDArray[np.int32]
Flags = NDArray[np.bool_]
Words = NDArray[np.uint64]
HalfWords = NDArray[np.uint32]

PEOPLE = 128
"""Of a tile: their numbers stand side by side, and are compared in vectors."""
_CENTERS = 16  # with which their products stay in a cache
_BLOCK = 32  # attributes whose people stay in a cache while they are compared with as many others


@compiled
def add_shared_bits(columns: Words, out: Floats) -> None:
    """Add how many bits each two rows share: both halves of a symmetric matrix, exact below 2⁵³."""
    n = columns.shape[0]
    for start in range(0, n, _BLOCK):
        for other in range(start, n, _BLOCK):
            for i in range(start, min(start + _BLOCK, n)):
                for j in range(max(i, other), min(other + _BLOCK, n)):
                    count = np.uint64(0)
                    for word in range(columns.shape[1]):
                        count += population(columns[i, word] & columns[j, word])
                    out[i, j] += count
                    if i != j:
                        out[j, i] += count


@compiled
def shuffle_strata(rows: Keys, words: HalfWords, stratum: int) -> None:
    """Shuffle each row within strata of columns, of which the last takes the rest, by random words of 32 bits.

    After Fisher and Yates: what NumPy's ``Generator.permuted`` does for each stratum of each row, by the same words, at
    half of its time. A number up to i takes fewer than two words on average.
    """
    n_rows, n = rows.shape
    n_strata, at = max(n // stratum, 1), 0
    masks = np.zeros(2 * stratum, np.uint32)
    for last in range(1, len(masks)):
        masks[last] = last | masks[last >> 1]
    for index in range(n_strata):
        start = index * stratum
        end = n if index == n_strata - 1 else start + stratum
        for i in range(n_rows):
            row, last = rows[i, start:end], end - start - 1
            while last > 0:
                chosen: Any = np.int64(words[at] & masks[last])
                at += 1
                # A number that is too large changes nothing, and the next word is tried: no branch to be mispredicted.
                good = chosen <= last
                chosen = chosen if good else last
                row[last], row[chosen] = row[chosen], row[last]
                last -= int(good)


@compiled
def first_centers(points: Keys, weights: Keys, count: int, draws: Floats, trials: int) -> Keys:
    """Return where k-means++ begins, as scikit-learn does from the same random numbers in [0, 1).

    One number draws the first center, ``trials`` each of the next: of so many people, the one that leaves least.
    """
    n, k = points.shape
    centers = np.empty((count, k), np.float32)
    chosen, total = 0, 0.0
    for i in range(n):
        total += weights[i]
    part = 0.0
    for i in range(n):
        part += weights[i]
        chosen = i
        if part > draws[0] * total:
            break
    centers[0] = points[chosen]
    closest, candidate, best = np.empty(n, np.float32), np.empty(n, np.float32), np.empty(n, np.float32)
    total = _offer_center(points, weights, points[chosen], np.full(n, np.inf, np.float32), closest)
    sums = np.empty(n, np.float32)
    for c in range(1, count):
        running = np.float32(0.0)
        for i in range(n):
            running += weights[i] * closest[i]
            sums[i] = running
        least = np.inf
        for trial in range(trials):
            place = min(np.searchsorted(sums, draws[1 + (c - 1) * trials + trial] * total), n - 1)
            left = _offer_center(points, weights, points[place], closest, candidate)
            if left < least:
                least = left
                chosen = place
                best[:] = candidate
        total = least
        closest[:] = best
        centers[c] = points[chosen]
    return centers


@compiled(fastmath={"reassoc", "contract", "nsz"})
def _offer_center(points: Keys, weights: Keys, center: Keys, closest: Keys, out: Keys) -> float:
    """Write the squared distances from the closest center, a new one included; return their weighted sum."""
    total = 0.0
    for i in range(points.shape[0]):
        square = np.float32(0.0)
        for j in range(points.shape[1]):
            difference = points[i, j] - center[j]
            square += difference * difference
        out[i] = min(square, closest[i])
        total += np.float64(weights[i]) * out[i]
    return total


@compiled
def assign(tiles: Tiles, centers: Keys, labels: Labels) -> None:
    """Write the nearest center of each point, given tiles of ``PEOPLE``, attribute by attribute."""
    halves = np.empty(centers.shape[0], np.float32)
    for c in range(centers.shape[0]):
        halves[c] = np.dot(centers[c], centers[c]) / np.float32(2.0)
    products, least = np.empty((_CENTERS, PEOPLE), np.float32), np.empty(PEOPLE, np.float32)
    nearest = np.empty(PEOPLE, np.int32)
    for tile in range(tiles.shape[0]):
        least[:], nearest[:] = np.inf, 0
        for first in range(0, centers.shape[0], _CENTERS):
            some = centers[first : first + _CENTERS]
            _multiply(tiles[tile], some, products)
            for c in range(some.shape[0]):
                center, half = np.int32(first + c), halves[first + c]
                for i in range(PEOPLE):
                    key = half - products[c, i]
                    nearest[i] = center if key < least[i] else nearest[i]  # no branch to be mispredicted
                    least[i] = min(key, least[i])
        for i in range(min(PEOPLE, len(labels) - tile * PEOPLE)):
            labels[tile * PEOPLE + i] = nearest[i]


@compiled(fastmath={"contract"})
def _multiply(tile: Keys, centers: Keys, out: Keys) -> None:
    """Write the products of a tile's people with centers, which are added up attribute by attribute."""
    count, k = centers.shape
    out[:count] = 0.0
    eights = k - k % 8
    for j in range(0, eights, 8):  # as many at a time as a core has registers for
        for c in range(count):
            c0, c1, c2, c3 = centers[c, j], centers[c, j + 1], centers[c, j + 2], centers[c, j + 3]
            c4, c5, c6, c7 = centers[c, j + 4], centers[c, j + 5], centers[c, j + 6], centers[c, j + 7]
            for i in range(PEOPLE):
                sum_ = out[c, i] + tile[j, i] * c0
                sum_ = sum_ + tile[j + 1, i] * c1
                sum_ = sum_ + tile[j + 2, i] * c2
                sum_ = sum_ + tile[j + 3, i] * c3
                sum_ = sum_ + tile[j + 4, i] * c4
                sum_ = sum_ + tile[j + 5, i] * c5
                sum_ = sum_ + tile[j + 6, i] * c6
                out[c, i] = sum_ + tile[j + 7, i] * c7
    for j in range(eights, k):
        for c in range(count):
            for i in range(PEOPLE):
                out[c, i] += tile[j, i] * centers[c, j]


@compiled
def settle(
    points: Keys, tiles: Tiles, weights: Keys, centers: Keys, labels: Labels, most: int, tolerance: float
) -> float:
    """Move centers to the averages of the people nearest to them, until nobody moves or they hardly do (Lloyd).

    Points are given twice, also in tiles as for :func:`assign`. Return the weighted sum of squared distances that is
    left; −1 where a center lost all of its people. After the first rounds few people change their center: sums are
    changed by those alone.
    """
    count, k = centers.shape
    before, members = np.full(points.shape[0], -1, np.int32), np.zeros(count, np.int64)
    sums, inside = np.zeros((count, k)), np.zeros(count)
    for _ in range(most):
        assign(tiles, centers, labels)
        changed = False
        for i in range(points.shape[0]):
            new, old = labels[i], before[i]
            if new != old:
                changed = True
                before[i] = new
                weight = np.float64(weights[i])
                members[new] += 1
                inside[new] += weight
                _add_row(points, i, weight, sums, new)
                if old >= 0:
                    members[old] -= 1
                    inside[old] -= weight
                    _add_row(points, i, -weight, sums, old)
        if members.min() == 0:
            return -1.0
        moved = 0.0
        for c in range(count):
            for j in range(k):
                average = np.float32(sums[c, j] / inside[c])
                moved += (np.float64(average) - centers[c, j]) ** 2
                centers[c, j] = average
        if not changed:
            break
        if moved <= tolerance:
            assign(tiles, centers, labels)
            break
    left: float = _left(points, weights, centers, labels)
    return left


@compiled
def _add_row(rows: Keys, i: int, weight: float, out: Floats, place: int) -> None:
    """Add a row to another, both by their numbers: to make arrays of them would take as long as to add."""
    for j in range(rows.shape[1]):
        out[place, j] += weight * rows[i, j]


@compiled(fastmath={"reassoc", "contract", "nsz"})
def _left(points: Keys, weights: Keys, centers: Keys, labels: Labels) -> float:
    left = 0.0
    for i in range(points.shape[0]):
        square = 0.0
        for j in range(points.shape[1]):
            difference = np.float64(points[i, j]) - np.float64(centers[labels[i], j])
            square += difference * difference
        left += weights[i] * square
    return left


@compiled(fastmath={"reassoc", "contract", "nsz"})
def explain(people: Keys, active: Keys, first: Flags, labels: Labels, count: int, out: Floats) -> None:
    """Write how much more rays of groups explain of each person than one ray of everybody: squared lengths.

    A ray r explains ‖x‖² − ‖x − a·r‖² of a person x who stands on it at a. Rays are those that explain most of one half
    of the people, and are judged by the other half. A group without people in one half has everybody's ray there.
    """
    n, k = people.shape
    for half in (True, False):
        rays, lengths = np.zeros((count + 1, k)), np.zeros(count + 1)
        for i in range(n):
            if first[i] == half:
                label, a = labels[i], np.float64(active[i])
                lengths[label] += active[i] * active[i]
                _add_row(people, i, a, rays, label)
        for c in range(count):
            rays[count] += rays[c]
            lengths[count] += lengths[c]
        beyond, longer = np.empty((count, k), np.float32), np.zeros(count)
        rays[count] /= max(lengths[count], 1e-30)
        for c in range(count):
            ray = rays[c] / lengths[c] if lengths[c] > 0 else rays[count]
            for j in range(k):
                beyond[c, j] = ray[j] - rays[count, j]
                longer[c] += ray[j] * ray[j] - rays[count, j] * rays[count, j]
        for i in range(n):
            if first[i] != half:
                label, a = labels[i], np.float64(active[i])
                along = np.float32(0.0)
                for j in range(k):
                    along += people[i, j] * beyond[label, j]
                out[i] = 2 * a * np.float64(along) - a * a * longer[label]
