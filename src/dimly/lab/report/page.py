"""The report as HTML by a Jinja template: numbers and odds as text, limits rounded up; ``write_report``."""

import math
import os
import re
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

import dimly
from dimly.analyst.release import Release
from dimly.analyst.segments.differences import DIRECTIONS_SAY
from dimly.analyst.segments.segments import Count
from dimly.curator.options import Progress
from dimly.errors import ParameterError
from dimly.files import check_output, write_text
from dimly.lab.report.acuity import FEWEST_PAIRS
from dimly.lab.report.officer import checks, exact, guess_in_words, guesses, limits, promise, published
from dimly.lab.report.report import Report, report_of
from dimly.lab.report.svg_charts import (
    MARGIN,
    attack_curve,
    error_curve,
    histogram,
    ladder,
    number,
    segment_map,
    symbol,
)
from dimly.mechanisms.guarantee import is_guarantee
from dimly.release.documents.profiles_file import Profiles, read_profiles
from dimly.release.reader import StoredSketches, open_folder

_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def with_code(text: str) -> Markup:
    """Return a sentence in which what stands in backquotes is code.

    Examples
    --------
    >>> print(with_code("`dimly verify <RELEASE>` succeeds."))
    <code>dimly verify &lt;RELEASE&gt;</code> succeeds.
    """
    escaped = str(escape(text))  # plain text from here on: Markup would escape the tags, too
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", escaped))  # noqa: S704 - escaped before


def thousands(count: int) -> str:
    """Return a whole number for people."""
    return f"{count:,}"


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


def page_of(report: Report, *, audit: Sequence[str] = (), seen: float | None = None) -> str:
    """Return the page. The same report is the same page.

    Parameters
    ----------
    report : Report
    audit : sequence of str
        What a certificate beside the release says, in sentences.
    seen : float, optional
        The lower bound on ε that it states.
    """
    manifest, bend = report.manifest, report.acuity.bend
    page = _environment().get_template("page.html")
    return page.render(
        report=report,
        audit=audit,
        seen=seen,
        is_worded_as_planned=is_guarantee(manifest.guarantee, manifest.promise),
        shows_bend=bend is not None and bend < MARGIN * report.reach,
    )


@cache
def _environment() -> Environment:
    """Return what turns the template into a page; whatever it is given is text, unless the template says otherwise."""
    environment = Environment(
        loader=PackageLoader("dimly.lab.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    written = (number, percent, thousands, rounded_up, exact, odds, size, with_code)
    environment.filters |= {one.__name__: one for one in written}
    said = (promise, limits, guesses, guess_in_words, published, checks)
    drawn = (ladder, attack_curve, error_curve, histogram, segment_map, symbol)
    environment.globals |= {one.__name__: one for one in (*said, *drawn)}
    environment.globals |= {
        "version": dimly.__version__,
        "fewest_pairs": FEWEST_PAIRS,
        "directions_say": DIRECTIONS_SAY,
        "infinity": math.inf,
    }
    return environment


def write_report(
    release: Release,
    path: Path,
    *,
    count: Count = "auto",
    profiles: Profiles | str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Write the page; see :meth:`Release.report`."""
    if path.suffix.lower() not in {".html", ".htm"}:
        raise ParameterError(f"path must end in .html, got {str(path)!r}. A browser can print the page as PDF.")
    check_output(path, overwrite=overwrite)
    told = profiles if profiles is None or isinstance(profiles, Profiles) else read_profiles(profiles)
    sketches = release._sketches
    if isinstance(sketches, StoredSketches):
        page = page_of(report_of(sketches, count=count, profiles=told, progress=progress))
    else:
        # A page is about files and their digests: a release in memory has them once it is saved.
        with tempfile.TemporaryDirectory(prefix="dimly-report-") as folder:
            saved = release.save(Path(folder) / "release")
            page = page_of(report_of(open_folder(saved), count=count, profiles=told, progress=progress))
    write_text(path, page, overwrite=overwrite)
    return path
