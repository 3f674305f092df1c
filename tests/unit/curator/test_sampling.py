"""The sampler against a plain search in what is left of the weights, with every word chosen by the test."""

from bisect import bisect_right
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import cache
from itertools import accumulate, pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.streams import NO_NOISE, Constant, Recorded, Scripted

from dimly.curator import sampling
from dimly.curator.randomness import Words
from dimly.curator.sampling import NoiseSampler
from dimly.mechanisms.noise.gaussian import RoundedGaussian
from dimly.mechanisms.noise.laplace import DiscreteLaplace
from dimly.mechanisms.noise.tables import TOTAL, NoiseTable, symmetric
from dimly.privacy import Budget

# A table with the standard deviation of 15,000 takes seconds to prove: each is made once, by one process.
pytestmark = pytest.mark.xdist_group("tables of noise")

TABLES: dict[str, Callable[[], NoiseTable]] = {
    "laplace": lambda: DiscreteLaplace.of(Budget(1.0), l1_sensitivity=1),
    "laplace, nearly no noise": lambda: DiscreteLaplace.of(Budget(30.0), l1_sensitivity=1),
    "laplace, wide": lambda: DiscreteLaplace.of(Budget(0.1), l1_sensitivity=10),
    "gaussian, narrow": lambda: RoundedGaussian.of(0.3),
    "gaussian": lambda: RoundedGaussian.of(4.225),
    "gaussian, just of eight bits": lambda: RoundedGaussian.of(35.0),
    "gaussian, just of nine bits": lambda: RoundedGaussian.of(36.0),
    "gaussian, wide": lambda: RoundedGaussian.of(200.0),
    "gaussian, a thousand steps": lambda: RoundedGaussian.of(1000.0),
    "laplace, too wide": lambda: DiscreteLaplace.of(Budget(0.1), l1_sensitivity=1200),
    "gaussian, too wide": lambda: RoundedGaussian.of(15_000.0),
}
MIDDLE = 0x5555_5555_5555_5555
WIDE = tuple(name for name in TABLES if name.endswith("too wide"))
"""Where sixteen bits would settle fewer than half of the samples: they are searched for by 64."""
GUIDED = tuple(name for name in TABLES if name not in WIDE)
every_table = pytest.mark.parametrize("name", TABLES)


@cache
def table_of(name: str) -> NoiseTable:
    return TABLES[name]()


@cache
def sampler_of(name: str) -> NoiseSampler:
    return NoiseSampler(table_of(name))


@cache
def weights(name: str) -> tuple[list[int], int]:
    """Return the weights of all values, and the first value; a Laplace's first and last stand for its tails."""
    table = table_of(name)
    if isinstance(table, DiscreteLaplace):
        return [table.overflow, *symmetric(table.head), table.overflow], -len(table.head)
    assert isinstance(table, RoundedGaussian)
    return symmetric(table.half), 1 - len(table.half)


@cache
def prefixes_of(name: str) -> list[int]:
    """Return how many sixteen-bit prefixes each cell has for itself: as many as leave something of it."""
    if name in WIDE:
        return [0] * len(weights(name)[0])
    found = [(weight - 1) >> 112 for weight in weights(name)[0]]
    found[len(found) // 2] -= found[len(found) // 2] % 2
    if isinstance(table_of(name), DiscreteLaplace):
        found[0] = found[-1] = 0  # the tails
    return found


@cache
def settled_of(name: str) -> list[int]:
    """Return the cells of the prefixes in the middle, which have one each."""
    return [cell for cell, count in enumerate(prefixes_of(name)) for _ in range(count)]


@cache
def ends_of(name: str) -> list[int]:
    """Return where each cell ends in what is left, once the prefixes of single cells are taken out of the middle."""
    shared = zip(weights(name)[0], prefixes_of(name), strict=True)
    return list(accumulate(weight - (count << 112) for weight, count in shared))


def number_at(name: str, rest: int) -> int:
    """Return the 128-bit number that is at this place in what is left."""
    settled = len(settled_of(name)) << 112
    return rest if rest < (TOTAL - settled) // 2 else rest + settled


def cell_of(name: str, number: int) -> int:
    """Return the cell of a 128-bit number."""
    settled = settled_of(name)
    below = (2**16 - len(settled)) // 2
    prefix = number >> 112
    if below <= prefix < below + len(settled):
        return settled[prefix - below]
    return bisect_right(ends_of(name), number if prefix < below else number - (len(settled) << 112))


def plain(name: str, number: int, tail_numbers: list[int]) -> int:
    """Return the noise that a 128-bit number stands for, with more of them if it is one of the tails."""
    table = table_of(name)
    cell = cell_of(name, number)
    value = weights(name)[1] + cell
    if isinstance(table, DiscreteLaplace) and cell in (0, len(ends_of(name)) - 1):
        beyond = len(table.head) - 1
        ends = list(accumulate([*table.tail, table.tail_overflow]))
        for tail_number in tail_numbers:
            step = bisect_right(ends, tail_number)
            if step < len(table.tail):
                beyond += step + 1
                break
            beyond += len(table.tail)
        else:
            raise AssertionError("the tail repeats more often than the test foresees")
        value = beyond if cell else -beyond
    return value


def halves(*numbers: int) -> list[int]:
    return [half for number in numbers for half in (number >> 64, number & ((1 << 64) - 1))]


def words_of(name: str, number: int, tail_numbers: list[int], *, spare: int = 0) -> Scripted:
    """Return words from which a sampler reads ``number``: its first bits apart, except for tables that are too wide."""
    high, low = halves(number)
    if name in WIDE:
        return Scripted(long=[high, low, *halves(*tail_numbers)])
    rest = (high & ((1 << 48) - 1)) | (spare << 48)  # bits that nothing may depend on
    return Scripted(short=[high >> 48], long=[rest, low, *halves(*tail_numbers)])


def sampled(name: str, number: int, tail_numbers: list[int], spare: int = 0) -> int:
    words = words_of(name, number, tail_numbers, spare=spare)
    return int(sampler_of(name).draw(1, words)[0])


@every_table
def test_every_value_is_that_of_exactly_as_many_numbers_as_its_weight_says(name: str) -> None:
    """The privacy proof is about the table: what is looked up and what is left of a cell must add up to its weight."""
    sampler = sampler_of(name)
    assert (sampler._guide is None) == (name in WIDE)
    found = numbers_of_cells(sampler)
    assert found == weights(name)[0]
    if sampler._guide is not None:  # and a single prefix in the wrong hands is seen
        wrong = NoiseSampler(table_of(name))
        assert wrong._guide is not None
        wrong._guide[wrong._below] += 1
        assert numbers_of_cells(wrong) != weights(name)[0]


def numbers_of_cells(sampler: NoiseSampler) -> list[int]:
    """Return how many 128-bit numbers have the value of each cell, by the sampler's own tables."""
    cells = sampler._cells
    ends = [(int(high) << 64) + int(low) + 1 for high, low in zip(cells.high, cells.low, strict=True)]
    found = [end - before for before, end in pairwise([0, *ends])]
    shared = 2**16
    if sampler._guide is not None:
        values, counts = np.unique(sampler._guide[sampler._guide != sampler._guide[-1]], return_counts=True)
        for value, count in zip(values.tolist(), counts.tolist(), strict=True):
            found[value - cells.first] += count << 112
            shared -= count
    assert ends[-1] == shared << 112
    return found


@every_table
def test_cells_begin_and_end_exactly_where_their_weights_say(name: str) -> None:
    """The last number of a cell, and the first of the next; of a wide table some cells, the outermost among them."""
    ends = ends_of(name)
    assert ends[-1] == TOTAL - (len(settled_of(name)) << 112)
    chosen = ends if len(ends) < 1000 else [*ends[:40], *ends[40 : -40 : len(ends) // 500], *ends[-40:]]
    tail = [TOTAL // 100]
    for end in chosen:
        for number in {number_at(name, end - 1), number_at(name, min(end, ends[-1] - 1))}:
            assert sampled(name, number, tail) == plain(name, number, tail), f"{name}: {number:#034x}"


@pytest.mark.parametrize("name", GUIDED)
def test_every_sixteen_bits_are_looked_up_as_their_numbers_are(name: str) -> None:
    """All 2¹⁶ prefixes at once, each continued by zeros, by ones and by a middle: what settles them must agree."""
    table = table_of(name)
    outermost = {0, len(ends_of(name)) - 1} if isinstance(table, DiscreteLaplace) else set()
    for rest in (0, (1 << 64) - 1, MIDDLE):
        words = Prefixes(rest)
        got = sampler_of(name).draw(1 << 16, words)
        following = ((rest & ((1 << 48) - 1)) << 64) | MIDDLE
        cells = [cell_of(name, (prefix << 112) | following) for prefix in range(1 << 16)]
        inner = np.array([cell not in outermost for cell in cells])
        expected = np.array(cells) + weights(name)[1]
        np.testing.assert_array_equal(got[inner], expected[inner])
        assert (np.abs(got[~inner]) >= abs(weights(name)[1])).all()


class Prefixes:
    """All sixteen-bit words in their order, and the long word that follows them; another for lower halves and tails."""

    def __init__(self, rest: int) -> None:
        self._rest = rest

    def fill(self, out: Words) -> None:
        if out.dtype == np.uint16:
            out[...] = np.arange(out.size)
        else:
            out[...] = self._rest if out.size > 1 else MIDDLE


def test_the_outermost_cells_are_tails_even_where_sixteen_bits_would_settle_them() -> None:
    """No table that is made of a budget has so much beyond its head."""
    tail = 4 * TOTAL // 5
    table = DiscreteLaplace(Fraction(3), (3 * TOTAL // 4,), TOTAL // 8, (tail,), TOTAL - tail)
    sampler = NoiseSampler(table)
    assert sampler._guide is not None
    for prefix in (0, 0x1234, 0x1FFF, 0x2000, 0x8000, 0xDFFF, 0xE000, 0xFFFF):
        sign = -1 if prefix < 0x2000 else int(prefix >= 0xE000)
        again, last = TOTAL - 1, 0
        words = Scripted(short=[prefix], long=[0, 0, *halves(again, again, last)])
        assert sampler.draw(1, words)[0] == 3 * sign


numbers = st.integers(0, TOTAL - 1)
tails = st.lists(numbers, min_size=1, max_size=1)


@given(name=st.sampled_from(list(TABLES)), number=numbers, tail=tails, spare=st.integers(0, 2**16 - 1))
@example(name="laplace", number=0, tail=[0], spare=0)
@example(name="laplace", number=TOTAL - 1, tail=[0], spare=0)
@example(name="gaussian, wide", number=TOTAL - 1, tail=[0], spare=0)
def test_any_number_gives_the_value_of_its_cell(name: str, number: int, tail: list[int], spare: int) -> None:
    tail = [*tail, 0]  # 0 is the first cell of the tail and ends it
    assert sampled(name, number, tail, spare) == plain(name, number, tail)


@given(
    name=st.sampled_from(list(TABLES)),
    where=st.integers(0, 2**40),
    offset=st.integers(-3, 3),
    spare=st.integers(0, 2**16 - 1),
)
def test_numbers_about_the_end_of_any_cell(name: str, where: int, offset: int, spare: int) -> None:
    ends = ends_of(name)
    number = number_at(name, min(max(ends[where % len(ends)] + offset, 0), ends[-1] - 1))
    assert sampled(name, number, [0], spare) == plain(name, number, [0])


@pytest.mark.parametrize("name", [name for name in TABLES if name.startswith("laplace")])
@pytest.mark.parametrize("side", [0, TOTAL - 1])
def test_tails_reach_beyond_the_head_and_repeat(name: str, side: int) -> None:
    table = table_of(name)
    assert isinstance(table, DiscreteLaplace)
    reach, length = len(table.head) - 1, len(table.tail)
    sign = 1 if side else -1
    ends = list(accumulate([*table.tail, table.tail_overflow]))
    again = TOTAL - 1
    for cell in {0, 1 % length, length // 2, length - 1}:
        for number in (ends[cell] - table.tail[cell], ends[cell] - 1):
            assert sampled(name, side, [number]) == sign * (reach + cell + 1)
            assert sampled(name, side, [again, number]) == sign * (reach + length + cell + 1)
            assert sampled(name, side, [again, ends[-2], again, number]) == sign * (reach + 3 * length + cell + 1)


@pytest.mark.parametrize("name", GUIDED)
def test_the_middle_of_a_table_is_no_noise(name: str) -> None:
    for words in (Constant(0x8000, 0), NO_NOISE):
        sketch = np.arange(-300, 300)
        out = np.empty(600, np.int16)
        sampler_of(name).add(sketch, words, out)
        np.testing.assert_array_equal(out, sketch)


@pytest.mark.parametrize("name", WIDE)
def test_the_middle_of_a_wide_table_is_no_noise(name: str) -> None:
    assert not sampler_of(name).draw(600, NO_NOISE).any()


@every_table
def test_settled_samples_ask_for_no_more_words(name: str) -> None:
    words = Recorded(1)
    sampler_of(name).draw(10_000, words)
    short = sum(size for kind, size in words.asked if kind == "uint16")
    long = sum(size for kind, size in words.asked if kind == "uint64")
    if name in WIDE:
        assert short == 0
        assert 10_000 <= long <= 10_010
    else:
        assert short == 10_000
        shared = 10_000 * (1 - len(settled_of(name)) / 2**16)
        assert shared - 6 * shared**0.5 <= long <= shared + 6 * shared**0.5 + 6
        assert shared <= 10_000 * len(ends_of(name)) / 2**16  # a prefix of each cell at most


@pytest.mark.parametrize("kind", [np.int16, np.int32])
@every_table
@pytest.mark.thorough(but=3)
def test_sums_saturate_at_the_limits_of_the_published_type(name: str, kind: type[np.signedinteger]) -> None:
    limits = np.iinfo(kind)
    near = [limits.min - 10**6, limits.min - 1, limits.min, limits.min + 1, -1, 0, 1]
    sketch = np.repeat([*near, *(-value - 1 for value in near)], 2000)
    out = np.empty(len(sketch), kind)
    sampler_of(name).add(sketch, Recorded(2), out)
    noise = sampler_of(name).draw(len(sketch), Recorded(2))
    np.testing.assert_array_equal(out, np.clip(sketch + noise, limits.min, limits.max))
    assert out.min() == limits.min
    assert out.max() == limits.max


@pytest.mark.parametrize("side", [0, TOTAL - 1])
def test_tails_saturate_too(side: int) -> None:
    repeats = 40_000 // len(table_of("laplace").tail)  # type: ignore[attr-defined]
    words = words_of("laplace", side, [TOTAL - 1] * repeats + [0])
    out = np.empty(1, np.int16)
    sampler_of("laplace").add(np.zeros(1, np.int64), words, out)
    assert out[0] == (32767 if side else -32768)
    assert words.left == 0


@every_table
def test_noise_does_not_depend_on_the_sketch(name: str) -> None:
    generator = np.random.default_rng(3)
    sketch = generator.integers(-(10**9), 10**9, 300_000)
    drawn = sampler_of(name).draw(len(sketch), Recorded(4))
    for data in (sketch, -sketch, np.zeros_like(sketch)):
        out = np.empty(len(data), np.int64)
        words = Recorded(4)
        sampler_of(name).add(data, words, out)
        np.testing.assert_array_equal(out - data, drawn)


@every_table
def test_large_batches_repeat_no_noise(name: str) -> None:
    """Pieces within a batch must each have words of their own."""
    noise = sampler_of(name).draw(1 << 19, Recorded(5))
    if name != "laplace, nearly no noise":
        for shift in (1 << 13, 1 << 16, 1 << 17, 1 << 18):
            assert (noise[shift:] != noise[:-shift]).any()
            assert (noise[shift : shift + 200] != noise[:200]).any()


def test_an_empty_sketch_asks_for_nothing() -> None:
    for sampler in map(sampler_of, TABLES):
        words = Recorded(0)
        assert sampler.draw(0, words).shape == (0,)
        assert sum(size for _, size in words.asked) == 0


def test_the_plain_search_itself_is_right() -> None:
    """What stands beside the sampler is checked by hand on the table that is easiest to see through."""
    table = table_of("gaussian, narrow")
    assert isinstance(table, RoundedGaussian)
    zero = Fraction(table.half[0], TOTAL)
    assert plain("gaussian, narrow", 0, []) == 1 - len(table.half)
    assert plain("gaussian, narrow", TOTAL // 2, []) == 0
    assert plain("gaussian, narrow", int((1 - zero) / 2 * TOTAL) - 1, []) == -1
    assert plain("gaussian, narrow", int((1 + zero) / 2 * TOTAL), []) == 1


@every_table
def test_the_mirrored_number_gives_the_opposite_value(name: str) -> None:
    generator = np.random.default_rng(6)
    for _ in range(200):
        number = int.from_bytes(generator.bytes(16), "little")
        tail = [int.from_bytes(generator.bytes(16), "little") // 2]
        assert sampled(name, number, [*tail, 0]) == -sampled(name, TOTAL - 1 - number, [*tail, 0])


def test_threads_that_share_a_sampler_do_not_disturb_each_other() -> None:
    sampler = sampler_of("laplace")
    expected = [sampler.draw(200_000, Recorded(seed)) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            found = list(pool.map(lambda seed: sampler.draw(200_000, Recorded(seed)), range(4)))
            np.testing.assert_array_equal(found, expected)


class Interrupting:
    """Recorded words; each time that some are asked for, something else happens in the same thread."""

    def __init__(self, seed: int, interrupt: Callable[[], object]) -> None:
        self._words = Recorded(seed)
        self._interrupt = interrupt
        self.interruptions = 0

    def fill(self, out: Words) -> None:
        self._words.fill(out)
        self.interruptions += 1
        self._interrupt()


@every_table
def test_a_call_inside_of_another_leaves_it_alone(name: str) -> None:
    """As that of a signal handler, a finalizer or a source of words is: one thread, two calls under way."""
    sampler = sampler_of(name)
    inner: list[np.ndarray] = []

    def interrupt() -> None:
        inner.append(sampler.draw(5000, Recorded(2)))

    words = Interrupting(1, interrupt)
    found = sampler.draw(5000, words)
    assert words.interruptions > 0
    np.testing.assert_array_equal(found, sampler.draw(5000, Recorded(1)))
    for other in inner:
        np.testing.assert_array_equal(other, sampler.draw(5000, Recorded(2)))


class Cleared(sampling._Room):
    """Scratch memory in which whatever is found was left there."""

    def __init__(self) -> None:
        super().__init__()
        self.high[:] = 0
        self.ever_refined = False

    def forget(self, size: int) -> None:
        self.ever_refined |= self.refined > 0
        super().forget(size)


def test_no_words_stay_behind_in_memory_that_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever ended the call."""
    rooms: list[Cleared] = []
    monkeypatch.setattr(sampling, "_rooms", rooms)
    monkeypatch.setattr(sampling, "_Room", Cleared)
    sampler = sampler_of("gaussian")
    sampler.draw(5000, Recorded(1))
    assert len(rooms) == 1
    room = rooms[0]
    assert room.ever_refined
    assert not any(some.any() for some in (room.prefixes[:5000], room.noise, room.high))

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sampler.draw(5000, Interrupting(1, stop))
    assert not any(some.any() for some in (room.prefixes[:5000], room.noise, room.high))
