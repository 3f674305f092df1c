"""``dimly survey``: options, and answers, profiles and directions as tables, JSON or a figure."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dimly.cli import options as shared
from dimly.cli.faults import account
from dimly.cli.options import (
    AsJson,
    Debug,
    check_master,
    files_on_spark,
    names_between_commas,
    number_text,
    one_or_all,
    options_of,
)
from dimly.cli.terminal import ProgressBar, people, print_fields, print_json, print_lines, print_table, warn
from dimly.display import percent
from dimly.errors import ParameterError

if TYPE_CHECKING:
    from dimly.curator.options import Options
    from dimly.curator.survey.private_directions import LearnedFile
    from dimly.curator.survey.run import SurveyOutcome
    from dimly.mechanisms.survey_plan import SurveyPlan
    from dimly.release.documents.profiles_file import Profiles
    from dimly.release.documents.survey_file import AttributeCounts, Curve, Survey

_SHOWN = 20
_TELLING = 5


@shared.with_groups
def survey(
    data: shared.Data,
    *,
    epsilon: Annotated[
        float,
        typer.Option(
            help="All answers together change the odds of any one attribute by at most e^epsilon.",
            rich_help_panel=shared.PROMISE,
        ),
    ],
    user: shared.UserColumn,
    delta: Annotated[
        float,
        typer.Option(
            help="How much the probability of any outcome may change beyond that factor; needed to show "
            "names of attributes that no public list holds.",
            rich_help_panel=shared.PROMISE,
        ),
    ] = 0.0,
    unit: Annotated[
        Literal["attribute", "column"],
        typer.Option(
            help="What is protected: one attribute, or one categorical column.", rich_help_panel=shared.PROMISE
        ),
    ] = "attribute",
    protect: shared.Protect = 1,
    total: Annotated[
        bool,
        typer.Option(
            "--total",
            help="Epsilon and delta are for the survey and the release after it. The survey takes a tenth, and for "
            "directions 0.3 of epsilon; dimly plan --total takes the rest.",
            rich_help_panel=shared.PROMISE,
        ),
    ] = False,
    ask: Annotated[
        list[str] | None,
        typer.Option(
            metavar="Q1,Q2,...",
            help="vocabulary (frequent names), counts (of a public list), weights (attributes of a person), distances "
            "(of pairs); by default all that can be answered with what is given. Or directions alone (what goes "
            "together).",
            parser=names_between_commas,
            rich_help_panel=shared.PROMISE,
        ),
    ] = None,
    share: Annotated[
        list[str] | None,
        typer.Option(
            metavar="Q=PART,...",
            help="How epsilon is divided, such as distances=2,weights=1; equally by default.",
            parser=names_between_commas,
            rich_help_panel=shared.PROMISE,
        ),
    ] = None,
    by: Annotated[
        Path | None,
        typer.Option(
            metavar="SEGMENTS",
            help="Count the attributes of --vocabulary in each segment, from a file made by dimly segments; nothing "
            "else is asked then, and the output is a Parquet table.",
            rich_help_panel=shared.PUBLIC,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            "--output",
            metavar="FILE",
            help="The file to make: JSON; Parquet with --by, and for directions.",
            rich_help_panel=shared.OUTPUT,
        ),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --by: draw what each segment has more often than others, too: .png, .svg or .pdf.",
            rich_help_panel=shared.OUTPUT,
        ),
    ] = None,
    shape: shared.ShapeOptions,
    resolution: Annotated[
        int, typer.Option(help="1 for bits; R for values from 0 to 1 in steps of 1/R.", rich_help_panel=shared.SHAPE)
    ] = 1,
    roster: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The public list of people; needed for weights and distances. Others are left out.",
            rich_help_panel=shared.PUBLIC,
        ),
    ] = None,
    vocabulary: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The public list of attributes, to ask for counts.", rich_help_panel=shared.PUBLIC
        ),
    ] = None,
    pseudonyms: Annotated[
        Path | None,
        typer.Option(
            metavar="KEY",
            help="With --by: the key file of the release, if it has pseudonyms.",
            rich_help_panel=shared.PUBLIC,
        ),
    ] = None,
    members: Annotated[
        int | None,
        typer.Option(
            help="For directions: how many attributes of a person count at most; 150 by default.",
            rich_help_panel=shared.PROMISE,
        ),
    ] = None,
    buckets: Annotated[
        int | None,
        typer.Option(
            help="For directions: put attributes into this many hash buckets. By default 4,096 if there is no list of "
            "attributes or one of more than a million; otherwise buckets are not used.",
            rich_help_panel=shared.PROMISE,
        ),
    ] = None,
    seed: Annotated[
        str | None,
        typer.Option(
            metavar="HEX",
            help="Public seed of the order in which people are paired, 64 hexadecimal digits; fresh by default.",
            rich_help_panel=shared.PUBLIC,
        ),
    ] = None,
    charging: shared.LedgerOptions,
    table: shared.Table = None,
    query: shared.Query = None,
    where: shared.Where = None,
    reading: shared.ReadingOptions,
    engine: shared.Engine = "local",
    master: shared.Master = None,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Replace an existing file; charges the full price again.", rich_help_panel=shared.OUTPUT
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Check everything and show the cost; no noise is drawn, and nothing is charged.",
            rich_help_panel=shared.OUTPUT,
        ),
    ] = False,
    diagnose: shared.Diagnose = None,
    as_json: AsJson = False,
    _debug: Debug = False,
) -> None:
    """Ask a private table what planning needs to know, for a small share of its budget.

    Answers are noisy counts: which attributes are frequent, how many a person has, how far apart people are. They are
    public, and charged as a release is. Give the file to dimly plan --survey.

    $ dimly survey visits.parquet --user person --attribute place --roster people.csv --epsilon 0.05 -o survey.json
    """
    from dimly.curator.survey.questions import Questions, ask_table
    from dimly.privacy import Budget
    from dimly.release.documents.profiles_file import Profiles
    from dimly.release.documents.survey_file import Survey

    if output is None and not dry_run:
        raise ParameterError("output must be a file to make, got none. Add -o FILE, or --dry-run to check only.")
    check_master(engine, master)
    if figure is not None:
        read = (data, roster, vocabulary, by, pseudonyms, output)
        _check_figure(figure, read, overwrite=overwrite, profiles=by is not None and not dry_run)
    budget = Budget(epsilon, delta)
    # Without a roster nothing that a survey tells holds how many people there are.
    with ProgressBar(amount=None if roster is None else people) as progress:
        options = options_of(
            shape,
            reading,
            charging,
            user=user,
            roster=roster,
            vocabulary=vocabulary,
            out=output,
            table=table,
            query=query,
            where=where,
            diagnose=diagnose,
            pseudonyms=pseudonyms,
            overwrite=overwrite,
            dry_run=dry_run,
            progress=progress,
        )
        parts, asked = _shares(_flat(share)), _flat(ask)
        if by is not None and asked not in ([], ["profiles"]):
            raise ParameterError(
                f"ask must be left out with --by, which asks for profiles alone, got {','.join(asked)!r}."
            )
        questions = Questions(
            ask=asked or None,
            share=parts,
            unit=unit,
            resolution=resolution,
            seed=seed,
            by=by,
            members=members,
            buckets=buckets,
            protect=protect,
            total=total,
        )
        with _opened(data, options, engine, master) as (source, rest):
            done = ask_table(source, budget, questions, rest)
    with account(None if done.path is None else f"{done.path} is written: nothing of the survey is lost."):
        if figure is not None and isinstance(done.survey, Profiles):
            _draw(done.survey, figure, overwrite=overwrite)
        for text in done.warnings:
            warn(text)
        if as_json:
            print_json(_facts(done))
            return
        print_fields(_fields(done))
        if isinstance(done.survey, Survey):
            _print_answers(done.survey)
            print_lines(["", *done.survey.guarantee])
        elif isinstance(done.survey, Profiles):
            _print_profiles(done.survey)
        elif done.survey is not None:
            _print_directions(done.survey)


@contextlib.contextmanager
def _opened(data: list[str], options: "Options", engine: str, master: str | None) -> Iterator["tuple[Any, Options]"]:
    """Give what is asked, and the options that are left to say of it."""
    if engine == "local":
        yield one_or_all(data), options
        return
    from dimly.spark.surveying import SurveyedFrame

    with files_on_spark(data, options, master) as (source, rest):
        yield SurveyedFrame(source), rest


def _check_figure(path: Path, inputs: Any, *, overwrite: bool, profiles: bool) -> None:
    """Refuse a figure that cannot be drawn, before anything is read or charged."""
    from dimly.files import check_output
    from dimly.lab.charts import FORMATS, need_plots

    if not profiles:
        raise ParameterError("figure must be given together with --by, and not in a dry run: it shows profiles.")
    if path.suffix.lower() not in FORMATS:
        raise ParameterError(f"figure must end in {', '.join(FORMATS)}, got {path.name!r}.")
    need_plots()
    check_output(path, overwrite=overwrite, inputs=inputs)


def _draw(found: "Profiles", path: Path, *, overwrite: bool) -> None:
    from dimly.files import write_bytes
    from dimly.lab.charts import ProfileChart, encoded

    write_bytes(path, encoded(ProfileChart(found).draw(), path.suffix.lower()[1:]), overwrite=overwrite)


def _flat(given: Any) -> list[str]:
    """Return the names of all options of one kind; each was parsed into a list already."""
    return [name for names in given or () for name in names]


def _shares(parts: list[str]) -> dict[str, float] | None:
    """Return how the budget is divided, from texts such as distances=2."""
    found: dict[str, float] = {}
    for text in parts:
        name, _, part = text.partition("=")
        if name in found:
            raise ParameterError(f"share must name each question once, got {name!r} twice.")
        try:
            found[name] = float(part)
        except ValueError:
            raise ParameterError(f"share must be a question and its part, such as distances=2, got {text!r}.") from None
    return found or None


def _facts(done: "SurveyOutcome[Any]") -> dict[str, Any]:
    facts: dict[str, Any] = {
        "survey": None if done.path is None else str(done.path),
        "id": None if done.survey is None else done.survey.id,
        "epsilon": done.cost.epsilon,
        "delta": done.cost.delta,
        "shares": {one.topic: one.epsilon for one in done.plan.shares},
        "plan_digest": done.plan.digest,
        **({} if done.plan.members is None else {"buckets": done.plan.buckets}),
        "users": getattr(done.survey, "n_users", None),
        "ledger": done.ledger,
    }
    if done.survey is None or done.plan.release is not None:
        return facts
    if done.plan.members is not None:
        return facts | {"count": done.survey.directions.count, "eigenvalues": list(done.survey.eigenvalues)}
    curves = {"weights": done.survey.weights, "distances": done.survey.distances}
    for name, curve in curves.items():
        if curve is not None:
            facts[name] = {share: one.model_dump() for share, one in curve.quantiles.items()}
    names = done.survey.vocabulary or done.survey.counts
    return facts | ({} if names is None else {"n_attributes": len(names.attributes)})


def _fields(done: "SurveyOutcome[Any]") -> dict[str, str]:
    fields = {
        "survey": "none: a dry run" if done.path is None else str(done.path),
        "id": "" if done.survey is None else done.survey.id,
        "cost": f"epsilon = {done.cost.epsilon:g}, delta = {done.cost.delta:g}",
        "shares": ", ".join(f"{one.topic} {one.epsilon:g}" for one in done.plan.shares),
        "pairs of": "" if done.plan.members is None else _columns(done.plan),
        "ledger": "none",
    }
    if done.ledger is not None:
        fields["ledger"] = ", ".join(f"{name} {value}" for name, value in done.ledger.items())
    return {name: text for name, text in fields.items() if text}


def _columns(plan: "SurveyPlan") -> str:
    """Return of what pairs are counted, and why."""
    if plan.buckets is None:
        return "attributes of the list (--buckets M would take hash buckets instead)"
    return f"{plan.buckets:,} hash buckets, as stated or because there is no list of attributes or a very long one"


def _print_answers(survey: "Survey") -> None:
    curves = {"attributes of a person": survey.weights, "squared distance of a pair": survey.distances}
    found = {name: curve for name, curve in curves.items() if curve is not None}
    if found:
        typer.echo()
        shares = list(next(iter(found.values())).quantiles)
        print_table(
            ["quantile", *shares], [[name, *_quantiles(curve)] for name, curve in found.items()], numbers=shares
        )
    names = survey.vocabulary or survey.counts
    if names is not None:
        _print_counts(names)


def _print_profiles(found: "Profiles") -> None:
    typer.echo()
    header = ["segment", "attribute", "people", "count", "95 % interval", "share", "more than others"]
    rows = [
        [
            segment,
            row["attribute"],
            f"{row['people']:,}",
            f"{row['count']:,}",
            f"{row['low']:,} to {row['high']:,}",
            percent(row["share"]),
            f"{100 * row['apart']:+.0f} points",
        ]
        for segment in range(len(found.sizes))
        for row in found.strongest(segment, _TELLING)
    ]
    print_table(header, rows, numbers=[name for name in header if name != "attribute"])
    print_lines(["", "These look strongest. Noise makes some of them look stronger than they are."])


def _print_directions(found: "LearnedFile") -> None:
    strengths = ", ".join(number_text(value) for value in found.eigenvalues)
    typer.echo()
    print_fields(
        {
            "directions": f"{found.directions.count} of {len(found.directions.matrix):,} {_rows(found)}",
            "strength": f"{strengths}; noise alone reaches {number_text(found.noise)}",
            "origin": found.directions.origin,
        }
    )


def _rows(found: "LearnedFile") -> str:
    return "attributes" if found.directions.buckets is None else "buckets"


def _quantiles(curve: "Curve") -> list[str]:
    return [
        f"{number_text(one.value)} ({number_text(one.low)} to {number_text(one.high)})"
        for one in curve.quantiles.values()
    ]


def _print_counts(names: "AttributeCounts") -> None:
    typer.echo()
    if not names.attributes:
        print_lines(["No attribute is frequent enough to be shown."])
        return
    most = sorted(names.attributes, key=lambda one: -one.count)[:_SHOWN]
    rows = [[one.attribute, f"{one.count:,}", f"{one.low:,} to {one.high:,}"] for one in most]
    print_table(["attribute", "people", "95 % interval"], rows, numbers=["people"])
    if len(names.attributes) > len(most):
        print_lines([f"and {len(names.attributes) - len(most):,} more in the file."])
