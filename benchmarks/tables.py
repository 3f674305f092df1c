"""Publishing tables end to end, against DuckDB sorting and writing the same rows."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.harness import Result, Run, benchmark, compare
from dimly.curator.options import Options
from dimly.curator.publication import publish_table
from dimly.mechanisms import Plan
from dimly.privacy import Budget
from dimly.release.format import PARTS_FOLDER, layout_of
from dimly.release.parts import as_user_column, write_part

K = 256
MEMORY = 2 << 30
THREADS = 2
ROWS_PER_PERSON = 20
N_ATTRIBUTES = 100_000
PEER = "DuckDB: sort, write, write n × k integers"
STRICT_PEER = "DuckDB: sort, write; our part writer: n × k"
INTEGERS = "publishing the same rows of integers"
TARGETS = {PEER: 1 / 1.3, STRICT_PEER: 1 / 1.15, INTEGERS: 1 / 1.5}


@benchmark("tables")
def tables(quick: bool) -> Iterator[Result]:
    """Rows of (person, attribute) to a release at k = 256, against sorting and writing as many rows and numbers.

    The peer sorts the same rows in DuckDB and writes them, and writes integers of the published size, all with its own
    threads. The stricter one writes those with our part writer, faster than DuckDB's: what is left is the work that
    publishing adds. Where ids and attributes are text, the peer is publishing the same rows of integers.
    """
    n_users = 100_000 if quick else 1_000_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind in ("integers", "text"):
            _write_table(folder / f"{kind}.parquet", n_users, text=kind == "text")
        yield _publish(folder, "integers", n_users, peers=(PEER, STRICT_PEER), repeats=2 if quick else 3)
        yield _publish(folder, "text", n_users, peers=(INTEGERS,), repeats=2)
        if not quick:  # one round: each takes a minute, and has run before
            _write_table(folder / "integers.parquet", 5 * n_users, text=False)
            yield _publish(folder, "integers", 5 * n_users, peers=(PEER,), repeats=1, warmups=0)


def _publish(folder: Path, kind: str, n_users: int, *, peers: Sequence[str], repeats: int, warmups: int = 1) -> Result:
    plan = Plan.of("counting+laplace", Budget(1.0), k=K)
    numbers = _published_numbers(min(n_users, layout_of(plan).users_per_part))

    def published(kind: str) -> None:
        source, out = folder / f"{kind}.parquet", folder / "release"
        publish_table(source, plan, Options(user="person", attribute="item", out=out, memory=MEMORY, threads=THREADS))

    def peer() -> None:
        _sort_and_write(folder, numbers, n_users)

    def strict_peer() -> None:
        _sort_and_write(folder)
        _write_numbers(plan, numbers, n_users, folder / "peer")

    def clear() -> None:
        for made in ("release", "peer"):
            shutil.rmtree(folder / made, ignore_errors=True)

    runs: dict[str, Run] = {PEER: peer, STRICT_PEER: strict_peer, INTEGERS: lambda: published("integers")}
    return compare(
        f"{kind}, {n_users:,} people, {n_users * ROWS_PER_PERSON:,} rows",
        lambda: published(kind),
        {name: runs[name] for name in peers},
        work=n_users,
        unit="people",
        parameters={"k": K, "rows": n_users * ROWS_PER_PERSON, "attributes": N_ATTRIBUTES, "threads": THREADS},
        targets={name: TARGETS[name] for name in peers},
        repeats=repeats,
        warmups=warmups,
        setup=clear,
    )


def _write_table(path: Path, n_users: int, *, text: bool) -> None:
    """Write a long table in random order, whose attributes are as uneven as people's tastes are."""
    generator = np.random.default_rng(0)
    rows = n_users * ROWS_PER_PERSON
    kind = pa.string() if text else pa.int64()
    with pq.ParquetWriter(path, pa.schema({"person": kind, "item": kind})) as writer:
        for start in range(0, rows, 1 << 20):
            size = min(1 << 20, rows - start)
            items = (generator.pareto(0.8, size) * 50).astype(np.int64) % N_ATTRIBUTES
            columns = {"person": generator.integers(0, n_users, size), "item": items}
            named = {name: np.char.add(f"{name} ", column.astype(str)) for name, column in columns.items() if text}
            writer.write_table(pa.table({name: pa.array(column) for name, column in (named or columns).items()}))


def _published_numbers(n_users: int) -> NDArray[np.int16]:
    """Return integers that pack as well as published ones do."""
    generator = np.random.default_rng(1)
    noise = np.rint(generator.laplace(scale=1.0, size=(n_users, K)))
    return (noise + generator.poisson(ROWS_PER_PERSON / K, (n_users, K))).astype(np.int16)


def _sort_and_write(folder: Path, numbers: NDArray[np.int16] | None = None, n_users: int = 0) -> None:
    """Sort the rows in DuckDB and write them; then n × k integers too, if they are given."""
    with duckdb.connect(config={"threads": THREADS, "memory_limit": f"{MEMORY}B"}) as connection:
        connection.execute(f"SET temp_directory = '{folder / 'spill'}'")
        source, target = folder / "integers.parquet", folder / "sorted.parquet"
        connection.execute(f"COPY (SELECT * FROM '{source}' ORDER BY person, item) TO '{target}'")  # noqa: S608
        if numbers is None:
            return
        offsets = pa.array(np.arange(0, numbers.size + 1, K, dtype=np.int32))
        lists = pa.ListArray.from_arrays(offsets, pa.array(numbers.reshape(-1)))
        part = pa.table({"person": pa.array(np.arange(len(numbers))), "sketch": lists})
        connection.register("numbers", pa.concat_tables([part] * -(-n_users // len(numbers))).slice(0, n_users))
        connection.execute(f"COPY numbers TO '{folder / 'numbers.parquet'}' (COMPRESSION uncompressed)")


def _write_numbers(plan: Plan, numbers: NDArray[np.int16], n_users: int, folder: Path) -> None:
    (folder / PARTS_FOLDER).mkdir(parents=True)

    def write(start: int) -> None:
        rows = min(len(numbers), n_users - start)
        users = as_user_column(np.arange(start, start + rows), "int64")
        write_part(folder, start // len(numbers), users, numbers[:rows], plan)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(write, range(0, n_users, len(numbers))))
