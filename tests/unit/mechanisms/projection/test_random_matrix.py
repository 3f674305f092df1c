"""The table of families: sizes, scales, norms, and what is refused."""

import math
import pickle
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dimly.errors import ParameterError
from dimly.mechanisms.projection import closed, kernels
from dimly.mechanisms.projection import random_matrix as projection_module
from dimly.mechanisms.projection.families import MAX_K
from dimly.mechanisms.projection.random_matrix import (
    FAMILIES,
    FAMILY_NAMES,
    Projection,
    Sensitivity,
    family_named,
    realized_sensitivity,
    sensitivity,
)
from dimly.mechanisms.projection.rows import DenseRows, HashedRows
from dimly.mechanisms.projection.streams import STREAM_VERSIONS
from dimly.mechanisms.vocabulary import Vocabulary

SHAPES = {"sparse": (24, 4), "dasgupta": (24, 5)}


def test_the_table_names_every_family_once() -> None:
    assert tuple(FAMILIES) == FAMILY_NAMES
    assert all(FAMILIES[name].name == name for name in FAMILY_NAMES)


@pytest.mark.parametrize(
    ("name", "norm", "entries", "scale", "kurtosis"),
    [
        ("counting", 1, 1, 1.0, 1.0),
        ("hashing", 1, 1, 1.0, 1.0),
        ("sparse", 4, 4, 0.5, 1.0),
        ("dasgupta", None, 5, 5**-0.5, 2.6),
        ("sign", 24, 24, 24**-0.5, 1.0),
        ("ternary", None, 24, math.sqrt(3 / 24), 3.0),
        ("gaussian", None, 24, 2**-6 / math.sqrt(1 + 24 * 4**-6 / 12), 3.0),
    ],
)
def test_numbers_of_the_table(name: str, norm: int | None, entries: int, scale: float, kurtosis: float) -> None:
    family = FAMILIES[name]
    k, blocks = SHAPES.get(name, (24, 1))
    assert family.norm(k, blocks=blocks) == norm
    assert family.entries(k, blocks=blocks) == entries
    assert family.scale(k, blocks=blocks, grid_bits=6 if name == "gaussian" else None) == pytest.approx(
        scale, rel=1e-15
    )
    assert family.kurtosis(blocks) == pytest.approx(kurtosis)
    assert family.open_vocabulary == (norm is not None)


def test_only_counting_is_unsigned_and_only_two_have_blocks() -> None:
    assert [name for name in FAMILY_NAMES if not FAMILIES[name].signed] == ["counting"]
    assert [name for name in FAMILY_NAMES if FAMILIES[name].has_blocks] == ["sparse", "dasgupta"]


def test_one_hash_of_dasgupta_is_hashing() -> None:
    assert FAMILIES["dasgupta"].kurtosis(1) == FAMILIES["hashing"].kurtosis()


def test_families_travel() -> None:
    for family in FAMILIES.values():
        assert pickle.loads(pickle.dumps(family)) == family  # noqa: S301 - our own bytes


@pytest.mark.parametrize("name", ["Sign", "", None, ["sign"]])
def test_an_unknown_name_is_refused(name: object) -> None:
    with pytest.raises(ParameterError, match="family must be one of counting, hashing"):
        family_named(name)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", FAMILY_NAMES)
@pytest.mark.parametrize("k", [0, -1, MAX_K + 1, True, 8.0, "8", None])
def test_a_wrong_k_is_refused(name: str, k: object) -> None:
    with pytest.raises(ParameterError, match=r"^k must be an integer"):
        FAMILIES[name].check(k, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("blocks", [0, -1, True, 2.0])
def test_a_wrong_number_of_blocks_is_refused(blocks: object) -> None:
    with pytest.raises(ParameterError, match=r"^blocks must be an integer"):
        FAMILIES["dasgupta"].check(8, blocks)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [name for name in FAMILY_NAMES if name not in SHAPES])
def test_blocks_belong_to_two_families(name: str) -> None:
    with pytest.raises(ParameterError, match=f"blocks must be 1 for {name}, got 2"):
        FAMILIES[name].check(8, 2, grid_bits=4 if name == "gaussian" else None)


def test_blocks_of_sparse_divide_k() -> None:
    FAMILIES["sparse"].check(12, 12)
    with pytest.raises(ParameterError, match="blocks must divide k = 12 for sparse, got 5"):
        FAMILIES["sparse"].check(12, 5)
    FAMILIES["dasgupta"].check(12, 50)  # with replacement: any number


def test_counting_needs_two_coordinates() -> None:
    FAMILIES["counting"].check(2, 1)
    with pytest.raises(ParameterError, match="at least 2 for counting"):
        FAMILIES["counting"].check(1, 1)


@pytest.mark.parametrize("name", [name for name in FAMILY_NAMES if name != "gaussian"])
def test_a_grid_belongs_to_gaussian(name: str) -> None:
    with pytest.raises(ParameterError, match=f"grid_bits must be None for {name}, got 8"):
        FAMILIES[name].check(8, 1, grid_bits=8)


def test_gaussian_needs_a_grid() -> None:
    with pytest.raises(ParameterError, match="grid_bits must be 1 to 24 for gaussian, got None"):
        FAMILIES["gaussian"].check(8, 1)


@pytest.mark.parametrize("grid_bits", [0, 25, -3, 2.5, True])
def test_a_wrong_grid_is_refused(grid_bits: object) -> None:
    with pytest.raises(ParameterError, match=r"^grid_bits must be an integer"):
        FAMILIES["gaussian"].check(8, 1, grid_bits=grid_bits)  # type: ignore[arg-type]


def test_a_grid_too_coarse_for_k_is_refused() -> None:
    FAMILIES["gaussian"].check(256, 1, grid_bits=4)
    with pytest.raises(ParameterError, match=r"4\^grid_bits ≥ k = 257, got 4"):
        FAMILIES["gaussian"].check(257, 1, grid_bits=4)


def test_numpy_integers_are_integers() -> None:
    FAMILIES["sparse"].check(np.int32(12), np.uint8(4))  # type: ignore[arg-type]


SEED = bytes(range(32))
PROJECTIONS = [
    Projection("counting", 13, 1, SEED),
    Projection("hashing", 13, 1, SEED),
    Projection("sparse", 12, 3, SEED),
    Projection("sparse", 40, 10, SEED),
    Projection("dasgupta", 5, 4, SEED),
    Projection("dasgupta", 64, 9, SEED),
    Projection("sign", 13, 1, SEED),
    Projection("ternary", 13, 1, SEED),
    Projection("gaussian", 13, 1, SEED, 7),
    Projection("gaussian", 4, 1, SEED, 24),
]
every_projection = pytest.mark.parametrize(
    "projection", PROJECTIONS, ids=lambda p: f"{p.family}-{p.k}-{p.blocks}-{p.grid_bits}"
)


@every_projection
def test_norms_equal_brute_force(projection: Projection) -> None:
    rows = projection.rows(Vocabulary.numbered(500))
    dense = rows.to_dense()
    assert dense.shape == (len(rows), rows.k) == (500, projection.k)
    assert dense.dtype == np.int64
    exact = [[int(entry) for entry in row] for row in dense]
    assert rows.l1_norms.tolist() == [sum(map(abs, row)) for row in exact]
    assert rows.l2_squared_norms.tolist() == [sum(e * e for e in row) for row in exact]
    assert rows.l1 == max(rows.l1_norms.tolist())
    assert rows.l2_squared == max(rows.l2_squared_norms.tolist())
    assert type(rows.l1) is type(rows.l2_squared) is int


@every_projection
def test_sensitivity_equals_brute_force(projection: Projection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projection_module, "_CHUNK_BYTES", 8 * projection.k * 7)  # many chunks, the last one short
    vocabulary = Vocabulary.numbered(500)
    dense = projection.rows(vocabulary).to_dense()
    expected = Sensitivity(l1=int(np.abs(dense).sum(axis=1).max()), l2_squared=int((dense * dense).sum(axis=1).max()))
    assert realized_sensitivity(projection, vocabulary) == expected
    assert sensitivity(projection, vocabulary) == expected
    if FAMILIES[projection.family].open_vocabulary:
        assert sensitivity(projection, None) == expected


@every_projection
def test_a_closed_family_refuses_to_work_without_a_public_vocabulary(projection: Projection) -> None:
    if projection.record.open_vocabulary:
        assert sensitivity(projection, None).l1 == projection.record.norm(projection.k, blocks=projection.blocks)
    else:
        with pytest.raises(ParameterError, match=f"stated for {projection.family}, got None.*itself leak"):
            sensitivity(projection, None)


@every_projection
def test_a_row_depends_on_its_attribute_only(projection: Projection, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["", "0", "café", "x" * 5000, "0"]
    together = projection.rows(texts).to_dense()
    alone = np.vstack([projection.rows([text]).to_dense() for text in texts])
    assert np.array_equal(together, alone)
    monkeypatch.setattr(projection_module, "_CHUNK_BYTES", 1)  # one attribute a chunk
    assert np.array_equal(projection.rows(texts).to_dense(), together)


@every_projection
def test_every_parameter_changes_the_rows(projection: Projection) -> None:
    texts = Vocabulary.numbered(50)
    other = Projection(projection.family, projection.k, projection.blocks, bytes(32), projection.grid_bits)
    assert not np.array_equal(projection.rows(texts).to_dense(), other.rows(texts).to_dense())


def test_a_finer_grid_rounds_the_same_deviates() -> None:
    texts = Vocabulary.numbered(50)
    coarse, fine = (Projection("gaussian", 9, 1, SEED, b).rows(texts).to_dense() for b in (10, 20))
    assert np.abs(coarse - fine / 2**10).max() <= 0.5 + 2**-10


@every_projection
def test_the_smallest_sufficient_types(projection: Projection) -> None:
    rows = projection.rows(["a", "b"])
    if isinstance(rows, HashedRows):
        assert rows.columns.dtype == np.int32
        assert rows.signs.dtype == np.int8
        assert rows.columns.shape == rows.signs.shape == (2, projection.blocks)
    else:
        assert isinstance(rows, DenseRows)
        expected = {None: np.int8, 7: np.int16, 24: np.int32}[projection.grid_bits]
        assert rows.matrix.dtype == expected


@every_projection
def test_no_attributes_are_no_rows(projection: Projection) -> None:
    rows = projection.rows([])
    assert len(rows) == rows.l1 == rows.l2_squared == 0
    assert rows.to_dense().shape == (0, projection.k)
    assert rows.project(np.zeros(3, np.int64), np.zeros(0, np.int64)).tolist() == [[0] * projection.k] * 2


@every_projection
def test_scaled_rows_have_expected_squared_norm_one(projection: Projection) -> None:
    rows = projection.rows(Vocabulary.numbered(4000))
    mean = rows.l2_squared_norms.mean() * projection.scale**2
    assert mean == pytest.approx(1, abs=0.06)  # the statistical tests are sharp; this one is a smoke test


def test_structure_of_the_rows() -> None:
    texts = Vocabulary.numbered(300)
    counting = Projection("counting", 13, 1, SEED).rows(texts).to_dense()
    assert set(counting.sum(axis=1)) == {1}
    sparse = Projection("sparse", 12, 3, SEED).rows(texts).to_dense().reshape(-1, 3, 4)
    assert set(np.abs(sparse).sum(axis=2).ravel()) == {1}
    assert set(Projection("sign", 13, 1, SEED).rows(texts).to_dense().ravel()) == {-1, 1}
    assert set(Projection("ternary", 13, 1, SEED).rows(texts).to_dense().ravel()) == {-1, 0, 1}


def test_a_short_stream_is_prolonged(monkeypatch: pytest.MonkeyPatch) -> None:
    projection, texts = Projection("ternary", 200, 1, SEED), Vocabulary.numbered(50)
    expected = projection.rows(texts).to_dense()
    monkeypatch.setattr(closed, "_ternary_length", lambda k: k)  # nearly every row skips a byte
    assert np.array_equal(projection.rows(texts).to_dense(), expected)


def test_buckets_are_exact_where_products_need_96_bits() -> None:
    words = [
        0,
        1,
        2**32 - 1,
        2**32,
        2**63,
        2**64 - 1,
        0x0123456789ABCDEF,
        *(2**64 // 7 * i for i in range(7)),
    ]
    streams = np.array([list(word.to_bytes(8, "little")) for word in words], np.uint8)
    columns, signs = np.empty((len(words), 1), np.int32), np.empty((len(words), 1), np.int8)
    for k in (1, 2, 3, 1000, 2**31 - 1):
        kernels.hashed_entries(streams, k, 0, False, columns, signs)
        assert columns[:, 0].tolist() == [word * k >> 64 for word in words]
        assert (signs == 1).all()


def test_deviates_are_finite_and_symmetric_at_the_ends_of_the_law() -> None:
    words = np.array([0, 2**64 - 1, 2**63 - 1, 2**63], dtype=np.uint64)
    lowest, highest, below, above = closed._on_grid(words, k=1, grid_bits=24).tolist()
    assert lowest == -highest
    assert 8.29 * 2**24 < highest < 8.3 * 2**24  # the bound that types and MAX_GRID_BITS rest on
    assert below == above == 0


@pytest.mark.parametrize(("k", "grid_bits"), [(1, 4), (13, 10), (256, 20), (3, 24)])
def test_gaussian_entries_are_rounded_as_the_exact_law_says(k: int, grid_bits: int) -> None:
    # The two words on either side of a border between integers: a double's last digits cannot tell many of them apart.
    words, expected = [], []
    with mpmath.workprec(200):
        for entry in np.unique(np.geomspace(1, 4 * 2**grid_bits / k**0.5, 100).astype(int)).tolist():
            border = mpmath.ncdf(-(mpmath.mpf(entry) - mpmath.mpf(1) / 2) * mpmath.sqrt(k) / 2**grid_bits)
            first = int(mpmath.ceil(border * 2**53 - mpmath.mpf(1) / 2))  # of those nearer to 0
            words += [first << 11, first - 1 << 11, 2**64 - 1 - (first << 11), 2**64 - 1 - (first - 1 << 11)]
            expected += [1 - entry, -entry, entry - 1, entry]
    found = closed._on_grid(np.array(words, dtype=np.uint64), k=k, grid_bits=grid_bits)
    assert found.astype(int).tolist() == expected


def test_sensitivity_rounds_roots_up() -> None:
    assert Sensitivity(3, 9).l2 == 3.0
    for square in (2, 3, 5, 10**15 + 1, 2**60 + 1, 3 * 2**59 + 7):
        root = Fraction(Sensitivity(1, square).l2)
        assert square < root**2 < square * (1 + Fraction(1, 2**50))


def test_projections_are_values() -> None:
    one, same = Projection("sign", 8, 1, SEED), Projection("sign", 8, 1, bytes(range(32)))
    assert one == same
    assert len({one, same}) == 1
    for stream in STREAM_VERSIONS:
        used = Projection("gaussian", 8, 1, SEED, 6, stream)
        used.rows(["tea"])
        assert pickle.loads(pickle.dumps(used)) == used  # noqa: S301 - our own bytes


@pytest.mark.parametrize("seed", [b"", bytes(31), bytes(33), "0" * 32, bytearray(32), None])
def test_a_wrong_seed_is_refused(seed: object) -> None:
    with pytest.raises(ParameterError, match="seed must be 32 bytes"):
        Projection("sign", 8, 1, seed)  # type: ignore[arg-type]


def test_a_wrong_shape_is_refused() -> None:
    with pytest.raises(ParameterError, match="blocks must divide k"):
        Projection("sparse", 8, 3, SEED)
    with pytest.raises(ParameterError, match="family must be one of"):
        Projection("fourier", 8, 1, SEED)


@pytest.mark.parametrize("attributes", [[1], [None], [b"a"], ["a\ud800"]])
def test_attributes_must_be_text(attributes: list[str]) -> None:
    with pytest.raises(ParameterError, match="attributes must be text"):
        Projection("sign", 8, 1, SEED).rows(attributes)


def test_one_text_is_not_a_list_of_attributes() -> None:
    with pytest.raises(ParameterError, match="must be a list of them, got str"):
        Projection("sign", 8, 1, SEED).rows("tea")


@every_projection
def test_the_total_is_the_sketch_of_somebody_with_all_attributes(projection: Projection) -> None:
    rows = projection.rows(["tea", "jam", "rye", "42"])
    np.testing.assert_array_equal(rows.total(), rows.to_dense().sum(axis=0))
    values = np.array([3, 0, 7, 1])
    np.testing.assert_array_equal(rows.total(values), values @ rows.to_dense())
    np.testing.assert_array_equal(rows.take(np.array([2, 0])).to_dense(), rows.to_dense()[[2, 0]])
    assert not projection.rows([]).total().any()


def test_totals_that_do_not_fit_are_refused() -> None:
    rows = PROJECTIONS[0].rows(["tea", "jam"])
    with pytest.raises(ParameterError, match="values must be as many as the rows"):
        rows.total(np.array([1]))
    with pytest.raises(ParameterError, match="small enough for 64-bit sums"):
        rows.total(np.array([2**62, 1]))
