"""What publishing costs a person, from 10⁵ to 3·10⁶ of them, on Spark in local mode and by the local engine beside it.

``python -m benchmarks.scale`` takes a few minutes on two idle cores, prints a table and renews benchmarks/scale.json.
Costs are seconds of processor, of all processes together, because those can be multiplied by the number of people of a
larger table and divided by the number of cores of a larger cluster. What a person costs is the slope between two sizes:
start-up, Java's compiler and everything else that is paid once is apart. The more people, the smaller are the pieces
in which rows travel; what comes of that is measured for a billion by cutting the rows that one worker sorts together.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from itertools import chain
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
from dimly.spark.workers.pieces import Places, SortedRows

RESULTS = Path(__file__).with_name("scale.json")
SIZES = (100_000, 300_000, 1_000_000, 3_000_000)
WARM_UP = 100_000  # two files: both workers have loaded everything then
K = 256
ROWS_PER_PERSON = 20
N_ATTRIBUTES = 100_000
MANY = 10**9  # people
SORTED, PART = 1 << 21, 1 << 16  # rows that a worker sorts together; people of a part
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    """What one release took."""

    engine: str
    n_users: int
    cpu_seconds: float
    java_seconds: float
    worker_seconds: float
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
        sizes = (WARM_UP, *arguments.sizes)
        for number, n_users in enumerate(sizes):
            write_table(folder / f"table-{number}", n_users)
        # One engine after the other: Spark ends workers that have nothing to do for a minute, and new ones start anew.
        for engine in ("local", "Spark"):
            for number, n_users in enumerate(sizes):
                table = folder / f"table-{number}"
                run = _local(plan, folder, table) if engine == "local" else _spark(plan, folder, table, session)
                cost = _measured(engine, n_users, run, folder, session)
                if number:
                    costs.append(cost)
                    _print(cost)
                shutil.rmtree(folder / "release")
    report = {
        "measured": describe_now(),
        "machine": asdict(describe_machine()),
        "source": asdict(describe_source(RESULTS)),
        "packages": describe_packages(),
        "parameters": {"k": K, "rows_per_person": ROWS_PER_PERSON, "attributes": N_ATTRIBUTES},
        "costs": [asdict(cost) for cost in costs],
        "per_person": {engine: per_person(costs, engine) for engine in ("local", "Spark")},
        "once": {engine: paid_once(costs, engine) for engine in ("local", "Spark")},
        "small_pieces": {"n_users": MANY, **small_pieces(MANY)},
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
        "java_microseconds": 1e6 * (last.java_seconds - first.java_seconds) / more,
        "worker_microseconds": 1e6 * (last.worker_seconds - first.worker_seconds) / more,
        "bytes_shuffled": (last.bytes_shuffled - first.bytes_shuffled) / more,
        "bytes_written": (last.bytes_written - first.bytes_written) / more,
    }


def paid_once(costs: list[Cost], engine: str) -> float:
    """Return the seconds of the smallest table that are not due to its people."""
    first = next(cost for cost in costs if cost.engine == engine)
    return first.cpu_seconds - first.n_users * per_person(costs, engine)["cpu_microseconds"] / 1e6


def small_pieces(n_users: int) -> dict[str, float]:
    """Return what a row costs Python, and how many bytes it takes as Spark compresses them, in pieces of many parts.

    That is to cut, pack and unpack the rows that a worker sorts together. People are counted once more in the bytes,
    because they also travel alone.
    """
    rows = SortedRows.of(_rows(np.random.default_rng(0), SORTED, n_users).rename_columns(["u", "a"]), key=None)
    firsts = range(0, n_users, PART)
    start = time.process_time()
    pieces = [some.packed() for _, some in Places(firsts, np.arange(len(firsts), dtype=np.int32)).cut(rows)]
    for piece in pieces:
        SortedRows.unpacked(*piece)
    took = time.process_time() - start
    travels = (*chain.from_iterable(pieces), *replace(rows, is_list=True).packed())
    size = sum(len(pa.compress(content, codec="lz4_raw")) for content in travels if content is not None)
    return {"cpu_microseconds_a_row": 1e6 * took / SORTED, "bytes_a_row": size / SORTED}


def write_table(folder: Path, n_users: int) -> None:
    """Write a long table in no order, in files of about a million rows; tastes are as uneven as people's are."""
    folder.mkdir()
    generator = np.random.default_rng(0)
    rows = n_users * ROWS_PER_PERSON
    for number, start in enumerate(range(0, rows, 1 << 20)):
        pq.write_table(_rows(generator, min(1 << 20, rows - start), n_users), folder / f"{number:04d}.parquet")


def _rows(generator: np.random.Generator, size: int, n_users: int) -> pa.Table:
    items = (generator.pareto(0.8, size) * 50).astype(np.int64) % N_ATTRIBUTES
    people = generator.integers(0, n_users, size)
    names = pa.array([f"item {i}" for i in range(N_ATTRIBUTES)])
    return pa.table({"person": people, "item": names.take(pa.array(items))})


def _local(plan: Plan, folder: Path, table: Path) -> Callable[[], object]:
    return lambda: publish_table(
        table,
        plan,
        Options(user="person", attribute="item", out=folder / "release", memory=2 << 30, threads=2),
    )


def _spark(plan: Plan, folder: Path, table: Path, session: Any) -> Callable[[], object]:
    def run() -> object:
        frame = session.read.parquet(str(table))
        return publish_frame(frame, plan, Options(user="person", attribute="item", out=folder / "release"))

    return run


def _measured(engine: str, n_users: int, run: Callable[[], object], folder: Path, session: Any) -> Cost:
    shuffled, start, before = _shuffled(session), time.perf_counter(), _used()
    run()
    took, after = time.perf_counter() - start, _used()
    own, java, workers = (after[kind] - before[kind] for kind in ("driver", "java", "workers"))
    if engine == "local":
        java = workers = 0.0
    written = sum(path.stat().st_size for path in (folder / "release").rglob("*") if path.is_file())
    total = own + java + workers
    return Cost(engine, n_users, total, java, workers, took, _shuffled(session) - shuffled, written)


def _used() -> dict[str, float]:
    """Return the seconds of processor of this process, of Java and of Python's workers below it, also of ended ones."""
    parents: dict[int, int] = {}
    used: dict[int, tuple[str, int, int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        name, fields = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
        number = int(path.parent.name)
        parents[number] = int(fields[1])
        used[number] = name, int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])  # own, of ended ones
    ours = {os.getpid()}
    while more := {child for child, parent in parents.items() if parent in ours} - ours:
        ours |= more
    found = dict.fromkeys(("driver", "java", "workers"), 0.0)
    for one in ours:
        name, own, ended = used[one]
        kind = "driver" if one == os.getpid() else "java" if name == "java" else "workers"
        found[kind] += (own + (ended if kind == "workers" else 0)) / _TICKS
    return found


def _shuffled(session: Any) -> int:
    """Return the bytes that Spark has written for its shuffles so far."""
    context = session.sparkContext
    none = context._gateway.new_array(context._jvm.double, 0)
    stages = context._jsc.sc().statusStore().stageList(None, False, False, none, context._jvm.java.util.ArrayList())
    return sum(stages.apply(i).shuffleWriteBytes() for i in range(stages.size()))


def _print(cost: Cost) -> None:
    each = 1e6 * cost.cpu_seconds / cost.n_users
    print(
        f"{cost.engine:<6} {cost.n_users:>9,} people {cost.cpu_seconds:8.1f} s of processor, {each:6.1f} µs each "
        f"(Java {cost.java_seconds:.1f} s, workers {cost.worker_seconds:.1f} s), "
        f"{cost.seconds:7.1f} s, {cost.bytes_shuffled / cost.n_users:6.0f} B shuffled, "
        f"{cost.bytes_written / cost.n_users:5.0f} B written",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
