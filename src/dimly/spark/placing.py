"""Which task does which part: numbers that Spark's own hash partitioning sends where they are wanted.

Spark decides by a hash of a column which task gets a row. With the parts' plain numbers some tasks would get three
parts and others none, so each part has a number whose hash is known to lead to its own task. Were the hash another one,
parts would be dealt out less evenly, and nothing else would change.
"""

import numpy as np
from numpy.typing import NDArray

_SEED = 42  # of Spark's hash(), which is Murmur3 x86 32-bit
_MOST_TASKS = 1 << 14


def n_tasks(n_parts: int) -> int:
    """Return how many tasks write the parts of a release: one each, up to 16,384."""
    return min(n_parts, _MOST_TASKS)


def places(n_parts: int) -> NDArray[np.int32]:
    """Return a number for each part, all different: Spark sends part p to task p modulo the number of tasks.

    Examples
    --------
    >>> (spark_hash(places(5)).astype(int) % 5).tolist()
    [0, 1, 2, 3, 4]
    """
    tasks = n_tasks(n_parts)
    rounds = -(-n_parts // tasks)
    size = 64 * n_parts + 1024
    while True:
        candidates = np.arange(size, dtype=np.int32)
        targets = spark_hash(candidates).astype(np.int64) % tasks
        order = np.argsort(targets, kind="stable")
        counts = np.bincount(targets, minlength=tasks)
        if counts.min() >= rounds:
            starts = np.cumsum(counts) - counts
            parts = np.arange(n_parts)
            chosen: NDArray[np.int32] = candidates[order[starts[parts % tasks] + parts // tasks]]
            return chosen
        size *= 2


def spark_hash(numbers: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return what Spark's ``hash`` gives for integers of 32 bits."""
    mixed = _rotated(numbers.view(np.uint32) * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    state = _rotated(np.uint32(_SEED) ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    state ^= np.uint32(4)  # bytes of one number
    state = (state ^ (state >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    state = (state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return (state ^ (state >> np.uint32(16))).view(np.int32)


def _rotated(words: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))
