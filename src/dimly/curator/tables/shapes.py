"""Long, list and wide tables as one view of rows (person, attribute, value), with checks of each row."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Protocol

from dimly.curator.options import Options
from dimly.curator.tables.columns import (
    ColumnReading,
    element_type,
    is_categorical,
    kind_of,
    literal,
    quoted,
    read_attribute,
    read_number,
    read_user,
)
from dimly.curator.tables.database import PrivateDatabase
from dimly.curator.tables.formats import FILLED, OBJECT, JsonCells
from dimly.curator.tables.sources import Source
from dimly.errors import DataError, ParameterError
from dimly.privacy import Unit
from dimly.release.format import UserType

# Canonical rows: who has which attribute, with which value; and the checks that come before anything is published.
#
# What is missing (NULL, NaN, an empty user) is refused, or dropped on request. Dropping leaves out the cell, never the
# person: whether somebody appears in a release must not hang on one of their attributes.


Nulls = Literal["refuse", "drop"]
Values = Literal["refuse", "clamp"]

_DROP: Final = 'or pass nulls="drop" (--nulls drop) to leave {} out.'
NO_USER: Final = f"some rows have no user. Give each one, {_DROP.format('those rows')}"
NO_ATTRIBUTE: Final = f"some rows have no attribute. Give each one, {_DROP.format('those')}"
MISSING_VALUE: Final = f"some values of {{}} are missing. Give each row one, {_DROP.format('those')}"
ODD_USER: Final = "some users are neither text nor integers. Turn them all into text."
ODD_ATTRIBUTE: Final = (
    "some attributes are neither text, integers, booleans nor dates of the years 1 to 9999. Turn them into text."
)
SEVERAL_ROWS: Final = (
    "some people have several rows, and a text column must have one value for each person. Keep one row for each."
)


class Grain(Protocol):
    """How finely a table is read: as a plan says, or a survey."""

    @property
    def unit(self) -> Unit:
        """What is protected; columns may be text only where it is the column."""

    @property
    def resolution(self) -> int:
        """Steps of a value in [0, 1]; 1 for bits."""


@dataclass(frozen=True, slots=True)
class RowCheck:
    """SQL that is true where something is wrong, and what to say then."""

    wrong: str
    text: str


@dataclass(frozen=True, slots=True)
class RowScan:
    """One pass over the table: SQL that gives the number of the first of ``texts`` that applies, or NULL.

    If ``doubt`` is given, it is asked first: SQL that is cheaper, and gives NULL only if none applies.
    """

    sql: str
    texts: tuple[str, ...]
    doubt: str | None = None

    @classmethod
    def of(cls, relation: str, checks: Sequence[RowCheck]) -> "RowScan":
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
    people_sql : str
        Query of the ``u`` of all people, each once, also of those without any attribute.
    each_row_sql : str
        Query of the ``u`` of every row of the table itself.
    people_in_rows : bool
        Whether everybody is sure to have a row in the view, so that ``people_sql`` need not be asked.
    shows_missing : bool
        Whether nothing can be wrong but missing users and attributes, which are NULL in the view: whoever reads all of
        it need not :meth:`check` before, but must if there are any.
    """

    name: str
    user_type: UserType
    has_values: bool
    people_sql: str
    each_row_sql: str
    people_in_rows: bool
    shows_missing: bool
    _text: tuple[str, str]
    _database: PrivateDatabase
    _scans: tuple[RowScan, ...]

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
class TableRequest:
    """What the shapes have in common: who the people are, and what to do about cells that do not fit."""

    database: PrivateDatabase
    source: Source
    user: ColumnReading
    user_column: str
    user_type: UserType
    bits: bool
    nulls: Nulls
    values: Values
    plan: Grain
    unnamed: bool = False
    """Whether texts must not name the columns of values: nobody but the data did."""

    @property
    def listing(self) -> str:
        """The columns that exist, for errors."""
        return self.source.listing

    @property
    def each_row_sql(self) -> str:
        """Whom each row is about."""
        return f"SELECT u FROM (SELECT {self.user.sql} AS u FROM {self.source.name}) WHERE u IS NOT NULL"

    @property
    def people_sql(self) -> str:
        """Everybody, once."""
        return f"SELECT DISTINCT u FROM ({self.each_row_sql})"

    def user_checks(self) -> list[RowCheck]:
        """Return the checks of the user column."""
        checks = [RowCheck(self.user.wrong, ODD_USER)] if self.user.wrong else []
        missing = f"({self.user.sql}) IS NULL"
        # A cell of an odd type reads as missing, and must not be dropped as if it were.
        return checks if self.nulls == "drop" else [*checks, RowCheck(missing, NO_USER)]

    def missing_checks(self, missing: str, column: str) -> list[RowCheck]:
        """Return the check of a column of values for where there is none, as the SQL ``missing`` says."""
        return [RowCheck(missing, MISSING_VALUE.format(self._named(column)))] if self.nulls == "refuse" else []

    def value_checks(self, number: ColumnReading, column: str, *, is_long: bool) -> list[RowCheck]:
        """Return the checks of a column of values where there is one: beside attributes, or of a wide table."""
        where = f"some values of {self._named(column)} are"
        instead = "leave value (--value) out to count each row as 1"
        if not is_long:
            instead = 'give the plan, or a survey, unit="column" (--unit column) if it is a column of text'
        wrong = f"{where} not numbers such as 0.5, with a point. Correct them, or {instead}."
        checks = [RowCheck(number.wrong, wrong)] if number.wrong else []
        if number.is_bit:
            return checks
        if self.values == "refuse":
            leave = "leave value (--value) out to count each row as 1" if is_long else "leave the column out"
            text = (
                f"{where} outside [0, 1]. Divide them by the largest possible value, {leave}, "
                'or pass values="clamp" (--values clamp) to cut them off.'
            )
            checks.append(RowCheck(f"({number.sql}) < 0 OR ({number.sql}) > 1", text))
        if self.bits:
            text = (
                f"{where} neither 0 nor 1, and the plan's resolution is 1. Make the plan with a larger resolution "
                "(--resolution), or round them."
            )
            checks.append(RowCheck(f"({number.sql}) > 0 AND ({number.sql}) < 1", text))
        return checks

    def _named(self, column: str) -> str:
        return "a column" if self.unnamed else f"column {column!r}"

    def in_range(self, sql: str) -> str:
        """Return a value as it counts, clamped if that was asked for."""
        return f"least(greatest({sql}, 0), 1)" if self.values == "clamp" else sql

    def view(
        self,
        sql: str,
        scans: Sequence[RowScan],
        *,
        has_values: bool,
        people_in_rows: bool,
        shows_missing: bool = False,
        text: tuple[str, str],
    ) -> RowsView:
        """Return the view of canonical rows that ``sql`` selects."""
        return RowsView(
            name=self.database.create_view(sql),
            user_type=self.user_type,
            has_values=has_values,
            people_sql=self.people_sql,
            each_row_sql=self.each_row_sql,
            people_in_rows=people_in_rows,
            shows_missing=shows_missing,
            _text=text,
            _database=self.database,
            _scans=tuple(scan for scan in scans if scan.texts),
        )


_TOGETHER = 500  # columns in one pass: the time to plan a query grows with the square of its expressions


@dataclass(slots=True)
class _Columns:
    """Columns by what they hold. JSON cells can be either, each by its own type."""

    numbers: dict[str, ColumnReading] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)


def wide_rows(request: TableRequest, columns: list[str]) -> RowsView:
    """Return the canonical rows of a wide table.

    Raises
    ------
    ParameterError
        If a column is neither numbers nor text, or text where the plan's unit is not the column.
    """
    found = _Columns()
    for column in columns:
        _sort_in(request, column, found)
    source, names = request.source.name, tuple(found.numbers)
    scans = [RowScan.of(source, request.user_checks()), *_cell_scans(request, found)]
    listed = f"[{', '.join(map(literal, names))}]"
    if not found.texts:
        sql, text = _numbers_sql(request, found.numbers, "a"), (f"list_extract({listed}, ", " + 1)")
        return request.view(sql, scans, has_values=not request.bits, people_in_rows=False, text=text)
    parts = [_texts_sql(request, found.texts)]
    if names:
        parts.append(_numbers_sql(request, found.numbers, f"list_extract({listed}, a + 1)"))
    scans.append(_one_row_each(request))
    return request.view(
        " UNION ALL ".join(parts), scans, has_values=not request.bits, people_in_rows=False, text=("", "")
    )


def _taken_apart(request: TableRequest, columns: Iterable[str] | Literal["all"], cells: JsonCells) -> RowsView:
    """Return the canonical rows of JSON objects whose cells are rows already."""
    if columns != "all":
        _wide_columns(request, columns)
    elif not cells.n_names:
        raise _no_columns(request)
    name = request.source.name
    by_column = request.plan.unit == "column"
    is_text = "json_type(cell) = 'VARCHAR'" if by_column else "false"
    number = read_number(f"CASE WHEN NOT ({is_text}) THEN cell END", "JSON", column="", columns="")
    held = f"{cells.name} SEMI JOIN {name} ON object = {OBJECT}"  # where a condition leaves objects out
    read = f"(SELECT {number.sql} AS v, {number.wrong} AS wrong, {is_text} AS is_text FROM {held})"
    checks = request.value_checks(ColumnReading("v", "wrong"), "", is_long=False)
    filled = request.missing_checks(f"{FILLED} < {cells.n_names}", "")
    scans = [RowScan.of(name, request.user_checks()), RowScan.of(name, filled)]
    scans.append(RowScan.of(read, [*checks, *request.missing_checks("v IS NULL AND NOT is_text", "")]))
    value = request.in_range(number.sql)
    fields = "u, a" if request.bits else "u, a, v"
    a = f"CASE WHEN {is_text} THEN name || '=' || (cell ->> '$') ELSE name END"
    v = f"CASE WHEN {is_text} THEN 1 ELSE {value} END"
    people = f"(SELECT {request.user.sql} AS u, {OBJECT} AS object FROM {name})"
    rows = f"(SELECT object, {a} AS a, {v} AS v FROM {cells.name})"
    if by_column:
        scans.append(_one_row_each(request))
    return request.view(
        f"SELECT {fields} FROM {people} JOIN {rows} USING (object) WHERE v > 0{_known(request)}",
        scans,
        has_values=not request.bits,
        people_in_rows=False,
        text=("", ""),
    )


def _one_row_each(request: TableRequest) -> RowScan:
    known = f"(SELECT {request.user.sql} AS u FROM {request.source.name})"
    people = f"(SELECT count(*) > 1 AS repeated FROM {known} WHERE u IS NOT NULL GROUP BY u)"
    return RowScan.of(people, [RowCheck("repeated", SEVERAL_ROWS)])


def _sort_in(request: TableRequest, column: str, found: _Columns) -> None:
    """Decide what a column holds: by its type and the plan, never by what is in it."""
    type_, sql = request.source.columns[column], quoted(column)
    by_column, kind = request.plan.unit == "column", kind_of(type_)
    if kind == "JSON" and by_column:
        is_text = f"json_type({sql}) = 'VARCHAR'"
        found.texts[column] = f"CASE WHEN {is_text} THEN {sql} ->> '$' END"
        found.numbers[column] = _number_in(request, column, sql)
    elif is_categorical(type_) and by_column:
        found.texts[column] = f"CAST({sql} AS VARCHAR)"
    elif is_categorical(type_) and request.source.has_types:
        raise ParameterError(
            f'columns must hold numbers under a plan of unit "attribute", got {column!r} of type {kind}. Its values '
            'would be attributes of their own, and a change moves two of them: plan with unit="column", which '
            "doubles the sensitivity, or leave it out."
        )
    else:
        found.numbers[column] = _number_in(request, column, sql)


def _number_in(request: TableRequest, column: str, sql: str) -> ColumnReading:
    """Return how a cell of a column is read as a number, wherever the cell stands."""
    type_ = request.source.columns[column]
    if kind_of(type_) == "JSON" and request.plan.unit == "column":
        sql = f"CASE WHEN NOT (json_type({sql}) = 'VARCHAR') THEN {sql} END"
    return read_number(sql, type_, column=column, columns=request.listing, name="columns")


def _cell_scans(request: TableRequest, found: _Columns) -> list[RowScan]:
    """Return passes that check all cells, some columns at a time."""
    columns = list(dict.fromkeys([*found.numbers, *found.texts]))
    pieces = [columns[start : start + _TOGETHER] for start in range(0, len(columns), _TOGETHER)]
    return [_cell_scan(request, found, piece) for piece in pieces]


def _cell_scan(request: TableRequest, found: _Columns, columns: list[str]) -> RowScan:
    """Return one pass that checks cells: the least number of a failed check in each row, then of all rows."""
    fields: list[str] = []
    checks: list[RowCheck] = []
    cases: list[str] = []
    for position, column in enumerate(columns):
        own: list[RowCheck] = []
        missing: list[str] = []
        if column in found.numbers:
            number, named, wrong = found.numbers[column], f'"n{position}"', f'"w{position}"'
            fields += [f"{number.sql} AS {named}", f"{number.wrong or 'false'} AS {wrong}"]
            own += request.value_checks(
                ColumnReading(named, number.wrong and wrong, is_bit=number.is_bit), column, is_long=False
            )
            missing.append(f"{named} IS NULL")
        if column in found.texts:
            fields.append(f'{found.texts[column]} AS "t{position}"')
            missing.append(f'"t{position}" IS NULL')
        own += request.missing_checks(" AND ".join(missing), column)
        if own:
            whens = " ".join(f"WHEN {check.wrong} THEN {place}" for place, check in enumerate(own, len(checks)))
            cases.append(f"CASE {whens} END")
            checks += own
    source = request.source.name
    # Cells are read in an inner query: once, and not once for each check.
    sql = f"SELECT min(least({', '.join(cases)})) FROM (SELECT {', '.join(fields)} FROM {source})"
    fitting = [f"CASE WHEN {_fits(request, found, column)} THEN NULL ELSE 0 END" for column in columns]
    doubt = f"SELECT min(least({', '.join(fitting)})) FROM {source}"
    return RowScan(sql, tuple(check.text for check in checks), doubt)


def _fits(request: TableRequest, found: _Columns, column: str) -> str:
    """Return cheap SQL that is true only of cells with nothing wrong, and of nearly all of those."""
    number, sql = found.numbers.get(column), quoted(column)
    if number is None or number.is_bit:
        fits = f"{sql} IS NOT NULL"
    elif number.plain is None:
        fits = "false"
    else:
        fits = f"{number.plain} IN (0, 1)" if request.bits else f"{number.plain} BETWEEN 0 AND 1"
        if kind_of(request.source.columns[column]) in {"FLOAT", "DOUBLE"}:
            fits = f"isfinite({sql}) AND {fits}"  # in DuckDB's order NaN is the largest number
    return f"{fits} OR {sql} IS NULL" if request.nulls == "drop" else fits


def _numbers_sql(request: TableRequest, columns: Iterable[str], name: str) -> str:
    """Return SQL of all cells of columns, one below the other; those of one type are read by one expression.

    The time to plan a query grows with the square of its expressions, and there may be thousands of columns. They go by
    their numbers, so that no name of theirs can clash with u, a or v.
    """
    alike: dict[tuple[str, str], dict[int, str]] = {}
    for position, column in enumerate(columns):
        cell = _cell(request, _number_in(request, column, "v"))
        alike.setdefault((request.source.columns[column], cell), {})[position] = quoted(column)
    parts = []
    for (_, cell), places in alike.items():
        numbered = ", ".join(f'{column} AS "{position}"' for position, column in places.items())
        inner = f"(SELECT {request.user.sql} AS u, {numbered} FROM {request.source.name})"
        # Lists of all columns that are unnested would do the same, but DuckDB takes ten times as long for many rows.
        below = f"(UNPIVOT {inner} ON * EXCLUDE (u) INTO NAME n VALUE v)"
        cells = f"(SELECT u, CAST(n AS INTEGER) AS a, v FROM {below})"
        fields, keep = f"u, {name} AS a", cell
        if not request.bits:
            fields, keep, cells = f"{fields}, v", "v > 0", f"(SELECT u, a, {cell} AS v FROM {cells})"
        parts.append(f"SELECT {fields} FROM {cells} WHERE {keep}{_known(request)}")
    return " UNION ALL ".join(parts)


def _cell(request: TableRequest, number: ColumnReading) -> str:
    """Return a cell as it is kept or dropped: a boolean for bits, else the value."""
    if not request.bits:
        return request.in_range(number.sql)
    return "v" if number.is_bit else f"({number.sql}) > 0"


def _texts_sql(request: TableRequest, cells: dict[str, str]) -> str:
    numbered = ", ".join(
        f'{literal(column + "=")} || ({sql}) AS "{position}"' for position, (column, sql) in enumerate(cells.items())
    )
    inner = f"(SELECT {request.user.sql} AS u, {numbered} FROM {request.source.name})"
    fields = "u, t AS a" if request.bits else "u, t AS a, CAST(1 AS DOUBLE) AS v"
    return f"SELECT {fields} FROM (UNPIVOT {inner} ON * EXCLUDE (u) INTO NAME c VALUE t) WHERE true{_known(request)}"


def _known(request: TableRequest) -> str:
    return " AND u IS NOT NULL" if request.nulls == "drop" else ""


def rows_view(database: PrivateDatabase, source: Source, plan: Grain, options: Options) -> RowsView:
    """Return the canonical rows of a table, without reading it yet.

    Call :meth:`RowsView.check` before all else, unless the view ``shows_missing``.

    Parameters
    ----------
    database : PrivateDatabase
    source : Source
    plan : Plan or SurveyPlan
        Its resolution says whether values are bits, its unit whether columns may be text.
    options : Options
        Columns, and what to do about cells that do not fit.

    Raises
    ------
    ParameterError
        If no shape or several are given, or a column is missing or of a type that cannot work.
    """
    user, attribute, attributes, columns = options.user_column, options.attribute, options.attributes, options.columns
    nulls, values = options.nulls, options.values
    for name, choice, choices in (("nulls", nulls, ("refuse", "drop")), ("values", values, ("refuse", "clamp"))):
        if choice not in choices:
            raise ParameterError(f'{name} must be "{choices[0]}" or "{choices[1]}", got {choice!r}.')
    shapes = {"attribute": attribute, "attributes": attributes, "columns": columns}
    given = [name for name, shape in shapes.items() if shape is not None]
    if len(given) != 1:
        raise ParameterError(
            "one of attribute (--attribute: a row for each), attributes (--attribute-list: a list column) and columns "
            "(--columns, --all-columns: a wide table) must be given, "
            f"got {' and '.join(given) or 'none'}. {source.listing}"
        )
    if options.value is not None and attribute is None:
        raise ParameterError(f"value must come with attribute, got it with {given[0]}. Leave it out.")
    reading, user_type = read_user(user, _type_of(source, user, "user"), columns=source.listing)
    unnamed = source.has_private_names and columns == "all"
    request = TableRequest(
        database, source, reading, user, user_type, plan.resolution == 1, nulls, values, plan, unnamed
    )
    if attribute is not None:
        return _long(request, attribute, options.value)
    if attributes is not None:
        return _listed(request, attributes)
    if source.cells is not None:
        return _taken_apart(replace(request, unnamed=True), columns or (), source.cells)
    return wide_rows(request, _wide_columns(request, columns or ()))


def _long(request: TableRequest, attribute: str, value: str | None) -> RowsView:
    source = request.source
    _check_distinct([("user", request.user_column), ("attribute", attribute), ("value", value)])
    type_ = _type_of(source, attribute, "attribute")
    a = read_attribute(quoted(attribute), type_, column=attribute, columns=request.listing)
    checks = [*request.user_checks(), *_attribute_checks(request, a)]
    keep = []
    if request.nulls == "drop":
        keep = ["u IS NOT NULL", "a IS NOT NULL"]
    fields, selected = [f"{request.user.sql} AS u", f"{a.sql} AS a"], ["u", "a"]
    if value is not None:
        number = read_number(
            quoted(value), _type_of(source, value, "value"), column=value, columns=request.listing, name="value"
        )
        checks += request.value_checks(number, value, is_long=True)
        checks += request.missing_checks(f"({number.sql}) IS NULL", value)
        fields.append(f"{request.in_range(number.sql)} AS v")
        keep.append("v > 0")
        selected += [] if request.bits else ["v"]
    where = f" WHERE {' AND '.join(keep)}" if keep else ""
    return request.view(
        f"SELECT {', '.join(selected)} FROM (SELECT {', '.join(fields)} FROM {source.name}){where}",
        [RowScan.of(source.name, checks)],
        has_values=len(selected) == 3,
        people_in_rows=not keep,
        shows_missing=not keep and request.user.wrong is None and a.wrong is None,
        text=a.text,
    )


def _listed(request: TableRequest, attributes: Any) -> RowsView:
    source = request.source
    _check_distinct([("user", request.user_column), ("attributes", attributes)])
    type_ = _type_of(source, attributes, "attributes")
    inner = element_type(type_)
    if inner is None:
        raise ParameterError(
            f"attributes (--attribute-list) must be a column of lists, got {attributes!r} of type {kind_of(type_)}. "
            f"Pass it as attribute (--attribute) if each row holds one. {request.listing}"
        )
    elements, checks = quoted(attributes), request.user_checks()
    if kind_of(type_) == "JSON":
        is_list = f"json_type({elements}) = 'ARRAY'"
        checks.append(RowCheck(f"{elements} IS NOT NULL AND NOT ({is_list})", ODD_ATTRIBUTE))
        elements = f"CASE WHEN {is_list} THEN CAST({elements} AS JSON[]) END"
    if request.nulls == "refuse":
        checks.append(RowCheck(f"{quoted(attributes)} IS NULL", NO_ATTRIBUTE))
    a = read_attribute("e", inner, column=attributes, columns=request.listing)
    flat = f"(SELECT u, unnest(l) AS e FROM (SELECT {request.user.sql} AS u, {elements} AS l FROM {source.name}))"
    where = " WHERE u IS NOT NULL AND a IS NOT NULL" if request.nulls == "drop" else ""
    return request.view(
        f"SELECT u, a FROM (SELECT u, {a.sql} AS a FROM {flat}){where}",
        [RowScan.of(source.name, checks), RowScan.of(flat, _attribute_checks(request, a))],
        has_values=False,
        people_in_rows=False,
        text=a.text,
    )


def _attribute_checks(request: TableRequest, a: ColumnReading) -> list[RowCheck]:
    checks = [RowCheck(a.wrong, ODD_ATTRIBUTE)] if a.wrong else []
    return checks if request.nulls == "drop" else [*checks, RowCheck(f"({a.sql}) IS NULL", NO_ATTRIBUTE)]


def _wide_columns(request: TableRequest, columns: Iterable[str] | Literal["all"]) -> list[str]:
    if columns == "all":
        chosen = [name for name in request.source.columns if name != request.user_column]
    elif isinstance(columns, str):
        raise ParameterError(
            f'columns must be a list of names or "all", got {columns!r}. Write {columns.split(",")!r}.'
        )
    else:
        chosen = list(columns)
    if not chosen:
        raise _no_columns(request)
    if chosen == ["all"] and "all" not in request.source.columns:
        raise ParameterError('columns must be names, got ["all"]. For all of them write columns="all" (--all-columns).')
    for name in chosen:
        _type_of(request.source, name, "columns")
    _check_distinct([("user", request.user_column), *(("columns", name) for name in chosen)])
    return chosen


def _no_columns(request: TableRequest) -> ParameterError:
    return ParameterError(f"columns must name at least one column besides the user's. {request.listing}")


def _type_of(source: Source, column: object, role: str) -> str:
    if not isinstance(column, str) or column not in source.columns:
        got = repr(column) if isinstance(column, str | int) else type(column).__name__
        meant = source.meant(column) if isinstance(column, str) else ""
        if role == "columns" and isinstance(column, str) and set(column.split(";")) <= set(source.columns):
            meant = " Separate the names with commas."
        raise ParameterError(f"{role} must be a column of the table, got {got}.{meant} {source.listing}")
    return source.columns[column]


def _check_distinct(columns: Sequence[tuple[str, str | None]]) -> None:
    roles: dict[str, str] = {}
    for role, column in columns:
        if column is not None and column in roles:
            if roles[column] == role:
                raise ParameterError(f"{role} must name each column once, got {column!r} twice. Leave one of them out.")
            other = f"{roles[column]} (--{roles[column]})"
            raise ParameterError(
                f"{role} must be a column of its own, got {column!r}, which is also {other}. "
                f"{'Leave it out' if role == 'columns' else 'Name another'}."
            )
        if column is not None:
            roles[column] = role
