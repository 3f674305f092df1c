"""The picture of ``dimly attack``: reading, inference, averaging and linkage, drawn."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dimly.audit.attacks import EPSILONS, KNOWN, LINKED, MECHANISMS, Attacks
from dimly.errors import ParameterError, need_extra
from dimly.files import drafted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS: Final = (".png", ".svg", ".pdf")
# Okabe and Ito's colors, which the color-blind can tell apart; markers and dashes say the same in print.
_LOOKS: Final = (("#0072B2", "o"), ("#009E73", "D"), ("#D55E00", "s"), ("#CC79A7", "^"))
_SIZES: Final = (9, 5, 9, 5)  # of every two that lie upon each other, the one beneath is the larger


def check_format(path: Path) -> None:
    """Refuse a file whose name does not say what kind of picture it is to be."""
    if path.suffix.lower() not in FORMATS:
        raise ParameterError(f"figure must end in {', '.join(FORMATS)}, got {path.name!r}.")
    need_extra("Figures", "matplotlib", "plots")


def draw(attacks: Attacks) -> "Figure":
    """Return four charts: reading, inference, averaging and linkage."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - slow to import

    figure = Figure(figsize=(10.5, 8), layout="constrained")
    (reading, inference), (averaging, linkage) = figure.subplots(2, 2)
    _draw_reading(reading, attacks)
    _draw_inference(inference, attacks)
    _draw_averaging(averaging, attacks)
    _draw_linkage(linkage, attacks)
    for chart in (reading, inference, averaging, linkage):
        chart.grid(alpha=0.3)
        chart.spines[["top", "right"]].set_visible(False)
    return figure


def save(attacks: Attacks, path: Path, *, overwrite: bool) -> None:
    """Write the picture to a new file."""
    check_format(path)
    with drafted(path, overwrite=overwrite) as draft:
        draw(attacks).savefig(draft, format=path.suffix[1:].lower(), dpi=150)


def _epsilon_axis(chart: Any, values: tuple[float, ...]) -> None:
    chart.set_xscale("log")
    chart.set_xticks(values, [f"{value:g}" for value in values])
    chart.minorticks_off()
    chart.set_xlabel("ε")


def _draw_reading(chart: Any, attacks: Attacks) -> None:
    none, *noisy = attacks.reading
    places = [one.epsilon for one in noisy]
    chart.plot(
        places, [one.attributes for one in noisy], color=_LOOKS[0][0], marker="o", label="attributes that are read"
    )
    chart.plot(
        places,
        [one.exactly for one in noisy],
        color=_LOOKS[2][0],
        marker="s",
        ls="--",
        label="people who are read whole",
    )
    end = 10 * places[-1]
    for share, look in ((none.attributes, _LOOKS[0]), (none.exactly, _LOOKS[2])):
        chart.plot([end], [share], color=look[0], marker=look[1], ms=9, ls="none")
    chart.axhline(0.01, color="black", lw=1, ls=":", label="guessing")
    _epsilon_axis(chart, (*EPSILONS, end))
    chart.set_xticks([*EPSILONS, end], [*(f"{value:g}" for value in EPSILONS), "no noise"])
    chart.set_ylim(-0.03, 1.05)
    chart.set_ylabel("share")
    chart.set_title("Reading 10 of 1,000 attributes from 64 numbers", fontsize=11)
    chart.legend(fontsize=9, loc="upper left")


def _draw_inference(chart: Any, attacks: Attacks) -> None:
    for (color, marker), size, name in zip(_LOOKS, _SIZES, MECHANISMS, strict=True):
        ones = [one for one in attacks.inference if one.mechanism == name]
        places, shares = [one.epsilon for one in ones], [one.right for one in ones]
        # No lines from point to point: they would cross the bound, which is curved.
        chart.plot(places, shares, color=color, marker=marker, ms=size, ls="none", label=name)
    grid = [10 ** (-1 + 2 * i / 100) for i in range(101)]
    limit = [1 / (1 + math.exp(-epsilon)) for epsilon in grid]
    chart.plot(grid, limit, color="black", lw=1, ls=":", label="bound e^ε/(1+e^ε)")
    _epsilon_axis(chart, EPSILONS)
    chart.set_ylim(0.48, 1.02)
    chart.set_ylabel("right guesses")
    chart.set_title("The best guess about one attribute, all others known", fontsize=11)
    chart.legend(fontsize=9, loc="upper left")


def _draw_averaging(chart: Any, attacks: Attacks) -> None:
    places = [one.repeats for one in attacks.averaging]
    chart.plot(places, [one.right for one in attacks.averaging], color=_LOOKS[0][0], marker="o", label="right guesses")
    chart.plot(
        places, [one.bound for one in attacks.averaging], color="black", lw=1, ls=":", label="bound of all together"
    )
    chart.plot(
        places, [one.one for one in attacks.averaging], color=_LOOKS[2][0], ls="--", label="bound of one release"
    )
    chart.set_xscale("log")
    chart.set_xticks(places, [str(one) for one in places])
    chart.minorticks_off()
    chart.set_xlabel("releases with fresh noise, ε = 0.5 each")
    chart.set_ylim(0.48, 1.02)
    chart.set_ylabel("right guesses")
    chart.set_title("Averaging repeated releases (counting+laplace)", fontsize=11)
    chart.legend(fontsize=9, loc="lower right")


def _draw_linkage(chart: Any, attacks: Attacks) -> None:
    """Draw whose row is found, and beside it how often a further attribute is read from that row."""
    for (color, marker), size, epsilon in zip(_LOOKS, _SIZES, LINKED, strict=True):
        ones = [one for one in attacks.linkage if one.epsilon == epsilon]
        name = "no noise" if math.isinf(epsilon) else f"ε = {epsilon:g}"
        places = [one.known for one in ones]
        look = {"color": color, "marker": marker, "ms": size, "lw": size / 3}
        chart.plot(places, [one.found for one in ones], label=f"{name}: found", **look)
        chart.plot(places, [one.inferred for one in ones], ls="--", mfc="white", label="one more", **look)
    chart.set_xticks(KNOWN)
    chart.set_xlabel("attributes of the person that are known, of 10")
    chart.set_ylim(-0.03, 1.05)
    chart.set_ylabel("share")
    chart.set_title(
        f"Finding a person among {attacks.crowd:,} pseudonyms,\nand guessing one more attribute", fontsize=11
    )
    chart.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=4)
