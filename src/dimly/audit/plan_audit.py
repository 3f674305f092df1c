"""``audit_plan``: all checks of a plan and what they prove; judges of guesses and of Gaussian noise."""

import math
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from dimly.audit.coin_trials import CoinTrials, ScoredCoins, Words, trials_of
from dimly.audit.exact_tables import check_tables
from dimly.audit.guess_bounds import (
    Errors,
    Guesses,
    delta_from_errors,
    delta_from_separation,
    epsilon_from_errors,
    epsilon_from_guesses,
    epsilon_from_separation,
    separation_from_errors,
)
from dimly.audit.guessing_rules import best_rule, best_test, erred
from dimly.audit.noise_law import NoiseComparison, dependence_drawn
from dimly.audit.repeated_noise import errors_by_repeats, processes_draw_alike
from dimly.curator.options import Progress, Resources, Silence
from dimly.curator.randomness import Keystream
from dimly.errors import ParameterError
from dimly.mechanisms.plan import Plan

FALSE_ALARM: Final = 1e-6
"""How often an audit of a correct mechanism may say that its claim is false."""
_NUMBERS: Final = 1 << 25
_LAW: Final = 1 << 28  # numbers of noise that are compared with their law, which is quick
_THOROUGH: Final = 1 << 34
_ROUNDS: Final = 512  # of a thorough audit, each as large as another's whole one: after any of them it can be stopped
_PILOT: Final = 1 << 21  # coins by which the attacker decides what to guess
_NO_ERRORS: Final = Errors(0, 0, 0, 0)


class Check(NamedTuple):
    """One thing that was tried."""

    name: str
    words: str
    """What came out, in a sentence."""
    epsilon_lower_bound: float
    trials: int
    failed: bool = False
    """Whether it refutes the claim by itself, as an exact check does."""
    delta_lower_bound: float = 0.0
    """At the claimed ε."""


@dataclass(frozen=True)
class Audit:
    """What an audit found. The bound holds with the stated confidence; it proves no upper bound."""

    claimed_epsilon: float
    claimed_delta: float
    confidence: float
    checks: tuple[Check, ...]
    stopped_early: bool = False
    """Whether an interrupt ended a thorough audit, so that this is what was found until then."""

    @property
    def epsilon_lower_bound(self) -> float:
        """The largest ε that was refuted by any check: the true one is at least this."""
        return max((check.epsilon_lower_bound for check in self.checks), default=0.0)

    @property
    def delta_lower_bound(self) -> float:
        """The largest δ that was refuted at the claimed ε: the true one is at least this."""
        return max((check.delta_lower_bound for check in self.checks), default=0.0)

    @property
    def trials(self) -> int:
        """How many coins were tossed."""
        return sum(check.trials for check in self.checks)

    @property
    def contradicts(self) -> bool:
        """Whether the claim was found to be false."""
        return (
            self.epsilon_lower_bound > self.claimed_epsilon
            or self.delta_lower_bound > self.claimed_delta
            or any(check.failed for check in self.checks)
        )

    @property
    def verdict(self) -> str:
        """What came out, in one sentence."""
        end = "THIS CONTRADICTS THE CLAIM" if self.contradicts else "nothing contradicts it"
        return f"claimed {self.claimed_epsilon:g}, at least {floored(self.epsilon_lower_bound)} seen, {end}"

    @property
    def delta_words(self) -> str | None:
        """The same of δ, at the claimed ε; None where it was neither claimed nor seen."""
        if not (self.claimed_delta or self.delta_lower_bound):
            return None
        return f"claimed {self.claimed_delta:g} at that epsilon, at least {floored_small(self.delta_lower_bound)} seen"

    @property
    def figures(self) -> dict[str, Any]:
        """What was claimed and what was seen, in six numbers."""
        return {
            "claimed_epsilon": self.claimed_epsilon,
            "claimed_delta": self.claimed_delta,
            "epsilon_lower_bound": self.epsilon_lower_bound,
            "delta_lower_bound": self.delta_lower_bound,
            "confidence": self.confidence,
            "trials": self.trials,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return figures, verdict and checks, ready for JSON: an exact check can fail whatever the bound is."""
        return self.figures | {
            "contradicts": self.contradicts,
            "stopped_early": self.stopped_early,
            "checks": [check._asdict() for check in self.checks],
        }


def floored(bound: float) -> str:
    """Return a lower bound with two digits, rounded down.

    Examples
    --------
    >>> floored(0.9999), floored(3.051)
    ('0.99', '3.05')
    """
    return f"{math.floor(100 * bound + 1e-9) / 100:.2f}"


def floored_small(bound: float) -> str:
    """Return a small lower bound with two significant digits, rounded down.

    Examples
    --------
    >>> floored_small(9.79e-07), floored_small(0.0)
    ('9.7e-07', '0')
    """
    if bound <= 0:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(bound)) - 1)
    return f"{math.floor(bound / unit + 1e-9) * unit:.2g}"


def audit_plan(
    plan: Plan,
    *,
    vocabulary: Iterable[object] | None = None,
    thorough: bool = False,
    numbers: int | None = None,
    threads: int | None = None,
    false_alarm: float = FALSE_ALARM,
    words: Words = Keystream,
    processes: bool = True,
    progress: Progress | None = None,
) -> Audit:
    """Attack what a plan claims, by its own perturbing function, and return how much ε is seen.

    Coins say which of the worst neighbors is published: an attribute of an invented person whose row of the projection
    is the longest. An attacker who knows the mechanism and all other attributes guesses the coins by the likelihood
    ratio, and is silent where that says little; when to be silent is decided on draws of their own. No private data is
    touched, and nothing is charged.

    A thorough audit that is interrupted (Ctrl-C) returns what it has found so far, if that is as much as an ordinary
    one would have. The bounds hold then as well: nobody has seen what was guessed when the interrupt came.

    Parameters
    ----------
    plan : Plan
        With its directions, if it names some.
    vocabulary : iterable, optional
        The list that the plan was made with; needed where rows of the projection differ in length.
    thorough : bool, default=False
        512 times as many draws: about an hour instead of seconds.
    numbers : int, optional
        Random numbers to draw instead.
    threads : int, optional
        All cores by default.
    false_alarm : float, default=1e-6
        How often the audit of a correct mechanism may contradict its claim.
    words : callable
        For tests: where noise comes from.
    processes : bool, default=True
        Whether to start two new processes and compare what they draw.
    progress : Progress, optional

    Raises
    ------
    ParameterError
        If the vocabulary or the directions are missing, or the rate is no rate.

    Examples
    --------
    >>> from dimly.privacy import Budget
    >>> plan = Plan.of("counting+laplace", Budget(1.0), k=16, seed=bytes(32))
    >>> found = audit_plan(plan, numbers=1 << 18, processes=False)
    >>> found.contradicts, found.epsilon_lower_bound > 0.8
    (False, True)
    """
    if not 0 < false_alarm < 0.5:
        raise ParameterError(f"false_alarm must be between 0 and 1/2, got {false_alarm!r}.")
    watcher = Silence() if progress is None else progress
    watcher.phase("checking tables")
    trials = trials_of(plan, vocabulary=vocabulary, words=words)
    workers = Resources.of(threads=threads).threads
    total = (_THOROUGH if thorough else _NUMBERS) if numbers is None else numbers
    share = false_alarm / 5  # of each of the five attacks
    tables = _exact(plan)
    watcher.phase("guessing: repeated noise")
    repeats = _repeats(trials, plan, share)
    watcher.phase("looking for correlation")
    wrong, drawn = dependence_drawn(trials, plan, numbers=total, false_alarm=share)
    once = [dependence_check(wrong, drawn), *([_processes()] if processes else [])]
    watcher.phase("drawing")
    draws = max(16, total // 2 // trials.numbers)
    of_law = max(1, max(total, min(8 * total, _LAW)) // trials.numbers)
    watcher.start(2 * draws + of_law)
    likelihood, repeated_rows = (
        GuessingAttack(trials, plan, name, careless=careless, draws=draws, false_alarm=share)
        for careless, name in ((False, "likelihood"), (True, "repeated rows"))
    )
    law = NoiseComparison(trials, plan, false_alarm=share)
    rounds = min(_ROUNDS, draws) if thorough else 1
    done = 0
    try:
        for done in range(rounds):
            likelihood.draw(piece_of(draws, done, rounds), workers, watcher)
            repeated_rows.draw(piece_of(draws, done, rounds), workers, watcher)
            law.draw(piece_of(of_law, done, rounds), watcher)
        done = rounds
    except KeyboardInterrupt:
        if done == 0:
            raise
    wrong, drawn = law.result()
    checks = (tables, likelihood.check(), repeated_rows.check(), repeats, law_check(wrong, drawn), *once)
    return Audit(plan.cost.epsilon, plan.cost.delta, 1 - false_alarm, checks, stopped_early=done < rounds)


def piece_of(total: int, index: int, pieces: int) -> int:
    """Return the size of one of so many nearly equal pieces.

    Examples
    --------
    >>> [piece_of(10, i, 4) for i in range(4)]
    [2, 3, 2, 3]
    """
    return total * (index + 1) // pieces - total * index // pieces


def _exact(plan: Plan) -> Check:
    wrong = check_tables(plan)
    words = "the tables that noise is drawn from keep the promise, in exact arithmetic" if wrong is None else wrong
    return Check("tables", words, 0.0, 0, failed=wrong is not None)


def _processes() -> Check:
    alike = processes_draw_alike()
    words = "new processes draw the same random numbers" if alike else "new processes draw other random numbers"
    return Check("processes", words, 0.0, 0, failed=alike)


def law_check(wrong: str | None, drawn: int) -> Check:
    """Return what a comparison of noise with the plan's law has shown."""
    words = (
        f"{drawn:,} numbers of noise follow the plan's distribution, rare values included" if wrong is None else wrong
    )
    return Check("law of the noise", words, 0.0, 0, failed=wrong is not None)


def dependence_check(wrong: str | None, drawn: int) -> Check:
    """Return what a search for noise that goes with noise has shown."""
    words = f"none among {drawn:,} numbers of noise, at any distance" if wrong is None else wrong
    return Check("correlation", words, 0.0, 0, failed=wrong is not None)


def _repeats(trials: CoinTrials, plan: Plan, false_alarm: float) -> Check:
    errors = errors_by_repeats(trials)
    if errors is None:
        words = "not looked for: at this epsilon there is so little noise that equal pieces prove nothing"
        return Check("repeated noise", words, 0.0, 0)
    return repeats_check(errors, plan, false_alarm)


def repeats_check(errors: Errors, plan: Plan, false_alarm: float) -> Check:
    """Return what a search for noise that comes twice has shown.

    A single piece that comes twice is proof, whatever the bound on epsilon: fresh noise repeats 96 bits with a
    probability of less than 1e-17 in all pairs together.
    """
    bound = epsilon_from_errors(errors, delta=plan.cost.delta, false_alarm=false_alarm)
    found = errors.misses < errors.present or errors.false_alarms > 0
    words = "noise was found twice" if found else "no noise was found twice"
    return Check("repeated noise", words, bound, errors.absent + errors.present, failed=found)


class GuessingAttack:
    """Guesses the coins of draws, in as many pieces as one likes, by rules that draws of their own have decided."""

    def __init__(
        self, trials: CoinTrials, plan: Plan, name: str, *, careless: bool, draws: int, false_alarm: float
    ) -> None:
        self._trials, self._name, self._careless = trials, name, careless
        pilot = min(draws // 4, trials.draws_at_once, -(-_PILOT // trials.coins_in_a_draw))
        known, scale = trials.seen(pilot, careless=careless), draws / pilot
        self._judge: CoinJudge = (
            GaussianJudge(known, plan, false_alarm=false_alarm, scale=scale)
            if plan.cost.delta > 0
            else GuessJudge(known, false_alarm=false_alarm, scale=scale)
        )

    def draw(self, draws: int, workers: int, watcher: Progress) -> None:
        """Guess the coins of so many further draws."""
        at_once = self._trials.draws_at_once
        steps = [min(at_once, draws - start) for start in range(0, draws, at_once)]
        with ThreadPoolExecutor(workers) as pool:
            seen = pool.map(lambda step: self._judge.counted(self._trials.seen(step, careless=self._careless)), steps)
            for step, counts in zip(steps, seen, strict=True):
                self._judge.add(counts)
                watcher.advance(step)

    def check(self) -> Check:
        """Return what all guesses together prove."""
        return self._judge.check(self._name)


class CoinJudge(Protocol):
    """Counts how coins were called, piece by piece, and says what that proves."""

    def counted(self, seen: ScoredCoins) -> Any:
        """Call these coins, and count."""

    def add(self, counts: Any) -> None:
        """Take what was counted into the sum."""

    def check(self, name: str) -> Check:
        """Return what all calls together prove."""


class GuessJudge:
    """What guesses prove where δ = 0."""

    def __init__(self, pilot: ScoredCoins, *, false_alarm: float, scale: float) -> None:
        self._false_alarm = false_alarm
        self._rule = best_rule(pilot, false_alarm=false_alarm, scale=scale)
        self._guesses = Guesses(0, 0, 0)

    def counted(self, seen: ScoredCoins) -> Guesses:
        """Guess these coins, and count."""
        return self._rule.guesses(seen)

    def add(self, counts: Guesses) -> None:
        """Take what was counted into the sum."""
        self._guesses += counts

    def check(self, name: str) -> Check:
        """Return what all guesses together prove."""
        guesses = self._guesses
        said = f"{guesses.right:,} of {guesses.made:,} guesses were right"
        if self._rule.frequencies is not None:
            said += ", by how often each number was seen"
        return Check(name, said, epsilon_from_guesses(guesses, false_alarm=self._false_alarm), guesses.trials)


class GaussianJudge:
    """What guesses prove where noise is Gaussian: of independent coins, each with one call by each of three tests.

    The first takes the noise to be Gaussian, as the plan says, and bounds ε and δ together, by one number. The others
    take coins to be independent and nothing else; one is for ε at the plan's δ, and one for δ at the plan's ε.
    """

    def __init__(self, pilot: ScoredCoins, plan: Plan, *, false_alarm: float, scale: float) -> None:
        self._epsilon, self._delta = plan.cost.epsilon, plan.cost.delta
        self._half, self._quarter = false_alarm / 2, false_alarm / 4
        self._tests = tuple(best_test(pilot, bound, scale=scale) for bound in (self._epsilon_of, self._delta_of))
        self._errors: tuple[Errors, ...] = (_NO_ERRORS,) * 3

    def _epsilon_of(self, errors: Errors) -> float:
        return epsilon_from_errors(errors, delta=self._delta, false_alarm=self._quarter)

    def _delta_of(self, errors: Errors) -> float:
        return delta_from_errors(errors, epsilon=self._epsilon, false_alarm=self._quarter)

    def counted(self, seen: ScoredCoins) -> tuple[Errors, ...]:
        """Call these coins by each test, and count what was wrong."""
        return (erred(seen), *(test.errors(seen) for test in self._tests))

    def add(self, counts: tuple[Errors, ...]) -> None:
        """Take what was counted into the sum."""
        self._errors = tuple(a + b for a, b in zip(self._errors, counts, strict=True))

    def check(self, name: str) -> Check:
        """Return what all calls together prove."""
        errors, of_epsilon, of_delta = self._errors
        separation = separation_from_errors(errors, false_alarm=self._half)
        epsilon = epsilon_from_separation(separation, delta=self._delta)
        delta = max(delta_from_separation(separation, epsilon=self._epsilon), self._delta_of(of_delta))
        said = f"one unit shows by at least {separation:.4g} standard deviations of the noise"
        if (counted := self._epsilon_of(of_epsilon)) > epsilon:
            hits = of_epsilon.present - of_epsilon.misses
            epsilon, said = counted, f"{hits:,} of {hits + of_epsilon.false_alarms:,} guesses of one side were right"
        return Check(name, said, epsilon, errors.absent + errors.present, delta_lower_bound=delta)
