"""A report as one page of HTML: no script, no outside request, for the privacy officer and for the analyst."""

from html import escape

import dimly
from dimly.lab.report import Report
from dimly.lab.report_charts import MARGIN, error_curve, histogram, ladder, number, segment_map, symbol
from dimly.lab.report_distances import FEWEST_PAIRS, Distances
from dimly.lab.report_markup import facts_list, odds, percent, rounded_up, size, table, with_code
from dimly.lab.report_officer import checks, exact, guess_in_words, guesses, limits, promise, published
from dimly.lab.report_style import STYLE

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


def page_of(report: Report) -> str:
    """Return the page. The same report is the same page."""
    parts = {
        "promised": _promised(report),
        "not-promised": _not_promised(report),
        "cost": _cost(report),
        "checks": _checks(report),
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
    roster = "a list given beforehand" if manifest.users.roster == "given" else "those found in the private table"
    cards = {
        "Promise": ("none", "This release was made for tests only.")
        if not manifest.private
        else (f"ε = {rounded_up(plan.cost.epsilon)}, δ = {rounded_up(plan.cost.delta)}", guess_in_words(plan)),
        "People": (f"{manifest.n_users:,}", roster[0].upper() + roster[1:] + "."),
        "Published": (
            size(manifest.bytes),
            f"By {plan.mechanism}" + (f", {plan.projection.k:,} numbers a person." if plan.projection else "."),
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
        return "none found", "No more than independent attributes would show."
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
    spent = f"ε = {exact(plan.cost.epsilon)}, δ = {exact(plan.cost.delta)} for each {plan.unit}. {charged}"
    n_files = len(manifest.files)
    facts = {
        "Spent": escape(spent if manifest.private else "Nothing is promised, so that nothing can be counted."),
        **{name: escape(text) for name, text in published(manifest).items()},
        "Size": f"{size(manifest.bytes)} in {n_files:,} file{'s' if n_files > 1 else ''}",
        "Plan digest": f"<code>{manifest.plan_digest}</code>",
        "Release id": f"<code>{manifest.release}</code>",
    }
    return facts_list(facts)


def _checks(report: Report) -> str:
    return '<ul class="checks">' + "".join(f"<li>{with_code(line)}</li>" for line in checks(report.manifest)) + "</ul>"


def _apart(report: Report) -> str:
    rungs, reach = report.rungs, report.reach
    unit = "attributes in which two people differ" if report.manifest.plan.resolution == 1 else "a sum of squares"
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
    text = (
        f'<p class="verdict">{_spread_in_words(report, found)}</p>'
        f"<p>{n:,} pairs, at random: their average squared distance is {number(found.mean)}, which may be off by about "
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
    return text + f"<figure>{histogram(found)}<figcaption>{keys}</figcaption></figure>"


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
    text += (
        "<p>Do attributes go together, beyond chance? People were compared with made ones whose attributes are "
        "independent; such are taken for structure in fewer than one of a thousand releases. That some people are "
        "more active than others is no structure.</p>"
    )
    if structure.components == 0:
        text += "<p>None found is not none there: what is weaker than chance reaches cannot be told from it.</p>"
    facts = {
        "Strongest direction": f"{structure.strongest:.2f} times the average direction’s variance",
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
        [f"{symbol(label)}{label + 1}", f"{people:,}", percent(people / total)]
        for label, people in enumerate(found.sizes.tolist())
    ]
    sizes = table("Segments, the largest first.", ["Segment", "People looked at", "Share"], rows, raw=True)
    taste = (
        "Segments are by everything that sets people apart, how active they are included."
        if found.activity
        else "Segments are by taste: how active people are was left out."
    )
    return text + sizes + f"<p>{taste} <code>dimly segments</code> writes who is in which one.</p>"


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
    whom = f"all {n:,} people" if sample.looked_at == n else f"{sample.looked_at:,} of {n:,} people, evenly spaced"
    lost = f" {sample.saturated:,} of them have a saturated number, and are left out." if sample.saturated else ""
    return (
        f"<p>Made by Dimly {escape(dimly.__version__)} from the release alone. It looked at {whom}.{lost} It shows no "
        "user id and no private value, and loads nothing from anywhere. The same release gives the same page.</p>"
        "<p>Who is near whom, and how surely? <code>dimly distance</code> and <code>dimly neighbors</code> tell.</p>"
    )
