"""The menu by name: seven projections with two noises each, randomized response, and noise on distances."""

from typing import Final, Literal, NamedTuple, get_args

from dimly.errors import ParameterError
from dimly.mechanisms.error_models import CountingError, Noise, SignedSketchError
from dimly.mechanisms.families import FAMILY_NAMES, FamilyName, family_named

Law = Literal["laplace", "gaussian"]
LAWS: Final[tuple[Law, ...]] = get_args(Law)

RANDOMIZED_RESPONSE: Final = "randomized-response"
NOISY_DISTANCES: Final = "noisy-distances"

MECHANISMS: Final[tuple[str, ...]] = (
    *(f"{family}+{law}" for family in FAMILY_NAMES for law in LAWS),
    RANDOMIZED_RESPONSE,
    NOISY_DISTANCES,
)
"""All names that a plan's mechanism can have."""

DEFAULT_BLEND: Final = 0.75
"""How far a counting sketch of bits trusts its sum, unless a plan says otherwise.

Near the best for pairs whose distance is at least about their weight, as of most pairs of people. Near pairs of heavy
people want less: docs/error-theory.md has a table."""


class Sketching(NamedTuple):
    """A projection family and the noise added to its sketches."""

    family: FamilyName
    law: Law


def sketching(mechanism: str) -> Sketching | None:
    """Return family and law of a sketching mechanism, None for the two that publish no sketches.

    Raises
    ------
    ParameterError
        If there is no such mechanism.

    Examples
    --------
    >>> sketching("counting+laplace")
    Sketching(family='counting', law='laplace')
    >>> sketching("randomized-response") is None
    True
    """
    if mechanism not in MECHANISMS:
        raise ParameterError(
            f"mechanism must be a family ({', '.join(FAMILY_NAMES)}) and a noise ({', '.join(LAWS)}) joined by '+', "
            f"{RANDOMIZED_RESPONSE} or {NOISY_DISTANCES}, got {mechanism!r}. For example: counting+laplace."
        )
    if mechanism in (RANDOMIZED_RESPONSE, NOISY_DISTANCES):
        return None
    family, law = mechanism.split("+")
    return Sketching(family, law)  # type: ignore[arg-type]  # MECHANISMS holds no other names


def default_blend(family: str, *, bits: bool) -> float | None:
    """Return how far sums are trusted; None for families whose sums tell nothing."""
    if family != "counting":
        return None
    return DEFAULT_BLEND if bits else 0.0


def sketch_error(
    family: str, *, k: int, blocks: int, noise: Noise, bits: bool, blend: float | None = None
) -> SignedSketchError | CountingError:
    """Return the error model of a family's sketches."""
    if family == "counting":
        return CountingError(k, noise, blend=blend or 0.0, bits=bits)
    return SignedSketchError(k, family_named(family).kurtosis(blocks), noise, bits=bits)
