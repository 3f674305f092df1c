"""`import dimly` is instant and honest about what it offers."""

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.plans import plan_of

import dimly

RELEASE = Path(__file__).parents[1] / "golden" / "format-2-stream-2-int64"
HEAVY = ("numpy", "scipy", "numba", "pydantic", "flint", "dp_accounting", "rich")


def test_import_loads_nothing_heavy() -> None:
    code = f"import sys, dimly; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "[]"


def test_ctrl_c_is_caught_before_much_is_loaded() -> None:
    code = f"import sys; sys.path.insert(0, {str(Path(dimly.__file__).parents[1])!r}); before = set(sys.modules); "
    code += "import dimly.cli; print(sorted({'typing', 're', 'dataclasses'} & (set(sys.modules) - before)))"
    done = subprocess.run([sys.executable, "-ISc", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "[]"


def test_plans_do_not_load_the_accountant() -> None:
    code = "import sys, dimly; dimly.Plan; dimly.compose; print('dp_accounting' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "False"


MAIN = """
import sys
from dimly.cli import main
sys.argv[0] = "dimly"
try:
    main()
except SystemExit as end:
    assert not end.code
"""
DISTANCE = ["distance", str(RELEASE), "--json", "--", "-7", "0"]
PLANS = [["--mechanism", "counting+laplace", "--k", "64"], ["--n-attributes", "1000", "--distance", "20:100"]]


def in_command(code: str, *arguments: str) -> str:
    """Return what ``code`` prints last, in a process that did what the arguments ask for."""
    command = [sys.executable, "-c", MAIN + code, *arguments]
    usual = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}  # see conftest.py
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=usual)  # noqa: S603
    assert all(line.startswith("warning: ") for line in done.stderr.splitlines())
    return done.stdout.splitlines()[-1]


def loaded(modules: list[str], *arguments: str) -> str:
    return in_command(f"print([m for m in {modules} if m in sys.modules])", *arguments)


@pytest.fixture
def dry_run(tmp_path: Path) -> list[str]:
    plan, table = tmp_path / "plan.json", tmp_path / "visits.csv"
    plan.write_text(plan_of("counting+laplace").to_json(), encoding="utf-8")
    table.write_text("person,page\na,tea\nb,jam\na,jam\n", encoding="utf-8")
    columns = ["--user", "person", "--attribute", "page"]
    return ["publish", str(table), "--plan", str(plan), *columns, "--json", "--dry-run"]


@pytest.mark.parametrize("way", PLANS)
def test_a_plan_is_made_without_kernels_tables_and_files(way: list[str]) -> None:
    heavy = ["numba", "pyarrow", "duckdb", "pandas", "scipy", "sklearn", "matplotlib", "rich"]
    heavy += ["dimly.release", "dimly.curator", "dimly.cli.commands.publish"]
    assert loaded(heavy, "plan", "--epsilon", "1", "--json", *way) == "[]"


def test_a_dry_run_of_few_rows_loads_neither_pandas_nor_kernels(dry_run: list[str]) -> None:
    heavy = [
        "numba",
        "pandas",
        "pyarrow.compute",
        "sklearn",
        "matplotlib",
        "rich",
        "dp_accounting",
        "dimly.analyst",
        "dimly.planner",
    ]
    assert loaded(heavy, *dry_run) == "[]"


@pytest.mark.parametrize("pages", [range(2**18), range(0, 2**38, 2**20), map(str, range(2**18))])
def test_publishing_does_not_load_pandas(tmp_path: Path, pages: Iterable[object]) -> None:
    """Where it is installed, Arrow loads it to look at NumPy's arrays, which takes half a second."""
    plan, table = tmp_path / "plan.json", tmp_path / "visits.parquet"
    plan.write_text(plan_of("counting+laplace").to_json(), encoding="utf-8")
    pq.write_table(pa.table({"person": [n % 100 for n in range(2**18)], "page": list(pages)}), table)
    line = ["publish", str(table), "--plan", str(plan), "--user", "person", "--attribute", "page", "--json"]
    assert loaded(["pandas"], *line, "--out", str(tmp_path / "release")) == "[]"


def test_commands_without_linear_algebra_start_no_threads_for_it(dry_run: list[str]) -> None:
    for line in (["plan", "--epsilon", "1", "--json", *PLANS[0]], dry_run, DISTANCE):
        code = "from threadpoolctl import threadpool_info as f; print({one['num_threads'] for one in f()})"
        assert in_command(code, *line) == "{1}"


def test_a_process_that_ends_looks_for_no_garbage(dry_run: list[str]) -> None:
    """But where DuckDB was used, whose bindings would warn of what was not collected (see also ``in_command``)."""
    first = f"import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count() > 0, gc.isenabled()))\n{MAIN}"
    for line, found in ((["plan", "--epsilon", "1", "--json", *PLANS[0]], "True True"), (dry_run, "False False")):
        done = subprocess.run([sys.executable, "-c", first, *line], capture_output=True, text=True, check=True)  # noqa: S603
        assert done.stdout.splitlines()[-1] == found


def test_devices_load_no_databases() -> None:
    code = "import sys, dimly; dimly.Sketcher; print([m for m in ('duckdb', 'pyarrow', 'sklearn') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "[]"


def test_publishing_verifying_and_ledgers_load_no_analyst() -> None:
    rooms = "dimly.curator.publication, dimly.curator.ledger.ledger, dimly.release.verify, dimly.cli.app"
    heavy = (
        "dimly.analyst",
        "dimly.api",
        "dimly.lab",
        "dimly.planner",
        "dimly.spark",
        "sklearn",
        "matplotlib",
        "jinja2",
    )
    code = f"import sys, {rooms}; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "[]"


def test_a_question_loads_nothing_that_takes_longer_than_its_answer() -> None:
    heavy = ["pyarrow.compute", "duckdb", "pandas", "sklearn", "matplotlib", "numba", "scipy", "dp_accounting"]
    heavy += [f"dimly.analyst.{room}" for room in ("structure", "segments", "likelihood", "disk_cache")]
    code = (
        f"import sys, dimly; release = dimly.open_release({str(RELEASE)!r}); one, other = release.users[:2].tolist()\n"
    )
    code += f"release.distance(one, other); print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", dimly.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(dimly, name) is not None
    assert name in dir(dimly)


def test_all_is_complete_and_nothing_else_is_there() -> None:
    assert sorted(dimly.__all__) == sorted(dimly._ROOM_OF)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        dimly.nonsense  # noqa: B018
    for wrong, meant in (("pubish", "publish"), ("load", "open_release"), ("read_release", "open_release")):
        with pytest.raises(AttributeError, match=f"no attribute '{wrong}'. Did you mean '{meant}'"):
            getattr(dimly, wrong)
    assert not hasattr(dimly, "__path_of_nothing__")
