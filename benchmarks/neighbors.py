"""Searching neighbors: everybody's against flat indexes, one person's against reading the file."""

import importlib.util
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from benchmarks.harness import Result, Run, benchmark, compare
from dimly.analyst import Release
from dimly.analyst.structure.coordinates import Coordinates
from dimly.mechanisms import Plan
from dimly.privacy import Budget
from dimly.release import ReleaseWriter, Sketches, open_folder
from dimly.release.reader import THREADS

N = 10
READING = "reading the file"


@benchmark("neighbor-graph")
def neighbor_graph(quick: bool) -> Iterator[Result]:
    """Find the ten nearest of everybody at k = 256, against FAISS's flat index and scikit-learn's brute force.

    Everyone gets all cores. The peers find neighbors; ours also estimates each distance, with an interval. At 100,000
    people the peers take minutes: they run once there, warmed up by a small graph, and three times at 10,000.
    """
    n_users = 5_000 if quick else 10_000
    yield _graph(n_users, denoise=False, repeats=3)
    yield _graph(n_users, denoise=True, repeats=3)
    if not quick:
        yield _graph(100_000, denoise=False, repeats=1, warmups=0)


def _graph(n_users: int, *, denoise: bool, repeats: int, warmups: int = 1, k: int = 256) -> Result:
    plan = Plan.of("counting+laplace", Budget(1.0), k=k, seed=bytes(32))
    release = Release(Sketches(plan, np.arange(n_users), _published_numbers(n_users, k)))
    points = Coordinates.of(plan).points(release.values)
    found: dict[str, np.ndarray] = {}

    def by_ours() -> None:
        found["ours"] = release.neighbor_graph(N, denoise=denoise).users

    def by_scikit_learn() -> None:
        found["scikit-learn"] = _by_scikit_learn(points)

    def by_faiss() -> None:
        found["faiss"] = _by_faiss(points)

    peers: dict[str, Run] = {"scikit-learn brute force": by_scikit_learn}
    if importlib.util.find_spec("faiss"):
        peers["FAISS flat index"] = by_faiss
    result = compare(
        f"{'denoised' if denoise else 'published'} points, {n_users:,} people",
        by_ours,
        peers,
        work=n_users,
        unit="people",
        parameters={"k": k, "users": n_users, "neighbors": N, "threads": THREADS},
        targets=dict.fromkeys(peers, 1.0),
        repeats=repeats,
        warmups=warmups,
    )
    ours = found.pop("ours")
    for others in () if denoise else found.values():
        shared = [len(np.intersect1d(ours[i], others[i])) for i in range(0, n_users, 10)]
        assert np.mean(shared) > 0.999 * N  # but for ties, of which single precision makes an order of its own
    return result


@benchmark("neighbor-query")
def neighbor_query(quick: bool) -> Iterator[Result]:
    """Find the ten nearest of one at k = 64, against decoding the release with as many threads."""
    n_users, k = (200_000, 64) if quick else (5_000_000, 64)
    plan = Plan.of("counting+laplace", Budget(1.0), k=k, seed=bytes(32))
    with tempfile.TemporaryDirectory() as name:
        path = _write_release(Path(name) / "release", plan, k, n_users)
        release = Release(open_folder(path))
        files = sorted((path / "sketches").iterdir())
        peers: dict[str, Run] = {READING: lambda: _read(files)}
        for denoise in (False, True):

            def query(denoise: bool = denoise) -> None:
                release.neighbors(3 * 1234, N, denoise=denoise)

            yield compare(
                f"{'denoised' if denoise else 'published'} points, {n_users:,} people",
                query,
                peers,
                work=n_users,
                unit="people",
                parameters={"k": k, "users": n_users, "neighbors": N, "threads": THREADS},
                targets={READING: 1 / 1.3},
                repeats=5,
            )


def _published_numbers(n_users: int, k: int) -> np.ndarray:
    """Return integers like those of people of twenty attributes, in eight groups."""
    generator = np.random.default_rng(0)
    rates = generator.gamma(0.5, 20 / k / 0.5, (8, k)).astype(np.float32)
    values = np.empty((n_users, k), np.int16)
    for start in range(0, n_users, 1 << 14):
        part = values[start : start + (1 << 14)]
        noise = np.rint(generator.laplace(scale=1.0, size=part.shape))
        part[:] = noise + generator.poisson(rates[generator.integers(0, 8, len(part))])
    return values


def _write_release(path: Path, plan: Plan, k: int, n_users: int) -> Path:
    with ReleaseWriter(path, plan, user_type="int64") as writer:
        step = writer.layout.users_per_part
        numbers = _published_numbers(step, k)
        generator = np.random.default_rng(1)
        for index in range(writer.layout.n_parts(n_users)):
            rows = writer.layout.users_in(index, n_users)
            users = 3 * np.arange(index * step, index * step + rows)
            writer.write_part(index, users, numbers[generator.permutation(step)[:rows]])
        writer.seal(roster="given")
        return writer.publish()


def _read(files: list[Path]) -> None:
    with ThreadPoolExecutor(THREADS) as pool:
        for _ in pool.map(lambda path: pq.ParquetFile(path).read(use_threads=False).num_rows, files):
            pass


def _by_scikit_learn(points: np.ndarray) -> np.ndarray:
    with threadpool_limits(THREADS):  # the harness pins it to one
        search = NearestNeighbors(n_neighbors=N, algorithm="brute").fit(points)
        found: np.ndarray = search.kneighbors(return_distance=False)
    return found


def _by_faiss(points: np.ndarray) -> np.ndarray:
    import faiss  # noqa: PLC0415  (an extra)

    with threadpool_limits(THREADS):
        index = faiss.IndexFlatL2(points.shape[1])
        index.add(points)
        _, found = index.search(points, N + 1)
    own = found == np.arange(len(points))[:, None]
    own[~own.any(axis=1), -1] = True
    others: np.ndarray = found[~own].reshape(-1, N)
    return others
