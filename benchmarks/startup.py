"""How long a command takes before it does anything, and short ones in all, against importing NumPy and Arrow."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness import Result, Run, benchmark, compare

NUMPY = 'python -c "import numpy"'
EMPTY = 'python -c "pass"'
LIBRARIES = 'python -c "import numpy, pyarrow"'
BUDGET = ["--epsilon", "1", "--json"]
COLUMNS = ["--user", "person", "--attribute", "page", "--json"]
OURS = {"dimly --help": ["-m", "dimly", "--help"], "import dimly": ["-c", "import dimly"]}


@benchmark("start-up")
def start_up(quick: bool) -> Iterator[Result]:
    """Start ``dimly --help`` and ``import dimly`` in a new process, against importing NumPy, and nothing at all."""
    peers = {NUMPY: _python("-c", "import numpy"), EMPTY: _python("-c", "pass")}
    for name, arguments in OURS.items():
        yield compare(
            name, _python(*arguments), peers, work=1, unit="starts", targets={NUMPY: 1 / 3}, repeats=5 if quick else 15
        )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for command, arguments in _short_commands(folder).items():
            yield compare(
                command,
                _python("-m", "dimly", *arguments),
                {LIBRARIES: _python("-c", "import numpy, pyarrow")},
                work=1,
                unit="starts",
                targets={LIBRARIES: 1 / 2},
                repeats=3 if quick else 9,
            )


def _short_commands(folder: Path) -> dict[str, list[str]]:
    """Return commands that end soon on a table of three rows, its plan and its release."""
    table, plan, release = folder / "visits.csv", folder / "plan.json", folder / "release"
    table.write_text("person,page\na,tea\nb,jam\na,jam\n", encoding="utf-8")
    publish = ["publish", str(table), "--plan", str(plan), "--out", str(release), *COLUMNS]
    named = ["plan", *BUDGET, "--mechanism", "counting+laplace", "--k", "64"]
    for made in ([*named, "-o", str(plan)], publish):
        _python("-m", "dimly", *made)()
    return {
        "dimly plan, mechanism and k given": named,
        "dimly plan, chosen by theory": ["plan", *BUDGET, "--n-attributes", "1000", "--distance", "20:100"],
        "dimly publish --dry-run": [*publish, "--overwrite", "--dry-run"],
        "dimly distance": ["distance", str(release), "a", "b", "--json"],
    }


def _python(*arguments: str) -> Run:
    command = [sys.executable, *arguments]
    return lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
