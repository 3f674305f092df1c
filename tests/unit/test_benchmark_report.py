"""The page of benchmarks from made-up results: nothing here is timed."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks import accuracy, conditions, harness, missed, report
from benchmarks.growth import exponent
from benchmarks.sketches import CELLS, GAUSSIAN, HASHER, SPARSE, TARGETS, Cell

from dimly.mechanisms.projection.random_matrix import FAMILY_NAMES


def result(
    name: str,
    ours: float,
    peers: dict[str, float],
    *,
    targets: dict[str, float] | None = None,
    peaks: tuple[int, int] | None = None,
    parameters: dict[str, harness.Parameter] | None = None,
) -> harness.Result:
    mine, theirs = peaks or (None, None)
    timing = harness.timing("dimly", [ours] * 3, work=1_000, peak_bytes=mine)
    others = {
        peer: harness.timing(peer, [seconds] * 3, work=1_000, peak_bytes=theirs) for peer, seconds in peers.items()
    }
    judged = tuple(harness.judge(other, timing, (targets or {}).get(peer)) for peer, other in others.items())
    return harness.Result(name, "people", 1_000, parameters or {}, 3, 1, timing, judged)


def stored(**benchmarks: tuple[harness.Result, ...]) -> harness.Report:
    return harness.Report(
        format=1,
        date="2030-01-02T03:04:05+00:00",
        quick=False,
        source=conditions.Source("0123456789abcdef", dirty=True),
        machine=conditions.Machine("a processor", "x86_64", 2, 8.0, "a system", "CPython 3.11"),
        threads={},
        packages={"numpy": "2.0", "rich": "14"},
        benchmarks={name.replace("_", "-"): results for name, results in benchmarks.items()},
    )


def grown(axis: str, power: float, memory: float) -> tuple[harness.Result, ...]:
    return tuple(
        result(
            f"{axis} = {size}",
            0.5 * size**power,
            {"itself": 1.0},
            peaks=(int(1e6 * size**memory), 10**6),
            parameters={"axis": axis},
        )
        for size in (1, 4, 16)
    )


def with_size(results: tuple[harness.Result, ...], axis: str) -> tuple[harness.Result, ...]:
    sizes = (100, 400, 1_600)
    return tuple(replace(r, parameters={**r.parameters, axis: s}) for r, s in zip(results, sizes, strict=True))


SIZES: dict[str, harness.Parameter] = {"n_attributes": 10_000, "ones_per_user": 100, "k": 256}
LIMITS: dict[str, harness.Parameter] = {"weight": 20, "memory": 512 << 20}
SKETCHES = tuple(
    result(f"{family}, d", 1.0, {SPARSE: seconds, HASHER: 20.0}, targets={SPARSE: 4.0, HASHER: 12.0}, parameters=SIZES)
    for family, seconds in (("counting", 5.0), ("sign", 1.5), ("hashing", 3.0))
)
EVERYTHING = stored(
    noise=(
        result("laplace, ε = 1", 1.0, {"NumPy standard_normal": 6.0}, targets={"NumPy standard_normal": 5.0}),
        result(
            "gaussian, σ = 1,000 steps", 1.0, {"NumPy standard_normal": 2.5}, targets={"NumPy standard_normal": 5.0}
        ),
    ),
    tables=(result("integers", 1.2, {"DuckDB": 1.0}, targets={"DuckDB": 1 / 1.3}),),
    start_up=(result("dimly --help", 4.0, {"NumPy": 1.0}, targets={"NumPy": 1 / 3}),),
    memory=(result("n", 1.0, {"itself at a tenth": 1.0}, peaks=(3 << 20, 2 << 20), parameters=LIMITS),),
    sketch=SKETCHES,
    growth=with_size(grown("n", 1.0, 0.5), "n") + with_size(grown("k", 0.5, 0.0), "k"),
)


def cells() -> list[accuracy.Cell]:
    def cell(mechanism: str, epsilon: float | None, error: float) -> accuracy.Cell:
        return accuracy.Cell("retail", "error", mechanism, epsilon, 64, None, (error,))

    errors = dict(zip(accuracy.MECHANISMS, (900.0, 80.0, 45.0, 120.0), strict=True))
    measured = [cell(mechanism, 1.0, error) for mechanism, error in errors.items()]
    return [*measured, cell("raw data", None, 0.0), cell(accuracy.SILENT, None, 4.0)]


def test_targets_are_stated_as_they_are_meant() -> None:
    table = report.targets_table(EVERYTHING, cells())
    assert "| noise | NumPy standard_normal | speed ≥ 5× | 2.50–6.00× | met in 1 of 2 cases |\n" in table
    assert "| tables | DuckDB | time ≤ 1.3× | 1.20× | met |\n" in table
    assert "| start-up | NumPy | time ≤ 3× | 4.00× | met in 0 of 1 cases |\n" in table
    assert "| memory | itself at a tenth | peak ≤ 1.25× | 1.50× | met in 0 of 1 cases |\n" in table
    assert "| accuracy | the paper at its best k | error ≤ 0.1× | 0.05× | met |\n" in table


def test_what_is_missed_is_said_with_by_how_much_and_why() -> None:
    text = report.missed_list(EVERYTHING, cells())
    lines = text.splitlines()
    assert len(lines) == 5
    assert lines[0].startswith(
        "- **noise** against NumPy standard_normal: 2.50× instead of speed ≥ 5× (gaussian, σ = 1,000 steps). The table"
    )
    assert lines[1].endswith("Not explained yet.")  # start-up
    assert "1.50× instead of speed ≥ 4× (sign, d). A dense row" in text
    assert "3.00× instead of speed ≥ 4× (hashing, d). The peer's P" in text
    met = stored(tables=EVERYTHING.benchmarks["tables"])
    assert report.missed_list(met, []) == "Every target is met.\n"


def test_a_miss_whose_interval_reaches_the_target_says_so() -> None:
    ours = harness.timing("dimly", [1.0, 1.0, 1.0], work=1)
    peer = harness.judge(harness.timing("NumPy", [4.8, 4.9, 5.1], work=1), ours, 5.0)
    case = replace(result("laplace", 1.0, {"NumPy": 1.0}), peers=(peer,))
    assert report.missed_list(stored(noise=(case,)), []).endswith("(laplace). The interval reaches the target.\n")


def test_the_first_reason_that_fits_is_given() -> None:
    center, few = "d = 10,000, weight 100, k = 256", "d = 10,000, weight 10, k = 256"
    reasons = {
        (family, sizes, peer): missed.reason_for("sketch", f"{family}, {sizes}", peer)
        for family in FAMILY_NAMES
        for sizes in (center, few)
        for peer in (SPARSE, GAUSSIAN, HASHER)
    }
    # One entry in a row of P against a dense one: four times as fast at any size.
    unexplained = {asked for asked, reason in reasons.items() if reason is None}
    assert unexplained == {(family, center, GAUSSIAN) for family in ("counting", "hashing")}
    assert len({reasons["sparse", center, peer] for peer in (SPARSE, GAUSSIAN, HASHER)}) == 3
    assert reasons["counting", few, SPARSE] == reasons["sparse", few, GAUSSIAN] != reasons["sparse", center, GAUSSIAN]
    assert reasons["sparse", few, HASHER] != reasons["sparse", center, HASHER]
    as_many = missed.reason_for("sketch", "sparse, d = 1,000, weight 100, k = 256", SPARSE)
    assert as_many is not None
    assert as_many.startswith("The peer's P has as many entries in a row as ours")
    assert as_many != reasons["sparse", center, SPARSE]
    assert reasons["sign", few, SPARSE] == reasons["gaussian", center, SPARSE] != reasons["counting", center, SPARSE]
    assert missed.reason_for("nothing", "", "") is None


def test_the_grid_marks_what_is_missed_and_what_was_left_out() -> None:
    table = report.sketch_table(EVERYTHING, [])
    assert "| counting | 10,000 | 100 | 256 | 1,000 | 5.00× | – | 20.0× |\n" in table
    assert "| sign | 10,000 | 100 | 256 | 1,000 | 1.50× † | – | 20.0× |\n" in table


def test_the_grid_states_its_targets_and_how_the_other_reading_would_do() -> None:
    table = report.sketch_table(EVERYTHING, [])
    assert f"| {SPARSE}, ≥ 4× | {GAUSSIAN}, ≥ 4× | {HASHER}, ≥ 12× |\n" in table
    assert "If the target is" not in table  # nobody was compared with a dense projection
    cases = tuple(
        result(f"counting, {n}", 1.0, {GAUSSIAN: n}, targets={GAUSSIAN: 4.0}, parameters=SIZES) for n in (5.0, 13.0)
    )
    read = "If the target is 12× for GaussianRandomProjection + normals, too, 1 of 2 cases meet it.\n"
    assert read in report.sketch_table(stored(sketch=cases), [])


def test_kinds_of_processor_stand_side_by_side() -> None:
    one = stored(noise=(result("a", 1.0, {"peer": 6.0}, targets={"peer": 5.0}), result("b", 1.0, {"peer": 2.0})))
    other = stored(noise=(result("a", 1.0, {"peer": 4.0}, targets={"peer": 5.0}),))
    other = replace(other, machine=replace(other.machine, cpu="another"), clock="processor")
    shown = report.side_by_side([one, other])
    assert "| noise | a | peer | 6.00× | 4.00× † |" in shown
    assert "| b |" not in shown  # nothing to set beside it
    assert "- another: 2030-01-02, commit 0123456789ab, full run, processor time" in shown


def test_stored_targets_are_those_of_the_code() -> None:
    measured = report.stored_reports()[0]
    for case in measured.benchmarks["sketch"]:
        for peer in case.peers:
            assert peer.target == TARGETS[peer.timing.name]
            assert peer.met == (peer.speedup.median >= TARGETS[peer.timing.name])


def test_growth_shows_fitted_exponents() -> None:
    table = report.growth_table(EVERYTHING, [])
    assert "| people n | 100…1,600 | 0.50…8.00 | 1.00 | 1…4 | 0.50 |\n" in table
    assert "| sketch dimension k | 100…1,600 | 0.50…2.00 | 0.50 | 1…1 | 0.00 |\n" in table
    assert "attributes d" not in table


def test_exponent_is_the_slope_of_logarithms() -> None:
    assert exponent([1, 10, 100], [3, 300, 30_000]) == pytest.approx(2.0)
    assert exponent([1, 2, 4, 8], [7, 7, 7, 7]) == pytest.approx(0.0)


def test_accuracy_is_shown_beside_the_paper() -> None:
    assert report.accuracy_table(EVERYTHING, cells()).endswith("| retail | 900 | 80.0 | 120 | 45.0 | 4.00 | 1/20.0 |\n")


def test_memory_is_shown_beside_that_of_a_tenth() -> None:
    assert report.memory_table(EVERYTHING, []).endswith("| 1,000 people, 20,000 rows | 512 | 3 | 2 | 1.50× |\n")


def test_conditions_name_the_commit_and_the_peers() -> None:
    text = report.conditions(EVERYTHING, [])
    assert text.startswith("Last run of 2030-01-02, commit 0123456789ab with changes: a processor, 2 cores, 8.0 GiB,")
    assert "numpy 2.0" in text
    assert "rich" not in text


def test_every_section_is_filled_and_filling_again_changes_nothing() -> None:
    page = "".join(f"# {name}\n\n<!-- begin {name} -->\nold\n<!-- end {name} -->\n" for name in report.SECTIONS)
    filled = report.fill(page, EVERYTHING, cells())
    assert "old" not in filled
    assert filled.count(report.ABSENT) == len(report.SECTIONS) - len(EVERYTHING.benchmarks) - len(
        ("targets", "missed", "conditions", "accuracy", "processors")
    )
    assert report.fill(filled, EVERYTHING, cells()) == filled


def test_an_unknown_section_is_refused() -> None:
    with pytest.raises(ValueError, match=r"section must be of accuracy, .*, got 'speed'"):
        report.fill("<!-- begin speed -->\n<!-- end speed -->", EVERYTHING, [])


def test_figures_hold_what_the_tables_say() -> None:
    charts = report.figures(EVERYTHING)
    assert set(charts) == {"bench-sketch", "bench-growth-time", "bench-growth-memory"}
    assert [line.label for line in charts["bench-growth-time"].lines] == [
        "people n from 100: exponent 1.00",
        "sketch dimension k from 100: exponent 0.50",
        "linear",
    ]
    assert list(charts["bench-growth-time"].lines[0].y) == pytest.approx([1, 4, 16])
    assert [line.label for line in charts["bench-sketch"].lines] == ["counting", "sign", SPARSE, HASHER]
    assert report.figures(stored()) == {}


def test_main_writes_page_and_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results, page = tmp_path / "results.json", tmp_path / "page.md"
    harness.save_results(results, {"a processor": EVERYTHING})
    page.write_text(report.PAGE.read_text(encoding="utf-8"))
    for name, value in (("RESULTS", results), ("PAGE", page), ("FIGURES", tmp_path / "figures")):
        monkeypatch.setattr(report, name, value)
    report.main()
    shown = re.findall(r"\]\((figures/bench-\S+)\)", page.read_text())
    assert len(shown) == 3
    for figure in shown:
        assert (tmp_path / figure).read_bytes().startswith(b"\x89PNG")


def test_the_grid_spans_what_was_asked() -> None:
    for name, low, high in (("d", 1_000, 1_000_000), ("weight", 10, 1_000), ("k", 64, 1_024)):
        values = [getattr(cell, name) for cell in CELLS]
        assert (min(values), max(values)) == (low, high)
    assert len(set(CELLS)) == len(CELLS)
    assert not Cell(1_000_000, 100, 256).dense_fits
    assert Cell(100_000, 100, 256).dense_fits
