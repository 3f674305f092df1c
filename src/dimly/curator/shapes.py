"""Three shapes of table, long, list and wide, as one view of canonical rows."""

from collections.abc import Iterable, Sequence
from typing import Literal

from dimly.curator.canonical import NO_ATTRIBUTE, ODD_ATTRIBUTE, Check, Nulls, Request, RowsView, Scan, Values
from dimly.curator.column_names import listing
from dimly.curator.database import PrivateDatabase
from dimly.curator.readings import Reading, element_type, kind_of, quoted, read_attribute, read_number, read_user
from dimly.curator.sources import Source
from dimly.curator.wide import wide_rows
from dimly.errors import ParameterError
from dimly.mechanisms.plan import Plan

__all__ = ["Nulls", "RowsView", "Values", "rows_view"]


def rows_view(
    database: PrivateDatabase,
    source: Source,
    *,
    user: str,
    attribute: str | None = None,
    attributes: str | None = None,
    columns: Iterable[str] | Literal["all"] | None = None,
    value: str | None = None,
    plan: Plan,
    nulls: Nulls = "refuse",
    values: Values = "refuse",
) -> RowsView:
    """Return the canonical rows of a table, without reading it yet: call :meth:`RowsView.check` before all else.

    Parameters
    ----------
    database : PrivateDatabase
    source : Source
    user : str
        Column that says who a row is about.
    attribute : str, optional
        Long table: the column with the attribute, one a row.
    attributes : str, optional
        List table: the column with a list of attributes.
    columns : iterable of str or "all", optional
        Wide table: these columns, or all but the user's, are the attributes.
    value : str, optional
        Long table: the column with the attribute's value, in [0, 1]; 1 by default.
    plan : Plan
        Its resolution says whether values are bits, its unit whether columns may be text.
    nulls : {"refuse", "drop"}, default="refuse"
        What to do about missing users, attributes and values.
    values : {"refuse", "clamp"}, default="refuse"
        What to do about values outside [0, 1].

    Raises
    ------
    ParameterError
        If no shape or several are given, or a column is missing or of a type that cannot work.
    """
    for name, choice, choices in (("nulls", nulls, ("refuse", "drop")), ("values", values, ("refuse", "clamp"))):
        if choice not in choices:
            raise ParameterError(f'{name} must be "{choices[0]}" or "{choices[1]}", got {choice!r}.')
    shapes = {"attribute": attribute, "attributes": attributes, "columns": columns}
    given = [name for name, shape in shapes.items() if shape is not None]
    if len(given) != 1:
        raise ParameterError(
            "one of attribute (a row for each), attributes (a list column) and columns (a wide table) must be given, "
            f"got {' and '.join(given) or 'none'}. {listing(source.columns)}"
        )
    if value is not None and attribute is None:
        raise ParameterError(f"value must come with attribute, got it with {given[0]}. Leave it out.")
    reading, user_type = read_user(user, _type_of(source, user, "user"), columns=listing(source.columns))
    request = Request(database, source, reading, user, user_type, plan.resolution == 1, nulls, values, plan)
    if attribute is not None:
        return _long(request, attribute, value)
    if attributes is not None:
        return _listed(request, attributes)
    return wide_rows(request, _wide_columns(request, columns or ()))


def _long(request: Request, attribute: str, value: str | None) -> RowsView:
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
        checks += request.value_checks(number, value)
        checks += request.missing_checks(f"({number.sql}) IS NULL", value)
        fields.append(f"{request.in_range(number.sql)} AS v")
        keep.append("v > 0")
        selected += [] if request.bits else ["v"]
    where = f" WHERE {' AND '.join(keep)}" if keep else ""
    return request.view(
        f"SELECT {', '.join(selected)} FROM (SELECT {', '.join(fields)} FROM {source.name}){where}",
        [Scan.of(source.name, checks)],
        has_values=len(selected) == 3,
        people_in_rows=not keep,
        text=a.text,
    )


def _listed(request: Request, attributes: str) -> RowsView:
    source = request.source
    _check_distinct([("user", request.user_column), ("attributes", attributes)])
    type_ = _type_of(source, attributes, "attributes")
    inner = element_type(type_)
    if inner is None:
        raise ParameterError(
            f"attributes must be a column of lists, got {attributes!r} of type {kind_of(type_)}. "
            f"Pass it as attribute if each row holds one. {request.listing}"
        )
    elements, checks = quoted(attributes), request.user_checks()
    if kind_of(type_) == "JSON":
        is_list = f"json_type({elements}) = 'ARRAY'"
        checks.append(Check(f"{elements} IS NOT NULL AND NOT ({is_list})", ODD_ATTRIBUTE))
        elements = f"CASE WHEN {is_list} THEN CAST({elements} AS JSON[]) END"
    if request.nulls == "refuse":
        checks.append(Check(f"{quoted(attributes)} IS NULL", NO_ATTRIBUTE))
    a = read_attribute("e", inner, column=attributes, columns=request.listing)
    flat = f"(SELECT u, unnest(l) AS e FROM (SELECT {request.user.sql} AS u, {elements} AS l FROM {source.name}))"
    where = " WHERE u IS NOT NULL AND a IS NOT NULL" if request.nulls == "drop" else ""
    return request.view(
        f"SELECT u, a FROM (SELECT u, {a.sql} AS a FROM {flat}){where}",
        [Scan.of(source.name, checks), Scan.of(flat, _attribute_checks(request, a))],
        has_values=False,
        people_in_rows=False,
        text=a.text,
    )


def _attribute_checks(request: Request, a: Reading) -> list[Check]:
    checks = [Check(a.wrong, ODD_ATTRIBUTE)] if a.wrong else []
    return checks if request.nulls == "drop" else [*checks, Check(f"({a.sql}) IS NULL", NO_ATTRIBUTE)]


def _wide_columns(request: Request, columns: Iterable[str] | Literal["all"]) -> list[str]:
    if columns == "all":
        chosen = [name for name in request.source.columns if name != request.user_column]
    elif isinstance(columns, str):
        raise ParameterError(f'columns must be a list of names or "all", got {columns!r}. Write [{columns!r}].')
    else:
        chosen = list(columns)
    if not chosen:
        raise ParameterError(f"columns must name at least one column besides the user's. {request.listing}")
    for name in chosen:
        _type_of(request.source, name, "columns")
    _check_distinct([("user", request.user_column), *(("columns", name) for name in chosen)])
    return chosen


def _type_of(source: Source, column: object, role: str) -> str:
    if not isinstance(column, str) or column not in source.columns:
        raise ParameterError(f"{role} must be a column of the table, got {column!r}. {listing(source.columns)}")
    return source.columns[column]


def _check_distinct(columns: Sequence[tuple[str, str | None]]) -> None:
    roles: dict[str, str] = {}
    for role, column in columns:
        if column is not None and column in roles:
            raise ParameterError(f"{role} must be a column of its own, got {column!r}, which is also {roles[column]}.")
        if column is not None:
            roles[column] = role
