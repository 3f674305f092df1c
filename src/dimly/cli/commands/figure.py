"""``dimly figure``: the pictures that explain the field."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from dimly.cli.options import AsJson, Debug
from dimly.cli.terminal import print_fields, print_json
from dimly.files import check_output, write_bytes


def figure(
    name: Annotated[
        Literal["privacy-curves", "error-by-k", "winners", "error-by-epsilon", "directions"],
        typer.Argument(help="Which one.", show_default=False),
    ],
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--out", "--output", metavar="FILE", help="File to write, .png, .svg or .pdf; NAME.png by default."
        ),
    ] = None,
    epsilon: Annotated[float, typer.Option(help="For error-by-k, winners and directions.")] = 1.0,
    delta: Annotated[float, typer.Option(help="For mechanisms that need one.")] = 1e-6,
    distance: Annotated[float, typer.Option(help="Squared, for error-by-k and error-by-epsilon.")] = 400.0,
    n_attributes: Annotated[int, typer.Option(help="For error-by-k and error-by-epsilon.")] = 100_000,
    mechanism: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A mechanism to show; may be repeated.", show_default=False),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
    as_json: AsJson = False,
    _debug: Debug = False,
) -> None:
    """Draw a figure from theory; --json prints its numbers, too. No data is needed.

    privacy-curves: Figure 1 of the paper, what Gaussian noise promises, exactly and by Theorem 1.
    error-by-k: more numbers per person mean less projection error and more noise; the best k is marked.
    winners: which mechanism has the smallest error, over distances and numbers of attributes.
    error-by-epsilon: what a stronger promise costs.
    directions: how well one number tells two groups apart, along a direction and with random signs.

    $ dimly figure winners --epsilon 4 -o winners.svg
    """
    from dimly.errors import ParameterError
    from dimly.lab.charts import FORMATS, need_plots, rendered
    from dimly.lab.compare import MENU
    from dimly.lab.figures import Circumstances, figure_named

    path = Path(f"{name}.png") if output is None else output
    if path.suffix.lower() not in FORMATS:
        raise ParameterError(f"output must end in {', '.join(FORMATS)}, got {path.name!r}.")
    need_plots()
    check_output(path, overwrite=overwrite)
    about = Circumstances(
        epsilon=epsilon,
        delta=delta,
        distance=distance,
        n_attributes=n_attributes,
        mechanisms=tuple(dict.fromkeys(mechanism)) if mechanism else MENU,
    )
    drawn = figure_named(name, about)
    write_bytes(path, rendered(drawn, path.suffix.lower()[1:]), overwrite=overwrite)
    if as_json:
        print_json({"name": name, "path": str(path), **drawn.to_dict()})
        return
    print_fields({"figure": path, "shows": drawn.title})
