"""Charts: what is shown apart from how it is drawn, so that every figure can be had as numbers too.

Colors are those of Okabe and Ito, which the color-blind can tell apart; shapes and dashes say the same in print.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from dimly.errors import ParameterError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
_GRAY = "#666666"
_MOST_INSIDE = 6  # names in a legend that leave room for lines


NOBODY = "no such pairs"
"""Where nobody wins: people cannot differ in more attributes than there are."""


class Look(NamedTuple):
    """How a line is drawn."""

    color: str
    marker: str = ""
    dashes: str = "-"


LOOKS = {
    "paper": Look("#000000", "s"),
    "hashing+laplace": Look("#E69F00", "^"),
    "counting+laplace": Look("#0072B2", "o"),
    "randomized-response": Look("#009E73", "D"),
    "noisy-distances": Look("#CC79A7", "v"),
    NOBODY: Look("#EEEEEE"),
}
_OTHERS = (Look("#D55E00", "P"), Look("#56B4E9", "X"), Look("#882255", "*"), Look("#999933", "h"), Look("#44AA99", "<"))
_MORE = (
    Look("#332288", ">"),
    Look("#117733", "p"),
    Look("#AA4499", "d"),
    Look("#CC6677", "H"),
    Look("#88CCEE", "8"),
    Look("#661100", "1"),
    Look("#DDCC77", "2"),
)
SEGMENTS = (
    LOOKS["counting+laplace"],
    LOOKS["hashing+laplace"],
    LOOKS["randomized-response"],
    LOOKS["noisy-distances"],
    *_OTHERS,
)
"""For groups of people, the largest first: the same colors, and a shape for each."""
_NAMES = {"paper": "the paper's"}


def looks_of(names: Sequence[str]) -> dict[str, Look]:
    """Return a look for each name, the same in every figure for the usual ones; of the whole menu all differ."""
    others = itertools.cycle([*_OTHERS, *_MORE])
    return {name: LOOKS[name] if name in LOOKS else next(others) for name in names}


def label_of(mechanism: str) -> str:
    """Return what a mechanism is called in a legend."""
    return _NAMES.get(mechanism, mechanism)


class Axis(NamedTuple):
    """What an axis measures."""

    label: str
    scale: Literal["linear", "log", "log2"] = "linear"
    limits: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """Points that belong together; ``marked`` are those to point at, by index; up to ``upper`` it is a band."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    look: Look
    marked: Sequence[int] = ()
    every_point: bool = True
    upper: Sequence[float] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return its numbers, ready for JSON."""
        marked = {"marked": [[self.x[i], self.y[i]] for i in self.marked]} if self.marked else {}
        upper = {} if self.upper is None else {"upper": list(self.upper)}
        return {"label": self.label, "x": list(self.x), "y": list(self.y), **upper, **marked}


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines over two axes."""

    title: str
    x: Axis
    y: Axis
    lines: Sequence[Line]
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return what is shown, ready for JSON."""
        return {
            "title": self.title,
            "x": self.x.label,
            "y": self.y.label,
            "lines": [line.to_dict() for line in self.lines],
        }

    def draw(self, *, size: tuple[float, float] | None = None) -> "Figure":
        """Return it drawn; of many lines the legend stands beside them, where it hides none."""
        many = len(self.lines) > _MOST_INSIDE
        figure, axis = _blank(size or ((10.0, 5.2) if many else (7.0, 4.6)))
        for line in self.lines:
            axis.plot(
                line.x,
                line.y,
                color=line.look.color,
                marker=line.look.marker,
                markevery=1 if line.every_point else max(1, len(line.x) // 8),
                linestyle=line.look.dashes,
                linewidth=1.6,
                markersize=5,
                label=line.label,
            )
            if line.upper is not None:
                axis.plot(
                    line.x, line.upper, color=line.look.color, marker=line.look.marker, linewidth=1.6, markersize=5
                )
                axis.fill_between(line.x, line.y, line.upper, color=line.look.color, alpha=0.15, linewidth=0)
            for i in line.marked:
                axis.plot([line.x[i]], [line.y[i]], color=line.look.color, marker="o", markersize=9, mfc="white", mew=2)
        _finish(axis, self.title, self.x, self.y)
        if many:
            figure.legend(loc="outside right upper", fontsize=8, frameon=False, handlelength=4)
        else:
            axis.legend(fontsize=8, frameon=False)
        return _signed(figure, self.note)


@dataclass(frozen=True, slots=True)
class Winners:
    """Who is best at each point of a grid: ``best[i][j]`` in row i and column j."""

    title: str
    x: Axis
    y: Axis
    columns: Sequence[float]
    rows: Sequence[float]
    best: Sequence[Sequence[str]]
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return what is shown, ready for JSON."""
        return {
            "title": self.title,
            "x": self.x.label,
            "y": self.y.label,
            "columns": list(self.columns),
            "rows": list(self.rows),
            "best": [list(row) for row in self.best],
        }

    def draw(self, *, size: tuple[float, float] = (7.0, 4.8)) -> "Figure":
        """Return it drawn: colors, and a letter in each field for print."""
        from matplotlib.colors import ListedColormap  # noqa: PLC0415  (slow to import)
        from matplotlib.patches import Patch  # noqa: PLC0415

        figure, axis = _blank(size)
        names = sorted({name for row in self.best for name in row})
        looks = looks_of(names)
        numbers = [[names.index(name) for name in row] for row in self.best]
        colors = ListedColormap([looks[name].color for name in names])
        axis.pcolormesh(
            self.columns,
            self.rows,
            numbers,
            cmap=colors,
            vmin=-0.5,
            vmax=len(names) - 0.5,
            shading="nearest",
            alpha=0.75,
        )
        _finish(axis, self.title, self.x, self.y)
        axis.grid(visible=False)
        for name in names:
            where = [(i, j) for i, row in enumerate(self.best) for j, found in enumerate(row) if found == name]
            i, j = (sorted(part)[len(where) // 2] for part in zip(*where, strict=True))
            if self.best[i][j] == name:
                axis.text(self.columns[j], self.rows[i], label_of(name), ha="center", va="center", fontsize=9)
        patches = [Patch(color=looks[name].color, alpha=0.75, label=label_of(name)) for name in names]
        figure.legend(handles=patches, loc="outside upper right", ncols=2, fontsize=8, frameon=False)
        return _signed(figure, self.note)


Drawn = Chart | Winners


def save(drawn: Drawn, path: Path) -> None:
    """Write a figure, as PNG, SVG or PDF by the ending of its name; the same figure is the same bytes.

    Raises
    ------
    ParameterError
        If the name ends otherwise.
    """
    if path.suffix.lower() not in FORMATS:
        raise ParameterError(f"out must end in {', '.join(FORMATS)}, got {path.name!r}.")
    path.write_bytes(rendered(drawn, path.suffix.lower()[1:]))


def rendered(drawn: Drawn, kind: str, *, size: tuple[float, float] | None = None) -> bytes:
    """Return a figure as the bytes of a file."""
    import io  # noqa: PLC0415

    import matplotlib as mpl  # noqa: PLC0415  (slow to import)

    figure = drawn.draw() if size is None else drawn.draw(size=size)
    sink = io.BytesIO()
    undated = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with mpl.rc_context({"svg.hashsalt": "dimly", "svg.fonttype": "none"}):
        figure.savefig(sink, format=kind, dpi=150, metadata=undated[kind])
    return sink.getvalue()


def _blank(size: tuple[float, float]) -> tuple["Figure", Any]:
    from matplotlib.figure import Figure  # noqa: PLC0415  (slow to import)

    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots()


def _finish(axis: Any, title: str, x: Axis, y: Axis) -> None:
    axis.set_title(title, fontsize=10, loc="left")
    for name, what in (("x", x), ("y", y)):
        getattr(axis, f"set_{name}label")(what.label, fontsize=9)
        if what.scale != "linear":
            getattr(axis, f"set_{name}scale")("log", base=2 if what.scale == "log2" else 10)
        if what.scale == "log2":
            getattr(axis, f"{name}axis").set_major_formatter("{x:g}")
        if what.limits is not None:
            getattr(axis, f"set_{name}lim")(*what.limits)
    axis.grid(visible=True, color="#dddddd", linewidth=0.6)
    axis.minorticks_off()
    axis.tick_params(labelsize=8)
    axis.set_axisbelow(True)


def _signed(figure: "Figure", note: str) -> "Figure":
    if note:
        figure.supxlabel(note, fontsize=7, color=_GRAY, x=0.01, ha="left")
    return figure
