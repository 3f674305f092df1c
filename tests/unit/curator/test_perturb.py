import numpy as np
import pytest
import scipy.sparse
from numpy.typing import NDArray
from tests.plans import N_ATTRIBUTES, SEED, plan_of
from tests.streams import NO_FLIPS, NO_NOISE, Constant, Recorded

from dimly.curator.people import People, people_of
from dimly.curator.perturb import Perturber
from dimly.errors import DataError
from dimly.mechanisms import MECHANISMS, Directions, Plan, Vocabulary
from dimly.privacy import Budget

D = N_ATTRIBUTES


def population(n: int, *, d: int = D, resolution: int = 1, seed: int = 0) -> tuple[People, NDArray[np.int64]]:
    """Return people and the integer table that they stand for; one of them has nothing, and one everything."""
    generator = np.random.default_rng(seed)
    table = generator.integers(0, resolution, (n, d), endpoint=True) * (generator.random((n, d)) < 0.3)
    table[: n > 1] = 0
    table[1:2] = resolution
    people, _ = people_of(table / resolution, resolution=resolution, n_columns=d, attributes=None)
    return people, table


def with_nothing(n: int) -> People:
    return People(np.zeros(n + 1, np.int64), np.zeros(0, np.int32), None)


def clean(plan: Plan, table: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what would be published without noise, computed another way."""
    if plan.mechanism == "randomized-response":
        return np.packbits(table.astype(np.uint8), axis=1, bitorder="little").astype(np.int64)
    if plan.mechanism == "noisy-distances":
        rows, columns = np.triu_indices(len(table), 1)
        distances: NDArray[np.int64] = ((table[rows] - table[columns]) ** 2).sum(axis=1)
        return distances
    sketches: NDArray[np.int64] = table @ plan.rows(Vocabulary.numbered(table.shape[1])).to_dense()
    return sketches


every_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS)


@every_mechanism
@pytest.mark.parametrize("resolution", [1, 5])
def test_noise_is_added_to_exactly_what_the_mechanism_says(mechanism: str, resolution: int) -> None:
    if mechanism == "randomized-response" and resolution > 1:
        return
    plan = plan_of(mechanism) if resolution == 1 else plan_of(mechanism, resolution=resolution)
    perturber = Perturber(plan, Vocabulary.numbered(D))
    people, table = population(30, resolution=resolution)
    with_data = perturber.perturb(people, Recorded(1))
    noise = perturber.perturb(with_nothing(30), Recorded(1))
    if mechanism == "randomized-response":
        np.testing.assert_array_equal(with_data ^ noise, clean(plan, table))
    else:
        np.testing.assert_array_equal(with_data.astype(np.int64) - noise, clean(plan, table))
    assert noise.any()


@every_mechanism
def test_without_noise_the_clean_numbers_are_published(mechanism: str) -> None:
    plan = plan_of(mechanism)
    people, table = population(30)
    words = NO_FLIPS if mechanism == "randomized-response" else NO_NOISE
    published = Perturber(plan, Vocabulary.numbered(D)).perturb(people, words)
    np.testing.assert_array_equal(published, clean(plan, table))


def test_words_of_zeros_flip_every_bit_but_no_padding() -> None:
    for d in (1, 7, 8, 9, 63, 64, 65, 128, 130):
        plan = plan_of("randomized-response", n_attributes=d)
        people, table = population(5, d=d)
        published = Perturber(plan, Vocabulary.numbered(d)).perturb(people, Constant(0, 0))
        assert published.dtype == np.uint8
        assert published.flags.c_contiguous
        np.testing.assert_array_equal(published, clean(plan, 1 - table))


def test_bits_are_flipped_in_their_place_where_it_can_hold_them() -> None:
    for d in (64, 65, 130, 192):
        plan = plan_of("randomized-response", n_attributes=d)
        people, _ = population(8, d=d)
        perturber = Perturber(plan, Vocabulary.numbered(d))
        wanted = perturber.perturb(people, Recorded(3))
        for shift in (0, 8, 3):  # also where no word of 64 bits may begin
            room = np.full(wanted.size + shift, 255, np.uint8)[shift:].reshape(wanted.shape)
            found = perturber.perturb(people, Recorded(3), out=room)
            np.testing.assert_array_equal(room, wanted)
            assert np.shares_memory(found, room) == (room.ctypes.data % 8 == 0)


@pytest.mark.parametrize("mechanism", ["counting+laplace", "sign+gaussian", "randomized-response"])
def test_batches_of_many_pieces_have_neither_seams_nor_gaps(mechanism: str) -> None:
    """Rows by themselves, and rows of a batch that is too large for one piece."""
    k = {} if mechanism == "randomized-response" else {"k": 96}
    plan = plan_of(mechanism, **k)
    perturber = Perturber(plan, Vocabulary.numbered(D))
    people, table = population(6000)
    words = NO_FLIPS if mechanism == "randomized-response" else NO_NOISE
    np.testing.assert_array_equal(perturber.perturb(people, words), clean(plan, table))
    noisy = perturber.perturb(people, Recorded(2)).astype(np.int64)
    noise = noisy ^ clean(plan, table) if mechanism == "randomized-response" else noisy - clean(plan, table)
    assert len(np.unique(noise, axis=0)) == len(noise)  # no row's noise comes twice
    assert (noise != 0).any(axis=1).all()


def test_a_sketch_larger_than_a_piece_is_added_in_several() -> None:
    k = (1 << 18) + 1
    plan = plan_of("counting+laplace", k=k, n_attributes=None)
    people, table = population(2)
    perturber = Perturber(plan, Vocabulary.numbered(D))
    np.testing.assert_array_equal(perturber.perturb(people, NO_NOISE), clean(plan, table))
    noise = perturber.perturb(people, Recorded(3)) - clean(plan, table)
    assert 0.5 < (noise != 0).mean() < 0.6  # 1 − (1−q)/(1+q) = 0.54 at ε = 1


@every_mechanism
@pytest.mark.parametrize("n", [0, 1, 2])
def test_very_few_people(mechanism: str, n: int) -> None:
    plan = plan_of(mechanism)
    people, _ = population(n)
    published = Perturber(plan, Vocabulary.numbered(D)).perturb(people, Recorded(4))
    assert published.dtype == ("uint8" if plan.dtype == "bit" else plan.dtype)
    width = {"randomized-response": 13, "noisy-distances": None}.get(mechanism, 32)
    assert published.shape == ((n, width) if width else (n * (n - 1) // 2,))


def test_one_perturber_serves_many_batches() -> None:
    perturber = Perturber(plan_of("hashing+laplace"), Vocabulary.numbered(D))
    people, _ = population(20)
    words = Recorded(5)
    first, second = perturber.perturb(people, words), perturber.perturb(people, words)
    assert (first != second).any()
    np.testing.assert_array_equal(perturber.perturb(people, Recorded(5)), first)


def test_some_of_the_people_are_published_as_they_are_in_all() -> None:
    people, table = population(30)
    for mechanism in ("sparse+laplace", "randomized-response", "noisy-distances"):
        plan = plan_of(mechanism)
        words = NO_FLIPS if mechanism == "randomized-response" else NO_NOISE
        part = people.take(np.arange(10, 20))
        published = Perturber(plan, Vocabulary.numbered(D)).perturb(part, words)
        np.testing.assert_array_equal(published, clean(plan, table[10:20]))


def test_more_people_than_the_plan_holds_are_refused_and_not_counted_in_the_text() -> None:
    perturber = Perturber(plan_of("noisy-distances"), Vocabulary.numbered(D))
    assert len(perturber.perturb(population(40)[0], Recorded(6))) == 40 * 39 // 2
    with pytest.raises(DataError, match="at most 40 people, as the plan says") as error:
        perturber.perturb(population(41)[0], Recorded(6))
    assert "41" not in str(error.value)


def test_sketches_saturate() -> None:
    everything = scipy.sparse.csr_array(np.ones((1, 80_000)))
    people, names = people_of(everything, resolution=1, n_columns=None, attributes=None)
    plan = Plan.of("counting+laplace", Budget(1.0), k=2, seed=SEED)
    assert Perturber(plan, names).perturb(people, NO_NOISE).tolist() == [[32767, 32767]]
    larger = Plan.of("counting+laplace", Budget(1.0), k=2, seed=SEED, dtype="int32")
    published = Perturber(larger, names).perturb(people, NO_NOISE)
    np.testing.assert_array_equal(published, [larger.rows(names).to_dense().sum(axis=0)])


def test_distances_saturate() -> None:
    everything = scipy.sparse.csr_array(np.arange(2)[:, None] * np.ones(40_000))
    people, names = people_of(everything, resolution=1, n_columns=None, attributes=None)
    assert Perturber(plan_of("noisy-distances"), names).perturb(people, NO_NOISE).tolist() == [32767]


@every_mechanism
@pytest.mark.parametrize("resolution", [1, 5])
def test_whatever_arrives_is_published_as_each_attribute_once_and_in_range(mechanism: str, resolution: int) -> None:
    """Values, repeats and order are asked for again where noise is added: what was checked before may have changed."""
    if mechanism == "randomized-response" and resolution > 1:
        return
    plan = plan_of(mechanism) if resolution == 1 else plan_of(mechanism, resolution=resolution)
    words = NO_FLIPS if mechanism == "randomized-response" else NO_NOISE
    perturber = Perturber(plan, Vocabulary.numbered(D))
    sound = People(np.array([0, 2, 3]), np.array([1, 7, 4], np.int32), np.array([1, resolution, 0]))
    wild = People(
        np.array([0, 4, 6]),
        np.array([7, 1, 7, 7, 4, 4], np.int32),
        np.array([999, 1, -3, 2, -7, np.iinfo(np.int64).min]),
    )
    if resolution == 1:  # bits have no values
        sound, wild = (People(people.indptr, people.indices, None) for people in (sound, wild))
    np.testing.assert_array_equal(perturber.perturb(wild, words), perturber.perturb(sound, words))


@every_mechanism
@pytest.mark.parametrize("attribute", [-1, D, 2**31 - 1])
def test_an_attribute_that_is_none_of_the_list_is_refused(mechanism: str, attribute: int) -> None:
    people = People(np.array([0, 1, 1]), np.array([attribute], np.int32), None)
    with pytest.raises(DataError, match="attributes of the list"):
        Perturber(plan_of(mechanism), Vocabulary.numbered(D)).perturb(people, Recorded(1))


def test_directions_laid_out_by_attribute_and_looked_up_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.arange(-5, 5).reshape(5, 2)
    directions = Directions.of_values([*"abcde"], rows, scale=1, origin="tests")
    plan = Plan.of("directions+laplace", Budget(1.0), directions=directions)
    names = [*"xbyaedzc", *map(str, range(100))]  # many without a row, which count for nothing
    people = People(np.array([0, 3, 3, 8]), np.array([0, 1, 3, 1, 2, 4, 7, 50], np.int32), None)
    laid_out = Perturber(plan, names)
    monkeypatch.setattr("dimly.curator.perturb._LAID_OUT", 0)
    looked_up = Perturber(plan, names)
    ways = [laid_out._kind, looked_up._kind]
    assert [way._laid_out is None for way in ways] == [False, True]  # type: ignore[attr-defined]
    found = [one.perturb(people, Recorded(0)) for one in (laid_out, looked_up)]
    assert np.array_equal(found[0], found[1])
