"""How far a newcomer walks: files that one publication and one question pass, and how often the next call is elsewhere.

``python -m benchmarks.walks`` publishes a small table by ``dimly publish``, asks ``dimly neighbors`` about a person,
and prints for both how many files of Dimly were passed, how many functions, and how many times the walk went from a
file to another: counted at the first call of each function (what somebody who reads along meets), and at all calls.
``--list`` shows the walk itself, ``--edges`` which changes of file are the most frequent. Imports are not counted: what
a module does when it is loaded is not part of a walk.
"""

import argparse
import contextlib
import io
import json
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dimly
from dimly.cli import main
from dimly.curator.ledger.ledger import Ledger
from dimly.privacy import Budget

_HOME = str(Path(dimly.__file__).parent)


class Walk:
    """The calls of functions of Dimly, in all threads, in the order in which they began."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def of(self, function: Callable[[], object]) -> "Walk":
        """Run a function and note its walk."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        try:
            function()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
        return self

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(_HOME) and code.co_name != "<module>":
            self.calls.append((code.co_filename.removeprefix(_HOME)[1:], code.co_qualname))

    @property
    def first_calls(self) -> list[tuple[str, str]]:
        """Each function once, where it was first called."""
        return list(dict.fromkeys(self.calls))

    def counts(self) -> dict[str, int]:
        """Return files, functions, and changes of file at first calls and at all calls."""
        return {
            "files": len({file for file, _ in self.calls}),
            "functions": len(self.first_calls),
            "changes at first calls": _changes(self.first_calls),
            "changes in all": _changes(self.calls),
        }


def _changes(calls: list[tuple[str, str]]) -> int:
    return sum(before != after for (before, _), (after, _) in pairwise(calls))


def walks(folder: Path) -> dict[str, Walk]:
    """Publish and ask, once unseen, because what is compiled or imported the first time is no part of a walk."""
    generator = np.random.default_rng(0)
    rows = pa.table(
        {
            "who": pa.array(np.repeat([f"person {i}" for i in range(50)], 5)),
            "what": pa.array([f"place {i}" for i in generator.integers(0, 40, 250)]),
        }
    )
    pq.write_table(rows, folder / "visits.parquet")
    (folder / "people.csv").write_text("who\n" + "".join(f"person {i}\n" for i in range(50)))
    plan = dimly.Plan.of("counting+laplace", Budget(1.0), k=64, seed=bytes(32))
    (folder / "plan.json").write_text(plan.to_json())
    Ledger.create(folder / "ledger.db").add_dataset("visits", epsilon=10.0, delta=1e-6)
    found = {}
    for number in (1, 2):
        release = folder / f"release {number}"
        publish = ["publish", folder / "visits.parquet", "--plan", folder / "plan.json", "--out", release, "--json"]
        publish += ["--user", "who", "--attribute", "what", "--roster", folder / "people.csv"]
        publish += ["--ledger", folder / "ledger.db", "--dataset", "visits"]
        found["publish"] = Walk().of(lambda line=publish: _run(line))  # type: ignore[misc]
        ask = ["neighbors", release, "--user", "person 7", "--json"]
        found["neighbors"] = Walk().of(lambda line=ask: _run(line))  # type: ignore[misc]
    return found


def _run(line: list[object]) -> None:
    before, sys.argv = sys.argv, ["dimly", *map(str, line)]
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            main()
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.argv = before


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--list", action="store_true", help="show each function, where it is first called")
    parser.add_argument("--edges", type=int, default=0, metavar="N", help="show the N most frequent changes of file")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        for what, walk in walks(Path(name)).items():
            print(json.dumps({"walk": what, **walk.counts()}))
            if asked.list:
                print(*(f"  {file:45} {function}" for file, function in walk.first_calls), sep="\n")
            pairs = Counter((f"{a} → {b}", g) for (a, _), (b, g) in pairwise(walk.calls) if a != b)
            for (edge, function), times in pairs.most_common(asked.edges):
                print(f"  {times:4} {edge}  {function}")
