"""Wide tables: one column for each attribute.

A column of numbers is an attribute, named by the column; a text column is one attribute ``column=value`` for each of
its values. DuckDB's UNPIVOT drops the zeros while it scans (measured on 1,000 columns: 5 to 10 ns a cell; unnesting
lists takes 40 times longer).
"""

from dataclasses import dataclass, field

from dimly.curator.canonical import SEVERAL_ROWS, Check, Request, RowsView, Scan
from dimly.curator.readings import Reading, is_categorical, kind_of, literal, quoted, read_number
from dimly.errors import ParameterError

_TOGETHER = 500  # columns in one pass: the time to plan a query grows with the square of its expressions


@dataclass(slots=True)
class _Columns:
    """Columns by what they hold. JSON cells can be either, each by its own type."""

    numbers: dict[str, Reading] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)


def wide_rows(request: Request, columns: list[str]) -> RowsView:
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
    scans = [Scan.of(source, request.user_checks()), *_cell_scans(request, found)]
    listed = f"[{', '.join(map(literal, names))}]"
    if not found.texts:
        sql, text = _numbers_sql(request, found.numbers, "CAST(a AS INTEGER)"), (f"list_extract({listed}, ", " + 1)")
        return request.view(sql, scans, has_values=not request.bits, people_in_rows=False, text=text, names=names)
    parts = [_texts_sql(request, found.texts)]
    if names:
        parts.append(_numbers_sql(request, found.numbers, f"list_extract({listed}, CAST(a AS INTEGER) + 1)"))
    known = f"(SELECT {request.user.sql} AS u FROM {source})"
    people = f"(SELECT count(*) > 1 AS repeated FROM {known} WHERE u IS NOT NULL GROUP BY u)"
    scans.append(Scan.of(people, [Check("repeated", SEVERAL_ROWS)]))
    return request.view(
        " UNION ALL ".join(parts), scans, has_values=not request.bits, people_in_rows=False, text=("", "")
    )


def _sort_in(request: Request, column: str, found: _Columns) -> None:
    """Decide what a column holds: by its type and the plan, never by what is in it."""
    type_, sql = request.source.columns[column], quoted(column)
    by_column, kind = request.plan.unit == "column", kind_of(type_)
    if kind == "JSON" and by_column:
        is_text = f"json_type({sql}) = 'VARCHAR'"
        found.texts[column] = f"CASE WHEN {is_text} THEN {sql} ->> '$' END"
        number = f"CASE WHEN NOT ({is_text}) THEN {sql} END"
        found.numbers[column] = read_number(number, "JSON", column=column, columns="")
    elif is_categorical(type_) and by_column:
        found.texts[column] = f"CAST({sql} AS VARCHAR)"
    elif is_categorical(type_) and request.source.has_types:
        raise ParameterError(
            f'columns must hold numbers under a plan of unit "attribute", got {column!r} of type {kind}. Its values '
            'would be attributes of their own, and a change moves two of them: plan with unit="column", which '
            "doubles the sensitivity, or leave it out."
        )
    else:
        found.numbers[column] = read_number(sql, type_, column=column, columns=request.listing, name="columns")


def _cell_scans(request: Request, found: _Columns) -> list[Scan]:
    """Return passes that check all cells, some columns at a time."""
    columns = list(dict.fromkeys([*found.numbers, *found.texts]))
    pieces = [columns[start : start + _TOGETHER] for start in range(0, len(columns), _TOGETHER)]
    return [_cell_scan(request, found, piece) for piece in pieces]


def _cell_scan(request: Request, found: _Columns, columns: list[str]) -> Scan:
    """Return one pass that checks cells: the least number of a failed check in each row, then of all rows."""
    fields: list[str] = []
    checks: list[Check] = []
    cases: list[str] = []
    for position, column in enumerate(columns):
        own: list[Check] = []
        missing: list[str] = []
        if column in found.numbers:
            number, named, wrong = found.numbers[column], f'"n{position}"', f'"w{position}"'
            fields += [f"{number.sql} AS {named}", f"{number.wrong or 'false'} AS {wrong}"]
            own += request.value_checks(Reading(named, number.wrong and wrong, is_bit=number.is_bit), column)
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
    return Scan(sql, tuple(check.text for check in checks), doubt)


def _fits(request: Request, found: _Columns, column: str) -> str:
    """Return cheap SQL that is true only of cells with nothing wrong, and of nearly all of those."""
    number, sql = found.numbers.get(column), quoted(column)
    if number is None or number.is_bit:
        fits = f"{sql} IS NOT NULL"
    elif number.plain is None:
        fits = "false"
    else:
        fits = f"{number.plain} IN (0, 1)" if request.bits else f"{number.plain} BETWEEN 0 AND 1"
        if kind_of(request.source.columns[column]) in {"FLOAT", "DOUBLE"}:
            # DuckDB decides comparisons by a Parquet file's statistics, which leave NaN out.
            fits = f"NOT isnan({sql}) AND {fits}"
    return f"{fits} OR {sql} IS NULL" if request.nulls == "drop" else fits


def _numbers_sql(request: Request, numbers: dict[str, Reading], name: str) -> str:
    cells = [_cell(request, number, quoted(column)) for column, number in numbers.items()]
    # Columns are numbered for the while of the query, so that no name of theirs can clash with u, a or v.
    numbered = ", ".join(f'{sql} AS "{position}"' for position, sql in enumerate(cells))
    inner = f"(SELECT {request.user.sql} AS u, {numbered} FROM {request.source.name})"
    fields, keep = (f"u, {name} AS a", "v") if request.bits else (f"u, {name} AS a, v", "v > 0")
    return f"SELECT {fields} FROM (UNPIVOT {inner} ON * EXCLUDE (u) INTO NAME a VALUE v) WHERE {keep}{_known(request)}"


def _cell(request: Request, number: Reading, sql: str) -> str:
    """Return a cell as it is kept or dropped: a boolean for bits, else the value."""
    if not request.bits:
        return request.in_range(number.sql)
    return sql if number.is_bit else f"({number.sql}) > 0"


def _texts_sql(request: Request, cells: dict[str, str]) -> str:
    numbered = ", ".join(
        f'{literal(column + "=")} || ({sql}) AS "{position}"' for position, (column, sql) in enumerate(cells.items())
    )
    inner = f"(SELECT {request.user.sql} AS u, {numbered} FROM {request.source.name})"
    fields = "u, t AS a" if request.bits else "u, t AS a, CAST(1 AS DOUBLE) AS v"
    return f"SELECT {fields} FROM (UNPIVOT {inner} ON * EXCLUDE (u) INTO NAME c VALUE t) WHERE true{_known(request)}"


def _known(request: Request) -> str:
    return " AND u IS NOT NULL" if request.nulls == "drop" else ""
