"""``dimly attack``: what is read from people's sketches without noise and with it."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dimly.cli.options import AsJson, Debug
from dimly.cli.terminal import ProgressBar, print_json, print_lines, print_table
from dimly.display import percent
from dimly.files import check_output

if TYPE_CHECKING:
    from dimly.audit.attacks import Attacks


def attack(
    *,
    people: Annotated[int, typer.Option(metavar="N", min=1, help="Made-up people who are attacked.")] = 40,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Of the people; noise is always fresh.")] = 0,
    figure: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it, too: .png, .svg or .pdf.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
    as_json: AsJson = False,
    _debug: Debug = False,
) -> None:
    """Attack made-up people: read their attributes back from a projection, without noise and with it.

    It also guesses one attribute when all others are known, and shows what the promise allows; averages repeated
    releases; and finds people among pseudonyms by what is known of them, to guess one more attribute. No private data
    is touched. See docs/audit.md.

    $ dimly attack --figure attacks.png
    """
    if figure is not None:
        check_output(figure, overwrite=overwrite)
    from dimly.audit.attack_figure import check_format, save
    from dimly.audit.attacks import run_attacks

    if figure is not None:
        check_format(figure)
    with ProgressBar() as progress:
        found = run_attacks(people=people, seed=seed, progress=progress)
    if figure is not None:
        save(found, figure, overwrite=overwrite)
    if as_json:
        print_json({"figure": None if figure is None else str(figure), **found.to_dict()})
    else:
        _print(found)


def _print(found: "Attacks") -> None:
    print_lines(["Reading 10 of 1,000 attributes of a person from 64 numbers (sign+laplace):"])
    rows = [(_noise(one.epsilon), percent(one.attributes, 1), percent(one.exactly, 1)) for one in found.reading]
    _print_table(("epsilon", "attributes read", "people read whole"), rows)
    print_lines(["", "The best guess about one attribute, all others known:"])
    guesses = [
        (one.mechanism, f"{one.epsilon:g}", percent(one.right, 2), percent(one.bound, 2)) for one in found.inference
    ]
    _print_table(("mechanism", "epsilon", "right", "allowed"), guesses)
    print_lines(["Shares are of 65,536 guesses, and off by up to 0.4 points by chance."])
    print_lines(["", "The same from several releases of epsilon 0.5 with fresh noise (counting+laplace):"])
    repeated = [
        (one.repeats, percent(one.right, 2), percent(one.one, 2), percent(one.bound, 2)) for one in found.averaging
    ]
    _print_table(("releases", "right", "allowed by one", "allowed by all"), repeated)
    print_lines(["", f"Finding a person among {found.crowd:,} pseudonyms by some of 10 attributes (counting+laplace):"])
    links = [
        (
            _noise(one.epsilon),
            one.known,
            percent(one.found, 1),
            percent(one.inferred, 1),
            percent(one.inferred_knowing_row, 1),
            percent(one.bound, 1),
        )
        for one in found.linkage
    ]
    _print_table(("epsilon", "known", "found", "one more right", "knowing the row", "allowed"), links)
    asked = 10 * found.reading[0].people
    print_lines(
        [
            '"one more right": a further attribute, present or not by a coin, guessed from the row that was taken for',
            'the person\'s; "knowing the row": by somebody who knows which row is the person\'s. "allowed": of both.',
            f"Shares are of {asked:,} people, and off by up to {100 / math.sqrt(asked):.0f} points by chance.",
        ]
    )


def _print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    print_table(header, rows, numbers=[name for name in header if name != "mechanism"])


def _noise(epsilon: float) -> str:
    return "no noise" if epsilon == float("inf") else f"{epsilon:g}"
