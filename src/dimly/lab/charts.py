"""``Chart``, ``Winners``, ``Shares``, ``ProfileChart``: what is shown, apart from how matplotlib draws it.

Colors are those of Okabe and Ito, which the color-blind can tell apart; shapes, dashes and hatches say the same in
print.
"""

import itertools
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from dimly.errors import need_extra

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure
    from matplotlib.path import Path as PlottedPath
    from numpy.typing import NDArray
from typing import TYPE_CHECKING, Final

from dimly.release.documents.profiles_file import Profiles

if TYPE_CHECKING:
    from matplotlib.figure import Figure


FORMATS = (".png", ".svg", ".pdf")


def need_plots() -> None:
    """Refuse to draw without matplotlib, which is an extra.

    Raises
    ------
    MissingExtraError
    """
    need_extra("Figures", "matplotlib", "plots")


_GRAY = "#666666"
_MOST_INSIDE = 6  # names in a legend that leave room for lines


NOBODY = "no such pairs"
"""Where nobody wins: people cannot differ in more attributes than there are."""


class LineLook(NamedTuple):
    """How a line or an area is drawn."""

    color: str
    marker: str = ""
    dashes: str = "-"
    hatch: str = ""


LOOKS = {
    "paper": LineLook("#000000", "s", hatch="xxx"),
    "hashing+laplace": LineLook("#E69F00", "^", hatch="\\\\\\"),
    "counting+laplace": LineLook("#0072B2", "o", hatch="///"),
    "randomized-response": LineLook("#009E73", "D", hatch="..."),
    "noisy-distances": LineLook("#CC79A7", "v", hatch="+++"),
    NOBODY: LineLook("#EEEEEE"),
}
_OTHERS = (
    LineLook("#D55E00", "P", hatch="---"),
    LineLook("#56B4E9", "X", hatch="|||"),
    LineLook("#882255", "*", hatch="ooo"),
    LineLook("#999933", "h", hatch="/"),
    LineLook("#44AA99", "<", hatch="-"),
)
_MORE = (
    LineLook("#332288", ">", hatch="|"),
    LineLook("#117733", "p", hatch="O"),
    LineLook("#AA4499", "d", hatch="x"),
    LineLook("#CC6677", "H", hatch="+"),
    LineLook("#88CCEE", "8", hatch="*"),
    LineLook("#661100", "1", hatch="//"),
    LineLook("#DDCC77", "2", hatch=".."),
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


def looks_of(names: Sequence[str]) -> dict[str, LineLook]:
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
    look: LineLook
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

    def draw(self) -> "Figure":
        """Return it drawn; of many lines the legend stands beside them, where it hides none."""
        many = len(self.lines) > _MOST_INSIDE
        figure, axis = _blank((10.0, 5.2) if many else (7.0, 4.6))
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
        return signed(figure, self.note)


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

    def draw(self) -> "Figure":
        """Return it drawn: areas in colors and hatches, each with its name in the middle; no legend is needed."""
        need_plots()
        import numpy as np  # noqa: PLC0415
        from matplotlib.colors import to_rgb  # noqa: PLC0415  (slow to import)
        from matplotlib.patches import PathPatch  # noqa: PLC0415

        figure, axis = _blank((7.0, 4.8))
        names = sorted({name for row in self.best for name in row})
        best, x, y = np.array(self.best), _edges(self.columns, self.x), _edges(self.rows, self.y)
        _finish(axis, self.title, self.x._replace(limits=(x[0], x[-1])), self.y._replace(limits=(y[0], y[-1])))
        axis.grid(visible=False)
        for name, look in looks_of(names).items():
            pale = tuple(1 - 0.45 * (1 - part) for part in to_rgb(look.color))  # hatches and names are dark on it
            # Without lines around it; hatches have the color that these would have.
            drawn = {"facecolor": pale, "edgecolor": look.color, "hatch": look.hatch, "linewidth": 0}
            axis.add_patch(PathPatch(_outline(best == name, x, y), **drawn))
        box = {"facecolor": "white", "edgecolor": "none", "boxstyle": "round,pad=0.25"}
        for name in names:
            i, j = _middle(best == name)
            axis.text(self.columns[j], self.rows[i], label_of(name), ha="center", va="center", fontsize=9, bbox=box)
        return signed(figure, self.note)


class Panel(NamedTuple):
    """One table of shares from 0 to 1, and what it is of."""

    title: str
    shares: Sequence[Sequence[float]]


@dataclass(frozen=True, slots=True)
class Shares:
    """Tables of shares side by side, the larger the darker."""

    title: str
    x: str
    y: str
    panels: Sequence[Panel]
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return what is shown, ready for JSON."""
        panels = [{"title": one.title, "shares": [list(row) for row in one.shares]} for one in self.panels]
        return {"title": self.title, "x": self.x, "y": self.y, "panels": panels}

    def draw(self) -> "Figure":
        """Return it drawn; every cell says its share in percent."""
        need_plots()
        from matplotlib.figure import Figure  # noqa: PLC0415  (slow to import)

        n = len(self.panels)
        figure = Figure(figsize=(max(3.1 * n, 5.0), 4.0), layout="constrained")
        axes = figure.subplots(1, n, squeeze=False)[0]
        for i, (axis, panel) in enumerate(zip(axes, self.panels, strict=True)):
            axis.imshow(panel.shares, cmap="Blues", vmin=0.0, vmax=1.0)
            for y, row in enumerate(panel.shares):
                for x, share in enumerate(row):
                    ink = "white" if share > 0.55 else "#333333"
                    axis.text(x, y, f"{100 * share:.0f}", ha="center", va="center", fontsize=8, color=ink)
            axis.set_title(panel.title, fontsize=9)
            axis.set_xlabel(self.x, fontsize=9)
            if not i:
                axis.set_ylabel(self.y, fontsize=9)
            axis.set_xticks(range(len(panel.shares[0])))
            axis.set_yticks(range(len(panel.shares)))
            axis.tick_params(labelsize=8, length=0)
        figure.suptitle(self.title, fontsize=10, x=0.01, ha="left")
        return signed(figure, self.note)


Drawn = Chart | Winners | Shares


def rendered(drawn: Drawn, kind: str) -> bytes:
    """Return a figure as the bytes of a file: png, svg or pdf. The same figure is the same bytes."""
    return encoded(drawn.draw(), kind)


def encoded(figure: "Figure", kind: str) -> bytes:
    """Return what was drawn as the bytes of a file."""
    need_plots()
    import io  # noqa: PLC0415

    import matplotlib as mpl  # noqa: PLC0415  (slow to import)

    sink = io.BytesIO()
    undated = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with mpl.rc_context({"svg.hashsalt": "dimly", "svg.fonttype": "none"}):
        figure.savefig(sink, format=kind, dpi=150, metadata=undated[kind])
    return sink.getvalue()


def _edges(centers: Sequence[float], axis: Axis) -> list[float]:
    """Return the borders of cells, halfway between their centers as the axis shows them."""
    import numpy as np  # noqa: PLC0415

    at = np.array(centers, np.float64) if axis.scale == "linear" else np.log(centers)
    halves = (at[1:] - at[:-1]) / 2
    borders = np.concatenate([[at[0] - halves[0]], at[:-1] + halves, [at[-1] + halves[-1]]])
    edges: list[float] = (borders if axis.scale == "linear" else np.exp(borders)).tolist()
    return edges


def _outline(area: "NDArray[np.bool_]", x: Sequence[float], y: Sequence[float]) -> "PlottedPath":
    """Return the cells of an area as one path, stretch by stretch of each row: apart they would show seams."""
    from matplotlib.path import Path as PlottedPath  # noqa: PLC0415  (slow to import)

    stretches = []
    for i, row in enumerate(area.tolist()):
        start = 0
        for inside, cells in itertools.groupby(row):
            end = start + len(list(cells))
            if inside:
                left, right, low, high = x[start], x[end], y[i], y[i + 1]
                corners = [(left, low), (right, low), (right, high), (left, high), (left, low)]
                stretches.append(PlottedPath(corners, closed=True))
            start = end
    return PlottedPath.make_compound_path(*stretches)


def _middle(area: "NDArray[np.bool_]") -> tuple[int, int]:
    """Return the cell of an area that is farthest from all that is not; of several, the middle one."""
    import numpy as np  # noqa: PLC0415
    import scipy  # noqa: PLC0415

    depth = scipy.ndimage.distance_transform_edt(np.pad(area, 1))[1:-1, 1:-1]
    deepest = np.argwhere(depth == depth.max())
    i, j = deepest[len(deepest) // 2]
    return int(i), int(j)


def _blank(size: tuple[float, float]) -> tuple["Figure", Any]:
    need_plots()
    from matplotlib.figure import Figure  # noqa: PLC0415  (slow to import)

    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots()


def blank_panels(count: int, *, across: int, height: float) -> tuple["Figure", list[Any]]:
    """Return a figure of as many panels, so many of them side by side."""
    need_plots()
    from matplotlib.figure import Figure  # noqa: PLC0415  (slow to import)

    across = min(across, count)
    down = -(-count // across)
    figure = Figure(figsize=(3.4 * across, height * down), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).reshape(-1).tolist()
    for axis in panels[count:]:
        axis.set_visible(False)
    return figure, panels[:count]


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


def signed(figure: "Figure", note: str) -> "Figure":
    """Return a figure with a note below it."""
    if note:
        width = round(19 * float(figure.get_figwidth()))  # characters of this size
        figure.supxlabel(textwrap.fill(note, width), fontsize=7, color=_GRAY, x=0.01, ha="left")
    return figure


MOST_PANELS: Final = 24
_ACROSS: Final = 3
_LONGEST: Final = 28


@dataclass(frozen=True, slots=True)
class ProfileChart:
    """The strongest attributes of each segment: their shares with 95 % intervals, beside the share of all others."""

    profiles: Profiles
    most: int = 8

    def draw(self) -> "Figure":
        """Return a panel for each segment, the first 24 of them."""
        count = min(len(self.profiles.sizes), MOST_PANELS)
        figure, panels = blank_panels(count, across=_ACROSS, height=0.6 + 0.24 * self.most)
        for segment, axis in enumerate(panels):
            self._draw_segment(axis, segment)
        left_out = f" The first {count} segments." if count < len(self.profiles.sizes) else ""
        return signed(
            figure,
            "Share of a segment's people who have an attribute, with its 95 % interval for the noise of a count; a "
            f"line marks the share of all others. Some seem strong by luck of the noise.{left_out}",
        )

    def _draw_segment(self, axis: Any, segment: int) -> None:
        rows, look = self.profiles.strongest(segment, self.most), SEGMENTS[segment % len(SEGMENTS)]
        people = max(1, int(self.profiles.sizes[segment]))
        for at, row in enumerate(rows):
            low, high = row["low"] / people, row["high"] / people
            shown = min(max(row["share"], low), high)  # noise can put a share above 100 %, where nobody is
            axis.plot([low, high], [at, at], color=look.color, linewidth=2, alpha=0.5)
            axis.plot([shown], [at], color=look.color, marker=look.marker, markersize=5)
            others = min(max(row["share"] - row["apart"], 0.0), 1.0)  # and a share of the others below 0 %
            axis.plot([others], [at], color=_GRAY, marker="|", markersize=9)
        axis.set_yticks(range(len(rows)), [_short(row["attribute"]) for row in rows])
        axis.invert_yaxis()
        axis.set_xlim(-0.03, 1.04)
        axis.xaxis.set_major_formatter("{x:.0%}")
        axis.tick_params(labelsize=7, length=0)
        axis.grid(visible=True, axis="x", color="#dddddd", linewidth=0.6)
        axis.set_title(f"segment {segment}, {people:,} people", fontsize=9, loc="left")


def _short(name: str) -> str:
    """Return a name that fits beside a panel; a dollar sign would begin a formula."""
    text = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
    return text.replace("$", r"\$")
