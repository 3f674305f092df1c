"""Segments against plain methods on the same published numbers: ``python -m benchmarks.segment_views [FILE…]``.

People whose groups are known are published with fresh noise: made-up ones, and those of long tables in Parquet. A table
that has a file of labels beside it is compared with those (see :mod:`benchmarks.accuracy`), others with k-means on the
raw table. Printed are adjusted Rand indexes, one publication a line, of ``release.segments`` and of the two plain
methods on the same published numbers: k-means on the points less their average, and on as many principal components as
there are groups. At the end stands how often ``segments`` fell behind the better of the two by more than 0.03, and by
how much at worst.

Populations are in two parts. ``--part seen`` are those that views were made for; ``--part aside`` had no part in it.
"""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from benchmarks.accuracy import tables_of
from dimly.analyst import Release
from dimly.analyst.structure.coordinates import Coordinates
from dimly.api import publish
from dimly.mechanisms import Plan
from dimly.privacy import Budget

MOST_PEOPLE = 1_500
"""Of a table."""
BEHIND = 0.03
COUNTS = (3, 6)
"""Groups of k-means on raw tables without labels."""
LARGEST_RESPONSE = 1_000
"""Attributes up to which randomized response is tried."""
RUNS = 10
"""Of plain k-means: as many as ``segments`` does."""

Floats = NDArray[np.float64]
How = tuple[str, float, int]
SEEN: tuple[How, ...] = (("counting+laplace", 2.0, 512), ("randomized-response", 1.0, 0))
ASIDE: tuple[How, ...] = (
    ("counting+laplace", 1.5, 256),
    ("hashing+laplace", 3.0, 64),
    ("hashing+laplace", 2.0, 1024),
    ("randomized-response", 1.5, 0),
)
TABLES: tuple[How, ...] = (
    ("counting+laplace", 1.0, 512),
    ("hashing+laplace", 2.0, 256),
    ("counting+laplace", 4.0, 2048),
    ("hashing+laplace", 4.0, 64),
    ("randomized-response", 2.0, 0),
)


class People(NamedTuple):
    """People of known groups."""

    name: str
    table: Any
    groups: NDArray[Any]
    plans: tuple[How, ...]


class _Maker:
    """Draws people who have attributes independently of each other, given their group and how active they are."""

    def __init__(self, seed: int, plans: tuple[How, ...]) -> None:
        self.generator, self.plans = np.random.default_rng(seed), plans

    def __call__(self, name: str, likes: Floats, activity: Floats | float, groups: Any) -> People:
        odds = likes / likes.sum(axis=1, keepdims=True) * np.reshape(activity, (-1, 1))
        return People(name, self.generator.random(odds.shape) < np.minimum(odds, 0.95), groups, self.plans)

    def tastes(self, n_groups: int, n_attributes: int, taste: float = 10.0) -> Floats:
        return np.where(self.generator.random((n_groups, n_attributes)) < 0.2, taste, 1.0)

    def uneven(self, n: int, spread: float = 0.8) -> Floats:
        return self.generator.lognormal(-(spread**2) / 2, spread, n)


def seen() -> Iterator[People]:
    """Yield the people that views were made for: groups differ in tastes, in activity, or in both."""
    made = _Maker(0, SEEN)
    generator = made.generator
    n, groups, likes = 1_500, generator.integers(3, size=1_500), made.tastes(3, 400)
    popular = (np.arange(400) + 1.0) ** -1.0
    two_kinds = np.where(generator.random(n) < 0.5, 0.4, 1.6)
    yield made("equal activity", likes[groups], 40, groups)
    yield made("equal activity, Zipf", (likes * popular)[groups], 40, groups)
    yield made("uneven activity", likes[groups], 40 * made.uneven(n), groups)
    yield made("quiet and active people in each group", likes[groups], 40 * two_kinds, groups)
    yield made("quiet and active groups", likes[groups], np.array([16, 40, 64])[groups], groups)
    weak = made.tastes(3, 1_000, 3.0)
    yield made("quiet and active groups, weak tastes", weak[groups], np.array([30, 60, 120])[groups], groups)
    mixed = generator.dirichlet([0.3] * 3, n)
    yield made("mixed tastes, uneven activity", mixed @ likes, 40 * made.uneven(n), mixed.argmax(axis=1))
    sizes = generator.choice(3, n, p=[0.7, 0.2, 0.1])
    yield made("one large group, uneven activity", likes[sizes], 40 * made.uneven(n), sizes)
    few = generator.integers(4, size=500)
    yield made("500 people, weight 60", made.tastes(4, 600)[few], 60 * made.uneven(500), few)
    heavy = groups[:800]
    strong = made.tastes(3, 2_000, 10.0**0.4)
    yield made("800 people, weight 400, weak tastes", strong[heavy], 400 * made.uneven(800), heavy)
    cloud = np.exp(0.7 * generator.standard_normal((n, 4)) @ generator.standard_normal((4, 400)))
    yield made("activity alone, tastes without groups", cloud, np.array([15, 40, 90])[groups], groups)
    yield made("activity alone, Zipf", np.tile(popular**0.7, (n, 1)), np.array([15, 40, 90])[groups], groups)


def aside() -> Iterator[People]:
    """Yield people who had no part in making views, light and heavy, few and many."""
    made = _Maker(2, ASIDE)
    generator = made.generator
    many, ten = generator.integers(5, size=8_000), generator.integers(10, size=3_000)
    yield made("8,000 light people in five groups", made.tastes(5, 300, 15.0)[many], 12, many)
    yield made("ten groups, equal activity", made.tastes(10, 600)[ten], 60, ten)
    yield made("ten groups, uneven activity", made.tastes(10, 600)[ten], 60 * made.uneven(3_000, 0.5), ten)
    unequal = generator.choice(4, 1_200, p=[0.6, 0.25, 0.1, 0.05])
    likes = made.tastes(4, 500)
    yield made("four unequal groups", likes[unequal], 50, unequal)
    yield made("four unequal groups, uneven activity", likes[unequal], 50 * made.uneven(1_200, 0.6), unequal)
    heavy = generator.integers(3, size=600)
    yield made("600 heavy people", made.tastes(3, 3_000, 3.0)[heavy], 900, heavy)
    yield made("600 heavy people, uneven", made.tastes(3, 3_000, 3.0)[heavy], 600 * made.uneven(600, 0.4), heavy)
    few = generator.integers(2, size=200)
    yield made("200 people in two groups", made.tastes(2, 400, 8.0)[few], 80, few)
    two = generator.integers(2, size=1_200)
    active = np.array([30, 70])[two] * made.uneven(1_200, 0.25)
    yield made("two groups, weak tastes, one more active", made.tastes(2, 500, 3.0)[two], active, two)
    yield made("two levels of activity alone", np.ones((1_200, 300)), np.array([15, 60])[two], two)
    four = generator.integers(4, size=1_500)
    levels = np.array([15, 25, 45, 80])[four]
    yield made("four groups, each as active as it likes", made.tastes(4, 800, 4.0)[four], levels, four)
    nobody = generator.integers(3, size=1_000)
    yield made("no groups", np.tile((np.arange(400) + 1.0) ** -0.8, (1_000, 1)), 40 * made.uneven(1_000), nobody)


PARTS: dict[str, Callable[[], Iterator[People]]] = {"seen": seen, "aside": aside}


def tables(path: Path, skip: int = 0) -> Iterator[People]:
    """Yield the people of a table, with labels, or with the groups that k-means finds in the raw table."""
    *_, table = tables_of(path, MOST_PEOPLE, skip=skip)
    people = table.people.table
    if table.labels is not None:
        yield People(table.name, people, np.unique(table.labels, return_inverse=True)[1], TABLES)
        return
    dense = np.asarray(people.todense(), np.float32)
    for count in COUNTS:
        exact = KMeans(count, n_init=5, random_state=0).fit(dense).labels_
        yield People(f"{table.name}, {count} groups of k-means", people, exact, TABLES)


def releases(people: People, how: How, runs: int) -> Iterator[Release]:
    """Yield fresh publications; seeds are fresh, too, since which attributes meet makes more difference than noise."""
    mechanism, epsilon, k = how
    for _ in range(runs):
        plan = Plan.of(mechanism, Budget(epsilon), k=k or None, n_attributes=people.table.shape[1])
        yield publish(people.table, plan)


class Agreement(NamedTuple):
    """Adjusted Rand indexes with the groups."""

    segments: float
    components: float
    published: float

    @classmethod
    def of(cls, release: Release, groups: NDArray[Any]) -> "Agreement":
        """Return how well segments, and k-means on the same numbers, agree with groups."""
        count = len(np.unique(groups))
        points = Coordinates.of(release.plan).points(release.values)
        points -= points.mean(axis=0)
        turned, lengths, _ = np.linalg.svd(points, full_matrices=False)
        plain = [turned[:, :count] * lengths[:count], points]
        every = [KMeans(count, n_init=RUNS, random_state=0).fit(each).labels_ for each in plain]
        labels = (release.segments(count).labels, *every)
        return cls(*(float(adjusted_rand_score(groups, each)) for each in labels))

    @property
    def behind(self) -> float:
        """By how much segments fall behind the better plain method; below 0 if they do not."""
        return max(self.components, self.published) - self.segments


def main() -> None:
    """Print a table, and what it comes to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="long tables in Parquet")
    parser.add_argument("--part", nargs="*", choices=PARTS, default=[], help="made-up people; seen and aside")
    parser.add_argument("--runs", type=int, default=1, help="publications of each")
    parser.add_argument("--skip", type=int, default=0, help="people of a table to pass over")
    options = parser.parse_args()
    parts = options.part or ([] if options.files else list(PARTS))
    everybody = (
        *(people for path in options.files for people in tables(path, options.skip)),
        *(people for part in parts for people in PARTS[part]()),
    )
    print("| people | mechanism, ε, k | **segments** | components | as published | behind |")
    print("|---|---|---|---|---|---|")
    found = []
    for number, people in enumerate(everybody):
        # People who were put aside are published by two of the plans each, in turn.
        for how in people.plans[number % 2 :: 2] if people.plans is ASIDE else people.plans:
            if how[0] == "randomized-response" and people.table.shape[1] > LARGEST_RESPONSE:
                continue
            for release in releases(people, how, options.runs):
                one = Agreement.of(release, people.groups)
                found.append(one)
                name = f"{how[0]}, {how[1]:g}" + (f", {how[2]}" if how[2] else "")
                figures = f"**{one.segments:.2f}** | {one.components:.2f} | {one.published:.2f} | {one.behind:+.2f}"
                print(f"| {people.name} | {name} | {figures} |", flush=True)
    late = [one.behind for one in found if one.behind > BEHIND]
    ahead = sum(one.behind < -BEHIND for one in found)
    worst = max(one.behind for one in found)
    print(f"\n{len(found)} publications: behind by more than {BEHIND} in {len(late)}, {worst:+.2f} at worst; ", end="")
    print(f"ahead by as much in {ahead}.")


if __name__ == "__main__":
    main()
