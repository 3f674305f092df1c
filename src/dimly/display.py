"""How results show themselves: ``Shown`` as text in a terminal, HTML in a notebook, pandas frames."""

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dimly.errors import MissingExtraError, printable

MOST_ROWS = 20
"""Of a table that is shown without being asked for: what a screen holds."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What is shown of an object: a title, sentences, and a table.

    Attributes
    ----------
    title : str
    lines : sequence of str
        Sentences that come before the table: what must be known first.
    header, rows
        The table; cells are text or numbers.
    left_out : int
        How many more rows there are.
    """

    title: str
    lines: Sequence[str] = ()
    header: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = ()
    left_out: int = 0

    def text(self) -> str:
        """Return lines for a terminal; names that a terminal would obey are escaped.

        Examples
        --------
        >>> print(Shown("Two", header=("user", "value"), rows=[("ada", 1.25), ("bob", 1234.5)]).text())
        Two
        user  value
        ada    1.25
        bob   1,234
        """
        found = [self.title, *self.lines]
        if self.rows:
            cells = [list(self.header), *([cell_text(cell) for cell in row] for row in self.rows)]
            widths = [max(len(row[i]) for row in cells) for i in range(len(self.header))]
            sides = ["rjust" if is_number else "ljust" for is_number in self._numbers]
            for row in cells:
                padded = (getattr(cell, side)(w) for cell, side, w in zip(row, sides, widths, strict=True))
                found.append("  ".join(padded).rstrip())
        if self.left_out:
            found.append(f"… and {self.left_out:,} more")
        return "\n".join(map(printable, found))

    def html(self) -> str:
        """Return the same for a notebook. Whatever comes from data is escaped: a name must not become a script.

        Examples
        --------
        >>> "<script>" in Shown("<script>", header=("<script>",), rows=[("<script>",)]).html()
        False
        """
        say = [f"<b>{_escaped(self.title)}</b>", *(f"<div>{_escaped(line)}</div>" for line in self.lines)]
        if self.rows:
            head = self._html_row("th", self.header)
            body = "".join(self._html_row("td", map(cell_text, row)) for row in self.rows)
            table = f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"
            say.append(f'<div style="overflow-x: auto">{table}</div>')
        if self.left_out:
            say.append(f"<div>… and {self.left_out:,} more</div>")
        return "<div>" + "".join(say) + "</div>"

    @property
    def _numbers(self) -> list[bool]:
        """Whether each column holds numbers, which are set to the right."""
        return [all(isinstance(cell, int | float) for cell in column) for column in zip(*self.rows, strict=True)]

    def _html_row(self, tag: str, cells: Iterable[str]) -> str:
        sides = ("right" if is_number else "left" for is_number in self._numbers)
        shown = (
            f'<{tag} style="text-align: {side}">{_escaped(cell)}</{tag}>'
            for cell, side in zip(cells, sides, strict=True)
        )
        return f"<tr>{''.join(shown)}</tr>"


def percent(share: float, digits: int = 0) -> str:
    """Return a share as per cent, as in ``"95 %"``."""
    return f"{100 * share:.{digits}f} %"


def shortest(number: float) -> str:
    """Return a number as short as can be, so that it is read as the same number again.

    Examples
    --------
    >>> shortest(2.0), shortest(1e-8), shortest(1.2345678e-8)
    ('2', '1e-08', '1.2345678e-08')
    """
    short = f"{number:g}"
    return short if float(short) == number else repr(number)


def cell_text(cell: object) -> str:
    """Return a cell of a table: a number with four digits, text as it is.

    Examples
    --------
    >>> cell_text(0.123456), cell_text(float("inf")), cell_text("a b"), cell_text(1234)
    ('0.1235', 'unknown', 'a b', '1,234')
    """
    if isinstance(cell, float):
        if not math.isfinite(cell):
            return "unknown"
        return f"{cell:,.0f}" if abs(cell) >= 1000 else f"{cell:.4g}"
    return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else str(cell)


def _escaped(text: str) -> str:
    return html.escape(printable(text))


def data_frame(columns: Mapping[str, Iterable[Any]]) -> Any:
    """Return columns as a data frame of pandas, which need not be installed.

    Raises
    ------
    MissingExtraError
        If it is not.
    """
    try:
        import pandas as pd  # noqa: PLC0415  (no dependency)
    except ImportError:
        raise MissingExtraError("to_pandas needs pandas. Run pip install pandas.") from None
    return pd.DataFrame(dict(columns))
