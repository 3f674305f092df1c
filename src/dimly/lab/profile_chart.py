"""Profiles of segments as a figure: what the people of each segment have more often than others, with intervals."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from dimly.lab.charts import SEGMENTS, blank_panels, signed
from dimly.release.profiles import Profiles

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_PANELS: Final = 24
_ACROSS: Final = 3
_LONGEST: Final = 28
_GRAY: Final = "#666666"


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
            axis.plot([row["share"] - row["apart"]], [at], color=_GRAY, marker="|", markersize=9)
        axis.set_yticks(range(len(rows)), [_short(row["attribute"]) for row in rows])
        axis.invert_yaxis()
        axis.set_xlim(0, 1.04)
        axis.xaxis.set_major_formatter("{x:.0%}")
        axis.tick_params(labelsize=7, length=0)
        axis.grid(visible=True, axis="x", color="#dddddd", linewidth=0.6)
        axis.set_title(f"segment {segment}, {people:,} people", fontsize=9, loc="left")


def _short(name: str) -> str:
    """Return a name that fits beside a panel; a dollar sign would begin a formula."""
    text = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
    return text.replace("$", r"\$")
