"""Profiles, ``--by``: how many people of each segment have each attribute, with noise.

The segments are public, because they follow from a release. So one attribute of one person still moves a single count
by 1, however many segments there are.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dimly.curator.engine import NamedTable
from dimly.curator.ledger.charge import ChargeRecord
from dimly.curator.ledger.ledger import Ledger
from dimly.curator.options import Options
from dimly.curator.publication import is_matrix
from dimly.curator.randomness import Keystream, WordSource, is_secret
from dimly.curator.sampling import NoiseSampler
from dimly.curator.survey.exact_counts import CountingTable, count_segments
from dimly.curator.survey.run import (
    Settle,
    SurveyOutcome,
    SurveyTable,
    check_countable,
    open_survey,
    run_survey,
)
from dimly.curator.tables.public_lists import check_apart
from dimly.errors import BudgetError, DataError, ParameterError
from dimly.files import check_output
from dimly.mechanisms.error.survey_quantiles import noise_between
from dimly.mechanisms.survey_plan import SurveyPlan
from dimly.release.documents.profiles_file import Profiles
from dimly.release.documents.segments_file import Labels

MOST_COUNTS: Final = 1 << 26
"""Segments times attributes: half a gigabyte of counts."""
_NOBODY: Final = (
    "by must hold people who have attributes in the table, but it holds none. If the release has pseudonyms, give "
    "their key as pseudonyms=KEY (--pseudonyms KEY). Else check that user names the column of ids, and that segments "
    "are of this table."
)


def profile_table(
    source: Any,
    plan: SurveyPlan,
    options: Options,
    *,
    labels: Labels,
    labels_from: Any = None,
    words: Callable[[], WordSource] = Keystream,
) -> SurveyOutcome[Profiles]:
    """Count the attributes of a public list in each segment of a release.

    Parameters
    ----------
    source, options
        As of :func:`dimly.survey`. The people are those of ``labels``, and no roster is given.
    plan : SurveyPlan
        Of profiles, by the release of ``labels``.
    labels : Labels
    labels_from : path, optional
        Where they were read, to be told from the private table.
    words : callable
        For tests.

    Raises
    ------
    ParameterError
        If there is no public list of attributes, or the labels are the private table.
    BudgetError
        If the ledger knows the dataset, and charged no release of the labels' id to it.
    """
    if is_matrix(source):
        raise ParameterError("source must be a table with a column of people's ids to be divided by segments.")
    if options.roster is not None:
        raise ParameterError("roster must be left out with by: the people are those who are in a segment.")
    if options.vocabulary is None:
        raise ParameterError(
            "vocabulary must be given for profiles, got none. Add vocabulary (--vocabulary) with a public list of "
            "attributes, or with a survey that found the frequent ones."
        )
    _check_ending(options)
    if plan.release != labels.release:
        raise ParameterError("plan must be made for the release that the segments are of.")
    if labels_from is not None:
        _check_labels_apart(source, labels_from, options)
    _check_release(options, labels)
    known = labels.segments >= 0
    people = labels.users.filter(pa.array(known))
    if not len(people):
        raise ParameterError("by must put at least one person into a segment, got none.")
    asked = _opened(source, plan, options, people)
    assert asked.vocabulary is not None  # noqa: S101 - as it was given
    if labels.count * len(asked.vocabulary) > MOST_COUNTS:
        raise ParameterError(
            f"vocabulary must be short enough for {MOST_COUNTS} counts in all, got {len(asked.vocabulary)} attributes "
            f"for {labels.count} segments. Give a list of the frequent ones."
        )
    names = tuple(asked.vocabulary)
    sizes = np.bincount(labels.segments[known], minlength=labels.count)

    def answered(table: NamedTable, _: int | None, begin: Callable[[], Settle]) -> Profiles:
        segments = labels.segments[known]
        if isinstance(table, CountingTable):
            options.watcher.phase("counting")
            exact = table.count_segments(people, segments, shape=(labels.count, len(names)))
        else:
            segments = _in_order(table, people, segments, all_there=options.pseudonyms is None)
            exact = count_segments(
                table, plan, segments, count=labels.count, width=len(names), progress=options.watcher
            )
        noise = plan.noise("profiles")
        begin()
        noisy = np.empty(exact.size, np.int64)
        NoiseSampler(noise).add(exact.reshape(-1), words(), noisy)
        return Profiles(
            plan=plan,
            attributes=names,
            sizes=sizes,
            counts=noisy.reshape(exact.shape),
            spread=noise_between(noise.cells()),
            private=is_secret(words()),
            ledger=options.dataset,
        )

    return run_survey(asked, plan, options, answered)


def _check_ending(options: Options) -> None:
    """Refuse to write Parquet under the name of another format."""
    if options.target is not None and options.target.suffix.lower() in {".json", ".csv"}:
        raise ParameterError(
            f"output must be a Parquet file for profiles, got {options.target.name!r}. End its name in .parquet."
        )


def _check_labels_apart(source: Any, labels_from: Any, options: Options) -> None:
    """Refuse labels that are the table itself, or that would be replaced."""
    check_apart(source, labels_from, "by", files=getattr(source, "files", None))
    if options.target is not None:
        check_output(options.target, overwrite=options.overwrite, inputs=[labels_from])


def _opened(source: Any, plan: SurveyPlan, options: Options, people: pa.Array) -> SurveyTable:
    if options.pseudonyms is None:
        return open_survey(source, plan, replace(options, roster=people), nobody=_NOBODY)
    # The labels do not hold the ids of the table. So all people are read, and others are passed over.
    asked = open_survey(source, plan, options)
    return replace(asked, roster="given", checked=lambda _: check_countable(plan, "profiles", len(people)))


def _in_order(table: NamedTable, users: pa.Array, segments: NDArray[np.int64], *, all_there: bool) -> NDArray[np.int64]:
    """Return the segment of each person of a table, in its order; −1 for those without one."""
    ids = table.users(0, table.n_users)
    if pa.types.is_integer(ids.type) != pa.types.is_integer(users.type):
        ids, users = ids.cast(pa.string()), users.cast(pa.string())
    at = pc.index_in(ids, value_set=users.cast(ids.type))
    if at.null_count == len(at):
        raise DataError(_NOBODY)
    if at.null_count and all_there:
        raise DataError("by must hold everybody who is counted, but some ids are written in another way.")
    places = at.fill_null(len(segments)).to_numpy()
    found: NDArray[np.int64] = np.append(segments, -1)[places]
    return found


def _check_release(options: Options, labels: Labels) -> None:
    """Refuse labels of a release that the ledger does not know of this dataset: nobody can tell what they are of."""
    payer = options.payer
    if payer is None:
        return
    charges = Ledger(payer.ledger).status(payer.dataset).charges
    made = [one for one in charges if one.counts and one.release_id == labels.release and _is_of(one, labels)]
    if not made:
        raise BudgetError(
            f"by must be segments of a release that the ledger charged to dataset {payer.dataset!r}, got those of "
            "another. Labels that come from the private table itself would tell about it without any noise."
        )


def _is_of(charge: ChargeRecord, labels: Labels) -> bool:
    """Return whether a charge is of a release, which claims its people as a survey does not, and of as many people."""
    if charge.n_users is None:
        return False
    grown = charge.appends_to is not None or charge.updates is not None
    return len(labels.users) >= charge.n_users if grown else len(labels.users) == charge.n_users
