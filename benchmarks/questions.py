"""What an analyst asks: segments, wide randomized response, and an index beside the scan of everybody."""

from collections.abc import Iterator

import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import silhouette_score

from benchmarks.harness import Result, benchmark, compare
from dimly.analyst import Release
from dimly.analyst.structure.coordinates import Coordinates
from dimly.analyst.structure.denoise import Denoiser
from dimly.api import publish_public
from dimly.lab.population import make_population
from dimly.mechanisms import Plan
from dimly.privacy import Budget


@benchmark("denoising-bits")
def denoising_bits(quick: bool) -> Iterator[Result]:
    """Find the directions above the noise in randomized response, against scikit-learn's PCA of as many components."""
    n_users, d = (2_000, 1_500) if quick else (6_000, 4_000)
    people = make_population(n_users, d, mean_weight=100, seed=3)
    plan = Plan.of("randomized-response", Budget(2.0), vocabulary=[str(i) for i in range(d)])
    sketches = publish_public(people.table, plan)._sketches
    rank = Denoiser.of(sketches).rank
    points = Coordinates.of(plan).points(sketches.values)
    yield compare(
        f"{n_users:,} people, {d:,} attributes",
        lambda: Denoiser.of(sketches),
        {"scikit-learn PCA": lambda: PCA(rank, svd_solver="covariance_eigh").fit(points)},
        work=n_users,
        unit="people",
        parameters={"users": n_users, "attributes": d, "components": rank},
        repeats=1 if quick else 3,
    )


@benchmark("segments")
def segments(quick: bool) -> Iterator[Result]:
    """Find 2 to 12 segments with their stability, against k-means and the silhouette of each number."""
    n_users = 500 if quick else 2_000
    people = make_population(n_users, 1_000, n_groups=6, mean_weight=60, seed=4)
    sketches = publish_public(people.table, Plan.of("counting+laplace", Budget(4.0), k=256))._sketches
    points = Coordinates.of(sketches.plan).points(sketches.values)

    def by_scikit_learn() -> None:
        for count in range(2, 13):
            silhouette_score(points, KMeans(count, n_init=10, random_state=0).fit_predict(points))

    yield compare(
        f"{n_users:,} people, k = 256",
        lambda: Release(sketches).segments(),
        {"k-means and silhouette": by_scikit_learn},
        work=n_users,
        unit="people",
        parameters={"users": n_users, "k": 256},
        repeats=1 if quick else 3,
    )


@benchmark("neighbor-index")
def neighbor_index(quick: bool) -> Iterator[Result]:
    """Ask an index for the ten nearest of one, against the exact scan of everybody."""
    n_users = 50_000 if quick else 1_000_000
    people = make_population(50_000, 1_000, mean_weight=50, seed=5).table
    whole = people[np.arange(n_users) % 50_000]
    release = publish_public(whole, Plan.of("counting+laplace", Budget(4.0), k=64))
    index = release.index()
    yield compare(
        f"{n_users:,} people, k = 64",
        lambda: index.neighbors(1234),
        {"exact scan": lambda: release.neighbors(1234)},
        work=n_users,
        unit="people",
        parameters={"users": n_users, "k": 64, "recall": round(index.recall, 2), "looked at": index.looked_at},
        repeats=5,
    )
