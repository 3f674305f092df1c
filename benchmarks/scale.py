"""What publishing costs a person, from 10⁵ to 3·10⁶ of them, on Spark in local mode and by the local engine beside it.

``python -m benchmarks.scale`` takes four minutes on two idle cores, prints a table and renews benchmarks/scale.json.
Costs are seconds of processor, of all processes together, because those can be multiplied by the number of people of a
larger table and divided by the number of cores of a larger cluster.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.conditions import describe_machine, describe_now, describe_packages, describe_source
from dimly.curator.options import Options
from dimly.curator.publication import publish_table
from dimly.mechanisms import Plan
from dimly.privacy import Budget
from dimly.spark.cluster import running_session
from dimly.spark.publishing import publish_frame

RESULTS = Path(__file__).with_name("scale.json")
SIZES = (100_000, 300_000, 1_000_000, 3_000_000)
WARM_UP = 20_000
K = 256
ROWS_PER_PERSON = 20
N_ATTRIBUTES = 100_000
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    """What one release took."""

    engine: str
    n_users: int
    cpu_seconds: float
    seconds: float
    bytes_shuffled: int
    bytes_written: int


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES), metavar="PEOPLE")
    parser.add_argument("--json", type=Path, default=RESULTS, metavar="FILE")
    arguments = parser.parse_args()
    plan = Plan.of("counting+laplace", Budget(1.0), k=K)
    costs = []
    sixteen = {"spark__sql__shuffle__partitions": "16"}
    with (
        tempfile.TemporaryDirectory() as name,
        running_session(master="local[2]", memory=2 << 30, **sixteen) as session,
    ):
        folder = Path(name)
        for n_users in (WARM_UP, *arguments.sizes):
            write_table(folder / "table", n_users)
            for engine, run in (("local", _local(plan, folder)), ("Spark", _spark(plan, folder, session))):
                cost = _measured(engine, n_users, run, folder, session)
                if n_users != WARM_UP:
                    costs.append(cost)
                    _print(cost)
                shutil.rmtree(folder / "release")
            shutil.rmtree(folder / "table")
    report = {
        "measured": describe_now(),
        "machine": asdict(describe_machine()),
        "source": asdict(describe_source(RESULTS)),
        "packages": describe_packages(),
        "parameters": {"k": K, "rows_per_person": ROWS_PER_PERSON, "attributes": N_ATTRIBUTES},
        "costs": [asdict(cost) for cost in costs],
        "per_person": {engine: per_person(costs, engine) for engine in ("local", "Spark")},
    }
    arguments.json.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


def per_person(costs: list[Cost], engine: str) -> dict[str, float]:
    """Return what one more person costs: slopes between the smallest and the largest table, without start-up."""
    found = [cost for cost in costs if cost.engine == engine]
    first, last = found[0], found[-1]
    more = max(last.n_users - first.n_users, 1)
    return {
        "cpu_microseconds": 1e6 * (last.cpu_seconds - first.cpu_seconds) / more,
        "bytes_shuffled": (last.bytes_shuffled - first.bytes_shuffled) / more,
        "bytes_written": (last.bytes_written - first.bytes_written) / more,
    }


def write_table(folder: Path, n_users: int) -> None:
    """Write a long table in no order, in files of about a million rows; tastes are as uneven as people's are."""
    folder.mkdir()
    generator = np.random.default_rng(0)
    rows = n_users * ROWS_PER_PERSON
    names = pa.array([f"item {i}" for i in range(N_ATTRIBUTES)])
    for number, start in enumerate(range(0, rows, 1 << 20)):
        size = min(1 << 20, rows - start)
        items = (generator.pareto(0.8, size) * 50).astype(np.int64) % N_ATTRIBUTES
        people = generator.integers(0, n_users, size)
        table = pa.table({"person": people, "item": names.take(pa.array(items))})
        pq.write_table(table, folder / f"{number:04d}.parquet")


def _local(plan: Plan, folder: Path) -> Callable[[], object]:
    return lambda: publish_table(
        folder / "table",
        plan,
        Options(user="person", attribute="item", out=folder / "release", memory=2 << 30, threads=2),
    )


def _spark(plan: Plan, folder: Path, session: Any) -> Callable[[], object]:
    def run() -> object:
        frame = session.read.parquet(str(folder / "table"))
        return publish_frame(frame, plan, Options(user="person", attribute="item", out=folder / "release"))

    return run


def _measured(engine: str, n_users: int, run: Callable[[], object], folder: Path, session: Any) -> Cost:
    shuffled, start, own = _shuffled(session), time.perf_counter(), time.process_time()
    with _Processes() as others:
        run()
    took, own = time.perf_counter() - start, time.process_time() - own
    cpu = own if engine == "local" else own + others.seconds
    written = sum(path.stat().st_size for path in (folder / "release").rglob("*") if path.is_file())
    return Cost(engine, n_users, cpu, took, _shuffled(session) - shuffled, written)


class _Processes:
    """The processor time of all processes below this one, looked at every second: workers come and go."""

    def __init__(self) -> None:
        self._before = _used()
        self._latest = dict(self._before)
        self._done = threading.Event()
        self._watch = threading.Thread(target=self._look)

    @property
    def seconds(self) -> float:
        """What they used."""
        return sum(used - self._before.get(one, 0) for one, used in self._latest.items()) / _TICKS

    def __enter__(self) -> "_Processes":
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._watch.join()
        self._latest |= _used()

    def _look(self) -> None:
        while not self._done.wait(1.0):
            self._latest |= _used()


def _used() -> dict[int, int]:
    """Return the ticks that each process below this one has used."""
    parents: dict[int, int] = {}
    used: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        fields = text[text.rindex(")") + 2 :].split()
        number = int(path.parent.name)
        parents[number], used[number] = int(fields[1]), int(fields[11]) + int(fields[12])
    ours = {os.getpid()}
    while more := {child for child, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return {one: used[one] for one in ours - {os.getpid()}}


def _shuffled(session: Any) -> int:
    """Return the bytes that Spark has written for its shuffles so far."""
    context = session.sparkContext
    none = context._gateway.new_array(context._jvm.double, 0)
    stages = context._jsc.sc().statusStore().stageList(None, False, False, none, context._jvm.java.util.ArrayList())
    return sum(stages.apply(i).shuffleWriteBytes() for i in range(stages.size()))


def _print(cost: Cost) -> None:
    each = 1e6 * cost.cpu_seconds / cost.n_users
    print(
        f"{cost.engine:<6} {cost.n_users:>9,} people {cost.cpu_seconds:8.1f} s of processor, {each:6.1f} µs each, "
        f"{cost.seconds:7.1f} s, {cost.bytes_shuffled / cost.n_users:6.0f} B shuffled, "
        f"{cost.bytes_written / cost.n_users:5.0f} B written",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
