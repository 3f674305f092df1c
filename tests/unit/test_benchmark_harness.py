"""The harness on an injected clock: nothing here depends on how fast a machine is."""

import gc
import getpass
import json
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError, asdict, replace
from pathlib import Path

import pytest
from benchmarks import __main__ as command
from benchmarks import conditions, harness

ROOT = Path(harness.__file__).parents[1]


class Stage:
    """A clock that moves only when a contender runs, and a diary of who ran when."""

    def __init__(self) -> None:
        self.now = 0.0
        self.diary: list[str] = []

    def clock(self) -> float:
        return self.now

    def contender(self, name: str, *seconds: float) -> Callable[[], None]:
        """Take these seconds in turn, and the last of them for ever after."""
        left = list(seconds)

        def run() -> None:
            self.diary.append(name)
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return run


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> dict[str, harness.Benchmark]:
    """An empty registry, and a command line that neither pins threads nor imports the real benchmarks."""
    entries: dict[str, harness.Benchmark] = {}
    monkeypatch.setattr(harness, "REGISTRY", entries)
    monkeypatch.setattr(conditions, "pin_threads", lambda: None)
    monkeypatch.setattr(command, "discover", lambda: entries)
    return entries


def register(stage: Stage, name: str) -> None:
    @harness.benchmark(name)
    def cases(quick: bool) -> Iterator[harness.Result]:
        """Say what is timed.

        And more.
        """
        yield harness.compare(
            "small" if quick else "large",
            stage.contender(name, 1.0),
            {"peer": stage.contender("peer", 3.0)},
            work=10,
            unit="people",
            parameters={"k": 256, "family": "sparse", "density": 0.5},
            targets={"peer": 4.0},
            repeats=5,
            clock=stage.clock,
        )


def test_contenders_take_turns_after_a_warm_up_and_share_the_first_place(stage: Stage) -> None:
    peers = {name: stage.contender(name, 1.0) for name in "bc"}
    harness.compare(
        "case",
        stage.contender("a", 1.0),
        peers,
        work=1,
        unit="rows",
        repeats=4,
        warmups=2,
        clock=stage.clock,
    )
    assert "".join(stage.diary) == "aabbcc" + "abc" + "bca" + "cab" + "abc"


def test_median_and_rate_leave_out_the_warm_up_and_the_outlier(stage: Stage) -> None:
    result = harness.compare(
        "case",
        stage.contender("ours", 99.0, 2.0, 1.0, 50.0, 3.0, 2.0),
        {"peer": stage.contender("peer", 1.0)},
        work=10,
        unit="people",
        repeats=5,
        clock=stage.clock,
    )
    assert result.ours.seconds == (2.0, 1.0, 50.0, 3.0, 2.0)
    assert result.ours.median_seconds == 2.0
    assert result.ours.rate == 5.0


@pytest.mark.parametrize(("peer", "speedup", "met"), [(8.0, 4.0, True), (7.0, 3.5, False), (1.0, 0.5, False)])
def test_speedup_is_the_peers_time_over_ours(stage: Stage, peer: float, speedup: float, met: bool) -> None:
    result = harness.compare(
        "case",
        stage.contender("ours", 2.0),
        {"peer": stage.contender("peer", peer), "other": stage.contender("other", 2.0)},
        work=1,
        unit="rows",
        targets={"peer": 4.0},
        clock=stage.clock,
    )
    assert result.peers[0].speedup.median == speedup
    assert result.peers[0].met is met
    assert result.peers[1].speedup.median == 1.0
    assert result.peers[1].met is None


def test_several_of_ours_take_turns_with_the_same_peers(stage: Stage) -> None:
    ours = {"a": stage.contender("a", 1.0), "b": stage.contender("b", 2.0)}
    peers = {"c": stage.contender("c", 8.0)}
    found = harness.contest(
        ours, peers, work=4, unit="rows", targets={"c": 5.0}, repeats=2, warmups=0, clock=stage.clock
    )
    assert "".join(stage.diary) == "abc" + "bca"
    assert [(case.name, case.ours.name, case.ours.rate) for case in found] == [("a", "dimly", 4.0), ("b", "dimly", 2.0)]
    assert [(case.peers[0].speedup.median, case.peers[0].met) for case in found] == [(8.0, True), (4.0, False)]


def test_a_slow_peer_may_do_a_share_of_the_work(stage: Stage) -> None:
    result = harness.compare(
        "case",
        stage.contender("ours", 2.0),
        {"peer": stage.contender("peer", 3.0)},
        work=100,
        unit="rows",
        shares={"peer": 10},
        repeats=3,
        clock=stage.clock,
    )
    assert result.peers[0].timing.seconds == (30.0,) * 3
    assert result.peers[0].timing.rate == 100 / 30
    assert result.peers[0].speedup.median == 15.0


def test_ratios_are_taken_within_a_round() -> None:
    # The whole machine slows down tenfold; within each round the ratio stays 2.
    assert harness.ratio([2.0, 20.0, 200.0], [1.0, 10.0, 100.0]) == harness.Ratio(2.0, 2.0, 2.0, 0.75)


@pytest.mark.parametrize(
    ("n", "low", "high", "coverage"),
    [(1, 1, 1, 0.0), (4, 1, 4, 0.875), (5, 1, 5, 0.9375), (9, 2, 8, 1 - 20 / 512), (20, 6, 15, 0.9586)],
)
def test_interval_is_between_order_statistics(n: int, low: int, high: int, coverage: float) -> None:
    found = harness.ratio([float(i) for i in range(n, 0, -1)], [1.0] * n)
    assert (found.low, found.high) == (low, high)
    assert found.coverage == pytest.approx(coverage, abs=1e-4)


def test_quick_calls_are_repeated_within_a_run_but_not_with_a_setup(stage: Stage) -> None:
    def compare(setup: Callable[[], None] | None) -> harness.Result:
        return harness.compare(
            "case",
            stage.contender("ours", 0.25),
            {"peer": stage.contender("peer", 2.0)},
            work=1,
            unit="rows",
            repeats=1,
            setup=setup,
            shortest=1.0,
            clock=stage.clock,
        )

    result = compare(None)
    assert (result.ours.calls, result.peers[0].timing.calls) == (4, 1)
    assert result.ours.seconds == (0.25,)
    stage.diary.clear()
    assert compare(stage.contender("setup", 60.0)).ours.seconds == (0.25,)
    assert stage.diary == ["setup", "ours", "setup", "peer"] * 2


def test_garbage_collector_is_off_while_timing_and_back_on_even_after_an_error(stage: Stage) -> None:
    def fail() -> None:
        assert not gc.isenabled()
        raise KeyError

    assert gc.isenabled()
    frozen = gc.get_freeze_count()
    with pytest.raises(KeyError):
        harness.compare("case", fail, {"peer": fail}, work=1, unit="rows", clock=stage.clock)
    assert gc.isenabled()
    assert gc.get_freeze_count() <= frozen


def test_peak_memory_sees_a_large_allocation_where_the_system_can_tell() -> None:
    def allocate() -> object:
        return b"\x01" * 2**26

    result = harness.compare("case", allocate, {"peer": lambda: None}, work=1, unit="rows", repeats=1, memory=True)
    for peak, expected in ((result.ours.peak_bytes, 2**26), (result.peers[0].timing.peak_bytes, 0)):
        assert peak is None or abs(peak - expected) < 2**24


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"peers": {}}, "peers must name"),
        ({"peers": {"dimly": lambda: None}}, "peers must name"),
        ({"targets": {"nobody": 2.0}}, r"targets must name peers, got \['nobody'\]"),
        ({"shares": {"nobody": 2}}, r"shares must name peers, got \['nobody'\]"),
        ({"work": 0}, r"got 0, 9, \[\] and 1"),
        ({"repeats": 0}, r"got 1, 0, \[\] and 1"),
        ({"shares": {"peer": 0}}, r"got 1, 9, \[0\] and 1"),
        ({"warmups": -1}, r"got 1, 9, \[\] and -1"),
    ],
)
def test_bad_calls_are_refused(change: dict[str, object], text: str) -> None:
    call = {"peers": {"peer": lambda: None}, "work": 1, "unit": "rows"} | change
    with pytest.raises(ValueError, match=text):
        harness.compare("case", lambda: None, **call)  # type: ignore[arg-type]


def test_results_are_frozen(stage: Stage, registry: dict[str, harness.Benchmark]) -> None:
    register(stage, "one")
    report = command.measure(registry, quick=True)
    with pytest.raises(FrozenInstanceError):
        report.quick = False  # type: ignore[misc]


def test_a_name_is_registered_once(stage: Stage, registry: dict[str, harness.Benchmark]) -> None:
    register(stage, "one")
    with pytest.raises(ValueError, match="name must be new, got 'one'"):
        register(stage, "one")


def test_report_survives_json_and_has_the_documented_fields(
    stage: Stage, registry: dict[str, harness.Benchmark]
) -> None:
    register(stage, "one")
    report = command.measure(registry, quick=True)
    text = report.to_json()
    assert harness.Report.from_json(text) == report

    fields = json.loads(text)
    assert set(fields) == {
        "format",
        "date",
        "quick",
        "clock",
        "source",
        "machine",
        "threads",
        "packages",
        "benchmarks",
    }
    assert set(fields["machine"]) == {"cpu", "architecture", "cores", "memory_gib", "system", "python"}
    assert set(fields["threads"]) == set(conditions.THREAD_VARIABLES)
    assert {"dimly", "pydantic"} <= set(fields["packages"])
    (case,) = fields["benchmarks"]["one"]
    assert case["parameters"] == {"k": 256, "family": "sparse", "density": 0.5}
    assert case["ours"]["rate"] == 10.0
    assert case["peers"][0]["timing"]["seconds"] == [3.0] * 5
    assert case["peers"][0]["speedup"] == {"median": 3.0, "low": 3.0, "high": 3.0, "coverage": 0.9375}
    assert (case["peers"][0]["target"], case["peers"][0]["met"]) == (4.0, False)


def test_json_does_not_name_the_machine_its_user_or_a_folder(
    stage: Stage, registry: dict[str, harness.Benchmark]
) -> None:
    register(stage, "one")
    report = command.measure(registry, quick=True)
    assert not {platform.node(), getpass.getuser()} & set(map(str, asdict(report.machine).values()))
    assert str(ROOT) not in report.to_json()
    assert str(Path.home()) + "/" not in report.to_json()


def test_each_kind_of_processor_keeps_its_own_results(tmp_path: Path, stage: Stage) -> None:
    path = tmp_path / "results.json"
    runs = stage.contender("ours", 1.0), {"peer": stage.contender("peer", 3.0)}
    case = harness.compare("a case", *runs, work=1, unit="people", clock=stage.clock)
    first = harness.Report(
        format=1,
        date="2030-01-02T03:04:05+00:00",
        quick=False,
        source=conditions.Source(None, None),
        machine=conditions.Machine("one kind", "x86_64", 2, 8.0, "a system", "CPython 3.11"),
        threads={},
        packages={},
        benchmarks={"a": (case,), "b": (case,)},
    )
    other = replace(first, machine=replace(first.machine, cpu="another"), benchmarks={"a": (case,)})
    renewed = replace(first, date="2031-01-02T03:04:05+00:00", benchmarks={"b": ()})
    for report in (first, other, renewed):
        harness.record(path, report)
    assert harness.load_results(path) == {
        "one kind": replace(renewed, benchmarks={"a": (case,), "b": ()}),
        "another": other,
    }


def test_only_a_full_run_renews_the_published_results(
    stage: Stage,
    registry: dict[str, harness.Benchmark],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    published, chosen = tmp_path / "results.json", tmp_path / "chosen.json"
    monkeypatch.setattr(harness, "RESULTS", published)
    register(stage, "one")
    register(stage, "two")

    assert command.main(["--quick"]) == 0
    assert command.main(["--only", "two"]) == 0
    assert not published.exists()
    assert command.main(["--quick", "--only", "two", "--json", str(chosen)]) == 0
    assert not published.exists()
    report = harness.Report.from_json(chosen.read_text())
    assert list(report.benchmarks) == ["two"]
    assert report.benchmarks["two"][0].name == "small"
    assert command.main([]) == 0
    (report,) = harness.load_results(published).values()
    assert list(report.benchmarks) == ["one", "two"]
    assert report.benchmarks["two"][0].name == "large"
    assert command.main(["--quick", "--only", "two", "--record", "--processor-time"]) == 0
    (report,) = harness.load_results(published).values()
    assert [found[0].name for found in report.benchmarks.values()] == ["large", "small"]
    assert report.clock == "processor"
    shown = capsys.readouterr().out
    assert "3.00×" in shown
    assert "≥ 4× missed" in shown


@pytest.mark.parametrize("arguments", [["--only", "nobody"], ["--json", "no-such-folder/x.json"]])
def test_bad_command_lines_stop_before_anything_runs(
    arguments: list[str], stage: Stage, registry: dict[str, harness.Benchmark]
) -> None:
    register(stage, "one")
    with pytest.raises(SystemExit) as stop:
        command.main(arguments)
    assert stop.value.code == 2
    assert stage.diary == []


def test_list_shows_names_and_summaries(
    stage: Stage, registry: dict[str, harness.Benchmark], capsys: pytest.CaptureFixture[str]
) -> None:
    register(stage, "one")
    assert command.main(["--list"]) == 0
    assert capsys.readouterr().out.split(maxsplit=1) == ["one", "Say what is timed.\n"]
    assert stage.diary == []


def test_the_real_list_is_complete() -> None:
    listed = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--list"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert "projection" in listed.stdout
