"""Which rows are read: a condition looks at one row at a time, and at nothing that would take others along."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.plans import plan_of
from tests.streams import Recorded

from dimly.analyst.release import open_release
from dimly.api import publish, survey
from dimly.curator.options import Options
from dimly.curator.publication import publish_table
from dimly.curator.tables.condition import Condition
from dimly.curator.tables.numbered_table import open_table
from dimly.errors import DataError, ParameterError, PrivacyWarning
from dimly.mechanisms import Plan
from dimly.privacy import Budget

LONG = {"person": [1, 1, 2, 3], "place": ["mill", "harbor", "mill", "square"], "rating": [5.0, 0.0, 3.0, None]}
PLAN = Plan.of("counting+laplace", Budget(36.0), k=64, seed=bytes(32))
COLUMNS: dict[str, Any] = {"user": "person", "attribute": "place", "roster": [1, 2, 3]}


def total(source: object, where: str | None = None, **options: Any) -> list[int]:
    """Return how many attributes each person has: at such an epsilon noise is 0."""
    release = publish(source, PLAN, where=where, **(COLUMNS | options))
    return [round(one) for one in release.norm(release.users.tolist()).value.tolist()]


@pytest.mark.parametrize(
    ("where", "left"),
    [
        (None, [2, 1, 1]),
        ("rating > 0", [1, 1, 0]),
        ("rating IS NULL OR place LIKE 'h%'", [1, 0, 1]),
        ("rating BETWEEN 1 AND 4", [0, 1, 0]),
        ("place IN ('mill', 'square') AND NOT person = 2", [1, 0, 1]),
        ("CASE WHEN person = 1 THEN rating > 1 ELSE true END", [1, 1, 1]),
        ("CAST(place AS INTEGER) > 0", [0, 0, 0]),  # what fails is not true, and nothing is said of it
        ("lower(place) || 'x' = 'millx' -- all else", [1, 1, 0]),
    ],
)
def test_rows_are_left_out_one_by_one(where: str | None, left: list[int]) -> None:
    assert total(pa.table(LONG), where) == left


def test_every_file_format_takes_one(tmp_path: Path) -> None:
    table = pa.table(LONG)
    frame = table.to_pandas()
    frame.to_csv(tmp_path / "visits.csv", index=False)
    frame.to_parquet(tmp_path / "visits.parquet")
    frame.to_json(tmp_path / "visits.jsonl", orient="records", lines=True)
    condition = "CAST(rating AS DOUBLE) > 0"
    for name in ("visits.csv", "visits.parquet", "visits.jsonl"):
        assert total(tmp_path / name, condition) == [1, 1, 0]
        assert total(tmp_path / name, "place = 'mill' OR place LIKE 'sq%'") == [1, 1, 1]
    with pytest.raises(ParameterError, match=r"Write CAST\(rating AS DOUBLE\) instead of rating"):
        total(tmp_path / "visits.csv", "rating > 0")


def test_remedies_can_be_typed_as_they_stand(tmp_path: Path) -> None:
    pa.table(LONG).to_pandas().rename(columns={"rating": "rating (0-5)"}).to_csv(tmp_path / "visits.csv", index=False)
    with pytest.raises(ParameterError, match=r'Write CAST\("rating \(0-5\)" AS DOUBLE\) instead of "rating \(0-5\)"'):
        total(tmp_path / "visits.csv", '"rating (0-5)" > 0')
    with pytest.raises(ParameterError, match="put the whole name between double quotes"):
        total(tmp_path / "visits.csv", "rating (0-5) > 0")
    assert total(tmp_path / "visits.csv", 'CAST("rating (0-5)" AS DOUBLE) > 0') == [1, 1, 0]


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("rating > (SELECT 1)", "a subquery"),
        ("EXISTS (SELECT 1)", "a subquery"),
        ("rating IN (SELECT rating FROM t)", "a subquery"),
        ("count(*) > 1", "the function 'count_star'"),
        ("sum(rating) > 1", "the function 'sum'"),
        ("replace(place, 'a', 'aaaa') = 'mill'", "use replace, which could make texts of any size. Use translate"),
        ("rating >= 3,5", "Write decimals with a point, as in 3.5"),
        (
            "place.str.contains('m')",
            r"got place.str.contains(…). Write the column between the parentheses: contains(place",
        ),
        ("row_number() OVER () < 3", "a window function"),
        ("random() < 0.5", "the function 'random'"),
        ("now() > DATE '2020-01-01'", "the function 'now'"),
        ("current_date > DATE '2020-01-01'", "must"),
        ("getenv('HOME') = 'x'", "the function 'getenv'"),
        ("content = read_text('/etc/passwd')", "the function 'read_text'"),
        ("list_transform([1], x -> x)[1] = 1", "one row at a time"),
        ("place LIKE place || '!' ESCAPE '!'", "written out"),  # fails on a row, which TRY does not catch
        ("place NOT ILIKE 'mill' ESCAPE place", "written out"),
        # These stopped the run if some row came so far: whether anybody was at a place that begins with "mi".
        ("place LIKE 'mi!' ESCAPE '!'", "written out"),
        ("CASE WHEN place = 'mill' THEN place LIKE 'm!!!' ESCAPE '!' ELSE true END", "written out"),
        ("CASE WHEN place = 'mill' THEN place LIKE 'm' ESCAPE '!!' ELSE true END", "written out"),
        ("CASE WHEN place = 'mill' THEN place ELSE 'true' END", "true or false"),
        ("place", "true or false"),
        ("like_escape(place, 'm')", "written out"),
        # DuckDB says of these that they are not implemented, and only if some row comes so far: TRY does not catch it.
        ("CASE WHEN place = 'mill' THEN dayofyear(CAST('1 day' AS INTERVAL)) > 0 ELSE true END", "dates and times"),
        ("date_diff('era', CAST(place AS DATE), DATE '2024-01-01') > 0", "unit"),
        ("date_part(place, DATE '2024-01-01') > 0", "unit"),
        ("date_diff('day', CAST(place AS TIME), CAST(place AS TIME)) > 0", "dates and times"),
        ("t.rating > 0", "got 't'"),
        ("rating = ?", "must"),
        ("*", "must"),
        ("1 = 1; DROP TABLE t", "can parse"),
        ("1 = 1) GROUP BY (person", "can parse"),
        ("1 = 1) QUALIFY (true", "can parse"),
        ("1 = 1) UNION SELECT * FROM t WHERE (true", "can parse"),
        ("1 = 1) ORDER BY (person", "can parse"),
        ("1 = 1) LIMIT (1", "can parse"),
        ("rating >", "can parse"),
        ("", "such as"),
        ("x" * 5_000, "4000 characters"),
    ],
)
def test_what_looks_at_more_than_a_row_is_refused(where: str, words: str) -> None:
    with pytest.raises(ParameterError, match=r"where must") as refused:
        total(pa.table(LONG), where)
    assert words in str(refused.value)


@pytest.mark.parametrize("places", [[], LONG["place"]], ids=["no rows", "rows"])
@pytest.mark.parametrize(
    "where", ["regexp_matches(place, '(')", "regexp_extract(place, '(') = 'm'", "'day' IN ('week', rating)"]
)
def test_a_bad_constant_is_a_fault_of_the_condition(where: str, places: list[str], tmp_path: Path) -> None:
    """Whatever the rows are, and even without any: it is not the table that cannot be read."""
    table = pa.table(LONG).slice(0, len(places))
    pq.write_table(table, tmp_path / "t.parquet")
    for source in (table, tmp_path / "t.parquet"):
        with pytest.raises(ParameterError, match=r"where must be true or false .* regular expression"):
            total(source, where)


def test_parts_of_dates_may_be_used() -> None:
    days = [dt.date(2024, 1, 1), dt.date(2024, 2, 1), dt.date(2025, 1, 1), None]
    table = pa.table({**LONG, "day": days})
    assert total(table, "year(day) = 2024 AND date_diff('days', '2024-01-01', day) < 9") == [1, 0, 0]
    assert total(table, "EXTRACT(month FROM date_trunc('quarter', day)) = 1") == [2, 1, 0]


def test_the_table_itself_cannot_be_named() -> None:
    """A column that is called as the table is inside would let a condition look at others, unseen by the checks."""
    wide = pa.table({"person": [1, 2], "mill": [1, 1], "main": ["x", "y"]})
    options = {"user": "person", "columns": ["mill"], "attribute": None, "roster": [1, 2]}
    for i in range(1, 9):
        with pytest.raises(ParameterError, match="does not fit the types"):
            total(wide.rename_columns(["person", "mill", f"dimly {i}"]), f'"Dimly {i}".mill > 0', **options)
        with pytest.raises(ParameterError, match="does not fit the types"):
            total(wide, f'main."dimly {i}".mill > 0', **options)


def test_columns_of_json_may_have_any_name(tmp_path: Path) -> None:
    names = ("whole", "dimly row", "dimly table")
    lines = [{"person": i, "place": "mill", **dict.fromkeys(names, f"x{i}")} for i in (1, 2, 3)]
    (tmp_path / "visits.jsonl").write_text("\n".join(map(json.dumps, lines)))
    for name in names:
        assert total(tmp_path / "visits.jsonl", f"\"{name}\" = 'x2'") == [0, 1, 0]
        with pytest.raises(ParameterError, match="does not fit the types"):
            total(tmp_path / "visits.jsonl", f"\"{name}\".place = 'mill'")


def test_numbers_with_decimal_commas() -> None:
    prices = pa.table(LONG | {"price": ["9,50", "0,99", "1.200,00", "2"]})
    assert total(prices, "CAST(translate(price, ',.', '.') AS DOUBLE) > 1") == [1, 1, 1]
    assert total(prices, "CAST(price AS DOUBLE) > 1") == [0, 0, 1]  # the others are no numbers, and fit nothing
    with pytest.raises(
        ParameterError, match=r"if it has decimal commas CAST\(translate\(price, ',\.', '\.'\) AS DOUBLE\)"
    ):
        total(prices, "price > 1")


def test_columns_must_be_there_and_comparable() -> None:
    with pytest.raises(ParameterError, match=r"got 'stars'. The table has"):
        total(pa.table(LONG), "stars > 0")
    with pytest.raises(ParameterError, match="does not fit the types"):
        total(pa.table(LONG), "person LIKE 'a%' AND list_contains(rating, 1)")


@pytest.mark.parametrize(
    ("options", "where"),
    [
        (Options(user="u", attributes="items"), "len(items) > 3"),
        (Options(user="u", columns=["a", "b"]), "A > 0"),
        (Options(user="u", columns="all"), "region = 'north'"),
    ],
)
def test_attributes_that_share_a_row_are_refused(options: Options, where: str) -> None:
    with pytest.raises(ParameterError, match="which is published"):
        Condition.of(where).check_columns(options)


def test_other_columns_of_such_rows_may_be_used() -> None:
    Condition.of("region = 'north' AND u > 3").check_columns(Options(user="u", columns=["a", "b"]))
    Condition.of("u > 3").check_columns(Options(user="u", columns="all"))
    wide = pa.table({"person": [1, 2], "mill": [1, 1], "harbor": [1, 0], "region": ["north", "south"]})
    options = {"user": "person", "columns": ["mill", "harbor"], "attribute": None, "roster": [1, 2]}
    assert total(wide, "region = 'north'", **options) == [2, 0]


def test_fields_of_a_column_may_be_used() -> None:
    table = pa.table({**LONG, "visit": [{"hour": 9}, {"hour": 10}, {"hour": 10}, {"hour": 9}]})
    assert total(table, "visit.hour = 9 AND place LIKE 'm!%' ESCAPE '?' IS NOT NULL") == [1, 0, 1]
    with pytest.raises(ParameterError, match="must not look at 'visit', which is published"):
        Condition.of("visit.hour = 9").check_columns(Options(user="u", attributes="visit"))


@pytest.mark.filterwarnings("ignore:No roster")
def test_no_attribute_decides_who_is_in_a_release() -> None:
    for where in ("place = 'mill'", "rating > 0", "person > 1 AND rating > 0"):
        with pytest.raises(ParameterError, match="without a roster: a row is one attribute of a person"):
            total(pa.table(LONG), where, roster=None)
    assert total(pa.table(LONG), "Person > 1", roster=None) == [1, 1]
    # A survey names nobody, but that it stops without anybody would tell whether one person has one attribute.
    asked: dict[str, Any] = {"user": "person", "attribute": "place", "vocabulary": ["mill"]}
    with pytest.raises(ParameterError, match="without a roster: a row is one attribute of a person"):
        survey(pa.table(LONG), Budget(36.0), where="person = 3 AND place = 'mill'", **asked)
    assert survey(pa.table(LONG), Budget(36.0), where="person = 3", **asked).n_users is None
    assert (
        survey(pa.table(LONG), Budget(36.0), where="place = 'mill'", roster=[3], ask=["counts"], **asked).n_users == 1
    )


@pytest.mark.parametrize(
    ("where", "roster"),
    [
        ("rating > 2 OR place LIKE 'm%'", [1, 2, 3]),
        ("CAST(place AS INTEGER) IS NULL AND rating IS NOT NULL", [1, 2, 3]),
        ("person <> 3", None),
    ],
)
def test_one_attribute_still_moves_one_row(where: str, roster: list[int] | None, tmp_path: Path) -> None:
    published = []
    for i, place in enumerate(("mill", "harbor", "7", "")):
        table = pa.table(LONG | {"place": [place, "harbor", "mill", "square"]})
        options = Options(user="person", attribute="place", where=where, roster=roster, out=tmp_path / str(i))
        publish_table(table, PLAN, options, words=lambda: Recorded(0))  # the same noise
        published.append(open_release(tmp_path / str(i)))
    for one in published[1:]:
        assert one.users.tolist() == published[0].users.tolist()
        moved = np.abs(one.values.astype(int) - published[0].values).sum(axis=1)
        assert (moved[1:] == 0).all()
        assert moved[0] <= 2  # one attribute goes, and another comes


def test_whether_it_stops_does_not_tell_an_attribute() -> None:
    """Whether one person has one attribute: by a roster of one, and by a list of one."""
    for person in (1, 3):  # who was at the mill, and who was not
        assert len(total(pa.table(LONG), "place = 'mill'", roster=[person])) == 1
        listed = Plan.of("randomized-response", Budget(36.0), vocabulary=["mill"])
        assert len(publish(pa.table(LONG), listed, where=f"person = {person}", vocabulary=["mill"], **COLUMNS)) == 3
    with pytest.raises(DataError, match="only noise would be published"):  # without a condition
        total(pa.table(LONG), roster=[4])


def test_nobody_looks_whether_it_leaves_a_row(tmp_path: Path) -> None:
    """The warning follows from the options alone; a diagnosis is the answer, and the condition is in no release."""
    options: dict[str, Any] = {"where": "place = 'nowhere'", **COLUMNS}
    with pytest.warns(PrivacyWarning, match="A condition is given, and nobody checks whether any row"):
        publish(pa.table(LONG), PLAN, out=tmp_path / "out", **options)
    assert "nowhere" not in (tmp_path / "out" / "manifest.json").read_text()
    publish(pa.table(LONG), PLAN, diagnose=tmp_path / "left", **options)
    assert json.loads((tmp_path / "left").read_text())["rows"] == 0


def test_a_matrix_has_none() -> None:
    with pytest.raises(ParameterError, match="where must be given for a table with columns only"):
        publish([[1, 0]], PLAN, where="a > 0")


@pytest.mark.parametrize("where", ["rating > 0.5", "NOT (rating = 0.25)", "rating + 1 > 1.5 OR rating < 0"])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("how", ["where", "query", "view"])
def test_one_number_decides_about_one_row(how: str, where: str, groups: int, tmp_path: Path) -> None:
    """A Parquet file's statistics leave NaN out: where DuckDB believed them, it asked nobody's row but by theirs."""
    file, kept = tmp_path / "t.parquet", []
    query = f"SELECT * FROM read_parquet('{file}') WHERE {where}"  # noqa: S608 - a test
    with duckdb.connect(tmp_path / "t.duckdb") as connection:
        pq.write_table(pa.table({"u": [1], "a": ["tea"], "rating": [0.5]}), file)
        connection.execute(f"CREATE VIEW rated AS {query}")
        connection.execute("CREATE TABLE other (u INTEGER)")
    said: dict[str, dict[str, Any]] = {"where": {"where": where}, "query": {"query": query}, "view": {"table": "rated"}}
    for number in (0.25, 0.75):
        table = pa.table({"u": [1, 2], "a": ["tea", "jam"], "rating": [number, float("nan")]})
        pq.write_table(table, file, row_group_size=2 // groups)
        options = Options(user="u", attribute="a", roster=[1, 2], **said[how])
        source = file if how == "where" else tmp_path / "t.duckdb"
        with open_table(source, plan_of("counting+laplace"), options) as opened:
            keys = np.concatenate([np.empty(0, np.int64), *(rows.keys for rows in opened.rows())])
            kept.append((keys[keys >> 32 == 1]).size)
    assert kept == [1, 1]
