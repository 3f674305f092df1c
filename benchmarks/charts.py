"""Figures of docs/benchmarks.md."""

from benchmarks.growth import AXES, exponent
from benchmarks.harness import Report, Result
from benchmarks.sketches import GAUSSIAN, HASHER, SPARSE
from dimly.lab.charts import SEGMENTS, Axis, Chart, Line, LineLook, looks_of

AXIS_NAMES = {"n": "people n", "d": "attributes d", "weight": "weight (rows of a person)", "k": "sketch dimension k"}
DRAWN = ("counting", "sparse", "sign", "gaussian", SPARSE, GAUSSIAN, HASHER)
"""In the figure of sketches: one family of each kind of P, and the peers."""


def sketch_chart(report: Report) -> Chart | None:
    """Return people a second against d, at weight 100 and k = 256."""
    points: dict[str, dict[float, float]] = {name: {} for name in DRAWN}
    for result in report.benchmarks.get("sketch", ()):
        sizes = result.parameters
        if (sizes["ones_per_user"], sizes["k"]) == (100, 256):
            timings = {result.name.partition(",")[0]: result.ours}
            timings |= {peer.timing.name: peer.timing for peer in result.peers}
            for name in timings.keys() & points.keys():
                points[name][float(sizes["n_attributes"])] = timings[name].rate
    lines = []
    for (name, found), look in zip(points.items(), SEGMENTS, strict=False):
        x = sorted(found)
        dashes = "--" if name in (SPARSE, GAUSSIAN, HASHER) else "-"
        lines += [Line(name, x, [found[d] for d in x], look._replace(dashes=dashes))] if x else []
    if not lines:
        return None
    return Chart(
        "Sketches a second against d",
        Axis("attributes d", "log"),
        Axis("people a second", "log"),
        lines,
        "Weight 100, k = 256, one core. Dashed: peers. Other families are in the table.",
    )


def growth_chart(report: Report, what: str) -> Chart | None:
    """Return time or memory of publishing, each line against the smallest of its own sizes."""
    found = by_axis(report)
    looks = looks_of(list(found))
    lines = []
    for axis, results in found.items():
        amounts = [result.ours.median_seconds if what == "time" else result.ours.peak_bytes or 0 for result in results]
        sizes = [float(result.parameters[axis]) for result in results]
        if all(amounts):
            label = f"{AXIS_NAMES[axis]} from {sizes[0]:,.0f}: exponent {exponent(sizes, amounts):.2f}"
            x, y = [size / sizes[0] for size in sizes], [amount / amounts[0] for amount in amounts]
            lines.append(Line(label, x, y, looks[axis]))
    if not lines:
        return None
    widest = max(max(line.x) for line in lines)
    lines.append(Line("linear", [1.0, widest], [1.0, widest], LineLook("#666666", dashes=":")))
    unit = "time" if what == "time" else "peak of memory"
    return Chart(
        f"Publishing: {unit} against size",
        Axis("size, as a multiple of the smallest", "log"),
        Axis(f"{unit}, as a multiple of that at the smallest", "log"),
        lines,
        "Two threads. Each line varies one size and keeps the others.",
    )


def by_axis(report: Report) -> dict[str, list[Result]]:
    """Return the cases of growth by the size that varies, where there are several."""
    results = report.benchmarks.get("growth", ())
    found = {axis: [result for result in results if result.parameters["axis"] == axis] for axis in AXES}
    return {axis: here for axis, here in found.items() if len(here) > 1}
