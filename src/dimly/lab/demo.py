"""The commands of ``dimly demo``, step by step, and what is said after them."""

import math
from dataclasses import dataclass

from dimly.lab.compare import PAPER

EPSILON = 0.2
N_USERS, N_ATTRIBUTES, N_GROUPS, TASTE = 20_000, 5_000, 6, 60.0
N_VOLUNTEERS = 300
BYTES = 512
"""A person's sketch, where there are no directions."""
NEAR, FAR = 60, 200
"""Public knowledge, decided before looking at anybody: about what people with a hundred places differ in."""
HARDLY, HALF = 0.2, 0.5
"""A recall of neighbors below the one is hardly any; an agreement with the groups from the other on shows them."""

_PEOPLE = f"simulate --users {N_USERS} --attributes {N_ATTRIBUTES} --groups {N_GROUPS} --taste {TASTE:g}"


@dataclass(frozen=True, slots=True)
class Step:
    """One command, without the program's name, and what it is for."""

    words: str
    command: str


STEPS = (
    Step(
        "People who do not exist: what they visited, and (kept aside) the group whose taste each has. 300 others "
        "agreed to the publication of their visits: the volunteers.",
        f"{_PEOPLE} --out visits.parquet --roster people.parquet --truth groups.parquet "
        f"--volunteers volunteers.parquet --n-volunteers {N_VOLUNTEERS}",
    ),
    Step(
        "The curator learns from the volunteers alone along which directions people differ.",
        f"directions learn volunteers.parquet --user person --attribute place --epsilon {EPSILON:g} "
        f"--groups {N_GROUPS} -o directions.parquet",
    ),
    Step(
        "A plan along these directions: every person becomes a few numbers, with noise that hides any one visit.",
        f"plan --epsilon {EPSILON:g} --directions directions.parquet -o plan.json",
    ),
    Step(
        "A ledger keeps the budget for everything that will be published of these people.",
        f"ledger init ledger.db --dataset visits --epsilon {2 * EPSILON:g}",
    ),
    Step(
        "The curator publishes everybody on the roster, none of whom is a volunteer. This folder may be given away.",
        "publish visits.parquet --plan plan.json --directions directions.parquet --volunteers volunteers.parquet "
        "--user person --attribute place --roster people.parquet --out release --ledger ledger.db --dataset visits",
    ),
    Step("Whoever gets it checks it.", "verify release"),
    Step("The analyst asks: how far apart are two people, along the directions?", "distance release 3 14"),
    Step("Who is like somebody?", "neighbors release --user 3 -n 5"),
    Step(
        "Which groups are there, and what tells them apart?",
        f"segments release --count {N_GROUPS} --out segments.parquet",
    ),
    Step(
        "One page for the privacy officer and the analyst.",
        f"report release -o report.html --count {N_GROUPS}",
    ),
    Step(
        "Without volunteers no plan is good enough at this epsilon. --force makes the best one all the same.",
        f"plan --epsilon {EPSILON:g} --purpose segments --n-attributes {N_ATTRIBUTES} --n-users {N_USERS} "
        f"--distance {NEAR}:{FAR} --weight 100 --max-bytes-per-user {BYTES} --force -o without-volunteers.json",
    ),
    Step(
        "What was recovered? These people are made up, so the truth is known. Beside it: the plan without volunteers "
        "and the paper's mechanism, at the same epsilon.",
        f"{_PEOPLE} --release release --plan without-volunteers.json --mechanism {PAPER} --epsilon {EPSILON:g} "
        "--found recovered.png",
    ),
)
"""The last one is the ending: it measures the release itself, and the other two anew."""


def seen_in_words(agreement: float | None, recall: float | None) -> str:
    """Return what a release shows of groups and of single neighbors, as measured; nothing where both are seen.

    Examples
    --------
    >>> seen_in_words(0.93, 0.06)
    'At this epsilon groups can be seen, but single neighbors hardly.'
    """
    if agreement is None or recall is None or recall >= HARDLY:
        return ""
    groups = (
        "groups can be seen, but single neighbors hardly"
        if agreement >= HALF
        else "single neighbors can hardly be seen"
    )
    return f"At this epsilon {groups}."


def rounded(number: float) -> str:
    """Return a factor in words.

    Examples
    --------
    >>> rounded(13.7), rounded(2.34)
    ('14', '2.3')
    """
    return f"{number:.0f}" if number >= 10 or math.isinf(number) else f"{number:.1f}"
