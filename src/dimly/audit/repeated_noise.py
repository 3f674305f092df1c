"""Noise that comes twice, in a batch, a release or another process: matches that must not be.

Whoever knows what one person has can subtract it from that person's row, and is left with the noise. If the same noise
was used for another row, in the same batch, in another one or by another process, that row lies open. With fresh noise
the attacker never finds a match, and guesses nothing.
"""

import math
import subprocess
import sys
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dimly.audit.coin_trials import CoinTrials, DistanceTrials, PersonTrials, coin_source, collision_bits, numbers_of
from dimly.audit.guess_bounds import Errors
from dimly.errors import DimlyError
from dimly.mechanisms.plan_kinds import ResponsePlan

SURPRISE: Final = 96.0
"""Bits that a piece of noise carries, so that no two of them are equal by chance."""
_FEWEST: Final = 1 << 10
_MOST: Final = 1 << 17
_NUMBERS: Final = 1 << 25  # at most, in all
_LONG: Final = 1 << 16  # numbers of a row: canaries are among the first
_WORDS: Final = 64
# What this machine draws from, and what a cluster does.
_DRAW: Final = (
    "import numpy as np\n"
    "from dimly.curator.randomness import Keystream, RunSecret\n"
    f"words = np.empty({_WORDS}, np.uint64)\n"
    "for source in Keystream(), RunSecret().keystream(b'rows'):\n"
    "    source.fill(words)\n"
    "    print(words.tobytes().hex())\n"
)


def errors_by_repeats(trials: CoinTrials) -> Errors | None:
    """Return how an attacker errs who says "present" where that makes the noise one that was seen elsewhere.

    In the same batch, or in another one. Of a correct mechanism nothing ever is. None where noise is so small that
    pieces which cannot be equal by chance would not fit into memory.
    """
    if isinstance(trials, PersonTrials):
        return _of_people(trials)
    assert isinstance(trials, DistanceTrials)  # noqa: S101 - there are no others
    return _of_distances(trials)


def wanted(epsilon: float, numbers: int) -> int:
    """Return how many coins have to be guessed right, all of them, to refute ``epsilon`` clearly."""
    enough = min(max(64 * math.exp(min(epsilon, 20.0)), _FEWEST), _MOST)
    return max(16, min(math.ceil(enough), _NUMBERS // (3 * numbers)))


def _of_people(trials: PersonTrials) -> Errors | None:
    plan, canaries = trials.plan, trials.canaries
    width = plan.n_attributes if plan.by_position and plan.n_attributes else plan.published_shape(1)[1]
    each = collision_bits(plan)
    if each > 0:  # the beginning of a long row says enough
        width = min(width, max(_LONG, math.ceil(SURPRISE / each)))
    bits = width * each
    if bits * _NUMBERS < SURPRISE * 3 * 16 * trials.numbers:
        return None
    rows = max(1, math.ceil(SURPRISE / bits))
    count = wanted(plan.budget.epsilon, rows * trials.numbers)
    secret = coin_source().integers(0, 2, count).astype(bool)
    coins = np.zeros((count, 2, rows, len(canaries)), bool)  # a known piece and a hidden one, in turn
    coins[:, 1, 0, 0] = secret
    nothing = np.zeros((2 * count * rows, len(canaries)), bool)
    people = canaries.held(coins.reshape(-1, len(canaries)))
    before = numbers_of(plan, trials.perturber.perturb(canaries.held(nothing), trials.words()), first=width)
    batch = numbers_of(plan, trials.perturber.perturb(people, trials.words()), first=width)
    absent = np.zeros(width, np.int64)
    np.add.at(absent, canaries.columns, canaries.start)
    present = absent.copy()
    np.add.at(present, canaries.columns[0], canaries.moves[0])
    pieces = (batch - absent).reshape(count, 2, rows * width)
    moved = pieces[:, 1].copy()
    moved[:, :width] += absent - present
    if isinstance(plan, ResponsePlan):  # whether a bit was flipped, whatever it was
        pieces, moved = np.abs(pieces), np.abs(moved)
        before = np.abs(before - absent) + absent
    known = _bytes((before - absent).reshape(2 * count, rows * width)) | _bytes(pieces[:, 0])
    return judged(secret, known, pieces[:, 1], moved)


def _of_distances(trials: DistanceTrials) -> Errors | None:
    plan = trials.plan
    count = min(256, max(16, _NUMBERS // (8 * trials.numbers)))
    secret = coin_source().integers(0, 2, count).astype(bool)
    first = plan.n_users - 1
    if plan.published_shape(plan.n_users)[0] * collision_bits(plan) < SURPRISE:
        return None

    def noise(coin: bool) -> NDArray[np.int64]:
        found: NDArray[np.int64] = trials.perturber.perturb(trials.people(coin, careless=False), trials.words()).astype(
            np.int64
        )
        return found

    known = _bytes(noise(False)[None])
    hidden = np.stack([noise(coin) for coin in secret.tolist()])
    moved = hidden.copy()
    moved[:, :first] -= (2 if plan.unit == "column" else 1) * plan.resolution**2
    return judged(secret, known, hidden, moved)


def _bytes(pieces: NDArray[Any]) -> set[bytes]:
    return {piece.astype(np.int64).tobytes() for piece in pieces}


def judged(
    secret: NDArray[np.bool_], known: set[bytes], if_absent: NDArray[np.int64], if_present: NDArray[np.int64]
) -> Errors:
    """Say "present" where a hidden piece less what the coin adds is known noise, and the whole piece is not."""
    says = np.array(
        [
            present.tobytes() in known and absent.tobytes() not in known
            for absent, present in zip(if_absent, if_present, strict=True)
        ],
        bool,
    )
    return Errors(int((~secret).sum()), int((says & ~secret).sum()), int(secret.sum()), int((~says & secret).sum()))


def processes_draw_alike(*, prelude: str = "") -> bool:
    """Return whether two new processes draw the same random words, as a seeded generator would.

    The words of a keystream, and those of the secret that a run on a cluster gets.

    Parameters
    ----------
    prelude : str
        Code that runs first: a test puts a broken generator in.
    """
    # -P: code in the working directory is not ours.
    call = [sys.executable, "-P", "-c", prelude + _DRAW]
    # At once, so that a seed from the clock is mostly the same as well.
    both = [
        subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)  # noqa: S603 - our own code
        for _ in range(2)
    ]
    drawn = [one.communicate()[0].splitlines() for one in both]
    if any(one.returncode for one in both):
        raise DimlyError("a new process must draw random numbers, and fails. Is Dimly installed as a whole?")
    return any(first == second for first, second in zip(*drawn, strict=True))
