"""The accuracy benchmark on a table of a few people, and what is made of its figures."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks import accuracy, accuracy_report
from benchmarks.accuracy import SILENT, Cell

from dimly.planner.paper import PAPER

GENERATOR = np.random.default_rng(5)
N, D = 60, 30


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Return a long table of two groups, with their labels beside it."""
    groups = np.arange(N) % 2
    bits = GENERATOR.random((N, D)) < np.where(np.arange(D) % 2 == groups[:, None], 0.8, 0.1)
    users, attributes = np.nonzero(bits)
    pq.write_table(pa.table({"user": users, "attribute": attributes}), tmp_path / "retail.parquet")
    pq.write_table(pa.table({"user": np.arange(N), "label": groups}), tmp_path / "retail_labels.parquet")
    return tmp_path / "retail.parquet"


def test_reading(table: Path) -> None:
    plain, labeled = accuracy.tables_of(table, 40)
    assert plain.shape[0] == labeled.shape[0] == 40
    assert plain.labels is None
    assert labeled.labels is not None
    assert set(labeled.labels.tolist()) == {0, 1}


def test_every_measure(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy, "GRID", (16,))
    monkeypatch.setattr(accuracy, "MECHANISMS", ("hashing+laplace", "randomized-response"))
    out = tmp_path / "out.json"
    for found in accuracy.tables_of(table, N):
        cells = list(accuracy.measure(found, [8.0], runs=1, measures=accuracy.MEASURES))
        accuracy.store(out, cells)
    known = accuracy.load(out)
    assert {cell.measure for cell in known} == set(accuracy.MEASURES)
    assert {cell.mechanism for cell in known} == {"raw data", SILENT, "hashing+laplace", "randomized-response"}
    for cell in known:
        if cell.measure == "recall":
            assert 10 / N < cell.mean <= 1
    accuracy.store(out, cells)
    assert len(accuracy.load(out)) == len(known)


def cell(mean: float, *, k: int | None = 8, measure: str = "recall", denoised: bool | None = True) -> Cell:
    return Cell("retail", measure, PAPER, 1.0, k, denoised, (mean - 0.01, mean + 0.01))


def test_the_best_k_is_shown() -> None:
    cells = [cell(0.3), cell(0.5, k=16), cell(0.9, denoised=False)]
    found = accuracy_report.best(cells, "recall", "retail", PAPER, epsilon=1.0, denoised=True)
    assert found == cells[1]
    errors = [cell(30.0, measure="error", denoised=None), cell(20.0, k=16, measure="error", denoised=None)]
    assert accuracy_report.best(errors, "error", "retail", PAPER, epsilon=1.0, denoised=None) == errors[1]
    assert accuracy_report.best(cells, "recall", "retail", PAPER, epsilon=2.0, denoised=True) is None
    rows = accuracy_report.markdown(cells, "recall").splitlines()
    assert rows[2] == "| retail | the paper's | – | – | 0.90 (8) | – | – | – |"
    assert rows[3] == "| retail | the paper's, denoised | – | – | 0.50 (16) | – | – | – |"
