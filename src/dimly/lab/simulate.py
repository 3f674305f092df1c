"""Made-up people published and asked beside the truth and what theory predicted: `simulate`, `Outcome`, `Truth`."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from dimly.analyst.release import Release
from dimly.api import publish_public
from dimly.errors import ParameterError
from dimly.lab.charts import Axis, Chart, Line, LineLook, Panel, Shares, label_of, looks_of
from dimly.lab.compare import DELTA, PAPER, blocks_of
from dimly.lab.population import Population
from dimly.mechanisms.error.dimension import best_k
from dimly.mechanisms.make import NOISY_DISTANCES, RANDOMIZED_RESPONSE, check_mechanism, needs_delta
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.projection.directions import Directions
from dimly.planner.paper import PAPER as PAPERS_MECHANISM
from dimly.privacy import Budget

Rows = NDArray[np.int64]

N_PAIRS = 4_000
N_NEIGHBORS = 10
N_ASKED = 100
"""People whose neighbors are looked for, among all."""


class PredictedAndFound(NamedTuple):
    """What theory said, and what came out."""

    predicted: float
    measured: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one plan did on a population.

    Attributes
    ----------
    plan : Plan
    error : PredictedAndFound
        Root mean square error of squared distances, over random pairs; along the directions, where there are some.
    coverage : float
        Share of 95 % intervals that hold the true distance.
    ranking : PredictedAndFound
        Probability that of a near and a far pair (below the lower, above the upper quartile) the near one is
        estimated to be nearer.
    estimates : ndarray
        Squared distances of the pairs of the truth.
    recall : float or None
        Share of ten found neighbors that are at least as near as the true tenth; denoised.
    recall_undenoised : float or None
    agreement : float or None
        Adjusted Rand index of segments and true groups; None where nobody is placed anywhere.
    stability : float or None
        What the segments say of themselves.
    labels : ndarray or None
        Everybody's segment.
    """

    plan: Plan
    error: PredictedAndFound
    coverage: float
    ranking: PredictedAndFound
    estimates: NDArray[np.float64] = field(repr=False, compare=False)
    recall: float | None = None
    recall_undenoised: float | None = None
    agreement: float | None = None
    stability: float | None = None
    labels: NDArray[np.int32] | None = field(default=None, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        plan = self.plan
        return {
            "mechanism": plan.mechanism,
            "k": plan.k,
            "epsilon": plan.budget.epsilon,
            "delta": plan.budget.delta,
            "digest": plan.digest,
            "measure": plan.measured,
            "error": self.error._asdict(),
            "coverage": self.coverage,
            "ranking": self.ranking._asdict(),
            "recall": self.recall,
            "recall_undenoised": self.recall_undenoised,
            "agreement": self.agreement,
            "stability": self.stability,
        }


@dataclass(frozen=True, slots=True)
class Truth:
    """What is true of a population, found once for all plans."""

    people: Population
    pairs: tuple[Rows, Rows]
    squared_distances: Rows
    asked: Rows
    distances_of_asked: NDArray[np.float32]

    @classmethod
    def of(cls, people: Population, *, seed: int = 1) -> "Truth":
        """Return the truth about random pairs and some people's neighbors."""
        n_users = len(people.groups)
        if n_users <= N_NEIGHBORS:
            raise ParameterError(f"users must be more than {N_NEIGHBORS}, got {n_users}.")
        pairs = random_pairs(n_users, seed=seed)
        asked = np.arange(0, n_users, max(1, n_users // N_ASKED))
        bits = people.table.astype(np.float32)
        weights = people.weights.astype(np.float32)
        distances = weights[asked, None] + weights - 2 * (bits[asked] @ bits.T).toarray()
        distances[np.arange(len(asked)), asked] = np.inf
        return cls(people, pairs, people.squared_distances(*pairs), asked, distances)

    @property
    def median(self) -> float:
        """The median squared distance of the pairs."""
        return float(np.median(self.squared_distances))


def simulate(
    people: Population | Truth,
    plans: Sequence[Plan],
    *,
    releases: Sequence[Release] = (),
    segments: bool = True,
    told: Callable[[int, int], None] | None = None,
) -> list[Outcome]:
    """Return how each plan did, by one publication, after releases of the same people that are there already.

    Parameters
    ----------
    people : Population or Truth
    plans : sequence of Plan
    releases : sequence of Release
        Their ids are the rows of the people.
    segments : bool, default=True
        Whether to look for as many segments as there are groups, which takes longest.
    told : callable, optional
        Told how many of them are done, and how many there are.

    Raises
    ------
    ParameterError
        If a release is of others.
    """
    truth = people if isinstance(people, Truth) else Truth.of(people)
    n_users = len(truth.people.groups)
    for release in releases:
        if not np.array_equal(release.users, np.arange(n_users)):
            raise ParameterError(
                f"release must be of the people that are made up, numbered from 0 to {n_users - 1}, got others. Make "
                "the same people: simulate --out wrote those that were published."
            )
    outcomes: list[Outcome] = []
    made = (publish_public(truth.people.table, plan) for plan in plans)
    for release in itertools.chain(releases, made):
        outcomes.append(outcome(release, truth, segments=segments))
        if told is not None:
            told(len(outcomes), len(releases) + len(plans))
    return outcomes


def outcome(release: Release, truth: Truth, *, segments: bool = True) -> Outcome:
    """Return how a release of the people did, whose ids are their rows."""
    plan, (a, b), directions = release.plan, truth.pairs, release.directions
    true: NDArray[Any] = truth.squared_distances if directions is None else _along(truth, directions)
    estimate = release.distances(a, b)
    weights = truth.people.weights
    variances = plan.error.distance(weights=(weights[a], weights[b]))(true)
    placed = plan.places_people
    found = release.segments(len(np.unique(truth.people.groups))) if segments and placed else None
    return Outcome(
        plan,
        error=PredictedAndFound(
            float(np.sqrt(np.mean(variances))), float(np.sqrt(np.mean((estimate.value - true) ** 2)))
        ),
        coverage=float(np.mean((estimate.low <= true) & (true <= estimate.high))),
        ranking=_ranking(true, estimate.value, variances),
        estimates=estimate.value,
        recall=_recall(release, truth, denoise=True) if placed else None,
        recall_undenoised=_recall(release, truth, denoise=False),
        agreement=None if found is None else agreement(truth.people.groups, found.labels),
        stability=None if found is None else found.stability,
        labels=None if found is None else found.labels,
    )


def _along(truth: Truth, directions: Directions) -> NDArray[np.float64]:
    """Return the true squared distances of the pairs along directions: what a release along them estimates.

    Columns are called "place 0", "place 1", … in the file that is written of made-up people, and "0", "1", … else.
    """
    n_attributes = truth.people.table.shape[1]
    codes = max(
        (directions.codes([f"{prefix}{i}" for i in range(n_attributes)]) for prefix in ("place ", "")),
        key=lambda found: int(np.count_nonzero(found >= 0)),
    )
    listed = np.flatnonzero(codes >= 0)
    shape = (n_attributes, len(directions.matrix))
    rows = scipy.sparse.csr_array((np.ones(len(listed)), (listed, codes[listed])), shape=shape)
    counts = truth.people.table.astype(np.float64) @ rows
    if directions.merges:
        counts.data[:] = 1.0
    sums = counts @ (directions.matrix.astype(np.float64) / directions.scale)
    a, b = truth.pairs
    apart: NDArray[np.float64] = ((sums[a] - sums[b]) ** 2).sum(axis=1)
    return apart


def best_plan(
    mechanism: str, epsilon: float, people: Population, *, k: int | None = None, delta: float = DELTA
) -> Plan:
    """Return a mechanism's plan for a made-up population, k the best at its median distance unless given.

    Of made-up people everything is public. Curators must not look at theirs: they state a distance.

    Parameters
    ----------
    mechanism : str
        Of the menu, or "paper".
    epsilon : float
    people : Population
    k : int, optional
    delta : float, default=1e-6
        For mechanisms that need one.
    """
    papers = mechanism == PAPER
    name = PAPERS_MECHANISM if papers else mechanism
    check_mechanism(name)
    d = people.table.shape[1]
    budget = Budget(epsilon, delta if needs_delta(name) else 0.0)
    if name == RANDOMIZED_RESPONSE:
        return Plan.of(name, budget, n_attributes=d)
    if name == NOISY_DISTANCES:
        return Plan.of(name, budget, n_attributes=d, n_users=people.table.shape[0], dtype="int32")
    shared: dict[str, Any] = {
        "n_attributes": d,
        "rule": "theorem1" if papers else "exact",
        "blocks": blocks_of(mechanism),
    }
    if k is None:
        median = float(np.median(people.squared_distances(*random_pairs(len(people.groups)))))
        k = best_k(name, budget, squared_distance=max(median, 1.0), **shared)
    return Plan.of(name, budget, k=k, dtype="int32" if papers else "int16", **shared)


def random_pairs(n_users: int, n_pairs: int = N_PAIRS, *, seed: int = 1) -> tuple[Rows, Rows]:
    """Return rows of pairs of different people."""
    generator = np.random.default_rng(seed)
    a = generator.integers(n_users, size=n_pairs)
    return a, (a + generator.integers(1, n_users, size=n_pairs)) % n_users


def agreement(groups: NDArray[Any], labels: NDArray[Any]) -> float:
    """Return the adjusted Rand index: 1 is the same groups, 0 is chance."""
    from sklearn.metrics import adjusted_rand_score  # noqa: PLC0415  (slow to import)

    return float(adjusted_rand_score(groups, labels))


def _ranking(true: NDArray[Any], estimated: NDArray[np.float64], variances: NDArray[np.float64]) -> PredictedAndFound:
    lower, upper = np.quantile(true, [0.25, 0.75])
    near, far = np.flatnonzero(true <= lower), np.flatnonzero(true >= upper)
    count = min(len(near), len(far))
    near, far = near[:count], far[:count]
    gap = true[far] - true[near]
    spread = np.sqrt(np.maximum(variances[near] + variances[far], 1e-30))
    return PredictedAndFound(
        float(np.mean(scipy.special.ndtr(gap / spread))), float(np.mean(estimated[near] < estimated[far]))
    )


def _recall(release: Release, truth: Truth, *, denoise: bool) -> float:
    distances = truth.distances_of_asked
    tenth = np.partition(distances, N_NEIGHBORS - 1, axis=1)[:, N_NEIGHBORS - 1]
    found = np.stack([release.neighbors(int(i), n=N_NEIGHBORS, denoise=denoise).users for i in truth.asked])
    return float(np.mean(np.take_along_axis(distances, found, axis=1) <= tenth[:, None]))


_PARTS = 14  # of the pairs by their true distance; the outermost are too mixed to be shown


def recovered(truth: Truth, outcomes: Mapping[str, Outcome]) -> Chart:
    """Return where 95 % of the estimates lie, over the true distances, for each of some named outcomes."""
    for name, one in outcomes.items():
        if not one.plan.measures_attributes:
            raise ParameterError(
                f"figure must be of releases whose distances are in all attributes, but those of {name} are along "
                "directions. Leave figure out."
            )
    true = truth.squared_distances
    parts = np.array_split(np.argsort(true, kind="stable"), _PARTS)[1:-1]
    x = [float(true[part].mean()) for part in parts]
    lines = [Line("the truth", [x[0], x[-1]], [x[0], x[-1]], LineLook("#666666", dashes=":"))]
    kinds: dict[str, str] = {}  # a name for each look: the mechanism's own, if no other has it
    for name, one in outcomes.items():
        kind = one.plan.mechanism
        kinds[name] = name if label_of(name) != name or kind in kinds.values() else kind
    looks = looks_of(list(kinds.values()))
    for name, one in outcomes.items():
        low, high = ([float(np.quantile(one.estimates[part], q)) for part in parts] for q in (0.025, 0.975))
        whose = label_of(name) if kinds[name] == name else f"{name} ({kinds[name]})"
        lines.append(Line(f"{whose}: 95 % of estimates", x, low, looks[kinds[name]], upper=high))
    lowest, highest = (edge(value for line in lines for value in (*line.y, *(line.upper or ()))) for edge in (min, max))
    unit = max(highest - lowest, 1.0) / 20
    room = (lowest - unit, highest + unit * (1 + 2 * len(lines)))  # for the legend, above them all
    budgets = [one.plan.budget for one in outcomes.values()]
    together = {budget.epsilon for budget in budgets}
    at = f", ε = {budgets[0].epsilon:g}" if len(together) == 1 else ""
    told = "; ".join(f"{label_of(name)}: {_budget(one, at)}" for name, one in outcomes.items())
    return Chart(
        f"Estimated against true squared distances of {len(truth.people.groups):,} people{at}",
        Axis("true squared distance (attributes in which two people differ)"),
        Axis("estimated squared distance", limits=room),
        lines,
        f"{len(true):,} random pairs of made-up people. {told[0].upper()}{told[1:]}.",
    )


def _budget(one: Outcome, at: str) -> str:
    budget, k = one.plan.budget, one.plan.k
    epsilon = "" if at else f"ε = {budget.epsilon:g}, "
    size = "" if k is None else f"k = {k}, "
    return f"{epsilon}{size}δ = {budget.delta:g}"


def groups_found(truth: Truth, outcomes: Mapping[str, Outcome]) -> Shares:
    """Return which segments the people of each true group were put into, for each of some named outcomes.

    Segments are numbered so that as many people as possible are in the segment of their group's number.

    Raises
    ------
    ParameterError
        If no outcome has segments.
    """
    groups, panels = truth.people.groups, []
    n_groups = int(groups.max()) + 1
    for name, one in outcomes.items():
        if one.labels is None:
            continue
        counts = np.zeros((n_groups, max(n_groups, int(one.labels.max()) + 1)))
        sure = one.labels >= 0
        np.add.at(counts, (groups[sure], one.labels[sure]), 1.0)
        rows, columns = scipy.optimize.linear_sum_assignment(-counts)
        order = [*columns[np.argsort(rows)], *np.setdiff1d(np.arange(counts.shape[1]), columns)]
        shares = counts[:, order] / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        budget, kind = one.plan.budget, one.plan.mechanism
        shown = name.removesuffix(".json")  # a plan's file
        whose = label_of(name) if name == kind or label_of(name) != name else f"{shown} ({kind})"
        title = f"{whose}\nε = {budget.epsilon:g}, δ = {budget.delta:g}: agreement {one.agreement:.2f}"
        panels.append(Panel(title, shares.tolist()))
    if not panels:
        raise ParameterError("found must be of plans that place people: noisy distances have no segments.")
    return Shares(
        f"In which segments the people of {n_groups} groups were found",
        "segment",
        "true group",
        panels,
        f"{len(groups):,} made-up people. Numbers: of 100 people of a group. All on the diagonal is perfect.",
    )
