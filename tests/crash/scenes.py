"""The real command in a process of its own, watched from outside and ended at a chosen moment.

The table is made so that a run does all that can go wrong in it: sorting spills, and by the wide plan the release
has two parts. Parts are cut at an eighth of their usual size, here and in the command: of the usual size, twenty
releases would take minutes to perturb, to pack and to verify.
"""

import contextlib
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.plans import SEED

import dimly
from dimly.curator.ledger.ledger import ChargeRecord, Ledger
from dimly.curator.tables.database import SPILL_PREFIX
from dimly.mechanisms import Plan
from dimly.privacy import Budget
from dimly.release import format as layout
from dimly.release import writer
from dimly.release.verify import verify

DATASET = "people"
BUDGET = 50.0
PERSON, ATTRIBUTE = b"zebra", b"quokka"
"""In every id and every attribute of the private table, and nowhere else."""

N_PEOPLE = 9_000
N_ROWS = 150_000
NEWCOMERS = range(N_PEOPLE, N_PEOPLE + 3_000)
MEMORY = "806MB"
_LONG = 300
_HANGS = 300
"""Seconds after which a process is taken for dead-locked; nothing depends on it while all is well."""

_PART_BYTES = 1 << 23
_COMMAND = f"from dimly.release import format; format._MOST_BYTES = {_PART_BYTES}; from dimly.cli import main; main()"

Event = Literal["staging", "spilling", "sampling", "part", "sealed", "visible", "noted"]
"""What can be seen from outside: the staging, bytes of spill, the ledger's state "sampling", a part in the staging,
the release's id in the ledger, the release at its target, the ledger's state "visible"."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What is there before a run, made once and never changed."""

    plan: Plan
    plan_file: Path
    wide_plan_file: Path
    """So many numbers a person that there are two parts."""
    table: Path
    newcomers: Path
    """A table of people who are not in ``table``."""

    @classmethod
    def make(cls, folder: Path) -> "Inputs":
        """Write a plan and private tables."""
        plan, wide = (Plan.of("counting+laplace", Budget(1.0), k=k, seed=SEED) for k in (64, 512))
        made = cls(plan, folder / "plan", folder / "wide", folder / "table.parquet", folder / "newcomers.parquet")
        made.plan_file.write_text(plan.to_json(), encoding="utf-8")
        made.wide_plan_file.write_text(wide.to_json(), encoding="utf-8")
        _write_table(made.table, people=range(N_PEOPLE), n_rows=N_ROWS)
        _write_table(made.newcomers, people=NEWCOMERS, n_rows=20_000)
        return made


@contextlib.contextmanager
def parts_as_in_scenes() -> Iterator[None]:
    """Expect parts of the size that the commands make."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "_MOST_BYTES", _PART_BYTES)
        yield


def person(number: int) -> str:
    """Return an id."""
    return f"{PERSON.decode()}-{number}"


def _write_table(path: Path, *, people: range, n_rows: int) -> None:
    ids = [person(people[number % len(people)]) for number in range(n_rows)]
    # Long and all different: their texts alone do not fit in memory.
    attributes = [f"{ATTRIBUTE.decode()}-{number:09d}-".ljust(_LONG, "x") for number in range(n_rows)]
    pq.write_table(pa.table({"person": ids, "page": attributes}), path, row_group_size=30_000, compression="zstd")


class Scene:
    """A folder with a ledger, a place for releases and one for spill, where a command runs."""

    def __init__(self, folder: Path, inputs: Inputs, *, epsilon: float = BUDGET) -> None:
        self.inputs = inputs
        self.ledger = folder / "ledger.db"
        self.parent = folder / "releases"
        self.temp = folder / "temp"
        self.target = self.parent / "release"
        self.parent.mkdir()
        self.temp.mkdir()
        if not self.ledger.exists():
            Ledger.create(self.ledger).add_dataset(DATASET, epsilon=epsilon)

    def start(
        self,
        *options: object,
        table: Path | None = None,
        out: Path | None = None,
        ledger: Path | None = None,
        wide: bool = False,
    ) -> "Run":
        """Start publishing; ``options`` are added to the command line."""
        plan = self.inputs.wide_plan_file if wide else self.inputs.plan_file
        line: list[object] = ["publish", table or self.inputs.table, "--plan", plan]
        line += ["--user", "person", "--attribute", "page", "--ledger", ledger or self.ledger, "--dataset", DATASET]
        line += ["--temp", self.temp, "--memory", MEMORY, *options]
        if out is not None:
            line += ["--out", out]
        return Run(self, out or self.target, [sys.executable, "-c", _COMMAND, *map(str, line)])

    def charges(self) -> tuple[ChargeRecord, ...]:
        """Return all charges of the ledger, which must open."""
        return Ledger(self.ledger).status(DATASET).charges

    def releases(self) -> dict[Path, str]:
        """Return the ids of all releases that can be seen, each of which must verify."""
        return {path: verify(path).release for path in self.parent.iterdir() if not path.name.startswith(".")}

    def leftovers(self) -> list[Path]:
        """Return whatever a run has left beside releases."""
        return [path for path in self.parent.iterdir() if path.name.startswith(".")] + list(self.temp.iterdir())

    def check_all_charged(self) -> None:
        """Every release that can be seen is complete, and counts in the ledger."""
        counting = {charge.release_id for charge in self.charges() if charge.counts}
        assert set(self.releases().values()) <= counting

    def check_left_by_kill(self) -> None:
        """What a kill leaves has the names that the next start looks for, and is readable by its owner alone."""
        for path in self.leftovers():
            assert path.name.startswith(writer.PREFIX if path.parent == self.parent else SPILL_PREFIX)
            assert stat.S_IMODE(path.stat().st_mode) == 0o700

    def start_again(self) -> None:
        """Publish somebody else into the same folders: that must remove all that dead runs left there."""
        other = self.ledger.with_name("other.db")
        Ledger.create(other).add_dataset(DATASET, epsilon=1.0)
        table = pa.table({"person": [1, 2], "page": ["tea", "jam"]})
        plan = Plan.of("counting+laplace", Budget(1.0), k=4, seed=SEED)
        out = self.parent / "other"
        dimly.publish(
            table,
            plan,
            user="person",
            attribute="page",
            roster=[1, 2],
            out=out,
            ledger=other,
            dataset=DATASET,
            temp=self.temp,
        )
        shutil.rmtree(out)
        assert self.leftovers() == []
        self.check_nothing_private()

    def check_nothing_private(self) -> None:
        """No file holds an attribute, and none but a release holds an id."""
        assert not _files_with(self.temp, PERSON)
        assert not _files_with(self.temp, ATTRIBUTE)
        assert not _files_with(self.parent, ATTRIBUTE)


class Run:
    """A command that runs. A context manager that never leaves it running."""

    def __init__(self, scene: Scene, target: Path, line: list[str]) -> None:
        self._scene = scene
        self._target = target
        self._before = _inode(target), len(scene.charges())
        self._process = subprocess.Popen(  # noqa: S603
            line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=_environment()
        )

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait_for(self, event: Event, *, seconds: float = 0.0) -> None:
        """Return that long after something could be seen, or when the process has ended."""
        end = time.monotonic() + _HANGS
        with self._watching() as ledger:
            while self.is_running and not self._sees(event, ledger):
                assert time.monotonic() < end, f"nothing became {event}"
                time.sleep(0.0005)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        self._process.send_signal(number)

    def end(self, number: signal.Signals) -> "Ended":
        """Send a signal and return what came of it."""
        self.send(number)
        return self.result()

    def result(self) -> "Ended":
        """Wait for the end."""
        out, err = self._process.communicate(timeout=_HANGS)
        return Ended(self._process.returncode, out, err)

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_running:
            self._process.kill()
        self._process.communicate()

    @contextlib.contextmanager
    def _watching(self) -> Iterator[sqlite3.Connection]:
        with contextlib.closing(sqlite3.connect(self._scene.ledger, timeout=60, isolation_level=None)) as connection:
            yield connection

    def _sees(self, event: Event, ledger: sqlite3.Connection) -> bool:
        scene, (inode, n_charges) = self._scene, self._before
        match event:
            case "staging":
                return any(scene.parent.glob(f"{writer.PREFIX}*"))
            case "spilling":
                return any(_size(path) for path in scene.temp.glob(f"{SPILL_PREFIX}*/*"))
            case "part":
                return any(scene.parent.glob(f"{writer.PREFIX}*/*/sketches/*"))
            case "visible":
                return _inode(self._target) not in (None, inode)
        row = ledger.execute(
            "SELECT state, sealed_at FROM charge ORDER BY id LIMIT -1 OFFSET ?", (n_charges,)
        ).fetchone()
        state, sealed = row or (None, None)
        return {"sampling": state == "sampling", "sealed": sealed is not None, "noted": state == "visible"}[event]


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of a command."""

    code: int
    out: str
    err: str

    def messages(self) -> list[str]:
        """Return the lines on stderr but for warnings, none of which may tell of the data."""
        assert PERSON.decode() not in self.err
        assert ATTRIBUTE.decode() not in self.err
        return [line for line in self.err.splitlines() if not line.startswith("warning: ")]

    def check_one_line(self, code: int) -> str:
        """Return the only line of a command that failed with an exit code."""
        lines = self.messages()
        assert (self.code, len(lines), self.out) == (code, 1, ""), self.err
        return lines[0]


def _environment() -> dict[str, str]:
    return os.environ | {"NO_COLOR": "1", "COLUMNS": "1000"}


def _files_with(folder: Path, marker: bytes) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and marker in path.read_bytes()]


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
