"""``dimly compare``: mechanisms beside each other, by theory, as tables or a figure."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dimly.cli.options import AsCsv, AsJson, Debug, check_one_output, numbers_between
from dimly.cli.terminal import print_csv, print_json, print_lines, print_table
from dimly.files import check_output, write_bytes

if TYPE_CHECKING:
    from dimly.lab.compare import Prediction


def compare(
    *,
    epsilon: Annotated[
        str, typer.Option(metavar="E,E,…", help="Promises to compare at, separated by commas.")
    ] = "0.25,0.5,1,2,4,8",
    distance: Annotated[str, typer.Option(metavar="D,D,…", help="Squared distances, separated by commas.")] = "400",
    n_attributes: Annotated[
        str,
        typer.Option(
            metavar="N,N,…", help="How many attributes there are; randomized response and the paper depend on it."
        ),
    ] = "100000",
    mechanism: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A mechanism to compare; may be repeated. paper is gaussian+gaussian by the paper's Theorem 1. By "
            "default the paper's, hashing+laplace, counting+laplace and randomized-response.",
            show_default=False,
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Compare all mechanisms.")] = False,
    delta: Annotated[float, typer.Option(help="For mechanisms that need one; the others have 0.")] = 1e-6,
    weight: Annotated[
        float | None,
        typer.Option(help="Attributes of a person, to which counting is then tuned; half the distance by default."),
    ] = None,
    n_users: Annotated[int | None, typer.Option(help="Number of people, for noisy-distances.")] = None,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the errors over epsilon, too: .png, .svg or .pdf."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing figure.")] = False,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
    _debug: Debug = False,
) -> None:
    """Compare mechanisms: the standard error of an estimated squared distance, each at its best k.

    This is theory, for attributes that a person has or does not have, and looks at no data. dimly simulate measures
    the same.

    $ dimly compare --epsilon 0.5,1,2,4 --distance 100,400 --n-attributes 1000,100000
    """
    from dimly.errors import ParameterError
    from dimly.lab.compare import MENU, PAPER, winners
    from dimly.lab.compare import compare as compared
    from dimly.mechanisms.make import MECHANISMS

    check_one_output(as_json=as_json, as_csv=as_csv)
    if every and mechanism:
        raise ParameterError("--all must stand without --mechanism: it names every one.")
    epsilons, distances = numbers_between("epsilon", epsilon, ","), numbers_between("distance", distance, ",")
    sizes = [_whole(number) for number in numbers_between("n_attributes", n_attributes, ",")]
    if figure is not None:
        _check_figure(figure, len(set(distances)) * len(set(sizes)), overwrite=overwrite)
    found = compared(
        epsilons,
        distances=distances,
        n_attributes=sizes,
        mechanisms=(PAPER, *MECHANISMS) if every else tuple(dict.fromkeys(mechanism)) if mechanism else MENU,
        delta=delta,
        weight=weight,
        n_users=n_users,
    )
    best = winners(found)
    if figure is not None:
        _draw(found, figure, overwrite=overwrite)
    if as_csv:
        facts = [one.to_dict() for one in found]
        print_csv(list(facts[0]), [["" if cell is None else cell for cell in one.values()] for one in facts])
        return
    if as_json:
        places = [{"epsilon": e, "n_attributes": d, "distance": at, "best": name} for (e, d, at), name in best.items()]
        print_json({"predictions": [one.to_dict() for one in found], "best": places})
        return
    for heading, rows in _tables(found, epsilons, best):
        print_lines([heading])
        header = ["mechanism", *(f"epsilon {e:g}" for e in epsilons)]
        print_table(header, rows, numbers=header[1:])
        print_lines([""])
    print_lines(["Standard error of an estimated squared distance, in brackets the best k; * is the smallest error."])
    print_lines(dict.fromkeys(f"-: {one.mechanism}: {one.reason}." for one in found if one.reason))


def _whole(number: float) -> int:
    from dimly.errors import ParameterError

    if not number.is_integer():  # nor are inf and nan
        raise ParameterError(f"n_attributes must be whole numbers separated by commas, got {number:g}.")
    return int(number)


def _tables(
    found: "Sequence[Prediction]", epsilons: Sequence[float], best: dict[tuple[float, int | None, float], str]
) -> list[tuple[str, list[list[str]]]]:
    places = dict.fromkeys((one.n_attributes, one.distance) for one in found)
    tables = []
    for d, at in places:
        here = {(one.mechanism, one.epsilon): one for one in found if (one.n_attributes, one.distance) == (d, at)}
        rows = []
        for name in dict.fromkeys(mechanism for mechanism, _ in here):
            cells = [_cell(here[name, e], winner=best.get((e, d, at)) == name) for e in epsilons]
            rows.append([name, *cells])
        tables.append((f"squared distance {at:g}, {d:,} attributes", rows))
    return tables


def _cell(one: "Prediction", *, winner: bool) -> str:
    if one.stderr is None:
        return "-"
    k = "" if one.k is None else f" ({one.k})"
    return f"{one.stderr:,.{1 if one.stderr < 100 else 0}f}{k}{'*' if winner else ''}"


def _check_figure(path: Path, n_places: int, *, overwrite: bool) -> None:
    """Refuse a figure that cannot be written or read, before anything is computed."""
    from dimly.errors import ParameterError
    from dimly.lab.charts import FORMATS, need_plots
    from dimly.lab.figures import check_places

    if path.suffix.lower() not in FORMATS:
        raise ParameterError(f"figure must end in {', '.join(FORMATS)}, got {path.name!r}.")
    check_places(n_places)
    need_plots()
    check_output(path, overwrite=overwrite)


def _draw(found: "Sequence[Prediction]", path: Path, *, overwrite: bool) -> None:
    from dimly.lab.charts import rendered
    from dimly.lab.figures import comparison_chart

    write_bytes(path, rendered(comparison_chart(found), path.suffix.lower()[1:]), overwrite=overwrite)
