"""A survey from the charge to its file: opening the table, refusing too few people, dry runs, warnings.

Charged before the table is read, as a release is, and visible only when it is whole. What is asked is said by
:mod:`dimly.curator.survey.questions` and by the two surveys that have a file of their own.
"""

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar

import numpy as np

from dimly.curator.diagnosis import open_diagnosed
from dimly.curator.engine import NamedTable
from dimly.curator.ledger.ledger import Charge, Ledger
from dimly.curator.options import Options
from dimly.curator.people import Pseudonyms, people_of, user_ids
from dimly.curator.publication import account_of, charged, interrupts_held, is_matrix
from dimly.curator.survey.exact_counts import order_key
from dimly.curator.tables.input_files import Stamp
from dimly.curator.tables.matrix import MatrixTable
from dimly.curator.tables.numbered_table import open_table
from dimly.curator.tables.public_lists import check_before_reading, nobody_there, read_vocabulary
from dimly.errors import DimlyError, ParameterError
from dimly.files import check_output, write_bytes
from dimly.mechanisms.error.survey_quantiles import noise_between
from dimly.mechanisms.guarantee import RosterKind
from dimly.mechanisms.survey_plan import NEEDS_ROSTER, SurveyPlan
from dimly.mechanisms.vocabulary import Vocabulary, attribute_texts
from dimly.privacy import Cost

_CLEAR: Final = 4.0
"""People, or pairs, in standard deviations of the noise, below which a distribution is not worth its share."""


class SurveyDocument(Protocol):
    """What comes of a survey: a file with an id."""

    @property
    def id(self) -> str:
        """The digest of all that it says."""

    def content(self) -> bytes:
        """Return the file."""


Settle = Callable[[Cost], None]
"""Lowers the charge of a run to a cost, because the rest is not going to be drawn."""
DocumentT = TypeVar("DocumentT", bound=SurveyDocument)
Document_co = TypeVar("Document_co", bound=SurveyDocument, covariant=True)


@dataclass(frozen=True, slots=True)
class SurveyOutcome(Generic[Document_co]):
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


@dataclass(frozen=True, slots=True)
class SurveyTable:
    """A table that is to be asked, with what is public about it."""

    opening: AbstractContextManager[Any]
    vocabulary: Vocabulary | None
    roster: RosterKind
    checked: Callable[[int], object] | None = None
    """Refuses too few people, where the question says by itself how many those are."""


class CountingSource(ABC):
    """Where such a table comes from."""

    @abstractmethod
    def open_survey(self, plan: SurveyPlan, options: Options) -> SurveyTable:
        """Return a table that is to be read, as :func:`open_survey` does."""

    @property
    @abstractmethod
    def files(self) -> tuple[Stamp, ...]:
        """What it was opened from, as far as this machine knows."""


def run_survey(
    asked: SurveyTable,
    plan: SurveyPlan,
    options: Options,
    answered: Callable[[NamedTable, int | None, Callable[[], Settle]], DocumentT],
) -> SurveyOutcome[DocumentT]:
    """Charge a survey, have it answered, and write its file: all of it or nothing.

    ``answered`` counts, calls its last argument before it draws any noise, and returns what is to be written. If it
    stops after a part of the noise, it can lower the charge to what that part cost, by what the call returned.
    """
    target, payer = options.target, options.payer
    if target is not None:
        check_output(target, overwrite=options.overwrite)
    elif payer is not None and not options.dry_run:
        raise ParameterError("out must be a file to make where a ledger is given, got none. Add out=FILE (--out FILE).")
    if options.dry_run:
        return _rehearsed(asked, plan, options)
    file = _SurveyFile(target, overwrite=options.overwrite)
    with charged(payer, plan, None, file) as charge:

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
            if charge is not None and payer is not None:
                charge.make_visible()
                account = account_of(payer, charge.id)
    return SurveyOutcome(survey, target, plan, account, _warnings(plan, n_users, options))


def _rehearsed(asked: SurveyTable, plan: SurveyPlan, options: Options) -> SurveyOutcome[Any]:
    """Check all that a survey would check, and draw, write and charge nothing."""
    payer, account = options.payer, None
    if payer is not None:
        Ledger(payer.ledger).check(payer.dataset, plan.cost)
        account = account_of(payer, None)
    with asked.opening as table:
        n_users = _checked_people(table, plan, asked)
    return SurveyOutcome(None, None, plan, account, _warnings(plan, n_users, options))


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


def open_survey(source: Any, plan: SurveyPlan, options: Options, *, nobody: str | None = None) -> SurveyTable:
    """Return a private table that is to be read. What is public is read and checked now.

    ``nobody`` is what to say if the table has nobody of the roster, where that was given under another name.
    """
    resources = options.resources  # refused whatever the source
    for name in (
        "append",
        "directions",
        "pseudonyms",
        "update",
        "volunteers",
        "except_volunteers",
        "title",
        "publisher",
        "note",
    ):
        if getattr(options, name) not in (None, False) and (name != "pseudonyms" or plan.release is None):
            raise ParameterError(f"{name} must be left out of a survey, which publishes counts and no people.")
    if isinstance(source, CountingSource):
        return source.open_survey(plan, options)
    check_survey_file(options, source)
    if is_matrix(source):
        return _open_matrix(source, plan, options)
    check_before_reading(source, options)
    vocabulary = None
    if options.vocabulary is not None:
        vocabulary = read_vocabulary(options.vocabulary, attribute_column=options.attribute)
        resources = resources.beside(vocabulary.nbytes)
    pseudonyms = None if options.pseudonyms is None else Pseudonyms.from_file(options.pseudonyms)
    opening = open_table(
        source,
        plan,
        options,
        vocabulary=vocabulary,
        pseudonyms=pseudonyms,
        order_key=order_key(plan),
        resources=resources,
    )
    diagnosed = open_diagnosed(opening, plan, options, vocabulary, nobody=nobody, source=source)
    return SurveyTable(diagnosed, vocabulary, options.roster_kind)


def check_survey_file(options: Options, source: Any) -> None:
    """Refuse to write where that cannot be, or where something lies that the survey reads."""
    if options.target is not None:
        read = (source, options.roster, options.vocabulary, options.ledger, options.diagnose, options.pseudonyms)
        check_output(options.target, overwrite=options.overwrite, inputs=read)


def _open_matrix(source: Any, plan: SurveyPlan, options: Options) -> SurveyTable:
    """Return a matrix: its rows are the people, whatever is in them, and its columns the list of attributes."""
    for name in (
        "attribute",
        "columns",
        "diagnose",
        "query",
        "roster",
        "table",
        "user",
        "value",
        "vocabulary",
        "where",
    ):
        if getattr(options, name) is not None:
            raise ParameterError(
                f"{name} must be given for a table with columns only, and this is a matrix. Make a table of it: "
                "pandas.DataFrame(rows, columns=[…])."
            )
    texts = None if options.attributes is None else attribute_texts(options.attributes)
    people, names = people_of(source, resolution=plan.resolution, n_columns=None, attributes=texts)
    ids = user_ids(options.users, len(people))
    if not len(ids):
        raise nobody_there("table")
    key = order_key(plan)
    order = sorted(range(len(ids)), key=lambda at: (hashlib.sha256(f"{key}{ids[at]}".encode()).hexdigest(), at))
    table = MatrixTable(people.take(np.array(order)), ids[order], names, resolution=plan.resolution)
    return SurveyTable(table, names if isinstance(names, Vocabulary) else Vocabulary.listed(names), "given")


def _checked_people(table: NamedTable, plan: SurveyPlan, asked: SurveyTable) -> int | None:
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
                    "epsilon (--epsilon) or share (--share), or ask for less. Nothing was charged."
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
            "a larger epsilon (--epsilon) or share (--share). Nothing was charged."
        )


def _least_counted(noise: Any) -> int:
    """Return the count from which a name is more likely shown than not, or an interval does not reach down to 0."""
    return int(getattr(noise, "center", 0)) or 1 + noise_between(noise.cells())[1]


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
