"""What a survey can be asked, and its noisy answers: vocabulary, counts, weights, distances, quantiles.

Charge, table and file are of :mod:`dimly.curator.survey.run`. Profiles of segments and directions come from there, too,
each with a file of its own.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dimly.curator.engine import NamedTable
from dimly.curator.options import Options, PathLike, PublishOptions
from dimly.curator.publication import is_matrix
from dimly.curator.randomness import Keystream, WordSource, is_secret
from dimly.curator.sampling import NoiseSampler
from dimly.curator.survey.exact_counts import MOST_ATTRIBUTES, ExactCounts, Integers, count_table
from dimly.curator.survey.private_directions import learn_from_table
from dimly.curator.survey.profiles import profile_table
from dimly.curator.survey.run import Settle, SurveyOutcome, SurveyTable, open_survey, run_survey
from dimly.errors import ParameterError
from dimly.mechanisms.error.survey_quantiles import LEVEL, boundaries, noise_between, quantiles
from dimly.mechanisms.group_privacy import budget_for_each
from dimly.mechanisms.noise.name_threshold import RandomThreshold
from dimly.mechanisms.survey_plan import NEEDS_ROSTER, SurveyPlan, check_budget, share_of_total
from dimly.privacy import Budget, Unit
from dimly.release.documents.segments_file import read_segments
from dimly.release.documents.survey_file import (
    SHARES,
    AttributeCount,
    AttributeCounts,
    CountNoise,
    Curve,
    Interval,
    Survey,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """What a survey asks, as keywords of :func:`dimly.survey`, which explains them."""

    ask: Iterable[str] | None = None
    share: Mapping[str, float] | None = None
    unit: Unit = "attribute"
    resolution: int = 1
    seed: bytes | str | None = None
    by: PathLike | None = None
    members: int | None = None
    buckets: int | None = None
    protect: int = 1
    total: bool = False


class SurveyOptions(PublishOptions, total=False):
    """Questions and options, for type checkers. A test compares them with :class:`Questions`."""

    ask: Iterable[str] | None
    share: Mapping[str, float] | None
    unit: Unit
    resolution: int
    seed: bytes | str | None
    by: PathLike | None
    members: int | None
    buckets: int | None
    protect: int
    total: bool


def ask_table(source: Any, budget: Budget, questions: Questions, options: Options) -> SurveyOutcome[Any]:
    """Survey a private table as :func:`dimly.survey` does; return what was done.

    A :class:`~dimly.release.documents.survey_file.Survey` comes of it; with ``by`` profiles, for directions a file of
    these.
    """
    labels = None if questions.by is None else read_segments(questions.by)
    ask = questions.ask
    if ask is None:
        ask = default_questions(source, budget, options) if labels is None else ["profiles"]
    if not isinstance(ask, Iterable):
        raise ParameterError(f"ask must be a list of questions, got {type(ask).__name__}. See help(dimly.survey).")
    ask = [ask] if isinstance(ask, str) else list(ask)
    if isinstance(budget, Budget):
        budget = budget_for_each(budget, questions.protect)
    plan = SurveyPlan.of(
        share_of_total(budget, ask) if questions.total else budget,
        ask,
        share=questions.share,
        unit=questions.unit,
        resolution=questions.resolution,
        seed=questions.seed,
        release=None if labels is None else labels.release,
        members=questions.members,
        buckets=questions.buckets,
        protect=questions.protect,
    )
    if labels is not None:
        return profile_table(source, plan, options, labels=labels, labels_from=questions.by)
    return learn_from_table(source, plan, options) if plan.members else survey_table(source, plan, options)


def default_questions(source: Any, budget: Budget, options: Options) -> tuple[str, ...]:
    """Return all questions that can be answered with what is given: a list, a roster, a δ.

    Raises
    ------
    ParameterError
        If there is none.
    """
    check_budget(budget)
    matrix = is_matrix(source)
    found = []
    if matrix or options.vocabulary is not None:
        found.append("counts")
    elif not budget.is_pure:
        found.append("vocabulary")
    if matrix or options.roster is not None:
        found += ["weights", "distances"]
    if not found:
        raise ParameterError(
            "a survey must have a roster (--roster), a public list of attributes as vocabulary (--vocabulary) or a "
            "delta (--delta) above 0, got none of them: weights and distances take the first, counts of attributes "
            "one of the others."
        )
    return tuple(found)


def survey_table(
    source: Any, plan: SurveyPlan, options: Options, *, words: Callable[[], WordSource] = Keystream
) -> SurveyOutcome[Survey]:
    """Ask a private table the questions of ``plan``; as :func:`dimly.survey` does, which explains the rest.

    ``words`` is for tests: a survey made with anything but fresh keystreams is stamped as not private.
    """
    asked = open_survey(source, plan, options)
    _check_questions(plan, asked)

    def answered(table: NamedTable, n_users: int | None, begin: Callable[[], Settle]) -> Survey:
        exact = count_table(table, plan, vocabulary=asked.vocabulary, progress=options.watcher)
        begin()
        return Survey.of(
            plan,
            _Answers(table, plan, exact, n_users=n_users, words=words).all(),
            private=is_secret(words()),
            roster=asked.roster,
            n_users=n_users,
            ledger=options.dataset,
        )

    return run_survey(asked, plan, options, answered)


def _check_questions(plan: SurveyPlan, asked: SurveyTable) -> None:
    """Refuse questions that cannot be asked of this table, by what is public about it."""
    for topic in plan.topics:
        if topic in NEEDS_ROSTER and asked.roster == "found":
            raise ParameterError(
                f"roster must be given to ask for {topic}, got none: without a public list of people, one attribute of "
                "a person who has no other would add them to the table, and change who is paired with whom. Add "
                f"a roster (--roster), or ask for something else than {topic}."
            )
        if topic == "counts" and asked.vocabulary is None:
            raise ParameterError(
                "vocabulary must be given to ask for counts, got none: which attributes there are would follow from "
                "the data. Add vocabulary (--vocabulary) with a public list, or ask for vocabulary, with a delta."
            )
        if topic == "vocabulary" and asked.vocabulary is not None:
            raise ParameterError(
                "ask must be counts where a public list of attributes is given, got vocabulary. Their names are known "
                "already, so that no delta is needed."
            )


class _Answers:
    """Perturbs exact counts, each list with fresh words of its own, and says what follows from them."""

    def __init__(
        self,
        table: NamedTable,
        plan: SurveyPlan,
        exact: ExactCounts,
        *,
        n_users: int | None,
        words: Callable[[], WordSource],
    ) -> None:
        self._table = table
        self._plan = plan
        self._exact = exact
        self._n_users = n_users
        self._words = words

    def all(self) -> dict[str, AttributeCounts | Curve]:
        """Return every answer by the name of its question."""
        made: dict[str, Callable[[], AttributeCounts | Curve]] = {
            "vocabulary": self._vocabulary,
            "counts": self._counts,
            "weights": lambda: self._curve("weights", self._exact.weights, self._n_users or 0),
            "distances": lambda: self._curve("distances", self._exact.distances, (self._n_users or 0) // 2),
        }
        return {topic: made[topic]() for topic in self._plan.topics}

    def _perturbed(self, topic: str, exact: Integers) -> Integers:
        noisy = np.empty(len(exact), np.int64)
        NoiseSampler(self._plan.noise(topic)).add(exact, self._words(), noisy)
        return noisy

    def _facts(self, topic: str) -> dict[str, Any]:
        share, table = self._plan.share_of(topic), self._plan.noise(topic)
        noise = CountNoise(
            law="random threshold" if topic == "vocabulary" else "discrete Laplace",
            sensitivity=self._plan.moved,
            standard_deviation=float(f"{math.sqrt(table.variance):.6g}"),
        )
        return {"epsilon": share.epsilon, "delta": share.delta, "noise": noise}

    def _counts(self) -> AttributeCounts:
        noisy = self._perturbed("counts", self._exact.attributes)
        names = list(self._table.texts().between(0, len(noisy)))
        return AttributeCounts(**self._facts("counts"), attributes=self._counted("counts", names, noisy))

    def _vocabulary(self) -> AttributeCounts:
        noisy = self._perturbed("vocabulary", self._exact.attributes)
        law = self._plan.noise("vocabulary")
        assert isinstance(law, RandomThreshold)  # noqa: S101 - for the type checker
        threshold = law.center
        shown = np.flatnonzero(noisy >= threshold)  # which the count of a name that nobody has never is
        names = list(self._table.texts().at(shown))
        # By what is public alone: the numbers of attributes follow their exact counts.
        order = sorted(range(len(shown)), key=lambda at: (-int(noisy[shown[at]]), names[at]))
        counts = noisy[shown[order]]
        found = self._counted(
            "vocabulary", [names[at] for at in order], counts, lows=law.fewest(counts, chance=(1 - LEVEL) / 2)
        )
        return AttributeCounts(**self._facts("vocabulary"), threshold=threshold, attributes=found)

    def _counted(
        self, topic: str, names: list[str], noisy: Integers, *, lows: Integers | None = None
    ) -> tuple[AttributeCount, ...]:
        """Return counts with intervals; ``lows`` where it tells something that a count is shown at all."""
        low, high = noise_between(self._plan.noise(topic).cells())
        most = self._n_users or np.iinfo(np.int64).max
        lows = np.clip(noisy - high if lows is None else lows, 0, most)
        highs = np.clip(noisy - low, 0, most)  # which being shown makes no less true: it takes away low noise only
        rows = zip(names, noisy.tolist(), lows.tolist(), highs.tolist(), strict=True)
        # Not validated, which would take longer than all counting of a long list: they are texts and integers by now.
        return tuple(
            AttributeCount.model_construct(attribute=name, count=count, low=a, high=b) for name, count, a, b in rows
        )

    def _curve(self, topic: str, exact: Integers, total: int) -> Curve:
        noisy = self._perturbed(topic, exact)
        at = boundaries(MOST_ATTRIBUTES)[: len(noisy)]
        found = quantiles(
            noisy,
            at,
            total=total,
            shares=SHARES,
            variance=self._plan.noise(topic).variance,
            whole=topic == "weights" or self._plan.resolution == 1,
        )
        told = {
            f"{share:g}": Interval(value=one.value, low=one.low, high=one.high)
            for share, one in zip(SHARES, found, strict=True)
        }
        return Curve(
            **self._facts(topic), of=total, quantiles=told, boundaries=tuple(at.tolist()), noisy=tuple(noisy.tolist())
        )
