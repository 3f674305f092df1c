"""Sketches of people in memory on one core, over sizes and families, against scikit-learn and NumPy's normals."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.feature_extraction import FeatureHasher
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

from benchmarks.harness import Result, Run, benchmark, compare, contest
from dimly.api import publish
from dimly.curator.people import people_of
from dimly.curator.perturb import Perturber
from dimly.curator.tables.matrix import publish_people
from dimly.mechanisms import Plan, Vocabulary
from dimly.mechanisms.projection.random_matrix import FAMILIES, FAMILY_NAMES
from dimly.privacy import Budget

SPARSE = "SparseRandomProjection + normals"
GAUSSIAN = "GaussianRandomProjection + normals"
HASHER = "FeatureHasher + normals"
FITTED = "SparseRandomProjection, fit + transform, + normals"
TARGETS = {SPARSE: 4.0, GAUSSIAN: 4.0, HASHER: 12.0}
"""Two factors for two groups of peers: the one of both random projections, and that of hashing."""
BLOCKS = 8
"""Entries in a row of P of the families that have several."""
LARGEST_DENSE = 30_000_000
"""Entries of a dense P: beyond, nobody's fits in the memory of a small machine."""
QUICK_FAMILIES = ("counting", "hashing", "sparse", "sign")


class Cell(NamedTuple):
    """Sizes: attributes that there are, attributes of each person, coordinates of a sketch."""

    d: int
    weight: int
    k: int

    @property
    def n_users(self) -> int:
        """As many people as have a million ones, or publish five million numbers."""
        return min(1_000_000 // self.weight, 5_000_000 // self.k)

    @property
    def dense_fits(self) -> bool:
        """Whether a dense P may be made."""
        return self.d * self.k <= LARGEST_DENSE

    def __str__(self) -> str:
        return f"d = {self.d:,}, weight {self.weight:,}, k = {self.k:,}"


CENTER = Cell(10_000, 100, 256)
CELLS = (
    CENTER,
    *(CENTER._replace(d=d) for d in (1_000, 100_000, 1_000_000)),
    *(CENTER._replace(weight=weight) for weight in (10, 1_000)),
    *(CENTER._replace(k=k) for k in (64, 1_024)),
    Cell(1_000, 10, 64),
    Cell(1_000_000, 1_000, 1_024),
)
QUICK_CELLS = (CENTER, CENTER._replace(d=100_000), Cell(1_000, 10, 64))


@benchmark("sketch")
def sketch(quick: bool) -> Iterator[Result]:
    """People to published sketches over d = 10³…10⁶, weight 10…1,000 and k = 64…1,024, P derived beforehand.

    Ours checks the matrix, projects, draws noise, saturates and orders. The peers project with scikit-learn and add
    NumPy's normals, all in float32, their fastest type. FeatureHasher hashes text anew each time, as it always does.
    A dense P beyond 30 million entries is left out, ours as theirs.
    """
    for cell in QUICK_CELLS if quick else CELLS:
        yield from _contest(cell, QUICK_FAMILIES if quick else FAMILY_NAMES, repeats=3)


@benchmark("matrix")
def matrix(quick: bool) -> Iterator[Result]:
    """Publish a matrix as a user does, ``dimly.publish(X, plan)``, with everything from the plan on, P included.

    The peer fits scikit-learn's sparse projection, transforms and adds NumPy's normals, all in float32. Ours also
    checks the matrix, draws secret integer noise and returns a release that can be asked.
    """
    cell = CENTER._replace(d=100_000)
    n_users = 20_000 if quick else 100_000
    table = _people(cell, n_users)
    floats = table.astype(np.float32)
    plan = Plan.of("counting+laplace", Budget(1.0), k=cell.k)
    generator = np.random.default_rng(0)

    def peer() -> object:
        sketches = SparseRandomProjection(cell.k, random_state=0, dense_output=True).fit_transform(floats)
        return sketches + generator.standard_normal(sketches.shape, dtype=np.float32)

    yield compare(
        f"counting, {n_users:,} × {cell}",
        lambda: publish(table, plan),
        {FITTED: peer},
        work=n_users,
        unit="people",
        parameters={"n_users": n_users, "n_attributes": cell.d, "ones_per_user": cell.weight, "k": cell.k},
        targets={FITTED: 4.0},
        repeats=3 if quick else 5,
    )


def _contest(cell: Cell, families: Sequence[str], *, repeats: int) -> tuple[Result, ...]:
    table = _people(cell)
    ours = {
        f"{family}, {cell}": _ours(_plan(family, cell), table, cell)
        for family in families
        if FAMILIES[family].layout == "hashed" or cell.dense_fits
    }
    peers = _peers(table, cell)
    return contest(
        ours,
        peers,
        work=cell.n_users,
        unit="people",
        parameters={"n_users": cell.n_users, "n_attributes": cell.d, "ones_per_user": cell.weight, "k": cell.k},
        targets={name: TARGETS[name] for name in peers},
        repeats=repeats,
    )


def _plan(family: str, cell: Cell) -> Plan:
    # One attribute moves all k numbers of a dense sketch: its noise is Gaussian, by the Euclidean norm.
    dense = FAMILIES[family].layout == "dense"
    budget, noise = (Budget(1.0, 1e-6), "gaussian") if dense else (Budget(1.0), "laplace")
    return Plan.of(
        f"{family}+{noise}", budget, k=cell.k, blocks=BLOCKS if FAMILIES[family].has_blocks else 1, n_attributes=cell.d
    )


def _ours(plan: Plan, table: Any, cell: Cell) -> Run:
    perturber = Perturber(plan, Vocabulary.numbered(cell.d))

    def run() -> object:
        people, _ = people_of(table, resolution=1, n_columns=cell.d, attributes=None)
        return publish_people(people, perturber)

    return run


def _peers(table: Any, cell: Cell) -> dict[str, Run]:
    floats = table.astype(np.float32)
    generator = np.random.default_rng(0)

    def noisy(project: Callable[[], Any]) -> Run:
        def run() -> object:
            sketches = project()
            noise = generator.standard_normal((cell.n_users, cell.k), dtype=np.float32)
            return noise + (sketches.toarray() if sparse.issparse(sketches) else sketches)

        return run

    thin = SparseRandomProjection(cell.k, random_state=0, dense_output=True).fit(floats)
    names = [str(i) for i in range(cell.d)]
    texts = [[names[i] for i in row] for row in table.indices.reshape(cell.n_users, cell.weight).tolist()]
    hasher = FeatureHasher(cell.k, input_type="string", dtype=np.float32)
    peers = {SPARSE: noisy(lambda: thin.transform(floats)), HASHER: noisy(lambda: hasher.transform(texts))}
    if cell.dense_fits:
        dense = GaussianRandomProjection(cell.k, random_state=0).fit(floats)
        peers[GAUSSIAN] = noisy(lambda: dense.transform(floats))
    return peers


def _people(cell: Cell, n_users: int | None = None) -> Any:
    """Return people as SciPy's sparse matrix: in each of ``weight`` equal ranges of attributes, one at random."""
    n, width = n_users or cell.n_users, cell.d // cell.weight
    within = np.random.default_rng(1).integers(width, size=(n, cell.weight), dtype=np.int32)
    indices = (within + np.arange(0, cell.d, width, dtype=np.int32)).ravel()
    indptr = np.arange(0, (n + 1) * cell.weight, cell.weight)
    return sparse.csr_array((np.ones(len(indices), np.int8), indices, indptr), (n, cell.d))
