"""The panel on the Plan page that takes a sample, tries plans out on it, and shows pictures of what came out."""

import csv
import io
import json
import zipfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
from nicegui import events, ui

from dimly.display import shortest
from dimly.errors import DimlyError, ParameterError
from dimly.lab.blur import Blur, blur_of
from dimly.lab.by_example.outcome import FIGURE, Trial
from dimly.lab.planning import advise
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.privacy import Budget
from dimly.release.documents.directions_file import encode_directions
from dimly.studio import echarts, theme
from dimly.studio.background_work import Job, watch
from dimly.studio.plan_draft import PlanDraft, plan_command

_SHAPES: Final = {
    "long": "one row per person and attribute",
    "list": "one row per person, with a list of attributes",
    "wide": "one row per person, one column per attribute",
}
_MOST_BYTES: Final = 1 << 31
_CSV: Final = (".csv", ".tsv", ".txt", "")
_HEADER: Final = 1 << 16  # bytes of a CSV file in which its first line is looked for


@dataclass
class SampleState:
    """A sample, how it is read, and what came of trying everything out on it."""

    given: str | None = None
    """A path from the command line."""
    name: str = ""
    path: Path | None = None
    columns: tuple[str, ...] = ()
    user: str | None = None
    attribute: str | None = None
    shape: str = "long"
    consent: bool = False
    job: Job[tuple[Trial, Blur | None]] | None = None
    draft: PlanDraft | None = None

    def take(self, path: Path, name: str) -> None:
        """Look at another file: its name and its columns."""
        self.path, self.name, self.job = path, name, None
        self.columns = columns_of(path)
        self.user = _likely(self.columns, ("user", "person", "customer", "id", "member", "visitor"))
        rest = tuple(one for one in self.columns if one != self.user)
        self.attribute = _likely(rest, ("attribute", "product", "item", "place", "word", "sku"))

    @property
    def reading(self) -> dict[str, Any]:
        """How :func:`dimly.advise` is told to read it."""
        which: dict[str, dict[str, Any]] = {
            "long": {"attribute": self.attribute},
            "list": {"attributes": self.attribute},
            "wide": {"columns": "all"},
        }
        return {"user": self.user, **which[self.shape]}

    @property
    def options(self) -> dict[str, Any]:
        """The same as options of a command line."""
        which: dict[str, dict[str, Any]] = {
            "long": {"attribute": self.attribute},
            "list": {"attribute-list": self.attribute},
            "wide": {"all-columns": True},
        }
        return {"user": self.user, **which[self.shape]}


def columns_of(path: Path) -> tuple[str, ...]:
    """Return the columns of a Parquet or CSV file; none where it is something else."""
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            return tuple(pq.read_schema(path).names)
        if path.suffix.lower() not in _CSV:
            return ()  # the first line of anything else would look like columns, too
        with path.open("rb") as file:
            text = file.read(_HEADER).decode("utf-8-sig", "replace")
    except (OSError, ValueError):
        return ()
    line = text.splitlines()[0] if text.strip() else ""
    delimiter = max(",;\t|", key=line.count)
    return tuple(next(csv.reader([line], delimiter=delimiter), []))


def _likely(columns: tuple[str, ...], names: tuple[str, ...]) -> str | None:
    for name in names:
        for column in columns:
            if name in column.lower():
                return column
    return columns[0] if columns else None


def tried(state: SampleState, draft: PlanDraft, job: Job[Any]) -> tuple[Trial, Blur | None]:
    """Try everything out, and make the picture of the sample."""
    if draft.has_values and state.shape != "wide":
        raise ParameterError(
            "amounts from 0 to 1 are tried out here only on a table with one column per attribute. For others there is "
            "the command `dimly plan --sample FILE --value COLUMN`; or untick the amounts under More settings."
        )
    job.phase("trying plans out on the sample")
    told = {
        name: draft.told[name]
        for name in ("purpose", "n_users", "n_groups", "max_bytes_per_user", "vocabulary", "unit", "protect", "seed")
    }
    found = advise(
        Budget(draft.epsilon, draft.delta),
        sample=str(state.path),
        progress=job.reach,
        total=draft.total,
        survey=draft.survey if draft.total else None,  # of which nothing counts here but what it spent
        **told,
        **state.reading,
    )
    job.phase("drawing the picture")
    sample = found.asking.sample
    blur = None
    if found.plan.places_people:
        names = [str(name) for name in sample.attributes] if isinstance(sample.attributes, Vocabulary) else None
        try:
            blur = blur_of(found.plan, sample.table[:2000], attributes=names)
        except DimlyError:  # a closed list that lacks some of these
            blur = None
    return found, blur


Saved = Callable[[Any], Awaitable[Path]]


def build(state: SampleState, saved: Saved, draft: Callable[[], PlanDraft]) -> None:
    """Build the panel."""
    if state.given is not None and state.path is None:
        state.take(Path(state.given), Path(state.given).name)
    with theme.sheet(
        "Better than guessing: try it out on public people",
        "A table of people whose data is public, or who agreed to its publication. Everything is tried out on them, "
        "with real noise; no distances need to be stated. The file stays on this computer.",
    ):
        shown = ui.element("div").classes("stack")

        async def upload(e: events.UploadEventArguments) -> None:
            path = await saved(e.file)
            state.take(path, e.file.name)
            show()

        ui.upload(
            auto_upload=True,
            max_files=1,
            max_file_size=_MOST_BYTES,
            label="Public people: CSV or Parquet",
            on_upload=upload,
        ).props('flat bordered accept=".csv,.tsv,.txt,.parquet,.pq"')

        def show() -> None:
            shown.clear()
            with shown:
                _form(state, draft, show)

        show()


def _form(state: SampleState, draft: Callable[[], PlanDraft], again: Callable[[], None]) -> None:
    if state.path is None:
        return
    ui.label(f"Sample: {state.name}").style("font-weight: 600")
    if not state.columns:
        ui.label("No columns were found in it. Use a CSV file with names in its first line, or Parquet.")
        return
    _columns(state, again)
    ui.checkbox(
        "These people's data is public, or they agreed to its publication",
        value=state.consent,
        on_change=lambda e: setattr(state, "consent", e.value),
    )
    result = ui.element("div").classes("stack")

    def begin() -> None:
        if not state.consent:
            ui.notify("Tick the box first: private people must not be tried out on.", type="warning")
            return
        state.draft = draft()
        asked = state.draft
        state.job = Job(lambda job: tried(state, asked, job))
        follow()

    def follow() -> None:
        result.clear()
        if state.job is not None:
            with result:
                watch(state.job, done)

    def done(job: Job[tuple[Trial, Blur | None]]) -> None:
        if job.error is not None:
            theme.sentence("bad", "The sample could not be tried out", job.error)
            return
        _result(state, *job.found)

    ui.button("Try it out on these people", icon="science", on_click=begin).props("outline")
    result.move(target_index=-1)
    if state.job is not None:
        follow()


def _columns(state: SampleState, again: Callable[[], None]) -> None:
    columns = list(state.columns)

    def reshape(shape: str) -> None:
        state.shape = shape
        again()

    with ui.element("div").classes("pair"):
        ui.select(
            columns,
            value=state.user,
            label="Column of the people's ids",
            on_change=lambda e: setattr(state, "user", e.value),
        )
        ui.select(
            _SHAPES,
            value=state.shape,
            label="How the table is laid out",
            on_change=lambda e: reshape(e.value),
        )
        if state.shape != "wide":
            ui.select(
                columns,
                value=state.attribute,
                label="Column of the attributes",
                on_change=lambda e: setattr(state, "attribute", e.value),
            )


def _result(state: SampleState, found: Trial, blur: Blur | None) -> None:
    theme.sentence(theme.verdict_class(found.verdict), "Measured on your sample: " + found.verdict, found.words)
    for line in (found.caveat, *found.doubts, *found.cautions, *found.assumed):
        ui.label(line[:1].upper() + line[1:]).classes("hint")
    figure = FIGURE[found.asking.brief.purpose]
    with ui.element("div").classes("pair"):
        theme.table(
            ["ε", "best plan", figure],
            [[f"{one.epsilon:g}", one.name, str(one.figures[figure])] for one in found.ladder if figure in one.figures],
            numbers=("ε",),
        )
        theme.table(
            ["at your ε", figure, "bytes"],
            [[one.name, str(one.figures.get(figure, "")), theme.number(one.bytes_per_user)] for one in found.tried],
            numbers=("bytes",),
            chosen=0,
        )
    if blur is not None:
        with ui.element("div").classes("pictures"):
            for name, options in zip(
                ("your people as they are", "in the release"), echarts.blur_charts(blur), strict=True
            ):
                with ui.element("div"):
                    ui.label(name).classes("picture-name")
                    ui.echart(options).style("height: 240px; width: 100%")
    ui.label(f"Digest {found.plan.digest}").classes("mono")
    ui.button(
        "Save the plan and its files", icon="download", on_click=lambda: ui.download.content(packed(found), "plan.zip")
    ).props("unelevated")
    draft = state.draft
    assert draft is not None  # noqa: S101 - set before the job began
    theme.command(command_of(state, draft, force=found.verdict == "not feasible"))


def command_of(state: SampleState, draft: PlanDraft, *, force: bool) -> str:
    """Return the command line that tries the same out, with the same digest where the same plan comes out best."""
    told = draft.told
    return plan_command(
        {
            "epsilon": shortest(draft.epsilon),
            "delta": shortest(draft.delta) if draft.delta else None,
            "protect": draft.protect if draft.protect > 1 else None,
            "total": draft.total,
            "survey": draft.survey_file if draft.total else None,
            "purpose": draft.purpose,
            "n-users": draft.n_users,
            "n-groups": told["n_groups"],
            "unit": draft.unit if draft.unit != "attribute" else None,
            "max-bytes-per-user": draft.max_bytes_per_user,
            "vocabulary": draft.vocabulary_file or None,
            "sample": state.name,
            **state.options,
            "seed": draft.seed or None,
            "force": force,
        }
    )


def packed(found: Trial) -> bytes:
    """Return the plan and what belongs to it, as ``dimly plan --sample`` writes it, in one archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("plan.json", found.plan.to_json())
        options = "--plan plan.json"
        if found.directions is not None:
            archive.writestr("plan.directions.parquet", encode_directions(found.directions).to_pybytes())
            options += " --directions plan.directions.parquet"
        if found.vocabulary is not None:
            lines = "".join(json.dumps({"attribute": name}) + "\n" for name in found.vocabulary)
            archive.writestr("plan.attributes.jsonl", lines)
            options += " --vocabulary plan.attributes.jsonl"
        if found.directions is not None or found.vocabulary is not None:
            options += " --volunteers SAMPLE"
        archive.writestr(
            "HOW-TO-PUBLISH.txt", f"dimly publish TABLE {options} --user PERSON --attribute ATTRIBUTE --out release\n"
        )
    return buffer.getvalue()
