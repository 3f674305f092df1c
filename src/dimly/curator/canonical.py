"""Canonical rows: who has which attribute, with which value; and the checks that come before anything is published.

What is missing (NULL, NaN, an empty user) is refused, or dropped on request. Dropping leaves out the cell, never the
person: whether somebody appears in a release must not hang on one of their attributes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from dimly.curator.column_names import listing
from dimly.curator.database import PrivateDatabase
from dimly.curator.readings import Reading, UserType
from dimly.curator.sources import Source
from dimly.errors import DataError
from dimly.mechanisms.plan import Plan

Nulls = Literal["refuse", "drop"]
Values = Literal["refuse", "clamp"]

_DROP: Final = 'or pass nulls="drop" (--nulls drop) to leave {} out.'
NO_USER: Final = f"some rows have no user. Give each one, {_DROP.format('those rows')}"
NO_ATTRIBUTE: Final = f"some rows have no attribute. Give each one, {_DROP.format('those')}"
MISSING_VALUE: Final = f"some values of column {{}} are missing. Give each row one, {_DROP.format('those')}"
ODD_USER: Final = "some users are neither text nor integers. Turn them all into text."
ODD_ATTRIBUTE: Final = (
    "some attributes are neither text, integers, booleans nor dates of the years 1 to 9999. Turn them into text."
)
SEVERAL_ROWS: Final = (
    "some people have several rows, and a text column must have one value for each person. Keep one row for each."
)


@dataclass(frozen=True, slots=True)
class Check:
    """SQL that is true where something is wrong, and what to say then."""

    wrong: str
    text: str


@dataclass(frozen=True, slots=True)
class Scan:
    """One pass over the table: SQL that gives the number of the first of ``texts`` that applies, or NULL.

    If ``doubt`` is given, it is asked first: SQL that is cheaper, and gives NULL only if none applies.
    """

    sql: str
    texts: tuple[str, ...]
    doubt: str | None = None

    @classmethod
    def of(cls, relation: str, checks: Sequence[Check]) -> "Scan":
        """Return a pass that makes checks of whole rows."""
        cases = " ".join(f"WHEN bool_or({check.wrong}) THEN {number}" for number, check in enumerate(checks))
        return cls(f"SELECT CASE {cases} END FROM {relation}", tuple(check.text for check in checks))


@dataclass(frozen=True, slots=True)
class RowsView:
    """A view of canonical rows; attributes with the value 0 are left out, repeats are not.

    Attributes
    ----------
    name : str
        Quoted name of a view with ``u``, ``a`` and, if ``has_values``, ``v`` (DOUBLE in (0, 1]).
    user_type : {"int64", "text"}
        ``u`` is BIGINT, or VARCHAR.
    has_values : bool
        False: every attribute has the value 1.
    attribute_names : tuple of str or None
        If ``a`` is an INTEGER position in this list of attributes (wide tables without text); else None.
    people_sql : str
        Query of the ``u`` of all people, each once, also of those without any attribute.
    people_in_rows : bool
        Whether everybody is sure to have a row in the view, so that ``people_sql`` need not be asked.
    """

    name: str
    user_type: UserType
    has_values: bool
    people_sql: str
    people_in_rows: bool
    attribute_names: tuple[str, ...] | None
    _text: tuple[str, str]
    _database: PrivateDatabase
    _scans: tuple[Scan, ...]

    def attribute_text_sql(self, a: str) -> str:
        """Return SQL for the canonical text of ``a``. It is one to one: use it on distinct attributes, not on rows."""
        before, after = self._text
        return before + a + after

    def check(self) -> None:
        """Scan the table for what cannot be published: missing users, attributes, values, or values out of range.

        Raises
        ------
        DataError
            Saying what is wrong, never how often or where.
        """
        found = self.problem()
        if found is not None:
            raise DataError(self.text_of(found))

    def problem(self) -> tuple[int, int] | None:
        """Return the first thing that cannot be published, by number; None if there is none.

        Of a table that is read in pieces, the least of all pieces' numbers is that of the whole.
        """
        for number, scan in enumerate(self._scans):
            if scan.doubt is not None and self._database.fetch(scan.doubt) == [(None,)]:
                continue
            ((found,),) = self._database.fetch(scan.sql)
            if found is not None:
                return number, int(found)
        return None

    def text_of(self, problem: tuple[int, int]) -> str:
        """Return what to say of a problem."""
        return self._scans[problem[0]].texts[problem[1]]

    @property
    def one_row_each(self) -> bool:
        """Whether nobody may have several rows; pieces of a table cannot tell."""
        return any(SEVERAL_ROWS in scan.texts for scan in self._scans)


@dataclass(frozen=True, slots=True)
class Request:
    """What the shapes have in common: who the people are, and what to do about cells that do not fit."""

    database: PrivateDatabase
    source: Source
    user: Reading
    user_column: str
    user_type: UserType
    bits: bool
    nulls: Nulls
    values: Values
    plan: Plan

    @property
    def listing(self) -> str:
        """The columns that exist, for errors."""
        return listing(self.source.columns)

    @property
    def people_sql(self) -> str:
        """Everybody, once."""
        return f"SELECT DISTINCT u FROM (SELECT {self.user.sql} AS u FROM {self.source.name}) WHERE u IS NOT NULL"

    def user_checks(self) -> list[Check]:
        """Return the checks of the user column."""
        checks = [Check(self.user.wrong, ODD_USER)] if self.user.wrong else []
        missing = f"({self.user.sql}) IS NULL"
        # A cell of an odd type reads as missing, and must not be dropped as if it were.
        return checks if self.nulls == "drop" else [*checks, Check(missing, NO_USER)]

    def missing_checks(self, missing: str, column: str) -> list[Check]:
        """Return the check of a column of values for where there is none, as the SQL ``missing`` says."""
        return [Check(missing, MISSING_VALUE.format(repr(column)))] if self.nulls == "refuse" else []

    def value_checks(self, number: Reading, column: str) -> list[Check]:
        """Return the checks of a column of values where there is one."""
        where = f"some values of column {column!r} are"
        checks = [Check(number.wrong, f"{where} not numbers. Correct them.")] if number.wrong else []
        if number.is_bit:
            return checks
        if self.values == "refuse":
            text = f'{where} outside [0, 1]. Scale them, or pass values="clamp" (--values clamp).'
            checks.append(Check(f"({number.sql}) < 0 OR ({number.sql}) > 1", text))
        if self.bits:
            text = f"{where} neither 0 nor 1, and the plan's resolution is 1. Plan with a larger one, or round them."
            checks.append(Check(f"({number.sql}) > 0 AND ({number.sql}) < 1", text))
        return checks

    def in_range(self, sql: str) -> str:
        """Return a value as it counts, clamped if that was asked for."""
        return f"least(greatest({sql}, 0), 1)" if self.values == "clamp" else sql

    def view(
        self,
        sql: str,
        scans: Sequence[Scan],
        *,
        has_values: bool,
        people_in_rows: bool,
        text: tuple[str, str],
        names: tuple[str, ...] | None = None,
    ) -> RowsView:
        """Return the view of canonical rows that ``sql`` selects."""
        needed = tuple(scan for scan in scans if scan.texts)
        name = self.database.create_view(sql)
        people = self.people_sql
        return RowsView(name, self.user_type, has_values, people, people_in_rows, names, text, self.database, needed)
