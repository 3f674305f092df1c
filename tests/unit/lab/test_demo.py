"""What the demo's commands say of each other; tests/cli/test_lab.py runs them."""

from itertools import pairwise

import pytest

from dimly.lab import demo


def test_the_people_of_the_ending_are_those_that_were_published() -> None:
    first, last = demo.STEPS[0].command, demo.STEPS[-1].command
    made = first.partition(" --out ")[0]
    assert last.startswith(f"{made} --release release ")
    words = made.split()
    said = dict(zip(words[1::2], words[2::2], strict=True))
    assert said == {
        "--users": f"{demo.N_USERS}",
        "--attributes": f"{demo.N_ATTRIBUTES}",
        "--groups": f"{demo.N_GROUPS}",
        "--taste": f"{demo.TASTE:g}",
    }


def test_the_paper_has_the_epsilon_of_the_plan() -> None:
    plans = [step.command for step in demo.STEPS if step.command.startswith("plan ")]
    ending = demo.STEPS[-1].command
    assert len(plans) == 2
    assert all(plan.startswith(f"plan --epsilon {demo.EPSILON:g} ") for plan in plans)
    assert f" --epsilon {demo.EPSILON:g} " in demo.STEPS[1].command  # directions are learned for it
    assert f" --mechanism paper --epsilon {demo.EPSILON:g} " in ending


@pytest.mark.parametrize(
    ("agreement", "recall", "said"),
    [
        (0.93, 0.06, "At this epsilon groups can be seen, but single neighbors hardly."),
        (0.1, 0.06, "At this epsilon single neighbors can hardly be seen."),
        (0.93, 0.5, ""),
        (None, 0.06, ""),
        (0.93, None, ""),
    ],
)
def test_what_is_hardly_seen_is_said_as_it_was_measured(
    agreement: float | None, recall: float | None, said: str
) -> None:
    assert demo.seen_in_words(agreement, recall) == said


def test_every_file_that_a_command_needs_is_made_before() -> None:
    made: set[str] = set()
    outputs = ("--out", "--roster", "--truth", "-o", "--found")
    for step in demo.STEPS:
        name, *words = step.command.split()
        options = dict(pairwise(words))
        read = ("--plan", "--ledger", "--release", "--directions")
        needed = {options[option] for option in read if option in options}
        if name == "publish":
            needed |= {words[0], options["--roster"], options["--volunteers"]}
        elif name == "directions":
            needed.add(words[1])
        elif name in {"verify", "distance", "neighbors", "segments", "report"}:
            needed.add(words[0])
        assert needed <= made, step.command
        made |= {options[option] for option in outputs if option in options}
        if name == "simulate" and "--volunteers" in options:
            made.add(options["--volunteers"])
        if name == "ledger":
            made.add(words[1])
