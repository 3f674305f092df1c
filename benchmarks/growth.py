"""How publishing grows: time and memory against people, attributes, weight and k, each against the smallest."""

import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.apart import THREADS, publish_apart, write_people
from benchmarks.harness import Result, benchmark, judge, timing

AXES = ("n", "d", "weight", "k")
CENTER = {"n": 100_000, "d": 100_000, "weight": 20, "k": 256}
SIZES: Mapping[str, Sequence[int]] = {
    "n": (25_000, 100_000, 400_000, 1_600_000),
    "d": (1_000, 10_000, 100_000, 1_000_000),
    "weight": (5, 20, 80, 320),
    "k": (64, 128, 256, 512, 1_024),
}
QUICK_CENTER = {"n": 10_000, "d": 10_000, "weight": 20, "k": 256}
QUICK_SIZES: Mapping[str, Sequence[int]] = {
    "n": (5_000, 20_000),
    "d": (1_000, 100_000),
    "weight": (5, 40),
    "k": (64, 512),
}
MEMORY = 1 << 30
LEAST_MEMORY = 768 << 20
"""What publishing may use where its peak is looked at: as little as it takes."""
TENTH = "itself at a tenth of the people"


@benchmark("growth")
def growth(quick: bool) -> Iterator[Result]:
    """Publish tables of growing n, d, weight and k, each in a process of its own, against the smallest of its row."""
    center, sizes = (QUICK_CENTER, QUICK_SIZES) if quick else (CENTER, SIZES)
    for axis in AXES:
        smallest = None
        for size in sizes[axis]:
            result = _published(axis, center | {axis: size}, smallest, repeats=1 if quick else 3)
            smallest = smallest or result
            yield result


@benchmark("memory")
def memory(quick: bool) -> Iterator[Result]:
    """Publish a table and a tenth of it, each in a process of its own: the peak of memory should be the same.

    In the full run both hold more rows than may be sorted in memory, 16 bytes each in half of what is allowed. The
    speed-up is over ten times the tenth's time: 1 is linear.
    """
    n_users = 400_000 if quick else 8_000_000
    large = CENTER | {"n": n_users, "k": 64}
    tenth = _published("n", large | {"n": n_users // 10}, None, repeats=1, memory=LEAST_MEMORY)
    yield _published("n", large, tenth, repeats=1, memory=LEAST_MEMORY, name=TENTH)


def exponent(sizes: Sequence[float], amounts: Sequence[float]) -> float:
    """Return b of amount = a · size^b by least squares of the logarithms."""
    x, y = [math.log(size) for size in sizes], [math.log(amount) for amount in amounts]
    mean_x, mean_y = math.fsum(x) / len(x), math.fsum(y) / len(y)
    across = math.fsum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return across / math.fsum((a - mean_x) ** 2 for a in x)


def _published(
    axis: str,
    sizes: Mapping[str, int],
    smallest: Result | None,
    *,
    repeats: int,
    memory: int = MEMORY,
    name: str = "itself, smallest",
) -> Result:
    """Return the result at these sizes; the smallest is its own peer."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "people.parquet"
        write_people(source, sizes["n"], n_attributes=sizes["d"], weight=sizes["weight"])
        spent = [publish_apart(source, sizes["k"], memory=memory) for _ in range(repeats)]
    work = sizes["n"]
    ours = timing("dimly", [one.seconds for one in spent], work=work, peak_bytes=max(one.peak_bytes for one in spent))
    first = smallest.ours if smallest else ours
    # Times of as much work as ours, so that a ratio of 1 says that time grows as the number of people does.
    factor = work / smallest.work if smallest else 1
    peer = timing(name, [factor * seconds for seconds in first.seconds], work=work, peak_bytes=first.peak_bytes)
    return Result(
        name=f"{axis} = {sizes[axis]:,}",
        unit="people",
        work=work,
        parameters={"axis": axis, **sizes, "threads": THREADS, "memory": memory},
        repeats=repeats,
        warmups=1,
        ours=ours,
        peers=(judge(peer, ours),),
    )
