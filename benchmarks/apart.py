"""Publishing in a process of its own, which says how long it took and how much memory it needed.

What an earlier call left behind in this process would blur the peak: ``python -m benchmarks.apart SOURCE K MEMORY``
publishes into a new folder beside the source and prints seconds and bytes, of publishing alone.
"""

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dimly.curator.options import Options
from dimly.curator.publication import publish_table
from dimly.mechanisms import Plan
from dimly.privacy import Budget

THREADS = 2
CHUNK = 1 << 20


class Spent(NamedTuple):
    """What one publication took, without starting Python and compiling."""

    seconds: float
    peak_bytes: int


def publish_apart(source: Path, k: int, *, memory: int) -> Spent:
    """Publish a long table (person, item) in a new process that may use so many bytes."""
    command = [sys.executable, "-m", "benchmarks.apart", str(source), str(k), str(memory)]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], check=True, stdout=subprocess.PIPE, text=True)
    seconds, peak = done.stdout.split()
    return Spent(float(seconds), int(peak))


def write_people(path: Path, n_users: int, *, n_attributes: int, weight: int) -> None:
    """Write a long table of (person, item) in random order, ``weight`` rows for each person, repeats included."""
    generator = np.random.default_rng(0)
    rows = n_users * weight
    with pq.ParquetWriter(path, pa.schema({"person": pa.int64(), "item": pa.int64()})) as writer:
        for start in range(0, rows, CHUNK):
            size = min(CHUNK, rows - start)
            columns = {
                "person": generator.integers(0, n_users, size),
                "item": generator.integers(0, n_attributes, size),
            }
            writer.write_table(pa.table(columns))


def main(arguments: Sequence[str]) -> None:
    source, plan = Path(arguments[0]), Plan.of("counting+laplace", Budget(1.0), k=int(arguments[1]))
    memory = int(arguments[2])
    with tempfile.TemporaryDirectory(dir=source.parent) as name:
        folder = Path(name)
        write_people(folder / "few.parquet", 1_000, n_attributes=1_000, weight=5)
        _publish(folder / "few.parquet", plan, folder / "warm", memory)
        # What is resident now is Python, its libraries and compiled kernels: the same at every size.
        before = _resident()
        start = time.perf_counter()
        _publish(source, plan, folder / "release", memory)
        seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    print(seconds, max(0, peak - before))


def _publish(source: Path, plan: Plan, out: Path, memory: int) -> None:
    publish_table(source, plan, Options(user="person", attribute="item", out=out, memory=memory, threads=THREADS))


def _resident() -> int:
    """Return the resident bytes, or the highest so far where the system tells no more."""
    status = Path("/proc/self/statm")
    if status.exists():
        return int(status.read_text().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main(sys.argv[1:])
