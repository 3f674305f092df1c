"""``dimly simulate``: how plans would do, on people who do not exist; writes tables of them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dimly.cli.options import AsJson, Debug
from dimly.cli.terminal import ProgressBar, print_fields, print_json, print_lines, print_table, warn
from dimly.display import percent
from dimly.errors import ParameterError
from dimly.files import check_output, drafted, read_text, write_bytes

if TYPE_CHECKING:
    from dimly.analyst.release import Release
    from dimly.lab.population import Population
    from dimly.lab.simulate import Outcome
    from dimly.mechanisms import Plan


_PEOPLE, _PLANS, _OUTPUT = "The people", "The plans", "Output"
_NEXT_TO_NOTHING = 0.5  # an error predicted to be smaller is compared with half an attribute


def simulate(
    *,
    users: Annotated[int, typer.Option(help="How many people.", rich_help_panel=_PEOPLE)] = 2_000,
    attributes: Annotated[int, typer.Option(help="How many attributes there are.", rich_help_panel=_PEOPLE)] = 5_000,
    weight: Annotated[
        float,
        typer.Option(help="Attributes of a person on average; some have many times as many.", rich_help_panel=_PEOPLE),
    ] = 100.0,
    groups: Annotated[int, typer.Option(help="How many groups with tastes of their own.", rich_help_panel=_PEOPLE)] = 8,
    taste: Annotated[
        float, typer.Option(help="How much likelier a group's favorites are; 1: no groups.", rich_help_panel=_PEOPLE)
    ] = 60.0,
    overlap: Annotated[
        float, typer.Option(help="Part of the favorites that all groups share, 0 to 1.", rich_help_panel=_PEOPLE)
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="The same seed makes the same people.", rich_help_panel=_PEOPLE)] = 0,
    plan: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="A plan to try; may be repeated.", show_default=False, rich_help_panel=_PLANS
        ),
    ] = None,
    epsilon: Annotated[
        float, typer.Option(help="The promise of each --mechanism; a plan has its own.", rich_help_panel=_PLANS)
    ] = 1.0,
    mechanism: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A mechanism to try at its best k, beside any plans; may be repeated. paper is the paper's own.",
            show_default=False,
            rich_help_panel=_PLANS,
        ),
    ] = None,
    k: Annotated[
        int | None,
        typer.Option("--k", help="Numbers per person; the best for distances by default.", rich_help_panel=_PLANS),
    ] = None,
    release: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR",
            help="A release of the same people to measure, as published from --out; may be repeated.",
            show_default=False,
            rich_help_panel=_PLANS,
        ),
    ] = None,
    no_segments: Annotated[
        bool, typer.Option("--no-segments", help="Leave out segments, which take longest.", rich_help_panel=_PLANS)
    ] = False,
    figure: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Draw estimated against true distances, too: .png, .svg or .pdf.",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            metavar="FILE",
            help="Only write the people, as a long table of person and place, .csv or .parquet; no plan is tried.",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    roster: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="With --out: write the list of people, too, as Parquet.", rich_help_panel=_OUTPUT
        ),
    ] = None,
    truth: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="With --out: write their true groups, too, as Parquet.", rich_help_panel=_OUTPUT
        ),
    ] = None,
    volunteers: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --out: write other people of the same groups, too, to learn directions from, as Parquet.",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    n_volunteers: Annotated[
        int, typer.Option(help="How many of those; their ids follow the others'.", rich_help_panel=_OUTPUT)
    ] = 300,
    found: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Draw which segments the people of each group were put into, too: .png, .svg or .pdf.",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace existing files.", rich_help_panel=_OUTPUT)
    ] = False,
    as_json: AsJson = False,
    _debug: Debug = False,
) -> None:
    """Make up people with tastes, try plans on them, and measure how good the answers are.

    The predictions of theory are shown beside them: the error of distances, and how often a near pair is told from a
    far one. The people do not exist, so nothing is spent.

    $ dimly simulate --epsilon 2 --mechanism paper --mechanism counting+laplace
    $ dimly simulate --epsilon 2 --mechanism counting+laplace --figure recovered.png
    $ dimly simulate --users 20000 --out visits.parquet
    """
    from dimly.lab.population import make_population

    if (truth or roster or volunteers) is not None and out is None:
        raise ParameterError(
            "--roster, --truth and --volunteers must come with --out: they are of people that are written."
        )
    if (figure or found or release) and out is not None:
        raise ParameterError(
            "--out must stand without --figure, --found and --release: it writes people and tries no plan."
        )
    if found is not None and no_segments:
        raise ParameterError("--found must stand without --no-segments: it draws segments.")
    written = {"out": out, "roster": roster, "truth": truth, "volunteers": volunteers}
    _check_outputs(written | {"figure": figure, "found": found}, overwrite=overwrite)
    people = make_population(
        users, attributes, n_groups=groups, mean_weight=weight, taste=taste, overlap=overlap, seed=seed
    )
    if out is not None:
        others = None
        if volunteers is not None:
            others = make_population(
                n_volunteers,
                attributes,
                n_groups=groups,
                mean_weight=weight,
                taste=taste,
                overlap=overlap,
                seed=seed,
                volunteers=True,
            )
        _write(people, others, written, overwrite=overwrite, as_json=as_json)
        return
    from dimly.lab.simulate import Truth
    from dimly.lab.simulate import simulate as simulated

    releases = {str(path): _in_memory(path) for path in release or []}
    plans = _plans(plan or [], mechanism or [], people, epsilon=epsilon, k=k, menu=not releases)
    known = Truth.of(people)
    with ProgressBar(amount=lambda number: f"{number:,.0f} plans") as bar:
        bar.phase("publishing and asking")
        outcomes = simulated(
            known, list(plans.values()), releases=list(releases.values()), segments=not no_segments, told=bar.reach
        )
    named = dict(zip([*releases, *plans], outcomes, strict=True))
    _warn_of_others({name: named[name] for name in releases})
    if figure is not None:
        from dimly.lab.charts import rendered
        from dimly.lab.simulate import recovered

        write_bytes(figure, rendered(recovered(known, named), figure.suffix.lower()[1:]), overwrite=overwrite)
    if found is not None:
        from dimly.lab.charts import rendered
        from dimly.lab.simulate import groups_found

        write_bytes(found, rendered(groups_found(known, named), found.suffix.lower()[1:]), overwrite=overwrite)
    told = [{"plan": name, **one.to_dict()} for name, one in named.items()]
    if as_json:
        facts = {
            "users": users,
            "attributes": attributes,
            "groups": groups,
            "mean_weight": float(people.weights.mean()),
            "median_squared_distance": known.median,
        }
        drawn = {"figure": figure, "found": found}
        files = {name: None if path is None else str(path) for name, path in drawn.items()}
        print_json({"population": facts, **files, "outcomes": told})
        return
    print_outcomes(told, figure or found)


def _check_outputs(files: "Mapping[str, Path | None]", *, overwrite: bool) -> None:
    """Refuse files that cannot be written as asked, before anybody is made."""
    from dimly.lab.charts import FORMATS, need_plots

    endings = {"out": (".csv", ".parquet"), "figure": FORMATS, "found": FORMATS}
    named: dict[Path, str] = {}
    for name, path in files.items():
        if path is None:
            continue
        allowed = endings.get(name, (".parquet",))
        if (path.suffix.lower() if allowed == FORMATS else path.suffix) not in allowed:
            raise ParameterError(f"{name} must end in {' or '.join(allowed)}, got {path.name!r}.")
        if allowed == FORMATS:
            need_plots()
        other = named.setdefault(path.absolute(), name)
        if other != name:
            raise ParameterError(f"{name} must be another file than {other}, got {str(path)!r}.")
        check_output(path, overwrite=overwrite)


def _write(
    people: "Population",
    others: "Population | None",
    files: "Mapping[str, Path | None]",
    *,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Write all of the files or none of them."""
    writers: dict[str, Callable[[Path], None]] = {
        "out": people.write,
        "roster": people.write_people,
        "truth": people.write_groups,
    }
    if others is not None:
        writers["volunteers"] = partial(others.write, first=len(people.groups))
    with ExitStack() as stack:
        for name, write in writers.items():
            path = files[name]
            if path is not None:
                write(stack.enter_context(drafted(path, overwrite=overwrite)))
    facts: dict[str, object] = {name: None if path is None else str(path) for name, path in files.items()}
    facts |= {"users": people.table.shape[0], "rows": int(people.weights.sum())}
    if as_json:
        print_json(facts)
    else:
        print_fields(
            {n: f"{value:,}" if isinstance(value, int) else value for n, value in facts.items() if value is not None}
        )


def _in_memory(path: Path) -> "Release":
    """Open a release whose file is not to be read again for each of hundreds of questions."""
    from dimly.analyst.release import Release
    from dimly.cli.options import open_to_ask
    from dimly.release.sketches import Sketches

    found = open_to_ask(path).release
    plan = found.plan if found.directions is None else found.plan.along(found.directions)
    return Release(Sketches(plan, found.users, found.values, private=found.private))


def _warn_of_others(measured: "Mapping[str, Outcome]") -> None:
    """Warn of releases whose ids fit, and whose people do not."""
    from dimly.lab.demo import rounded

    for name, one in measured.items():
        factor = one.error.measured / max(one.error.predicted, _NEXT_TO_NOTHING)
        if factor > 2:
            closed = " Are their attributes on the list that its plan has?" if one.plan.vocabulary else ""
            warn(
                f"{name}: the release does not fit these people: its errors are {rounded(factor)} times the predicted "
                f"ones. Was it made with the same options and seed?{closed}"
            )


def _plans(
    files: list[Path], mechanisms: list[str], people: "Population", *, epsilon: float, k: int | None, menu: bool
) -> dict[str, "Plan"]:
    from dimly.lab.compare import MENU
    from dimly.lab.simulate import best_plan
    from dimly.mechanisms import Plan
    from dimly.mechanisms.make import sketching

    if files and k is not None and not mechanisms:
        raise ParameterError("--plan must stand without --k, which is for --mechanism: a plan has its own.")
    plans = {str(path): Plan.from_json(read_text("plan", path, hint="Make one with dimly plan.")) for path in files}
    for name in dict.fromkeys(mechanisms or (MENU if menu and not files else ())):
        sketches = name == "paper" or sketching(name) is not None
        plans[name] = best_plan(name, epsilon, people, k=k if sketches else None)
    return plans


def print_outcomes(outcomes: Sequence[dict[str, Any]], figure: Path | str | None) -> None:
    """Print how plans did, from what --json tells of them, and where it is drawn."""
    header = [
        "plan",
        "k",
        "error",
        "predicted error",
        "coverage",
        "near < far",
        "predicted near < far",
        "recall",
        "not denoised",
        "agreement",
        "stability",
    ]
    rows = []
    for one in outcomes:
        error, ranking = one["error"], one["ranking"]
        rest = [one[name] for name in ("recall", "recall_undenoised", "agreement", "stability")]
        shown = [
            "-" if share is None else f"{share:.2f}" for share in (ranking["measured"], ranking["predicted"], *rest)
        ]
        errors = [f"{error[name]:,.1f}" for name in ("measured", "predicted")]
        rows.append([one["plan"], one["k"] or "-", *errors, percent(one["coverage"], 1), *shown])
    print_table(header, rows, numbers=header[1:])
    print_lines(
        [
            "",
            "error: root mean square, of squared distances of random pairs; coverage: of 95 % intervals",
            "near < far: how often a pair of the nearest quarter is estimated nearer than one of the farthest",
            "recall: share of ten found neighbors that are true ones",
            "agreement: of segments and groups, from 0 (chance) to 1 (adjusted Rand index)",
        ]
    )
    along = [one["plan"] for one in outcomes if "directions" in one["measure"]]
    if along:
        print_lines([f"error, coverage, near < far of {', '.join(along)}: of squared distances along the directions"])
    if figure is not None:
        print_lines([""])
        print_fields({"figure": figure})
