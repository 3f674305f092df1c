"""The seven projection families: what a row looks like, its scale, its norms, its error.

Each family is a random integer matrix P times one public scale, so that a sketch X·P of integer data is
exact. A row belongs to one attribute; what one attribute can move a sketch by is the norm of its row (the
paper's Definition 2).
"""

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, get_args

from dimly.errors import ParameterError

FamilyName = Literal["counting", "hashing", "sparse", "dasgupta", "sign", "ternary", "gaussian"]
FAMILY_NAMES: Final[tuple[FamilyName, ...]] = get_args(FamilyName)

MAX_K: Final = 2**31 - 1
"""Column numbers are stored as signed 32-bit integers."""

MAX_GRID_BITS: Final = 24
"""No normal deviate of 53 bits exceeds 8.3, so on a grid of 2^-24 an entry stays below 2^28: it fits 32 bits,
its row's squared norm (below 69 · 4^24) fits 64, and so do sums of 2^35 of them."""


@dataclass(frozen=True, slots=True)
class Family:
    """One family of projections.

    Attributes
    ----------
    name : str
        How plans spell it, and the bytes that enter the stream of P.
    summary : str
        One line for menus and reports.
    layout : {"hashed", "dense"}
        Hashed rows hold one ±1 for each block; dense rows hold k entries.
    open_vocabulary : bool
        Whether every possible row has the same norms. If not, the sensitivity is a maximum over a
        public vocabulary, and there must be one.
    signed : bool
        Whether entries have mean zero. If not (``counting``), the analyst centers sketches.
    has_blocks : bool
        Whether ``blocks`` may differ from 1.

    Examples
    --------
    >>> FAMILIES["sparse"].scale(256, blocks=4)
    0.5
    >>> FAMILIES["sign"].l1(256), FAMILIES["ternary"].l1(256)
    (256, None)
    """

    name: FamilyName
    summary: str
    layout: Literal["hashed", "dense"]
    open_vocabulary: bool
    signed: bool
    has_blocks: bool
    _scale: Callable[[int, int, int], float]
    _kurtosis: Callable[[int], float]

    def scale(self, k: int, *, blocks: int = 1, grid_bits: int | None = None) -> float:
        """Return the factor that turns an integer row into one of expected squared norm 1."""
        check_shape(self, k, blocks, grid_bits=grid_bits)
        return self._scale(k, blocks, grid_bits or 0)

    def kurtosis(self, blocks: int = 1) -> float:
        """Return κ of V_P = (2r⁴ + (κ − 3)‖z‖₄⁴)/k, the variance of a projected squared distance.

        For ``counting`` after centering, with k − 1 in the place of k. ``dasgupta`` spreads each
        attribute over s copies worth z/√s that are hashed independently of each other: ‖z‖₄⁴ shrinks by s.
        """
        return self._kurtosis(blocks)

    def entries(self, k: int, *, blocks: int = 1) -> int:
        """Return how many coordinates one attribute touches at most: 1, s or k."""
        return k if self.layout == "dense" else blocks

    def l1(self, k: int, *, blocks: int = 1) -> int | None:
        """Return the ℓ₁ norm of every integer row, or None where rows differ from each other."""
        return self.entries(k, blocks=blocks) if self.open_vocabulary else None

    def l2_squared(self, k: int, *, blocks: int = 1) -> int | None:
        """Return the squared ℓ₂ norm of every integer row, or None where rows differ from each other."""
        return self.l1(k, blocks=blocks)  # every entry that an open family touches is ±1


def _unit(_k: int, _blocks: int, _bits: int) -> float:
    return 1.0


def _per_block(_k: int, blocks: int, _bits: int) -> float:
    return 1.0 / math.sqrt(blocks)


def _per_entry(k: int, _blocks: int, _bits: int) -> float:
    return 1.0 / math.sqrt(k)


def _ternary_scale(k: int, _blocks: int, _bits: int) -> float:
    return math.sqrt(3.0 / k)


def _gaussian_scale(k: int, _blocks: int, bits: int) -> float:
    # Rounding to a grid of 2^-b adds 4^-b/12 to the variance 1/k of an entry.
    return 2.0**-bits / math.sqrt(1.0 + k * 4.0**-bits / 12.0)


def _one(_blocks: int) -> float:
    return 1.0


def _three(_blocks: int) -> float:
    return 3.0


def _with_replacement(blocks: int) -> float:
    return 3.0 - 2.0 / blocks


FAMILIES: Final[Mapping[str, Family]] = MappingProxyType(
    {
        family.name: family
        for family in (
            Family(
                name="counting",
                summary="one +1 in k; the analyst centers, and the sum of a sketch is a person's weight",
                layout="hashed",
                open_vocabulary=True,
                signed=False,
                has_blocks=False,
                _scale=_unit,
                _kurtosis=_one,
            ),
            Family(
                name="hashing",
                summary="one ±1 in k (CountSketch)",
                layout="hashed",
                open_vocabulary=True,
                signed=True,
                has_blocks=False,
                _scale=_unit,
                _kurtosis=_one,
            ),
            Family(
                name="sparse",
                summary="one ±1 in each of s blocks (Kane–Nelson)",
                layout="hashed",
                open_vocabulary=True,
                signed=True,
                has_blocks=True,
                _scale=_per_block,
                _kurtosis=_one,
            ),
            Family(
                name="dasgupta",
                summary="s of ±1 in k, with replacement (Dasgupta, Kumar, Sarlós)",
                layout="hashed",
                open_vocabulary=False,
                signed=True,
                has_blocks=True,
                _scale=_per_block,
                _kurtosis=_with_replacement,
            ),
            Family(
                name="sign",
                summary="k of ±1 (Achlioptas)",
                layout="dense",
                open_vocabulary=True,
                signed=True,
                has_blocks=False,
                _scale=_per_entry,
                _kurtosis=_one,
            ),
            Family(
                name="ternary",
                summary="k of +1, 0, −1 with probabilities 1/6, 2/3, 1/6 (Achlioptas)",
                layout="dense",
                open_vocabulary=False,
                signed=True,
                has_blocks=False,
                _scale=_ternary_scale,
                _kurtosis=_three,
            ),
            Family(
                name="gaussian",
                summary="k normal deviates of variance 1/k on a grid of 2^-b (the paper's)",
                layout="dense",
                open_vocabulary=False,
                signed=True,
                has_blocks=False,
                _scale=_gaussian_scale,
                _kurtosis=_three,
            ),
        )
    }
)
"""The seven families by name."""


def family_named(name: str) -> Family:
    """Return the family of that name, or refuse.

    Examples
    --------
    >>> family_named("hashing").open_vocabulary
    True
    """
    try:
        return FAMILIES[name]
    except (KeyError, TypeError):
        raise ParameterError(f"family must be one of {', '.join(FAMILIES)}, got {name!r}.") from None


def check_shape(family: Family, k: int, blocks: int, *, grid_bits: int | None = None) -> None:
    """Refuse a size that a family cannot have.

    Parameters
    ----------
    family : Family
    k : int
        Coordinates of a sketch: 1 to 2³¹ − 1, and at least 2 for ``counting``.
    blocks : int
        1, except for ``sparse`` (a divisor of k) and ``dasgupta``.
    grid_bits : int, optional
        For ``gaussian`` only, and there needed: 1 to 24, with 4^grid_bits ≥ k.

    Raises
    ------
    ParameterError
        Naming the parameter, the range and the value.
    """
    _check_integer("k", k, 1, MAX_K)
    _check_integer("blocks", blocks, 1, MAX_K)
    if family.name == "counting" and k < 2:
        raise ParameterError("k must be at least 2 for counting, got 1. Centering leaves k − 1 coordinates.")
    if blocks != 1 and not family.has_blocks:
        raise ParameterError(f"blocks must be 1 for {family.name}, got {blocks}. Only sparse and dasgupta have blocks.")
    if family.name == "sparse" and k % blocks:
        raise ParameterError(f"blocks must divide k = {k} for sparse, got {blocks}. Choose k as a multiple of it.")
    if family.name != "gaussian":
        if grid_bits is not None:
            raise ParameterError(
                f"grid_bits must be None for {family.name}, got {grid_bits!r}. Only gaussian has a grid."
            )
        return
    if grid_bits is None:
        raise ParameterError(f"grid_bits must be 1 to {MAX_GRID_BITS} for gaussian, got None.")
    _check_integer("grid_bits", grid_bits, 1, MAX_GRID_BITS)
    if 4**grid_bits < k:
        # Sheppard's correction 1/12, on which the scale rests, is exact to 1e-7 from one grid step up.
        raise ParameterError(
            f"grid_bits must satisfy 4^grid_bits ≥ k = {k}, got {grid_bits}. "
            "Entries of standard deviation below one step of the grid are mostly zero: use a finer grid."
        )


def _check_integer(name: str, value: int, low: int, high: int) -> None:
    try:
        number = operator.index(value)
    except TypeError:
        raise ParameterError(f"{name} must be an integer, got {value!r}.") from None
    if isinstance(value, bool) or not low <= number <= high:
        raise ParameterError(f"{name} must be an integer from {low} to {high}, got {value!r}.")
