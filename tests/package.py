"""Install what `make package` built into new environments, and try it there as a user would, without make and sources.

``python tests/package.py dist``
"""

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

COMMANDS = """
dimly --version
dimly simulate --users 300 --attributes 500 --groups 3 --weight 30 --out visits.csv --roster people.parquet
dimly plan --epsilon 3 --purpose segments --distance 30:60 --n-users 300 -o plan.json
dimly ledger init ledger.db --dataset visits --epsilon 4
dimly publish visits.csv --plan plan.json --user person --attribute place --roster people.parquet --out release \
  --ledger ledger.db --dataset visits
dimly verify release
dimly distance release 3 14
dimly neighbors release --user 3
dimly segments release --count 3 --out segments.parquet
dimly report release -o report.html
dimly ledger show ledger.db
"""
ASKING = """
import dimly

release = dimly.open_release("release", verify=True)
assert len(release) == 300
estimate = release.distance("3", "14")
assert 0 <= estimate.low < estimate.high  # the value itself is unbiased, and may be below 0
assert sum(release.segments(3).sizes) == 300
"""
DRAWING = "dimly figure winners"


def call(*arguments: object, folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder, and return what it printed."""
    return subprocess.run(  # noqa: S603
        list(map(str, arguments)), cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def size_of(folder: Path) -> int:
    """Return the megabytes below a folder, as ``du`` counts them."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*")) // 2**20


def try_out(package: Path, folder: Path) -> None:
    """Install a package with its core dependencies alone, and use it; exit where anything fails."""
    venv.create(folder / "venv", with_pip=True)
    programs = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    subprocess.run([programs / "python", "-m", "pip", "install", "--quiet", package], check=True)  # noqa: S603
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP", "MAKE"))}
    environment["PATH"] = f"{programs}{os.pathsep}{environment['PATH']}"
    for line in [*COMMANDS.replace("\\\n", " ").strip().splitlines(), None]:
        arguments = [programs / "python", "-c", ASKING] if line is None else [programs / "dimly", *line.split()[1:]]
        done = call(*arguments, folder=folder, environment=environment)
        if done.returncode:
            sys.exit(f"{package.name}: {line or 'asking from Python'} failed.\n{done.stdout}{done.stderr}")
    refused = call(programs / "dimly", *DRAWING.split()[1:], folder=folder, environment=environment)
    if refused.returncode != 1 or "pip install 'dimly[plots]'" not in refused.stderr:
        sys.exit(f"{package.name}: {DRAWING} must name its extra.\n{refused.stderr}")
    print(f"{package.name}: works in a new environment of {size_of(folder / 'venv')} MB")  # noqa: T201


def main() -> None:
    """Try the wheel and the sdist."""
    packages = sorted(Path(sys.argv[1]).resolve().glob("dimly-*"))
    if [package.suffix for package in packages] != [".whl", ".gz"]:
        sys.exit(f"{sys.argv[1]} must hold one wheel and one sdist, got {[package.name for package in packages]}.")
    for package in packages:
        with tempfile.TemporaryDirectory() as folder:
            try_out(package, Path(folder))


if __name__ == "__main__":
    main()
