"""The Release page: promise, verification, distances that can be told apart, segments."""

from dataclasses import dataclass
from typing import Any, Final

from nicegui import ui

from dimly.lab.report.acuity import Acuity, Distances, acuity_of, distances_of, reach_of
from dimly.lab.report.officer import checks, guesses, limits, promise, published
from dimly.lab.report.report import SHOWN_STEPS
from dimly.lab.report.shown_people import sample_of
from dimly.mechanisms.plan import Plan
from dimly.release.verify import Verification, verify
from dimly.studio import echarts, theme
from dimly.studio.background_work import Job, sentence_of, watch
from dimly.studio.workspace import OpenedRelease, Workspace

_NONE: Final = "No release is open yet"


@dataclass(frozen=True, slots=True, eq=False)
class Visibility:
    """What can be seen through the noise of a release."""

    acuity: Acuity
    distances: Distances | None
    reach: float
    looked_at: int


def chooser(workspace: Workspace, show: Any) -> None:
    """Show which release is looked at, and a place to open another; ``show`` is called with the one that is chosen."""
    shown = ui.element("div").classes("w-full")
    body = ui.element("div").classes("w-full")

    def pick(key: str | None) -> None:
        body.clear()
        with body:
            opened = workspace.releases.get(key or "")
            if opened is None:
                theme.sentence(
                    "plain",
                    _NONE,
                    "A release is the folder that dimly publish makes by a plan. Type its path above, or start the "
                    "studio with it: dimly studio RELEASE.",
                )
                return
            try:
                opened.check()
            except Exception as error:  # noqa: BLE001 (whatever is wrong with it is a sentence)
                theme.sentence("bad", f"{opened.name} cannot be read", sentence_of(error))
                return
            show(opened)

    def build(current: str | None) -> None:
        shown.clear()
        names = workspace.release_names()
        with shown, ui.row().classes("w-full items-center gap-3 mb-4"):
            if names:
                ui.select(names, value=current, label="Release", on_change=lambda e: pick(e.value)).props(
                    "outlined dense"
                ).style("min-width: 220px")
            path = (
                ui.input("Open a release folder: its path")
                .props("outlined dense clearable")
                .style("flex: 1; min-width: 230px")
            )
            ui.button("Open", on_click=lambda: open_path(path.value)).props("outline")
            path.on("keydown.enter", lambda: open_path(path.value))

    def open_path(text: str | None) -> None:
        if not text:
            return
        try:
            opened = workspace.open_release(text.strip())
        except Exception as error:  # noqa: BLE001 (whatever is wrong with it is a sentence)
            body.clear()
            with body:
                theme.sentence("bad", "This folder cannot be opened as a release", sentence_of(error))
            return
        build(opened.key)
        pick(opened.key)

    first = next(iter(workspace.releases), None)
    build(first)
    pick(first)


def build(workspace: Workspace) -> None:
    """Build the page."""
    theme.title(
        "Look at a release",
        "What it promises to the people in it and what it does not, whether it is whole, and what can still be seen "
        "through its noise.",
    )
    chooser(workspace, _show)


def _show(opened: OpenedRelease) -> None:
    manifest = opened.manifest
    plan = manifest.plan
    with ui.element("div").classes("stack"):
        if not manifest.private:
            theme.sentence("bad", "This release is not private", "It was made for tests, and promises nothing.")
        with ui.element("div").classes("pair"):
            _fact("People", f"{manifest.n_users:,}")
            _fact(
                "Privacy loss of one " + plan.unit,
                f"ε = {plan.cost.epsilon:g}" + (f", δ = {plan.cost.delta:g}" if plan.cost.delta else ""),
            )
            _fact("Size", _size(manifest.bytes))
        with ui.element("div").classes("pair"):
            with theme.sheet("What is promised"):
                for line in promise(manifest):
                    ui.label(line)
                if manifest.private:
                    theme.table(
                        ["attributes guessed together", "50 % before becomes at most"],
                        [
                            [
                                str(one.several),
                                "nothing is promised" if one.right[0.5] > 0.999 else theme.promised(one.right[0.5]),
                            ]
                            for one in guesses(plan)
                        ],
                    )
            with theme.sheet("What is not promised"):
                _lines(limits(manifest))
        with theme.sheet("What can be seen through the noise"):
            watch(opened.job("seen", lambda job: _seen(opened, job)), lambda job: _show_seen(job, plan))
        with ui.element("div").classes("pair"):
            with ui.element("div").classes("stack"):
                with theme.sheet(
                    "Is it whole?",
                    "Reads every file and checks it against what the release says of itself. It cannot prove that "
                    "noise was added: that is the publisher's word.",
                ):
                    _verify(opened)
                with theme.sheet("What was published"):
                    theme.table(
                        ["", "as the release says"],
                        [
                            *([name, text] for name, text in published(manifest).items()),
                            ["Release", manifest.release],
                            ["Digest of the plan", manifest.plan_digest],
                        ],
                    )
            with theme.sheet("Before it is given away"):
                _lines(line.replace("`", "") for line in checks(manifest))


def _size(n_bytes: int) -> str:
    return f"{theme.number(n_bytes / 1e6)} MB" if n_bytes >= 10**6 else f"{theme.number(n_bytes / 1e3)} kB"


def _fact(name: str, value: str) -> None:
    with theme.sheet():
        ui.label(name).classes("hint")
        ui.label(value).classes("big")


def _lines(lines: Any) -> None:
    with ui.element("ul").classes("plain"):
        for line in lines:
            with ui.element("li"):
                ui.label(line)


def _verify(opened: OpenedRelease) -> None:
    result = ui.element("div").classes("stack")

    def work(job: Job[Verification]) -> Verification:
        job.phase("reading and checking every file")
        return verify(opened.path, progress=job.reach)

    def begin() -> None:
        opened.jobs.pop("verify", None)
        follow()

    def follow() -> None:
        result.clear()
        with result:
            watch(opened.job("verify", work), done)

    def done(job: Job[Verification]) -> None:
        if job.error is not None:
            theme.sentence("bad", "It is not what it says", job.error)
            return
        found = job.found
        theme.sentence(
            "good",
            "Everything that can be checked is in order",
            f"{found.files:,} {'file' if found.files == 1 else 'files'}, {found.n_users:,} people.",
        )
        with ui.expansion("What was checked").classes("w-full"):
            _lines(found.checks)
            ui.label(found.limits).classes("hint")

    ui.button("Verify", icon="verified", on_click=begin).props("unelevated").style("align-self: flex-start")
    if "verify" in opened.jobs:
        follow()


def _seen(opened: OpenedRelease, job: Job[Visibility]) -> Visibility:
    opened.check()
    job.phase("reading some of the people")
    sample = sample_of(opened.sketches, progress=job)
    job.phase("estimating distances")
    distances, acuity = distances_of(sample.release), acuity_of(sample.release)
    return Visibility(acuity, distances, reach_of(acuity, distances), sample.looked_at)


def _show_seen(job: Job[Visibility], plan: Plan) -> None:
    along = plan.directions is not None  # then distances do not count attributes
    what = plan.measured if along else "attributes in which two people differ"
    if job.error is not None:
        theme.sentence("bad", "This could not be found out", job.error)
        return
    seen = job.found
    found, rungs = seen.distances, seen.acuity.rungs(seen.reach)
    with ui.element("div").classes("pair"):
        with ui.element("div").classes("stack").style("gap: 6px"):
            ui.label("How far apart people are").style("font-weight: 600")
            if found is None:
                ui.label("There are no two people to compare.").classes("hint")
            else:
                kept = (
                    f"About {theme.share(found.share)} of this spread are real differences; the rest is noise."
                    if found.visible
                    else "People's own differences in distance cannot be told from noise."
                )
                mean = f"{theme.number(found.mean)} (± {theme.number(found.mean_error)})"
                ui.label(
                    (
                        f"The {what} of two people is {mean} on average. "
                        if along
                        else f"Two people differ in {mean} attributes on average. "
                    )
                    + kept
                ).classes("hint")
                ui.echart(echarts.histogram(found.values, noise=max(found.noise, 1e-9), what=what)).style(
                    "height: 250px; width: 100%"
                )
        with ui.element("div").classes("stack").style("gap: 6px"):
            ui.label("What can be told apart").style("font-weight: 600")
            ui.label(
                "From one dot to the next, of two pairs of people the nearer one looks nearer in 39 of 40 cases. Few "
                "dots: single pairs are mostly noise, and only groups of many people can be compared."
            ).classes("hint")
            ui.echart(echarts.ladder_chart(rungs, seen.reach, what=what)).style("height: 120px; width: 100%")
            rows = [
                [
                    theme.number(one.distance),
                    f"± {theme.number(one.stderr)}",
                    f"{theme.number(one.low)} to {theme.number(one.high)}",
                ]
                for one in seen.acuity.seen(_listed(seen))
            ]
            theme.table(
                [
                    "if they are this far apart" if along else "if two people differ in",
                    "standard error",
                    "95 % interval",
                ],
                rows,
            )
    ui.label(f"From {seen.looked_at:,} people of the release.").classes("hint")


def _listed(seen: Visibility) -> list[float]:
    round_ones = {float(m * 10**e) for e in range(7) for m in SHOWN_STEPS if seen.reach / 30 <= m * 10**e <= seen.reach}
    return sorted({0.0} | round_ones)
