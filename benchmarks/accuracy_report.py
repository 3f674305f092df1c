"""Figures and tables of docs/accuracy.md from ``benchmarks/accuracy.json``: ``python -m benchmarks.accuracy_report``.

Figures go to docs/figures, tables to stdout; a test compares those on the page with what was measured.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.accuracy import EPSILONS, GRID, MECHANISMS, SILENT, Cell, load
from dimly.planner.paper import PAPER

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
TABLES = ("retail", "reviews", "garments", "mushrooms")
LABELS = {
    PAPER: "the paper's, δ = 1e-6",
    "hashing+laplace": "hashing, δ = 0",
    "counting+laplace": "counting, δ = 0",
    "randomized-response": "randomized response, δ = 0",
}


class Look(NamedTuple):
    """How one mechanism is drawn: a color that the color-blind can tell apart (Okabe and Ito), and a shape."""

    color: str
    marker: str


LOOKS = {
    PAPER: Look("#000000", "s"),
    "hashing+laplace": Look("#E69F00", "^"),
    "counting+laplace": Look("#0072B2", "o"),
    "randomized-response": Look("#009E73", "D"),
}


class Measure(NamedTuple):
    """What one figure shows."""

    name: str
    axis: str
    smaller_is_better: bool


MEASURES = {
    "error": Measure("error", "root mean square error of squared distance", True),
    "recall": Measure("recall", "share of true neighbors among ten found", False),
    "agreement": Measure("agreement", "adjusted Rand index of segments and labels", False),
}


def best(
    cells: Sequence[Cell], measure: str, table: str, mechanism: str, *, epsilon: float | None, denoised: bool | None
) -> Cell | None:
    """Return the figure at the k that did best; None if nothing was measured."""
    wanted = (measure, table, mechanism, epsilon, denoised)
    found = [c for c in cells if (c.measure, c.table, c.mechanism, c.epsilon, c.denoised) == wanted]
    sign = 1 if MEASURES[measure].smaller_is_better else -1
    return min(found, key=lambda cell: sign * cell.mean, default=None)


def ways(measure: str) -> Sequence[bool | None]:
    """Return what was done before asking: nothing, or denoising."""
    return (None,) if measure == "error" else (False, True)


def tables_of(cells: Sequence[Cell], measure: str) -> list[str]:
    """Return the tables for which this was measured."""
    known = {cell.table for cell in cells if cell.measure == measure}
    return [table for table in TABLES if table in known]


def markdown(cells: Sequence[Cell], measure: str) -> str:
    """Return one table of the page: a row per data set, mechanism and way, with the best k in brackets."""
    lines = [
        "| | mechanism | " + " | ".join(f"ε = {epsilon:g}" for epsilon in EPSILONS) + " |",
        "|---|---|" + "---|" * len(EPSILONS),
    ]
    for table in tables_of(cells, measure):
        for mechanism in MECHANISMS:
            for denoised in ways(measure):
                found = [
                    best(cells, measure, table, mechanism, epsilon=epsilon, denoised=denoised) for epsilon in EPSILONS
                ]
                what = LABELS[mechanism].partition(",")[0] + (", denoised" if denoised else "")
                lines.append(f"| {table} | {what} | " + " | ".join(_text(cell) for cell in found) + " |")
    return "\n".join(lines) + "\n"


def limits(cells: Sequence[Cell], measure: str) -> Iterator[tuple[str, float, float]]:
    """Return, of each table, what the raw data score and what the projection alone does, at its best k."""
    for table in tables_of(cells, measure):
        raw = best(cells, measure, table, "raw data", epsilon=None, denoised=None)
        silent = [best(cells, measure, table, SILENT, epsilon=None, denoised=denoised) for denoised in ways(measure)]
        scores = [cell.mean for cell in silent if cell is not None]
        if raw is not None and scores:
            yield table, raw.mean, min(scores) if MEASURES[measure].smaller_is_better else max(scores)


def _text(cell: Cell | None) -> str:
    if cell is None:
        return "–"
    number = f"{cell.mean:.2f}" if cell.measure != "error" else f"{cell.mean:,.{0 if cell.mean >= 10 else 1}f}"
    return number if cell.k is None else f"{number} ({cell.k})"


def draw(cells: Sequence[Cell], measure: str) -> Any:
    """Return a figure with a panel for each table."""
    import matplotlib as mpl  # noqa: PLC0415 - slow, and only needed here

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    names = tables_of(cells, measure)
    columns = 2
    rows = -(-len(names) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(8, 3.1 * rows + 0.9), sharex=True, squeeze=False)
    bounds = {name: (raw, silent) for name, raw, silent in limits(cells, measure)}
    for axis, name in zip(axes.flat, names, strict=False):
        _panel(axis, cells, measure, name)
        raw, silent = bounds[name]
        axis.axhline(silent, color="#777777", linewidth=1.0, linestyle=":")
        if measure == "agreement":
            axis.axhline(raw, color="#777777", linewidth=1.0, linestyle="-.")
        axis.set_title(name, fontsize=10)
    for axis in axes[-1]:
        axis.set_xlabel("ε (odds of one attribute change by at most $e^ε$)", fontsize=9)
    figure.supylabel(MEASURES[measure].axis, fontsize=9)
    figure.legend(handles=_legend(measure), loc="lower center", ncols=3, fontsize=8, frameon=False)
    figure.tight_layout(rect=(0.01, 0.13 / rows, 1, 1))
    return figure


def _panel(axis: Any, cells: Sequence[Cell], measure: str, table: str) -> None:
    for mechanism in MECHANISMS:
        look = LOOKS[mechanism]
        for denoised in ways(measure):
            found = [best(cells, measure, table, mechanism, epsilon=epsilon, denoised=denoised) for epsilon in EPSILONS]
            points = [(cell.epsilon, cell.mean) for cell in found if cell is not None]
            raw = denoised is False
            axis.plot(
                *zip(*points, strict=True),
                color=look.color,
                marker=look.marker,
                markersize=4.5,
                linewidth=1.0 if raw else 1.6,
                linestyle="--" if raw else "-",
                markerfacecolor="white" if raw else look.color,
            )
    axis.set_xscale("log", base=2)
    axis.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    if measure == "error":
        axis.set_yscale("log")
    else:
        axis.set_ylim(-0.03, 1.03)
    axis.grid(visible=True, color="#dddddd", linewidth=0.6)
    axis.tick_params(labelsize=8)
    axis.minorticks_off()


def _legend(measure: str) -> list[Any]:
    from matplotlib.lines import Line2D  # noqa: PLC0415

    handles = [Line2D([], [], color=LOOKS[m].color, marker=LOOKS[m].marker, label=LABELS[m]) for m in MECHANISMS]
    if measure != "error":
        handles.append(Line2D([], [], color="#555555", label="denoised"))
        handles.append(Line2D([], [], color="#555555", linestyle="--", marker="o", mfc="white", label="not denoised"))
    handles.append(Line2D([], [], color="#777777", linestyle=":", label=f"projection alone, no noise, k ≤ {max(GRID)}"))
    if measure == "agreement":
        handles.append(Line2D([], [], color="#777777", linestyle="-.", label="raw data"))
    return handles


def main() -> None:
    cells = load()
    FIGURES.mkdir(exist_ok=True)
    for measure in MEASURES:
        if tables_of(cells, measure):
            figure = draw(cells, measure)
            figure.savefig(FIGURES / f"{measure}.png", dpi=150, metadata={"Software": None})
            print(f"## {measure}\n\n{markdown(cells, measure)}")
            for table, raw, silent in limits(cells, measure):
                print(f"{table}: raw data {raw:.3g}, projection alone {silent:.3g}")


if __name__ == "__main__":
    main()
