"""The command line of the benchmarks."""

import argparse
import importlib
import pkgutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

import benchmarks
from benchmarks import conditions, harness


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks that were asked for; a missed target is shown and is no failure."""
    parser = build_parser()
    arguments = parser.parse_args(argv)
    conditions.pin_threads()
    registry = discover()
    if arguments.list:
        for entry in registry.values():
            print(f"{entry.name:<20} {entry.summary}")
        return 0
    if unknown := sorted(set(arguments.only or ()) - registry.keys()):
        parser.error(f"--only must be of {', '.join(registry)}, got {', '.join(unknown)}.")
    if arguments.json and not arguments.json.resolve().parent.is_dir():
        parser.error("--json must name a file in a folder that exists.")

    chosen = {name: entry for name, entry in registry.items() if name in (arguments.only or registry)}
    with harness.clocked(harness.processor_time if arguments.processor_time else time.perf_counter):
        report = measure(chosen, quick=arguments.quick)
    report = replace(report, clock="processor" if arguments.processor_time else "wall")
    if arguments.json:
        arguments.json.write_text(report.to_json(), encoding="utf-8")
    if path := recorded_in(arguments):
        harness.record(path, report)
    return 0


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Time Dimly and its peers in turns, on one thread, and show how much faster Dimly is. "
        "A speed-up is the peer's time over ours in the same round: the median of all rounds, with an "
        "interval for it.",
        epilog="A full run (no --quick, no --only) takes many minutes, wants an idle machine, and renews this kind of "
        "processor's entry in benchmarks/results.json. A missed target is shown, and is no failure.",
    )
    parser.add_argument("--quick", action="store_true", help="small and short; writes no file by itself")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="run these alone; writes no file by itself")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write results and conditions to FILE")
    parser.add_argument("--record", action="store_true", help="renew these benchmarks in benchmarks/results.json")
    parser.add_argument(
        "--processor-time", action="store_true", help="seconds of the processor, for a machine that others use, too"
    )
    parser.add_argument("--list", action="store_true", help="show the names of the benchmarks and stop")
    return parser


def recorded_in(arguments: argparse.Namespace) -> Path | None:
    """Return where results are stored: unless asked for, only a full run whose file was not named renews them."""
    if arguments.record:
        return harness.RESULTS
    return None if arguments.quick or arguments.only or arguments.json else harness.RESULTS


def discover() -> dict[str, harness.Benchmark]:
    """Import every file of this folder, which registers its benchmarks, and return them all."""
    for module in pkgutil.iter_modules(benchmarks.__path__):
        if module.name != "__main__":
            importlib.import_module(f"benchmarks.{module.name}")
    return harness.REGISTRY


def measure(chosen: Mapping[str, harness.Benchmark], *, quick: bool) -> harness.Report:
    """Run the chosen benchmarks, show a table after each, and return everything with its conditions."""
    source = conditions.describe_source(harness.RESULTS)  # before the hours in which someone may edit
    date = conditions.describe_now()
    console = Console(width=None if sys.stdout.isatty() else 120)
    results = {}
    for name, entry in chosen.items():
        done = []
        for result in entry.run(quick):
            print(f"{name}: {result.name}", file=sys.stderr)
            done.append(result)
        results[name] = tuple(done)
        console.print(tabulate(name, done))
    return harness.Report(
        format=1,
        date=date,
        quick=quick,
        source=source,
        machine=conditions.describe_machine(),
        threads=conditions.describe_threads(),
        packages=conditions.describe_packages(),
        benchmarks=results,
    )


def tabulate(name: str, results: Sequence[harness.Result]) -> Table:
    """Return a table with one line per case and peer."""
    table = Table(title=name)
    for header in ("case", "unit/s", "ours", "peer", "peer's", "speed-up", "interval", "target"):
        numeric = header in ("ours", "peer's", "speed-up", "interval")
        table.add_column(header, justify="right" if numeric else "left")
    peaks = any(result.ours.peak_bytes for result in results)
    if peaks:
        table.add_column("peak, MiB", justify="right")
        table.add_column("peer's", justify="right")
    for result in results:
        for peer in result.peers:
            first = peer is result.peers[0]
            table.add_row(
                result.name if first else "",
                result.unit if first else "",
                f"{result.ours.rate:,.0f}" if first else "",
                peer.timing.name,
                f"{peer.timing.rate:,.0f}",
                f"{peer.speedup.median:.2f}×",
                f"{peer.speedup.low:.2f}–{peer.speedup.high:.2f} ({100 * peer.speedup.coverage:.0f} %)",
                "" if peer.target is None else f"≥ {peer.target:g}× {'met' if peer.met else 'missed'}",
                *((harness.mib(result.ours.peak_bytes), harness.mib(peer.timing.peak_bytes)) if peaks else ()),
                end_section=peer is result.peers[-1],
            )
    return table


if __name__ == "__main__":
    sys.exit(main())
