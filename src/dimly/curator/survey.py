"""A survey, from the charge to the file: exact counts of a private table, each perturbed by its share of the budget.

Charged before the table is read, as a release is, and visible only when it is whole. One pass over the sorted rows
counts everything. People are numbered by a keyed public order, so that pairs of them stand side by side in that pass.
"""

import hashlib
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dimly.curator import kernels
from dimly.curator.diagnosis import inspected
from dimly.curator.engine import NamedTable, cut, people_of_sorted
from dimly.curator.ledger.ledger import Charge, Ledger
from dimly.curator.options import Options, Progress
from dimly.curator.people import People, Pseudonyms, people_of, user_ids
from dimly.curator.randomness import Keystream, WordSource, is_secret
from dimly.curator.run import account_of, charged, interrupts_held, is_matrix
from dimly.curator.sampling import NoiseSampler
from dimly.curator.tables.matrix import MatrixTable
from dimly.curator.tables.numbered import open_table
from dimly.curator.tables.public_lists import check_lists_apart, nobody_there, read_vocabulary
from dimly.errors import DimlyError, ParameterError
from dimly.files import check_output, write_bytes
from dimly.mechanisms.error.quantiles import LEVEL, boundaries, cumulative, noise_needed, quantiles
from dimly.mechanisms.noise.tables import Cells
from dimly.mechanisms.noise.threshold import RandomThreshold
from dimly.mechanisms.survey import NEEDS_ROSTER, SurveyPlan, check_budget
from dimly.mechanisms.vocabulary import Vocabulary, attribute_texts
from dimly.privacy import Budget, Cost
from dimly.release.manifest import Roster
from dimly.release.survey import SHARES, Counted, Counts, Curve, Interval, Noise, Survey

Integers = NDArray[np.int64]

MOST_ATTRIBUTES: Final = 1 << 24
"""Weights and distances beyond this are not told apart, where no list bounds them."""
_STEP: Final = 1 << 16
_CLEAR: Final = 4.0
"""People, or pairs, in standard deviations of the noise, below which a distribution is not worth its share."""


class Document(Protocol):
    """What comes of a survey: a file with an id."""

    @property
    def id(self) -> str:
        """The digest of all that it says."""

    def content(self) -> bytes:
        """Return the file."""


Settle = Callable[[Cost], None]
"""Lowers the charge of a run to a cost, because the rest is not going to be drawn."""
DocumentT = TypeVar("DocumentT", bound=Document)
Document_co = TypeVar("Document_co", bound=Document, covariant=True)


@dataclass(frozen=True, slots=True)
class Surveyed(Generic[Document_co]):
    """What a survey did, or would do.

    Attributes
    ----------
    survey : Survey or None
        The answers; None after a dry run.
    path : Path or None
        Where they are.
    plan : SurveyPlan
    ledger : dict or None
        What is left of the dataset's budget.
    warnings : tuple of str
    """

    survey: Document_co | None
    path: Path | None
    plan: SurveyPlan
    ledger: dict[str, Any] | None = None
    warnings: tuple[str, ...] = ()

    @property
    def cost(self) -> Cost:
        """What was charged, or would be."""
        return self.plan.cost


class CountedTable(NamedTable, Protocol):
    """A private table whose rows can be counted."""


@dataclass(frozen=True, slots=True)
class _Exact:
    """Exact counts of a private table. They never leave this module but with noise."""

    attributes: Integers
    weights: Integers
    distances: Integers


@dataclass(frozen=True, slots=True)
class Asked:
    """A table that is to be asked, with what is public about it."""

    opening: AbstractContextManager[Any]
    vocabulary: Vocabulary | None
    roster: Roster
    checked: Callable[[int], object] | None = None
    """Refuses too few people, where the question says by itself how many those are."""


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
            "a survey must have a roster (--roster), a public list of attributes (--vocabulary) or a delta above 0 "
            "(--delta), got none of them: weights and distances take the first, counts of attributes one of the others."
        )
    return tuple(found)


def survey_table(
    source: Any, plan: SurveyPlan, options: Options, *, words: Callable[[], WordSource] = Keystream
) -> Surveyed[Survey]:
    """Ask a private table the questions of ``plan``; as :func:`dimly.survey` does, which explains the rest.

    ``words`` is for tests: a survey made with anything but fresh keystreams is stamped as not private.
    """
    asked = open_survey(source, plan, options)
    _check_questions(plan, asked)

    def answered(table: CountedTable, n_users: int | None, begin: Callable[[], Settle]) -> Survey:
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

    return made_by(asked, plan, options, answered)


def made_by(
    asked: Asked,
    plan: SurveyPlan,
    options: Options,
    answered: Callable[[CountedTable, int | None, Callable[[], Settle]], DocumentT],
) -> Surveyed[DocumentT]:
    """Charge a survey, have it answered, and write its file: all of it or nothing.

    ``answered`` counts, calls its last argument before it draws any noise, and returns what is to be written. If it
    stops after a part of the noise, it can lower the charge to what that part cost, by what the call returned.
    """
    target, charging = options.target, options.charging
    if target is not None:
        check_output(target, overwrite=options.overwrite)
    elif charging is not None and not options.dry_run:
        raise ParameterError("out must be a file to make where a ledger is given, got none.")
    if options.dry_run:
        return _rehearsed(asked, plan, options)
    file = _SurveyFile(target, overwrite=options.overwrite)
    with charged(charging, plan, None, file) as charge:

        def begin() -> Settle:
            _begin_sampling(charge, target, overwrite=options.overwrite)
            return (lambda _: None) if charge is None else charge.settle

        with asked.opening as table:
            n_users = _checked_people(table, plan, asked)
            survey = answered(table, n_users, begin)
        account = None
        with interrupts_held(forget=True):  # once the file has its name there is nothing left to stop
            if charge is not None:
                charge.seal(release_id=survey.id, appendable=False)
            file.publish(survey.content())
            if charge is not None and charging is not None:
                charge.make_visible()
                account = account_of(charging, charge.id)
    return Surveyed(survey, target, plan, account, _warnings(plan, n_users, options))


def _rehearsed(asked: Asked, plan: SurveyPlan, options: Options) -> Surveyed[Any]:
    """Check all that a survey would check, and draw, write and charge nothing."""
    charging, account = options.charging, None
    if charging is not None:
        Ledger(charging.ledger).check(charging.dataset, plan.cost)
        account = account_of(charging, None)
    with asked.opening as table:
        n_users = _checked_people(table, plan, asked)
    return Surveyed(None, None, plan, account, _warnings(plan, n_users, options))


def _begin_sampling(charge: Charge | None, target: Path | None, *, overwrite: bool) -> None:
    """Tell the ledger that noise is about to be drawn, which spends the charge, if the file can still be made."""
    if target is not None:
        check_output(target, overwrite=overwrite)
    if charge is not None:
        charge.start_sampling()


class _SurveyFile:
    """The file of a survey, which appears whole or not at all."""

    def __init__(self, path: Path | None, *, overwrite: bool) -> None:
        self._path = path
        self._overwrite = overwrite
        self._content: bytes | None = None

    @property
    def place(self) -> str:
        """Where the survey will be, for texts."""
        return str(self._path)

    @property
    def is_published(self) -> bool | None:
        """Whether it can be seen; None where nobody can tell."""
        if self._content is None or self._path is None:
            return False
        try:
            return self._path.read_bytes() == self._content
        except FileNotFoundError:
            return False
        except OSError:
            return None

    def publish(self, content: bytes) -> None:
        """Write the file in one step."""
        self._content = content
        if self._path is None:
            return
        try:
            write_bytes(self._path, content, overwrite=self._overwrite)
        except OSError as error:
            raise DimlyError(f"{self._path} cannot be written: {error.strerror or 'the disk fails'}.") from None


def open_survey(source: Any, plan: SurveyPlan, options: Options, *, nobody: str | None = None) -> Asked:
    """Return a private table that is to be read. What is public is read and checked now.

    ``nobody`` is what to say if the table has nobody of the roster, where that was given under another name.
    """
    _ = options.resources  # refused whatever the source
    for name in ("append", "directions", "pseudonyms", "update", "volunteers", "except_volunteers"):
        if getattr(options, name) not in (None, False) and (name != "pseudonyms" or plan.release is None):
            raise ParameterError(f"{name} must be left out of a survey, which publishes counts and no people.")
    if options.target is not None:
        read = (source, options.roster, options.vocabulary, options.ledger, options.diagnose, options.pseudonyms)
        check_output(options.target, overwrite=options.overwrite, inputs=read)
    if is_matrix(source):
        return _open_matrix(source, plan, options)
    _ = options.user_column  # refused before anything is read
    check_lists_apart(source, options)
    vocabulary = None
    if options.vocabulary is not None:
        vocabulary = read_vocabulary(options.vocabulary, attribute_column=options.attribute)
    pseudonyms = None if options.pseudonyms is None else Pseudonyms.from_file(options.pseudonyms)
    opening = open_table(
        source, plan, options, vocabulary=vocabulary, pseudonyms=pseudonyms, order_key=_order_key(plan)
    )
    looked_at = inspected(opening, plan, options, vocabulary, nobody=nobody)
    return Asked(looked_at, vocabulary, options.roster_kind)


def _open_matrix(source: Any, plan: SurveyPlan, options: Options) -> Asked:
    """Return a matrix: its rows are the people, whatever is in them, and its columns the list of attributes."""
    for name in ("attribute", "columns", "diagnose", "query", "roster", "table", "user", "value", "vocabulary"):
        if getattr(options, name) is not None:
            raise ParameterError(f"{name} must be given for a table with columns only, and this is a matrix.")
    texts = None if options.attributes is None else attribute_texts(options.attributes)
    people, names = people_of(source, resolution=plan.resolution, n_columns=None, attributes=texts)
    ids = user_ids(options.users, len(people))
    if not len(ids):
        raise nobody_there("table")
    key = _order_key(plan)
    order = sorted(range(len(ids)), key=lambda at: (hashlib.sha256(f"{key}{ids[at]}".encode()).hexdigest(), at))
    table = MatrixTable(people.take(np.array(order)), ids[order], names, resolution=plan.resolution)
    return Asked(table, names if isinstance(names, Vocabulary) else Vocabulary.listed(names), "given")


def _order_key(plan: SurveyPlan) -> str:
    return f"dimly/survey {plan.seed} "


def _check_questions(plan: SurveyPlan, asked: Asked) -> None:
    """Refuse questions that cannot be asked of this table, by what is public about it."""
    for topic in plan.topics:
        if topic in NEEDS_ROSTER and asked.roster == "found":
            raise ParameterError(
                f"roster must be given to ask for {topic}, got none: without a public list of people, one attribute of "
                "a person who has no other would add them to the table, and change who is paired with whom. Add "
                f"--roster, or ask for something else than {topic}."
            )
        if topic == "counts" and asked.vocabulary is None:
            raise ParameterError(
                "vocabulary must be given to ask for counts, got none: which attributes there are would follow from "
                "the data. Add --vocabulary with a public list, or ask for vocabulary, with a delta."
            )
        if topic == "vocabulary" and asked.vocabulary is not None:
            raise ParameterError(
                "ask must be counts where a public list of attributes is given, got vocabulary. Their names are known "
                "already, so that no delta is needed."
            )


def _checked_people(table: CountedTable, plan: SurveyPlan, asked: Asked) -> int | None:
    """Return how many people there are where that is public; refuse so few that only noise would be told."""
    if asked.roster == "found":
        return None
    n_users = table.n_users
    if asked.checked is not None:
        asked.checked(n_users)
        return n_users
    for share in plan.shares:
        noise = plan.noise(share.topic)
        if share.topic in NEEDS_ROSTER:
            n, what = (n_users, "people") if share.topic == "weights" else (n_users // 2, "pairs of people")
            needed = math.ceil(_CLEAR * math.sqrt(noise.variance))
            if n < needed:
                raise ParameterError(
                    f"epsilon must be larger to ask {n_users:,} people for {share.topic}: the noise of its share, "
                    f"{share.epsilon:g}, would hide them. It takes {needed:,} {what} at this share; use a larger "
                    "--epsilon or --share, or ask for less. Nothing was charged."
                )
        else:
            check_countable(plan, share.topic, n_users)
    return n_users


def check_countable(plan: SurveyPlan, topic: str, n_users: int) -> None:
    """Refuse to count attributes of so few people that noise would hide even what all of them have."""
    share, needed = plan.share_of(topic), _least_counted(plan.noise(topic))
    if n_users < needed:
        raise ParameterError(
            f"epsilon must be larger to ask {n_users:,} people for {topic}: the noise of its share, "
            f"{share.epsilon:g}, would hide even what everybody has. It takes {needed:,} people at this share; use "
            "a larger --epsilon or --share. Nothing was charged."
        )


def _least_counted(noise: Any) -> int:
    """Return the count from which a name is more likely shown than not, or an interval does not reach down to 0."""
    return int(getattr(noise, "center", 0)) or 1 + noise_between(noise.cells())[1]


def count_table(table: CountedTable, plan: SurveyPlan, *, vocabulary: Vocabulary | None, progress: Progress) -> _Exact:
    """Return exact counts: of attributes, and of people and pairs at most each boundary."""
    width = len(table.texts())
    at = boundaries_for(vocabulary)
    exact = _Exact(np.zeros(width, np.int64), np.zeros(len(at), np.int64), np.zeros(len(at), np.int64))
    batches = cut(table.rows(), n_users=table.n_users, step=_STEP, together=2)
    first = next(batches)  # after sorting
    progress.phase("counting")
    progress.start(table.n_users)
    for batch in _with(first, batches):
        people = having(people_of_sorted(batch, resolution=plan.resolution))
        if width:
            np.add(exact.attributes, np.bincount(people.indices, minlength=width), out=exact.attributes)
        np.add(exact.weights, cumulative(np.diff(people.indptr), at), out=exact.weights)
        if "distances" in plan.topics:
            apart = np.empty(len(people) // 2, np.int64)  # whoever is left over is in no pair
            values = np.empty(0, np.int64) if people.values is None else people.values
            kernels.pair_distances(people.indptr, people.indices, values, apart)
            np.add(exact.distances, cumulative(apart, at * plan.resolution**2), out=exact.distances)
        progress.advance(len(people))
    return exact


def boundaries_for(vocabulary: Vocabulary | None) -> Integers:
    """Return the boundaries of weights and distances: public, and none that a list makes needless."""
    return boundaries(MOST_ATTRIBUTES if vocabulary is None else len(vocabulary))


def having(people: People) -> People:
    """Return people with what they have: values that are at most half a step are nothing."""
    if people.values is None or not len(people.values) or people.values.min() > 0:
        return people
    keep = people.values > 0
    starts = np.concatenate([[0], np.cumsum(keep)])[people.indptr]
    return People(starts, people.indices[keep], people.values[keep])


def _with(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


class _Answers:
    """Perturbs exact counts, each list with fresh words of its own, and says what follows from them."""

    def __init__(
        self,
        table: CountedTable,
        plan: SurveyPlan,
        exact: _Exact,
        *,
        n_users: int | None,
        words: Callable[[], WordSource],
    ) -> None:
        self._table = table
        self._plan = plan
        self._exact = exact
        self._n_users = n_users
        self._words = words

    def all(self) -> dict[str, Counts | Curve]:
        """Return every answer by the name of its question."""
        made: dict[str, Callable[[], Counts | Curve]] = {
            "vocabulary": self._vocabulary,
            "counts": self._counts,
            "weights": lambda: self._curve("weights", self._exact.weights, self._n_users or 0),
            "distances": lambda: self._curve("distances", self._exact.distances, (self._n_users or 0) // 2),
        }
        return {topic: made[topic]() for topic in self._plan.topics}

    def _perturbed(self, topic: str, exact: Integers) -> tuple[Integers, NoiseSampler]:
        sampler = NoiseSampler(self._plan.noise(topic))
        noisy = np.empty(len(exact), np.int64)
        sampler.add(exact, self._words(), noisy)
        return noisy, sampler

    def _facts(self, topic: str) -> dict[str, Any]:
        share, table = self._plan.share_of(topic), self._plan.noise(topic)
        noise = Noise(
            law="random threshold" if topic == "vocabulary" else "discrete Laplace",
            sensitivity=self._plan.moved,
            standard_deviation=float(f"{math.sqrt(table.variance):.6g}"),
        )
        return {"epsilon": share.epsilon, "delta": share.delta, "noise": noise}

    def _counts(self) -> Counts:
        noisy, _ = self._perturbed("counts", self._exact.attributes)
        names = self._table.texts().between(0, len(noisy))
        return Counts(**self._facts("counts"), attributes=self._counted("counts", names, noisy))

    def _vocabulary(self) -> Counts:
        noisy, _ = self._perturbed("vocabulary", self._exact.attributes)
        law = self._plan.noise("vocabulary")
        assert isinstance(law, RandomThreshold)  # noqa: S101 - for the type checker
        threshold = law.center
        shown = np.flatnonzero(noisy >= threshold)  # which the count of a name that nobody has never is
        names = self._table.texts().at(shown)
        # By what is public alone: the numbers of attributes follow their exact counts.
        order = sorted(range(len(shown)), key=lambda at: (-int(noisy[shown[at]]), names[at]))
        counts = noisy[shown[order]]
        found = self._counted(
            "vocabulary", [names[at] for at in order], counts, lows=law.fewest(counts, chance=(1 - LEVEL) / 2)
        )
        return Counts(**self._facts("vocabulary"), threshold=threshold, attributes=found)

    def _counted(
        self, topic: str, names: list[str], noisy: Integers, *, lows: Integers | None = None
    ) -> tuple[Counted, ...]:
        """Return counts with intervals; ``lows`` where it tells something that a count is shown at all."""
        low, high = noise_between(self._plan.noise(topic).cells())
        most = self._n_users or np.iinfo(np.int64).max
        lows = np.clip(noisy - high if lows is None else lows, 0, most)
        highs = np.clip(noisy - low, 0, most)  # which being shown makes no less true: it takes away low noise only
        rows = zip(names, noisy.tolist(), lows.tolist(), highs.tolist(), strict=True)
        # Not validated, which would take longer than all counting of a long list: they are texts and integers by now.
        return tuple(Counted.model_construct(attribute=name, count=count, low=a, high=b) for name, count, a, b in rows)

    def _curve(self, topic: str, exact: Integers, total: int) -> Curve:
        noisy, sampler = self._perturbed(topic, exact)
        at = boundaries(MOST_ATTRIBUTES)[: len(noisy)]
        found = quantiles(
            noisy,
            at,
            total=total,
            shares=SHARES,
            noise=sampler.draw(noise_needed(at), self._words()),
            whole=topic == "weights" or self._plan.resolution == 1,
        )
        told = {
            f"{share:g}": Interval(value=one.value, low=one.low, high=one.high)
            for share, one in zip(SHARES, found, strict=True)
        }
        return Curve(
            **self._facts(topic), of=total, quantiles=told, boundaries=tuple(at.tolist()), noisy=tuple(noisy.tolist())
        )


def noise_between(cells: Cells) -> tuple[int, int]:
    """Return between which values the noise of a table lies with a probability of at least 95 %."""
    below = cells.high.astype(np.float64) / 2.0**64  # P(noise ≤ value)
    low = int(np.searchsorted(below, (1 - LEVEL) / 2, side="right"))
    high = int(np.searchsorted(below, (1 + LEVEL) / 2, side="left"))
    return cells.first + low, cells.first + high


def _warnings(plan: SurveyPlan, n_users: int | None, options: Options) -> tuple[str, ...]:
    found = []
    if options.ledger is None and not options.in_memory:
        found.append("No ledger: nothing keeps count of what surveys and releases of these people cost together.")
        if plan.release is not None:
            found.append("No ledger: that the segments were found in a release is taken on your word.")
    if n_users is None and plan.delta > 0:
        found.append("delta should be well below 1/n: without a roster it is not compared with n.")
    elif n_users is not None and plan.delta * n_users > 0.1:
        found.append("delta is not well below 1/n: it would allow some people's attributes to be exposed altogether.")
    return tuple(found)
