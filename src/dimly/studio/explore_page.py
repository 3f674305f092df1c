"""The Explore page: a map of everybody colored by segment or column, a person's neighbors, two releases."""

import csv
import io
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
from nicegui import background_tasks, events, run, ui
from numpy.typing import NDArray

from dimly.analyst.estimate import Arrays
from dimly.analyst.neighbors.query import Neighbors
from dimly.analyst.segments.segments import Segments
from dimly.display import percent
from dimly.errors import ParameterError
from dimly.lab.release_pair import ReleasePair, compare_releases
from dimly.lab.simulate import agreement
from dimly.studio import echarts, theme
from dimly.studio.background_work import Job, sentence_of, watch
from dimly.studio.point_map import UNKNOWN_COLOR, Bytes, PointMap, ramp
from dimly.studio.public_column import PublicColumn, read_column
from dimly.studio.release_page import chooser
from dimly.studio.sample_panel import columns_of
from dimly.studio.workspace import DrawnRelease, OpenedRelease, Workspace, as_ids

_COLORS: Final = {
    "segments": "groups found in the release",
    "attribute": "an attribute",
    "column": "a public column of your own",
    "none": "one color",
}
_COUNTS: Final = {"auto": "as many as there are", **{str(i): str(i) for i in range(2, 13)}}
_N: Final = 10
_SHOWN_IDS: Final = 12
_MOST_BYTES: Final = 200 << 20  # of a public column: ten times what a million people take


def build(workspace: Workspace) -> None:
    """Build the page."""
    theme.title(
        "Explore a release",
        "Every dot is a person; dots that lie close together are alike, as far as the noise lets us see. Click one to "
        "see who is like them, or draw around a group.",
    )
    chooser(workspace, lambda opened: _begin(workspace, opened))


def _begin(workspace: Workspace, opened: OpenedRelease) -> None:
    if not opened.manifest.plan.places_people:
        theme.sentence(
            "plain",
            "This release has no map",
            "It holds distances between people only, and places nobody. See the Release page.",
        )
        return
    with ui.element("div").classes("w-full") as body:
        watch(opened.map_job(), lambda job: _drawn(workspace, opened, job, body))


def _drawn(workspace: Workspace, opened: OpenedRelease, job: "Job[DrawnRelease]", body: ui.element) -> None:
    with body:
        if job.error is not None:
            theme.sentence("bad", f"{opened.name} cannot be explored", job.error)
            return
        ExploreView(workspace, opened, job.found).build()


class ExploreView:
    """The elements of the page for one release in one tab."""

    def __init__(self, workspace: Workspace, opened: OpenedRelease, drawn: DrawnRelease) -> None:
        self.workspace = workspace
        self.opened = opened
        self.drawn = drawn
        self.group: NDArray[np.int64] = np.empty(0, np.int64)
        self.asked = 0
        self.segments_job = opened.segments_job("auto")
        self.folder = TemporaryDirectory(prefix="dimly-studio-")

    def build(self) -> None:
        """Lay the page out: the map on the left, what was asked of it on the right."""
        plane, data = self.drawn.plane, self.drawn.data
        n = len(data.places)
        with ui.element("div").classes("stack"):
            if plane.beyond_noise == 0:
                theme.sentence(
                    "coarse", "This map shows nothing but noise", "No direction of the release rises above its noise."
                )
            with ui.element("div").classes("explore"):
                with theme.sheet():
                    self._toolbar()
                    with ui.element("div").classes("map-frame"):
                        self.map = PointMap(
                            f"/studio/map/{self.opened.key}/points",
                            data,
                            label=f"Map of {n:,} people. Arrow keys move it, plus and minus zoom, 0 shows all, Enter "
                            "asks about the person in the middle.",
                        )
                        self.map.style("width: 100%; height: 100%").props("data-testid=map")
                        self.map.on("pick", lambda e: self._pick(e.args))
                        self.map.on("lasso", lambda e: self._lasso(e.args))
                        self.map.on("drawn", lambda e: self._note_drawn(e.args))
                    self.legend = ui.element("div").classes("w-full")
                    cells = (
                        "" if data.cells is None else f" in {len(data.drawn):,} cells: the more solid, the more people"
                    )
                    self.caption = ui.label(
                        f"{n:,} people{cells}. The map shows the two directions in which people differ most; "
                        f"{percent(plane.believed[0])} and {percent(plane.believed[1])} of the spread along them are "
                        "real differences, the rest is noise."
                    ).classes("hint")
                with ui.element("div").classes("stack"):
                    self._person()
                    self._group()
            self._segments()
            self._compare()

    def _toolbar(self) -> None:
        with ui.row().classes("w-full items-center gap-3"):
            self.by = (
                ui.select(_COLORS, value="segments", label="Color by", on_change=lambda e: self._recolor(e.value))
                .props("outlined dense")
                .style("min-width: 210px")
            )
            self.by_more = ui.row().classes("items-center gap-2")
            ui.space()
            ui.toggle(
                {"pan": "Move", "lasso": "Draw around a group"},
                value="pan",
                on_change=lambda e: self.map.set_mode(e.value),
            ).props("dense unelevated no-caps")

    def _note_drawn(self, told: Any) -> None:
        self.caption.props(f"data-renderer={told['renderer']} data-ms={round(told['ms'])} data-drawn={told['n']}")

    # Colors

    def _recolor(self, by: str) -> None:
        self.by_more.clear()
        self.legend.clear()
        if by == "none":
            self._paint(np.zeros(len(self.drawn.data.places), np.uint8), ["#0072b2"], [])
        elif by == "segments":
            self._paint(np.zeros(len(self.drawn.data.places), np.uint8), ["#0072b2"], [])
            with self.legend:
                watch(self.segments_job, self._segments_found)
        elif by == "attribute":
            with self.by_more:
                name = (
                    ui.input("Attribute, or several separated by commas")
                    .props("outlined dense")
                    .style("min-width: 200px")
                )
                ask = lambda: background_tasks.create(self._by_attribute(name.value or ""))  # noqa: E731
                name.on("keydown.enter", ask)
                ui.button("Show", on_click=ask).props("outline")
        else:
            with self.by_more:
                ui.upload(
                    auto_upload=True,
                    max_files=1,
                    max_file_size=_MOST_BYTES,
                    label="CSV or Parquet with ids",
                    on_upload=self._upload,
                    on_rejected=lambda: ui.notify(f"This file has more than {_MOST_BYTES >> 20} MB."),
                ).props('flat bordered accept=".csv,.tsv,.parquet,.pq"').style("width: 230px")

    def _segments_found(self, job: Job[Segments]) -> None:
        if self.by.value != "segments" or job is not self.segments_job:  # something else was asked for meanwhile
            return
        self.legend.clear()
        if job.error is not None:
            with self.legend:
                ui.label(f"No groups: {job.error}").classes("hint")
            return
        self._color_segments(job.found)

    def _color_segments(self, found: Segments) -> None:
        labels = found.labels
        colors = np.where(labels < 0, UNKNOWN_COLOR, labels % len(theme.PALETTE)).astype(np.uint8)
        legend = [
            (theme.PALETTE[i % len(theme.PALETTE)], f"group {i}: {size:,}")
            for i, size in enumerate(found.sizes.tolist())
        ]
        self._paint(
            colors, list(theme.PALETTE), legend if len(found) > 1 else [("#0072b2", "no groups to be told apart")]
        )

    def _paint(self, colors: Bytes, palette: list[str], legend: list[tuple[str, str]], note: str = "") -> None:
        shown = np.where(self.drawn.plane.known, colors, UNKNOWN_COLOR).astype(np.uint8)
        self.map.color(self.opened.add_layer(shown, self.drawn.data), palette)
        self.legend.clear()
        with self.legend:
            with ui.row().classes("gap-4"):
                for color, text in legend:
                    with ui.row().classes("items-center gap-1 no-wrap"):
                        ui.element("span").classes("swatch").style(f"background: {color}")
                        ui.label(text)
            if note:
                ui.label(note).classes("hint")

    async def _by_attribute(self, text: str) -> None:
        names = [one.strip() for one in next(csv.reader([text], skipinitialspace=True), []) if one.strip()]
        if not names:
            return
        self.legend.clear()
        with self.legend:
            ui.linear_progress(show_value=False).props("indeterminate rounded size=8px")
        try:
            found = await run.io_bound(_values_of, self.opened, names)
        except Exception as error:  # noqa: BLE001 (whatever is wrong is a sentence)
            self.legend.clear()
            with self.legend:
                theme.sentence("bad", "This cannot be shown", sentence_of(error))
            return
        if found is None:
            return
        value, stderr = found.value, float(np.median(found.stderr[np.isfinite(found.stderr)]))
        what = names[0] if len(names) == 1 else f"{len(names)} attributes"
        self._paint_numbers(
            value,
            f"estimated for {what}",
            f"Of a single person this is mostly noise (standard error {theme.number(stderr)}, where having it counts "
            "1): only whole regions of the map tell something.",
        )

    def _paint_numbers(self, values: NDArray[np.float64], what: str, note: str) -> None:
        finite = np.isfinite(values)
        low, high = (float(q) for q in np.quantile(values[finite], [0.02, 0.98])) if finite.any() else (0.0, 1.0)
        part = np.clip((np.where(finite, values, low) - low) / max(high - low, 1e-12), 0.0, 1.0)
        colors = np.where(finite, np.rint(254 * part), UNKNOWN_COLOR).astype(np.uint8)
        scale = ramp()
        legend = [(scale[i], theme.number(low + (high - low) * i / 254)) for i in (0, 64, 127, 191, 254)]
        self._paint(colors, scale, legend, f"Color: {what}. {note}")

    async def _upload(self, e: events.UploadEventArguments) -> None:
        path = Path(self.folder.name) / ("column" + Path(e.file.name).suffix[:12].lower())
        await e.file.save(path)
        columns = list(columns_of(path))
        self.by_more.clear()
        with self.by_more:
            if len(columns) < 2:
                ui.label("The file must have two columns at least: ids, and what to show.")
                return
            ids = ui.select(columns, value=columns[0], label="ids").props("outlined dense")
            shown = ui.select(columns, value=columns[1], label="show").props("outlined dense")
            ui.button(
                "Show", on_click=lambda: background_tasks.create(self._by_column(path, ids.value, shown.value))
            ).props("outline")
        await self._by_column(path, columns[0], columns[1])

    async def _by_column(self, path: Path, ids: str, shown: str) -> None:
        try:
            found: PublicColumn | None = await run.io_bound(
                read_column, path, ids, shown, lambda texts: as_ids(self.opened, texts), len(self.drawn.data.places)
            )
        except Exception as error:  # noqa: BLE001 (whatever is wrong is a sentence)
            self.legend.clear()
            with self.legend:
                theme.sentence("bad", "This column cannot be shown", sentence_of(error))
            return
        if found is None:
            return
        note = f"{found.n_joined:,} of {len(self.drawn.data.places):,} people have a value; the others are gray."
        if found.numbers is not None:
            self._paint_numbers(found.numbers, shown, note)
        else:
            assert found.codes is not None  # noqa: S101 - one of both
            legend = [(theme.PALETTE[i % len(theme.PALETTE)], name) for i, name in enumerate(found.names)]
            self._paint(found.codes, list(theme.PALETTE), legend, note)

    # One person

    def _person(self) -> None:
        with theme.sheet("One person", "Click a dot, or type an id."):
            with ui.row().classes("w-full no-wrap items-center gap-2"):
                name = ui.input("Id of a person").props("outlined dense data-testid=person").classes("grow")
                name.on("keydown.enter", lambda: self._find(name.value))
                ui.button("Find", on_click=lambda: self._find(name.value)).props("outline")
            self.person = ui.element("div").classes("stack").style("gap: 8px")

    def _find(self, text: str | None) -> None:
        if not text:
            return
        try:
            position = int(as_ids(self.opened, np.array([text], object))[0])
        except Exception as error:  # noqa: BLE001 (whatever is wrong is a sentence)
            self._say(sentence_of(error))
            return
        if position < 0:
            self._say("Nobody in this release has that id.")
            return
        background_tasks.create(self._ask(position))

    def _pick(self, place: Any) -> None:
        background_tasks.create(self._ask(self.drawn.data.nearest(float(place[0]), float(place[1]))))

    def _say(self, text: str) -> None:
        self.person.clear()
        with self.person:
            theme.sentence("plain", text)

    async def _ask(self, position: int) -> None:
        self.asked += 1
        asked = self.asked
        self.person.clear()
        with self.person:
            ui.linear_progress(show_value=False).props("indeterminate rounded size=8px")
        try:
            answer = await run.io_bound(_neighbors, self.opened, position)
        except Exception as error:  # noqa: BLE001 (whatever is wrong is a sentence)
            if asked == self.asked:
                self._say(sentence_of(error))
            return
        if asked != self.asked or answer is None or self.person.is_deleted:
            return
        user, found, positions = answer
        places = self.drawn.data.places
        marks = [(float(places[at][0]), float(places[at][1]), str(i + 1)) for i, at in enumerate(positions.tolist())]
        self.map.mark_people([(float(places[position][0]), float(places[position][1]), ""), *marks])
        self.person.clear()
        with self.person:
            self._answer(str(user), found)

    def _answer(self, user: str, found: Neighbors) -> None:
        with ui.element("div").style("overflow-wrap: anywhere"):
            ui.label(f"Nearest to {user}").style("font-weight: 650").props("data-testid=asked")
        mostly_noise = not found.expected >= len(found) / 2
        with (
            ui.element("div")
            .classes(f"verdict {'coarse' if mostly_noise else 'good'} small")
            .props("data-testid=belief")
        ):
            ui.label(found.words)
        rows = [
            [str(rank), str(one), theme.number(e.value), f"{theme.number(e.low)} to {theme.number(e.high)}"]
            for rank, (one, e) in enumerate(found, start=1)
        ]
        what = "differs in" if self.opened.manifest.plan.directions is None else "distance along directions"
        theme.table(["rank", "person", what, "95 % interval"], rows, numbers=(what,))
        ui.label(found.words_on_order).classes("hint")

    # A group

    def _group(self) -> None:
        with theme.sheet("A group of people", "Choose “Draw around a group” above the map, then draw."):
            self.chosen = ui.element("div").classes("stack").style("gap: 8px")

    def _lasso(self, outline: Any) -> None:
        self.group = self.drawn.data.inside(outline)
        self.chosen.clear()
        with self.chosen:
            ui.label(f"{len(self.group):,} people").classes("big").props("data-testid=group-size")
            if not len(self.group):
                return
            users = self.opened.release.users[self.group[:_SHOWN_IDS]].tolist()
            more = "" if len(self.group) <= _SHOWN_IDS else " …"
            ui.label(", ".join(map(str, users)) + more).classes("hint").style("overflow-wrap: anywhere")
            ui.button("Save their ids", icon="download", on_click=self._save_group).props("outline").style(
                "align-self: flex-start"
            )
            ui.label(
                "Who is drawn inside is decided by noise, too: treat it as a tendency, not as a fact about anyone."
            ).classes("hint")

    def _save_group(self) -> None:
        ui.download.content(as_csv(self.opened.release.users[self.group].tolist()), "group.csv", "text/csv")

    # Segments

    def _segments(self) -> None:
        with theme.sheet(
            "Groups", "People put into groups by what the release shows of them, and how far to believe in the groups."
        ):
            with ui.row().classes("items-center gap-3"):
                ui.select(
                    _COUNTS, value="auto", label="How many groups", on_change=lambda e: self._look(e.value)
                ).props("outlined dense").style("min-width: 210px")
            self.segments = ui.element("div").classes("stack")
        self._look("auto")

    def _look(self, count: str) -> None:
        self.segments.clear()
        self.segments_job = self.opened.segments_job("auto" if count == "auto" else int(count))
        with self.segments:
            watch(self.segments_job, self._show_segments)
        if self.by.value == "segments":
            self._recolor("segments")

    def _show_segments(self, job: Job[Segments]) -> None:
        if job is not self.segments_job:
            return
        if job.error is not None:
            theme.sentence("bad", "No groups could be looked for", job.error)
            return
        found = job.found
        kind, head = _stability_words(found)
        theme.sentence(kind, head, found.words)
        if len(found) < 2:
            return
        profiles = found.describe() if found.is_described else None
        total = max(int(found.sizes.sum()), 1)
        rows = []
        for i, size in enumerate(found.sizes.tolist()):
            rows.append(
                [
                    str(i),
                    f"{size:,}",
                    percent(size / total),
                    *([] if profiles is None else [profiles[i].words]),
                ]
            )
        header = ["group", "people", "share", *([] if profiles is None else ["what tells it apart"])]
        theme.table(header, rows, numbers=("people", "share"))
        if profiles is None:
            ui.label(
                "This kind of release does not tell which attributes set a group apart. A release along directions "
                "does, and so does a survey by segments (dimly survey --by)."
            ).classes("hint")
        ui.button(
            "Save everybody's group",
            icon="download",
            on_click=lambda: ui.download.content(
                as_csv(found.users.tolist(), segment=found.labels.tolist()), "segments.csv", "text/csv"
            ),
        ).props("outline").style("align-self: flex-start")

    # Two releases

    def _compare(self) -> None:
        names = {key: name for key, name in self.workspace.release_names().items() if key != self.opened.key}
        with theme.sheet(
            "Compare with another release", "Who is in both, whether they show the same, and what they cost together."
        ):
            if not names:
                ui.label(
                    "Open a second release at the top of this page. Both can then be chosen there, and compared here."
                ).classes("hint")
                return
            ui.select(names, label="The other release", on_change=lambda e: self._beside(e.value)).props(
                "outlined dense"
            ).style("min-width: 220px")
            self.compared = ui.element("div").classes("stack")

    def _beside(self, key: str) -> None:
        other = self.workspace.releases[key]
        self.compared.clear()

        def done(job: Job[tuple[ReleasePair, float | None]]) -> None:
            with self.compared:
                if job.error is not None:
                    theme.sentence("bad", "They cannot be compared", job.error)
                else:
                    _show_pair(self.opened, other, *job.found)

        with self.compared:
            watch(self.opened.job(f"beside {key}", lambda job: _pair(self.opened, other, job)), done)


def _neighbors(opened: OpenedRelease, position: int) -> tuple[Any, Neighbors, NDArray[np.int64]]:
    """Return who was asked about, the nearest, and where these are."""
    release = opened.release
    user = release.users[position]
    who = str(user) if opened.sketches.textual else int(user)
    found = release.neighbors(who, min(_N, len(release) - 1))
    _ = found.words  # found out here, and not while the page waits
    return user, found, opened.sketches.locate(found.users)


def _values_of(opened: OpenedRelease, names: list[str]) -> Arrays:
    opened.check()
    release = opened.release
    if len(names) == 1:
        return release.attribute(release.users, names[0])
    if not release.plan.measures_attributes:
        raise ParameterError(
            "directions say nothing about single attributes. Color by groups, or by a column of your own."
        )
    return release.inner_product(release.users, release.project(set(names)))


def _pair(opened: OpenedRelease, other: OpenedRelease, job: Job[Any]) -> tuple[ReleasePair, float | None]:
    for one in (opened, other):
        one.check()
    job.phase("comparing distances")
    pair = compare_releases(opened.release, other.release)
    if pair.n_common < 2:
        return pair, None
    job.phase("comparing groups")
    labels = []
    for one in (opened, other):
        if not one.manifest.plan.places_people:
            return pair, None
        found = one.segments_job("auto").found
        labels.append(dict(zip(found.users.tolist(), found.labels.tolist(), strict=True)))
    common = sorted(labels[0].keys() & labels[1].keys())
    first, second = (np.array([one[user] for user in common]) for one in labels)
    return pair, agreement(first, second)


def _show_pair(a: OpenedRelease, b: OpenedRelease, pair: ReleasePair, same_groups: float | None) -> None:
    theme.sentence("plain", f"{pair.n_common:,} people are in both", pair.words)
    rows = [
        ["People", f"{a.manifest.n_users:,}", f"{b.manifest.n_users:,}"],
        [
            "Promise for one attribute",
            *(f"ε = {one.manifest.plan.cost.epsilon:g}, δ = {one.manifest.plan.cost.delta:g}" for one in (a, b)),
        ],
        ["Method", a.manifest.plan.mechanism, b.manifest.plan.mechanism],
        ["Plan", a.manifest.plan_digest[:12], b.manifest.plan_digest[:12]],
    ]
    theme.table(["", a.name, b.name], rows)
    ui.label(
        f"If both are about the same people, whoever has both has a promise of ε = {pair.epsilon:g}"
        + (f", δ = {pair.delta:g}" if pair.delta else "")
        + " for one attribute: privacy losses add up."
    )
    if same_groups is not None:
        ui.label(
            f"Their groups agree by {same_groups:.2f} (1: the same people are together; 0: no more than by chance)."
        )
    if len(pair.first):
        ui.echart(echarts.pair_chart(pair.first, pair.second, a.name, b.name)).style(
            "height: 320px; width: 100%; max-width: 460px"
        )


def _stability_words(found: Segments) -> tuple[str, str]:
    if len(found) < 2:
        return "plain", "No groups can be told apart"
    if found.stability >= 0.7:
        return "good", f"{len(found)} stable groups: they stay the same when half of the people are left out"
    if found.stability >= 0.3:
        return "coarse", f"{len(found)} groups with blurred borders"
    return "bad", f"{len(found)} groups that are little more than chance"


def as_csv(users: list[Any], **columns: list[Any]) -> str:
    """Return people and columns as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["user", *columns])
    writer.writerows(zip(users, *columns.values(), strict=True))
    return text.getvalue()
