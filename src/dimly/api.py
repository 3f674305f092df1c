"""The short way through the curator's rooms: ``publish`` and ``survey`` for Python."""

import warnings
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Literal, Unpack, overload

from dimly.analyst.release import Release, open_release
from dimly.curator.options import Options, PublishOptions, check_keywords, takes_fields
from dimly.curator.publication import PublishOutcome, publish_here, publish_table, warnings_of
from dimly.curator.survey.private_directions import LearnedFile
from dimly.curator.survey.questions import Questions, SurveyOptions, ask_table
from dimly.curator.survey.run import SurveyOutcome
from dimly.errors import PrivacyWarning
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.projection.directions import Directions
from dimly.privacy import Budget
from dimly.progress import progress_bar
from dimly.release.documents.profiles_file import Profiles
from dimly.release.documents.survey_file import Survey


@overload
def publish(
    source: Any, plan: Plan, *, dry_run: Literal[True], **options: Unpack[PublishOptions]
) -> PublishOutcome: ...
@overload
def publish(
    source: Any, plan: Plan, *, dry_run: Literal[False] = False, **options: Unpack[PublishOptions]
) -> Release: ...


@takes_fields(Options)
def publish(
    source: Any, plan: Plan, *, dry_run: bool = False, **options: Unpack[PublishOptions]
) -> Release | PublishOutcome:
    """Publish a private table by ``plan``, with fresh secret noise.

    Parameters
    ----------
    source : path, list of paths, data frame, Arrow table, array_like or SciPy sparse matrix
        Parquet, CSV or JSON-lines files, globs and folders of them, a DuckDB or SQLite file, a table of pandas, polars
        or Arrow; or a matrix with one row per person and one column per attribute. See docs/sources.md.
    plan : Plan
        Made before the table was looked at.
    user : str
        Column of the people's ids. Not for a matrix.
    attribute, value : str, optional
        A long table: one row per person and attribute, with its value in [0, 1] if there is one.
    attributes : str or iterable, optional
        A column that holds lists of attributes. For a matrix: the names of its columns ("0", "1", … by default; columns
        whose names have the same text are one attribute).
    columns : iterable of str or "all", optional
        A wide table: these columns, or all but the user's, are attributes.
    users : array_like, optional
        For a matrix: ids of the people, integers or text; 0, 1, … by default.
    roster : path or iterable, optional
        Public list of the people to publish. Those without attributes get a row too, and nobody else does. Without it,
        the people are those found in the table, and that says something about them.
    vocabulary : path or iterable, optional
        Public list of attributes; others are left out. Needed if the plan was made with a list.
    directions : Directions or path, optional
        The public directions that the plan was made with; they become part of the release. Needed if the plan names
        some and was read from JSON, which holds only their digest.
    volunteers : path, table or iterable, optional
        The people whose public data the directions or the plan were made from: their ids, or a table with the column
        ``user``. If any of them is to be published, that is refused before anything is drawn.
    except_volunteers : bool, default=False
        Publish volunteers all the same: the release then says that its promise does not hold for them.
    pseudonyms : path, optional
        File with a secret key of at least 32 bytes: ids become keyed hashes.
    out : path, optional
        Folder to make. Without it the release stays in memory.
    ledger, dataset, recipient : optional
        Ledger to charge, the dataset's name in it, and who gets the release. The charge comes back if the run fails
        before any noise is drawn; after that it stays, whatever ended the run.
    append : path, optional
        A release to which people are added who are not in it yet, at no further charge; in place of ``out``. Needs the
        ledger.
    update : path, optional
        A release of which some people changed: they are published anew, charged, together with the others as they were,
        in a new release at ``out``.
    table, query : str, optional
        Which table, or what query, of a database file.
    where : str, optional
        An SQL condition such as ``"rating > 0"``: rows for which it is not true are not read. It looks at one row at a
        time, is public, and must be decided beforehand. See docs/sources.md.
    delimiter, quote, escape, encoding : str, optional
        Of CSV files. By default: what separates the names in the first line, ``"``, the quote itself (doubled), and
        UTF-8 or what a byte-order mark says. Nothing is guessed from the rows.
    memory : int, optional
        Bytes that the process may use; what does not fit is sorted on disk. 2 GiB by default, or half of the machine's.
    threads : int, optional
        All cores by default.
    temp : path, optional
        Folder for what does not fit in memory. It holds private data while the run lasts.
    nulls : {"refuse", "drop"}, default="refuse"
        Rows without a user, attribute or value.
    values : {"refuse", "clamp"}, default="refuse"
        Values outside of [0, 1].
    diagnose : path, optional
        New file, readable by its owner alone, for how much of the table roster and vocabulary leave out, and what is
        left out most often. Private: exact figures that no promise covers. Also written if publishing then stops.
    overwrite : bool, default=False
        Whether a release at ``out`` is replaced; a full new charge.
    title, publisher, note : str, optional
        What you want to say of the release, with today's date, in its manifest, README and report. Public.
    dry_run : bool, default=False
        Check everything, say what it would cost, and draw no noise. How many people there are is told only where a
        roster makes it public.
    progress : Progress or False, optional
        Told how far the work is. By default a bar in terminals and notebooks, once it takes longer than two seconds.

    Returns
    -------
    Release
        What an analyst can ask; in memory, or on disk at ``out``. After a dry run a :class:`PublishOutcome`.

    Raises
    ------
    ParameterError
        If the call cannot work.
    DataError
        If the table does not fit the plan, or roster and list leave nothing of it. The text holds nothing of the table.
    BudgetError
        If the ledger does not allow it.

    Examples
    --------
    >>> from dimly.mechanisms import Plan
    >>> from dimly.privacy import Budget
    >>> release = publish([[1, 0, 1], [0, 1, 1]], Plan.of("counting+laplace", Budget(1.0), k=4))
    >>> release.values.shape, release.values.dtype.name
    ((2, 4), 'int16')
    """
    check_keywords(options)
    with progress_bar(options.get("progress"), "publishing") as watching:
        return _publish(source, plan, Options(dry_run=dry_run, **{**options, "progress": watching}))


def _publish(source: Any, plan: Plan, chosen: Options) -> Release | PublishOutcome:
    if chosen.in_memory:
        sketches, vocabulary = publish_here(source, plan, chosen)
        for text in warnings_of(sketches.plan, len(sketches), chosen):
            warnings.warn(text, PrivacyWarning, stacklevel=3)
        return Release(sketches, vocabulary=vocabulary)
    published = publish_table(source, plan, chosen)
    for text in published.warnings:
        warnings.warn(text, PrivacyWarning, stacklevel=3)
    return published if published.path is None else open_release(published.path)


def publish_public(table: Any, plan: Plan, *, attributes: Sequence[str] | None = None) -> Release:
    """Publish a matrix of people who are made up or public, in memory: nothing is spent, so nothing is warned of."""
    sketches, vocabulary = publish_here(table, plan, Options(attributes=attributes))
    return Release(sketches, vocabulary=vocabulary)


@overload
def survey(
    source: Any, budget: Budget, *, dry_run: Literal[True], **options: Unpack[SurveyOptions]
) -> SurveyOutcome[Any]: ...
@overload
def survey(
    source: Any, budget: Budget, *, dry_run: Literal[False] = False, **options: Unpack[SurveyOptions]
) -> Survey | Profiles | Directions: ...


@takes_fields(Questions)
def survey(
    source: Any, budget: Budget, *, dry_run: bool = False, **options: Unpack[SurveyOptions]
) -> Survey | Profiles | Directions | SurveyOutcome[Any]:
    """Learn what planning needs to know about a private table, for a share of its budget.

    A few noisy counts: which attributes are frequent, how many a person has, how far apart people are. The result is
    public, and charged as a release is.

    Parameters
    ----------
    source : path, list of paths, data frame, Arrow table, array_like or SciPy sparse matrix
        As of :func:`publish`. The rows of a matrix are its roster, and its columns its public list of attributes.
    budget : Budget
        Of all answers together: a few hundredths are enough for thousands of people.
    dry_run : bool, default=False
        Check everything, say what it would cost, and draw no noise.
    ask : iterable of {"vocabulary", "counts", "weights", "distances", "directions"}, optional
        The questions. "counts": how many people have each attribute of the public list ``vocabulary``. "vocabulary":
        the same where there is no list, for the names that many people have; takes δ > 0. "weights": how many
        attributes people have. "distances": squared distances of people paired by chance; both take a roster. By
        default all that can be answered with what is given. "directions", alone: directions learned from which
        attributes go together; takes a roster, δ > 0 and many people, and ``out`` is a directions file.
    share : mapping of question to number, optional
        How the budget is divided, in proportion to these; 1 for a question that is not named.
    unit : {"attribute", "column"}, default="attribute"
        What is protected.
    resolution : int, default=1
        Steps of a value in [0, 1]; 1 for bits.
    seed : 32 bytes or 64 hexadecimal digits, optional
        Public: it keys the order in which people are paired. Fresh by default.
    by : path, optional
        A file made by ``dimly segments``: how many people of each segment have each attribute of the public list
        ``vocabulary``, and nothing else. The people are then those of the segments, and ``out`` is a Parquet file.
    members : int, optional
        For directions: how many attributes of a person count at most; 150 by default.
    buckets : int, optional
        For directions: put attributes into so many hash buckets, 64 to 65,536, and learn which buckets go together. By
        default 4,096 if there is no list of attributes, or one of more than 2²⁰; otherwise buckets are not used.
    protect : int, default=1
        ``budget`` is for any so many attributes of a person together, by group privacy.
    total : bool, default=False
        Whether ``budget`` is for the survey and for a release after it together: the survey takes a tenth, for
        directions three tenths of ε. :func:`dimly.plan` takes the rest, with the same budget and ``total``.
    **options
        As of :func:`publish`, but for those about people and folders: ``out`` is a JSON file, and ``append``,
        ``update``, ``directions`` and ``volunteers`` do not apply, and ``pseudonyms`` only with ``by``: the key of the
        release that the segments are of, if it has pseudonyms.

    Returns
    -------
    Survey
        The answers; with ``by`` :class:`~dimly.release.documents.profiles_file.Profiles`, for directions
        :class:`~dimly.mechanisms.Directions`. After a dry run a :class:`~dimly.curator.survey.run.SurveyOutcome`.

    Raises
    ------
    ParameterError
        If the call cannot work, or there are too few people to tell anything at this budget.
    DataError
        If the table does not fit, or roster and list leave nothing of it. The text holds nothing of the table.
    BudgetError
        If the ledger does not allow it.

    Examples
    --------
    >>> people = [[1, 0, 1], [0, 1, 1]] * 500
    >>> found = survey(people, Budget(1.0), ask=["counts", "weights"])
    >>> [one.attribute for one in found.counts.attributes], found.weights.quantiles["0.5"].value
    (['0', '1', '2'], 2.0)
    """
    given: dict[str, Any] = dict(options)
    questions = Questions(**{one.name: given.pop(one.name) for one in fields(Questions) if one.name in given})
    check_keywords(given, function="survey")
    with progress_bar(given.get("progress"), "asking") as watching:
        done = ask_table(source, budget, questions, Options(dry_run=dry_run, **{**given, "progress": watching}))
    for text in done.warnings:
        warnings.warn(text, PrivacyWarning, stacklevel=2)
    found: Survey | Profiles | LearnedFile | None = done.survey
    if isinstance(found, LearnedFile):
        return found.directions
    return done if found is None else found
