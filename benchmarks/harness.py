"""Compare our code with a peer's, fairly.

Ours and the peers take turns in one process, so that a slow spell of the machine hits all of them; each
figure is a ratio within one round. This file must not import NumPy, because threads are pinned before that.
"""

import contextlib
import ctypes
import gc
import math
import resource
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from benchmarks.conditions import Machine, Source, read_field

Parameter = int | float | str
Run = Callable[[], object]
Clock = Callable[[], float]

OURS = "dimly"
RESULTS = Path(__file__).with_name("results.json")


@dataclass(frozen=True)
class Timing:
    """How long one contender took.

    ``seconds`` holds the time of one call in each round, averaged over ``calls`` calls; ``rate`` is work
    units per second at the median. ``peak_bytes`` is None where not asked for or the system cannot tell.
    """

    name: str
    calls: int
    seconds: tuple[float, ...]
    median_seconds: float
    rate: float
    peak_bytes: int | None


@dataclass(frozen=True)
class Ratio:
    """The median of the rounds' ratios, and an interval with the probability that it covers the true one."""

    median: float
    low: float
    high: float
    coverage: float


@dataclass(frozen=True)
class Peer:
    """A peer's timing; ``speedup`` is the peer's time over ours, so above 1 we are faster."""

    timing: Timing
    speedup: Ratio
    target: float | None
    met: bool | None


@dataclass(frozen=True)
class Result:
    """One case of a benchmark: ours against each peer, doing ``work`` units per call."""

    name: str
    unit: str
    work: int
    parameters: dict[str, Parameter]
    repeats: int
    warmups: int
    ours: Timing
    peers: tuple[Peer, ...]


@dataclass(frozen=True)
class Report:
    """Everything that one run of the benchmarks found, with its conditions."""

    format: int
    date: str
    quick: bool
    source: Source
    machine: Machine
    threads: dict[str, str | None]
    packages: dict[str, str]
    benchmarks: dict[str, tuple[Result, ...]]
    clock: Literal["wall", "processor"] = "wall"
    """Whose seconds they are: the clock's on the wall, or those that the process had the processor for."""

    def renewing(self, older: "Report | None") -> "Report":
        """Return this report with those benchmarks of an older one that it does not have itself."""
        kept = {} if older is None else dict(older.benchmarks)
        return replace(self, benchmarks=kept | self.benchmarks)

    def to_json(self) -> str:
        """Return the report as JSON text that `from_json` reads back unchanged."""
        return TypeAdapter(Report).dump_json(self, indent=1).decode() + "\n"

    @staticmethod
    def from_json(text: str) -> "Report":
        """Return the report that `to_json` wrote, its types checked."""
        return TypeAdapter(Report).validate_json(text)


def load_results(path: Path) -> dict[str, Report]:
    """Return the stored reports by the name of the processor that they were measured on."""
    return TypeAdapter(dict[str, Report]).validate_json(path.read_text(encoding="utf-8"))


def save_results(path: Path, reports: Mapping[str, Report]) -> None:
    """Store one report for each kind of processor."""
    path.write_bytes(TypeAdapter(dict[str, Report]).dump_json(dict(reports), indent=1) + b"\n")


def record(path: Path, report: Report) -> None:
    """Add a report to the stored ones: of its processor, what it measured anew takes the place of what was there."""
    stored = load_results(path) if path.exists() else {}
    stored[report.machine.cpu] = report.renewing(stored.get(report.machine.cpu))
    save_results(path, stored)


Cases = Callable[[bool], Iterable[Result]]


@dataclass(frozen=True)
class Benchmark:
    """A registered function that yields one `Result` per case."""

    name: str
    summary: str
    run: Cases


REGISTRY: dict[str, Benchmark] = {}


def benchmark(name: str) -> Callable[[Cases], Cases]:
    """Register a function of ``quick`` under ``name``; ``--list`` shows the first line of its docstring."""

    def register(run: Cases) -> Cases:
        if name in REGISTRY:
            raise ValueError(f"name must be new, got {name!r}. Give each benchmark its own name.")
        REGISTRY[name] = Benchmark(name, (run.__doc__ or "").partition("\n")[0], run)
        return run

    return register


_clocks: list[Clock] = [time.perf_counter]


@contextlib.contextmanager
def clocked(clock: Clock) -> Iterator[None]:
    """Measure by another clock: on a machine that others use, too, by the seconds that this process really runs."""
    before, _clocks[0] = _clocks[0], clock
    try:
        yield
    finally:
        _clocks[0] = before


def processor_time() -> float:
    """Return the seconds that this process, and those that it waited for, had the processor for."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def _chosen_clock() -> float:
    return _clocks[0]()


def compare(name: str, ours: Run, peers: Mapping[str, Run], **arguments: Any) -> Result:
    """Return how much faster ``ours`` is than each peer: `contest` with one case, whose other parameters it takes.

    Parameters
    ----------
    name : str
        The case, unique within its benchmark.
    ours : callable
        Our side: one call does ``work`` units and its result is dropped.
    peers : mapping of str to callable
        The others, doing the same work.
    """
    return contest({name: ours}, peers, **arguments)[0]


def contest(
    ours: Mapping[str, Run],
    peers: Mapping[str, Run],
    *,
    work: int,
    unit: str,
    parameters: Mapping[str, Parameter] | None = None,
    targets: Mapping[str, float] | None = None,
    shares: Mapping[str, int] | None = None,
    repeats: int = 9,
    warmups: int = 1,
    setup: Run | None = None,
    shortest: float = 0.01,
    memory: bool = False,
    clock: Clock | None = None,
) -> tuple[Result, ...]:
    """Return how much faster each of ours is than each peer, one result for each of ours.

    Everyone is warmed up first (compilation, caches). Then in each round everyone runs once, a different one
    first each time, with the garbage collector off.

    Parameters
    ----------
    ours : mapping of str to callable
        Our side by the name of the case: one call does ``work`` units and its result is dropped.
    peers : mapping of str to callable
        The others, doing the same work.
    work : int
        Units that one call works off; > 0.
    unit : str
        What they are, in the plural: people, rows.
    parameters : mapping, optional
        The sizes and settings to record.
    targets : mapping of str to float, optional
        For a peer, the speed-up we aim at. Reported as met or missed; nothing fails.
    shares : mapping of str to int, optional
        For a peer too slow for all of the work: its call does one in so many units, and its times are multiplied.
    repeats : int
        Rounds, each with one timed run of everyone; 5 or more give an interval of at least 90 %.
    warmups : int
        Untimed runs of each beforehand; 0 only where everyone has run before.
    setup : callable, optional
        Run untimed before every call, as for a call that needs an empty folder.
    shortest : float
        Calls of fewer seconds are repeated within a timed run, until it takes so long. Not with ``setup``.
    memory : bool
        Whether to take the peak memory, in one more untimed call of each.
    clock : callable, optional
        Seconds, as a float; by default what was chosen for the whole run.

    Raises
    ------
    ValueError
        If there is no peer, a peer has our name, a target or share names no peer, or a count is not positive.
    """
    targets, shares, clock = targets or {}, shares or {}, clock or _chosen_clock
    if not peers or OURS in peers or peers.keys() & ours.keys():
        raise ValueError(f"peers must name at least one other than {OURS!r}, got {sorted(peers)}.")
    for what, given in (("targets", targets), ("shares", shares)):
        if unknown := sorted(given.keys() - peers.keys()):
            raise ValueError(f"{what} must name peers, got {unknown}. The peers are {sorted(peers)}.")
    if min(work, repeats, *shares.values()) < 1 or warmups < 0:
        raise ValueError(
            f"work, repeats and shares must be >= 1, warmups >= 0, "
            f"got {work}, {repeats}, {list(shares.values())} and {warmups}."
        )

    contenders = {**ours, **peers}
    # Collecting garbage before each run looks through what the contenders make, and not again through a million objects
    # of every library.
    gc.freeze()
    try:
        calls, seconds = _rounds(
            contenders, shares=shares, repeats=repeats, warmups=warmups, setup=setup, shortest=shortest, clock=clock
        )
        peaks = {key: _peak_bytes(run, setup) if memory else None for key, run in contenders.items()}
    finally:
        gc.unfreeze()
    timings = {
        key: timing(OURS if key in ours else key, seconds[key], work=work, calls=calls[key], peak_bytes=peaks[key])
        for key in contenders
    }
    return tuple(
        Result(
            name=name,
            unit=unit,
            work=work,
            parameters=dict(parameters or {}),
            repeats=repeats,
            warmups=warmups,
            ours=timings[name],
            peers=tuple(judge(timings[key], timings[name], targets.get(key)) for key in peers),
        )
        for name in ours
    )


def timing(name: str, seconds: Sequence[float], *, work: int, calls: int = 1, peak_bytes: int | None = None) -> Timing:
    """Return what one contender took, from the seconds of one call in each round."""
    median = statistics.median(seconds)
    return Timing(name, calls, tuple(seconds), median, work / median, peak_bytes)


def judge(peer: Timing, ours: Timing, target: float | None = None) -> Peer:
    """Return a peer's timing with our speed-up, and whether it is what we aim at."""
    speedup = ratio(peer.seconds, ours.seconds)
    return Peer(peer, speedup, target, None if target is None else speedup.median >= target)


def ratio(numerators: Sequence[float], denominators: Sequence[float]) -> Ratio:
    """Return the median of the pairs' ratios, between two of their order statistics.

    The interval is the narrowest symmetric one of coverage 90 % or more, else the whole range. It assumes
    independent rounds and nothing of their law: P(x_(r) <= median <= x_(n+1-r)) = 1 - 2 P(Bin(n, 1/2) < r).

    References
    ----------
    H. A. David, H. N. Nagaraja, Order Statistics, 3rd ed. (2003), section 7.1.
    """
    ratios = sorted(a / b for a, b in zip(numerators, denominators, strict=True))
    n = len(ratios)
    coverages = [1 - 2 * sum(math.comb(n, i) for i in range(r)) / 2**n for r in range(1, (n + 1) // 2 + 1)]
    r = max(1, sum(coverage >= 0.9 for coverage in coverages))
    return Ratio(statistics.median(ratios), ratios[r - 1], ratios[n - r], coverages[r - 1])


def mib(count: int | None) -> str:
    """Return bytes as mebibytes for a table; a dash where nothing was measured."""
    return "–" if count is None else f"{count / 2**20:,.0f}"


def _rounds(
    contenders: Mapping[str, Run],
    *,
    shares: Mapping[str, int],
    repeats: int,
    warmups: int,
    setup: Run | None,
    shortest: float,
    clock: Clock,
) -> tuple[dict[str, int], dict[str, list[float]]]:
    """Return how many calls a timed run of each has, and the seconds of one call in each round."""
    calls = {}
    for key, run in contenders.items():
        once = [_time(run, 1, setup, clock) for _ in range(warmups)]
        calls[key] = 1 if setup or not once or once[-1] <= 0 else max(1, math.ceil(shortest / once[-1]))
    order = list(contenders)
    seconds: dict[str, list[float]] = {key: [] for key in order}
    for turn in range(repeats):
        first = turn % len(order)
        for key in order[first:] + order[:first]:
            seconds[key].append(_time(contenders[key], calls[key], setup, clock) * shares.get(key, 1))
    return calls, seconds


def _time(run: Run, calls: int, setup: Run | None, clock: Clock) -> float:
    """Return the seconds that one call takes, averaged over ``calls``."""
    if setup:
        setup()
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        start = clock()
        for _ in range(calls):
            run()
        return (clock() - start) / calls
    finally:
        if enabled:
            gc.enable()


def _peak_bytes(run: Run, setup: Run | None) -> int | None:
    """Return by how much resident memory rises during one call, where the system can tell (Linux, glibc)."""
    if setup:
        setup()
    gc.collect()
    status = Path("/proc/self/status")
    try:
        ctypes.CDLL(None).malloc_trim(0)  # else the call finds room in what earlier ones freed
        Path("/proc/self/clear_refs").write_text("5")  # sets the high-water mark back
    except (AttributeError, OSError, TypeError):
        return None
    before = read_field(status, "VmRSS")
    run()
    after = read_field(status, "VmHWM")
    return 1024 * max(0, int(after.split()[0]) - int(before.split()[0])) if before and after else None
