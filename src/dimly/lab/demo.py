"""A first look: what each rule asks for, and how far off each mechanism will be. Run by ``make demo``."""

from rich.console import Console
from rich.table import Table

from dimly.mechanisms import Plan, best_k
from dimly.mechanisms.mechanism import sketching
from dimly.privacy import RULES, Budget, Rule, gaussian_scale

EPSILONS = (0.5, 1.0, 2.0, 4.0)
DELTA = 1e-6
N_ATTRIBUTES = 5_000
N_USERS = 1_000
SQUARED_DISTANCE = 400.0

PAPER = "gaussian+gaussian"
MENU = (PAPER, "sign+gaussian", "hashing+laplace", "counting+laplace", "randomized-response", "noisy-distances")


def main(console: Console | None = None) -> None:
    """Print the calibration of Gaussian noise by four rules, and predicted errors of six mechanisms."""
    out = console or Console()
    out.print(f"[b]Standard deviation of Gaussian noise[/b] at sensitivity 1, δ = {DELTA:g}, by rule")
    out.print(calibrations())
    out.print(
        f"\n[b]Standard error of a squared distance of {SQUARED_DISTANCE:.0f}[/b] among {N_ATTRIBUTES:,} attributes, "
        f"in brackets the k chosen.\n{PAPER} is the paper's mechanism, calibrated by its Theorem 1; Laplace noise "
        f"and randomized response have δ = 0; noisy distances are for {N_USERS:,} people."
    )
    out.print(predicted_errors())
    guesses = ", ".join(f"{Budget(e).posterior(0.5):.0%} at ε = {e:g}" for e in EPSILONS)
    out.print(
        f"\n[b]What ε means[/b] (δ = 0): a coin-flip guess about one attribute of one person becomes at most {guesses}."
    )


def calibrations() -> Table:
    """Return standard deviations of Gaussian noise at sensitivity 1 by each rule."""
    table = _table("rule")
    for rule in reversed(RULES):
        scales = (
            gaussian_scale(Budget(e, DELTA), l2_sensitivity=1.0, rule=rule, k=64, n_attributes=N_ATTRIBUTES)
            for e in EPSILONS
        )
        table.add_row(rule, *(f"{scale:.3f}" for scale in scales))
    return table


def predicted_errors() -> Table:
    """Return standard errors of one squared distance by each mechanism at its best k."""
    table = _table("mechanism")
    for mechanism in MENU:
        table.add_row(mechanism, *(_cell(demo_plan(mechanism, e)) for e in EPSILONS))
    return table


def demo_plan(mechanism: str, epsilon: float) -> Plan:
    """Return the plan of one cell of the table, with the projection drawn from a fixed public seed."""
    budget = Budget(epsilon, DELTA)
    if mechanism == "noisy-distances":
        return Plan.of(mechanism, budget, n_users=N_USERS, n_attributes=N_ATTRIBUTES)
    if sketching(mechanism) is None:
        return Plan.of(mechanism, budget, n_attributes=N_ATTRIBUTES)
    rule: Rule = "theorem1" if mechanism == PAPER else "exact"
    k = best_k(mechanism, budget, squared_distance=SQUARED_DISTANCE, rule=rule, n_attributes=N_ATTRIBUTES)
    return Plan.of(mechanism, budget, k=k, n_attributes=N_ATTRIBUTES, rule=rule, seed=bytes(32))


def _cell(plan: Plan) -> str:
    error = float(plan.error.distance()(SQUARED_DISTANCE)) ** 0.5
    size = "" if plan.projection is None else f" ({plan.projection.k})"
    return f"{error:,.0f}{size}"


def _table(first: str) -> Table:
    table = Table(first)
    for epsilon in EPSILONS:
        table.add_column(f"ε = {epsilon:g}", justify="right", no_wrap=True)
    return table


if __name__ == "__main__":
    main()
