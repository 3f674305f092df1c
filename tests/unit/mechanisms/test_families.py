"""The table of families: sizes, scales, norms, and what is refused."""

import math
import pickle

import numpy as np
import pytest

from dimly.errors import ParameterError
from dimly.mechanisms.families import FAMILIES, FAMILY_NAMES, MAX_K, check_shape, family_named

SHAPES = {"sparse": (24, 4), "dasgupta": (24, 5)}


def test_the_table_names_every_family_once() -> None:
    assert tuple(FAMILIES) == FAMILY_NAMES
    assert all(FAMILIES[name].name == name for name in FAMILY_NAMES)
    assert all(FAMILIES[name].summary for name in FAMILY_NAMES)


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
    assert family.l1(k, blocks=blocks) == family.l2_squared(k, blocks=blocks) == norm
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
        check_shape(FAMILIES[name], k, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("blocks", [0, -1, True, 2.0])
def test_a_wrong_number_of_blocks_is_refused(blocks: object) -> None:
    with pytest.raises(ParameterError, match=r"^blocks must be an integer"):
        check_shape(FAMILIES["dasgupta"], 8, blocks)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [name for name in FAMILY_NAMES if name not in SHAPES])
def test_blocks_belong_to_two_families(name: str) -> None:
    with pytest.raises(ParameterError, match=f"blocks must be 1 for {name}, got 2"):
        check_shape(FAMILIES[name], 8, 2, grid_bits=4 if name == "gaussian" else None)


def test_blocks_of_sparse_divide_k() -> None:
    check_shape(FAMILIES["sparse"], 12, 12)
    with pytest.raises(ParameterError, match="blocks must divide k = 12 for sparse, got 5"):
        check_shape(FAMILIES["sparse"], 12, 5)
    check_shape(FAMILIES["dasgupta"], 12, 50)  # with replacement: any number


def test_counting_needs_two_coordinates() -> None:
    check_shape(FAMILIES["counting"], 2, 1)
    with pytest.raises(ParameterError, match="at least 2 for counting"):
        check_shape(FAMILIES["counting"], 1, 1)


@pytest.mark.parametrize("name", [name for name in FAMILY_NAMES if name != "gaussian"])
def test_a_grid_belongs_to_gaussian(name: str) -> None:
    with pytest.raises(ParameterError, match=f"grid_bits must be None for {name}, got 8"):
        check_shape(FAMILIES[name], 8, 1, grid_bits=8)


def test_gaussian_needs_a_grid() -> None:
    with pytest.raises(ParameterError, match="grid_bits must be 1 to 24 for gaussian, got None"):
        check_shape(FAMILIES["gaussian"], 8, 1)


@pytest.mark.parametrize("grid_bits", [0, 25, -3, 2.5, True])
def test_a_wrong_grid_is_refused(grid_bits: object) -> None:
    with pytest.raises(ParameterError, match=r"^grid_bits must be an integer"):
        check_shape(FAMILIES["gaussian"], 8, 1, grid_bits=grid_bits)  # type: ignore[arg-type]


def test_a_grid_too_coarse_for_k_is_refused() -> None:
    check_shape(FAMILIES["gaussian"], 256, 1, grid_bits=4)
    with pytest.raises(ParameterError, match=r"4\^grid_bits ≥ k = 257, got 4"):
        check_shape(FAMILIES["gaussian"], 257, 1, grid_bits=4)


def test_numpy_integers_are_integers() -> None:
    check_shape(FAMILIES["sparse"], np.int32(12), np.uint8(4))  # type: ignore[arg-type]
