"""``dimly.plan`` and ``dimly.advise``: by theory from what is stated, or by trying it out on a public sample."""

import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, overload

from dimly.errors import ParameterError, PrivacyWarning
from dimly.mechanisms.plan import Plan
from dimly.planner import advice
from dimly.planner.advice import Advice
from dimly.planner.question import Purpose, Values
from dimly.privacy import Budget, Unit

if TYPE_CHECKING:
    from dimly.lab.trial import Progress, Trial

_IN_ITS_PLACE: Final = "must be left out where a sample is given: everything is tried out on the sample instead."


@overload
def advise(
    budget: Budget,
    *,
    sample: None = None,
    purpose: Purpose = ...,
    n_attributes: int | None = ...,
    n_users: int | None = ...,
    distance: float | tuple[float, float] | None = ...,
    weight: float | None = ...,
    values: Values = ...,
    mechanisms: Sequence[str] | None = ...,
    max_bytes_per_user: int | None = ...,
    vocabulary: Iterable[object] | None = ...,
    numbered: bool = ...,
    n_groups: int | None = ...,
    resolution: int | None = ...,
    unit: Unit = ...,
    seed: bytes | str | None = ...,
) -> Advice: ...
@overload
def advise(
    budget: Budget,
    *,
    sample: Any,
    purpose: Purpose = ...,
    n_users: int | None = ...,
    mechanisms: Sequence[str] | None = ...,
    max_bytes_per_user: int | None = ...,
    vocabulary: Iterable[object] | None = ...,
    n_groups: int | None = ...,
    resolution: int | None = ...,
    unit: Unit = ...,
    seed: bytes | str | None = ...,
    progress: "Progress | None" = ...,
    **reading: Any,
) -> "Trial": ...


def advise(budget: Budget, *, sample: Any = None, **asked: Any) -> "Advice | Trial":
    """Return the best plan for a purpose, with everything that was weighed, or measured on a public sample.

    Parameters
    ----------
    budget : Budget
        What one unit of one person may cost.
    sample : path, data frame, matrix, …, optional
        People whose data is public, or who agreed to its publication, as :func:`dimly.publish` takes tables; read by
        ``user``, ``attribute``, ``attributes``, ``columns``, ``value`` and so on. Then everything is tried out on them,
        and neither distances nor weights are stated. Without a sample no data is looked at.
    **asked
        Without a sample as of :func:`dimly.planner.advise`. With one: ``purpose``, ``n_users``, ``n_groups``,
        ``mechanisms``, ``max_bytes_per_user``, ``vocabulary``, ``resolution``, ``unit`` and ``seed`` of it,
        ``progress``, and how the sample is read.

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
    if sample is None:
        return advice.advise(budget, **asked)
    from dimly.lab.sample import read_sample  # noqa: PLC0415  (slow to import)
    from dimly.lab.tryout import try_out  # noqa: PLC0415

    for name in ("distance", "weight", "n_attributes"):
        if asked.get(name) is not None:
            raise ParameterError(f"{name} {_IN_ITS_PLACE}")
        asked.pop(name, None)
    if asked.pop("numbered", False):
        raise ParameterError(f"numbered {_IN_ITS_PLACE} Give the list of attributes by vocabulary.")
    asked.pop("values", None)  # the sample shows whether there are others than 0 and 1
    own = {name: asked.pop(name) for name in _OWN if name in asked}
    people = read_sample(sample, unit=own.get("unit", "attribute"), **asked)
    return try_out(budget, people, **own)


_OWN: Final = (
    "purpose",
    "n_users",
    "n_groups",
    "mechanisms",
    "max_bytes_per_user",
    "vocabulary",
    "resolution",
    "unit",
    "seed",
    "progress",
)


def plan(budget: Budget, *, sample: Any = None, **asked: Any) -> Plan:
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
    found: Advice | Trial = advise(budget, sample=sample, **asked)
    for text in found.doubts:
        warnings.warn(text, PrivacyWarning, stacklevel=2)
    if found.verdict == "not feasible":
        warnings.warn(found.words, UserWarning, stacklevel=2)
    elif not isinstance(found, Advice):
        for text in found.cautions:
            warnings.warn(text, UserWarning, stacklevel=2)
    return found.plan
