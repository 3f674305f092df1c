"""Nothing is written into the folder of a release, which would then no longer be what its manifest lists."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.lines import answer, refusal
from tests.plans import plan_of

import dimly
from dimly.curator.ledger.ledger import Ledger
from dimly.errors import ParameterError
from dimly.privacy import Budget

pytestmark = pytest.mark.filterwarnings("ignore::dimly.errors.PrivacyWarning")  # no ledger

PEOPLE = [(who, who % 3) for who in range(6)]


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.json").write_text(plan_of("counting+laplace").to_json())
    (tmp_path / "t.csv").write_text("person,page\n" + "".join(f"{a},{b}\n" for a, b in PEOPLE))
    dimly.publish(np.eye(6, dtype=int), plan_of("counting+laplace"), out=tmp_path / "rel")
    return tmp_path / "rel"


@pytest.mark.parametrize(
    "line",
    [
        "segments rel --count 2 --out rel/seg.parquet",
        "report rel -o rel/report.html",
        "export rel --to parquet --out rel/sketches/p.parquet",
        "export rel --to numpy --out rel/p.npz",
        "plan --epsilon 1 -o rel/plan.json",
        "figure privacy-curves -o rel/figure.png",
        "simulate --out rel/table.parquet",
        "survey t.csv --user person --attribute page --epsilon 1 --delta 1e-6 -o rel/survey.json",
        "publish t.csv --plan plan.json --user person --attribute page --out rel/manifest.json",
        "ledger init rel/ledger.db --dataset visits --epsilon 1",
        "demo --folder rel/demo",
    ],
)
def test_commands(line: str, release: Path) -> None:
    assert f"must not be inside another release, but {release} is one" in refusal(*line.split())
    assert answer("verify", release)["verified"]


@pytest.mark.parametrize(
    "write",
    [
        lambda release, path: release.export.parquet(path),
        lambda release, path: release.export.npz(path, overwrite=True),
        lambda release, path: release.export.faiss(path),
        lambda _, path: dimly.survey("t.csv", Budget(1.0, 1e-6), out=path, user="person", attribute="page"),
        lambda _, path: Ledger.create(path),
    ],
)
def test_calls(write: Callable[[Any, Path], None], release: Path) -> None:
    opened = dimly.open_release(release)
    for folder in (release, release / "sketches"):
        with pytest.raises(ParameterError, match="must not be inside another release"):
            write(opened, folder / "x")
    assert answer("verify", release)["verified"]


def test_a_folder_of_sketches_alone_is_none(tmp_path: Path) -> None:
    (tmp_path / "sketches").mkdir()
    release = dimly.publish(np.eye(6, dtype=int), plan_of("counting+laplace"))
    release.export.parquet(tmp_path / "sketches" / "p.parquet")
    assert (tmp_path / "sketches" / "p.parquet").is_file()
