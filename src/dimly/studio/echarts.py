"""Options of ECharts: tradeoff, blur, attack, histogram, ladder, spending, pairs; light and dark."""

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from dimly.lab.blur import Blur
from dimly.mechanisms.error.models import Floats
from dimly.planner.tradeoff import TradedError
from dimly.studio.theme import PALETTE, number

_GRAY: Final = "#7d8a95"
_FAINT: Final = "rgba(125,138,149,.22)"
_VERDICTS: Final = {"good": "#1a9a5b", "coarse": "#d99a1c", "not feasible": "#c8452f", "unknown": "#7d8a95"}
_NAMES: Final = {"good": "good", "coarse": "coarse", "not feasible": "noise", "unknown": "depends"}
_LEGEND: Final = {"top": 0, "textStyle": {"color": _GRAY}, "itemWidth": 10, "itemHeight": 10}
_CHOSEN: Final = "#3a8fd6"  # seen on white and on black
Options = dict[str, Any]


def axis(name: str, **more: Any) -> Options:
    """Return an axis with a name in the middle."""
    return {
        "name": name,
        "nameLocation": "middle",
        "nameGap": 30,
        "nameTextStyle": {"color": _GRAY, "fontSize": 12.5},
        "axisLabel": {"color": _GRAY},
        "axisLine": {"show": True, "lineStyle": {"color": _GRAY}},
        "splitLine": {"lineStyle": {"color": _FAINT}},
    } | more


def plain(**more: Any) -> Options:
    """Return what all charts share."""
    return {
        "animation": False,
        "grid": {"left": 58, "right": 18, "top": 18, "bottom": 46},
        "textStyle": {"fontFamily": "system-ui, sans-serif"},
        "aria": {"enabled": True},
    } | more


def tradeoff_chart(curve: Sequence[TradedError], epsilon: float, stderr: float) -> Options:
    """Return the error by ε, colored by what it would be good for, and the chosen point."""
    series = []
    for verdict, color in _VERDICTS.items():
        points = [[one.epsilon, one.stderr] for one in curve if one.verdict == verdict]
        series.append(
            {
                "type": "scatter",
                "name": _NAMES[verdict],
                "data": points,
                "symbolSize": 8,
                "itemStyle": {"color": color},
                "z": 3,
            }
        )
    line = {
        "type": "line",
        "name": "",
        "data": [[one.epsilon, one.stderr] for one in curve],
        "showSymbol": False,
        "lineStyle": {"color": _GRAY, "width": 1.5},
        "silent": True,
    }
    chosen = {
        "type": "scatter",
        "name": "your choice",
        "data": [[epsilon, stderr]],
        "symbolSize": 17,
        "itemStyle": {"color": "rgba(0,0,0,0)", "borderColor": _CHOSEN, "borderWidth": 4},
        "z": 5,
    }
    shown = [one["name"] for one in series if one["data"]]
    return plain(
        grid={"left": 62, "right": 18, "top": 34, "bottom": 46},
        legend=_LEGEND | {"data": [*shown, "your choice"]},
        tooltip={"trigger": "item", "renderMode": "richText", "formatter": "ε, error: {c}"},
        xAxis=axis("ε: smaller protects more", type="log", min=_below(curve), max=_above(curve)),
        yAxis=axis("standard error of a distance", type="log", nameGap=44),
        series=[line, *series, chosen],
    )


def _below(curve: Sequence[TradedError]) -> float:
    return min((one.epsilon for one in curve), default=0.1)


def _above(curve: Sequence[TradedError]) -> float:
    return max((one.epsilon for one in curve), default=10.0)


def blur_chart(places: Floats, groups: Any) -> Options:
    """Return people on a plane, colored by group."""
    reach = 1.06 * float(np.abs(places).max(initial=1e-9))
    labels = np.zeros(len(places), np.int64) if groups is None else groups
    series = [
        {
            "type": "scatter",
            "name": f"group {label}",  # from 0, as segments are numbered everywhere
            "data": np.round(places[labels == label], 3).tolist(),
            "symbolSize": 7,
            "itemStyle": {"color": PALETTE[label % len(PALETTE)], "opacity": 0.85},
            "silent": True,
        }
        for label in np.unique(labels).tolist()
    ]
    bare = {"show": False, "min": -reach, "max": reach}
    return plain(
        grid={"left": 6, "right": 6, "top": 6, "bottom": 6},
        xAxis=bare,
        yAxis=bare,
        series=series,
    )


def blur_charts(blur: Blur) -> tuple[Options, Options]:
    """Return people before and after noise."""
    return (
        blur_chart(blur.before, blur.groups),
        blur_chart(blur.after, blur.groups),
    )


def attack_chart(curve: Sequence[tuple[float, float]], epsilon: float, measured: float | None) -> Options:
    """Return how often the best attacker can be right, by ε, and how often one was."""
    series: list[Options] = [
        {
            "type": "line",
            "name": "most that is possible",
            "data": [[x, round(100 * y, 2)] for x, y in curve],
            "showSymbol": False,
            "lineStyle": {"color": _GRAY, "width": 2, "type": "dashed"},
            "itemStyle": {"color": _GRAY},
        },
        {
            "type": "scatter",
            "name": "measured",
            "data": [] if measured is None else [[epsilon, round(100 * measured, 2)]],
            "symbolSize": 14,
            "itemStyle": {"color": "#d55e00"},
        },
    ]
    return plain(
        grid={"left": 52, "right": 16, "top": 30, "bottom": 46},
        legend=_LEGEND | {"itemWidth": 20},
        xAxis=axis("ε of one attribute", type="log", min=curve[0][0], max=curve[-1][0]),
        yAxis=axis("right guesses, %", type="value", min=50, max=100, nameGap=36),
        series=series,
    )


def histogram(values: Floats, *, noise: float, what: str) -> Options:
    """Return how far apart random pairs seem to be, and how wide noise alone would make it."""
    low, high = (float(np.quantile(values, q)) for q in (0.002, 0.998))
    counts, edges = np.histogram(values, bins=60, range=(low, max(high, low + 1e-9)))
    middles = (edges[1:] + edges[:-1]) / 2
    mean, width = float(values.mean()), edges[1] - edges[0]
    bell = [
        [
            float(x),
            float(
                len(values) * width * math.exp(-((x - mean) ** 2) / (2 * noise**2)) / (noise * math.sqrt(2 * math.pi))
            ),
        ]
        for x in np.linspace(low, high, 121)
    ]
    return plain(
        grid={"left": 16, "right": 18, "top": 30, "bottom": 46},
        legend=_LEGEND | {"itemWidth": 20},
        xAxis=axis(
            f"{what}, estimated",
            type="value",
            min=low,
            max=high,
            axisLabel={"color": _GRAY, "hideOverlap": True, "showMinLabel": False, "showMaxLabel": False},
        ),
        yAxis={"show": False, "type": "value"},
        series=[
            {
                "type": "bar",
                "name": "pairs of people",
                "data": [[round(float(x), 2), int(n)] for x, n in zip(middles, counts, strict=True)],
                "barWidth": "98%",
                "itemStyle": {"color": "#0072b2", "opacity": 0.75},
            },
            {
                "type": "line",
                "name": "if all were equally far: noise alone",
                "data": [[round(x, 2), round(y, 2)] for x, y in bell],
                "showSymbol": False,
                "lineStyle": {"color": "#d55e00", "width": 2, "type": "dashed"},
                "itemStyle": {"color": "#d55e00"},
            },
        ],
    )


def ladder_chart(rungs: Sequence[float], reach: float, *, what: str) -> Options:
    """Return the distances that can be told apart, as steps on a line."""
    return plain(
        grid={"left": 22, "right": 22, "top": 26, "bottom": 46},
        xAxis=axis(
            what,
            type="value",
            min=0,
            max=round(reach, 1),
            axisLabel={"color": _GRAY, "showMaxLabel": False},
        ),
        yAxis={"show": False, "min": -1, "max": 1},
        series=[
            {
                "type": "line",
                "data": [[float(f"{one:.3g}"), 0] for one in rungs],
                "symbol": "circle",
                "symbolSize": 13,
                "lineStyle": {"color": "#0072b2", "width": 3},
                "itemStyle": {"color": "#0072b2"},
                "label": {"show": len(rungs) <= 14, "position": "top", "color": _GRAY, "formatter": "{@[0]}"},
            }
        ],
    )


def spending_chart(budget: float, parts: Sequence[tuple[str, float]], left: float) -> Options:
    """Return one bar: what was spent on what, and what is left."""
    series: list[Options] = []
    for i, (name, amount) in enumerate([*parts, ("left", left)]):
        is_left = i == len(parts)
        series.append(
            {
                "type": "bar",
                "stack": "all",
                "name": name,
                "data": [round(amount, 6)],
                "barWidth": 26,
                "itemStyle": {"color": _FAINT if is_left else PALETTE[i % len(PALETTE)], "borderRadius": 3},
                "label": {
                    "show": amount > 0.08 * budget,
                    "formatter": number(amount),
                    "color": _GRAY if is_left else "#fff",
                },
            }
        )
    return plain(
        grid={"left": 6, "right": 14, "top": 6, "bottom": 26},
        tooltip={"trigger": "item", "renderMode": "richText"},
        xAxis={
            "type": "value",
            "max": max(budget, sum(a for _, a in parts)),
            "axisLabel": {"color": _GRAY},
            "splitLine": {"show": False},
        },
        yAxis={"type": "category", "data": [""], "show": False},
        series=series,
    )


def pair_chart(first: Floats, second: Floats, name: str, other: str) -> Options:
    """Return distances of the same pairs by two releases."""
    some = slice(None, 1000)
    both = np.concatenate([first[some], second[some]])
    low, high = (float(np.quantile(both, q)) for q in (0.002, 0.998))
    return plain(
        grid={"left": 62, "right": 18, "top": 14, "bottom": 46},
        xAxis=axis(f"distance by {name}", type="value", min=round(low), max=round(high)),
        yAxis=axis(f"distance by {other}", type="value", min=round(low), max=round(high), nameGap=44),
        series=[
            {
                "type": "scatter",
                "data": np.column_stack([first[some], second[some]]).round(1).tolist(),
                "symbolSize": 4,
                "itemStyle": {"color": "#0072b2", "opacity": 0.5},
                "silent": True,
            },
            {
                "type": "line",
                "data": [[round(low), round(low)], [round(high), round(high)]],
                "showSymbol": False,
                "lineStyle": {"color": _GRAY, "type": "dashed"},
                "silent": True,
            },
        ],
    )
