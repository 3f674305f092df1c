"""Words for tests to inject in the place of a secret keystream. What is published with them is not private."""

from collections import deque
from collections.abc import Iterable

import numpy as np

from dimly.curator.randomness import Words


class Recorded:
    """The same words whenever it is made from the same seed; ``asked`` notes how many of which kind were wanted."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)
        self.asked: list[tuple[str, int]] = []

    def fill(self, out: Words) -> None:
        self.asked.append((out.dtype.name, out.size))
        out[...] = np.frombuffer(self._generator.bytes(out.nbytes), out.dtype).reshape(out.shape)


class Constant:
    """One word of each kind, for ever."""

    def __init__(self, short: int, long: int) -> None:
        self._words = {2: short, 8: long}

    def fill(self, out: Words) -> None:
        out[...] = self._words[out.dtype.itemsize]


class Scripted:
    """Given words in their order. Asking for more is an error; ``left`` says what was not asked for."""

    def __init__(self, short: Iterable[int] = (), long: Iterable[int] = ()) -> None:
        self._queues = {2: deque(short), 8: deque(long)}

    def fill(self, out: Words) -> None:
        queue = self._queues[out.dtype.itemsize]
        flat = out.reshape(-1)
        for i in range(flat.size):
            flat[i] = queue.popleft()

    @property
    def left(self) -> int:
        return sum(map(len, self._queues.values()))


NO_NOISE = Constant(0x8000, 1 << 63)
"""The middle of every symmetric table: noise 0."""

NO_FLIPS = Constant(0xFFFF, (1 << 64) - 1)
"""No coin with a probability below one half comes up."""
