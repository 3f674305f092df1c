"""Drawing noise and publishing people on one core, against NumPy and scikit-learn."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

from benchmarks.harness import Result, benchmark, compare
from dimly.curator.people import people_of
from dimly.curator.perturbing import Perturber
from dimly.curator.publishing import publish_people
from dimly.curator.randomness import Keystream
from dimly.curator.sampling import NoiseSampler
from dimly.mechanisms import Plan, Vocabulary
from dimly.privacy import Budget

SAMPLES = 1 << 20
ONES = 100


@benchmark("noise")
def noise(quick: bool) -> Iterator[Result]:
    """Secure integer noise against NumPy's normals, which are neither secure nor integers.

    Ours is added to integers and saturated to 16 bits, as in publishing; NumPy's is only drawn.
    """
    normals = np.empty(SAMPLES)
    generator = np.random.default_rng(0)
    plans = {
        "laplace, ε = 1": Plan.of("counting+laplace", Budget(1.0), k=64),
        "laplace, ε = 0.1": Plan.of("counting+laplace", Budget(0.1), k=64),
        "gaussian, ε = 1": Plan.of("counting+gaussian", Budget(1.0, 1e-6), k=64),
        "gaussian, σ = 1,000 steps": Plan.of("noisy-distances", Budget(1.0, 1e-6), n_users=60_000, n_attributes=9),
    }
    for name, plan in plans.items():
        sampler = NoiseSampler(plan.table)
        sketch, out = np.zeros(SAMPLES, np.int64), np.empty(SAMPLES, np.int16)

        def ours(sampler: NoiseSampler = sampler, sketch: Any = sketch, out: Any = out) -> None:
            sampler.add(sketch, Keystream(), out)

        yield compare(
            name,
            ours,
            {"NumPy standard_normal": lambda: generator.standard_normal(out=normals)},
            work=SAMPLES,
            unit="samples",
            parameters={"mechanism": plan.mechanism, "weights": plan.table.n_weights},
            targets={"NumPy standard_normal": 5.0},
            repeats=5 if quick else 15,
        )


@benchmark("publish")
def publish(quick: bool) -> Iterator[Result]:
    """People with 100 ones among 100,000 attributes to published sketches at k = 256, P derived beforehand.

    Ours checks the matrix, projects, draws noise, saturates and orders. The peers project with scikit-learn and add
    NumPy's normals, all in float32, their fastest type. scikit-learn's Gaussian P is dense.
    """
    n_users, n_attributes, k = (20_000 if quick else 100_000), 100_000, 256
    table = _people(n_users, n_attributes)
    plan = Plan.of("counting+laplace", Budget(1.0), k=k, n_attributes=n_attributes)
    perturber = Perturber(plan, Vocabulary.numbered(n_attributes))
    floats = table.astype(np.float32)
    generator = np.random.default_rng(0)

    def ours() -> object:
        people, _ = people_of(table, resolution=1, n_columns=n_attributes, attributes=None)
        return publish_people(people, perturber)

    def peer(projection: Any) -> object:
        sketches = projection.transform(floats)
        noise = generator.standard_normal((n_users, k), dtype=np.float32)
        return noise + (sketches.toarray() if sparse.issparse(sketches) else sketches)

    thin = SparseRandomProjection(k, random_state=0, dense_output=True).fit(floats)
    dense = GaussianRandomProjection(k, random_state=0).fit(floats)
    yield compare(
        "counting+laplace",
        ours,
        {
            "SparseRandomProjection + normals": lambda: peer(thin),
            "GaussianRandomProjection + normals": lambda: peer(dense),
        },
        work=n_users,
        unit="people",
        parameters={"n_users": n_users, "n_attributes": n_attributes, "ones_per_user": ONES, "k": k},
        targets={"SparseRandomProjection + normals": 4.0, "GaussianRandomProjection + normals": 12.0},
        repeats=5 if quick else 9,
        memory=True,
    )


@benchmark("randomized-response")
def randomized_response(quick: bool) -> Iterator[Result]:
    """Flipping every bit of 100 people with 1 % ones among 100,000 attributes, packed, against NumPy's flips alone."""
    n_users, n_attributes = (20 if quick else 100), 100_000
    table = sparse.random_array((n_users, n_attributes), density=0.01, format="csr", rng=np.random.default_rng(0))
    table.data[:] = 1
    plan = Plan.of("randomized-response", Budget(1.0), n_attributes=n_attributes)
    perturber = Perturber(plan, Vocabulary.numbered(n_attributes))
    people, _ = people_of(table, resolution=1, n_columns=n_attributes, attributes=None)
    generator = np.random.default_rng(0)

    def flips() -> NDArray[np.bool_]:
        return generator.random((n_users, n_attributes)) < 0.2689

    yield compare(
        "ε = 1",
        lambda: perturber.perturb(people, Keystream()),
        {"NumPy random < p": flips},
        work=n_users * n_attributes,
        unit="bits",
        parameters={"n_users": n_users, "n_attributes": n_attributes},
        targets={"NumPy random < p": 10.0},
        repeats=5 if quick else 15,
    )


def _people(n_users: int, n_attributes: int) -> Any:
    """Return people as SciPy's sparse matrix: in each of ONES equal ranges of attributes, one at random."""
    width = n_attributes // ONES
    within = np.random.default_rng(1).integers(width, size=(n_users, ONES), dtype=np.int32)
    indices = (within + np.arange(0, n_attributes, width, dtype=np.int32)).ravel()
    indptr = np.arange(0, (n_users + 1) * ONES, ONES)
    return sparse.csr_array((np.ones(len(indices), np.int8), indices, indptr), (n_users, n_attributes))
