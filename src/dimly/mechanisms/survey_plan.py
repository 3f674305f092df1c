"""`SurveyPlan`: topics that a survey asks, each with its noise and its share of the budget, rounded safely.

Every answer is a list of counts that one attribute of one person moves by little, so that little noise hides it:

========== =============================================================== ====================== ==================
question   counts                                                          one attribute moves    noise
========== =============================================================== ====================== ==================
counts     people who have each attribute of a public list                 one of them by 1       discrete Laplace
vocabulary the same for attributes that no list names, where many have it  one of them by 1       a random threshold
profiles   the same within each segment of a public division of people     one of them by 1       discrete Laplace
weights    people with at most b attributes, at public boundaries b        one of them by 1       discrete Laplace
distances  pairs of people at most b apart, at public boundaries b         one of them by 1       discrete Laplace
directions people who have both of two attributes, of at most W each       2(W − 1) of them by 1  rounded Gaussian
           (or of two hash buckets of attributes)
========== =============================================================== ====================== ==================

The promise of unit "column" moves two attributes at a time, and everything but the last by twice as much.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from numbers import Real
from typing import Annotated, Any, Final, Literal, Self, get_args

from pydantic import BaseModel, Field, model_validator

from dimly.errors import ParameterError, as_integer, check_choice
from dimly.mechanisms.group_privacy import budget_together
from dimly.mechanisms.make import MAX_RESOLUTION, MAX_TOGETHER, calibrated_sigma, public_seed
from dimly.mechanisms.noise.gaussian import RoundedGaussian
from dimly.mechanisms.noise.laplace import DiscreteLaplace
from dimly.mechanisms.noise.name_threshold import RandomThreshold
from dimly.mechanisms.plan_parts import STRICT
from dimly.privacy import UNITS, VALUES_MOVED, Budget, Cost, Unit
from dimly.privacy.budget import stated, stated_below

Topic = Literal["vocabulary", "counts", "weights", "distances", "profiles", "directions"]
MAX_MEMBERS: Final = 10_000
TOPICS: Final[tuple[Topic, ...]] = get_args(Topic)
SPENDS_DELTA: Final = frozenset({"vocabulary", "directions"})
"""Questions that cannot be answered with δ = 0."""
NEEDS_ROSTER: Final = frozenset({"weights", "distances", "directions"})
"""Questions about everybody: who is there must not follow from the attributes that are asked about."""

LEAST_BUCKETS: Final = 64
MOST_BUCKETS: Final = 1 << 16
MEMBERS: Final = 150
"""Attributes of a person that count for directions, unless stated: the more, the more they tell, and the more noise."""
_SELECTING: Final = Fraction(1, 10)
_COUNTING, _LEARNING = Fraction(1, 10), Fraction(3, 10)
_TESTING: Final = Fraction(8, 10)
_LEAST_TESTING: Final = Fraction(5, 10_000)  # below which its table would be too long
_STEPS: Final = 8


class Share(BaseModel):
    """One question, and what its answer may cost."""

    model_config = STRICT

    topic: Topic
    epsilon: float
    delta: float = 0.0

    @property
    def budget(self) -> Budget:
        """What the answer may cost."""
        return Budget(self.epsilon, self.delta)


class SurveyPlan(BaseModel):
    """What is asked, at which shares, in which unit. Frozen, public and signed by its digest. Make one with :meth:`of`.

    Attributes
    ----------
    epsilon, delta : float
        What the whole survey costs: at least the sum of its shares, in exact decimals.
    unit : {"attribute", "column"}
    resolution : int
        1 for bits; else values in [0, 1] count in steps of 1/resolution for distances, and as an attribute if they are
        more than half a step.
    shares : tuple of Share
    seed : str
        Public, in hexadecimal: the order of the roster by which people are paired is keyed by it.
    release : str or None
        Of profiles: the release whose segments divide the people.
    members : int or None
        Of directions: W, how many attributes, or buckets, of a person count at most.
    buckets : int or None
        Of directions: into how many hash buckets attributes are put, keyed by the seed; None: into none.
    protect : int or None
        How many units of a person the budget was divided for: a promise for any so many together follows.

    Examples
    --------
    >>> plan = SurveyPlan.of(Budget(0.05), ["counts", "weights", "distances"])
    >>> [(share.topic, share.epsilon) for share in plan.shares]
    [('counts', 0.0166666), ('weights', 0.0166666), ('distances', 0.0166666)]
    >>> plan.cost.epsilon, plan.cost.delta
    (0.05, 0.0)
    """

    model_config = STRICT

    survey: Literal[1] = 1
    epsilon: float
    delta: float = 0.0
    unit: Unit = "attribute"
    resolution: Annotated[int, Field(ge=1, le=MAX_RESOLUTION)] = 1
    shares: tuple[Share, ...]
    seed: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    release: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    members: Annotated[int, Field(ge=2, le=MAX_MEMBERS)] | None = None
    buckets: Annotated[int, Field(ge=LEAST_BUCKETS, le=MOST_BUCKETS)] | None = None
    protect: Annotated[int, Field(ge=2, le=MAX_TOGETHER)] | None = None

    @classmethod
    def of(
        cls,
        budget: Budget,
        ask: Iterable[str],
        *,
        share: Mapping[str, float] | None = None,
        unit: Unit = "attribute",
        resolution: int = 1,
        seed: bytes | str | None = None,
        release: str | None = None,
        members: int | None = None,
        buckets: int | None = None,
        protect: int = 1,
    ) -> Self:
        """Return a survey of some questions that keeps within ``budget``.

        Parameters
        ----------
        budget : Budget
            Of all answers together.
        ask : iterable of {"vocabulary", "counts", "weights", "distances", "profiles"}
            At least one, each once.
        share : mapping of question to number, optional
            How the budget is divided: in proportion to these numbers; 1 for a question that is not named. δ is divided
            among the questions that need it, alike.
        unit, resolution, seed
            As of a plan.
        release : str, optional
            Of profiles, which are asked for alone: the id of the release whose segments divide the people.
        members : int, optional
            Of directions, which are asked for alone: how many attributes of a person count at most; 150 by default.
        buckets : int, optional
            Of directions: put attributes into so many hash buckets, and count pairs of these; 64 to 65,536.
        protect : int, default=1
            The plan says what any so many units of a person cost together, too; ``budget`` is of one of them.

        Raises
        ------
        ParameterError
            If a question does not exist, comes twice, or cannot be answered within its share.
        """
        check_budget(budget)
        check_choice("unit", unit, UNITS)
        topics = _topics(ask)
        if (topics == ["profiles"]) != (release is not None) or ("profiles" in topics and len(topics) > 1):
            raise ParameterError(
                "profiles must be asked for alone, and by the segments of a release. Add by=FILE (--by FILE)."
            )
        if "directions" in topics and len(topics) > 1:
            raise ParameterError(
                "directions must be asked for alone, because they have a file of their own. Pass "
                "ask='directions' (--ask directions), and ask for the rest in another survey."
            )
        if members is not None and topics != ["directions"]:
            raise ParameterError("members must be given for directions only. Leave it out.")
        if buckets is not None:
            if topics != ["directions"]:
                raise ParameterError("buckets must be given for directions only. Leave it out.")
            buckets = as_integer("buckets", buckets, LEAST_BUCKETS, MOST_BUCKETS)
        if topics == ["directions"]:
            members = as_integer("members", MEMBERS if members is None else members, 2, MAX_MEMBERS)
        parts = _parts(topics, {} if share is None else share)
        spending = [topic for topic in topics if topic in SPENDS_DELTA]
        if spending == ["directions"] and budget.is_pure:
            raise ParameterError(
                "delta must be > 0 to ask for directions, got 0: the noise on pairs of attributes is Gaussian. Add "
                "a delta (--delta), well below 1 / number of people."
            )
        if spending and budget.is_pure:
            raise ParameterError(
                f"delta must be > 0 to ask for {spending[0]}, got 0: whether a name is shown that only one person has "
                "would give them away. Add a delta (--delta), well below 1 / number of people, or give the public list "
                "of attributes as vocabulary (--vocabulary) and ask for counts."
            )
        shares = tuple(
            Share(
                topic=topic,
                epsilon=stated_below(stated(budget.epsilon) * part),
                delta=stated_below(stated(budget.delta) / len(spending)) if topic in spending else 0.0,
            )
            for topic, part in parts.items()
        )
        made = cls(
            epsilon=budget.epsilon,
            delta=budget.delta if spending else 0.0,
            unit=unit,
            resolution=as_integer("resolution", resolution, 1, MAX_RESOLUTION),
            shares=shares,
            seed=public_seed(seed).hex(),
            release=release,
            members=members,
            buckets=buckets,
            protect=None if (together := as_integer("protect", protect, 1, MAX_TOGETHER)) == 1 else together,
        )
        for topic in topics:
            made.noise(topic)  # which is proven as it is made
        return made

    @model_validator(mode="after")
    def _within(self) -> Self:
        _ = self.together  # which refuses so many that nothing would be promised
        if self.unit not in UNITS or not self.shares or len({one.topic for one in self.shares}) < len(self.shares):
            raise ValueError("a survey must ask at least one question, and each once")
        if ("profiles" in self.topics) != (self.release is not None):
            raise ValueError("profiles must name the release whose segments they are of")
        if ("directions" in self.topics) != (self.members is not None):
            raise ValueError("directions must say how many attributes of a person count")
        if self.buckets is not None and "directions" not in self.topics:
            raise ValueError("buckets must be of directions")
        for name in ("epsilon", "delta"):
            if sum((stated(getattr(one, name)) for one in self.shares), Fraction(0)) > stated(getattr(self, name)):
                raise ValueError(f"shares must not add up to more than {name}")
        return self

    @property
    def topics(self) -> tuple[Topic, ...]:
        """What is asked, in order."""
        return tuple(one.topic for one in self.shares)

    @property
    def cost(self) -> Cost:
        """What a ledger is charged."""
        return Cost(self.epsilon, self.delta, unit=self.unit, together=self.protect or 1)

    @property
    def together(self) -> Budget | None:
        """What any ``protect`` units of a person cost together, at most; None where nothing is said of several."""
        budget = Budget(self.epsilon, self.delta)
        return None if self.protect is None else budget_together(budget, self.protect)

    @property
    def digest(self) -> str:
        """SHA-256 of the JSON with sorted keys and no spaces."""
        canonical = json.dumps(self.fields(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    def fields(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return self.model_dump(mode="json", exclude_none=True)  # so that later fields change no old digest

    def share_of(self, topic: str) -> Share:
        """Return the share of a question that is asked."""
        return next(one for one in self.shares if one.topic == topic)

    @property
    def moved(self) -> int:
        """How many counts of one answer a unit moves by one step; the ℓ₁ sensitivity of every answer."""
        return VALUES_MOVED[self.unit]

    @property
    def selecting(self) -> Budget:
        """Of directions, the first step: what it costs to count each attribute, and so find the frequent ones."""
        return Budget(stated_below(stated(self.epsilon) * _SELECTING))

    def testing(self, size: int) -> Budget:
        """Of directions, the second step: what it costs to see whether pairs of ``size`` attributes tell anything.

        The noise of all pairs grows with √size, and that of the test may, too.
        """
        whole = stated(self.epsilon)
        wanted = max(whole * _TESTING / max(1, math.isqrt(size)), _LEAST_TESTING)
        return Budget(stated_below(min(whole * _SELECTING, wanted)))

    def spent(self, *steps: Budget) -> Cost:
        """Return what some pure steps cost together: what is charged if no other follows."""
        total = sum((stated(one.epsilon) for one in steps), Fraction(0))
        number = float(total)
        while stated(number) < total:
            number = math.nextafter(number, math.inf)
        return Cost(number, unit=self.unit, together=self.protect or 1)

    def strength_noise(self, *, size: int, members: int, n_users: int) -> tuple[DiscreteLaplace, int]:
        """Return the proven table by which the second eigenvalue of the counts of pairs is perturbed, and its step.

        The eigenvalue is rounded to multiples of the step, so that the table stays short.

        An exchange of one attribute a for b beside the same S, |S| ≤ W − 1, adds uvᵀ + vuᵀ to the matrix, u = e_b − e_a
        and v = 1_S, whose spectral norm is |u||v| ≤ √(2(W − 1)). No eigenvalue moves by more (Weyl). LAPACK is
        off by a small multiple of size · 2⁻⁵³ · norm, for which 2⁻⁴⁸ is ample, in each of the two tables, and the norm
        is at most nW. Rounding adds one step.
        """
        farthest = math.isqrt(2 * (members - 1)) + 1 + math.ceil(2 * size * n_users * members * 2.0**-48)
        step = -(-farthest // _STEPS)
        return DiscreteLaplace.of(self.testing(size), l1_sensitivity=-(-farthest // step) + 1), step

    def pairs_noise(self, *, members: int | None = None, tested: Iterable[int] = ()) -> RoundedGaussian:
        """Return the proven table by which counts of pairs of attributes are perturbed.

        Of each person the first W attributes, or different buckets, in a public order count. One attribute more or
        less, or one in the place of another, exchanges at most one of these for one other
        (dimly.curator.survey.exact_counts). Each of the two is in W − 1 pairs with those that stay: 2(W − 1) counts
        move by 1, and their ℓ₂ norm is √(2(W − 1)).

        Parameters
        ----------
        members : int, optional
            W; as many as the plan allows by default.
        tested : iterable of int
            Of how many attributes pairs were tested before: what that cost is taken off, as the first step is.
        """
        members = self.members if members is None else members
        assert members is not None  # noqa: S101 - as directions say
        share = self.share_of("directions")
        before = [self.selecting, *map(self.testing, tested)]
        left = stated(share.epsilon) - sum((stated(one.epsilon) for one in before), Fraction(0))
        budget, moved = Budget(stated_below(left), share.delta), 2 * (members - 1)
        longest = math.nextafter(math.sqrt(moved), math.inf)
        table = RoundedGaussian.of(calibrated_sigma(budget, l2_sensitivity=longest, touched=moved, rule="exact"))
        table.check(budget, l2_sensitivity=longest, touched=moved)
        return table

    def noise(self, topic: str) -> DiscreteLaplace | RandomThreshold | RoundedGaussian:
        """Return the proven table that an answer is perturbed by."""
        if topic == "directions":
            return self.pairs_noise()
        budget = self.share_of(topic).budget
        if topic != "vocabulary":
            return DiscreteLaplace.of(budget, l1_sensitivity=self.moved)
        if self.moved == 1:
            return RandomThreshold.of(budget)
        # Two names each move by one person, and the two claims add up.
        halves = (stated_below(stated(part) / self.moved) for part in (budget.epsilon, budget.delta))
        return RandomThreshold.of(Budget(*halves))


def check_budget(budget: object) -> None:
    """Refuse what is no budget, such as a bare ε."""
    if not isinstance(budget, Budget):
        raise ParameterError(f"budget must be a Budget, got {type(budget).__name__}. Write Budget(epsilon, delta).")


def share_of_total(total: Budget, ask: Iterable[str]) -> Budget:
    """Return what a survey takes of a budget that it is to share with a release: a tenth, for directions 0.3 of ε.

    Counts of thousands of people need little; directions decide what a release along them can show (docs/survey.md).
    Of δ it is a tenth for either: a ledger by method "renyi" leaves an eighth to claims that are not Gaussian.

    Raises
    ------
    ParameterError
        For profiles, which come after the release.

    Examples
    --------
    >>> share_of_total(Budget(0.5, 1e-6), ["weights", "distances"])
    Budget(epsilon=0.05, delta=1e-07)
    """
    check_budget(total)
    topics = _topics(ask)
    if "profiles" in topics:
        raise ParameterError(
            "total must be left out of profiles, which come after the release. State what is left as epsilon."
        )
    part = _LEARNING if "directions" in topics else _COUNTING
    return Budget(stated_below(stated(total.epsilon) * part), stated_below(stated(total.delta) * _COUNTING))


def _topics(ask: Iterable[str]) -> list[Topic]:
    asked = [ask] if isinstance(ask, str) else list(ask)
    if not asked:
        raise ParameterError(f"ask must name at least one of {', '.join(TOPICS)}, got none.")
    for name in asked:
        if name not in TOPICS:
            raise ParameterError(f"ask must be some of {', '.join(TOPICS)}, got {name!r}.")
        if asked.count(name) > 1:
            raise ParameterError(f"ask must name each question once, got {name!r} twice.")
    return [topic for topic in TOPICS if topic in asked]


def _parts(topics: list[Topic], share: Mapping[str, float]) -> dict[Topic, Fraction]:
    """Return the part of each question in the whole, exactly."""
    if not isinstance(share, Mapping):
        raise ParameterError(
            f"share must say a number for each question, such as {{'{topics[0]}': 2}}, got {type(share).__name__}."
        )
    for name, part in share.items():
        if name not in topics:
            raise ParameterError(f"share must be of questions that are asked ({', '.join(topics)}), got {name!r}.")
        if isinstance(part, bool) or not isinstance(part, Real) or not 0 < part < float("inf"):
            raise ParameterError(f"share of {name} must be a number > 0, got {part!r}.")
    parts = {topic: stated(share.get(topic, 1)) for topic in topics}
    total = sum(parts.values())
    return {topic: part / total for topic, part in parts.items()}
