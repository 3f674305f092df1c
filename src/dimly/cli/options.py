"""Options that commands share, as Typer's types; a release to ask; plans, promises, estimates as text and JSON."""

import contextlib
import csv
import functools
import inspect
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Unpack

import typer

from dimly.cli.terminal import size_text, warn
from dimly.errors import ParameterError

if TYPE_CHECKING:
    from dimly.analyst import Estimate, Release
    from dimly.curator.options import Options, PublishOptions
    from dimly.mechanisms import Plan
    from dimly.spark.file_frames import FrameSource


_DEBUG = "dimly.cli.debug"
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}


def _note_debug(context: typer.Context, asked: bool) -> None:
    if asked:
        context.meta[_DEBUG] = True


def asks_for_debug(meta: Mapping[str, Any]) -> bool:
    """Return whether the command line that ``meta`` belongs to had ``--debug``."""
    return bool(meta.get(_DEBUG))


def without_linear_algebra() -> None:
    """Let NumPy start no threads: for commands that multiply no matrices, before anything loads NumPy.

    Its library of linear algebra starts one for each core when it is loaded, and each of them waits busily for work for
    some 30 ms before it goes to sleep.
    """
    if "numpy" not in sys.modules:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, and nothing else there.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print the table as CSV on stdout, and nothing else there.")]
Debug = Annotated[
    bool,
    typer.Option(
        "--debug",
        help="If it fails, print where in the code, without messages or values.",
        callback=_note_debug,
        is_eager=True,
    ),
]


def check_one_output(*, as_json: bool, as_csv: bool) -> None:
    """Refuse two kinds of output at once."""
    if as_json and as_csv:
        raise ParameterError("--json and --csv must not be given together. Leave one of them out.")


def size_in_bytes(text: str) -> int:
    """Return a size that people write as 2GB, 800MB or 1.5GiB, in bytes.

    Examples
    --------
    >>> size_in_bytes("1.5GiB"), size_in_bytes("512 mb")
    (1610612736, 512000000)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?I?)B?", text.strip().upper())
    size = 0 if match is None or match[2] not in _UNITS else int(float(match[1]) * _UNITS[match[2]])
    if size < 1:
        raise typer.BadParameter(f"must be a size such as 2GB, 800MB or 1.5GiB, got {text!r}")
    return size


def names_between_commas(text: str) -> list[str]:
    """Return names that are separated by commas; a name with a comma in it goes between double quotes.

    Examples
    --------
    >>> names_between_commas('age,"city, country"')
    ['age', 'city, country']
    """
    try:
        names = next(csv.reader([text], strict=True), [])
    except csv.Error:  # a quote that does not end
        names = []
    if not all(names) or not names:
        raise typer.BadParameter(f"must be column names separated by commas, got {text!r}")
    return names


def _character(text: str) -> str:
    r"""Return a delimiter; a tab is hard to type, so that \t and tab mean it."""
    return "\t" if text in ("\\t", "tab") else text


# How a table of people is read, for every command that reads one. Panels of the help come first.
SHAPE = "What the table looks like"
PUBLIC = "Public lists"
LEDGER = "Ledger"
READING = "Reading"
ENGINE = "Engine"
OUTPUT = "Output"
PROMISE = "What is promised"

Data = Annotated[
    list[str],
    typer.Argument(
        metavar="DATA",
        help="Files, globs or folders of Parquet, CSV or JSON lines, or one DuckDB or SQLite file.",
        show_default=False,
    ),
]
UserColumn = Annotated[str, typer.Option(metavar="COLUMN", help="The column of people's ids.", show_default=False)]
AttributeColumn = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Each row has one attribute: the column that names it.", rich_help_panel=SHAPE),
]
ValueColumn = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="With --attribute: the column of its value, from 0 to 1. Without it, the value is 1.",
        rich_help_panel=SHAPE,
    ),
]
ListColumn = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN", help="Each row has a list of attributes: the column of the list.", rich_help_panel=SHAPE
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        metavar="C1,C2,...",
        help="Each of these columns is an attribute. Text becomes column=value, if the plan's unit is column.",
        rich_help_panel=SHAPE,
        parser=names_between_commas,
    ),
]
AllColumns = Annotated[
    bool, typer.Option("--all-columns", help="Every column but the user's is an attribute.", rich_help_panel=SHAPE)
]
Table = Annotated[
    str | None, typer.Option(metavar="TABLE", help="The table of a database file.", rich_help_panel=READING)
]
Query = Annotated[str | None, typer.Option(metavar="SQL", help="A query of a database file.", rich_help_panel=READING)]
Delimiter = Annotated[
    str | None,
    typer.Option(
        metavar="CHAR",
        help="CSV: what separates fields; by default what separates the names in the first line.",
        rich_help_panel=READING,
        parser=_character,
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="CSV: the encoding; UTF-8 by default, or what a byte-order mark says.",
        rich_help_panel=READING,
    ),
]
Protect = Annotated[
    int,
    typer.Option(
        metavar="M",
        help="Keep epsilon and delta for any M attributes of a person together, by group privacy.",
        rich_help_panel=PROMISE,
    ),
]
Diagnose = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write how much is left out to a new file for you alone: NOT covered by the promise.",
        rich_help_panel=OUTPUT,
    ),
]
Engine = Annotated[
    Literal["local", "spark"],
    typer.Option(help="This machine alone, or a Spark cluster (docs/scale.md).", rich_help_panel=ENGINE),
]
Master = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="With --engine spark: the cluster, such as yarn; this machine's cores by default.",
        rich_help_panel=ENGINE,
    ),
]
Roster = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The public list of people: each of them gets a row, and nobody else does. Without it, those in the data.",
        rich_help_panel=PUBLIC,
    ),
]
Vocabulary = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The public list of attributes that the plan was made with; others are left out.",
        rich_help_panel=PUBLIC,
    ),
]


Where = Annotated[
    str | None,
    typer.Option(
        metavar="SQL",
        help='Read only rows for which this is true, such as "rating > 0". Public: choose it without seeing the data.',
        rich_help_panel=READING,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AboutOptions:
    """What the publisher says of a release; named as the keywords of publishing."""

    title: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What the release is called.", rich_help_panel=OUTPUT)
    ] = None
    publisher: Annotated[str | None, typer.Option(metavar="TEXT", help="Who publishes it.", rich_help_panel=OUTPUT)] = (
        None
    )
    note: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="What readers should know: in manifest, README and report.", rich_help_panel=OUTPUT
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeOptions:
    """Which columns say who has what."""

    attribute: AttributeColumn = None
    value: ValueColumn = None
    attribute_list: ListColumn = None
    columns: Columns = None
    all_columns: AllColumns = False

    def given(self) -> "PublishOptions":
        """Return them as keywords of publishing.

        Raises
        ------
        ParameterError
            If columns are chosen in two ways.
        """
        return {
            "attribute": self.attribute,
            "value": self.value,
            "attributes": self.attribute_list,
            "columns": chosen_columns(self.columns, all_columns=self.all_columns),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingOptions:
    """How files are read, and what of this machine may be used for it; named as the keywords of publishing."""

    delimiter: Delimiter = None
    quote: Annotated[
        str | None,
        typer.Option(metavar="CHAR", help='CSV: what quotes a field; " by default.', rich_help_panel=READING),
    ] = None
    escape: Annotated[
        str | None,
        typer.Option(
            metavar="CHAR",
            help="CSV: what escapes a quote within a field, such as a backslash; by default the quote, doubled.",
            rich_help_panel=READING,
        ),
    ] = None
    encoding: Encoding = None
    nulls: Annotated[
        Literal["refuse", "drop"],
        typer.Option(help="What to do with rows without a user, an attribute or a value.", rich_help_panel=READING),
    ] = "refuse"
    values: Annotated[
        Literal["refuse", "clamp"],
        typer.Option(help="What to do with values below 0 or above 1.", rich_help_panel=READING),
    ] = "refuse"
    memory: Annotated[
        int | None,
        typer.Option(
            metavar="SIZE",
            help="Most memory to use, such as 800MiB or 1.5GiB; the rest is sorted on disk. 2GiB by default.",
            rich_help_panel=ENGINE,
            parser=size_in_bytes,
        ),
    ] = None
    threads: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Threads; all cores by default.", rich_help_panel=ENGINE)
    ] = None
    temp: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where private data is spilled, not encrypted, while it is sorted; the system's by default.",
            rich_help_panel=ENGINE,
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerOptions:
    """Which ledger pays; named as the keywords of publishing."""

    ledger: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Charge this ledger, made by dimly ledger init.", rich_help_panel=LEDGER),
    ] = None
    dataset: Annotated[
        str | None, typer.Option(metavar="NAME", help="The dataset in the ledger.", rich_help_panel=LEDGER)
    ] = None
    recipient: Annotated[
        str | None,
        typer.Option(metavar="WHO", help="Noted in the ledger; all recipients count together.", rich_help_panel=LEDGER),
    ] = None


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Show each option of the groups that a command takes in the place of the group.

    Typer knows single options only. So what it calls has them all in its signature, and collects them again.
    """
    own = inspect.signature(command).parameters.values()
    groups: dict[str, Any] = {one.name: one.annotation for one in own if is_dataclass(one.annotation)}

    @functools.wraps(command)
    def called(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{option.name: given.pop(option.name) for option in fields(group)})
        command(**given)

    shown: list[inspect.Parameter] = []
    for parameter in own:
        group = groups.get(parameter.name)
        shown += [parameter] if group is None else inspect.signature(group).parameters.values()
    called.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    called.__annotations__ = {option.name: option.annotation for option in shown}
    return called


def options_of(
    *groups: ShapeOptions | ReadingOptions | LedgerOptions | AboutOptions,
    dry_run: bool = False,
    **own: "Unpack[PublishOptions]",
) -> "Options":
    """Return the record of all that a command was asked for: groups of options, and its own."""
    from dimly.curator.options import Options

    given: dict[str, Any] = {"dry_run": dry_run, **own}
    for group in groups:
        given |= group.given() if isinstance(group, ShapeOptions) else asdict(group)
    return Options(**given)


def chosen_columns(columns: Any, *, all_columns: bool) -> list[str] | Literal["all"] | None:
    """Return the columns that --columns or --all-columns choose; each --columns was parsed into a list already.

    Raises
    ------
    ParameterError
        If both are given.
    """
    if columns and all_columns:
        raise ParameterError("columns must be given by --columns or by --all-columns, got both. Use one.")
    return "all" if all_columns else [name for names in columns for name in names] if columns else None


def check_master(engine: str, master: str | None) -> None:
    """Refuse a cluster that nothing would run on."""
    if master is not None and engine != "spark":
        raise ParameterError(f"master must come with --engine spark, got {master!r} alone. Add --engine spark.")


@contextlib.contextmanager
def files_on_spark(data: list[str], options: "Options", master: str | None) -> Iterator["tuple[FrameSource, Options]"]:
    """Start Spark, and give files as a frame, with the options that are left to say of one."""
    from dimly.curator.tables.csv import CsvOptions
    from dimly.spark.cluster import running_session
    from dimly.spark.file_frames import read_files

    # The files are read and the session is made here; publishing takes a frame as it is.
    rest = replace(options, delimiter=None, quote=None, escape=None, encoding=None, memory=None)
    with running_session(master=master, memory=options.memory) as session:
        yield read_files(session, data, csv=CsvOptions.of(options)), rest


def one_or_all(data: list[str]) -> str | list[str]:
    """Return the source that a command was given: one file, glob or folder is told from a list of them."""
    return data[0] if len(data) == 1 else data


def numbers_between(name: str, text: str, separator: str) -> tuple[float, ...]:
    """Return numbers that are written with a sign between them.

    Examples
    --------
    >>> numbers_between("scales", "50,200,800", ",")
    (50.0, 200.0, 800.0)
    """
    try:
        return tuple(float(part) for part in text.split(separator))
    except ValueError:
        example = separator.join(("100", "200") if separator == ":" else ("1", "2", "4"))
        raise ParameterError(
            f"{name} must be numbers with {separator!r} between them, such as {example}, got {text!r}."
        ) from None


_DISTANCES = (100, 400, 1600)
"""Squared distances that people with dozens to hundreds of attributes have."""


def plan_facts(plan: "Plan") -> dict[str, Any]:
    """Return what a plan means, ready for JSON."""
    return (
        {
            "mechanism": plan.mechanism,
            "k": plan.k,
            "epsilon": plan.cost.epsilon,
            "delta": plan.cost.delta,
            "unit": plan.unit,
            "bytes_per_user": plan.bytes_per_user,
            "stderr_at": _standard_errors(plan),
        }
        | measure_facts(plan)
        | together_facts(plan)
    )


def together_facts(plan: "Plan") -> dict[str, Any]:
    """Return what a plan promises for several attributes together, ready for JSON; nothing for one."""
    together = plan.together
    if together is None:
        return {}
    told = {"count": plan.protect, "unit": plan.unit, "epsilon": together.epsilon, "delta": together.delta}
    return {"together": told}


def plan_fields(plan: "Plan") -> dict[str, str]:
    """Return the same for people: what, and how large."""
    facts = plan_facts(plan)
    fields = {"mechanism": facts["mechanism"] + (f", k = {facts['k']:,}" if facts["k"] else "")}
    if plan.resolution > 1:
        fields["values"] = f"in [0, 1], in steps of 1/{plan.resolution}"
    if plan.directions is None:
        fields["attributes"] = "any" if plan.n_attributes is None else f"a closed list of {plan.n_attributes:,}"
    else:
        fields["directions"] = f"{plan.directions.kind}, sha256 {plan.directions.sha256}"
        size = f"{plan.directions.size:,}"
        fields["attributes"] = f"any, in {size} buckets" if plan.directions.buckets else f"{size} that have a row"
    if plan.together is not None:
        together = plan.together
        fields["together"] = (
            f"any {plan.protect} of a person, epsilon = {together.epsilon:g}, delta = {together.delta:g}"
        )
    fields["size"] = f"{size_text(facts['bytes_per_user'])} a person"
    fields["standard error"] = errors_text(facts["stderr_at"], plan.measured)
    return {name: text for name, text in fields.items() if text}


def errors_text(errors: Mapping[str, float], measure: str = "squared distance") -> str:
    """Return how far off estimated squared distances will be, in words."""
    words = measure.removeprefix("squared distance")
    return "; ".join(f"{error:,.3g} at squared distance {distance}" for distance, error in errors.items()) + words


def promise(plan: "Plan") -> list[str]:
    """Return what a release by ``plan`` will promise, one sentence each, as far as it does not depend on its size."""
    from dimly.mechanisms.guarantee import guarantee

    lines = guarantee(plan, 1).splitlines()
    if plan.cost.delta:
        lines[1] = (
            f"Beyond that factor the probability of any set of outcomes may change by delta = {plan.cost.delta:g}, "
            "which must be well below 1/n for n people."
        )
    return lines


def promise_together(plan: "Plan") -> list[str]:
    """Return what a release by ``plan`` will promise for several attributes of a person together; nothing for one."""
    return [] if plan.protect is None else promise(plan)[2:3]


def _standard_errors(plan: "Plan") -> dict[str, float]:
    """Return standard errors of squared distances that can occur; of people who share nothing, where that matters."""
    farthest = plan.n_attributes or max(_DISTANCES)
    variance = plan.error.distance()
    return {str(distance): float(variance(distance)) ** 0.5 for distance in _DISTANCES if distance <= farthest}


ReleaseFolder = Annotated[Path, typer.Argument(metavar="RELEASE", help="The release folder.", show_default=False)]
PARTS = ("value", "stderr", "low", "high")
"""Of an estimate, in the order that it is told in."""


class AskedRelease(NamedTuple):
    """A release to be asked, whether its people have names or numbers, and its id."""

    release: "Release"
    textual: bool
    release_id: str = ""

    def user(self, text: str, *, name: str) -> int | str:
        """Return an id from the command line, of the release's own type.

        Parameters
        ----------
        text : str
        name : str
            What the command calls it, to be told apart in a refusal.

        Raises
        ------
        ParameterError
            If the release's ids are integers and this is none, or nobody has it.
        """
        from dimly.analyst.pairs import near_ids, not_there

        if not self.textual and not re.fullmatch(r"[+-]?[0-9]{1,19}", text):
            raise ParameterError(f"{name} must be an integer, as all users of this release are.")
        user = text if self.textual else int(text)
        if user not in self.release:
            near = near_ids(self.release._sketches, user)
            raise ParameterError(
                f"{name} must be a user of this release, but {not_there([user])}.{near} List all ids with dimly "
                "inspect RELEASE --ids"
                + (", and write them as they are there, zeros in front included." if self.textual else ".")
            )
        return user


def open_to_ask(path: Path) -> AskedRelease:
    """Open a release for questions; a warning on stderr if it was made for tests."""
    from dimly.analyst import Release
    from dimly.release.reader import open_folder

    sketches = open_folder(path)
    if not sketches.private:
        warn("this release was made for tests only and is NOT PRIVATE; it must not be given to anyone.")
    return AskedRelease(Release(sketches, vocabulary=sketches.vocabulary), sketches.textual, sketches.manifest.release)


def estimate_facts(estimate: "Estimate[float]") -> dict[str, float | None]:
    """Return an estimate ready for JSON, which has neither NaN nor infinity: null is unknown, or without limit."""
    facts = {name: float(getattr(estimate, name)) for name in PARTS}
    return {name: number if math.isfinite(number) else None for name, number in facts.items()}


def measure_facts(plan: "Plan", metric: str = "euclidean") -> dict[str, str]:
    """Return what distances or similarities are, ready for JSON, where they are not in all attributes."""
    return {} if plan.directions is None else {"measure": measure_text(plan, metric)}


def measure_text(plan: "Plan", metric: str = "euclidean") -> str:
    """Return what a metric tells of the people of a release, in words."""
    if metric == "euclidean":
        return plan.measured
    return metric if plan.directions is None else f"{metric} along the directions"


def number_text(number: float) -> str:
    """Return a number for people, with four digits and no more.

    Examples
    --------
    >>> number_text(1234.5), number_text(0.51234), number_text(float("nan"))
    ('1,234', '0.5123', 'unknown')
    """
    if not math.isfinite(number):
        return "unknown"
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"


def interval_text(estimate: "Estimate[Any]") -> str:
    """Return an interval for people."""
    high = "any" if not math.isfinite(estimate.high) else number_text(estimate.high)
    return f"{number_text(estimate.low)} to {high}"
