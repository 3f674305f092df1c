"""Tables and figures of docs/benchmarks.md from what was measured: ``python -m benchmarks.report``.

The page's text is written by hand; what stands between ``<!-- begin NAME -->`` and ``<!-- end NAME -->`` is replaced. A
test compares the page with ``benchmarks/results.json``.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks import accuracy, accuracy_report
from benchmarks.charts import AXIS_NAMES, by_axis, growth_chart, sketch_chart
from benchmarks.growth import exponent
from benchmarks.harness import RESULTS, Peer, Report, Result, load_results, mib
from benchmarks.missed import reason_for
from benchmarks.sketches import GAUSSIAN, HASHER, SPARSE, TARGETS
from dimly.lab.charts import Chart, rendered
from dimly.planner.paper import PAPER

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
FIGURES = PAGE.parent / "figures"
ABSENT = "Not measured in the stored run.\n"
UNEXPLAINED = "Not explained yet."
FLAT = 1.25
"""A peak of memory that is at most so much higher counts as flat."""
TENTH = 0.1
"""Of the paper's error, at ε = 1."""
TESTED = ("duckdb", "faiss-cpu", "numba", "numpy", "opendp", "pyarrow", "randomgen", "scikit-learn", "scipy")

Cells = Sequence[accuracy.Cell]


class Verdict(NamedTuple):
    """One target and what was measured: ``ratio`` as the target is stated, whether it is met, or its interval does."""

    benchmark: str
    case: str
    peer: str
    aim: str
    ratio: float
    met: bool
    within: bool = False


def verdicts(report: Report, cells: Cells) -> Iterator[Verdict]:
    """Return every target with what was measured."""
    for name, results in report.benchmarks.items():
        for result in results:
            for peer in result.peers:
                if peer.target is not None:
                    within = peer.speedup.high >= peer.target
                    yield Verdict(name, result.name, peer.timing.name, aim(peer), stated(peer), bool(peer.met), within)
                elif name == "memory" and (rise := peak_ratio(result)) is not None:
                    yield Verdict(name, result.name, peer.timing.name, f"peak ≤ {FLAT:g}×", rise, rise <= FLAT)
    for table in accuracy_report.tables_of(cells, "error"):
        errors = dict(errors_of(cells, table))
        share = errors["counting+laplace"] / errors[PAPER]
        yield Verdict("accuracy", table, "the paper at its best k", "error ≤ 0.1×", share, share <= TENTH)


def aim(peer: Peer) -> str:
    """Return a target in words: a speed-up, or the time that we may take where that is less than one."""
    assert peer.target is not None
    return f"speed ≥ {peer.target:g}×" if peer.target > 1 else f"time ≤ {1 / peer.target:.3g}×"


def stated(peer: Peer) -> float:
    """Return the speed-up, or our time over the peer's where the target is one of time."""
    return peer.speedup.median if peer.target is None or peer.target > 1 else 1 / peer.speedup.median


def peak_ratio(result: Result) -> float | None:
    """Return our peak of memory over the peer's."""
    ours, other = result.ours.peak_bytes, result.peers[0].timing.peak_bytes
    return ours / other if ours and other else None


def errors_of(cells: Cells, table: str) -> Iterator[tuple[str, float]]:
    """Return the error of each mechanism at ε = 1 at its best k, and the projection's alone."""
    for mechanism in accuracy.MECHANISMS:
        found = accuracy_report.best(cells, "error", table, mechanism, epsilon=1.0, denoised=None)
        if found is not None:
            yield mechanism, found.mean
    yield from (
        (accuracy.SILENT, silent) for name, _, silent in accuracy_report.limits(cells, "error") if name == table
    )


def targets_table(report: Report, cells: Cells) -> str:
    """Return one row for each target and peer: the range over the cases, and how many meet it."""
    rows = []
    for (name, peer, goal), group in _grouped(verdicts(report, cells)).items():
        ratios = [verdict.ratio for verdict in group]
        met = sum(verdict.met for verdict in group)
        measured = _range(min(ratios), max(ratios))
        rows.append((name, peer, goal, measured, "met" if met == len(group) else f"met in {met} of {len(group)} cases"))
    return _table(("benchmark", "peer", "target", "measured", ""), rows)


def missed_list(report: Report, cells: Cells) -> str:
    """Return what is missed, by how much and why."""
    missed: dict[tuple[str, str, str, str], list[Verdict]] = {}
    for verdict in verdicts(report, cells):
        if not verdict.met:
            otherwise = "The interval reaches the target." if verdict.within else UNEXPLAINED
            why = reason_for(verdict.benchmark, verdict.case, verdict.peer) or otherwise
            missed.setdefault((verdict.benchmark, verdict.peer, verdict.aim, why), []).append(verdict)
    lines = []
    for (name, peer, goal, why), group in missed.items():
        ratios = [verdict.ratio for verdict in group]
        where = "; ".join(verdict.case for verdict in group) if len(group) <= 2 else f"{len(group)} cases"
        lines.append(
            f"- **{name}** against {peer}: {_range(min(ratios), max(ratios))} instead of {goal} ({where}). {why}\n"
        )
    return "".join(lines) or "Every target is met.\n"


def conditions(report: Report, _cells: Cells) -> str:
    """Return the conditions of the run."""
    machine = report.machine
    versions = ", ".join(f"{name} {report.packages[name]}" for name in TESTED if name in report.packages)
    run = "Quick run" if report.quick else "Last run"
    commit = (report.source.commit or "unknown")[:12] + (" with changes" if report.source.dirty else "")
    return (
        f"{run} of {report.date[:10]}, commit {commit}: {machine.cpu}, {machine.cores} cores, "
        f"{machine.memory_gib} GiB, {machine.system}, {machine.python}; {versions}. What was not "
        "part of it was measured earlier, on the same kind of processor.\n"
    )


def plain(name: str) -> Callable[[Report, Cells], str]:
    """Return a section with one row for each case and peer of a benchmark."""

    def section(report: Report, _cells: Cells) -> str:
        rows = []
        for result in report.benchmarks.get(name, ()):
            for peer in result.peers:
                first = peer is result.peers[0]
                rows.append(
                    (
                        result.name if first else "",
                        _rate(result.ours.rate) if first else "",
                        peer.timing.name,
                        _rate(peer.timing.rate),
                        f"{_number(peer.speedup.median)}× ({_interval(result, peer)})",
                        "" if peer.target is None else f"{aim(peer)}: {'met' if peer.met else 'missed'}",
                    )
                )
        unit = next((result.unit for result in report.benchmarks.get(name, ())), "")
        header = ("case", f"{unit}/s", "peer", "peer's", "speed-up (interval)", "target")
        return _table(header, rows)

    return section


def _interval(result: Result, peer: Peer) -> str:
    """Return between what a median may lie; one round has nothing to tell of it."""
    if result.repeats == 1:
        return "one round"
    return f"{_number(peer.speedup.low)}–{_number(peer.speedup.high)}"


def sketch_table(report: Report, _cells: Cells) -> str:
    """Return the grid: one row for each family and size, and a speed-up for each peer, marked where it is missed."""
    rows = []
    for result in report.benchmarks.get("sketch", ()):
        peers = {peer.timing.name: peer for peer in result.peers}
        found = [peers.get(name) for name in (SPARSE, GAUSSIAN, HASHER)]
        speedups = ["–" if one is None else f"{_number(one.speedup.median)}×{'' if one.met else ' †'}" for one in found]
        sizes = [f"{result.parameters[name]:,}" for name in ("n_attributes", "ones_per_user", "k")]
        rows.append((result.name.partition(",")[0], *sizes, _rate(result.ours.rate), *speedups))
    heads = [f"{name}, ≥ {TARGETS[name]:g}×" for name in (SPARSE, GAUSSIAN, HASHER)]
    table = _table(("family", "d", "weight", "k", "people/s", *heads), rows) + _otherwise_read(report)
    return _with_figure(table, "bench-sketch", "Sketches a second against d", sketch_chart(report))


def _otherwise_read(report: Report) -> str:
    """Return how the dense projection would do at the other factor: the target can be read so, and was."""
    found = [
        peer.speedup.median
        for result in report.benchmarks.get("sketch", ())
        for peer in result.peers
        if peer.timing.name == GAUSSIAN
    ]
    met, other = sum(speedup >= TARGETS[HASHER] for speedup in found), TARGETS[HASHER]
    text = f"\nIf the target is {other:g}× for {GAUSSIAN}, too, {met} of {len(found)} cases meet it.\n"
    return text if found else ""


def memory_table(report: Report, _cells: Cells) -> str:
    """Return the peaks of memory of publishing, and of a tenth."""
    rows = []
    for result in report.benchmarks.get("memory", ()):
        peer, ratio = result.peers[0], peak_ratio(result)
        if ratio is not None:
            sizes = f"{result.work:,} people, {result.work * int(result.parameters['weight']):,} rows"
            limit = f"{int(result.parameters['memory']) / 2**20:,.0f}"
            rows.append((sizes, limit, mib(result.ours.peak_bytes), mib(peer.timing.peak_bytes), f"{ratio:.2f}×"))
    return _table(("table", "allowed, MiB", "peak, MiB", "peak at a tenth, MiB", "ratio"), rows)


def growth_table(report: Report, _cells: Cells) -> str:
    """Return fitted exponents of time and memory, and what they were fitted to."""
    rows = []
    for axis, results in by_axis(report).items():
        sizes = [float(result.parameters[axis]) for result in results]
        seconds = [result.ours.median_seconds for result in results]
        peaks = [result.ours.peak_bytes for result in results]
        rows.append(
            (
                AXIS_NAMES[axis],
                f"{sizes[0]:,.0f}…{sizes[-1]:,.0f}",
                f"{seconds[0]:.2f}…{seconds[-1]:.2f}",
                f"{exponent(sizes, seconds):.2f}",
                f"{mib(peaks[0])}…{mib(peaks[-1])}",
                f"{exponent(sizes, [float(p) for p in peaks if p]):.2f}" if all(peaks) else "–",
            )
        )
    table = _table(("against", "sizes", "seconds", "exponent of time", "peak, MiB", "exponent of memory"), rows)
    table = _with_figure(table, "bench-growth-time", "Time of publishing against size", growth_chart(report, "time"))
    return _with_figure(table, "bench-growth-memory", "Memory against size", growth_chart(report, "memory"))


def accuracy_table(_report: Report, cells: Cells) -> str:
    """Return errors at ε = 1 beside the paper's, on every table."""
    rows = []
    for table in accuracy_report.tables_of(cells, "error"):
        errors = dict(errors_of(cells, table))
        ours = errors["counting+laplace"]
        order = (PAPER, "hashing+laplace", "randomized-response", "counting+laplace", accuracy.SILENT)
        rows.append((table, *(_number(errors[name]) for name in order), f"1/{errors[PAPER] / ours:.1f}"))
    return _table(
        (
            "table",
            "the paper",
            "SJLT + Laplace (`hashing+laplace`)",
            "randomized response",
            "ours (`counting+laplace`)",
            "no noise (the limit)",
            "ours / the paper, ≤ 1/10",
        ),
        rows,
    )


_SIDE_BY_SIDE = 12
"""Cases of a benchmark that are compared between processors: its first ones, of which a page can be read."""


def side_by_side(reports: Sequence[Report]) -> str:
    """Return what several kinds of processor have measured, each in a column: the speed-up over each peer."""
    shared: dict[tuple[str, str, str], dict[str, str]] = {}
    for report in reports:
        for name, results in report.benchmarks.items():
            for result in results[:_SIDE_BY_SIDE]:
                for peer in result.peers:
                    if peer.timing.name.startswith("itself"):  # growth, which has figures of its own
                        continue
                    mark = " †" if peer.met is False else ""
                    found = shared.setdefault((name, result.name, peer.timing.name), {})
                    found[report.machine.cpu] = f"{_number(peer.speedup.median)}×{mark}"
    names = [report.machine.cpu for report in reports]
    least = min(2, len(reports))  # what one processor alone has measured is in the sections above
    rows = [(*key, *(found.get(name, "–") for name in names)) for key, found in shared.items() if len(found) >= least]
    lines = [
        f"- {report.machine.cpu}: {report.date[:10]}, commit {(report.source.commit or 'unknown')[:12]}, "
        f"{'quick' if report.quick else 'full'} run, "
        f"{'processor time on a machine that others used, too' if report.clock == 'processor' else 'wall time'}.\n"
        for report in reports
    ]
    return _table(("benchmark", "case", "peer", *names), rows) + "\n" + "".join(lines)


SECTIONS: Mapping[str, Callable[[Report, Cells], str]] = {
    "processors": lambda report, _cells: side_by_side([report]),
    "targets": targets_table,
    "missed": missed_list,
    "conditions": conditions,
    "sketch": sketch_table,
    "tables": plain("tables"),
    "memory": memory_table,
    "growth": growth_table,
    "accuracy": accuracy_table,
    **{
        name: plain(name)
        for name in (
            "noise",
            "randomized-response",
            "neighbor-graph",
            "neighbor-query",
            "start-up",
            "projection",
            "derivation",
            "sketcher",
            "matrix",
        )
    },
}


def fill(page: str, report: Report, cells: Cells, others: Sequence[Report] = ()) -> str:
    """Return the page with every section as measured; ``others`` were measured on other kinds of processor.

    Raises
    ------
    ValueError
        If the page has a section that nobody makes.
    """

    def section(match: re.Match[str]) -> str:
        name = match[2]
        if name not in SECTIONS:
            raise ValueError(f"section must be of {', '.join(sorted(SECTIONS))}, got {name!r}.")
        text = side_by_side([report, *others]) if name == "processors" else SECTIONS[name](report, cells)
        return f"{match[1]}\n{text}\n{match[3]}"

    return re.sub(r"(<!-- begin (\S+) -->\n).*?(<!-- end \2 -->)", section, page, flags=re.DOTALL)


def figures(report: Report) -> dict[str, Chart]:
    """Return the figures by name, those that were measured."""
    drawn = {
        "bench-sketch": sketch_chart(report),
        "bench-growth-time": growth_chart(report, "time"),
        "bench-growth-memory": growth_chart(report, "memory"),
    }
    return {name: chart for name, chart in drawn.items() if chart is not None}


def stored_reports() -> list[Report]:
    """Return what is stored, the processor with the most benchmarks first: the page is about that one."""
    return sorted(load_results(RESULTS).values(), key=lambda report: -len(report.benchmarks))


def main() -> None:
    report, *others = stored_reports()
    cells = accuracy.load()
    FIGURES.mkdir(exist_ok=True)
    for name, chart in figures(report).items():
        (FIGURES / f"{name}.png").write_bytes(rendered(chart, "png"))
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8"), report, cells, others), encoding="utf-8")


def _grouped(found: Iterator[Verdict]) -> dict[tuple[str, str, str], list[Verdict]]:
    groups: dict[tuple[str, str, str], list[Verdict]] = {}
    for verdict in found:
        groups.setdefault((verdict.benchmark, verdict.peer, verdict.aim), []).append(verdict)
    return groups


def _with_figure(text: str, name: str, title: str, chart: Chart | None) -> str:
    return text if chart is None else f"{text}\n![{title}](figures/{name}.png)\n"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ABSENT
    lines = ["| " + " | ".join(row) + " |\n" for row in (header, *rows)]
    return "".join([lines[0], "|" + "---|" * len(header) + "\n", *lines[1:]])


def _range(low: float, high: float) -> str:
    return f"{_number(low)}×" if _number(low) == _number(high) else f"{_number(low)}–{_number(high)}×"


def _number(value: float) -> str:
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f}"


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


if __name__ == "__main__":
    main()
