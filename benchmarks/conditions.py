"""Under which conditions something was measured: machine, threads, packages, commit.

This file must not import NumPy, because threads are pinned before that.
"""

import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

THREAD_VARIABLES = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Machine:
    """The hardware and system, without anything that names this one machine."""

    cpu: str
    architecture: str
    cores: int | None
    memory_gib: float | None
    system: str
    python: str


@dataclass(frozen=True)
class Source:
    """The commit that was measured; ``dirty`` if files differed from it. None outside a work tree."""

    commit: str | None
    dirty: bool | None


def pin_threads() -> None:
    """Allow one thread to every numerical library; must come before NumPy is imported.

    Raises
    ------
    RuntimeError
        If NumPy is there already, whose libraries then have counted their threads.
    """
    if "numpy" in sys.modules:
        raise RuntimeError("threads must be pinned before NumPy is imported. Call pin_threads first.")
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))


def describe_threads() -> dict[str, str | None]:
    """Return the variables that `pin_threads` sets, as they are."""
    return {name: os.environ.get(name) for name in THREAD_VARIABLES}


def describe_packages() -> dict[str, str]:
    """Return the versions of Dimly and of the packages that are imported by now."""
    distributions = metadata.packages_distributions().items()
    loaded = {name for module, names in distributions if module in sys.modules for name in names}
    # An editable installation does not say which modules it holds.
    return {name: metadata.version(name) for name in sorted(loaded | {"dimly"}, key=str.lower)}


def describe_machine() -> Machine:
    """Return the hardware and the system, but no name that this machine or its user goes by."""
    try:
        system = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        system = platform.system()
    try:
        memory = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, OSError, ValueError):
        memory = None
    return Machine(
        cpu=_processor(Path("/proc/cpuinfo")),
        architecture=platform.machine(),
        cores=os.cpu_count(),
        memory_gib=memory,
        system=system,
        python=f"{platform.python_implementation()} {platform.python_version()}",
    )


def describe_source(results: Path) -> Source:
    """Return the commit of the work tree that holds the file of results, which does not make it dirty."""
    changes = ["git", "status", "--porcelain", "--", ":(top)", f":(exclude){results.name}"]
    try:
        commit = _output(["git", "rev-parse", "HEAD"], results.parent)
        dirty = bool(_output(changes, results.parent))
    except (OSError, subprocess.CalledProcessError):
        return Source(None, None)
    return Source(commit, dirty)


def describe_now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def read_field(path: Path, field: str) -> str | None:
    """Return what follows ``field:`` in a file of such lines."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    found = (line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == field)
    return next(found, None)


def _processor(info: Path) -> str:
    """Return which processor this is: by its name alone, a Zen 3 and a Zen 4 may both be an "AMD EPYC"."""
    name = read_field(info, "model name")
    if name is None:
        return platform.processor()
    family, model = read_field(info, "cpu family"), read_field(info, "model")
    return name if family is None or model is None else f"{name} (family {family}, model {model})"


def _output(command: list[str], folder: Path) -> str:
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()
