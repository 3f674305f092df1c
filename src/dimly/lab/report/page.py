"""A report as one page of HTML: no script, no outside request, for the privacy officer and for the analyst."""

import math
import re
from collections.abc import Mapping, Sequence
from html import escape

import dimly
from dimly.analyst.structure.profiles import DIRECTIONS_SAY
from dimly.analyst.structure.segments import Segments
from dimly.lab.report.charts import MARGIN, error_curve, histogram, ladder, number, segment_map, symbol
from dimly.lab.report.distances import FEWEST_PAIRS, Distances
from dimly.lab.report.officer import checks, exact, guess_in_words, guesses, limits, promise, published
from dimly.lab.report.report import Report

_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def table(
    caption: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    here: Sequence[bool] = (),
    raw: bool = False,
    wraps: bool = False,
) -> str:
    """Return a table whose first column names the rows; ``raw`` cells are HTML already, those of words wrap."""
    shown = (lambda cell: cell) if raw else escape
    kind = ' class="words"' if wraps else ""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    body = ""
    for i, (first, *rest) in enumerate(rows):
        mark = ' class="here"' if i < len(here) and here[i] else ""
        cells = "".join(f"<td>{shown(cell)}</td>" for cell in rest)
        body += f'<tr{mark}><th scope="row">{shown(first)}</th>{cells}</tr>'
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(caption)}">'
        f"<table{kind}>"
        f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def facts_list(facts: Mapping[str, str]) -> str:
    """Return names and what they are; the texts are HTML already."""
    return '<dl class="facts">' + "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in facts.items()) + "</dl>"


def with_code(text: str) -> str:
    """Return a sentence in which what stands in backquotes is code."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))


def percent(share: float) -> str:
    """Return a share for people; no line ends within it."""
    return "less than 1\u00a0%" if 0 < share < 0.01 else f"{100 * share:.0f}\u00a0%"


def rounded_up(value: float) -> str:
    """Return a number with four digits at most, and never below it: a promise may not look better than it is.

    Examples
    --------
    >>> rounded_up(1.0), rounded_up(0.33333333), rounded_up(1.00001), rounded_up(1e-6), rounded_up(0.0)
    ('1', '0.3334', '1.001', '1e-06', '0')
    """
    text = f"{value:.4g}"
    if float(text) < value:
        text = f"{float(text) + 10.0 ** (math.floor(math.log10(value)) - 3):.4g}"
    return text


def odds(factor: float) -> str:
    """Return a factor, at least 1, rounded up to two or three digits.

    Examples
    --------
    >>> odds(7.38905), odds(54.59815), odds(2980.95), odds(22026.47), odds(math.inf)
    ('7.39', '54.6', '2,990', '2.3·10⁴', '10³⁰⁰ and more')
    """
    if not math.isfinite(factor):
        return "10³⁰⁰ and more"
    power = math.floor(math.log10(factor))
    if power < 4:
        unit = 10.0 ** (power - 2)
        return f"{math.ceil(factor / unit) * unit:,.{max(2 - power, 0)}f}"
    return f"{math.ceil(factor / 10 ** (power - 1)) / 10:g}·10{str(power).translate(_SUPERSCRIPTS)}"


def size(n_bytes: float) -> str:
    """Return a number of bytes for people."""
    amount = float(n_bytes)
    for unit in ("bytes", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:,.3g} TB"


STYLE = """
:root { --paper: #ffffff; --card: #f4f6f8; --ink: #1b1f24; --soft: #57606a; --line: #d5dae0; --accent: #0072b2;
  --band: #0072b233; --bar: #9aa7b4; --alone: #c04a00; --warn: #fff1e5; --warn-ink: #8a3200; color-scheme: light; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14181d; --card: #1e242b; --ink: #e8ebee; --soft: #a3adb8; --line: #37414b; --accent: #5cb3ea;
    --band: #5cb3ea40; --bar: #66727e; --alone: #ff9b57; --warn: #3a2313; --warn-ink: #ffb98a; color-scheme: dark; }
  svg .people, svg.symbol { filter: brightness(1.45); }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; scroll-behavior: smooth; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main, header, footer { max-width: 60rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 2.2rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .3rem; letter-spacing: -.01em; }
h2 { font-size: 1.45rem; margin: 3rem 0 .2rem; padding-top: 1rem; border-top: 3px solid var(--accent); }
h3 { font-size: 1.12rem; margin: 2.2rem 0 .5rem; }
p, li, figcaption, caption { max-width: 44rem; }
p { margin: .5rem 0; }
.soft, figcaption, footer, .lead { color: var(--soft); }
.lead { font-size: 1.05rem; margin-top: 0; }
code { font: .9em ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; background: var(--card);
  padding: .1em .3em; border-radius: .25rem; overflow-wrap: anywhere; }
a { color: var(--accent); }
nav ol { columns: 2; column-gap: 2.5rem; padding-left: 1.3rem; margin: .4rem 0; }
nav li { margin: .15rem 0; break-inside: avoid; }
nav h2 { font-size: 1rem; margin: 1.8rem 0 0; padding: 0; border: 0; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(13rem, 1fr)); gap: .8rem; margin: 1.4rem 0 0; }
.cards div { background: var(--card); border-radius: .6rem; padding: .8rem 1rem; }
.cards dt { color: var(--soft); font-size: .88rem; }
.cards dd { margin: 0; font-size: .9rem; line-height: 1.4; }
.cards dd b { display: block; font-size: 1.3rem; line-height: 1.3; margin: .05rem 0 .15rem; overflow-wrap: anywhere; }
.warning { background: var(--warn); color: var(--warn-ink); border-left: .35rem solid currentColor; padding: .8rem 1rem;
  border-radius: .3rem; margin: 1.2rem 0; max-width: 44rem; }
.promise { font-size: 1.08rem; border-left: .3rem solid var(--accent); padding: .1rem 0 .1rem 1rem; margin: .8rem 0; }
.verdict { font-weight: 600; }
ul.checks { list-style: none; padding-left: 0; }
ul.checks li { padding-left: 1.9rem; position: relative; margin: .55rem 0; }
ul.checks li::before { content: ""; position: absolute; left: 0; top: .28em; width: 1em; height: 1em;
  border: 2px solid var(--soft); border-radius: .2em; }
.scroll { overflow-x: auto; margin: .8rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .94rem; }
caption { text-align: left; color: var(--soft); padding-bottom: .4rem; }
th, td { padding: .36rem 1.1rem .36rem 0; text-align: right; border-bottom: 1px solid var(--line);
  vertical-align: top; }
th { font-weight: 600; }
thead th { vertical-align: bottom; color: var(--soft); font-size: .86rem; line-height: 1.3; }
td { white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
table.words th, table.words td { text-align: left; white-space: normal; }
tr.here { background: var(--card); }
dl.facts { display: grid; grid-template-columns: minmax(9rem, 13rem) 1fr; gap: .3rem 1rem; margin: .8rem 0; }
dl.facts dt { color: var(--soft); }
dl.facts dd { margin: 0; overflow-wrap: anywhere; }
figure { margin: 1rem 0 1.4rem; }
figure > svg { display: block; width: 100%; max-width: 37rem; height: auto; }
figcaption { font-size: .92rem; margin-top: .4rem; }
svg text { fill: var(--ink); font-family: inherit; font-size: 11.5px; }
svg text.label { fill: var(--soft); font-size: 12px; }
svg text.strong { font-weight: 600; font-size: 12px; }
svg .grid { stroke: var(--line); stroke-width: 1; }
svg .band { fill: var(--band); }
svg .bar { fill: var(--bar); }
svg .dot { fill: var(--accent); }
svg .curve { fill: none; stroke: var(--accent); stroke-width: 2.4; }
svg .alone { fill: none; stroke: var(--alone); stroke-width: 2.4; stroke-dasharray: 7 4; }
svg .field { fill: var(--card); }
svg .people { opacity: .68; }
svg text.name { font-size: 19px; font-weight: 700; paint-order: stroke; stroke: var(--paper); stroke-width: 4.5px;
  stroke-linejoin: round; }
svg.symbol { width: 1.1em; height: 1.1em; vertical-align: -.15em; margin-right: .35em; }
.key { display: inline-block; width: 1.5em; height: .8em; vertical-align: -.02em; margin-right: .3em; }
.key.bar { background: var(--bar); } .key.band { background: var(--band); }
.key.alone { height: 0; border-top: 3px dashed var(--alone); vertical-align: .25em; }
.key.curve { height: 0; border-top: 3px solid var(--accent); vertical-align: .25em; }
.key.dot { width: .7em; height: .7em; border-radius: 50%; background: var(--accent); }
footer { border-top: 1px solid var(--line); margin-top: 3rem; padding-top: 1rem; padding-bottom: 3rem;
  font-size: .92rem; }
@media (max-width: 34rem) {
  h1 { font-size: 1.5rem; } nav ol { columns: 1; }
  .cards { grid-template-columns: 1fr 1fr; gap: .6rem; } .cards div { padding: .65rem .75rem; }
  .cards dd b { font-size: 1.1rem; }
  dl.facts { grid-template-columns: 1fr; gap: 0; } dl.facts dd { margin-bottom: .55rem; }
  svg text, svg text.label, svg text.strong { font-size: 15px; } svg text.name { font-size: 24px; }
  th, td { padding-right: .7rem; } table { font-size: .88rem; }
}
@media print {
  :root { --paper: #ffffff; --card: #f4f6f8; --ink: #000000; --soft: #444444; --line: #bbbbbb; --accent: #0072b2;
    --band: #0072b233; --bar: #9aa7b4; --alone: #c04a00; --warn: #ffffff; --warn-ink: #000000; color-scheme: light; }
  svg .people, svg.symbol { filter: none; }
  body { font-size: 10.5pt; } nav { display: none; } main, header, footer { max-width: none; padding: 0; }
  figure, table, .cards div, .warning, li { break-inside: avoid; } h2, h3 { break-after: avoid; }
  figure > svg { max-width: 12cm; } * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""


_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_SECTIONS = {
    "promised": "What is promised",
    "not-promised": "What is not promised",
    "cost": "What was published, and what it cost",
    "checks": "What to check before it is given away",
    "apart": "Which distances can be told apart",
    "errors": "How large the errors are",
    "spread": "How far apart people are",
    "structure": "Whether there is structure",
    "segments": "A map of segments",
}
_OFFICER = ("promised", "not-promised", "cost", "checks")


def page_of(report: Report, *, audit: Sequence[str] = ()) -> str:
    """Return the page. The same report is the same page.

    Parameters
    ----------
    report : Report
    audit : sequence of str
        What a certificate beside the release says, in sentences.
    """
    parts = {
        "promised": _promised(report),
        "not-promised": _not_promised(report),
        "cost": _cost(report),
        "checks": _checks(report, audit),
        "apart": _apart(report),
        "errors": _errors(report),
        "spread": _spread(report),
        "structure": _structure(report),
        "segments": _segments(report),
    }
    sections = {name: f'<section id="{name}"><h3>{_SECTIONS[name]}</h3>{parts[name]}</section>' for name in parts}
    contents = "".join(f'<li><a href="#{name}">{title}</a></li>' for name, title in _SECTIONS.items())
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"><meta name="referrer" content="no-referrer">'
        f'<link rel="icon" href="data:,"><title>Release {report.manifest.release[:12]}: report</title>'
        f"<style>{STYLE}</style></head>\n<body><header><h1>What this release promises, and what it shows</h1>"
        f'<p class="lead">{report.manifest.n_users:,} people, seen dimly. Release '
        f"<code>{report.manifest.release[:12]}</code></p></header>\n<main>"
        f"{_warnings(report)}{_summary(report)}"
        f'<nav aria-labelledby="contents"><h2 id="contents">Contents</h2><ol>{contents}</ol></nav>\n'
        f"<h2>For the privacy officer</h2>{''.join(sections[name] for name in _OFFICER)}\n"
        f"<h2>For the analyst</h2>"
        f"{''.join(sections[name] for name in sections if name not in _OFFICER)}</main>\n"
        f"<footer>{_footer(report)}</footer></body></html>\n"
    )


def _warnings(report: Report) -> str:
    manifest, texts = report.manifest, []
    if not manifest.private:
        texts.append(manifest.promise)
    elif manifest.guarantee != tuple(manifest.promise.splitlines()):
        texts.append(
            "The manifest does not hold the words that belong to its plan. This page shows those that do. Something "
            "was changed: do not give this release away."
        )
    return "".join(f'<p class="warning" role="alert"><strong>Warning.</strong> {escape(text)}</p>' for text in texts)


def _summary(report: Report) -> str:
    manifest, plan = report.manifest, report.manifest.plan
    roster = (
        "a list made without the private table, by the publisher's word"
        if manifest.users.roster == "given"
        else "those found in the private table"
    )
    cards = {
        "Promise": ("none", "This release was made for tests only.")
        if not manifest.private
        else (f"ε = {rounded_up(plan.cost.epsilon)}, δ = {rounded_up(plan.cost.delta)}", guess_in_words(plan)),
        "People": (f"{manifest.n_users:,}", roster[0].upper() + roster[1:] + "."),
        "Published": (
            size(manifest.bytes),
            f"By {plan.mechanism}"
            + (f", {plan.k:,} numbers a person." if plan.k else ".")
            + (" All distances here are along these directions." if plan.directions is not None else ""),
        ),
        "Counted in a ledger": ("no", "Nobody adds up what these people have been charged.")
        if manifest.ledger is None
        else ("yes", f"Dataset {manifest.ledger.dataset}."),
        "Random pairs": _pairs_card(report.distances),
        "Steps of distance": _steps_card(report),
        "Structure": _structure_card(report),
        "Segments": _segments_card(report),
    }
    shown = "".join(
        f"<div><dt>{name}</dt><dd><b>{escape(large)}</b>{escape(small)}</dd></div>"
        for name, (large, small) in cards.items()
    )
    return f'<dl class="cards" aria-label="Summary">{shown}</dl>'


def _pairs_card(found: Distances | None) -> tuple[str, str]:
    if found is None:
        return "none", "There are no two people to compare."
    what = f"Average squared distance; one estimate is off by {number(found.noise)} or so."
    return (f"{number(found.mean)} apart" if found.mean > 0 else "unknown"), what


def _steps_card(report: Report) -> tuple[str, str]:
    n = len(report.rungs) - 1
    if n == 0:
        return "none", "No two distances of single pairs can be told apart."
    return str(n), f"So many can be told apart between 0 and {number(report.reach)}, by single pairs."


def _structure_card(report: Report) -> tuple[str, str]:
    if report.segments is None:
        return "unknown", "Not to be seen in this kind of release."
    structure = report.segments.structure
    if structure.components == 0:
        return "none found", f"No more than {structure.chance} would show."
    plural = "s" if structure.components > 1 else ""
    return (
        f"{structure.components} component{plural}",
        f"{percent(structure.share)} of the variance that is not noise.",
    )


def _segments_card(report: Report) -> tuple[str, str]:
    found = report.segments
    if found is None:
        return "unknown", "Nobody has a place in this release."
    if len(found) == 1 or found.structure.components == 0:
        return "none found", "No groups that deserve the name."
    return str(len(found)), f"Stability {found.stability:.2f} of 1: {_stable(found.stability)}."


def _promised(report: Report) -> str:
    manifest, plan = report.manifest, report.manifest.plan
    if not manifest.private:
        return "<p>Nothing. The noise did not come from a fresh secret keystream.</p>"
    told = "".join(f"<p>{escape(line)}</p>" for line in promise(manifest))
    rows, priors = [], list(guesses(plan)[0].right)
    for one in guesses(plan):
        chances = [f"{100 * one.right[prior]:.3g} %" for prior in priors]
        # With δ above 0 no factor bounds the odds of every outcome: what m units share is the pair (εm, δm).
        bounds = (
            [f"× {odds(one.odds)}"]
            if plan.cost.is_pure
            else [rounded_up(one.several * plan.cost.epsilon), rounded_up(one.delta)]
        )
        rows.append([f"{one.several}", *bounds, *chances])
    header = [f"{plan.unit.capitalize()}s at once"]
    if plan.cost.is_pure:
        header += ["Odds change by up to"]
        caption = "How sure a guess about one person can become, by how sure it was before."
        header += [f"{100 * prior:g} % becomes at most" for prior in priors]
    else:
        caption = (
            "How often somebody tells two equally likely cases apart, at best. With δ above 0 this holds on average: a "
            "rare outcome may tell more."
        )
        header += ["ε together", "δ together", "Right with at most"]
    return f'<div class="promise">{told}</div>' + table(caption, header, rows)


def _not_promised(report: Report) -> str:
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in limits(report.manifest)) + "</ul>"


def _cost(report: Report) -> str:
    manifest, plan = report.manifest, report.manifest.plan
    charged = (
        "No ledger is named: nobody adds up what these people have been charged."
        if manifest.ledger is None
        else f"Charged to dataset “{manifest.ledger.dataset}” of a ledger."
    )
    spent = f"ε = {exact(plan.cost.epsilon)}, δ = {exact(plan.cost.delta)} for each {plan.protected}. {charged}"
    n_files = len(manifest.files)
    facts = {
        "Spent": escape(spent if manifest.private else "Nothing is promised, so that nothing can be counted."),
        **{name: escape(text) for name, text in published(manifest).items()},
        "Size": f"{size(manifest.bytes)} in {n_files:,} file{'s' if n_files > 1 else ''}",
        "Plan digest": f"<code>{manifest.plan_digest}</code>",
        "Release id": f"<code>{manifest.release}</code>",
    }
    return facts_list(facts)


def _checks(report: Report, audit: Sequence[str] = ()) -> str:
    text = '<ul class="checks">' + "".join(f"<li>{with_code(line)}</li>" for line in checks(report.manifest)) + "</ul>"
    if not audit:
        return text
    first, *rest = audit
    items = "".join(f"<li>{escape(line)}</li>" for line in rest)
    return f"{text}<h4>Certificate of an audit</h4><p>{escape(first)}</p><ul>{items}</ul>"


def _apart(report: Report) -> str:
    rungs, reach = report.rungs, report.reach
    plan = report.manifest.plan
    unit = "attributes in which two people differ" if plan.resolution == 1 else "a sum of squares"
    if plan.directions is not None:
        unit = "along the directions of this release, and not in all attributes"
    text = f"<p>Distances are squared: {unit}. "
    if len(rungs) == 1:
        text += (
            f"Between 0 and {number(reach)} no two can be told apart from the estimates of single pairs. Averages over "
            "many pairs, neighbors and segments may still tell something.</p>"
        )
        return text + _seen_table(report)
    listed = ", ".join(number(round(rung)) for rung in rungs[:-1]) + " and " + number(round(rungs[-1]))
    text += (
        f"From 0 to {number(reach)} these can be told apart, each from the one before: {listed}. Of two pairs, four "
        "people in all, that lie a step apart, the nearer one looks nearer in 39 of 40 cases.</p>"
    )
    drawn = (
        f"<figure>{ladder(report.acuity, rungs, reach)}<figcaption>"
        '<span class="key dot"></span>true squared distance '
        '<span class="key band"></span>where 95 of 100 estimates of it fall, below 0 too</figcaption></figure>'
        if len(rungs) <= 12
        else ""
    )
    return text + drawn + _seen_table(report)


def _seen_table(report: Report) -> str:
    rows, here = [], []
    for one in report.seen:
        average = report.distances is not None and one.distance == report.distances.mean
        here.append(average)
        high = number(one.high) if one.high < float("inf") else "any"
        farther = "none" if one.apart is None else f"{number(one.apart)} on"
        label = number(one.distance) + (" (average pair)" if average else "")
        rows.append([label, f"± {number(one.stderr)}", f"{number(one.low)} to {high}", farther])
    caption = "What an estimate says."
    return table(caption, ["Estimate", "Standard error", "95 % interval", "Told from pairs at"], rows, here=here)


def _errors(report: Report) -> str:
    bend = report.acuity.bend
    of_whom = "" if bend is None else f" for two people of average weight, about {number(report.acuity.weight)},"
    keys = '<span class="key curve"></span>standard error by theory'
    if report.distances is not None and report.distances.people:
        keys += ' <span class="key band"></span>where most pairs of this release lie, noise taken off'
    if bend is not None and bend < MARGIN * report.reach:
        keys += (
            f". The curve bends at {number(bend)}, twice the average weight: two people cannot differ in more than "
            "they have together, so that pairs farther apart are of heavier people, whose errors are larger"
        )
    return (
        f"<p>The plan says how far off an estimate is{of_whom} before anybody sees it: one standard error in two of "
        "three cases, two in 95 of 100.</p>"
        f"<figure>{error_curve(report.acuity, report.distances, report.reach)}<figcaption>{keys}.</figcaption></figure>"
    )


def _spread(report: Report) -> str:
    found = report.distances
    if found is None:
        return "<p>There are no two people to compare.</p>"
    n = len(found.values)
    if n < FEWEST_PAIRS:
        return "<p>There are too few pairs to say how distances differ.</p>"
    measure = report.manifest.plan.measured
    text = (
        f'<p class="verdict">{_spread_in_words(report, found)}</p>'
        f"<p>{n:,} pairs, at random: their average {measure} is {number(found.mean)}, which may be off by about "
        f"{number(found.mean_error)}"
        + (", since all pairs are seen through the same projection" if found.drift else "")
        + f". The estimates spread by {number(found.spread)}; noise alone would do so by {number(found.noise)}.</p>"
    )
    keys = (
        '<span class="key bar"></span>estimates of random pairs '
        '<span class="key alone"></span>what noise alone would show if all pairs were equally far apart.'
    )
    if found.values.min() < 0:
        keys += " Estimates below 0 are noise: no distance is negative."
    return text + f"<figure>{histogram(found, measure=measure)}<figcaption>{keys}</figcaption></figure>"


def _spread_in_words(report: Report, found: Distances) -> str:
    if not found.visible:
        text = "The spread is noise. Nothing in it shows that some pairs are nearer than others."
        if report.segments is not None and report.segments.structure.components > 0:
            text += " This is about single pairs. Groups may still show, and structure was found: see there."
        return text
    noise = 1 - found.share
    most = "Most of the spread is noise" if noise > 0.5 else "Most of the spread is people"
    return (
        f"{most}: noise explains {percent(noise)} of the variance. True squared distances spread by about "
        f"{number(found.people)}."
    )


def _structure(report: Report) -> str:
    if report.segments is None:
        return f"<p>{_why_no_points(report)}</p>"
    structure = report.segments.structure
    words = structure.words[0].upper() + structure.words[1:]
    text = f'<p class="verdict">{escape(words)}.</p>'
    if len(report.sample.release) < 20:
        return text + "<p>Fewer than 20 people show nothing.</p>"
    if report.manifest.plan.directions is None:
        text += (
            "<p>Do attributes go together, beyond chance? People were compared with made ones whose attributes are "
            "independent; such are taken for structure in fewer than one of a thousand releases. That some people are "
            "more active than others is no structure.</p>"
        )
        average = "the average direction’s variance"
    else:
        text += (
            "<p>Do people differ along the directions, beyond noise? Noise alone is taken for structure in fewer than "
            "one of a thousand releases. That some people are more active than others counts, too: they lie farther "
            "out along every direction.</p>"
        )
        average = "the variance of noise"
    if structure.components == 0:
        text += "<p>There may still be structure: what is weaker than chance can produce is not found.</p>"
    facts = {
        "Strongest direction": f"{structure.strongest:.2f} times {average}",
        "Chance reaches": f"{structure.threshold:.2f}",
        "Components": f"{structure.components}",
    }
    return text + facts_list(facts)


def _segments(report: Report) -> str:
    found = report.segments
    if found is None:
        return f"<p>{_why_no_points(report)}</p>"
    if found.structure.components == 0:
        return (
            '<p class="verdict">There is no map, because there is nothing to be seen on it.</p><p>K-means would cut '
            "any cloud into as many pieces as it is told to. Without structure, these say nothing about people.</p>"
        )
    text = f'<p class="verdict">{escape(_segments_in_words(report))}</p>'
    if report.map is not None:
        text += (
            f"<figure>{segment_map(report.map)}<figcaption>{len(report.map.points):,} people at most, at random, where "
            "denoising puts them. Denoised distances are too short, and neighbors overlap more than in all directions "
            f"together: these two hold {percent(sum(report.map.shares))} of what is left.</figcaption></figure>"
        )
    else:
        text += "<p>People differ in one direction only: there is nothing to draw a map of.</p>"
    if len(found) == 1:
        return text
    total = max(int(found.sizes.sum()), 1)
    rows = [
        [f"{symbol(label)}{label}", f"{people:,}", percent(people / total)]
        for label, people in enumerate(found.sizes.tolist())
    ]
    sizes = table("Segments, the largest first.", ["Segment", "People", "Share"], rows, raw=True)
    taste = (
        "Segments are by everything that sets people apart, how active they are included."
        if found.activity
        else "Segments are by taste: how active people are was left out."
    )
    return text + sizes + _profiles(found) + f"<p>{taste} <code>dimly segments</code> writes who is in which one.</p>"


def _profiles(found: Segments) -> str:
    if not found.is_described:
        return ""
    rows = []
    for label, profile in enumerate(found.describe()):
        sides = [_named(profile.toward, profile.n_toward), _named(profile.away, profile.n_away)]
        rows.append([f"{symbol(label)}{label}", *(sides if profile.differs.any() else ["nothing beyond noise", "–"])])
    caption = "What tells each segment from everybody else, along the directions."
    named = table(caption, ["Segment", "Counts toward it", "Counts away from it"], rows, raw=True, wraps=True)
    return named + f'<p class="soft">{DIRECTIONS_SAY}</p>'


def _named(named: Sequence[tuple[str, float]], n_strong: int) -> str:
    """Return the attributes of one end, as HTML."""
    others = n_strong - len(named)
    more = f" and {others:,} as telling" if others > 0 else ""
    return escape(", ".join(name for name, _ in named)) + more if named else "–"


def _segments_in_words(report: Report) -> str:
    found = report.segments
    assert found is not None  # noqa: S101
    if len(found) == 1:
        return "People differ in more than chance, and yet they do not fall into groups."
    return f"{len(found)} segments; stability {found.stability:.2f} of 1: {_stable(found.stability)}."


def _stable(stability: float) -> str:
    if stability == 0:
        return "no more than cuts through a cloud without groups"
    if stability < 0.3:
        return "hardly to be relied on; another half of the people gives rather different ones"
    if stability < 0.7:
        return "their cores hold, their borders do not"
    return "two halves of the people give nearly the same ones"


def _why_no_points(report: Report) -> str:
    if not report.sample.places_people:
        return (
            "This release holds distances only, with noise on each of them. Nobody has a place, so that there are "
            "neither directions to look for nor a map. Publish sketches for that."
        )
    return "There are fewer than two people with numbers that are not saturated."


def _footer(report: Report) -> str:
    sample, n = report.sample, report.manifest.n_users
    looked = f"It looked at all {n:,} people."
    if sample.looked_at < n:
        whole = "" if report.segments is None else "Structure and segments are of everybody; for the rest "
        looked = f"{whole}it looked at {sample.looked_at:,} of {n:,} people, evenly spaced."
        looked = looked[0].upper() + looked[1:]
    lost = f" {sample.saturated:,} of them have a saturated number, and are left out." if sample.saturated else ""
    return (
        f"<p>Made by Dimly {escape(dimly.__version__)} from the release alone. {looked}{lost} It shows no "
        "user id and no private value, and loads nothing from anywhere. The same release gives the same page.</p>"
        "<p>Who is near whom, and how surely? <code>dimly distance</code> and <code>dimly neighbors</code> tell.</p>"
    )
