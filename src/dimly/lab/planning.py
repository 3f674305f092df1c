"""``dimly.plan`` and ``dimly.advise``: by theory from what is stated, or by a public sample."""

import warnings
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final, Unpack, overload

from dimly.curator.options import READING, Options, TableKeywords, check_keywords
from dimly.errors import ParameterError, PrivacyWarning
from dimly.mechanisms.group_privacy import budget_for_each
from dimly.mechanisms.plan import Plan
from dimly.planner import advice
from dimly.planner.advice import Advice
from dimly.planner.brief import AnyKeywords, Brief, StatedKeywords
from dimly.planner.survey_facts import less_spent
from dimly.privacy import Budget

if TYPE_CHECKING:
    from dimly.lab.by_example.outcome import Trial
    from dimly.progress import OnProgress

_TOLD: Final = tuple(field.name for field in fields(Brief) if field.name != "budget")


class SampleKeywords(AnyKeywords, TableKeywords, total=False):
    """What is taken beside a sample, for type checkers: part of a brief, and how the sample is read."""


@overload
def advise(budget: Budget, *, sample: None = None, total: bool = False, **told: Unpack[StatedKeywords]) -> Advice: ...
@overload
def advise(
    budget: Budget,
    *,
    sample: Any,
    progress: "OnProgress | None" = None,
    total: bool = False,
    **told: Unpack[SampleKeywords],
) -> "Trial": ...


def advise(
    budget: Budget, *, sample: Any = None, progress: "OnProgress | None" = None, total: bool = False, **told: Any
) -> "Advice | Trial":
    """Return the best plan for a purpose, with everything that was weighed, or measured on a public sample.

    Everything stated must be public knowledge, or chosen before the private table was looked at. Without a sample no
    data is looked at.

    Parameters
    ----------
    budget : Budget
        What one unit of one person may cost.
    sample : path, data frame, matrix, …, optional
        People whose data is public, or who agreed to its publication, as :func:`dimly.publish` takes tables. Everything
        is tried out on them, and ``distance``, ``weight``, ``n_attributes``, ``numbered`` and ``survey`` are left out.
    purpose : {"distances", "neighbors", "segments"}, default="distances"
        What the release is for. Segments are looked for among denoised sketches, for which a larger k is better; see
        docs/planning.md.
    n_attributes : int, optional
        How many attributes there are; needed by randomized response, noisy-distances and families whose rows differ.
    n_users : int, optional
        How many people there will be, about. Without it there is no verdict on neighbors and segments; with a sample,
        it is ten times the sample.
    distance : float or (low, high), optional
        Squared distances of near and of far pairs (of bits: attributes in which they differ); for neighbors, to the
        nearest people and to anybody; for segments, of people of one group and of two. One number is that of far pairs,
        and near ones differ in half as much. Without it, what people of ``weight`` differ in who share nothing but by
        chance; or, without either, 400, and the verdict is unknown.
    weight : float, optional
        Attributes of a person, about. Without it far pairs are taken to share nothing.
    values : {"bits", "unit"}, default="bits"
        Zeros and ones, or values in [0, 1]. A sample shows which.
    mechanisms : sequence of str, optional
        Those to choose from; all by default. With a sample it may name ``directions+laplace`` and
        ``directions+gaussian``, too.
    max_bytes_per_user : int, optional
        Largest size of one person's published numbers.
    vocabulary : iterable of attributes, optional
        Public list of the attributes, to which the plan is then closed. Mechanisms that need a closed list are left out
        without it, unless ``numbered``, or they are named by ``mechanisms``.
    numbered : bool, default=False
        Whether attributes are the numbers "0", "1", … below ``n_attributes``: then a closed list may be these.
        Everything else would be left out of what is published.
    n_groups : int, optional
        How many groups segments are to find, about; the verdict takes 6 of equal size by default, or as many as a
        sample shows.
    resolution : int, optional
        Steps of a value in [0, 1]; 16 by default.
    unit : {"attribute", "column"}, default="attribute"
        What is protected.
    protect : int, default=1
        ``budget`` is for any so many attributes of a person together, by group privacy. The plan says so, and its own
        budget is what that leaves for one of them.
    seed : 32 bytes or 64 hexadecimal digits, optional
        Public seed of the projection; fresh by default. Not used by mechanisms that have none.
    survey : Survey, optional
        Made by :func:`dimly.survey`: distances, weight and numbers of people and attributes are taken from it where
        they are not stated. Near pairs are then the nearest tenth of random ones, far ones the middle of them, or for
        distances the farthest tenth.
    total : bool, default=False
        Whether ``budget`` is for the survey and the release together: what ``survey`` spent is taken off it. Beside a
        sample nothing else is taken from the survey.
    user, attribute, attributes, columns, value, users : optional
        Of the sample, as of :func:`dimly.publish`; so are ``table``, ``query``, ``delimiter``, ``quote``, ``escape``,
        ``encoding`` and ``nulls``.
    progress : callable, optional
        With a sample: told of (trials done, trials in all, about).

    Returns
    -------
    Advice or Trial
        Its ``plan`` is what :func:`plan` returns.

    Raises
    ------
    ParameterError
        If no mechanism can serve, or the arguments do not fit each other.

    Examples
    --------
    >>> found = advise(Budget(1.0), n_attributes=100_000, distance=(100, 800))
    >>> found.plan.mechanism, found.verdict
    ('counting+laplace', 'good')
    """
    return _answer("advise", budget, sample, progress, told, total=total)


def plan(
    budget: Budget, *, sample: Any = None, progress: "OnProgress | None" = None, total: bool = False, **told: Any
) -> Plan:
    """Return the best plan for a purpose. :func:`advise` takes the same arguments, and tells the rest.

    Warns if the plan is not feasible, δ is not well below 1/n, or a sample is too small to tell.

    Examples
    --------
    >>> plan(Budget(4.0), n_attributes=700, numbered=True).mechanism
    'randomized-response'
    >>> chosen = plan(Budget(4.0), n_attributes=100_000)
    >>> chosen.mechanism, chosen.projection.k
    ('counting+laplace', 1670)
    """
    found = _answer("plan", budget, sample, progress, told, total=total)
    for text in found.doubts:
        warnings.warn(text, PrivacyWarning, stacklevel=2)
    if found.verdict == "not feasible":
        warnings.warn(found.words, UserWarning, stacklevel=2)
    elif not isinstance(found, Advice):
        for text in found.cautions:
            warnings.warn(text, UserWarning, stacklevel=2)
    return found.plan


def _answer(
    function: str, budget: Budget, sample: Any, progress: "OnProgress | None", told: Mapping[str, Any], *, total: bool
) -> "Advice | Trial":
    """Make records of the keywords of a call: what the planner is told, and how a sample is read; and answer."""
    check_keywords(told, function=function, known=("sample", "progress", "total", *_TOLD, *READING))
    brief = Brief(budget, **{name: value for name, value in told.items() if name in _TOLD})
    brief = replace(brief, budget=budget_for_each(brief.budget, brief.protect))
    if total:
        brief = less_spent(brief) if sample is None else replace(less_spent(brief), survey=None)
    if sample is None:
        for name in READING:
            if told.get(name) is not None:
                raise ParameterError(f"{name} must be given together with sample: it says how that is read.")
        return advice.advise(brief)
    from dimly.lab.by_example.tryout import check_unstated, try_out  # noqa: PLC0415
    from dimly.lab.sample import read_sample  # noqa: PLC0415  (slow to import)

    check_unstated(brief)
    reading = Options(**{name: value for name, value in told.items() if name in READING})
    return try_out(brief, read_sample(sample, reading, unit=brief.unit), progress=progress)
