import numpy as np
import pytest
from tests.plans import plan_of

from dimly.analyst import pairs as readers
from dimly.analyst.pairs import BitReader, PairSums, Reader, Side, SketchReader, reader_of
from dimly.mechanisms.error.models import FlippedBitsError


def sketch_reader() -> SketchReader:
    reader = reader_of(plan_of("hashing+laplace"))
    assert isinstance(reader, SketchReader)
    return reader


def bit_reader() -> BitReader:
    return BitReader(FlippedBitsError(61, 0.2))


def sides(reader: Reader, n: int, m: int) -> tuple[Side, Side]:
    generator = np.random.default_rng(4)
    if isinstance(reader, BitReader):
        rows = [np.packbits(generator.random((size, 61)) < 0.4, axis=1, bitorder="little") for size in (n, m)]
    else:
        rows = [generator.integers(-99, 99, (size, 32)).astype(np.int16) for size in (n, m)]
    return Side(rows[0], noisy=True), Side(rows[1], noisy=True)


def numbers(reader: Reader, side: Side) -> np.ndarray:
    if isinstance(reader, BitReader):
        return np.unpackbits(side.rows, axis=1, count=61, bitorder="little").astype(np.int64)
    return side.rows.astype(np.int64)


def stacked(sums: PairSums) -> np.ndarray:
    return np.stack(np.broadcast_arrays(*sums))


readers_of_both_kinds = pytest.mark.parametrize("make", [sketch_reader, bit_reader])


@readers_of_both_kinds
@pytest.mark.parametrize("m", [7, 1])
def test_sums_of_pairs(make: object, m: int) -> None:
    reader: Reader = make()  # type: ignore[operator]
    x, y = sides(reader, 7, m)
    a, b = np.broadcast_arrays(numbers(reader, x), numbers(reader, y))
    expected = np.stack([a.sum(1), b.sum(1), (a * a).sum(1), (b * b).sum(1), (a * b).sum(1)])
    np.testing.assert_array_equal(stacked(reader.sums(x, y)), expected)
    swapped = stacked(reader.sums(y, x))[[1, 0, 3, 2, 4]]
    np.testing.assert_array_equal(swapped, expected)


@readers_of_both_kinds
def test_sums_in_pieces_are_the_same(make: object, monkeypatch: pytest.MonkeyPatch) -> None:
    reader: Reader = make()  # type: ignore[operator]
    x, y = sides(reader, 11, 11)
    whole = stacked(reader.sums(x, y))
    one = stacked(reader.sums(x, Side(y.rows[:1], noisy=True)))
    monkeypatch.setattr(readers, "_PIECE", 3 if isinstance(reader, BitReader) else 100)
    np.testing.assert_array_equal(stacked(reader.sums(x, y)), whole)
    np.testing.assert_array_equal(stacked(reader.sums(x, Side(y.rows[:1], noisy=True))), one)


@readers_of_both_kinds
def test_a_gram_is_all_pairs(make: object) -> None:
    reader: Reader = make()  # type: ignore[operator]
    x, y = sides(reader, 5, 4)
    gram = stacked(reader.gram(x, y))
    assert gram.shape == (5, 5, 4)
    for i in range(5):
        row = stacked(reader.sums(Side(x.rows[i : i + 1], noisy=True), y))
        np.testing.assert_array_equal(gram[:, i], row)
    assert stacked(reader.gram(Side(x.rows[:0], noisy=True), y)).shape == (5, 0, 4)


def test_saturated_numbers_do_not_overflow() -> None:
    rows = np.full((1, 32), np.iinfo(np.int32).max, np.int32)
    sums = sketch_reader().sums(Side(rows, noisy=True), Side(-rows, noisy=True))
    assert sums.xx[0] == pytest.approx(32 * 2.0**62)
    assert sums.xy[0] == pytest.approx(-32 * 2.0**62)


def test_one_reader_for_each_kind_of_plan() -> None:
    assert isinstance(reader_of(plan_of("randomized-response")), BitReader)
    assert isinstance(reader_of(plan_of("counting+gaussian")), SketchReader)
    assert reader_of(plan_of("noisy-distances")) is None


def test_an_own_norm_is_exact_but_its_distance_is_told_by_sketches() -> None:
    reader = sketch_reader()
    x, y = sides(reader, 3, 1)
    own = Side(y.rows, noisy=False, squared_norm=123.0)
    pairs = reader.pairs(reader.sums(x, own), x, own)
    assert pairs.squared_norm_y.tolist() == [123.0] * 3
    v = reader.error.noise.variance
    expected = ((numbers(reader, x) - numbers(reader, own)) ** 2).sum(axis=1) - 32 * v
    np.testing.assert_allclose(pairs.squared_distance, expected)


def test_possible_norms_are_not_negative() -> None:
    reader = sketch_reader()
    nothing = Side(np.zeros((2, 32), np.int16), noisy=True)
    pairs = reader.pairs(reader.sums(nothing, nothing), nothing, nothing)
    assert (pairs.squared_norm_x < 0).all()
    assert all((norms == 0).all() for norms in pairs.possible_norms)
