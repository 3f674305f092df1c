"""``dimly neighbors``: who is most like somebody, or like a list of attributes."""

import math
import statistics
from typing import Annotated, Literal

import typer

from dimly.cli.options import (
    AsCsv,
    AsJson,
    Debug,
    ReleaseFolder,
    check_one_output,
    estimate_facts,
    interval_text,
    measure_facts,
    measure_text,
    number_text,
    open_to_ask,
)
from dimly.cli.terminal import ProgressBar, print_csv, print_json, print_lines, print_table
from dimly.errors import ParameterError


def neighbors(
    release: ReleaseFolder,
    *,
    user: Annotated[str | None, typer.Option(metavar="ID", help="Whose neighbors.", show_default=False)] = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Instead of a person: find those nearest to having just this attribute; may be repeated for several.",
            show_default=False,
        ),
    ] = None,
    n: Annotated[
        int | None,
        typer.Option("-n", "--count", metavar="N", help="How many; 10, or all if there are fewer.", show_default=False),
    ] = None,
    metric: Annotated[
        Literal["euclidean", "cosine", "jaccard"],
        typer.Option(help="Nearest by squared distance, or most alike by cosine or by Jaccard similarity."),
    ] = "euclidean",
    no_denoise: Annotated[
        bool, typer.Option("--no-denoise", help="Rank by the published numbers as they are; usually worse.")
    ] = False,
    approximate: Annotated[
        bool,
        typer.Option(
            "--approximate",
            help="Search by an index, for many questions about millions of people. It is made once, kept in the cache "
            "folder, and states which share of the exact answer it finds. With --user only.",
        ),
    ] = False,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
    _debug: Debug = False,
) -> None:
    """Find the people nearest to somebody, or to a list of attributes, with an estimate of how near each is.

    The first line says how many of those listed can be expected to be among the truly nearest: at a small epsilon,
    few. People are ranked by denoised numbers, which usually works better. The estimate beside each one comes from the
    published numbers, so the estimates need not be in the order of the ranks. The nearest of many people look nearer
    than they are: their estimates are too low on average, and their intervals contain the truth less often than they
    say.

    $ dimly neighbors release --user ada -n 5
    """
    check_one_output(as_json=as_json, as_csv=as_csv)
    if (user is None) == (attribute is None):
        got = "neither" if user is None else "both"
        raise ParameterError(
            f"one of --user and --attribute must be given, got {got}. Add --user ID for a person's neighbors."
        )
    if attribute is not None and "" in attribute:
        raise ParameterError("--attribute must not be empty. Was a variable of the shell not set?")
    if approximate and (user is None or metric != "euclidean"):
        raise ParameterError("--approximate must be with --user and squared distances. Leave it out to search exactly.")
    asked = open_to_ask(release)
    who = asked.user(user, name="--user") if user is not None else asked.release.project(attribute or [])
    with ProgressBar() as bar:
        if approximate:
            bar.phase("making an index")
            found = asked.release.index(denoise=not no_denoise, progress=bar.reach).neighbors(who, n=n)
        else:
            bar.phase("searching")
            found = asked.release.neighbors(who, n=n, metric=metric, denoise=not no_denoise, progress=bar.reach)
    people = [(rank, one, estimate) for rank, (one, estimate) in enumerate(found, start=1)]
    if as_json:
        facts = [{"rank": rank, "user": one, **estimate_facts(estimate)} for rank, one, estimate in people]
        expected = None if math.isnan(found.expected) else found.expected
        told = {"expected_true": expected, "expected_range": list(found.expected_range)}
        if found.recall is not None:
            told |= {"recall": found.recall, "recall_stderr": found.recall_stderr}
        print_json({**told, "neighbors": facts, **measure_facts(asked.release.plan, metric)})
        return
    what = measure_text(asked.release.plan, metric)
    rows = [
        (rank, _one_line(one), number_text(e.value), interval_text(e), number_text(e.stderr)) for rank, one, e in people
    ]
    if as_csv:
        print_csv(
            ["rank", "user", "value", "low", "high", "stderr"],
            [(rank, one, e.value, e.low, e.high, e.stderr) for rank, one, e in people],
        )
        return
    print_lines([found.words, ""])
    print_table(
        ["rank", "user", what, "95 % interval", "standard error"], rows, numbers=["rank", what, "standard error"]
    )
    lines = [found.words_on_order]
    if attribute is not None and asked.release.plan.vocabulary is None:
        lines.append("This release has no list of attributes, so a misspelled name is not noticed.")
    if metric == "euclidean":
        # Two independent errors: a difference of so many standard errors is chance in one of twenty cases.
        least = 1.96 * 2**0.5 * statistics.median(e.stderr for _, _, e in people)
        lines += [
            f"Differences below {number_text(least)} may be noise.",
            "The nearest of many look nearer than they are: most are farther away, some beyond their interval.",
        ]
    print_lines(["", *lines])


def _one_line(user: object) -> str:
    """Return an id as a table can show it: one with line breaks or the like, escaped."""
    text = str(user)
    return text if text.isprintable() else repr(text)
