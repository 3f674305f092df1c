"""``kill -9`` in a survey: a whole file or none, never uncharged, and no draft that others can read or that stays."""

import json
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.crash.kills import JITTER, KILLS, share
from tests.surveys import LIST, ROSTER, cells, table

from dimly.curator.ledger.ledger import ChargeRecord, Ledger
from dimly.release.documents.survey_file import read_survey

_RUN = "from dimly.cli import main; main()"
_KILLED_AT = "import os, signal, {module}\n{module}.{name} = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)\n"


class Desk:
    """A folder with a table, a roster, a list and a ledger, where surveys are made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        pq.write_table(table(cells()), folder / "visits.parquet")
        (folder / "people.csv").write_text("who\n" + "\n".join(map(str, ROSTER)) + "\n")
        (folder / "places.txt").write_text("\n".join(LIST) + "\n")
        Ledger.create(folder / "ledger.db").add_dataset("visits", epsilon=100.0)
        self.out = folder / "out"
        self.out.mkdir()

    def start(self, name: str, before: str = "") -> subprocess.Popen[str]:
        files = {"--roster": "people.csv", "--vocabulary": "places.txt", "--ledger": "ledger.db"}
        line: list[object] = ["survey", self.folder / "visits.parquet", "--user", "who", "--attribute", "what"]
        for option, file in files.items():
            line += [option, self.folder / file]
        line += ["--dataset", "visits", "--epsilon", 3, "-o", self.out / name]
        return subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", before + _RUN, *map(str, line)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def charges(self) -> tuple[ChargeRecord, ...]:
        return Ledger(self.folder / "ledger.db").status("visits").charges

    def check_next_run_tidies_up(self) -> None:
        with self.start("next.json") as run:
            run.communicate(timeout=300)
        assert run.returncode == 0
        assert not [path for path in self.out.iterdir() if path.name.startswith(".")]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.mark.parametrize(
    ("module", "name", "state", "sealed", "left"),
    [
        ("dimly.curator.survey.questions", "count_table", "reserved", False, 0),  # before any noise
        ("dimly.curator.survey.questions", "quantiles", "sampling", False, 0),  # amid the noise
        ("os", "fsync", "sampling", True, 1),  # the draft is whole, and has no name yet
    ],
)
@pytest.mark.thorough(but=1)
def test_killed_at_a_step(desk: Desk, module: str, name: str, state: str, sealed: bool, left: int) -> None:
    with desk.start("survey.json", _KILLED_AT.format(module=module, name=name)) as run:
        _, errors = run.communicate(timeout=300)
    assert run.returncode == -signal.SIGKILL, errors
    (charge,) = desk.charges()
    assert (charge.state, charge.counts, charge.release_id is not None) == (state, True, sealed)
    drafts = list(desk.out.iterdir())
    assert len(drafts) == left
    for draft in drafts:  # others can read none of it
        assert stat.S_IMODE(draft.stat().st_mode) == 0o700
        (inside,) = draft.iterdir()
        assert json.loads(inside.read_text())["id"] == charge.release_id
    desk.check_next_run_tidies_up()


@pytest.mark.parametrize("number", range(max(2, KILLS // 10)))
@pytest.mark.thorough(but=1)
def test_killed_at_any_moment_after_the_charge(desk: Desk, number: int) -> None:
    with desk.start("survey.json") as run:
        while run.poll() is None and not any(one.sampling_at for one in desk.charges()):
            time.sleep(0.001)
        try:
            run.wait(JITTER * share(number))
        except subprocess.TimeoutExpired:
            run.kill()
        run.communicate(timeout=300)
    (charge,) = desk.charges()
    assert charge.counts
    if (desk.out / "survey.json").exists():
        assert read_survey(desk.out / "survey.json").id == charge.release_id
    for draft in desk.out.glob(".*"):
        assert stat.S_IMODE(draft.stat().st_mode) == 0o700
    desk.check_next_run_tidies_up()
