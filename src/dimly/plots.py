"""Drawings of numbers on matplotlib axes: scatter of groups, histogram, ladder, bars.

Every function takes axes, or makes some, and returns them: a caller adds titles and saves as usual.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dimly.errors import MissingExtraError, ParameterError, printable

Floats = NDArray[np.float64]
COLORS: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#882255", "#999933", "#44AA99")
MARKERS: Final = ("o", "^", "D", "v", "P", "X", "*", "h", "<")
_NOISE = "#999999"


def axes_or_new(ax: Any, *, size: tuple[float, float] = (6.4, 4.4)) -> Any:
    """Return the axes that were given, or new ones.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    ParameterError
        If what was given are no axes.
    """
    if ax is not None:
        if not hasattr(ax, "plot") or not hasattr(ax, "set_xlabel"):
            raise ParameterError(
                f"ax must be axes of matplotlib, got {type(ax).__name__}. Pass plt.gca(), or leave it out."
            )
        return ax
    try:
        import matplotlib.pyplot as plt  # noqa: PLC0415  (slow to import)
    except ImportError:
        raise MissingExtraError("plots need matplotlib. Run pip install matplotlib.") from None
    return plt.subplots(figsize=size, layout="constrained")[1]


def safe(text: str) -> str:
    """Return text that is shown as it is: names may hold dollars, which matplotlib takes for formulas."""
    return printable(text).replace("$", r"\$")


def scatter_groups(points: Floats, labels: NDArray[Any] | None, centers: Floats | None, *, ax: Any) -> Any:
    """Draw people as points, by group in color and shape, each group's number at its center."""
    ax = axes_or_new(ax, size=(5.6, 5.2))
    reach = (1.05 * float(np.quantile(np.abs(points), 0.995)) if len(points) else 0.0) or 1.0
    groups = np.zeros(len(points), np.int64) if labels is None else np.asarray(labels)
    for group in np.unique(groups[groups >= 0]).tolist():
        mine = points[groups == group]
        look = group % len(COLORS)
        filled = group < len(COLORS)
        ax.scatter(
            mine[:, 0],
            mine[:, 1],
            s=12,
            marker=MARKERS[look],
            linewidths=0.0 if filled else 0.8,
            color=COLORS[look] if filled else "none",
            edgecolors=None if filled else COLORS[look],
            label=str(group),
        )
    unknown = points[groups < 0]
    if len(unknown):
        ax.scatter(unknown[:, 0], unknown[:, 1], s=8, color=_NOISE, label="unknown")
    if centers is not None and len(centers) > 1:
        box = {"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
        for group, (x, y) in enumerate(np.clip(centers, -reach, reach).tolist()):
            ax.text(x, y, str(group), ha="center", va="center", weight="bold", bbox=box)
    ax.set_xlim(-reach, reach)
    ax.set_ylim(-reach, reach)
    ax.set_aspect("equal")
    return ax


def histogram(values: Floats, *, spread_of_noise: float, ax: Any, what: str) -> Any:
    """Draw how estimates are distributed, and beside it how wide noise alone would make them."""
    ax = axes_or_new(ax)
    low, high = np.quantile(values, [0.002, 0.998])
    bins = int(np.clip(len(values) ** 0.5, 8, 50))
    heights, edges, _ = ax.hist(
        values, bins=bins, range=(low, high) if high > low else None, color=COLORS[0], alpha=0.75
    )
    middle = float(values.mean())
    x = np.linspace(edges[0], edges[-1], 300)
    bell = np.exp(-((x - middle) ** 2) / (2 * spread_of_noise**2)) if spread_of_noise > 0 else np.zeros_like(x)
    area = heights.sum() * (edges[1] - edges[0])
    scale = area / (spread_of_noise * (2 * np.pi) ** 0.5) if spread_of_noise > 0 else 0.0
    label = f"what noise alone would show\n(standard deviation {spread_of_noise:,.3g})"
    ax.plot(x, scale * bell, color="black", linestyle="--", label=label)
    ax.set_ylim(0, 1.15 * max(float(heights.max()), min(scale, 2 * float(heights.max()))))
    ax.axvline(middle, color="black", linewidth=0.8)
    ax.set_xlabel(f"estimated {what}")
    ax.set_ylabel("pairs")
    ax.legend(loc="upper right", fontsize="small", frameon=False)
    return ax


def ladder(
    values: Floats, low: Floats, high: Floats, *, names: Sequence[str], ax: Any, what: str, most: int = 40
) -> Any:
    """Draw estimates one below the other, each with its interval."""
    shown = min(len(values), most)
    ax = axes_or_new(ax, size=(6.4, 1.2 + 0.28 * max(shown, 1)))
    places = np.arange(shown)
    values, low, high = values[:shown], low[:shown], high[:shown]
    finite = np.isfinite(values) & np.isfinite(low) & np.isfinite(high)
    ax.hlines(places[finite], low[finite], high[finite], color=COLORS[0], linewidth=2, alpha=0.5)
    ax.plot(values[finite], places[finite], "o", color=COLORS[0], markersize=5)
    ax.set_yticks(places, [safe(name) for name in names[:shown]])
    ax.set_ylim(shown - 0.5, -0.5)
    left_out = f"; {len(names) - shown:,} more are not shown" if len(names) > shown else ""
    ax.set_xlabel(f"{what}, with its interval{left_out}")
    ax.grid(axis="x", alpha=0.3)
    return ax


def bars(names: Sequence[str], values: Floats, *, ax: Any, what: str) -> Any:
    """Draw one bar for each name, the first on top; it was chosen, and stands out."""
    ax = axes_or_new(ax, size=(6.4, 1.2 + 0.34 * len(names)))
    colors = [COLORS[0] if i == 0 else _NOISE for i in range(len(names))]
    ax.barh(np.arange(len(names)), values, color=colors)
    for i, value in enumerate(values.tolist()):
        ax.text(value, i, f" {value:,.3g}", va="center", fontsize="small")
    ax.set_yticks(np.arange(len(names)), [safe(name) for name in names])
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlim(0, 1.15 * float(np.max(values)) if len(values) else 1.0)
    ax.set_xlabel(what)
    return ax


def two_ends(rows: Sequence[tuple[Sequence[tuple[str, float]], Sequence[tuple[str, float]]]], *, ax: Any) -> Any:
    """Draw what each direction tells apart: its strongest names at both ends, as bars to the right and to the left."""
    named = [(number, name, value) for number, ends in enumerate(rows) for end in ends for name, value in end]
    ax = axes_or_new(ax, size=(6.8, 1.0 + 0.26 * max(len(named), 1)))
    values = np.array([value for _, _, value in named])
    colors = [COLORS[0] if value > 0 else COLORS[4] for value in values.tolist()]
    ax.barh(np.arange(len(named)), values, color=colors)
    ax.set_yticks(np.arange(len(named)), [safe(f"{name}  ({number})") for number, name, _ in named], fontsize="small")
    starts = [i for i in range(1, len(named)) if named[i][0] != named[i - 1][0]]
    for start in starts:
        ax.axhline(start - 0.5, color=_NOISE, linewidth=0.6)
    ax.axvline(0, color="black", linewidth=0.8)
    ax.set_ylim(len(named) - 0.5, -0.5)
    ax.set_xlabel("entry of the direction, whose number is in brackets")
    return ax
