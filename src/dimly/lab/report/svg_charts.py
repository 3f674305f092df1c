"""SVG of a report: ladder, error curve, odds of an attacker, histogram, map of segments."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from dimly.analyst.structure.plane import SegmentMap
from dimly.display import percent
from dimly.lab.charts import SEGMENTS, LineLook
from dimly.lab.report.acuity import Acuity, Distances, SeenDistance
from dimly.mechanisms.error.models import Floats
from dimly.mechanisms.plan import Plan

WIDTH = 440  # of a drawing, in its own units: small, so that its text is large on a phone
MARGIN = 1.08  # how much farther than the reach an axis goes
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 14, 10, 40
_WIDEST_LETTER = 8.8  # on average, of bold text on a phone, where letters are largest

_SHAPES = {
    "o": [(math.cos(t * math.pi / 6), math.sin(t * math.pi / 6)) for t in range(12)],
    "^": [(0, -1.2), (1.1, 0.8), (-1.1, 0.8)],
    "D": [(0, -1.2), (1.2, 0), (0, 1.2), (-1.2, 0)],
    "v": [(0, 1.2), (1.1, -0.8), (-1.1, -0.8)],
    "P": [(-1.2, -0.4), (-0.4, -0.4), (-0.4, -1.2), (0.4, -1.2), (0.4, -0.4), (1.2, -0.4), (1.2, 0.4), (0.4, 0.4),
          (0.4, 1.2), (-0.4, 1.2), (-0.4, 0.4), (-1.2, 0.4)],
    "X": [(0, -0.5), (0.7, -1.2), (1.2, -0.7), (0.5, 0), (1.2, 0.7), (0.7, 1.2), (0, 0.5), (-0.7, 1.2), (-1.2, 0.7),
          (-0.5, 0), (-1.2, -0.7), (-0.7, -1.2)],
    "*": [((1.4 if t % 2 == 0 else 0.6) * math.sin(t * math.pi / 5), -(1.4 if t % 2 == 0 else 0.6)
           * math.cos(t * math.pi / 5)) for t in range(10)],
    "h": [(1.1 * math.sin(t * math.pi / 3), 1.1 * math.cos(t * math.pi / 3)) for t in range(6)],
    "<": [(-1.2, 0), (0.8, 1.1), (0.8, -1.1)],
}  # fmt: skip


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return round numbers from ``low`` to ``high``, at most about ``most``.

    Examples
    --------
    >>> ticks(0.0, 470.0)
    [0.0, 100.0, 200.0, 300.0, 400.0]
    """
    raw = max(high - low, 1e-12) / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * unit for unit in (1, 2, 5, 10) if power * unit >= raw)
    return [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


@dataclass(frozen=True, slots=True)
class Frame:
    """A drawing with two axes."""

    x: tuple[float, float]
    y: tuple[float, float]
    height: int = 280

    def across(self, value: float) -> float:
        """Return where a value of x lies."""
        return _LEFT + (value - self.x[0]) / (self.x[1] - self.x[0]) * (WIDTH - _LEFT - _RIGHT)

    def up(self, value: float) -> float:
        """Return where a value of y lies."""
        return self.height - _BOTTOM - (value - self.y[0]) / (self.y[1] - self.y[0]) * (self.height - _BOTTOM - _TOP)

    def path(self, points: Iterable[tuple[float, float]]) -> str:
        """Return the data of a path through points."""
        return "M" + "L".join(f"{self.across(x):.1f},{self.up(y):.1f}" for x, y in points)

    def axes(self, x_label: str, y_label: str) -> str:
        """Return grid, numbers and labels."""
        bottom, parts = self.height - _BOTTOM, []
        for value in ticks(*self.x):
            at = f"{self.across(value):.1f}"
            parts.append(f'<line class="grid" x1="{at}" x2="{at}" y1="{_TOP}" y2="{bottom}"/>')
            parts.append(f'<text x="{at}" y="{bottom + 15}" text-anchor="middle">{number(value)}</text>')
        for value in ticks(*self.y, most=5):
            at = f"{self.up(value):.1f}"
            parts.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{at}" y2="{at}"/>')
            parts.append(f'<text x="{_LEFT - 6}" y="{self.up(value) + 4:.1f}" text-anchor="end">{number(value)}</text>')
        middle = (_TOP + bottom) / 2
        parts.append(
            f'<text class="label" x="{(_LEFT + WIDTH - _RIGHT) / 2}" y="{self.height - 6}" text-anchor="middle">'
            f"{escape(x_label)}</text>"
        )
        parts.append(
            f'<text class="label" transform="translate(12 {middle}) rotate(-90)" text-anchor="middle">'
            f"{escape(y_label)}</text>"
        )
        return "".join(parts)


def drawing(name: str, title: str, words: str, height: float, content: str) -> str:
    """Return an SVG element with its text alternative; ``name`` makes its ids unique in the page."""
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-labelledby="{name}-title {name}-words">'
        f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-words">{escape(words)}</desc>{content}</svg>'
    )


def ladder(acuity: Acuity, rungs: Sequence[float], reach: float) -> str:
    """Return distances that can be told apart, one below the other, each with where estimates of it fall."""
    seen = acuity.seen(list(rungs))
    row, top = 26, 8
    height = top + row * len(seen) + 40
    bands = [_where_estimates_fall(one) for one in seen]
    ends = min(0.0, *(low for low, _ in bands)), max(MARGIN * reach, *(high for _, high in bands))  # nothing cut off
    scale = Frame(ends, (0.0, 1.0), height)
    parts = []
    for value in ticks(*ends):
        at = f"{scale.across(value):.1f}"
        parts.append(f'<line class="grid" x1="{at}" x2="{at}" y1="{top}" y2="{height - 36}"/>')
        parts.append(f'<text x="{at}" y="{height - 22}" text-anchor="middle">{number(value)}</text>')
    for i, (one, (low, high)) in enumerate(zip(seen, bands, strict=True)):
        middle = top + row * i + row / 2
        parts.append(
            f'<rect class="band" x="{scale.across(low):.1f}" y="{middle - 7:.1f}" '
            f'width="{scale.across(high) - scale.across(low):.1f}" height="14" rx="3"/>'
            f'<circle class="dot" cx="{scale.across(one.distance):.1f}" cy="{middle:.1f}" r="4.5"/>'
            f'<text x="{_LEFT - 10}" y="{middle + 4:.1f}" text-anchor="end">{number(round(one.distance))}</text>'
        )
    parts.append(
        f'<text class="label" x="{(_LEFT + WIDTH - _RIGHT) / 2}" y="{height - 5}" text-anchor="middle">'
        f"{acuity.plan.measured}</text>"
    )
    listed = ", ".join(number(round(one.distance)) for one in seen)
    words = f"Distances that can be told apart, and where 95 of 100 estimates of each fall: {listed}."
    return drawing("ladder", "Which distances can be told apart", words, height, "".join(parts))


def error_curve(acuity: Acuity, distances: Distances | None, reach: float) -> str:
    """Return the predicted standard error against the squared distance, with the distances found marked."""
    right, bend = MARGIN * reach, acuity.bend
    at = np.linspace(0.0, right, 60)
    if bend is not None and bend < right:  # else the bend would lie between two points
        at = np.sort(np.append(at, bend))
    errors = acuity.stderr(at)
    frame = Frame((0.0, right), (0.0, 1.15 * max(float(errors.max()), 1e-9)))
    parts = [frame.axes(acuity.plan.measured, "standard error of an estimate")]
    words = (
        f"The standard error rises from {number(float(errors[0]))} at squared distance 0 to "
        f"{number(float(errors[-1]))} at {number(right)}."
    )
    if distances is not None and distances.people:
        low, high = (min(max(distances.mean + 2 * side * distances.people, 0.0), right) for side in (-1, 1))
        parts.append(
            f'<rect class="band" x="{frame.across(low):.1f}" y="{_TOP}" '
            f'width="{frame.across(high) - frame.across(low):.1f}" height="{frame.height - _BOTTOM - _TOP}"/>'
        )
        words += f" Most pairs of this release lie between {number(low)} and {number(high)}."
    parts.append(f'<path class="curve" d="{frame.path(zip(at.tolist(), errors.tolist(), strict=True))}"/>')
    if distances is not None and 0 <= distances.mean <= right:
        mean, error = distances.mean, float(acuity.stderr(distances.mean))
        x, y = frame.across(mean), frame.up(error)
        label = f"average pair: {number(mean)} ± {number(error)}"
        half = _WIDEST_LETTER * len(label) / 2
        middle = min(max(x, _LEFT + half), WIDTH - _RIGHT - half)  # the numbers of the axis are left of it
        parts.append(
            f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="5"/>'
            f'<text class="strong" x="{middle:.1f}" y="{y + 20:.1f}" text-anchor="middle">{label}</text>'
        )
        words += f" The average pair of this release is at {number(mean)}, with a standard error of {number(error)}."
    return drawing("curve", "Predicted error", words, frame.height, "".join(parts))


def attack_curve(plan: Plan, seen: float | None) -> str:
    """Return how often the best attacker of one unit can be right against ε, with this plan's promise marked.

    ``seen`` is an ε that an audit has refuted: an attacker was right more often than that allows.
    """
    claimed, delta = plan.cost.epsilon, plan.cost.delta
    right = max(4.0, min(1.5 * claimed, 40.0))
    frame = Frame((0.0, right), (50.0, 103.0), 240)

    def allowed(epsilon: float) -> float:
        return 100 * right_share(epsilon, delta)

    at = np.linspace(0.0, right, 80).tolist()
    parts = [
        frame.axes("ε", "right guesses, in %"),
        f'<path class="curve" d="{frame.path([(one, allowed(one)) for one in at])}"/>',
    ]
    most = f"{math.ceil(round(10 * allowed(claimed), 6)) / 10:g} %"  # up: a promise may not look better than it is
    words = f"A promise of ε = {number(claimed)} allows {most} right guesses."
    shown = min(claimed, right)
    x, y = frame.across(shown), frame.up(allowed(claimed))
    side = "end" if x > 0.6 * WIDTH else "start"
    below = min(y + 22, frame.up(frame.y[0]) - 8)  # a small ε is near the axis, and its numbers are below that
    parts.append(
        f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="5"/>'
        f'<text class="strong" x="{x + (-8 if side == "end" else 8):.1f}" y="{below:.1f}" text-anchor="{side}">'
        f"claimed {number(claimed)}: {most}</text>"
    )
    if seen is not None:
        x, y = frame.across(min(seen, right)), frame.up(allowed(seen))
        parts.append(f'<circle class="ring" cx="{x:.1f}" cy="{y:.1f}" r="9"/>')
        least = math.floor(100 * seen) / 100
        words += f" An audit has seen at least ε = {least:.2f}, which is {math.floor(allowed(least))} %."
    return drawing("attack", "What the best attacker can guess", words, frame.height, "".join(parts))


def right_share(epsilon: float, delta: float) -> float:
    """Return how often somebody with even odds before can be right about one unit at most: (e^ε + δ)/(1 + e^ε)."""
    return min(1.0, (1.0 + delta * math.exp(-epsilon)) / (1.0 + math.exp(-epsilon)))


def histogram(distances: Distances, *, measure: str = "squared distance") -> str:
    """Return how the estimates of random pairs spread, and how noise alone would have spread them."""
    mean, noise = distances.mean, max(distances.noise, 1e-9)
    low, high = (float(edge) for edge in np.quantile(distances.values, [0.002, 0.998]))
    low, high = min(low, mean - 3 * noise), max(high, mean + 3 * noise)
    counts, edges = np.histogram(distances.values, bins=_bins(distances.values, low, high))
    low, high = float(edges[0]), float(edges[-1])
    shares = 100 * counts / len(distances.values)
    at = np.linspace(low, high, 120)
    width = edges[1] - edges[0]
    alone = 100 * width * np.exp(-(((at - mean) / noise) ** 2) / 2) / (noise * math.sqrt(2 * math.pi))
    frame = Frame((low, high), (0.0, 1.1 * max(float(shares.max()), float(alone.max()))))
    bars = "".join(
        f'<rect class="bar" x="{frame.across(left) + 0.5:.1f}" y="{frame.up(share):.1f}" '
        f'width="{frame.across(left + width) - frame.across(left) - 1:.1f}" '
        f'height="{frame.up(0.0) - frame.up(share):.1f}"/>'
        for left, share in zip(edges[:-1].tolist(), shares.tolist(), strict=True)
        if share
    )
    curve = f'<path class="alone" d="{frame.path(zip(at.tolist(), alone.tolist(), strict=True))}"/>'
    words = (
        f"Estimates of {len(distances.values):,} random pairs have average {number(mean)} and standard deviation "
        f"{number(distances.spread)}. Noise alone would give a standard deviation of {number(noise)}."
    )
    content = frame.axes(f"estimated {measure}", "% of pairs") + bars + curve
    return drawing("histogram", "Estimated distances of random pairs", words, frame.height, content)


def segment_map(found: SegmentMap) -> str:
    """Return people as points, by segment in color and shape, each segment's number at its center."""
    reach = 1.05 * float(np.quantile(np.abs(found.points), 0.995))
    left = 21  # room for a label on a phone
    size = WIDTH - left - _RIGHT
    half = size / 2

    def place(x: float, y: float) -> tuple[float, float]:
        return (left + half * (1 + x / reach), _RIGHT + half * (1 - y / reach))

    inside = (np.abs(found.points) <= reach).all(axis=1)
    parts = [f'<rect class="field" x="{left}" y="{_RIGHT}" width="{size}" height="{size}"/>']
    count = len(found.centers)
    for label in range(count):
        mine = found.points[inside & (found.labels == label)]
        data = "".join(_shape(look_of(label), *place(x, y), 2.8) for x, y in mine.tolist())
        parts.append(f'<path class="people" {_paint(label)} d="{data}"/>')
    if count > 1:
        for label, (x, y) in enumerate(_apart([place(*center) for center in found.centers.tolist()])):
            parts.append(f'<text class="name" x="{x:.1f}" y="{y + 6:.1f}" text-anchor="middle">{label}</text>')
    first, second = (percent(share) for share in found.shares)
    parts.append(
        f'<text class="label" x="{left + half}" y="{_RIGHT + size + 18}" text-anchor="middle">'
        f"strongest direction ({first} of what is left)</text>"
        f'<text class="label" transform="translate(13 {_RIGHT + half}) rotate(-90)" text-anchor="middle">'
        f"second ({second})</text>"
    )
    words = (
        f"{int(inside.sum()):,} people as points, in {count} segments with their numbers."
        if count > 1
        else f"{int(inside.sum()):,} people as points, which do not fall into groups."
    )
    return drawing("map", "SegmentMap of segments", words, _RIGHT + size + 26, "".join(parts))


def _apart(places: list[tuple[float, float]], gap: float = 20.0) -> list[tuple[float, float]]:
    """Return places for numbers, pushed away from each other until none covers another, as a rule."""
    at = np.array(places)
    at[:, 0] += 1e-3 * np.arange(len(at))  # two at one place part sideways
    for _ in range(100):
        between = at[:, None] - at
        far = np.linalg.norm(between, axis=2)
        np.fill_diagonal(far, gap)
        at += 0.25 * (between * (np.maximum(gap / far, 1.0) - 1.0)[..., None]).sum(axis=1)
    return [(x, y) for x, y in at.tolist()]


def symbol(label: int) -> str:
    """Return the mark of a segment, for a table."""
    return (
        '<svg class="symbol" viewBox="0 0 16 16" aria-hidden="true">'
        f'<path {_paint(label)} d="{_shape(look_of(label), 8, 8, 5)}"/></svg>'
    )


def look_of(label: int) -> LineLook:
    """Return how a segment looks; beyond the first ones, colors come again and are hollow."""
    return SEGMENTS[label % len(SEGMENTS)]


def _paint(label: int) -> str:
    color = look_of(label).color
    return f'fill="{color}"' if label < len(SEGMENTS) else f'fill="none" stroke="{color}" stroke-width="1.2"'


def _shape(look: LineLook, x: float, y: float, size: float) -> str:
    return "M" + "L".join(f"{x + size * a:.1f},{y + size * b:.1f}" for a, b in _SHAPES[look.marker]) + "z"


def _bins(values: Floats, low: float, high: float) -> Floats:
    """Return edges of bars. Where estimates come in steps, each bar holds as many: else they would look like a comb."""
    width = (high - low) / float(np.clip(math.sqrt(len(values)), 8, 40))
    places = np.unique(values.round(6))
    if 1 < len(places) < len(values) / 2:
        step = float(np.diff(places).min())
        width = math.ceil(width / step) * step
        low = float(places[np.searchsorted(places, low).clip(0, len(places) - 1)]) - step / 2
    edges: Floats = low + width * np.arange(math.ceil((high - low) / width) + 1, dtype=np.float64)
    return edges


def _where_estimates_fall(one: SeenDistance) -> tuple[float, float]:
    return one.distance - 1.96 * one.stderr, one.distance + 1.96 * one.stderr


def number(value: float) -> str:
    """Return a number with three digits, as people write it.

    Examples
    --------
    >>> number(1234.5), number(0.05), number(99.6), number(-0.0)
    ('1,230', '0.05', '99.6', '0')
    """
    if value == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(value)))
    rounded = round(value, digits)
    return f"{rounded:,.{max(digits, 0)}f}".rstrip("0").rstrip(".") if digits > 0 else f"{rounded:,.0f}"
