"""The Plan page: fields, sliders of ε and of the error, candidates, verdict, promise, picture, downloads."""

import asyncio
import math
import secrets
import shlex
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from nicegui import background_tasks, events, run, ui

from dimly.audit.attacks import TRIES
from dimly.curator.tables.public_lists import read_vocabulary
from dimly.errors import DimlyError
from dimly.lab.report.officer import guesses
from dimly.mechanisms.plan import Plan
from dimly.planner.advice import reasons_of
from dimly.planner.candidates import Candidate
from dimly.planner.tradeoff import TradedError
from dimly.planner.verdicts import EPSILONS
from dimly.privacy import Budget, Cost
from dimly.release.documents.survey_file import read_survey
from dimly.studio import echarts, sample_panel, theme
from dimly.studio.background_work import sentence_of
from dimly.studio.plan_draft import (
    LARGEST,
    SMALLEST,
    PlanDraft,
    PlannedDraft,
    attacked,
    blurred,
    curve_of,
    epsilon_for,
    on_curve,
    planned,
)
from dimly.studio.workspace import Workspace

_PURPOSES: Final = {
    "neighbors": "Find people who are like somebody (recommendations, look-alikes)",
    "segments": "Find groups of similar people (segments)",
    "distances": "Measure how far apart two people are",
}
_HEADS: Final = {
    "good": "This plan should work well",
    "coarse": "This plan gives a coarse picture",
    "not feasible": "This plan would show little but noise",
}
_AS_GUESSED: Final = ", if people differ in as many attributes as we guess"
_MAY_BE: Final = {
    "good": "This may work well: it depends on the people",
    "coarse": "This may give a coarse picture: it depends on the people",
}
_ON_THIS_PAGE: Final = {
    " (sample=FILE)": ": at the end of this page",
    "`dimly survey` measures": "a survey (the command dimly survey) measures",
    " (then survey=FILE)": ", and can be dropped here",
    "n_users": "how many people there are",
    "distance as LOW:HIGH, ": "in how many attributes two people differ, ",
    "the public list of attributes (vocabulary)": "a public list of all attributes",
    " (numbered)": "",
    "a delta above 0": "a δ above 0",
    "epsilon": "ε",
}
"""What the planner's words are called here."""
_TOGETHER: Final = (1, 2, 5, 10)
_WELL, _IN_PART = 0.75, 0.95  # what an even guess may become
_WAIT: Final = 0.12  # seconds without a change before anything is computed
_WAIT_LONG: Final = 0.7  # and before pictures and attacks are
_STEPS: Final = 200  # of a slider


class PlanTab:
    """What one tab has stated and found. It outlives the page, so that going to another page and back loses nothing."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.draft = PlanDraft(seed=secrets.token_hex(32))
        self.planned: PlannedDraft | None = None
        self.curve: tuple[TradedError, ...] = ()
        self.curve_for: PlanDraft | None = None
        self.version = 0
        self.turn = asyncio.Lock()
        self.trial = sample_panel.SampleState(workspace.sample)
        self.folder = tempfile.TemporaryDirectory(prefix="dimly-studio-")

    async def saved(self, file: Any) -> Path:
        """Keep an uploaded file, under a name of our own and its ending."""
        path = Path(self.folder.name) / (secrets.token_hex(6) + Path(file.name).suffix[:12].lower())
        await file.save(path)
        return path


def build(tab: PlanTab) -> None:
    """Build the page."""
    theme.title(
        "Plan a release",
        "Say what the table of people is like and what it will be used for. You see at once what can be promised to "
        "the people in it, and how well it will still work. No private data is needed.",
    )
    PlanView(tab).build()


class PlanView:
    """The elements of the page, and what happens when one of them changes."""

    def __init__(self, tab: PlanTab) -> None:
        self.tab = tab
        self.numbers: dict[str, ui.number] = {}
        self.setting = False
        """Whether values are being set by us: then nothing follows from a change."""

    def build(self) -> None:
        """Lay the page out: what is stated on the left, what follows on the right."""
        with ui.element("div").classes("two"):
            with ui.element("div").classes("stack"):
                self._data()
                self._purpose()
                self._privacy()
                self._more()
            with ui.element("div").classes("stack"):
                self.verdict = ui.element("div").classes("w-full")
                self.pocket = ui.element("div").classes("pocket verdict plain").props("aria-hidden=true")
                with ui.element("div").classes("pair"):
                    with theme.sheet(
                        "What somebody could learn about a person",
                        "A guess that was right in 50 % of cases before the release is right in at most so many after "
                        "it. However clever the attacker is, and whatever they know already.",
                    ):
                        self.guesses = ui.element("div").classes("w-full")
                    with theme.sheet(
                        "Accuracy against privacy",
                        "Each dot is the best plan at that ε. Lower is more accurate; further left protects more.",
                    ):
                        self.chart = ui.echart(echarts.tradeoff_chart((), 1.0, 1.0)).style("height: 270px; width: 100%")
                with ui.element("div").classes("pair"):
                    with theme.sheet("What the noise does to people"), ui.element("div") as self.blur:
                        self.blur_words = ui.label("One moment: made-up people are being published.").classes("hint")
                        with ui.element("div").classes("pictures mt-2"):
                            self.before, self.after = picture("as they are"), picture("in the release")
                    with theme.sheet("What an attacker was able to do"), ui.element("div") as self.attack:
                        self.attack_words = ui.label("One moment: they are being attacked.").classes("hint mb-2")
                        self.attack_chart = ui.echart(echarts.plain()).style("height: 220px; width: 100%")
                self.out = ui.element("div").classes("w-full")
                with (
                    theme.sheet() as self.others,
                    ui.expansion("Other ways to publish that were weighed").classes("w-full"),
                ):
                    self.candidates = ui.element("div").classes("w-full")
                sample_panel.build(self.tab.trial, self.tab.saved, lambda: self.tab.draft)
        self.changed()

    # What is stated

    def _data(self) -> None:
        draft = self.tab.draft
        with theme.sheet(
            "1 · The table",
            "An attribute is anything that a person has or has not: a product bought, a place visited, a word used.",
        ):
            self._number("How many people are in it?", draft.n_users, "n_users", whole=True, least=2)
            self._number("How many different attributes are there?", draft.n_attributes, "n_attributes", whole=True)
            self._number("How many of them does a typical person have?", draft.weight, "weight")
            ui.label("Rough figures will do. Take them from public knowledge, not from the private table.").classes(
                "hint"
            )

    def _purpose(self) -> None:
        draft = self.tab.draft
        with theme.sheet("2 · What it is for"):
            ui.radio(_PURPOSES, value=draft.purpose, on_change=lambda e: self._set(purpose=e.value)).props(
                "dense"
            ).style("display: grid; gap: 9px; margin-left: -4px")
            ui.label("In how many attributes two people differ").classes("mt-2")
            with ui.element("div").style("display: grid; grid-template-columns: 1fr 1fr; gap: 12px"):
                self.near = self._number("if they are alike", draft.near, "near")
                self.far = self._number("if picked at random", draft.far, "far")
            self.guess_words = ui.label().classes("hint")

    def _privacy(self) -> None:
        draft = self.tab.draft
        with theme.sheet("3 · Privacy and accuracy", "Set either one: the other follows, ε rounded up to two digits."):
            with ui.row().classes("w-full items-end no-wrap justify-between"):
                ui.label("Privacy loss ε").style("font-weight: 600")
                self.epsilon = (
                    ui.number(value=draft.epsilon, min=0.001, max=700, step=0.1, format="%.3g")
                    .props('dense outlined debounce=350 aria-label="epsilon" input-style="text-align: right"')
                    .style("width: 92px")
                )
                self.epsilon.on_value_change(lambda e: self._typed_epsilon(e.value))
            self.epsilon_slider = ui.slider(min=0, max=_STEPS, step=1, value=_to_slider(draft.epsilon)).props(
                'aria-label="epsilon, from more private to more accurate" data-testid=epsilon-slider'
            )
            self.epsilon_slider.on_value_change(lambda e: self._slid_epsilon(e.value))
            _ends("protects more", "more accurate")
            self.odds = ui.label().classes("hint")
            with ui.row().classes("w-full items-end no-wrap justify-between mt-2"):
                ui.label("Error you can accept").style("font-weight: 600")
                self.error = (
                    ui.number(value=None, min=0, format="%.4g")
                    .props(
                        'dense outlined debounce=500 prefix="±" aria-label="acceptable error" '
                        'input-style="text-align: right"'
                    )
                    .style("width: 108px")
                )
                self.error.on_value_change(lambda e: self._wanted_error(e.value))
            self.error_slider = ui.slider(min=0, max=_STEPS, step=1, value=100).props(
                'aria-label="acceptable error, from small to large" data-testid=error-slider'
            )
            self.error_slider.on_value_change(lambda e: self._slid_error(e.value))
            _ends("small error", "large error")
            self.error_words = ui.label().classes("hint")
            ui.separator()
            self._number("Attributes of a person protected together", draft.protect, "protect", whole=True, least=1)
            ui.label(
                "ε holds for one attribute of a person. With 5 here, it holds for any five of them together, and the "
                "noise grows about five times."
            ).classes("hint")

    def _more(self) -> None:
        draft = self.tab.draft
        with theme.sheet(), ui.expansion("More settings").classes("w-full"), ui.element("div").classes("stack"):
            self._number("δ: 0 is safest", draft.delta, "delta", least=0.0)
            ui.label("By how much a probability may change beyond the factor e^ε. Some methods need one.").classes(
                "hint"
            )
            ui.select(
                {"attribute": "one attribute", "column": "one whole column (a category such as the profession)"},
                value=draft.unit,
                label="What is protected",
                on_change=lambda e: self._set(unit=e.value),
            ).classes("w-full")
            ui.checkbox(
                "Attributes have amounts from 0 to 1, not only yes or no",
                value=draft.has_values,
                on_change=lambda e: self._set(has_values=e.value),
            )
            ui.checkbox(
                "Attributes are the numbers 0, 1, 2 … (a closed list)",
                value=draft.numbered,
                on_change=lambda e: self._set(numbered=e.value),
            )
            self._number("Groups that segments should find", draft.n_groups, "n_groups", whole=True, least=2)
            self._number("Most bytes per person", draft.max_bytes_per_user, "max_bytes_per_user", whole=True)
            ui.label("A public list of all attributes (one per line, CSV or Parquet)").classes("hint")
            ui.upload(auto_upload=True, max_files=1, label="List of attributes", on_upload=self._vocabulary).props(
                "flat bordered"
            )
            ui.label("A survey, made by dimly survey: it measured what is asked for above").classes("hint")
            ui.upload(auto_upload=True, max_files=1, label="Survey", on_upload=self._survey).props("flat bordered")
            ui.checkbox(
                "ε is for the survey and the release together",
                value=draft.total,
                on_change=lambda e: self._set(total=e.value),
            )

    def _number(
        self, label: str, value: float | None, name: str, *, whole: bool = False, least: float | None = None
    ) -> ui.number:
        def change(e: events.ValueChangeEventArguments[float | None]) -> None:
            given = e.value
            self._set(**{name: None if given is None else (round(given) if whole else float(given))})

        shown = "%d" if whole else "%.6g"
        found = ui.number(label, value=value, min=least if least is not None else 1, format=shown, on_change=change)
        self.numbers[name] = found
        return found.props(f"debounce=350 outlined dense stack-label data-testid={name}").classes("w-full")

    async def _vocabulary(self, e: events.UploadEventArguments) -> None:
        path = await self.tab.saved(e.file)
        try:
            found = await run.io_bound(read_vocabulary, path)
        except (DimlyError, OSError) as error:
            ui.notify(sentence_of(error), type="negative", multi_line=True, timeout=0, close_button=True)
            return
        self._set(vocabulary=found, vocabulary_file=e.file.name)

    async def _survey(self, e: events.UploadEventArguments) -> None:
        path = await self.tab.saved(e.file)
        try:
            found = await run.io_bound(read_survey, path)
        except (DimlyError, OSError) as error:
            ui.notify(sentence_of(error), type="negative", multi_line=True, timeout=0, close_button=True)
            return
        # What it measured takes the place of what was typed.
        measured = ("n_users", "n_attributes", "weight", "near", "far")
        self.setting = True
        for name in measured:
            self.numbers[name].set_value(None)
            self.numbers[name].props('placeholder="from the survey"')
        self.setting = False
        self._set(survey=found, survey_file=e.file.name, **dict.fromkeys(measured))
        ui.notify("The survey's figures are used in place of those above.", type="positive")

    # What follows

    def _set(self, **changes: Any) -> None:
        if self.setting:
            return
        for name, fallback in (("protect", 1), ("delta", 0.0)):
            if name in changes and changes[name] is None:
                changes[name] = fallback
        self.tab.draft = replace(self.tab.draft, **changes)
        self.changed()

    def _typed_epsilon(self, value: float | None) -> None:
        if value is not None and value > 0 and not self.setting:
            self._set(epsilon=float(f"{value:.4g}"))

    def _slid_epsilon(self, value: float | None) -> None:
        if value is not None and not self.setting:
            self._set(epsilon=_from_slider(value))

    def _slid_error(self, value: float | None) -> None:
        ends = self._errors()
        if value is None or ends is None or self.setting:
            return
        self._wanted_error(ends[0] * (ends[1] / ends[0]) ** (value / _STEPS))

    def _wanted_error(self, value: float | None) -> None:
        if value is None or value <= 0 or self.setting:
            return
        self.tab.version += 1
        background_tasks.create(self._find_epsilon(value, self.tab.version))

    async def _find_epsilon(self, stderr: float, version: int) -> None:
        await asyncio.sleep(_WAIT)
        if version != self.tab.version:
            return
        try:
            found = await run.io_bound(epsilon_for, self.tab.draft, stderr)
        except DimlyError as error:
            self._refuse(sentence_of(error))
            return
        if version != self.tab.version:
            return
        with self.verdict:
            if found is None:
                ui.notify("No ε up to 32 gives so small an error for people like these.", type="warning")
                self.changed()
                return
        self._set(epsilon=found)

    def _errors(self) -> tuple[float, float] | None:
        if not self.tab.curve:
            return None
        errors = [one.stderr for one in self.tab.curve]
        return (min(errors), max(errors)) if min(errors) < max(errors) else None

    def changed(self) -> None:
        """Something was stated: let everything follow from it, in the background, the quick things first."""
        self.tab.version += 1
        background_tasks.create(self._follow(self.tab.version))

    async def _follow(self, version: int) -> None:
        await asyncio.sleep(_WAIT)
        draft = self.tab.draft
        if version != self.tab.version or self.verdict.is_deleted:
            return
        try:
            async with self.tab.turn:  # while one is computed, of many that wait only the last counts
                current = version == self.tab.version
                found = await run.io_bound(planned, draft) if current else None
            if version != self.tab.version or found is None or self.verdict.is_deleted:
                return
            self.tab.planned = found
            self._show(found)
            if self.tab.curve_for != draft.apart_from_epsilon:
                self.tab.curve = await run.io_bound(curve_of, draft) or ()
                self.tab.curve_for = draft.apart_from_epsilon
                if version != self.tab.version or self.verdict.is_deleted:
                    return
            self._show_curve(found)
            await asyncio.sleep(_WAIT_LONG)
            if version != self.tab.version or self.verdict.is_deleted:
                return
            await self._pictures(found, version)
        except (DimlyError, ValueError, OSError) as error:
            if version == self.tab.version and not self.verdict.is_deleted:
                self._refuse(sentence_of(error))

    def _refuse(self, text: str) -> None:
        self.tab.planned = None
        self.out.clear()
        with _emptied(self.verdict):
            theme.sentence("bad", "This cannot be planned as it is stated", text)

    def _show(self, found: PlannedDraft) -> None:
        advice, draft = found.advice, found.draft
        head = head_on_page(found)
        for old in (self.blur, self.attack):
            old.classes("stale")
        self._show_inputs(found)
        with (
            _emptied(self.verdict),
            ui.element("div")
            .classes(f"verdict {theme.verdict_class(advice.verdict)}")
            .props("role=status aria-live=polite"),
        ):
            ui.label(head).classes("head")
            ui.label(words_on_page(found.words))
            words, right = protection(advice.plan)
            ui.label(words).classes("weak" if right > _IN_PART else "")
            for doubt in advice.doubts:
                ui.label(doubt)
            self._enough(found)
            if draft.rests_on_guess and draft.distance is not None:
                near, far = draft.distance
                ui.label(
                    f"Assumed: people who are alike differ in about {near:g} attributes, others in about {far:g}."
                ).classes("hint mt-1")
        self.pocket.classes(replace=f"pocket verdict {theme.verdict_class(advice.verdict)}")
        with _emptied(self.pocket):  # on a phone, where the verdict is far from the sliders
            ui.label(f"{head.partition(':')[0]} (ε = {draft.epsilon:g})").classes("head")
        with _emptied(self.guesses):
            rows = {one.several: one for one in guesses(advice.plan)}
            for several in _TOGETHER:
                right = rows[several].right[0.5]
                with ui.element("div").style(
                    "display: grid; grid-template-columns: 106px 1fr 122px; gap: 10px; align-items: center; padding: "
                    "4px 0"
                ):
                    ui.label("one attribute" if several == 1 else f"{several} together")
                    theme.meter((right - 0.5) * 2, _danger(right))
                    ui.label("no promise" if right > 0.999 else f"50 % → {theme.promised(right)}").style(
                        "text-align: right; font-weight: 600; white-space: nowrap"
                    )
            for line in advice.meaning[1:2]:
                ui.label(all_together(line)).classes("hint mt-1")
        with _emptied(self.candidates):
            _candidates(found)
        with _emptied(self.out):
            self._take_home(found)

    def _enough(self, found: PlannedDraft) -> None:
        """Offer the smallest ε for each verdict, of all attributes that are protected together."""
        needed, draft = found.needed, found.draft
        if needed.coarse is not None:
            with ui.row().classes("gap-2 mt-2 items-center"):
                ui.label("Smallest ε:")
                for kind, epsilon in (("a coarse picture", needed.coarse), ("a good one", needed.good)):
                    if epsilon is not None:
                        self._offer(float(f"{epsilon * draft.protect:.4g}"), kind)
        if needed.good is None and not found.advice.unstated:
            what = "a coarse picture" if needed.coarse is None else "a good one"
            ui.label(f"No ε up to {EPSILONS[1] * draft.protect:g} is enough for {what}.")

    def _offer(self, epsilon: float, kind: str) -> None:
        taken = epsilon == self.tab.draft.epsilon
        ui.button(
            f"{epsilon:g} for {kind}", icon="check" if taken else None, on_click=lambda: self._set(epsilon=epsilon)
        ).props(f"{'unelevated disable' if taken else 'outline'} dense no-caps padding='2px 10px'")

    def _show_inputs(self, found: PlannedDraft) -> None:
        draft, advice = found.draft, found.advice
        self.setting = True
        try:
            self.epsilon.set_value(draft.epsilon)
            # Several places of a slider round to one value: one that says the same already stays where it was put.
            if _from_slider(self.epsilon_slider.value or 0) != draft.epsilon:
                self.epsilon_slider.set_value(_to_slider(draft.epsilon))
            self.error.set_value(float(f"{advice.stderr:.3g}"))
            ends = self._errors()
            if ends is not None:
                part = math.log(advice.stderr / ends[0]) / math.log(ends[1] / ends[0])
                self.error_slider.set_value(round(_STEPS * min(max(part, 0.0), 1.0)))
        finally:
            self.setting = False
        self.odds.set_text(
            "The odds of any guess about one attribute change by a factor of at most "
            f"{math.exp(advice.plan.cost.epsilon):.3g}."
        )
        far = advice.question.high
        self.error_words.set_text(
            f"Two people who differ in {far:g} attributes will seem to differ in {far:g} ± "
            f"{theme.number(advice.stderr)} ({theme.number(100 * advice.stderr / far)} %): one standard error, so "
            "about two times out of three."
        )
        guess = draft.guessed
        if draft.survey is not None:
            self.guess_words.set_text("From the survey: " + "; ".join(advice.measured) + ".")
        elif draft.rests_on_guess and guess is not None:
            self.near.props(f'placeholder="{guess[0]:g}"')
            self.far.props(f'placeholder="{guess[1]:g}"')
            self.guess_words.set_text(
                f"Left empty, we take {guess[1]:g}, which chance would give, and half of it. Better: try it out on "
                "public people, below."
            )
        else:
            self.guess_words.set_text("As you stated.")

    def _show_curve(self, found: PlannedDraft) -> None:
        renew(self.chart, echarts.tradeoff_chart(self.tab.curve, found.draft.epsilon, found.advice.stderr))
        self._show_inputs(found)

    async def _pictures(self, found: PlannedDraft, version: int) -> None:
        blur = await run.io_bound(blurred, found)
        if version != self.tab.version or self.verdict.is_deleted:
            return
        self.blur.classes("drawn", remove="stale")
        if blur is None:
            self.blur_words.set_text("There is no picture for this kind of plan, or for people of so many attributes.")
        else:
            self.blur_words.set_text(
                f"200 of {blur.n_published:,} made-up people in three groups, as far apart as stated. About "
                f"{theme.share(blur.kept)} of how they differ on the left still shows on the right; more in a "
                "release of more people."
            )
            for chart, options in zip((self.before, self.after), echarts.blur_charts(blur), strict=True):
                renew(chart, options)
        attack = await run.io_bound(attacked, found)
        if version != self.tab.version or self.verdict.is_deleted:
            return
        self.attack.classes("drawn", remove="stale")
        epsilon = found.advice.plan.cost.epsilon
        curve = [(x, 1 / (1 + math.exp(-x))) for x in on_curve(replace(found.draft, epsilon=epsilon))]
        renew(self.attack_chart, echarts.attack_chart(curve, epsilon, None if attack is None else attack.right))
        if attack is not None:
            self.attack_words.set_text(
                f"We attacked made-up people, published by this very plan, {TRIES:,} times, knowing everything about "
                f"them but one attribute. The best guess was right in {100 * attack.right:.1f} % of cases (give or "
                f"take {100 * attack.chance:.1f}); the promise allows {theme.promised(attack.bound)}, a coin 50 %."
            )
        else:
            self.attack_words.set_text("No attack was tried on this kind of plan.")

    def _take_home(self, found: PlannedDraft) -> None:
        advice, plan = found.advice, found.advice.plan
        feasible = advice.verdict != "not feasible"
        with theme.sheet(
            "Your plan", "A plan holds no data. Its digest, which no other plan has, is what a privacy officer signs."
        ):
            theme.table(
                ["", "what will be published"],
                [
                    ["Method", f"{plan.mechanism}; numbers per person: {plan.per_person}"],
                    ["Promise", promise(plan)],
                    ["Size", f"{plan.bytes_per_user:,.0f} bytes per person"],
                    ["Digest", plan.digest],
                ],
            )
            if not feasible:
                ui.label("The plan keeps its promise, but hardly anything could be seen through the noise.").classes(
                    "hint"
                )
            with ui.row().classes("gap-3 items-center"):
                ui.button(
                    "Save plan.json" if feasible else "Save plan.json all the same",
                    icon="download",
                    on_click=lambda: ui.download.content(plan.to_json(), "plan.json", "application/json"),
                ).props("unelevated" if feasible else "outline")
                ui.link("Does it fit the budget in a ledger?", "/ledger")
            command = found.draft.command(force=not feasible)
            ui.label("The same plan from a terminal; the seed, which is public, makes it the very same:").classes(
                "hint"
            )
            theme.command(command)
            ui.label("Then publish the table by it:").classes("hint")
            listed = found.draft.vocabulary_file
            theme.command(
                "dimly publish TABLE --plan plan.json --user PERSON --attribute PRODUCT --roster PEOPLE --out release"
                + (f" --vocabulary {shlex.quote(listed)}" if listed else "")
            )
            ui.label(
                "Words in capitals are yours: the table, its two columns, and a list of the people that is not made "
                "from the table, as the release shows who is in it. If there will be several releases, publish with a "
                "ledger, which adds up what they cost together."
            ).classes("hint")


def _candidates(found: PlannedDraft) -> None:
    advice = found.advice
    ui.label(advice.reason).classes("hint")
    rows = [_candidate_row(one) for one in advice.candidates]
    header = ["method", "numbers per person", "error, alike", "error, others", "near before far", "bytes", "δ"]
    theme.table(header, rows, numbers=tuple(header[1:]), chosen=0)
    if advice.left_out:
        ui.label(f"Left out: {_in_words_of_page(reasons_of(advice.left_out))}.").classes("hint")


def _candidate_row(one: Candidate) -> list[str]:
    return [
        one.mechanism,
        "" if one.k is None else f"{one.k:,}",
        theme.number(one.stderr_low),
        theme.number(one.stderr_high),
        theme.share(one.probability),
        theme.number(one.bytes_per_user),
        "0" if one.pure else "above 0",
    ]


def _ends(left: str, right: str) -> None:
    with ui.row().classes("w-full justify-between no-wrap hint").style("margin-top: -8px"):
        ui.label(left)
        ui.label(right)


def picture(name: str) -> ui.echart:
    """Show a place for a picture, with its name above."""
    with ui.element("div"):
        ui.label(name).classes("picture-name")
        return ui.echart(echarts.plain()).style("height: 200px; width: 100%")


def renew(chart: ui.echart, options: echarts.Options) -> None:
    """Draw a chart anew."""
    chart.options.clear()
    chart.options.update(options)
    chart.update()


def head_on_page(found: PlannedDraft) -> str:
    """Return the verdict as a heading, with the guess that it rests on; where it is unknown the best that it may be."""
    advice = found.advice
    if advice.verdict != "unknown":
        return _HEADS[advice.verdict] + (_AS_GUESSED if found.draft.rests_on_guess else "")
    return "This cannot be judged without knowing more" if advice.unstated else _MAY_BE[advice.range.best]


def words_on_page(words: str) -> str:
    """Return the planner's sentences in the page's words.

    Without the verdict, which the heading has said already, and without the smallest ε, which buttons offer.
    """
    text = words.partition(": ")[2].partition(" The smallest epsilon ")[0].partition(" No epsilon up to ")[0]
    text = _in_words_of_page(text)
    return text[:1].upper() + text[1:]


def _in_words_of_page(text: str) -> str:
    for option, here in _ON_THIS_PAGE.items():
        text = text.replace(option, here)
    return text


def protection(plan: Plan) -> tuple[str, float]:
    """Return how well a plan protects what its promise is for, in a sentence, and what an even guess becomes."""
    cost, several = plan.together or plan.cost, plan.protect or 1
    even = 1 / (1 + math.exp(-cost.epsilon))
    right = even + cost.delta * (1 - even)
    what = f"One {plan.unit} is" if several == 1 else f"Any {several} {plan.unit}s of a person together are"
    how = "protected well" if right <= _WELL else "protected in part" if right <= _IN_PART else "hardly protected"
    return f"{what} {how}: a guess that was 50 % sure becomes at most {theme.promised(right)} sure.", right


def promise(plan: Plan) -> str:
    """Return ε and δ, never smaller than they are, for one attribute and for as many as are protected together."""
    one = f"{_exactly(plan.cost)} for any one {plan.unit} of a person"
    return one if plan.together is None else f"{_exactly(plan.together)} for any {plan.protect} together; {one}"


def _exactly(cost: Budget | Cost) -> str:
    epsilon, delta = (repr(value).removesuffix(".0") for value in (cost.epsilon, cost.delta))
    return f"ε = {epsilon}, δ = {delta}"


def all_together(line: str) -> str:
    """Return what is promised for a whole person, without the odds.

    Examples
    --------
    >>> all_together("All 9 attributes of a person together: 50 % becomes at most 71.1 %, odds by e^0.9.")
    'All 9 attributes of a person together: 50 % becomes at most 71.1 %.'
    """
    for odds in (": their odds", ": its odds", ", odds by"):
        if odds in line:
            return line.partition(odds)[0] + "."
    return line.replace("epsilon", "ε").replace("delta", "δ")


def _emptied(element: ui.element) -> ui.element:
    element.clear()
    return element


def _danger(right: float) -> str:
    return "#1a9a5b" if right <= _WELL else "#d99a1c" if right <= _IN_PART else "#c8452f"


def _to_slider(epsilon: float) -> int:
    part = math.log(min(max(epsilon, SMALLEST), LARGEST) / SMALLEST) / math.log(LARGEST / SMALLEST)
    return round(_STEPS * part)


def _from_slider(value: float) -> float:
    return float(f"{SMALLEST * (LARGEST / SMALLEST) ** (value / _STEPS):.2g}")
