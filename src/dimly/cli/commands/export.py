"""``dimly export``: a release for numpy, pandas, FAISS, pgvector and others."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dimly.cli.options import AsJson, Debug, ReleaseFolder, number_text, open_to_ask
from dimly.cli.terminal import ProgressBar, print_fields, print_json, print_lines
from dimly.errors import ParameterError
from dimly.files import check_output

if TYPE_CHECKING:
    from dimly.analyst.export.exported_points import AboutExport


Tool = Literal["faiss", "numpy", "parquet", "pgvector"]

_RANK = "These points are denoised: cluster by them. Their distances are no estimates; dimly neighbors ranks better."
_SUBTRACT = "Squared distances of these points, less the excess of both people, are unbiased estimates."


def export(
    release: ReleaseFolder,
    *,
    to: Annotated[
        Tool,
        typer.Option(
            help="An index for FAISS, arrays for numpy.load, a Parquet file, or a table of PostgreSQL with pgvector.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="FILE", help="File to write; not for pgvector.", show_default=False),
    ] = None,
    dsn: Annotated[
        str | None,
        typer.Option(
            metavar="DSN",
            help="For pgvector: the server, such as postgresql://ada@localhost/shop; by default what PGHOST, "
            "PGDATABASE and so on say. Keep passwords in ~/.pgpass: others can read command lines.",
            show_default=False,
        ),
    ] = None,
    table: Annotated[
        str | None, typer.Option(metavar="NAME", help="For pgvector: the table to create.", show_default=False)
    ] = None,
    index: Annotated[
        Literal["auto", "flat", "hnsw"],
        typer.Option(
            help="For faiss and pgvector: flat is exact, hnsw is faster and misses some. auto: flat for faiss, hnsw "
            "for pgvector if it can index that many coordinates."
        ),
    ] = "auto",
    half: Annotated[bool, typer.Option("--half", help="For pgvector: half precision, in half the space.")] = False,
    denoise: Annotated[
        bool, typer.Option("--denoise", help="Export denoised points: fewer coordinates, for clustering only.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing file, or the table of an earlier export.")
    ] = False,
    as_json: AsJson = False,
    _debug: Debug = False,
) -> None:
    """Export everybody's point to another tool, with what you need to read distances off it.

    See docs/exports.md for what to do with it there.

    $ dimly export release --to faiss --out people.faiss
    """
    given = {"--out": out, "--dsn": dsn, "--table": table, "--half": half or None}
    if to not in ("faiss", "pgvector"):
        given["--index"] = None if index == "auto" else index
    _check(to, given)
    if out is not None:
        check_output(out, overwrite=overwrite, inputs=[release])
    asked = open_to_ask(release).release
    with ProgressBar() as bar:
        if denoise:
            bar.phase("denoising")
            _ = asked.denoiser
        bar.phase("writing")

        def reach(done: int, total: int) -> None:
            bar.reach(done, total)
            if to == "pgvector" and done == total:  # the server still works, for minutes if the table is large
                bar.phase("committing" if index == "flat" else "indexing")

        common: dict[str, Any] = {"denoise": denoise, "overwrite": overwrite, "progress": reach}
        if to == "pgvector":
            column: Any = "halfvec" if half else "vector"
            about = asked.export.pgvector(dsn or "", table=str(table), index=index, column=column, **common)
        elif to == "faiss":
            about = asked.export.faiss(str(out), index="flat" if index == "auto" else index, **common)
        else:
            write = asked.export.npz if to == "numpy" else asked.export.parquet
            about = write(str(out), **common)
    target = str(table if out is None else out)
    if as_json:
        print_json({"to": to, "target": target, **about})
        return
    print_fields(_fields(target, about))
    print_lines(["", _RANK if about["denoised"] else _SUBTRACT])
    if asked.directions is not None:
        print_lines([f"What they tell is the {about['measure']}, not in all attributes."])


def _check(to: Tool, given: Mapping[str, object]) -> None:
    """Refuse options of other tools, and the lack of what says where to."""
    needed, what = ("--table", "NAME") if to == "pgvector" else ("--out", "FILE")
    if given[needed] is None:
        raise ParameterError(f"{needed} must say where to export, but it is missing. Add {needed} {what}.")
    allowed = ("--table", "--dsn", "--half") if to == "pgvector" else ("--out",)
    for name, value in given.items():
        if value is not None and name not in allowed:
            raise ParameterError(f"{name} must not be given with --to {to}, which does not know it.")
    ending = {"numpy": ".npz", "parquet": ".parquet"}.get(to)
    if ending is not None and not str(given["--out"]).endswith(ending):
        raise ParameterError(f"--out must end in {ending} with --to {to}, got {str(given['--out'])!r}. Rename it.")


def _fields(target: str, about: "AboutExport") -> dict[str, str]:
    bias = about["bias"]
    return {
        "exported": target,
        "people": f"{about['people']:,}",
        "coordinates": f"{about['dimension']:,}",
        "average excess": "none" if bias is None else number_text(bias),
    }
