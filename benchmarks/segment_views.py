"""Segments against plain methods on the same published numbers: ``python -m benchmarks.segment_views [FILE…]``.

People whose groups are known are published with fresh noise: made-up ones, and those of long tables in Parquet that
have a file of labels beside them (see :mod:`benchmarks.accuracy`). Printed are the adjusted Rand indexes with the
groups, medians over runs, of ``release.segments`` and of k-means on the same published numbers: in each of the three
views that docs/denoising.md tells of, on the points as they are published, and on those without the average person's
direction and all of the same length.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from benchmarks.accuracy import tables_of
from dimly.analyst import Release
from dimly.analyst.structure.points import Coordinates
from dimly.analyst.structure.views import View
from dimly.api import publish
from dimly.mechanisms import Plan
from dimly.privacy import Budget

K = 512
MOST_PEOPLE = 2_000
"""Of a table."""
PLANS = (("counting+laplace", 2.0), ("randomized-response", 1.0))
TABLE_PLANS = (
    *(("counting+laplace", epsilon) for epsilon in (1.0, 2.0)),
    *(("hashing+laplace", epsilon) for epsilon in (1.0, 2.0)),
    *(("randomized-response", epsilon) for epsilon in (1.0, 2.0)),
)
NAMES = {"counting+laplace": "counting", "hashing+laplace": "hashing", "randomized-response": "randomized response"}


class People(NamedTuple):
    """People of known groups."""

    name: str
    table: Any
    groups: NDArray[Any]
    plans: tuple[tuple[str, float], ...] = PLANS


def populations() -> Iterator[People]:
    """Yield people whose groups differ in tastes, in activity, or in both."""
    generator = np.random.default_rng(0)

    def drawn(name: str, likes: NDArray[np.float64], activity: NDArray[np.float64] | float, groups: Any) -> People:
        odds = likes / likes.sum(axis=1, keepdims=True) * np.reshape(activity, (-1, 1))
        return People(name, generator.random(odds.shape) < np.minimum(odds, 0.95), groups)

    def tastes(n_groups: int, n_attributes: int) -> NDArray[np.float64]:
        return np.where(generator.random((n_groups, n_attributes)) < 0.2, 10.0, 1.0)

    def uneven(n: int) -> NDArray[np.float64]:
        return generator.lognormal(-0.32, 0.8, n)

    n, groups, likes = 1_500, generator.integers(3, size=1_500), tastes(3, 400)
    popular = (np.arange(400) + 1.0) ** -1.0
    two_kinds = np.where(generator.random(n) < 0.5, 0.4, 1.6)
    yield drawn("equal activity", likes[groups], 40, groups)
    yield drawn("equal activity, Zipf", (likes * popular)[groups], 40, groups)
    yield drawn("uneven activity", likes[groups], 40 * uneven(n), groups)
    yield drawn("quiet and active people in each group", likes[groups], 40 * two_kinds, groups)
    yield drawn("quiet and active groups", likes[groups], np.array([16, 40, 64])[groups], groups)
    weak = np.where(generator.random((3, 1_000)) < 0.2, 3.0, 1.0)
    yield drawn("quiet and active groups, weak tastes", weak[groups], np.array([30, 60, 120])[groups], groups)
    mixed = generator.dirichlet([0.3] * 3, n)
    yield drawn("mixed tastes, uneven activity", mixed @ likes, 40 * uneven(n), mixed.argmax(axis=1))
    sizes = generator.choice(3, n, p=[0.7, 0.2, 0.1])
    yield drawn("one large group, uneven activity", likes[sizes], 40 * uneven(n), sizes)
    few = generator.integers(4, size=500)
    yield drawn("500 people, weight 60", tastes(4, 600)[few], 60 * uneven(500), few)
    yield drawn(
        "800 people, weight 400, weak tastes", tastes(3, 2_000)[groups[:800]] ** 0.4, 400 * uneven(800), groups[:800]
    )
    many = generator.integers(6, size=20_000)
    yield drawn("20,000 people, weight 40", tastes(6, 400)[many], 40 * uneven(20_000), many)._replace(plans=PLANS[:1])


def releases(people: People, mechanism: str, epsilon: float, runs: int) -> Iterator[Release]:
    """Yield fresh publications; seeds are fresh, too, since which attributes meet makes more difference than noise."""
    k = None if mechanism == "randomized-response" else K
    for _ in range(runs):
        yield publish(people.table, Plan.of(mechanism, Budget(epsilon), k=k, n_attributes=people.table.shape[1]))


def agreements(release: Release, people: People) -> list[float]:
    """Return how well segments, and k-means in each view, agree with the groups."""
    count = len(np.unique(people.groups))
    points = Coordinates.of(release.plan).points(release.values)
    view = View.of(release.denoiser, denoise=True, count=count)
    rays = [each for each in view.others(count) if not each.activity] or [view]
    components = [each for each in view.others(count) if each.plain] or [view]
    plain = [each(points).grouped(count, 10).labels_ for each in (view, *components, *rays)]
    points -= release.denoiser.mean
    across = points - np.outer(points @ release.denoiser.mean, release.denoiser.mean / np.sum(release.denoiser.mean**2))
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    plain += [KMeans(count, n_init=3, random_state=0).fit(each).labels_ for each in (points, across)]
    return [float(adjusted_rand_score(people.groups, labels)) for labels in (release.segments(count).labels, *plain)]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, help="long tables in Parquet, with labels")
    parser.add_argument("--runs", type=int, default=3, help="publications of each")
    options = parser.parse_args()
    everybody = [
        People(table.name, table.people.table, table.labels, TABLE_PLANS)
        for path in options.files
        for table in tables_of(path, MOST_PEOPLE)
        if table.labels is not None
    ]
    print("| people | mechanism | **segments** | denoised | components | rays | as published | of length 1 |")
    print("|---|---|---|---|---|---|---|---|")
    for people in (*everybody, *populations()):
        for mechanism, epsilon in people.plans:
            every = [agreements(release, people) for release in releases(people, mechanism, epsilon, options.runs)]
            found, *others = (f"{value:.2f}" for value in np.median(every, axis=0))
            name = f"{NAMES[mechanism]}, ε = {epsilon:g}"
            print(f"| {people.name} | {name} | **{found}** | {' | '.join(others)} |", flush=True)


if __name__ == "__main__":
    main()
