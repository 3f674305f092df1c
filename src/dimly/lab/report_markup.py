"""Pieces of a report's page: tables, lists, and numbers as people write them."""

import math
import re
from collections.abc import Mapping, Sequence
from html import escape

_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def table(
    caption: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    here: Sequence[bool] = (),
    raw: bool = False,
) -> str:
    """Return a table whose first column names the rows; ``raw`` cells are HTML already."""
    shown = (lambda cell: cell) if raw else escape
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    body = ""
    for i, (first, *rest) in enumerate(rows):
        mark = ' class="here"' if i < len(here) and here[i] else ""
        cells = "".join(f"<td>{shown(cell)}</td>" for cell in rest)
        body += f'<tr{mark}><th scope="row">{shown(first)}</th>{cells}</tr>'
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(caption)}"><table>'
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
