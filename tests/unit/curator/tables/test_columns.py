# ruff: noqa: S608 - SQL of our own
import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dimly.curator.tables.columns import (
    element_type,
    is_categorical,
    kind_of,
    listing,
    literal,
    nearest,
    quoted,
    read_attribute,
    read_number,
    read_user,
)
from dimly.curator.tables.database import PrivateDatabase
from dimly.errors import ParameterError
from dimly.mechanisms.vocabulary import attribute_text

one_database = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
TIMES = {
    unit: st.integers(
        int(np.datetime64("1678-01-01" if unit == "ns" else "0001-01-01", unit).astype(np.int64)),
        int(np.datetime64("2261-12-31" if unit == "ns" else "9999-12-31", unit).astype(np.int64)),
    )
    for unit in ("s", "ms", "us", "ns")
}


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("country", " Did you mean 'Country'?"),
        ("Age", " Did you mean 'Age (years)'?"),
        ("how are you", " Did you mean 'How are you?'?"),
        ("contry", " Did you mean 'Country'?"),
        ("", ""),
        ("?", ""),
        ("weight", ""),
    ],
)
def test_the_column_that_was_meant(asked: str, meant: str) -> None:
    assert nearest(asked, ["Person", "Age (years)", "Country", "How are you?", "long " * 50]) == meant
    assert nearest(asked, []) == ""


def test_a_name_with_a_comma_is_one_name() -> None:
    assert listing(["name, first name", "age", " x"]) == "The table has: 'name, first name', age, ' x'."
    assert listing(["how are\nyou", "age"]) == r"The table has: 'how are\nyou', age."


def texts(database: PrivateDatabase, column: pa.Array) -> list[str | None]:
    """Return the canonical texts of a column, and check that none is wrong."""
    name = database.register(pa.table({"n": range(len(column)), "x": column}))
    type_ = dict(database.columns(name))["x"]
    reading = read_attribute('"x"', type_, column="x", columns="")
    value = reading.text[0] + "a" + reading.text[1]
    wrong = reading.wrong or "false"
    rows = database.fetch(
        f"SELECT {value}, wrong FROM (SELECT n, {reading.sql} AS a, {wrong} AS wrong FROM {name}) ORDER BY n"
    )
    assert not any(is_wrong for _, is_wrong in rows)
    return [text for text, _ in rows]


@one_database
@given(st.lists(TEXT, min_size=1))
def test_text(database: PrivateDatabase, values: list[str]) -> None:
    assert texts(database, pa.array(values)) == list(map(attribute_text, values))
    assert texts(database, pa.array(values).dictionary_encode()) == list(map(attribute_text, values))


@one_database
@given(st.data())
@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_integers(database: PrivateDatabase, kind: str, data: st.DataObject) -> None:
    info = np.iinfo(kind)
    values = data.draw(st.lists(st.integers(int(info.min), int(info.max)), min_size=1))
    assert texts(database, pa.array(values, kind)) == list(map(attribute_text, values))


@one_database
@given(st.lists(st.booleans(), min_size=1), st.lists(st.dates(), min_size=1))
def test_booleans_and_dates(database: PrivateDatabase, bits: list[bool], days: list[dt.date]) -> None:
    assert texts(database, pa.array(bits)) == list(map(attribute_text, bits))
    assert texts(database, pa.array(days)) == list(map(attribute_text, days))


@one_database
@given(st.data())
@pytest.mark.parametrize("unit", TIMES)
def test_times(database: PrivateDatabase, unit: Any, data: st.DataObject) -> None:
    ticks = data.draw(st.lists(TIMES[unit], min_size=1))
    times = [np.datetime64(tick, unit) for tick in ticks]
    assert texts(database, pa.array(ticks, pa.timestamp(unit))) == list(map(attribute_text, times))


@one_database
@given(st.lists(st.datetimes(min_value=dt.datetime(1, 1, 2), max_value=dt.datetime(9999, 12, 30)), min_size=1))
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
def test_times_with_a_zone(database: PrivateDatabase, zone: str, times: list[dt.datetime]) -> None:
    aware = [time.replace(tzinfo=dt.UTC) for time in times]
    assert texts(database, pa.array(aware, pa.timestamp("us", zone))) == list(map(attribute_text, aware))


def test_uuids_and_large_integers(database: PrivateDatabase) -> None:
    name = database.create_table(
        "SELECT uuid 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11' AS id, 170141183460469231731687303715884105727 AS big"
    )
    for column, text in (("id", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"), ("big", str(2**127 - 1))):
        type_ = dict(database.columns(name))[column]
        reading = read_attribute(quoted(column), type_, column=column, columns="")
        assert database.fetch(f"SELECT {reading.text[0]}{reading.sql}{reading.text[1]} FROM {name}") == [(text,)]
        user, user_type = read_user(column, type_, columns="")
        assert (database.fetch(f"SELECT {user.sql} FROM {name}"), user_type) == ([(text,)], "text")


@pytest.mark.parametrize("year", ["'0001-01-01 (BC)'", "'10000-01-01'", "'infinity'", "'-infinity'"])
@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP WITH TIME ZONE"])
def test_years_without_a_common_text(database: PrivateDatabase, kind: str, year: str) -> None:
    reading = read_attribute("x", kind, column="x", columns="")
    assert database.fetch(f"SELECT {reading.wrong} FROM (SELECT CAST({year} AS {kind}) AS x)") == [(True,)]


@pytest.mark.parametrize("kind", ["TIMESTAMP_NS", "TIMESTAMPTZ_NS"])
def test_infinite_nanoseconds(database: PrivateDatabase, kind: str) -> None:
    reading = read_attribute("x", kind, column="x", columns="")
    assert database.fetch(f"SELECT {reading.wrong} FROM (SELECT CAST('infinity' AS {kind}) AS x)") == [(True,)]


def test_nanoseconds_with_a_zone(database: PrivateDatabase) -> None:
    ticks = [0, 1_582_934_400_000_000_000, 1_582_934_400_123_456_789, -1_000]
    plain = texts(database, pa.array(ticks, pa.timestamp("ns")))
    for zone in ("UTC", "Asia/Tokyo"):
        assert texts(database, pa.array(ticks, pa.timestamp("ns", zone))) == [f"{text}+00:00" for text in plain]


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE", "DECIMAL(10,2)"])
def test_fractions_are_no_attributes(kind: str) -> None:
    with pytest.raises(
        ParameterError, match=r"got 'x' of type \w+\. Engines print floats differently: .* The table has"
    ):
        read_attribute("x", kind, column="x", columns="The table has: x.")


@pytest.mark.parametrize("kind", ["BLOB", "TIME", "INTERVAL", "STRUCT(a INTEGER)", "MAP(INTEGER, INTEGER)", "BIT"])
def test_other_types_are_no_attributes(kind: str) -> None:
    with pytest.raises(ParameterError, match="Turn it into text first"):
        read_attribute("x", kind, column="x", columns="")


def test_lists_of_attributes_have_an_option_of_their_own() -> None:
    with pytest.raises(ParameterError, match="Pass a column of lists as attributes") as refused:
        read_attribute("x", "INTEGER[]", column="x", columns="")
    assert "attributes (--attribute-list)" in refused.value.with_options


@pytest.mark.parametrize(
    "kind", ["FLOAT", "DOUBLE", "BOOLEAN", "BLOB", "DECIMAL(4,1)", "TIMESTAMP", "INTEGER[3]", "STRUCT(a INTEGER)"]
)
def test_types_that_name_nobody(kind: str) -> None:
    with pytest.raises(ParameterError, match=r"user must be a column of integers or text, got 'x' of type"):
        read_user("x", kind, columns="")


@pytest.mark.parametrize("kind", ["BLOB", "DATE", "ENUM('SECRET')", "UUID", "INTEGER[]"])
def test_types_that_are_no_numbers(kind: str) -> None:
    with pytest.raises(ParameterError, match=r"value must be a column of numbers, got 'x' of type") as caught:
        read_number("x", kind, column="x", columns="")
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    ("cell", "type_", "text"),
    [
        ("7::TINYINT", "TINYINT", 7),
        ("4294967295::UINTEGER", "UINTEGER", 4294967295),
        ("18446744073709551615::UBIGINT", "UBIGINT", "18446744073709551615"),
        ("12::DECIMAL(20,0)", "DECIMAL(20,0)", "12"),
        ("DATE '2024-02-29'", "DATE", "2024-02-29"),
        ("' 07'", "VARCHAR", " 07"),
        ("''", "VARCHAR", None),
        ("'a'::ENUM('a')", "ENUM('a')", "a"),
    ],
)
def test_users(database: PrivateDatabase, cell: str, type_: str, text: object) -> None:
    reading, user_type = read_user("x", type_, columns="")
    assert database.fetch(f"SELECT {reading.sql} FROM (SELECT {cell} AS x)") == [(text,)]
    assert user_type == ("int64" if isinstance(text, int) else "text")


JSON = {
    '"007"': "007",
    "7": "7",
    "-7": "-7",
    "12345678901234567890": "12345678901234567890",
    "123456789012345678901234567890": "123456789012345678901234567890",
    '"é \\"q\\"\\n"': 'é "q"\n',
    "true": "true",
    "1.0": None,
    "1e3": None,
    "0.5": None,
    '["x"]': None,
    '{"x": 1}': None,
}


@pytest.mark.parametrize("cell", JSON)
def test_cells_of_json(database: PrivateDatabase, cell: str) -> None:
    text = JSON[cell]
    attribute = read_attribute("x", "JSON", column="x", columns="")
    user, user_type = read_user("x", "JSON", columns="")
    found = database.fetch(
        f"SELECT {attribute.sql}, {attribute.wrong}, {user.sql}, {user.wrong} FROM (SELECT CAST(? AS JSON) AS x)",
        [cell],
    )
    assert found == [(text, text is None, text, text is None or cell == "true")]
    assert user_type == "text"


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        ("1", 1.0),
        ("0.25", 0.25),
        ("true", 1.0),
        ("false", 0.0),
        ("1e-1", 0.1),
        ('"1"', None),
        ("[1]", None),
        ("{}", None),
    ],
)
def test_numbers_of_json(database: PrivateDatabase, cell: str, number: float | None) -> None:
    reading = read_number("x", "JSON", column="x", columns="")
    found = database.fetch(f"SELECT {reading.sql}, {reading.wrong} FROM (SELECT CAST(? AS JSON) AS x)", [cell])
    assert found == [(number, number is None)]


@pytest.mark.parametrize(
    ("cell", "number", "wrong"),
    [
        ("1", 1.0, False),
        (".5", 0.5, False),
        ("TRUE", 1.0, False),
        ("False", 0.0, False),
        ("nan", None, False),
        ("x", None, True),
        (None, None, False),
    ],
)
def test_numbers_of_text(database: PrivateDatabase, cell: str | None, number: float | None, wrong: bool) -> None:
    reading = read_number("x", "VARCHAR", column="x", columns="")
    found = database.fetch(f"SELECT {reading.sql}, {reading.wrong} FROM (SELECT CAST(? AS VARCHAR) AS x)", [cell])
    assert found == [(number, wrong)]


@pytest.mark.parametrize(
    ("cell", "number"),
    [("true", 1.0), ("1::UTINYINT", 1.0), ("0.5::FLOAT", 0.5), ("'nan'::DOUBLE", None), ("0.25::DECIMAL(3,2)", 0.25)],
)
def test_numbers(database: PrivateDatabase, cell: str, number: float | None) -> None:
    type_ = database.fetch(f"SELECT typeof({cell})")[0][0]
    reading = read_number("x", type_, column="x", columns="")
    assert database.fetch(f"SELECT {reading.sql} FROM (SELECT {cell} AS x)") == [(number,)]
    assert reading.wrong is None
    assert reading.is_bit == (cell == "true")


def test_kinds() -> None:
    assert kind_of("ENUM('(', ']')") == "ENUM"
    assert kind_of("DECIMAL(4,1)") == "DECIMAL"
    assert kind_of("STRUCT(a INTEGER)[2]") == "LIST"
    assert element_type("VARCHAR[]") == "VARCHAR"
    assert element_type("VARCHAR[][3]") == "VARCHAR[]"
    assert element_type("JSON") == "JSON"
    assert element_type("VARCHAR") is None
    assert is_categorical("ENUM('a')")
    assert not is_categorical("JSON")


def test_quoting(database: PrivateDatabase) -> None:
    name, text = 'a"b', "'x"
    assert database.table(f"SELECT {literal(text)} AS {quoted(name)}").to_pydict() == {name: [text]}
