"""Exact counts, before noise: attributes, weights, distances, segments, pairs of attributes or buckets.

They never leave the curator but with noise. People are numbered by a keyed public order, so that pairs of them stand
side by side in one pass over the sorted rows.

For directions it is counted how many people have two attributes. Where the list of attributes is long, or there is
none, every attribute falls into one of M buckets by a public hash, and a person has a bucket if they have any attribute
in it, once. So one attribute more or less adds or removes at most one bucket, whatever else is in it.

Of each person at most W columns count, attributes or buckets: the first in an order of their own, which follows from
their id and the plan's seed alone. Let F be the first W of what somebody has. One column more displaces at most the
last of F, and one less lets at most the next one in. One in the place of another, in all: if the old one was in F, its
place is taken by the new one or by the next; if not, the new one displaces at most the last. So at most one member of F
is exchanged for one other. Each of the two is in W − 1 pairs with those that stay: 2(W − 1) counts move by 1.

The order differs between people so that truncation favors no column. With one order for everybody, people who have many
would be counted by the early columns alone, and early against late columns would be a direction of its own.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dimly.curator import kernels
from dimly.curator.engine import NamedTable, cut_batches, people_of_sorted
from dimly.curator.options import Progress
from dimly.curator.people import People
from dimly.curator.perturb import Texts
from dimly.mechanisms.error.survey_quantiles import boundaries, cumulative
from dimly.mechanisms.projection.directions import Buckets
from dimly.mechanisms.survey_plan import SurveyPlan
from dimly.mechanisms.vocabulary import Vocabulary

MOST_ATTRIBUTES: Final = 1 << 24
"""Weights and distances beyond this are not told apart, where no list bounds them."""
PEOPLE_AT_ONCE: Final = 1 << 16
"""Whose rows are counted together; fewer where they have many."""
KEY_DIGITS: Final = 15
"""Hexadecimal digits of a hash that key a person's order: 60 bits, which fit the integers of every engine."""
_TEXTS_AT_ONCE: Final = 1 << 16

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ExactCounts:
    """Exact counts of a private table. They never leave the curator but with noise."""

    attributes: Integers
    weights: Integers
    distances: Integers


class CountingTable(ABC):
    """A private table that is counted where it lies, by a cluster: only counts come to this machine."""

    @property
    @abstractmethod
    def n_users(self) -> int:
        """How many people there are."""

    @abstractmethod
    def texts(self) -> Texts:
        """Return the attributes that were counted."""

    @abstractmethod
    def count(self, plan: SurveyPlan, *, vocabulary: Vocabulary | None) -> ExactCounts:
        """Return what :func:`count_table` does; of what the plan does not ask for nothing."""

    @abstractmethod
    def count_segments(self, users: pa.Array, segments: Integers, *, shape: tuple[int, int]) -> Integers:
        """Return how many of these people have each attribute of the list, by the number of their segment."""

    @abstractmethod
    def count_buckets(self, buckets: Buckets) -> Integers:
        """Return how many people have each bucket."""

    @abstractmethod
    def count_pairs(
        self, column: NDArray[np.int32], *, size: int, members: int, key: str, buckets: Buckets | None
    ) -> Integers:
        """Return what :func:`~dimly.curator.kernels.count_pairs` counts, by everybody's own key."""


def count_table(
    table: NamedTable | CountingTable, plan: SurveyPlan, *, vocabulary: Vocabulary | None, progress: Progress
) -> ExactCounts:
    """Return exact counts: of attributes, and of people and pairs at most each boundary."""
    if isinstance(table, CountingTable):
        progress.phase("counting")
        return table.count(plan, vocabulary=vocabulary)
    width = len(table.texts())
    at = boundaries_for(vocabulary)
    exact = ExactCounts(np.zeros(width, np.int64), np.zeros(len(at), np.int64), np.zeros(len(at), np.int64))
    batches = cut_batches(table.rows(), n_users=table.n_users, step=PEOPLE_AT_ONCE, together=2)
    first = next(batches)  # after sorting
    progress.phase("counting")
    progress.start(table.n_users)
    for batch in chain([first], batches):
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


def count_segments(
    table: NamedTable, plan: SurveyPlan, segments: NDArray[np.int64], *, count: int, width: int, progress: Progress
) -> NDArray[np.int64]:
    """Return exactly how many people of each segment have each attribute."""
    exact = np.zeros(count * width, np.int64)
    for number, batch in enumerate(cut_batches(table.rows(), n_users=table.n_users, step=PEOPLE_AT_ONCE)):
        if not number:
            progress.phase("counting")
            progress.start(table.n_users)
        people = having(people_of_sorted(batch, resolution=plan.resolution))
        of = np.repeat(segments[batch.first : batch.stop], np.diff(people.indptr))
        counted = of >= 0
        exact += np.bincount(of[counted] * width + people.indices[counted], minlength=len(exact))
        progress.advance(len(people))
    return exact.reshape(count, width)


def order_key(plan: SurveyPlan) -> str:
    """Return the public key of the order in which people are paired."""
    return f"dimly/survey {plan.seed} "


def count_columns(table: NamedTable, plan: SurveyPlan, buckets: Buckets) -> Integers:
    """Return how many people have each bucket."""
    if isinstance(table, CountingTable):
        return table.count_buckets(buckets)
    found = np.zeros(buckets.count, np.int64)
    for _, people in _batches(table, plan, buckets):
        found += np.bincount(people.indices, minlength=buckets.count)
    return found


def count_pairs(
    table: NamedTable, plan: SurveyPlan, chosen: Integers, *, width: int, members: int, buckets: Buckets | None = None
) -> Integers:
    """Return above the diagonal how many people have each two of the ``chosen`` columns among their first W.

    Parameters
    ----------
    table : NamedTable
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


def _batches(table: NamedTable, plan: SurveyPlan, buckets: Buckets | None) -> Iterator[tuple[int, People]]:
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
