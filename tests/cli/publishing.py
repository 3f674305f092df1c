"""Command lines that publish, and their ledger."""

from pathlib import Path
from typing import Any

from tests.cli.bad_input import Case

from dimly.curator.ledger.ledger import Ledger
from dimly.mechanisms import Plan


def ledger_at(path: Path) -> Path:
    """Make a ledger with a dataset that has room, and one that has none."""
    ledger = Ledger.create(path)
    ledger.add_dataset("visits", epsilon=8.0, delta=1e-4)
    ledger.add_dataset("small", epsilon=0.5)
    return path


def command_line(folder: Path, case: Case) -> list[object]:
    """Write the files of a case into ``folder``, and return the command line that it stands for."""
    ledger_at(folder / "ledger.db")
    (folder / "temp").mkdir()
    plan = folder / "plan.json"
    plan.write_text(case.plan.to_json() if isinstance(case.plan, Plan) else case.plan, encoding="utf-8")
    options: dict[str, Any] = {
        "out": Path("out"),
        "ledger": Path("ledger.db"),
        "dataset": "visits",
        "temp": Path("temp"),
        **case.options,
    }
    line: list[object] = ["publish", case.make(folder), "--plan", plan]
    for name, option in options.items():
        if name == "columns":
            line += ["--all-columns"] if option == "all" else ["--columns", ",".join(option)]
        else:
            flag = "--attribute-list" if name == "attributes" else f"--{name}"
            line += [flag, folder / option if isinstance(option, Path) else option]
    return line
