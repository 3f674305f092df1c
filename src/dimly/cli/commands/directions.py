"""``dimly directions learn|make|show``: from volunteers, or from what is known of attributes."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dimly.cli import options as shared
from dimly.cli.options import AsJson, Debug, one_or_all, options_of
from dimly.cli.terminal import ProgressBar, print_fields, print_json, print_lines, print_table
from dimly.errors import ParameterError
from dimly.files import check_output

if TYPE_CHECKING:
    from dimly.lab.directions.from_sample import LearnedDirections
    from dimly.mechanisms.projection.directions import Directions

directions = typer.Typer(rich_markup_mode="rich", invoke_without_command=True)

_Output = Annotated[
    Path,
    typer.Option(
        "-o",
        "--out",
        "--output",
        metavar="FILE",
        help="The Parquet file to write.",
        rich_help_panel=shared.OUTPUT,
        show_default=False,
    ),
]
_Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace an existing file.", rich_help_panel=shared.OUTPUT)
]
_Origin = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="Where the table comes from, in words: kept with the directions, and public."),
]
_Scale = Annotated[int, typer.Option(help="Entries are rounded to multiples of 1/SCALE.")]


def _count_or_auto(text: str) -> str:
    """Return how many directions, as written: a number, or "auto"."""
    if text != "auto" and not (text.isascii() and text.isdigit() and int(text)):
        raise typer.BadParameter(f"must be a number of directions or auto, got {text!r}")
    return text


@directions.callback()
def _directions(context: typer.Context) -> None:
    """Make directions from public knowledge, to publish people along them instead of a random projection.

    Along good directions, groups and neighbors can be seen at a fraction of the epsilon. Never make them from the
    private table itself.

    $ dimly directions learn volunteers.parquet --user person --attribute place -o directions.parquet
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), nl=False)


@directions.command()
@shared.with_groups
def learn(
    volunteers: Annotated[
        list[str],
        typer.Argument(
            metavar="VOLUNTEERS",
            help="People whose data is public: files as dimly publish takes them.",
            show_default=False,
        ),
    ],
    *,
    user: shared.UserColumn,
    output: _Output,
    shape: shared.ShapeOptions,
    unit: Annotated[
        Literal["attribute", "column"],
        typer.Option(help="The unit that the plan will have.", rich_help_panel=shared.SHAPE),
    ] = "attribute",
    count: Annotated[
        str, typer.Option(metavar="N|auto", help="How many directions.", callback=_count_or_auto)
    ] = "auto",
    epsilon: Annotated[
        float,
        typer.Option(
            help="Epsilon of the release that is planned. A smaller one gives fewer directions, with larger entries."
        ),
    ] = 0.2,
    purpose: Annotated[
        Literal["segments", "neighbors", "distances"], typer.Option(help="What they are chosen for.")
    ] = "segments",
    groups: Annotated[
        int | None, typer.Option(metavar="N", help="For segments: how many will be asked for, if that is known.")
    ] = None,
    buckets: Annotated[
        int | None,
        typer.Option(metavar="M", help="For an open vocabulary: a row for each of M hash buckets, not each attribute."),
    ] = None,
    scale: Annotated[
        int | None,
        typer.Option(help="Entries are rounded to multiples of 1/SCALE; 128 by default, or less if epsilon is small."),
    ] = None,
    origin: _Origin = None,
    table: shared.Table = None,
    delimiter: shared.Delimiter = None,
    encoding: shared.Encoding = None,
    overwrite: _Overwrite = False,
    as_json: AsJson = False,
    _debug: Debug = False,
) -> None:
    """Learn directions from volunteers: people whose data is public, or who agreed to its publication.

    A few hundred are enough. Nothing private may decide who they are, and they must not be in the release. Several
    recipes are compared on people that were held back, and the best for the purpose and epsilon is kept.

    $ dimly directions learn volunteers.parquet --user person --attribute place -o directions.parquet
    """
    from dimly.lab.directions.from_sample import learn as learn_from
    from dimly.lab.sample import read_sample
    from dimly.mechanisms.projection.directions import Buckets
    from dimly.release.documents.directions_file import write_directions

    _check_ending(output)
    check_output(output, overwrite=overwrite, inputs=[volunteers])
    reading = options_of(shape, user=user, table=table, delimiter=delimiter, encoding=encoding)
    with ProgressBar() as bar:
        bar.phase("reading")
        sample = read_sample(one_or_all(volunteers), reading, unit=unit)
        if buckets is not None:
            sample = sample.in_buckets(Buckets(buckets))
        bar.phase("comparing recipes")
        found = learn_from(
            sample,
            count="auto" if count == "auto" else int(count),
            epsilon=epsilon,
            purpose=purpose,
            groups=groups,
            unit=unit,
            scale=scale,
            origin=origin,
        )
    write_directions(output, found.directions, overwrite=overwrite)
    if as_json:
        print_json({"path": str(output), **_facts(found.directions), "learning": _learning(found)})
        return
    merit = (
        "unknown: too few people to hold some back"
        if found.merit is None
        else f"{found.merit:.2f} of 1, by people held back"
    )
    print_fields({"directions": output, **_fields(found.directions), "recipe": str(found.recipe), "judged": merit})
    print_lines(["", "This holds only as far as these people are like those who will be published."])


@directions.command()
def make(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="TABLE",
            help="A public table with one row for each attribute: CSV, Parquet or JSON lines.",
            show_default=False,
        ),
    ],
    *,
    output: _Output,
    attribute: Annotated[
        str, typer.Option(metavar="COLUMN", help="The column of attributes.", rich_help_panel=shared.SHAPE)
    ] = "attribute",
    column: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="The weights, categories or vectors; by default weight, category, or a column of lists.",
            rich_help_panel=shared.SHAPE,
        ),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="How many directions: 256 for weights, one for each category, the length of vectors."
        ),
    ] = None,
    family: Annotated[
        Literal["hashing", "counting"] | None,
        typer.Option(
            help="How weights are spread: by hashing, or by counting, so that a sketch adds up to the weighted sum."
        ),
    ] = None,
    scale: _Scale = 128,
    origin: _Origin = None,
    delimiter: shared.Delimiter = None,
    encoding: shared.Encoding = None,
    overwrite: _Overwrite = False,
    as_json: AsJson = False,
    _debug: Debug = False,
) -> None:
    """Make directions from a public table of weights, categories or vectors of attributes.

    Weights are from 0 to 1, and distances are then weighted. A category counts once for each person, however much they
    have of it, and the promise is about a category of a person. Vectors, such as embeddings, are bounded and rounded.

    $ dimly directions make categories.csv -o directions.parquet
    """
    from dimly.curator.tables.csv import CsvOptions
    from dimly.lab.directions.from_attribute_tables import make_directions
    from dimly.release.documents.directions_file import write_directions

    _check_ending(output)
    check_output(output, overwrite=overwrite, inputs=[source])
    given = {"delimiter": delimiter, "encoding": encoding}
    made = make_directions(
        source,
        attribute=attribute,
        column=column,
        count=count,
        family=family,
        scale=scale,
        origin=origin,
        csv=CsvOptions(**{name: text for name, text in given.items() if text is not None}),
    )
    write_directions(output, made, overwrite=overwrite)
    if as_json:
        print_json({"path": str(output), **_facts(made)})
        return
    print_fields({"directions": output, **_fields(made)})


@directions.command()
def show(
    file: Annotated[Path, typer.Argument(metavar="DIRECTIONS", help="Made by dimly directions.", show_default=False)],
    *,
    most: Annotated[int, typer.Option(metavar="N", help="Attributes to name at each end.", min=1)] = 5,
    as_json: AsJson = False,
    _debug: Debug = False,
) -> None:
    """Show what directions tell apart: the strongest attributes at both ends of each, norms, where they come from.

    Checks that the file has the digest that it states.

    $ dimly directions show directions.parquet
    """
    from dimly.release.documents.directions_file import read_directions

    found = read_directions(file)
    ends = found.describe(most=most)
    if as_json:
        named = [
            {"direction": number, "positive": dict(end.positive), "negative": dict(end.negative)}
            for number, end in enumerate(ends)
        ]
        print_json({"path": str(file), **_facts(found), "ends": named})
        return
    print_fields({"directions": file, **_fields(found)})
    print_lines([""])
    rows = [(number, *(", ".join(name for name, _ in side) for side in end)) for number, end in enumerate(ends)]
    print_table(["direction", "one end", "other end"], rows, numbers=["direction"])


def _facts(found: "Directions") -> dict[str, Any]:
    return {
        "kind": found.kind,
        "origin": found.origin,
        "count": found.count,
        "rows": len(found.matrix),
        "rows_are": _rows_are(found),
        "scale": found.scale,
        "l1": found.sensitivity.l1,
        "l2_squared": found.sensitivity.l2_squared,
        "digest": found.digest,
    }


def _learning(found: "LearnedDirections") -> dict[str, Any]:
    compared = sorted(found.tried.items(), key=lambda one: -one[1])
    return {
        "recipe": asdict(found.recipe),
        "merit": found.merit,
        "compared": [{**asdict(recipe), "merit": merit} for recipe, merit in compared],
    }


def _rows_are(found: "Directions") -> str:
    return "buckets" if found.buckets is not None else "categories" if found.merges else "attributes"


def _check_ending(output: Path) -> None:
    if output.suffix != ".parquet":
        raise ParameterError(f"--out must end in .parquet, got {output.name!r}. Rename it.")


def _fields(found: "Directions") -> dict[str, str]:
    norms = found.sensitivity
    return {
        "kind": found.kind,
        "origin": found.origin,
        "size": f"{found.count:,} direction{'s' * (found.count > 1)} of {len(found.matrix):,} {_rows_are(found)}",
        "sensitivity": f"one of them moves a sketch by at most {norms.l1 / found.scale:.4g} (sum of changes) or "
        f"{norms.l2_squared**0.5 / found.scale:.4g} (distance)",
        "digest": found.digest,
    }
