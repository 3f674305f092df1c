"""The Ledger page: what each dataset has spent, what is left, and whether a plan still fits."""

from typing import Any

from nicegui import events, run, ui

from dimly.curator.ledger.ledger import ChargeRecord, DatasetStatus, Ledger
from dimly.errors import BudgetError, DimlyError
from dimly.mechanisms.plan import Plan
from dimly.studio import echarts, theme
from dimly.studio.background_work import sentence_of
from dimly.studio.plan_page import PlanTab
from dimly.studio.workspace import Workspace

_METHODS = {"sum": "costs are added up", "renyi": "costs are added up by a Rényi filter"}


def build(workspace: Workspace, tab: PlanTab) -> None:
    """Build the page."""
    theme.title(
        "What has been spent",
        "Every release of the same people uses up some of their privacy budget, whoever gets it. The ledger adds it "
        "up, and refuses what would exceed it.",
    )
    body = ui.element("div").classes("stack")

    def show() -> None:
        body.clear()
        with body:
            if not workspace.ledgers:
                theme.sentence(
                    "plain",
                    "No ledger is open yet",
                    "A ledger is a file that dimly ledger init makes, with a budget for each dataset. Type its path "
                    "above, or start the studio with it: dimly studio --ledger ledger.db.",
                )
            for ledger in workspace.ledgers.values():
                _ledger(ledger, tab)

    def open_path(text: str | None) -> None:
        if not text:
            return
        try:
            workspace.open_ledger(text.strip())
        except Exception as error:  # noqa: BLE001 (whatever is wrong with it is a sentence)
            ui.notify(sentence_of(error), type="negative", multi_line=True)
            return
        show()

    with ui.row().classes("w-full items-center gap-3 mb-4"):
        path = ui.input("Open a ledger: its path").props("outlined dense clearable").style("flex: 1; min-width: 230px")
        path.on("keydown.enter", lambda: open_path(path.value))
        ui.button("Open", on_click=lambda: open_path(path.value)).props("outline")
        if workspace.ledgers:
            ui.button("Read again", icon="refresh", on_click=show).props("flat")
    body.move(target_index=-1)
    show()


def _ledger(ledger: Ledger, tab: PlanTab) -> None:
    try:
        names = ledger.datasets()
        found = [ledger.status(name) for name in names]
    except Exception as error:  # noqa: BLE001 (whatever is wrong with it is a sentence)
        theme.sentence("bad", f"{ledger.path.name} cannot be read", sentence_of(error))
        return
    if not found:
        theme.sentence(
            "plain", f"{ledger.path.name} has no dataset yet", "dimly ledger init adds one, with its budget."
        )
    for status in found:
        _dataset(ledger, status)
    if found:
        _try(ledger, [one.name for one in found], tab)


def _dataset(ledger: Ledger, status: DatasetStatus) -> None:
    delta = f", δ = {status.delta:g}" if status.delta else ""
    with theme.sheet(
        f"{status.name}", f"{ledger.path.name} · for any one {status.unit} of a person · {_METHODS[status.method]}"
    ):
        with ui.element("div").style("display: flex; gap: 36px; flex-wrap: wrap"):
            _figure("Budget", f"ε = {status.epsilon:g}{delta}")
            _figure("Spent", f"ε = {theme.number(status.spent.epsilon)}")
            _figure("Left", f"ε = {theme.number(status.left)}" if status.left else "nothing")
        parts = [
            (f"charge {one.id}", one.cost.epsilon) for one in status.charges if one.counts and one.cost is not None
        ]
        left = max(status.epsilon - status.spent.epsilon, 0.0)
        ui.echart(echarts.spending_chart(status.epsilon, parts, left)).style("height: 70px; width: 100%")
        if status.charges:
            header = [
                "charge",
                "kind",
                "what became of it",
                "ε",
                "δ",
                "for whom",
                "people",
                "when (UTC)",
                "plan",
                "release",
            ]
            theme.table(header, [_row(one) for one in status.charges], numbers=("charge", "ε", "δ", "people"))
        else:
            ui.label("Nothing was spent yet.").classes("hint")


def _figure(name: str, value: str) -> None:
    with ui.element("div"):
        ui.label(name).classes("hint")
        ui.label(value).classes("big")


def _row(charge: ChargeRecord) -> list[str]:
    cost = charge.cost
    return [
        str(charge.id),
        charge.kind or "",
        charge.label + (f": {charge.reason}" if charge.reason else ""),
        "0 (people added)" if cost is None else f"{cost.epsilon:g}",
        "" if cost is None else f"{cost.delta:g}",
        charge.recipient or "not stated",
        "" if charge.n_users is None else f"{charge.n_users:,}",
        charge.reserved_at.replace("T", " ")[:16],
        charge.plan_digest[:12],
        (charge.release_id or "")[:12],
    ]


def _try(ledger: Ledger, names: list[str], tab: PlanTab) -> None:
    with theme.sheet("Would a plan still fit?", "Nothing is charged: that happens when dimly publish runs."):
        result = ui.element("div").classes("w-full")
        dataset = ui.select(names, value=names[0], label="Dataset").props("outlined dense").style("min-width: 220px")

        def check(plan: Plan, called: str) -> None:
            result.clear()
            with result:
                try:
                    ledger.check(dataset.value, plan.cost)
                except BudgetError as error:
                    theme.sentence("bad", "It does not fit", sentence_of(error))
                    return
                except Exception as error:  # noqa: BLE001 (whatever is wrong is a sentence)
                    theme.sentence("bad", "This could not be checked", sentence_of(error))
                    return
                theme.sentence(
                    "good",
                    "It fits",
                    f"{called} costs ε = {plan.cost.epsilon:g}, δ = {plan.cost.delta:g} of dataset {dataset.value}.",
                )

        async def upload(e: events.UploadEventArguments) -> None:
            text = await e.file.read()
            try:
                plan: Any = await run.io_bound(Plan.from_json, text)
            except (DimlyError, ValueError) as error:
                result.clear()
                with result:
                    theme.sentence("bad", "This is not a plan", sentence_of(error))
                return
            check(plan, "This plan")

        with ui.row().classes("gap-3 items-center"):
            if tab.planned is not None:
                here = tab.planned.advice.plan
                ui.button(
                    "Try the plan of the Plan page", on_click=lambda: check(here, "The plan of the Plan page")
                ).props("outline")
            else:
                ui.link("Make a plan first", "/")
            ui.label("or drop a plan.json:").classes("hint")
        ui.upload(auto_upload=True, max_files=1, max_file_size=10_000_000, label="plan.json", on_upload=upload).props(
            'flat bordered accept=".json"'
        )
