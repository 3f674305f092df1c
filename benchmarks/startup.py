"""How long a command takes before it does anything, against importing NumPy."""

import subprocess
import sys
from collections.abc import Iterator

from benchmarks.harness import Result, Run, benchmark, compare

NUMPY = 'python -c "import numpy"'
EMPTY = 'python -c "pass"'
TARGETS = {NUMPY: 1 / 3}
OURS = {"dimly --help": ["-m", "dimly", "--help"], "import dimly": ["-c", "import dimly"]}


@benchmark("start-up")
def start_up(quick: bool) -> Iterator[Result]:
    """Start ``dimly --help`` and ``import dimly`` in a new process, against importing NumPy, and nothing at all."""
    peers = {NUMPY: _python("-c", "import numpy"), EMPTY: _python("-c", "pass")}
    for name, arguments in OURS.items():
        yield compare(
            name, _python(*arguments), peers, work=1, unit="starts", targets=TARGETS, repeats=5 if quick else 15
        )


def _python(*arguments: str) -> Run:
    command = [sys.executable, *arguments]
    return lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
