"""``--where``: an SQL condition, parsed and checked to look at one row at a time.

A condition is public and must be decided before the private table is looked at. It may leave rows out one by one, each
by what stands in that row: then one attribute of one person still moves one row, and no sensitivity changes. Whatever
looks at several rows (subqueries, aggregates, windows), at the clock, at files or at chance is refused. So is, where a
row holds many attributes of a person, a condition on these: one attribute could then make all of them come or go. And
so is, where a row is one attribute and there is no roster, a condition on anything but the person: one attribute could
then decide who is there at all.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import duckdb

from dimly.curator.options import Options
from dimly.curator.tables.columns import quoted
from dimly.curator.tables.database import PrivateDatabase
from dimly.curator.tables.sources import Source, WideColumns
from dimly.errors import DataError, ParameterError

_EXPRESSIONS: Final = frozenset(
    {"BETWEEN", "CASE", "CAST", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "FUNCTION", "OPERATOR", "TYPE"}
)
_OPERATORS: Final = frozenset(
    {"+", "-", "*", "/", "//", "%", "^", "**", "||", "~~", "!~~", "~~*", "!~~*", "~~~", "~", "!~"}
)
# Not replace: nested, it makes a text of gigabytes of a cell that has the right letter, and of no other. translate puts
# one letter in the place of one.
_FUNCTIONS: Final = _OPERATORS | frozenset(
    """
    like_escape not_like_escape ilike_escape not_ilike_escape
    abs ceil ceiling floor round trunc sign mod greatest least coalesce nullif isnan isfinite isinf
    lower upper lcase ucase trim ltrim rtrim translate length len strlen left right substr substring reverse concat
    contains starts_with ends_with prefix suffix position strpos instr regexp_matches regexp_full_match regexp_extract
    year month day hour minute second quarter week weekday dayofweek isodow dayofyear date_part datepart date_trunc
    datetrunc date_diff datediff make_date list_contains list_value array_contains struct_extract array_extract
    """.split()  # noqa: SIM905 - a list of so many names would not be read
)
_ESCAPES: Final = frozenset({"like_escape", "not_like_escape", "ilike_escape", "not_ilike_escape"})
_PARTS: Final = frozenset(
    "year month day hour minute second quarter week weekday dayofweek isodow dayofyear".split()  # noqa: SIM905
)
_BY_UNIT: Final = frozenset({"date_part", "datepart", "date_trunc", "datetrunc", "date_diff", "datediff"})
_UNITS: Final = frozenset(
    "year quarter month week day hour minute second millisecond microsecond decade century millennium".split()  # noqa: SIM905
)
_OTHER_UNITS: Final = frozenset({"dow", "isodow", "doy", "epoch", "isoyear", "yearweek", "centuries", "millennia"})
_MOST = 4_000  # characters
_FEW = 100  # columns that are read side by side
_NUMBERS: Final = frozenset({"INTEGER", "DECIMAL", "DOUBLE", "FLOAT", "BIGINT", "HUGEINT", "NUMERIC"})


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that looks at one row at a time. Make one with :meth:`of`.

    Attributes
    ----------
    sql : str
        As DuckDB writes it.
    columns : frozenset of str
        The columns that it looks at, as they were written.
    numbers : frozenset of str
        Those that it compares, as they are, with a number.
    dates : tuple of str
        What it takes parts of dates from, as SQL.
    """

    sql: str
    columns: frozenset[str]
    numbers: frozenset[str]
    dates: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> "Condition":
        """Return a checked condition.

        Raises
        ------
        ParameterError
            If it is not a condition, or looks at more than one row.

        Examples
        --------
        >>> sorted(Condition.of("rating > 0 AND lower(kind) LIKE 'b%'").columns)
        ['kind', 'rating']
        """
        if not isinstance(text, str):
            raise ParameterError(
                f'where must be text such as "rating > 0", got {type(text).__name__}. Write it in SQL.'
            )
        if not text.strip() or len(text) > _MOST:
            raise ParameterError(f'where must be an SQL condition of up to {_MOST} characters, such as "rating > 0".')
        return _checked(text)

    def check_columns(self, options: Options) -> None:
        """Refuse a condition on what is published together with other attributes of the same row.

        Raises
        ------
        ParameterError
        """
        listed = {options.attributes} if isinstance(options.attributes, str) else set()
        wide = options.columns
        named = {name.casefold() for name in self.columns}
        if wide == "all":
            held = sorted(name for name in self.columns if name.casefold() != (options.user or "").casefold())
        else:
            together = {one.casefold() for one in (*listed, *(wide or ()))}
            held = sorted(name for name in self.columns if name.casefold() in together & named)
        if held:
            raise ParameterError(
                f"where must not look at {held[0]!r}, which is published: a row holds all attributes of a person, and "
                "one would make all come or go. Use columns that are public and not published, or a long table."
            )

    def kept(self, database: PrivateDatabase, source: Source) -> Source:
        """Return the rows of a source for which the condition is true; where it fails or is unknown, it is not.

        Raises
        ------
        ParameterError
            If it names columns that are not there, or compares what cannot be compared.
        """
        known = {name.casefold(): kind for name, kind in source.columns.items()}
        for name in sorted(self.columns):
            if name.casefold() not in known:
                raise ParameterError(
                    f"where must name columns of the table, got {name!r}.{source.meant(name)} {source.listing} "
                    "Text goes between single quotes."
                )
        for name in sorted(self.numbers):
            if known[name.casefold()].upper() in ("VARCHAR", "JSON"):
                spelled = name if re.fullmatch(r"[A-Za-z_]\w*", name) else quoted(name)
                raise ParameterError(
                    f"where must compare numbers with numbers, but {name!r} holds text. "
                    f"Write CAST({spelled} AS DOUBLE) instead of {spelled}, and if it has decimal commas "
                    f"CAST(translate({spelled}, ',.', '.') AS DOUBLE)."
                )
        # Whatever else can be named beside the columns must not be called like one: else a.b would not be the field b
        # of the column a, which was checked, but the column b.
        table, row = (quoted(_unused(name, known)) for name in ("dimly table", "dimly row"))
        written = [name for name, kind in source.columns.items() if kind.upper() == "JSON"]
        looked_at = f"{source.name} AS {table}"
        rows = f"SELECT * FROM {looked_at} WHERE TRY({self.sql})"
        if written:  # a condition is about texts and numbers, and not about JSON's way to write them, with quotes
            plain = ", ".join(f"{quoted(name)} ->> '$' AS {quoted(name)}" for name in written)
            looked_at = f"(SELECT * REPLACE ({plain}), {table} AS {row} FROM {source.name} AS {table}) AS {table}"
            rows = f"SELECT {row}.* FROM {looked_at} WHERE TRY({self.sql})"
        try:
            name = database.create_view(rows)
            # Text would be taken for true or false row by row, and one cell that is neither would stop the run.
            (kind, *dates) = _kinds(database, (self.sql, *self.dates), looked_at)
            # A constant that is wrong, such as a pattern, fails when DuckDB plans or begins to read, whatever the rows
            # are: so both are tried without any, and the fault is the condition's.
            empty = database.create_table(f"SELECT * FROM {looked_at} LIMIT 0")
            database.fetch(f"SELECT 1 FROM {empty} AS {table} WHERE TRY({self.sql})")
            looked_into = {name.casefold() for name in self.columns}
            _plan_anew(
                [column for column in database.columns(empty) if column[0].casefold() in looked_into], table, self.sql
            )
        except (DataError, ParameterError, duckdb.Error):
            kind, dates = "", []
        if kind != "BOOLEAN":
            raise ParameterError(
                "where must be true or false for each row, but it does not fit the types of its columns, or holds a "
                "value that means nothing, such as a regular expression with a bracket too few. Use CAST(… AS DOUBLE) "
                "for numbers that are stored as text, CAST(… AS DATE) for dates such as 2024-02-29, and quotes around "
                "text."
            )
        if not all(one.startswith(("DATE", "TIMESTAMP", "VARCHAR")) for one in dates):
            raise ParameterError(
                "where must take parts such as year, week and day from dates and times of a date only, got an interval "
                "or a time of day. Compare these as they are."
            )
        return replace(source, name=name, columns=dict(database.columns(name)))


def apply_condition(database: PrivateDatabase, source: Source, options: Options) -> Source:
    """Return the rows that are to be read: all, or those for which ``where`` is true."""
    if options.where is None:
        return source
    condition = Condition.of(options.where)
    condition.check_columns(options)
    return condition.kept(database, source)


def check_condition(options: Options) -> None:
    """Refuse a condition that would choose, by what is protected, who is there at all.

    A release names them. A survey does not, but stops if nobody is left: that would tell an attribute of one person.

    Raises
    ------
    ParameterError
        If a row is one attribute, there is no roster, and the condition looks at more than the person.
    """
    if options.where is None or options.roster is not None or options.attribute is None:
        return
    user = (options.user or "").casefold()
    others = sorted(name for name in Condition.of(options.where).columns if name.casefold() != user)
    if others:
        raise ParameterError(
            f"where must not look at {others[0]!r} without a roster: a row is one attribute of a person, and one "
            "attribute would decide whether they are among the people. Give the public list of people as roster "
            "(--roster)."
        )


def columns_to_read(options: Options) -> set[str] | None:
    """Return the columns that are read, those of the condition included; None where these may be all."""
    named = options.named_columns
    return named if named is None or options.where is None else named | Condition.of(options.where).columns


@lru_cache(maxsize=16)  # a publication asks three times, and each answer takes a DuckDB of its own
def _checked(text: str) -> Condition:
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as parser:
        template = _parsed(parser, "SELECT * FROM t WHERE x")
        found = None if template is None else _parsed(parser, f"SELECT * FROM t WHERE ({text}\n)")
        if found is None or template is None:
            raise ParameterError(
                'where must be one SQL condition that DuckDB can parse, such as "rating > 0". Text goes between '
                "single quotes, names of columns with blanks between double ones."
            )
        where = found["statements"][0]["node"]["where_clause"]
        columns: set[str] = set()
        numbers: set[str] = set()
        dates: list[dict[str, Any]] = []
        for node in _nodes(where):
            _check(node, columns)
            numbers |= _compared_with_numbers(node)
            dates += _dates(node)
        # Only the expression is taken over: whatever else the text held is not in it, or was refused.
        sql, *dated = (_written(parser, template, one) for one in (where, *dates))
    return Condition(sql, frozenset(columns), frozenset(numbers), tuple(dated))


def wide_columns(options: Options) -> WideColumns | None:
    """Return the columns of a table that is wide enough to be taken apart; None of others.

    A condition on columns that are not published needs these beside each other.
    """
    columns = options.columns
    if columns == "all":
        return WideColumns(options.user_column, None)
    if columns is None or isinstance(columns, str) or options.where is not None:
        return None
    names = tuple(columns)
    is_wide = len(names) > _FEW and all(isinstance(name, str) for name in names)
    return WideColumns(options.user_column, names) if is_wide else None


def _parsed(parser: duckdb.DuckDBPyConnection, sql: str) -> dict[str, Any] | None:
    """Return the tree of one SELECT without anything but a condition; None if it is something else."""
    try:
        ((text,),) = parser.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
    except duckdb.Error:
        return None
    tree: dict[str, Any] = json.loads(text)
    if tree.get("error") or len(tree["statements"]) != 1:
        return None
    node = tree["statements"][0]["node"]
    others = ("modifiers", "group_expressions", "having", "qualify", "sample")
    if node.get("type") != "SELECT_NODE" or any(node.get(name) for name in others) or node["cte_map"]["map"]:
        return None
    return tree if node.get("where_clause") else None


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Return every expression of a tree."""
    if isinstance(tree, dict):
        if "class" in tree:
            yield tree
        for value in tree.values():
            yield from _nodes(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _nodes(value)


def _check(node: dict[str, Any], columns: set[str]) -> None:
    kind = node["class"]
    if kind not in _EXPRESSIONS:
        what = {"SUBQUERY": "a subquery", "WINDOW": "a window function", "STAR": "*"}.get(
            kind, "this kind of expression"
        )
        raise ParameterError(
            f"where must look at one row at a time, got {what}. Compare columns of the row with values."
        )
    if kind == "FUNCTION":
        name = str(node["function_name"]).lower()
        plain = not (node.get("filter") or node.get("distinct") or (node.get("order_bys") or {}).get("orders"))
        if name not in _FUNCTIONS or not plain or node.get("schema") or node.get("catalog"):
            raise ParameterError(_function_refused(name, node))
        # DuckDB's TRY does not catch what it says of a pattern that ends in the middle of an escape: that would stop a
        # run, or not, by the rows that come so far.
        arguments = [one["expression"] for one in node["arguments"]]
        if name in _ESCAPES and not _is_whole(*arguments[1:]):
            raise ParameterError(
                "where must compare by LIKE … ESCAPE with a pattern that is written out, between quotes, and one "
                "character that something follows in it, got another expression. Use contains, starts_with or "
                "ends_with to compare columns."
            )
        if name in _BY_UNIT and not _is_unit(*arguments[:1]):
            raise ParameterError(
                f"where must give {name} a unit that is written out, between quotes, such as 'month', got another. Use "
                f"one of {', '.join(sorted(_UNITS))}."
            )
    if kind == "COLUMN_REF":
        columns.add(str(node["column_names"][0]))  # what follows are fields of it


def _function_refused(name: str, node: dict[str, Any]) -> str:
    if name == "row":
        return (
            "where must compare with one value, got several with commas between them. Write decimals with a point, as "
            "in 3.5, and several values as IN (1, 2)."
        )
    if name == "replace":
        return (
            "where must not use replace, which could make texts of any size. Use translate: translate(price, ',.', "
            "'.') makes points of decimal commas."
        )
    if name in _FUNCTIONS and (before := ".".join(filter(None, (node.get("catalog"), node.get("schema"))))):
        return (
            f"where must be SQL, got {before}.{name}(…). Write the column between the parentheses: "
            f"{name}({before.split('.')[0]}, …)."
        )
    return (
        f"where must look at one row at a time, got the function {name!r}, which is not known to do so. Use "
        "comparisons, arithmetic, CAST and functions of text and dates such as lower, contains and year. If it is the "
        "beginning of a column's name, put the whole name between double quotes."
    )


def _is_whole(*given: dict[str, Any]) -> bool:
    """Return whether pattern and escape are constants of text, and no escape stands at the end."""
    text, sign, *_ = *((one.get("literal") or {}).get("text") for one in given), None, None
    if not (isinstance(text, str) and isinstance(sign, str) and len(sign) <= 1):
        return False
    return not sign or not text.replace(2 * sign, "").endswith(sign)


def _is_unit(*given: dict[str, Any]) -> bool:
    """Return whether a constant names a unit that all dates have: DuckDB stops at a row for some of the others."""
    texts = [str((one.get("literal") or {}).get("text")).lower() for one in given]
    return all(one in _OTHER_UNITS or one.removesuffix("s") in _UNITS for one in texts)


def _dates(node: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what a function takes parts of dates from. Of other types DuckDB stops at a row, which TRY lets pass."""
    name = str(node.get("function_name")).lower()
    first = 0 if name in _PARTS else 1 if name in _BY_UNIT else None
    return [] if first is None else [one["expression"] for one in node["arguments"][first:]]


def _written(parser: duckdb.DuckDBPyConnection, template: dict[str, Any], expression: dict[str, Any]) -> str:
    """Return an expression as SQL. The template is of a SELECT with a condition, which is changed."""
    template["statements"][0]["node"]["where_clause"] = expression
    ((sql,),) = parser.execute("SELECT json_deserialize_sql(?)", [json.dumps(template)]).fetchall()
    return str(sql).split(" WHERE ", 1)[1]


def _kinds(database: PrivateDatabase, expressions: tuple[str, ...], relation: str) -> list[str]:
    """Return DuckDB's types of expressions."""
    listed = ", ".join(f"{one} AS x{i}" for i, one in enumerate(expressions))
    return [kind for _, kind in database.columns(f"(SELECT {listed} FROM {relation})")]


def _plan_anew(columns: Iterable[tuple[str, str]], table: str, condition: str) -> None:
    """Let a DuckDB plan a condition that folds constants, which the private one does not where it believes no file."""
    listed = ", ".join(f"{quoted(name)} {kind}" for name, kind in columns) or "nothing INTEGER"
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as planner:
        planner.execute("SET disabled_optimizers = 'filter_pushdown'")  # after which nothing would be left to fold
        planner.execute(f"CREATE TABLE {table} ({listed})")
        planner.execute(f"EXPLAIN SELECT 1 FROM {table} WHERE TRY({condition})")


def _unused(name: str, known: Collection[str]) -> str:
    """Return a name that no column has."""
    while name.casefold() in known:
        name += " "
    return name


def _compared_with_numbers(node: dict[str, Any]) -> set[str]:
    """Return columns that stand beside a number in a comparison, as they are."""
    if node["class"] not in ("COMPARISON", "BETWEEN", "OPERATOR") or node["type"].startswith("OPERATOR_"):
        return set()
    sides = [node.get(name) for name in ("left", "right", "input", "lower", "upper")] + list(node.get("children") or ())
    present = [side for side in sides if isinstance(side, dict)]
    if not any(_is_number(side) for side in present):
        return set()
    plain = [side["column_names"] for side in present if side["class"] == "COLUMN_REF"]
    return {str(names[0]) for names in plain if len(names) == 1}


def _is_number(node: dict[str, Any]) -> bool:
    if node["class"] != "CONSTANT":
        return False
    literal = node.get("literal") or {}
    return str(literal.get("kind", "")).upper() in _NUMBERS
