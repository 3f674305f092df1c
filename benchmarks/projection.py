"""Projecting people, and deriving the matrix, against SciPy and scikit-learn."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

from benchmarks.harness import Parameter, Result, Run, benchmark, compare
from dimly.mechanisms.projection.random_matrix import FAMILIES, Projection
from dimly.mechanisms.projection.streams import EncodedTexts

K = 256
ONES = 100  # of each person
BLOCKS = {"sparse": 8}
GRID_BITS = {"gaussian": 16}
SEED = bytes(range(32))
BATCH = 10_000  # people at a time: of all at once, fresh pages from the system cost more than the sums
SCIKIT_LEARN_BATCH = 25_000  # its fastest

Sketches = NDArray[np.number[Any]]
Project = Callable[[], Iterator[Sketches]]


@benchmark("projection")
def project(quick: bool) -> Iterator[Result]:
    """Exact integer sketches of people with 100 ones each, P derived beforehand.

    All make dense matrices. SciPy multiplies by the same P: in int64, as our results are, and in int16, which
    is enough for these people and would overflow for someone with 32,768 ones; for each in the layout that
    measured fastest. scikit-learn has a P of its own with as many entries, in float32, its fastest type, and
    takes larger batches, because it transposes P for each.
    """
    for family in ("counting", "hashing", "sparse", "sign"):
        yield _project(family, 20_000 if quick else 100_000, repeats=3 if quick else 5)


@benchmark("derivation")
def derive(quick: bool) -> Iterator[Result]:
    """Rows of P from a public seed and the attributes' text, as Arrow lays it out, against a generator's.

    The peer is scikit-learn's ``fit``, which draws as many entries from NumPy in one go: it needs the number
    of attributes beforehand, and gives an attribute another row if there are more of them.
    """
    for family in ("counting", "hashing", "sparse", "sign", "gaussian"):
        yield _derive(family, repeats=3 if quick else 7)


def _project(family: str, n_users: int, *, repeats: int) -> Result:
    parameters = _parameters(family)
    n_attributes = int(parameters["n_attributes"])
    batches = [_people(BATCH, n_attributes, seed=i) for i in range(n_users // BATCH)]
    rows = _projection(family).rows(_attributes(n_attributes))
    matrix = rows.to_dense()

    def multiply(kind: type[np.integer[Any]], *, as_sparse: bool) -> Project:
        people = [_table(batch, kind, n_attributes) for batch in batches]
        right = sparse.csr_array(matrix.astype(kind)) if as_sparse else matrix.astype(kind)
        if as_sparse:
            return lambda: ((left @ right).toarray() for left in people)
        return lambda: (left @ right for left in people)

    def ours() -> Iterator[Sketches]:
        return (rows.project(*batch) for batch in batches)

    hashed = FAMILIES[family].layout == "hashed"
    exact = {
        "SciPy int64": multiply(np.int64, as_sparse=hashed),
        "SciPy int16": multiply(np.int16, as_sparse=hashed and family not in BLOCKS),
    }
    for name, peer in exact.items():
        assert all(map(np.array_equal, peer(), ours())), f"{name} must find the same sketches"
    size = min(n_users, SCIKIT_LEARN_BATCH)
    alike = [_people(size, n_attributes, seed=i) for i in range(n_users // size)]
    floats = [_table(batch, np.float32, n_attributes) for batch in alike]
    fitted = _scikit_learn(family).fit(floats[0])
    peers = exact | {"scikit-learn float32": lambda: map(fitted.transform, floats)}
    return compare(
        family,
        _drained(ours),
        {name: _drained(peer) for name, peer in peers.items()},
        work=n_users,
        unit="people",
        parameters=parameters | {"n_users": n_users, "ones_per_user": ONES, "batch": BATCH, "scikit_learn_batch": size},
        repeats=repeats,
        memory=True,
    )


def _derive(family: str, *, repeats: int) -> Result:
    parameters = _parameters(family)
    n_attributes = int(parameters["n_attributes"])
    attributes = EncodedTexts.of(_attributes(n_attributes))
    projection = _projection(family)
    nobody = sparse.csr_array((1, n_attributes), dtype=np.float32)  # `fit` looks at the shape alone
    peer = _scikit_learn(family)
    return compare(
        family,
        lambda: projection.rows(attributes),
        {"scikit-learn fit": lambda: peer.fit(nobody)},
        work=n_attributes,
        unit="rows",
        parameters=parameters,
        repeats=repeats,
    )


def _parameters(family: str) -> dict[str, Parameter]:
    """Return the sizes of a family's case: dense rows are k times as large, so they are fewer."""
    n_attributes = 100_000 if FAMILIES[family].layout == "hashed" else 20_000
    settings = {"blocks": BLOCKS.get(family), "grid_bits": GRID_BITS.get(family)}
    given: dict[str, Parameter] = {name: value for name, value in settings.items() if value is not None}
    return {"n_attributes": n_attributes, "k": K} | given


def _projection(family: str) -> Projection:
    return Projection(family, K, BLOCKS.get(family, 1), SEED, GRID_BITS.get(family))


def _attributes(n_attributes: int) -> list[str]:
    return [str(i) for i in range(n_attributes)]


def _people(n_users: int, n_attributes: int, *, seed: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return people in compressed sparse rows: in each of ONES equal ranges of attributes, one at random."""
    width = n_attributes // ONES
    within = np.random.default_rng(seed).integers(width, size=(n_users, ONES), dtype=np.int32)
    starts = np.arange(0, n_attributes, width, dtype=np.int32)
    indptr = np.arange(0, (n_users + 1) * ONES, ONES, dtype=np.int32)
    return indptr, (within + starts).ravel()


def _table(people: tuple[NDArray[np.int32], NDArray[np.int32]], kind: type, n_attributes: int) -> Any:
    """Return people as SciPy's sparse matrix of ones."""
    indptr, indices = people
    return sparse.csr_array((np.ones(len(indices), kind), indices, indptr), (len(indptr) - 1, n_attributes))


def _drained(project: Project) -> Run:
    """Return a call that makes every batch of sketches and keeps none."""
    return lambda: deque(project(), maxlen=0)


def _scikit_learn(family: str) -> Any:
    """Return scikit-learn's projection that does as much work as a family of ours."""
    if FAMILIES[family].layout == "dense":
        return GaussianRandomProjection(K, random_state=0)
    density = BLOCKS.get(family, 1) / K
    return SparseRandomProjection(K, density=density, dense_output=True, random_state=0)
