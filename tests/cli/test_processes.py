"""Real processes: exit codes, what is on stdout, and signals while a job runs."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.plans import plan_of

import dimly

pytestmark = pytest.mark.usefixtures("usual_signals")

SLEEPER = """
import sys, time, types
from pathlib import Path

def publish_table(source, plan, options):
    staging = Path(f"{options.out}.staging")
    staging.mkdir()
    try:
        print("working", file=sys.stderr, flush=True)
        time.sleep(3600)
    finally:
        staging.rmdir()

sys.modules["dimly.curator.publication"] = types.SimpleNamespace(publish_table=publish_table)
from dimly.cli import main
main()
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_job_that_is_stopped_cleans_up(number: signal.Signals, code: int, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(plan_of("counting+laplace").to_json(), encoding="utf-8")
    line = ["publish", "x.csv", "--plan", plan, "--user", "u", "--attribute", "a", "--out", tmp_path / "out", "--json"]
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", SLEEPER, *map(str, line)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "working\n"
        os.kill(process.pid, number)
        out, err = process.communicate(timeout=600)
    assert (process.returncode, out, err) == (code, "", f"stopped by {number.name}\n")
    assert list(tmp_path.iterdir()) == [plan]


def test_json_is_alone_on_stdout(tmp_path: Path) -> None:
    line = ["plan", "--mechanism", "counting+laplace", "--k", "4", "--epsilon", "1", "--json"]
    done = subprocess.run([sys.executable, "-m", "dimly", *line], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stderr == ""
    assert done.stdout.startswith('{"plan": {')
    assert done.stdout.count("\n") == 1


def test_little_is_imported_before_ctrl_c_is_heard() -> None:
    """Ctrl-C in the midst of an import that comes before is a traceback."""
    code = "import dimly.cli, sys; print('threading' in sys.modules)"
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-S", "-c", code],
        env={"PYTHONPATH": str(Path(dimly.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False\n"
