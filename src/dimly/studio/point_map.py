"""The WebGL map: places as small integers, a byte of color each, who was clicked or outlined."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from nicegui.element import Element
from numpy.typing import NDArray

from dimly.analyst.structure.plane import Plane
from dimly.studio.theme import PALETTE

MOST_POINTS: Final = 1_000_000
"""People who are drawn one by one; of more, cells are drawn."""
_CELLS: Final = 1_200  # across
_LIMIT: Final = 32_000
_INSIDE: Final = 0.002  # share of people on each side who may lie outside of the first view
_MARGIN: Final = 0.04
UNKNOWN_COLOR: Final = 255

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class MapData:
    """Everybody's place in whole numbers, and what is sent of it to the browser.

    Attributes
    ----------
    places : ndarray of int16 (users, 2)
    drawn : ndarray of int16 (points, 2)
        People, or middles of cells.
    weights : ndarray of uint8 (points,)
        How solid each is drawn: by the people in a cell.
    cells : ndarray of int32 (users,) or None
        The point that stands for each person, where points are cells.
    view : tuple of float
        What is shown at first: left, bottom, right, top.
    """

    places: NDArray[np.int16]
    drawn: NDArray[np.int16]
    weights: Bytes
    cells: NDArray[np.int32] | None
    view: tuple[float, float, float, float]

    @classmethod
    def of(cls, plane: Plane, *, most: int = MOST_POINTS) -> "MapData":
        """Return the map of a plane. Those of whom nothing is known lie in the middle, in gray."""
        points = plane.points
        middle = np.median(points[plane.known], axis=0) if plane.known.any() else np.zeros(2, np.float32)
        reach = max(float(np.abs(points - middle).max(initial=0.0)), 1e-12)
        places = np.rint((points - middle) * (_LIMIT / reach)).astype(np.int16)
        known = places[plane.known] if plane.known.any() else places
        low, high = (np.quantile(known, q, axis=0) for q in (_INSIDE, 1 - _INSIDE))
        room = _MARGIN * np.maximum(high - low, 1.0)
        view = (*(low - room).tolist(), *(high + room).tolist())
        if len(places) <= most:
            return cls(places, places, np.full(len(places), 255, np.uint8), None, view)
        numbers = _cell_numbers(places, low, high)
        _, cells, counts = np.unique(numbers, return_inverse=True, return_counts=True)
        sums = np.column_stack([np.bincount(cells, places[:, i]) for i in (0, 1)]) / counts[:, None]
        weights = 255 * np.sqrt(counts / counts.max())
        return cls(
            places,
            np.rint(sums).astype(np.int16),
            np.maximum(weights, 16).astype(np.uint8),
            cells.astype(np.int32),
            view,
        )

    def encoded(self) -> bytes:
        """Return the points as the page reads them: how many, places, weights."""
        count = np.array([len(self.drawn)], "<u4")
        return count.tobytes() + self.drawn.astype("<i2").tobytes() + self.weights.tobytes()

    def colors_drawn(self, colors: Bytes) -> bytes:
        """Return the color of each point: a person's own, or the most frequent one of a cell."""
        if self.cells is None:
            return colors.tobytes()
        pairs, counts = np.unique(self.cells.astype(np.int64) * 256 + colors, return_counts=True)
        order = np.lexsort((counts, pairs >> 8))  # the last of each cell is its most frequent
        cells = pairs[order] >> 8
        last = np.append(cells[1:] != cells[:-1], True)
        drawn: Bytes = (pairs[order][last] & 255).astype(np.uint8)
        return drawn.tobytes()

    def nearest(self, x: float, y: float) -> int:
        """Return the position of whoever lies nearest to a place."""
        away = self.places.astype(np.float32) - np.array([x, y], np.float32)
        return int((away * away).sum(axis=1).argmin())

    def inside(self, outline: list[list[float]]) -> NDArray[np.int64]:
        """Return the positions of those who lie inside of an outline."""
        corners = np.array(outline, np.float64)
        low, high = corners.min(axis=0), corners.max(axis=0)
        near = np.flatnonzero(((self.places >= low) & (self.places <= high)).all(axis=1))
        inside: NDArray[np.int64] = near[_within(self.places[near].astype(np.float64), corners)]
        return inside


def _cell_numbers(places: NDArray[np.int16], low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.int64]:
    size = float((high - low).max()) / _CELLS
    cells = np.floor((places - low) / max(size, 1.0)).astype(np.int64)
    return cells[:, 0] * (1 << 20) + cells[:, 1]


_RAMP: Final = ("440154", "482878", "3e4989", "31688e", "26828e", "1f9e89", "35b779", "6ece58", "b5de2b", "fde725")
"""Ten steps of viridis, by Smith and van der Walt (CC0): as light as they are high, also for the color-blind."""


def ramp() -> list[str]:
    """Return 255 colors from low to high."""
    steps = np.array([[int(one[i : i + 2], 16) for i in (0, 2, 4)] for one in _RAMP], np.float64)
    at = np.linspace(0, len(steps) - 1, 255)
    parts = np.column_stack([np.interp(at, np.arange(len(steps)), steps[:, i]) for i in range(3)])
    return ["#" + "".join(f"{part:02x}" for part in one) for one in np.rint(parts).astype(int).tolist()]


def _within(points: NDArray[np.float64], corners: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return who lies inside of an outline: those from whom a ray to the right crosses it an odd number of times."""
    inside = np.zeros(len(points), np.bool_)
    x, y = points[:, 0], points[:, 1]
    for (x1, y1), (x2, y2) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        if y1 != y2:
            crosses = ((y1 > y) != (y2 > y)) & (x < x1 + (y - y1) * ((x2 - x1) / (y2 - y1)))
            inside ^= crosses
    return inside


class PointMap(Element, component="point_map.js"):
    """The element that draws a map.

    Emits ``pick`` with a place, ``lasso`` with an outline, and ``drawn`` once a map is on the screen.
    """

    def __init__(self, url: str, data: MapData, *, label: str) -> None:
        super().__init__()
        self._props["points-url"] = url
        self._props["view"] = list(data.view)
        self._props["palette"] = list(PALETTE)
        self._props["marks"] = []
        self._props["mode"] = "pan"
        self._props["label"] = label

    def color(self, url: str, palette: list[str]) -> None:
        """Color the points anew."""
        self._props["palette"] = palette
        self._props["colors-url"] = url
        self.update()

    def mark_people(self, marks: list[tuple[float, float, str]]) -> None:
        """Mark people by a ring and a name; without a name, the one who was asked about."""
        self._props["marks"] = [list(one) for one in marks]
        self.update()

    def set_mode(self, mode: Any) -> None:
        """Let a drag move the map (``pan``) or draw an outline (``lasso``)."""
        self._props["mode"] = mode
        self.update()
