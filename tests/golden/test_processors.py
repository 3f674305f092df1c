"""What is exact is the same on every processor: a second process, as on a plainer one, gives the same bytes.

``python -m tests.golden.test_processors`` prints the digests. Those of rows of P, noise and scales stand in
processors.json, so that machines are compared, and not only settings of one. Rows of P never change.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numba.core.registry import cpu_target
from tests.plans import N_ATTRIBUTES, N_USERS, SEED, plan_of
from tests.processors import plain, vector_instructions
from tests.streams import Recorded
from threadpoolctl import threadpool_info

from dimly import plan
from dimly.curator.options import Options
from dimly.curator.publication import publish_table
from dimly.mechanisms import MECHANISMS, Plan, Projection, Vocabulary
from dimly.mechanisms.make import sketching
from dimly.mechanisms.noise.gaussian import RoundedGaussian
from dimly.mechanisms.noise.laplace import DiscreteLaplace
from dimly.mechanisms.noise.tables import BitFlip, Cells
from dimly.mechanisms.projection.random_matrix import FAMILY_NAMES
from dimly.mechanisms.projection.streams import STREAM_VERSIONS
from dimly.privacy import Budget
from dimly.privacy.calibration import delta_of, epsilon_of, gaussian_scale, laplace_scale

ROOT = Path(__file__).parents[2]
STATED = json.loads((Path(__file__).parent / "processors.json").read_text(encoding="utf-8"))
BUDGETS = [Budget(epsilon, delta) for epsilon in (0.1, 0.7, 1.0, 2.5, 8.0) for delta in (1e-10, 1e-6, 0.01)]
LAYOUTS = ("counting+laplace", "sparse+gaussian", "gaussian+gaussian", "randomized-response", "noisy-distances")


def digest(pieces: Iterable[object]) -> str:
    state = hashlib.sha256()
    for piece in pieces:
        state.update(piece if isinstance(piece, bytes) else repr(piece).encode())
    return state.hexdigest()


def lasting() -> Iterator[tuple[str, str]]:
    """Yield name and digest of what does not depend on versions of libraries."""
    for family in FAMILY_NAMES:
        shapes = [(96, 4), (33, 3)] if family in {"sparse", "dasgupta"} else [(64, 1), (5, 1)]
        grids = (8, 24) if family == "gaussian" else (None,)
        for version in STREAM_VERSIONS:
            matrices = [Projection(family, k, s, SEED, grid, version) for k, s in shapes for grid in grids]
            rows = (matrix.rows(Vocabulary.numbered(2000)).to_dense().astype("<i8") for matrix in matrices)
            yield f"rows of {family}" + ", stream 2" * (version == 2), digest(row.tobytes() for row in rows)
    yield "Laplace tables", digest(_laplace())
    yield "Gaussian tables", digest(_bytes(RoundedGaussian.of(sigma).cells()) for sigma in (0.3, 1.0, 4.225, 300.1))
    yield "bit flips", digest(BitFlip.of(budget).numerator for budget in BUDGETS)
    yield "scales", digest(_scales())


def _laplace() -> Iterator[bytes]:
    for epsilon, moved in ((1.0, 1), (0.7, 3), (0.1, 12), (8.0, 1), (25.0, 1)):
        table = DiscreteLaplace.of(Budget(epsilon), l1_sensitivity=moved)
        yield from (_bytes(table.cells()), _bytes(table.tail_cells()))


def _bytes(cells: Cells) -> bytes:
    return b"%d" % cells.first + cells.high.astype("<u8").tobytes() + cells.low.astype("<u8").tobytes()


def _scales() -> Iterator[float]:
    for budget in BUDGETS:
        for moved in (1.0, 3.7):
            for rule in ("exact", "lemma1", "theorem1"):
                sigma = gaussian_scale(budget, l2_sensitivity=moved, rule=rule)
                yield from (sigma, delta_of(sigma, epsilon=budget.epsilon, l2_sensitivity=moved, rule=rule))
                yield epsilon_of(sigma, delta=budget.delta, l2_sensitivity=moved, rule=rule)
            yield laplace_scale(budget, l1_sensitivity=moved)


def passing() -> Iterator[tuple[str, str]]:
    """Yield name and digest of what another version of Dimly or of a library may write otherwise."""
    plans = [plan_of(mechanism) for mechanism in MECHANISMS]
    yield "plans", digest(chosen.to_json() for chosen in [*plans, *_chosen()])
    for mechanism in LAYOUTS:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "release"
            _publish(plan_of(mechanism), out)
            files = sorted(path for path in out.rglob("*") if path.is_file())
            yield f"release of {mechanism}", digest(path.read_bytes() for path in files)


def _chosen() -> Iterator[Plan]:
    sketches = [mechanism for mechanism in MECHANISMS if sketching(mechanism)]
    public: dict[str, Any] = {"n_attributes": 5000, "n_users": 10_000, "mechanisms": sketches, "seed": SEED}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that not each of them is good for its purpose
        for budget in (Budget(0.5, 1e-6), Budget(1.0), Budget(4.0, 1e-6)):
            for weight in (11, 400):
                yield plan(budget, purpose="distances", weight=weight, **public)
                yield plan(budget, purpose="neighbors", weight=weight, **public)
                yield plan(budget, purpose="segments", weight=weight, n_groups=6, **public)


def _publish(chosen: Plan, out: Path) -> None:
    people, attributes = np.nonzero(np.random.default_rng(3).random((N_USERS, N_ATTRIBUTES)) < 0.3)
    table = pa.table({"person": people, "attribute": attributes})
    names: dict[str, Any] = {"user": "person", "attribute": "attribute", "roster": list(range(N_USERS))}
    publish_table(table, chosen, Options(out=out, **names), words=lambda: Recorded(7))


def surroundings() -> dict[str, Any]:
    return {
        "NumPy": vector_instructions(),
        "Numba": list(cpu_target.target_context.codegen().magic_tuple()[1:]),
        "OpenBLAS": sorted({library.get("architecture", "") for library in threadpool_info()}),
    }


@pytest.fixture(scope="module")
def plainly() -> dict[str, Any]:
    """Return what a process finds that takes this machine for a plainer one."""
    command = [sys.executable, "-W", "error", "-m", "tests.golden.test_processors"]
    environment = os.environ | plain()
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True)  # noqa: S603
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_rows_noise_and_scales_are_those_of_every_machine() -> None:
    assert dict(lasting()) == STATED


@pytest.mark.thorough
def test_rows_noise_and_scales_are_those_of_a_plainer_processor(plainly: dict[str, Any]) -> None:
    assert plainly["lasting"] == STATED


def test_plans_and_published_bytes_are_those_of_a_plainer_processor(plainly: dict[str, Any]) -> None:
    assert plainly["passing"] == dict(passing())


def test_the_plainer_processor_is_one(plainly: dict[str, Any]) -> None:
    assert plainly["surroundings"]["NumPy"] == []
    assert plainly["surroundings"]["Numba"] == ["generic", ""]
    core = plain().get("OPENBLAS_CORETYPE")
    assert core is None or plainly["surroundings"]["OpenBLAS"] == [core]


if __name__ == "__main__":
    print(  # noqa: T201
        json.dumps({"lasting": dict(lasting()), "passing": dict(passing()), "surroundings": surroundings()}, indent=2)
    )
