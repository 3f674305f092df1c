"""Whatever the table is kept in, and whatever its shape: what is published of it is the same."""

from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import scipy.sparse
from numpy.typing import NDArray
from tests.engines.engine import Engine
from tests.engines.formats import FORMATS, holds_lists
from tests.engines.tables import ATTRIBUTES, RESOLUTION, SHAPES, USERS, check, holdings, plan_for, vocabulary

from dimly.mechanisms import MECHANISMS

# Not every mechanism with every source and shape: they are dealt out in turn, so that every source and every shape
# meets most of them. Eleven is no divisor of the number of sources or shapes.
DEALT: Final = (
    "counting+laplace",
    "hashing+gaussian",
    "noisy-distances",
    "sparse+laplace",
    "gaussian+gaussian",
    "randomized-response",
    "sign+gaussian",
    "dasgupta+laplace",
    "counting+gaussian",
    "ternary+gaussian",
    "hashing+laplace",
)
CASES: Final = [
    (form, shape, DEALT[i % len(DEALT)], i % 2 == 0)
    for i, (form, shape) in enumerate(product(FORMATS, SHAPES))
    if shape != "list" or holds_lists(form)
]


@pytest.mark.parametrize(("form", "shape", "mechanism", "listed"), CASES)
@pytest.mark.thorough(but=6)
def test_every_source_and_shape(
    engine: Engine, form: str, shape: str, mechanism: str, listed: bool, tmp_path: Path
) -> None:
    table, options, people = SHAPES[shape]()
    values, categories = shape.endswith("values"), shape == "wide text"
    if values and mechanism == "randomized-response":
        mechanism = "sparse+gaussian"
    plan = plan_for(mechanism, values=values, categories=categories, listed=listed)
    closed = None if plan.vocabulary is None else vocabulary(categories=categories)
    source, more = FORMATS[form](table, tmp_path)
    release = engine.publish(source, plan, out=tmp_path / "out", vocabulary=closed, **options, **more)
    check(release, people, closed)


def matrix_of(*, values: bool) -> NDArray[Any]:
    people = holdings(values=values)
    matrix = np.array([[people[who].get(what, 0) for what in ATTRIBUTES] for who in USERS], float)
    return matrix if values else matrix.astype(bool)


def with_repeats(matrix: NDArray[Any]) -> Any:
    rows, columns = matrix.nonzero()
    data = matrix[rows, columns]
    places = (np.append(rows, rows[::2]), np.append(columns, columns[::2]))
    return scipy.sparse.coo_array((np.append(data, data[::2]), places), shape=matrix.shape)


MATRICES: Final = {
    "csr": scipy.sparse.csr_array,
    "csc": scipy.sparse.csc_array,
    "coo with repeats": with_repeats,
    "csr matrix": scipy.sparse.csr_matrix,
    "NumPy": np.asarray,
    "lists": np.ndarray.tolist,
}


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("kind", MATRICES)
@pytest.mark.parametrize("mechanism", ["counting+laplace", "sparse+gaussian", "noisy-distances"])
def test_every_matrix(engine: Engine, kind: str, values: bool, mechanism: str, tmp_path: Path) -> None:
    matrix = matrix_of(values=values)
    names = vocabulary()
    plan = plan_for(mechanism, values=values, listed=False)
    attributes: tuple[str, ...] = ATTRIBUTES
    if plan.vocabulary is not None:
        attributes = names
        matrix = np.hstack([np.zeros_like(matrix[:, :1]), matrix[:, 1:]])
    source = MATRICES[kind](matrix)
    release = engine.publish(source, plan, users=USERS, attributes=attributes, out=tmp_path / "out")
    check(release, holdings(values=values), None if plan.vocabulary is None else names)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_mechanism_on_bits_and_on_values(engine: Engine, mechanism: str, tmp_path: Path) -> None:
    for values in (False, True):
        if values and mechanism == "randomized-response":
            continue
        table, options, people = SHAPES["long with values" if values else "long"]()
        plan = plan_for(mechanism, values=values)
        release = engine.publish(table, plan, out=tmp_path / f"{values}", vocabulary=vocabulary(), **options)
        check(release, people, vocabulary())


def test_bits_have_the_largest_value(engine: Engine, tmp_path: Path) -> None:
    table, options, people = SHAPES["long"]()
    plan = plan_for("hashing+laplace", values=True, listed=False)
    release = engine.publish(table, plan, out=tmp_path / "out", **options)
    assert plan.resolution == RESOLUTION
    check(release, people)
