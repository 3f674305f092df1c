"""A first look: publish made-up people by four mechanisms and see how far off the distances are. ``make demo``."""

import time
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from dimly.api import publish
from dimly.lab.population import Population, make_population
from dimly.mechanisms import Plan, best_k
from dimly.mechanisms.mechanism import sketching
from dimly.privacy import Budget, Rule

EPSILONS = (1.0, 2.0, 4.0)
DELTA = 1e-6
N_USERS, N_ATTRIBUTES = 2_000, 5_000
N_PAIRS = 4_000
PLANNING_DISTANCE = 150.0
"""Public knowledge, chosen before looking at anybody: about what people with a hundred attributes differ in."""

PAPER = "gaussian+gaussian"
MENU = (PAPER, "hashing+laplace", "counting+laplace", "randomized-response")


class Outcome(NamedTuple):
    """How one mechanism did at one ε."""

    plan: Plan
    measured: float
    predicted: float
    coverage: float


def main(console: Console | None = None) -> None:
    """Publish, estimate, compare with the truth and with the prediction, and print."""
    out = console or Console()
    started = time.perf_counter()
    people = make_population(N_USERS, N_ATTRIBUTES)
    a, b = random_pairs(N_USERS)
    truth = people.squared_distances(a, b)
    out.print(
        f"{N_USERS:,} made-up people with tastes, {N_ATTRIBUTES:,} attributes, {people.weights.mean():.0f} each.\n"
        f"True squared distances of {N_PAIRS:,} random pairs: {np.quantile(truth, 0.1):.0f} to "
        f"{np.quantile(truth, 0.9):.0f}, median {np.median(truth):.0f}.\n"
    )
    outcomes = {(name, e): run(demo_plan(name, e), people, a, b) for name in MENU for e in EPSILONS}
    out.print(
        "[b]Root mean square error of the squared distance[/b], in brackets what theory predicted. "
        f"{PAPER} is the paper's mechanism, calibrated by its Theorem 1 at δ = {DELTA:g}; the others have δ = 0."
    )
    table = Table("mechanism")
    for epsilon in EPSILONS:
        table.add_column(f"ε = {epsilon:g}", justify="right", no_wrap=True)
    for name in MENU:
        cells = (outcomes[name, e] for e in EPSILONS)
        table.add_row(name, *(f"{cell.measured:,.0f} ({cell.predicted:,.0f})" for cell in cells))
    out.print(table)
    coverages = [outcome.coverage for outcome in outcomes.values()]
    factor = outcomes[PAPER, 1.0].measured / outcomes["counting+laplace", 1.0].measured
    guesses = ", ".join(f"{Budget(e).posterior(0.5):.0%} at ε = {e:g}" for e in EPSILONS)
    out.print(
        f"\ncounting+laplace has 1/{factor:.0f} of the paper's error at ε = 1. The 95 % intervals of all of them "
        f"covered {min(coverages):.1%} to {max(coverages):.1%} of the true distances.\n"
        f"[b]What ε means[/b] (δ = 0): a coin-flip guess about one attribute becomes at most {guesses}.\n"
        f"{len(outcomes)} releases in {time.perf_counter() - started:.0f} seconds."
    )


def demo_plan(mechanism: str, epsilon: float) -> Plan:
    """Return the plan of one cell of the table."""
    budget = Budget(epsilon, DELTA if mechanism == PAPER else 0.0)
    if sketching(mechanism) is None:
        return Plan.of(mechanism, budget, n_attributes=N_ATTRIBUTES)
    rule: Rule = "theorem1" if mechanism == PAPER else "exact"
    k = best_k(mechanism, budget, squared_distance=PLANNING_DISTANCE, rule=rule, n_attributes=N_ATTRIBUTES)
    return Plan.of(mechanism, budget, k=k, n_attributes=N_ATTRIBUTES, rule=rule)


def run(plan: Plan, people: Population, a: np.ndarray, b: np.ndarray) -> Outcome:
    """Publish, estimate the pairs, and compare with the truth and the prediction."""
    truth = people.squared_distances(a, b)
    estimate = publish(people.table, plan).distances(a, b)
    weights = (people.weights[a], people.weights[b])
    return Outcome(
        plan,
        measured=float(np.sqrt(np.mean((estimate.value - truth) ** 2))),
        predicted=float(np.sqrt(np.mean(plan.error.distance(weights=weights)(truth)))),
        coverage=float(np.mean((estimate.low <= truth) & (truth <= estimate.high))),
    )


def random_pairs(n_users: int, n_pairs: int = N_PAIRS, *, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of pairs of different people."""
    generator = np.random.default_rng(seed)
    a = generator.integers(n_users, size=n_pairs)
    return a, (a + generator.integers(1, n_users, size=n_pairs)) % n_users


if __name__ == "__main__":
    main()
