"""How pages look: palette, CSS, header, footer, cards, tables, meters, labels with hints."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from nicegui import ui

ICON: Final = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'><rect width='32' height='32' rx='7' fill='#1f4e79'/>"
    "<circle cx='11' cy='18' r='4' fill='#fff'/><circle cx='21' cy='13' r='5' fill='#fff' opacity='.55'/></svg>"
)
PAGES: Final = (("Plan", "/"), ("Release", "/release"), ("Explore", "/explore"), ("Ledger", "/ledger"))

PALETTE: Final = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#d55e00",
    "#56b4e9",
    "#8c6bb1",
    "#b2a100",
    "#a6611a",
    "#5e8c31",
    "#d6604d",
    "#4d6d8f",
)
"""Okabe and Ito's colors first, which the color-blind can tell apart."""

_CSS: Final = """
:root {
  --ink: #1b2733; --soft: #55636f; --line: #dde3e8; --paper: #ffffff; --ground: #f5f7f9; --brand: #1f4e79;
  --good: #1a7f4b; --good-bg: #e7f5ed; --coarse: #8a5a00; --coarse-bg: #fdf3dc;
  --bad: #a5281b; --bad-bg: #fcebe9; --plain: #44525e; --plain-bg: #eef1f4;
}
.body--dark {
  --ink: #e6ebef; --soft: #a3b0bb; --line: #33404b; --paper: #1b242c; --ground: #12181d; --brand: #8ab8e6;
  --good: #6fd3a0; --good-bg: #12301f; --coarse: #f0c36a; --coarse-bg: #352a10;
  --bad: #f29a8e; --bad-bg: #3a1a16; --plain: #c3ced7; --plain-bg: #25303a;
}
body.body--dark { --q-primary: #5f9fd8 !important; } .body--dark main .nicegui-link { color: var(--brand); }
.pocket { display: none; }
body { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  background: var(--ground) !important; color: var(--ink); font-size: 15px; line-height: 1.5; }
.nicegui-content { padding: 0; gap: 0; width: 100%; }
.studio-header { background: var(--paper); color: var(--ink); border-bottom: 1px solid var(--line); width: 100%;
  position: sticky; top: 0; z-index: 50; }
.studio-bar { max-width: 1240px; margin: 0 auto; padding: 8px 24px; display: flex; align-items: center; gap: 28px;
  flex-wrap: wrap; row-gap: 0; }
.studio-name { font-weight: 650; font-size: 17px; letter-spacing: -.01em; display: flex; align-items: center; gap: 9px;}
.studio-name span { color: var(--soft); font-weight: 400; }
.studio-nav { display: flex; gap: 4px; }
.studio-nav a.nicegui-link { color: var(--soft); text-decoration: none; padding: 9px 13px; border-radius: 8px;
  font-weight: 550; }
.studio-nav a.nicegui-link:hover { background: var(--plain-bg); color: var(--ink); }
.studio-nav a.nicegui-link.here { color: var(--brand); box-shadow: inset 0 -2px 0 var(--brand);
  border-radius: 8px 8px 0 0; }
a:focus-visible, button:focus-visible, canvas:focus-visible, [tabindex]:focus-visible {
  outline: 3px solid #e69f00; outline-offset: 2px; }
.studio-main { max-width: 1240px; margin: 0 auto; padding: 22px 24px 48px; width: 100%; box-sizing: border-box; }
.studio-main > .nicegui-sub-pages { width: 100%; gap: 0; }
.studio-footer { color: var(--soft); font-size: 13px; max-width: 1240px; margin: 0 auto; padding: 0 24px 28px; }
h1.page { font-size: 25px; font-weight: 680; letter-spacing: -.015em; margin: 0 0 2px; line-height: 1.25; }
p.lead { color: var(--soft); margin: 0 0 18px; max-width: 72ch; }
.sheet { background: var(--paper); border: 1px solid var(--line); border-radius: 12px; padding: 18px 20px; width: 100%;
  box-sizing: border-box; display: flex; flex-direction: column; gap: 10px; }
.sheet h2 { font-size: 16px; font-weight: 650; margin: 0; line-height: 1.35; letter-spacing: -.005em; }
.hint, .hint * { color: var(--soft); font-size: 13.5px; line-height: 1.45; }
.two { display: grid; grid-template-columns: minmax(310px, 372px) minmax(0, 1fr); gap: 18px; align-items: start;
  width: 100%; }
.stack { display: flex; flex-direction: column; gap: 18px; width: 100%; min-width: 0; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 330px), 1fr)); gap: 18px; width: 100%; }
.verdict { border-radius: 12px; padding: 16px 20px; width: 100%; box-sizing: border-box;
  border: 1px solid transparent; }
.verdict.small { padding: 9px 13px; border-radius: 8px; font-size: 14px; }
.verdict .head { font-size: 19px; font-weight: 680; line-height: 1.3; margin-bottom: 3px; }
.verdict .weak { color: var(--bad); font-weight: 600; }
.verdict.good { background: var(--good-bg); border-color: color-mix(in srgb, var(--good) 35%, transparent); }
.verdict.good .head { color: var(--good); }
.verdict.coarse { background: var(--coarse-bg); border-color: color-mix(in srgb, var(--coarse) 35%, transparent); }
.verdict.coarse .head { color: var(--coarse); }
.verdict.bad { background: var(--bad-bg); border-color: color-mix(in srgb, var(--bad) 35%, transparent); }
.verdict.bad .head { color: var(--bad); }
.verdict.plain { background: var(--plain-bg); border-color: var(--line); }
table.plain { border-collapse: collapse; width: 100%; font-size: 14px; }
table.plain th { text-align: left; font-weight: 600; color: var(--soft); font-size: 13px; padding: 5px 12px 5px 0;
  border-bottom: 1px solid var(--line); vertical-align: bottom; }
table.plain td { padding: 6px 12px 6px 0; border-bottom: 1px solid var(--line); vertical-align: top;
  overflow-wrap: anywhere; }
table.plain td:first-child { overflow-wrap: break-word; }
table.plain tr:last-child td { border-bottom: 0; }
table.plain td.number, table.plain th.number { text-align: right; font-variant-numeric: tabular-nums; }
table.plain tr.chosen td { font-weight: 620; }
.wide-table { overflow-x: auto; width: 100%; }
.bar { height: 9px; border-radius: 5px; background: var(--plain-bg); overflow: hidden; min-width: 60px; }
.bar > div { height: 100%; border-radius: 5px; }
code, .mono { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace;
  font-size: 13px; }
.command { background: var(--plain-bg); border-radius: 8px; padding: 11px 13px; white-space: pre-wrap;
  overflow-wrap: anywhere; width: 100%; box-sizing: border-box; }
.command .option { display: inline-block; max-width: 100%; }
.big { font-size: 26px; font-weight: 680; letter-spacing: -.02em; line-height: 1.1; }
.chip { display: inline-block; border-radius: 99px; padding: 1px 10px; font-size: 13px; background: var(--plain-bg); }
.swatch { width: 12px; height: 12px; border-radius: 3px; display: inline-block; flex: none; }
.q-field__label { font-size: 14.5px; }
.q-btn-group .q-btn { padding: 4px 12px; min-height: 34px; }
.q-btn { text-transform: none; border-radius: 8px; letter-spacing: 0; }
.body--dark .q-uploader, .q-uploader { background: transparent; width: 100%; }
ul.plain { margin: 0; padding-left: 18px; list-style: disc; } ul.plain li { margin: 4px 0; overflow-wrap: anywhere; }
.q-uploader { border-radius: 8px; box-shadow: none; max-height: none; }
.q-uploader__header { background: var(--plain-bg); color: var(--ink); }
.q-uploader__subtitle { display: none; }
.q-uploader__title { font-weight: 550; font-size: 14.5px; line-height: 1.4; }
.q-uploader__list { min-height: 0; padding: 0; } .q-uploader__list > * { margin: 8px; }
.sheet > .q-expansion-item .q-item { padding: 0; min-height: 32px; }
.sheet .nicegui-expansion-content { padding: 12px 0 0; }
.drawn.stale { opacity: .35; }
.pictures { display: grid; grid-template-columns: 1fr 1fr; gap: 8px; width: 100%; }
.picture-name { text-align: center; font-size: 13px; font-weight: 600; color: var(--soft); }
.explore { display: grid; grid-template-columns: minmax(0, 1fr) minmax(300px, 366px); gap: 18px; width: 100%;
  align-items: start; }
.map-frame { width: 100%; height: min(66vh, 620px); border-radius: 8px; background: var(--ground); overflow: hidden; }
@media (max-width: 860px) {
  .pocket { display: block; position: fixed; left: 0; right: 0; bottom: 0; z-index: 60; border-radius: 0;
    border-width: 1px 0 0; padding: 9px 16px; } .pocket .head { font-size: 15px; }
  .studio-footer { padding: 0 14px 70px; }
  .explore { grid-template-columns: minmax(0, 1fr); } .map-frame { height: 58vh; }
  .two { grid-template-columns: minmax(0, 1fr); }
  .studio-bar { padding: 8px 14px 0; gap: 6px 12px; } .studio-main { padding: 16px 14px 40px; }
  .studio-name { flex: 1; } .studio-nav { order: 3; width: 100%; justify-content: space-between; }
  .studio-nav a.nicegui-link { padding: 9px 10px; } .sheet { padding: 15px 15px; } h1.page { font-size: 22px; }
}
"""
_HERE: Final = """
<script>
  function dimlyHere() {
    document.querySelectorAll('.studio-nav a').forEach(a => {
      const here = new URL(a.href).pathname === location.pathname;
      a.classList.toggle('here', here);
      here ? a.setAttribute('aria-current', 'page') : a.removeAttribute('aria-current');
    });
  }
  setInterval(dimlyHere, 250);
</script>
"""


def apply() -> None:
    """Give the page its colors."""
    ui.colors(primary="#1f4e79", secondary="#55636f", accent="#0072b2", dark="#1b242c", dark_page="#12181d")
    ui.add_css(_CSS)
    ui.add_head_html(_HERE)
    ui.add_head_html('<meta name="color-scheme" content="light dark">')


def header() -> None:
    """Show the name, the four pages, and the switch between light and dark."""
    dark = ui.dark_mode(None)
    with ui.element("header").classes("studio-header"), ui.element("div").classes("studio-bar"):
        with ui.element("div").classes("studio-name"):
            ui.html(ICON.replace("<svg ", "<svg width='22' height='22' aria-hidden='true' "), sanitize=False)
            ui.html("Dimly <span>studio</span>", sanitize=False)
        with ui.element("nav").classes("studio-nav").props('aria-label="Pages"'):
            for name, path in PAGES:
                ui.link(name, path)
        ui.space()
        modes: dict[str, bool | None] = {"System": None, "Light": False, "Dark": True}
        with ui.button(icon="contrast").props('flat round dense aria-label="Light or dark"'):
            ui.tooltip("Light or dark").props("anchor='center left' self='center right'")
            with ui.menu():
                for name, value in modes.items():
                    ui.menu_item(name, lambda value=value: dark.set_value(value))


def footer() -> None:
    """Say what the studio is not."""
    with ui.element("footer").classes("studio-footer"):
        ui.label(
            "The studio runs on this computer and sends nothing anywhere. It reads plans, releases, ledgers, surveys "
            "and public samples only. It cannot publish: dimly publish does that, with the plan that you save here."
        )


def title(text: str, lead: str) -> None:
    """Begin a page."""
    with ui.element("h1").classes("page"):
        ui.label(text)
    with ui.element("p").classes("lead"):
        ui.label(lead)


@contextmanager
def sheet(heading: str = "", hint: str = "") -> Iterator[ui.element]:
    """Enter a card with a heading, and a line in smaller letters below it."""
    with ui.element("section").classes("sheet") as element:
        if heading:
            with ui.element("h2"):
                ui.label(heading)
        if hint:
            ui.label(hint).classes("hint")
        yield element


def verdict_class(verdict: str) -> str:
    """Return the color of a verdict."""
    return {"good": "good", "coarse": "coarse", "not feasible": "bad"}.get(verdict, "plain")


def sentence(kind: str, head: str, text: str = "") -> ui.element:
    """Show a colored box with a sentence: ``good``, ``coarse``, ``bad`` or ``plain``."""
    with ui.element("div").classes(f"verdict {kind}").props("role=status") as box:
        ui.label(head).classes("head")
        if text:
            ui.label(text)
    return box


def table(
    header: list[str], rows: list[list[str]], *, numbers: tuple[str, ...] = (), chosen: int | None = None
) -> None:
    """Show a table of texts, which stay texts whatever they hold."""
    with ui.element("div").classes("wide-table"), ui.element("table").classes("plain"):
        with ui.element("thead"), ui.element("tr"):
            for name in header:
                with ui.element("th").classes("number" if name in numbers else "").props("scope=col"):
                    ui.label(name)
        with ui.element("tbody"):
            for i, row in enumerate(rows):
                with ui.element("tr").classes("chosen" if i == chosen else ""):
                    for name, cell in zip(header, row, strict=True):
                        with ui.element("td").classes("number" if name in numbers else ""):
                            ui.label(cell)


def command(text: str) -> None:
    """Show a command line, broken before options and never within their names, with a button that copies it."""
    with ui.row().classes("w-full no-wrap items-start gap-1"):
        with ui.element("div").classes("command mono"):
            for option in text.replace(" -", "\n-").splitlines():
                ui.label(option + " ").classes("option")
        ui.button(icon="content_copy", on_click=lambda: _copy(text)).props(
            'flat dense round aria-label="Copy the command"'
        )


def _copy(text: str) -> None:
    ui.clipboard.write(text)
    ui.notify("Copied.")


def meter(share: float, color: str) -> None:
    """Show a part of a whole as a bar."""
    width = 100 * min(max(share, 0.0), 1.0)
    with ui.element("div").classes("bar"):
        ui.element("div").style(f"width: {width:.1f}%; background: {color}")


def number(value: float) -> str:
    """Return a number for people: three digits, no more.

    Examples
    --------
    >>> number(1234.5), number(45.67), number(0.01234), number(float("nan"))
    ('1,230', '45.7', '0.0123', '–')
    """
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "unlimited"
    if value == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(value)))
    shown = round(value, digits)
    if shown == int(shown):
        return f"{shown:,.0f}"
    return f"{shown:,.{max(0, digits)}f}" if abs(value) < 100 else f"{shown:,.0f}"


def promised(bound: float) -> str:
    """Return a bound that is promised, rounded up to a tenth: it may not look better than it is.

    Examples
    --------
    >>> promised(0.7311), promised(0.5)
    ('73.2 %', '50 %')
    """
    return f"{math.ceil(round(1000 * bound, 6)) / 10:g} %"


def share(value: float) -> str:
    """Return a probability for people.

    Examples
    --------
    >>> share(0.7311), share(0.9996), share(0.0001)
    ('73 %', 'more than 99.9 %', 'less than 0.1 %')
    """
    if value > 0.999:
        return "more than 99.9 %" if value < 1 else "100 %"
    if 0 < value < 0.001:
        return "less than 0.1 %"
    return f"{100 * value:.0f} %" if 0.01 < value < 0.99 else f"{100 * value:.1f} %"
