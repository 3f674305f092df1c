"""`import dimly` is instant and honest about what it offers."""

import subprocess
import sys
from pathlib import Path

import pytest

import dimly

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


@pytest.mark.parametrize(
    "way", [["--mechanism", "counting+laplace", "--k", "64"], ["--n-attributes", "1000", "--distance", "20:100"]]
)
def test_a_plan_is_made_without_kernels_tables_and_files(way: list[str]) -> None:
    heavy = ["numba", "pyarrow", "duckdb", "pandas", "scipy", "sklearn", "matplotlib", "rich"]
    heavy += ["dimly.release", "dimly.curator", "dimly.cli.commands.publish"]
    code = (
        "import sys\nfrom dimly.cli import main\nsys.argv[0] = 'dimly'\n"
        f"try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        f"print([m for m in {heavy} if m in sys.modules])"
    )
    command = [sys.executable, "-c", code, "plan", "--epsilon", "1", "--json", *way]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.splitlines()[-1] == "[]"


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
    heavy = ["pyarrow.compute", "duckdb", "pandas", "sklearn", "matplotlib", "numba", "scipy.stats", "dp_accounting"]
    release = Path(__file__).parents[1] / "golden" / "format-2-stream-2-int64"
    code = (
        f"import sys, dimly; release = dimly.open_release({str(release)!r}); one, other = release.users[:2].tolist()\n"
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
