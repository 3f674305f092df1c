"""Wide tables: one column for each attribute.

A column of numbers is an attribute, named by the column; a text column is one attribute ``column=value`` for each of
its values. DuckDB's UNPIVOT drops the zeros while it scans (measured on 1,000 columns: 5 to 10 ns a cell; unnesting
lists takes 40 times longer).
"""

from dataclasses import dataclass, field

from dimly.curator.canonical import MISSING_VALUE, SEVERAL_ROWS, Check, Request, RowsView
from dimly.curator.readings import Reading, is_categorical, kind_of, literal, quoted, read_number
from dimly.errors import ParameterError

_CHECKED_AT_ONCE = 4096  # checks that share a scan


@dataclass(slots=True)
class _Columns:
    """Columns by what they hold: SQL of the cells by name. JSON cells can be either, each by its own type."""

    numbers: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)


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
    scans = [
        (request.source.name, found.checks[start : start + _CHECKED_AT_ONCE])
        for start in range(0, len(found.checks), _CHECKED_AT_ONCE)
    ]
    scans.insert(0, (request.source.name, request.user_checks()))
    has_values = not request.bits
    if not found.texts:
        names = tuple(found.numbers)
        position = _numbers_sql(request, found.numbers, "CAST(a AS INTEGER)")
        text = (f"list_extract([{', '.join(map(literal, names))}], ", " + 1)")
        return request.view(position, scans, has_values=has_values, people_in_rows=False, text=text, names=names)
    parts = [_texts_sql(request, found.texts)]
    if found.numbers:
        names_sql = f"[{', '.join(map(literal, found.numbers))}]"
        parts.append(_numbers_sql(request, found.numbers, f"list_extract({names_sql}, CAST(a AS INTEGER) + 1)"))
    known = f"(SELECT {request.user.sql} AS u FROM {request.source.name})"
    people = f"(SELECT count(*) > 1 AS repeated FROM {known} WHERE u IS NOT NULL GROUP BY u)"
    scans.append((people, [Check("repeated", SEVERAL_ROWS)]))
    return request.view(" UNION ALL ".join(parts), scans, has_values=has_values, people_in_rows=False, text=("", ""))


def _sort_in(request: Request, column: str, found: _Columns) -> None:
    """Decide what a column holds: by its type and the plan, never by what is in it."""
    type_, sql = request.source.columns[column], quoted(column)
    by_column, kind = request.plan.unit == "column", kind_of(type_)
    if kind == "JSON" and by_column:
        is_text = f"json_type({sql}) = 'VARCHAR'"
        found.texts[column] = f"CASE WHEN {is_text} THEN {sql} ->> '$' END"
        number = read_number(f"CASE WHEN NOT ({is_text}) THEN {sql} END", "JSON", column=column, columns="")
        found.numbers[column] = _cell(request, number)
        found.checks += request.number_checks(number, column, missing=f"{sql} IS NULL")
    elif is_categorical(type_) and by_column:
        found.texts[column] = f"CAST({sql} AS VARCHAR)"
        if request.nulls == "refuse":
            found.checks.append(Check(f"{sql} IS NULL", MISSING_VALUE.format(repr(column))))
    elif is_categorical(type_) and request.source.has_types:
        raise ParameterError(
            f'columns must hold numbers under a plan of unit "attribute", got {column!r} of type {kind}. Its values would '
            'be attributes of their own, and a change moves two of them: plan with unit="column", which doubles the '
            "sensitivity, or leave it out."
        )
    else:
        number = read_number(sql, type_, column=column, columns=request.listing, name="columns")
        found.numbers[column] = sql if request.bits and number.is_bit else _cell(request, number)
        found.checks += request.number_checks(number, column)


def _cell(request: Request, number: Reading) -> str:
    """Return a cell as it is kept or dropped: a boolean for bits, else the value."""
    return f"({number.sql}) > 0" if request.bits else request.in_range(number.sql)


def _numbers_sql(request: Request, cells: dict[str, str], name: str) -> str:
    # Columns are numbered for the while of the query, so that no name of theirs can clash with u, a or v.
    numbered = ", ".join(f'{sql} AS "{position}"' for position, sql in enumerate(cells.values()))
    inner = f"(SELECT {request.user.sql} AS u, {numbered} FROM {request.source.name})"
    fields, keep = (f"u, {name} AS a", "v") if request.bits else (f"u, {name} AS a, v", "v > 0")
    return f"SELECT {fields} FROM (UNPIVOT {inner} ON * EXCLUDE (u) INTO NAME a VALUE v) WHERE {keep}{_known(request)}"


def _texts_sql(request: Request, cells: dict[str, str]) -> str:
    numbered = ", ".join(
        f'{literal(column + "=")} || ({sql}) AS "{position}"' for position, (column, sql) in enumerate(cells.items())
    )
    inner = f"(SELECT {request.user.sql} AS u, {numbered} FROM {request.source.name})"
    fields = "u, t AS a" if request.bits else "u, t AS a, CAST(1 AS DOUBLE) AS v"
    return f"SELECT {fields} FROM (UNPIVOT {inner} ON * EXCLUDE (u) INTO NAME c VALUE t) WHERE true{_known(request)}"


def _known(request: Request) -> str:
    return " AND u IS NOT NULL" if request.nulls == "drop" else ""
