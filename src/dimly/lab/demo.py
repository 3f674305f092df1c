"""The whole story on made-up people: the commands of the demo, and at its end what was recovered beside the truth."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dimly.analyst.release import Release
from dimly.api import publish
from dimly.lab.charts import Axis, Chart, Line, Look, looks_of
from dimly.lab.comparison import PAPER
from dimly.lab.population import Population, make_population
from dimly.lab.simulation import Truth, agreement, best_plan
from dimly.privacy import Budget

EPSILON = 2.0
N_USERS, N_ATTRIBUTES, N_GROUPS, TASTE = 20_000, 5_000, 6, 60.0
BYTES = 512
"""A person's sketch."""
NEAR, FAR = 60, 200
"""Public knowledge, decided before looking at anybody: about what people with a hundred places differ in."""


@dataclass(frozen=True, slots=True)
class Step:
    """One command, without the program's name, and what it is for."""

    words: str
    command: str


STEPS = (
    Step(
        "People who do not exist: what they visited, and (kept aside) the group whose taste each has.",
        f"simulate --users {N_USERS} --attributes {N_ATTRIBUTES} --groups {N_GROUPS} --taste {TASTE:g} "
        "--out visits.parquet --roster people.parquet --truth groups.parquet",
    ),
    Step(
        "The curator plans, before touching the data: which mechanism, how many numbers, how good will it be?",
        f"plan --epsilon {EPSILON:g} --purpose segments --n-attributes {N_ATTRIBUTES} --n-users {N_USERS} "
        f"--distance {NEAR}:{FAR} --weight 100 --max-bytes-per-user {BYTES} -o plan.json",
    ),
    Step(
        "She keeps a budget for everything that will ever be published of these people.",
        f"ledger init ledger.db --dataset visits --epsilon {2 * EPSILON:g}",
    ),
    Step(
        "She publishes: one small noisy sketch for each person. This folder may be given away.",
        "publish visits.parquet --plan plan.json --user person --attribute place --roster people.parquet "
        "--out release --ledger ledger.db --dataset visits",
    ),
    Step("Whoever gets it checks it.", "verify release"),
    Step("The analyst asks: how far apart are two people?", "distance release 3 14"),
    Step("Who is like somebody?", "neighbors release --user 3 -n 5"),
    Step("Which groups are there?", f"segments release --count {N_GROUPS} --out segments.parquet"),
    Step(
        "One page for the privacy officer and the analyst.",
        f"report release -o report.html --count {N_GROUPS}",
    ),
)


AGAIN = (
    f"simulate --users {N_USERS} --attributes {N_ATTRIBUTES} --groups {N_GROUPS} --taste {TASTE:g} --plan plan.json "
    f"--mechanism {PAPER} --epsilon {EPSILON:g}"
)
"""What measures the ending anew: the same people and the same plan, published once more, and the paper's."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """How one mechanism did on the people of the demo.

    Attributes
    ----------
    error : float
        Root mean square error of squared distances of random pairs.
    predicted : float
        What theory said before anything was published.
    coverage : float
        Share of 95 % intervals that hold the truth.
    agreement : float
        Adjusted Rand index of segments and true groups.
    """

    mechanism: str
    error: float
    predicted: float
    coverage: float
    agreement: float
    values: NDArray[np.float64]

    @classmethod
    def of(cls, name: str, release: Release, truth: Truth, labels: NDArray[np.int32]) -> "Recovered":
        """Return what an analyst has of a release, whose ids are the rows of the people."""
        (a, b), true = truth.pairs, truth.squared_distances
        estimate, weights = release.distances(a, b), truth.people.weights
        return cls(
            name,
            error=float(np.sqrt(np.mean((estimate.value - true) ** 2))),
            predicted=float(np.sqrt(np.mean(release.plan.error.distance(weights=(weights[a], weights[b]))(true)))),
            coverage=float(np.mean((estimate.low <= true) & (true <= estimate.high))),
            agreement=agreement(truth.people.groups, labels),
            values=estimate.value,
        )

    def to_dict(self) -> dict[str, object]:
        """Return it ready for JSON."""
        names = ("mechanism", "error", "predicted", "coverage", "agreement")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True)
class Ending:
    """Ours and the paper's, beside the truth."""

    truth: Truth
    ours: Recovered
    papers: Recovered

    @classmethod
    def of(cls, release: Release, labels: NDArray[np.int32]) -> "Ending":
        """Return the ending: the people are made again, which only works because they do not exist."""
        truth = Truth.of(population())
        paper = publish(truth.people.table, best_plan(PAPER, EPSILON, truth.people))
        found = paper.segments(N_GROUPS)
        return cls(
            truth,
            Recovered.of(release.plan.mechanism, release, truth, labels),
            Recovered.of(PAPER, paper, truth, found.labels),
        )

    @property
    def factor(self) -> float:
        """How many times the paper's error is ours."""
        return self.papers.error / self.ours.error

    @property
    def sure(self) -> float:
        """What a coin-flip guess about one attribute can become."""
        return Budget(EPSILON).posterior(0.5)

    def chart(self) -> Chart:
        """Return estimated against true distances: the average and the spread of each, ours and the paper's."""
        true = self.truth.squared_distances
        edges = np.quantile(true, np.linspace(0.02, 0.98, 13))
        inside = np.searchsorted(edges, true, side="right") - 1  # the outermost are too few to tell
        x = [float(true[inside == i].mean()) for i in range(12)]
        looks = looks_of([PAPER, "counting+laplace"])
        lines = [Line("the truth", [x[0], x[-1]], [x[0], x[-1]], Look("#666666", dashes=":"))]
        for one, look, name in (
            (self.papers, looks[PAPER], "the paper's"),
            (self.ours, looks["counting+laplace"], f"Dimly's ({self.ours.mechanism})"),
        ):
            low, high = ([float(np.quantile(one.values[inside == i], q)) for i in range(12)] for q in (0.025, 0.975))
            lines.append(Line(f"{name}: 95 % of estimates", x, low, look, upper=high))
        return Chart(
            f"Estimated against true squared distances of {N_USERS:,} people, ε = {EPSILON:g}",
            Axis("true squared distance (places in which two people differ)"),
            Axis("estimated squared distance"),
            lines,
            "Random pairs of made-up people. The paper's mechanism at its best k, with δ = 1e-6; Dimly's with δ = 0.",
        )


def population() -> Population:
    """Return the people of the demo, as its first command makes them."""
    return make_population(N_USERS, N_ATTRIBUTES, n_groups=N_GROUPS, taste=TASTE)


def read_labels(path: Path) -> NDArray[np.int32]:
    """Return the segments that a command wrote, in the order of people."""
    import pyarrow.parquet as pq  # noqa: PLC0415  (slow to import)

    table = pq.read_table(path)
    labels: NDArray[np.int32] = table["segment"].to_numpy()[np.argsort(table["user"].to_numpy())]
    return labels


def rounded(number: float) -> str:
    """Return a factor in words.

    Examples
    --------
    >>> rounded(13.7), rounded(2.34)
    ('14', '2.3')
    """
    return f"{number:.0f}" if number >= 10 or math.isinf(number) else f"{number:.1f}"
