"""Numba kernels of neighbor search: keys of pairs, differing bits, the nearest found so far.

Kernels check nothing; spaces and graph do. They run on one core
without holding the interpreter's lock, so that callers can use a pool of threads.
"""

# mypy: disallow-untyped-decorators=False

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimly.compiled import compiled

Rows = NDArray[Any]
Floats = NDArray[np.float64]
Keys = NDArray[np.float32]
Words = NDArray[np.uint64]
Positions = NDArray[np.int64]

# Sums of integers are exact in doubles, in any order: allowing one lets the compiler use wide instructions.
_ANY_ORDER = {"reassoc", "contract", "nsz"}
_CHUNK = 64
_FEW = 16  # numbers, a line of a cache, after which a distance is compared with its limit


@compiled(fastmath=_ANY_ORDER)
def _sum_up(x: Rows, y: Rows, out: Floats) -> None:
    total_x, total_y, squares_x, squares_y, products = 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(x.shape[0]):
        a, b = np.float64(x[j]), np.float64(y[j])
        total_x += a
        total_y += b
        squares_x += a * a
        squares_y += b * b
        products += a * b
    out[0] = total_x
    out[1] = total_y
    out[2] = squares_x
    out[3] = squares_y
    out[4] = products


@compiled(fastmath=_ANY_ORDER)
def sums_with_one(rows: Rows, one: Floats, out: Floats) -> None:
    """Write Σx, Σx² and Σxy of each row with one."""
    for i in range(rows.shape[0]):
        row = rows[i]
        total, squares, products = 0.0, 0.0, 0.0
        for j in range(row.shape[0]):
            value = np.float64(row[j])
            total += value
            squares += value * value
            products += value * one[j]
        out[i, 0] = total
        out[i, 1] = squares
        out[i, 2] = products


@compiled(fastmath=_ANY_ORDER)
def sums_in_step(x: Rows, y: Rows, out: Floats) -> None:
    """Write Σx, Σy, Σx², Σy² and Σxy of rows in step; a side of one row stands for as many as the other has."""
    one_x, one_y = x.shape[0] == 1, y.shape[0] == 1
    for i in range(out.shape[0]):
        _sum_up(x[0 if one_x else i], y[0 if one_y else i], out[i])


@compiled
def rows_at_limit(rows: Rows, low: int, high: int, out: NDArray[np.bool_]) -> None:
    """Write which rows hold a number at a limit of its type."""
    for i in range(rows.shape[0]):
        row = rows[i]
        lost = False
        for j in range(row.shape[0]):
            lost |= (row[j] == low) | (row[j] == high)
        out[i] = lost


@compiled(fastmath=_ANY_ORDER)
def sums_of_pairs(rows: Rows, first: Positions, second: Positions, out: Floats) -> None:
    """Write Σx, Σy, Σx², Σy² and Σxy of pairs of rows."""
    for i in range(first.shape[0]):
        _sum_up(rows[first[i]], rows[second[i]], out[i])


@compiled(fastmath=_ANY_ORDER)
def distances_with_one(rows: Rows, one: Rows, out: Floats) -> None:
    """Write the squared distance of each row from one."""
    for i in range(rows.shape[0]):
        out[i] = _distance(rows[i], one)


@compiled
def distances_within(rows: Rows, one: Rows, limit: float, out: Floats) -> None:
    """Write the squared distance of each row from one, infinite beyond a limit, as a few numbers often tell."""
    for i in range(rows.shape[0]):
        total = 0.0
        for start in range(0, rows.shape[1], _FEW):
            total += _distance(rows[i, start : start + _FEW], one[start : start + _FEW])
            if total > limit:
                total = np.inf
                break
        out[i] = total


@compiled(fastmath=_ANY_ORDER)
def distances_of_pairs(rows: Rows, first: Positions, second: Positions, out: Floats) -> None:
    """Write the squared distances of pairs of rows."""
    for i in range(first.shape[0]):
        out[i] = _distance(rows[first[i]], rows[second[i]])


@compiled(fastmath=_ANY_ORDER)
def _distance(x: Rows, y: Rows) -> float:
    total = 0.0
    for j in range(x.shape[0]):
        difference = np.float64(x[j]) - np.float64(y[j])
        total += difference * difference
    return total


@compiled
def population(word: np.uint64) -> np.uint64:
    """Return how many bits of a word are set."""
    # The compiler knows this pattern, and makes the machine's own instruction of it.
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56)


@compiled
def differing_bits(x: Words, y: Words, out: Rows) -> None:
    """Write in how many bits each row of x differs from each of y."""
    for i in range(x.shape[0]):
        for j in range(y.shape[0]):
            count = np.uint64(0)
            for word in range(x.shape[1]):
                count += population(x[i, word] ^ y[j, word])
            out[i, j] = count


@compiled
def differing_bits_of_pairs(words: Words, first: Positions, second: Positions, out: Floats) -> None:
    """Write in how many bits pairs of rows differ."""
    for i in range(first.shape[0]):
        count = np.uint64(0)
        for word in range(words.shape[1]):
            count += population(words[first[i], word] ^ words[second[i], word])
        out[i] = count


@compiled
def distances_of(products: Keys, squares_x: Keys, squares_y: Keys) -> None:
    """Turn inner products into squared distances, in place."""
    for i in range(products.shape[0]):
        for j in range(products.shape[1]):
            products[i, j] = squares_x[i] + squares_y[j] - np.float32(2.0) * products[i, j]


@compiled
def negative_jaccard_of(products: Keys, norms_x: Keys, norms_y: Keys, floor: np.float32) -> None:
    """Turn inner products into keys that rise as Jaccard similarity falls, in place; see ``spaces.jaccard_keys``."""
    for i in range(products.shape[0]):
        for j in range(products.shape[1]):
            shared = products[i, j]
            either = max(norms_x[i] + norms_y[j] - shared, norms_x[i], norms_y[j], floor)
            products[i, j] = -shared / either


@compiled
def _insert(keys: Keys, names: Positions, key: np.float32, name: int) -> None:
    """Put somebody among the nearest, in order of key and then of name; the last one falls off."""
    place = keys.shape[0] - 1
    if key > keys[place] or (key == keys[place] and name >= names[place]):
        return
    while place > 0 and (keys[place - 1] > key or (keys[place - 1] == key and names[place - 1] > name)):
        keys[place] = keys[place - 1]
        names[place] = names[place - 1]
        place -= 1
    keys[place] = key
    names[place] = name


@compiled
def offer(tile: Keys, row: int, column: int, keys: Keys, names: Positions) -> None:
    """Offer the people of a tile to each other: those from ``row`` on, and those from ``column`` on.

    ``tile`` holds the keys of their pairs; on the diagonal (row = column) its upper triangle counts.
    """
    last = keys.shape[1] - 1
    n_rows, n_columns = tile.shape
    worst = keys[column : column + n_columns, last].copy()
    for i in range(n_rows):
        mine = keys[row + i]
        limit = mine[last]
        for start in range(i + 1 if row == column else 0, n_columns, _CHUNK):
            chunk, limits = tile[i, start : start + _CHUNK], worst[start : start + _CHUNK]
            # Almost always nobody of the chunk is near enough. Without a branch, on views that start at zero, this
            # loop takes 0.15 ns a pair, a sixth of the plain one.
            near = False
            for j in range(chunk.shape[0]):
                near |= (chunk[j] <= limit) | (chunk[j] <= limits[j])
            if not near:
                continue
            for j in range(chunk.shape[0]):
                key, other = chunk[j], column + start + j
                if key <= limit:
                    _insert(mine, names[row + i], key, other)
                    limit = mine[last]
                if key <= limits[j]:
                    _insert(keys[other], names[other], key, row + i)
                    limits[j] = keys[other, last]
        if row == column:  # both are the same people
            for j in range(i + 1, n_columns):
                worst[j] = keys[column + j, last]
