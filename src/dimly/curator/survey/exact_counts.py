"""How many people have two attributes, or two hash buckets: exact counts from which directions are learned.

Where the list of attributes is short, pairs of attributes are counted. Where it is long, or there is none, every
attribute falls into one of M buckets by a public hash, and a person has a bucket if they have any attribute in it,
once. So one attribute more or less adds or removes at most one bucket, whatever else is in it.

Of each person at most W columns count, attributes or buckets: the first in an order of their own, which follows from
their id and the plan's seed alone. Let F be the first W of what somebody has. One column more displaces at most the
last of F, and one less lets at most the next one in. One in the place of another, in all: if the old one was in F, its
place is taken by the new one or by the next; if not, the new one displaces at most the last. So at most one member of F
is exchanged for one other. Each of the two is in W − 1 pairs with those that stay: 2(W − 1) counts move by 1.

The order differs between people so that truncation favors no column. With one order for everybody, people who have many
would be counted by the early columns alone, and early against late columns would be a direction of its own.
"""

import hashlib
from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dimly.curator import kernels
from dimly.curator.engine import cut_batches, people_of_sorted
from dimly.curator.people import People
from dimly.curator.perturb import Texts
from dimly.curator.survey.run import PEOPLE_AT_ONCE, CountedTable, CountingTable, having, order_key
from dimly.mechanisms.projection.directions import Buckets
from dimly.mechanisms.survey_plan import SurveyPlan

KEY_DIGITS: Final = 15
"""Hexadecimal digits of a hash that key a person's order: 60 bits, which fit the integers of every engine."""
_TEXTS_AT_ONCE: Final = 1 << 16

Integers = NDArray[np.int64]


def count_columns(table: CountedTable, plan: SurveyPlan, buckets: Buckets) -> Integers:
    """Return how many people have each bucket."""
    if isinstance(table, CountingTable):
        return table.count_buckets(buckets)
    found = np.zeros(buckets.count, np.int64)
    for _, people in _batches(table, plan, buckets):
        found += np.bincount(people.indices, minlength=buckets.count)
    return found


def count_pairs(
    table: CountedTable, plan: SurveyPlan, chosen: Integers, *, width: int, members: int, buckets: Buckets | None = None
) -> Integers:
    """Return above the diagonal how many people have each two of the ``chosen`` columns among their first W.

    Parameters
    ----------
    table : CountedTable
    plan : SurveyPlan
    chosen : ndarray of int
        Numbers of attributes in the list, or of buckets.
    width : int
        How many attributes or buckets there are.
    members : int
        W.
    buckets : Buckets, optional
        If columns are buckets.
    """
    column = np.full(width, -1, np.int32)
    column[chosen] = np.arange(len(chosen))
    if isinstance(table, CountingTable):
        return table.count_pairs(column, size=len(chosen), members=members, key=order_key(plan), buckets=buckets)
    counts = np.zeros((len(chosen), len(chosen)), np.int64)
    key = order_key(plan)
    for first, people in _batches(table, plan, buckets):
        ids = table.users(first, first + len(people)).to_pylist()
        keys = np.fromiter((person_key(key, one) for one in ids), np.uint64, len(ids))
        kernels.count_pairs(people.indptr, people.indices, column, keys, members, counts)
    return counts


def person_key(key: str, user: object) -> int:
    """Return what a person's order of columns is keyed by: the beginning of the hash that pairs people, too."""
    return int(hashlib.sha256(f"{key}{user}".encode()).hexdigest()[:KEY_DIGITS], 16)


def _batches(table: CountedTable, plan: SurveyPlan, buckets: Buckets | None) -> Iterator[tuple[int, People]]:
    """Yield people by their attributes, or by the different buckets of these, and the number of the first."""
    codes = None if buckets is None else bucket_codes(table.texts(), buckets)
    for batch in cut_batches(table.rows(), n_users=table.n_users, step=PEOPLE_AT_ONCE):
        people = having(people_of_sorted(batch, resolution=plan.resolution))
        if codes is not None and buckets is not None:
            people = People(people.indptr, codes[people.indices], None).bounded(width=buckets.count, resolution=1)
        yield batch.first, people


def bucket_codes(texts: Texts, buckets: Buckets) -> NDArray[np.int32]:
    """Return the bucket of each attribute."""
    found = np.empty(len(texts), np.int32)
    for start in range(0, len(texts), _TEXTS_AT_ONCE):
        stop = min(start + _TEXTS_AT_ONCE, len(texts))
        found[start:stop] = buckets.codes(texts.between(start, stop))
    return found
