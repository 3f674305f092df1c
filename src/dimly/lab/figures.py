"""Figures of theory, without data: privacy curves, error by k or epsilon, who wins. For `dimly figure`."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import scipy

from dimly.errors import ParameterError, check_choice
from dimly.lab.charts import NOBODY, Axis, Chart, Drawn, Line, LineLook, Winners, label_of, looks_of
from dimly.lab.compare import DELTA, MENU, PAPER, Prediction, blocks_of, predict
from dimly.mechanisms.error.dimension import nominal_noise
from dimly.mechanisms.error.models import sketch_error
from dimly.mechanisms.make import Sketching, default_blend, sketching
from dimly.planner.paper import PAPER as PAPERS_MECHANISM
from dimly.privacy import Budget, Rule, delta_of

_SIGMAS = (0.5, 1.0, 2.0)
_SIGMA_LOOKS = (LineLook("#0072B2", "o"), LineLook("#D55E00", "s"), LineLook("#009E73", "^"))
_DISTANCE = "squared distance (attributes in which two people differ)"
_STDERR = "standard error of an estimated squared distance"
_DASHES = ("-", "--", ":", "-.")


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a figure is about, where it leaves that open."""

    epsilon: float = 1.0
    delta: float = DELTA
    distance: float = 400.0
    n_attributes: int = 100_000
    mechanisms: Sequence[str] = MENU

    def __post_init__(self) -> None:
        Budget(self.epsilon, self.delta)
        if not 0 < self.distance <= self.n_attributes:
            raise ParameterError(
                f"distance must be > 0 and at most n_attributes = {self.n_attributes}, got {self.distance!r}."
            )


def privacy_curves(_: Circumstances) -> Chart:
    """Figure 1 of the paper: what Gaussian noise promises, exactly and by Theorem 1."""
    epsilons = [i / 50 for i in range(1, 251)]
    lines = []
    for sigma, look in zip(_SIGMAS, _SIGMA_LOOKS, strict=True):
        for rule, name, dashes in (("exact", "exact", "-"), ("theorem1", "Theorem 1", "--")):
            curve = [(e, delta_of(sigma, epsilon=e, rule=rule)) for e in epsilons]  # type: ignore[arg-type]
            shown = [(e, d) for e, d in curve if d < 0.5 or rule == "exact"]  # Theorem 1 is about δ < 1/2
            if shown:
                x, y = zip(*shown, strict=True)
                lines.append(Line(f"σ = {sigma:g}, {name}", x, y, look._replace(dashes=dashes), every_point=False))
    return Chart(
        "What Gaussian noise of standard deviation σ promises (sensitivity 1)",
        Axis("ε (odds change by at most $e^ε$, but for δ)", limits=(0.0, 5.0)),
        Axis("δ (a probability)", "log", limits=(1e-8, 1.0)),
        lines,
        "The paper's Figure 1. Everything on and above a curve is promised. Of σ = 0.5 Theorem 1 proves nothing here.",
    )


def error_by_k(about: Circumstances) -> Chart:
    """Return the error of sketches against their dimension, each best k marked, the paper's by its own rule."""
    budget = Budget(about.epsilon, about.delta)
    names = [name for name in about.mechanisms if name == PAPER or sketching(name)]
    if not names:
        raise ParameterError("mechanisms must name one that sketches, got none of them.")
    looks = looks_of(names)
    lines, drawn = [], []
    for name in names:
        best = predict(name, budget, distance=about.distance, n_attributes=about.n_attributes).k
        if best is None:
            continue
        step = blocks_of(name)
        ks = sorted({step * max(1, round(2 ** (i / 4) / step)) for i in range(4, 57)} | {best})
        errors = [_error_at(name, budget, k, about) for k in ks]
        lines.append(Line(label_of(name), ks, errors, looks[name], [ks.index(best)], every_point=False))
        drawn.append(name)
    if not lines:
        raise ParameterError(f"mechanisms must name one that can serve at this budget, got {', '.join(names)}.")
    return Chart(
        f"Error against sketch dimension, squared distance {about.distance:g}{_among(about.n_attributes)}, "
        f"ε = {about.epsilon:g}",
        Axis("k, numbers published per person", "log2"),
        Axis(_STDERR, "log"),
        lines,
        "Circles: the best k." + _budgets(drawn, about.delta),
    )


def error_by_epsilon(about: Circumstances) -> Chart:
    """Return the error against ε, each mechanism at its best k."""
    epsilons = [2 ** (i / 2) for i in range(-6, 7)]
    looks = looks_of(about.mechanisms)
    lines, drawn = [], []
    for name in about.mechanisms:
        found = [
            predict(name, Budget(e, about.delta), distance=about.distance, n_attributes=about.n_attributes)
            for e in epsilons
        ]
        shown = [(one.epsilon, one.stderr) for one in found if one.stderr is not None]
        if shown:
            x, y = zip(*shown, strict=True)
            lines.append(Line(label_of(name), x, y, looks[name]))
            drawn.append(name)
    ends = [epsilons[0], epsilons[-1]]
    as_large = Line("as large as the distance", ends, [about.distance] * 2, LineLook("#666666", dashes=":"))
    return Chart(
        f"Error against ε, squared distance {about.distance:g}, {about.n_attributes:,} attributes",
        Axis("ε (odds of one attribute change by at most $e^ε$)", "log2"),
        Axis(_STDERR, "log"),
        [*lines, as_large],
        "Each at its best k." + _budgets(drawn, about.delta),
    )


def comparison_chart(found: Sequence[Prediction]) -> Chart:
    """Return predictions over ε, a line for each mechanism and set of circumstances."""
    looks = looks_of(list(dict.fromkeys(one.mechanism for one in found)))
    places = list(dict.fromkeys((one.n_attributes, one.distance) for one in found))
    check_places(len(places))
    several = len(places) > 1
    lines = []
    for name, look in looks.items():
        for i, (d, at) in enumerate(places):
            here = [one for one in found if (one.mechanism, one.n_attributes, one.distance) == (name, d, at)]
            shown = [(one.epsilon, one.stderr) for one in here if one.stderr is not None]
            if shown:
                x, y = zip(*sorted(shown), strict=True)
                where = f", distance {at:g}{_among(d)}" if several else ""
                lines.append(Line(label_of(name) + where, x, y, look._replace(dashes=_DASHES[i])))
    (d, at), *_ = places
    return Chart(
        "Error against ε" if several else f"Error against ε, squared distance {at:g}{_among(d)}",
        Axis("ε (odds of one attribute change by at most $e^ε$)", "log2"),
        Axis(_STDERR, "log"),
        lines,
        "Each at its best k.",
    )


def check_places(count: int) -> None:
    """Refuse more combinations of distance and number of attributes than there are dashes to tell them apart.

    Raises
    ------
    ParameterError
        If there are more.
    """
    if count > len(_DASHES):
        raise ParameterError(
            f"figure must show at most {len(_DASHES)} combinations of distance and number of attributes, got {count}. "
            "Name fewer, or draw several figures."
        )


def who_wins(about: Circumstances) -> Winners:
    """Return the mechanism with the smallest error over distances and numbers of attributes."""
    budget = Budget(about.epsilon, about.delta)
    distances = [10 * 2 ** (i / 2) for i in range(21)]
    sizes = [round(100 * 10 ** (i / 5)) for i in range(21)]
    best = []
    for d in sizes:
        row = []
        for at in distances:
            found = [predict(name, budget, distance=at, n_attributes=d) for name in about.mechanisms] if at <= d else []
            able = [(one.stderr, one.mechanism) for one in found if one.stderr is not None]
            row.append(min(able)[1] if able else NOBODY)
        best.append(row)
    return Winners(
        f"Who has the smallest error at ε = {about.epsilon:g}",
        Axis(_DISTANCE, "log"),
        Axis("number of attributes", "log"),
        distances,
        sizes,
        best,
        f"Each at its best k for the distance. δ = {about.delta:g} for those that need one.",
    )


_TELLING = 200  # attributes that each of two groups likes more than the other does
_LIKED, _OTHER = 0.15, 0.05  # how likely a person has one of their own group's, and of the other's


def along_directions(about: Circumstances) -> Chart:
    """Return what one published number tells of two groups, along a direction that tells them apart and at random.

    Both sum up 400 attributes with weights of ±1, and have the same noise. Along the direction the weights say whose
    favorite an attribute is, and small differences add up; at random signs they mostly cancel: 2·200·0.1 = 40 against
    about √400·0.1 = 2.
    """
    spread = math.sqrt(_TELLING * (_LIKED * (1 - _LIKED) + _OTHER * (1 - _OTHER)))
    noise = 1 / about.epsilon
    reach = 6 * max(spread, noise) + _TELLING * (_LIKED - _OTHER)
    at = [reach * (i / 100 - 1) for i in range(201)]
    lines = []
    for name, gap, dashes in (
        ("along a direction", 2 * _TELLING * (_LIKED - _OTHER), "-"),
        ("at random signs", math.sqrt(2 * _TELLING) * (_LIKED - _OTHER), ":"),
    ):
        for side, whose, look in ((-1, "one group", _SIGMA_LOOKS[0]), (1, "the other", _SIGMA_LOOKS[1])):
            y = [_blurred(x - side * gap / 2, spread, noise) for x in at]
            lines.append(Line(f"{name}: {whose}", at, y, look._replace(dashes=dashes), every_point=False))
    return Chart(
        f"What one published number tells of two groups, ε = {about.epsilon:g}",
        Axis("published number, noise included"),
        Axis("density over people", limits=(0.0, 1.45 * max(max(line.y) for line in lines))),
        lines,
        f"Theory. Each group has {_TELLING} favorites, which its people have with probability {_LIKED:g} and others "
        f"with {_OTHER:g}; one attribute moves the number by 1 in either case, and the Laplace noise is the same.",
    )


def _blurred(x: float, spread: float, scale: float) -> float:
    """Return the density of a Gaussian with this deviation plus Laplace noise of this scale."""
    # e^(s²/2b²)/(4b)·(e^(−x/b)·erfc(s/b√2 − x/s√2) + e^(x/b)·erfc(s/b√2 + x/s√2)), by scaled functions.
    ratio, along = spread / (scale * math.sqrt(2)), x / (spread * math.sqrt(2))
    bell = math.exp(-(along**2))
    return bell / (4 * scale) * float(scipy.special.erfcx(ratio - along) + scipy.special.erfcx(ratio + along))


FIGURES: dict[str, Callable[[Circumstances], Drawn]] = {
    "privacy-curves": privacy_curves,
    "error-by-k": error_by_k,
    "winners": who_wins,
    "error-by-epsilon": error_by_epsilon,
    "directions": along_directions,
}
"""By name. The first one is Figure 1 of the paper."""


def figure_named(name: str, about: Circumstances | None = None) -> Drawn:
    """Return a figure.

    Raises
    ------
    ParameterError
        If there is none of that name.
    """
    check_choice("name", name, FIGURES)
    return FIGURES[name](about or Circumstances())


def _among(n_attributes: int | None) -> str:
    return "" if n_attributes is None else f", {n_attributes:,} attributes"


def _budgets(drawn: Sequence[str], delta: float) -> str:
    """Return what those that are drawn promise, as the end of a note."""
    if PAPER not in drawn:
        return ""
    laplace = "; Laplace has δ = 0" if any(name.endswith("+laplace") for name in drawn) else ""
    return f" The paper's has its Theorem 1's noise at δ = {delta:g}{laplace}."


def _error_at(name: str, budget: Budget, k: int, about: Circumstances) -> float:
    mechanism = PAPERS_MECHANISM if name == PAPER else name
    rule: Rule = "theorem1" if name == PAPER else "exact"
    kind = Sketching.of(mechanism)
    blocks = blocks_of(name)
    noise = nominal_noise(kind, budget, k=k, blocks=blocks, rule=rule, n_attributes=about.n_attributes)
    model = sketch_error(
        kind.family, k=k, blocks=blocks, noise=noise, bits=True, blend=default_blend(kind.family, bits=True)
    )
    half = about.distance / 2
    return math.sqrt(float(model.distance(weights=(half, half))(about.distance)))
