"""Who is in a release and what counts as theirs: ids, rosters, vocabularies, repeats, missing and impossible values."""

import datetime
import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.engines.engine import Engine
from tests.engines.formats import FORMATS
from tests.engines.tables import Holdings, check, holdings, long, plan_for, vocabulary

from dimly.errors import DataError, ParameterError

OPEN = plan_for("hashing+laplace", listed=False)
VALUED = plan_for("sparse+gaussian", values=True, listed=False)
LONG: dict[str, Any] = {"user": "person", "attribute": "page"}

ODD_IDS = [
    "a,b", 'say "hi"', "'single'", "line\nbreak", "carriage\rreturn", "tab\there", " spaces ", "007", "7", "7.0",
    "1e3", "NULL", "null", "NaN", "true", "日本語", "😀", "é", "e\u0301", "ß", "%s {} \\n", "back\\slash", "--",
    "#", "x" * 200, "\u200b",
]  # fmt: skip


def table_of(people: Holdings) -> pa.Table:
    return long(people)


def some(ids: list[Any]) -> dict[Any, dict[str, float]]:
    return {who: {f"page {i % 5}": 1.0, "tea": 1.0} for i, who in enumerate(ids)}


def manifest_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "manifest.json").read_bytes())
    return found


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.thorough(but=2)
def test_ids_are_kept_exactly(engine: Engine, form: str, tmp_path: Path) -> None:
    ids = [one for one in ODD_IDS if form != "CSV, latin-1" or one.isascii() or one in ("é", "ß")]
    people = some(ids)
    if form in ("CSV, commas", "CSV, semicolons", "CSV, tabs", "CSV, packed"):
        people.pop("carriage\rreturn")  # outside of quotes it ends a line
    source, more = FORMATS[form](table_of(people), tmp_path)
    check(engine.publish(source, OPEN, out=tmp_path / "out", **LONG, **more), people)


@pytest.mark.parametrize("form", [name for name in FORMATS if not name.startswith(("CSV", "JSON"))])
def test_integers_are_kept_exactly(engine: Engine, form: str, tmp_path: Path) -> None:
    people = some([0, 7, -1, -42, 2**53 + 1, 2**63 - 1, -(2**63)])
    source, more = FORMATS[form](table_of(people), tmp_path)
    release = engine.publish(source, OPEN, out=tmp_path / "out", **LONG, **more)
    assert release.users.dtype == np.int64
    check(release, people)


@pytest.mark.parametrize("form", ["CSV, commas", "JSON lines"])
def test_integers_of_untyped_formats_are_text(engine: Engine, form: str, tmp_path: Path) -> None:
    ids = [-42, 7, 2**63 - 1, 2**64 - 1, 12345678901234567890123]
    rows = pa.table({"person": [str(one) for one in ids], "page": ["tea"] * len(ids)})
    source, more = FORMATS[form](rows, tmp_path)
    if form == "JSON lines":
        source.write_text("\n".join(f'{{"person": {one}, "page": "tea"}}' for one in ids), encoding="utf-8")
    release = engine.publish(source, OPEN, out=tmp_path / "out", **LONG, **more)
    check(release, {str(one): {"tea": 1.0} for one in ids})


@pytest.mark.parametrize(
    ("column", "texts"),
    [
        (pa.array([1, 2], pa.uint64()), ["1", "2"]),
        (pa.array([2**64 - 1, 2], pa.uint64()), [str(2**64 - 1), "2"]),
        (pa.array(["ada", "bob"]).dictionary_encode(), ["ada", "bob"]),
        (pa.array(["ada", "bob"], pa.large_string()), ["ada", "bob"]),
        (pa.array([datetime.date(2024, 2, 29), datetime.date(1, 1, 1)]), ["2024-02-29", "0001-01-01"]),
    ],
)
@pytest.mark.thorough(but=1)
def test_other_ids_are_text(engine: Engine, column: pa.Array, texts: list[str], tmp_path: Path) -> None:
    rows = pa.table({"person": column, "page": ["tea", "jam"]})
    release = engine.publish(rows, OPEN, out=tmp_path / "out", **LONG)
    check(release, {texts[0]: {"tea": 1.0}, texts[1]: {"jam": 1.0}})


@pytest.mark.parametrize("given", ["list", "text file", "CSV", "Parquet", "pandas"])
def test_a_roster_says_who_is_in(engine: Engine, given: str, tmp_path: Path) -> None:
    people = holdings()
    # Some of them, in no order and one twice, and two who have nothing.
    ids = [*list(people)[::-2], "has nothing", "nor has she", "007", "007"]
    source: Any = ids
    if given == "text file":
        source = tmp_path / "roster.txt"
        source.write_text("\n".join(ids) + "\n", encoding="utf-8")
    elif given != "list":
        form = {"CSV": "CSV, commas"}.get(given, given)
        table = pa.table({"other": ["?"] * len(ids), "person": ids})
        folder = tmp_path / "roster"
        folder.mkdir()
        source, _ = FORMATS[form](table, folder)
    expected = {who: people.get(who, {}) for who in ids}
    release = engine.publish(table_of(people), OPEN, roster=source, out=tmp_path / "out", **LONG)
    check(release, expected)
    assert manifest_of(tmp_path / "out")["users"]["roster"] == "given"


@pytest.mark.parametrize(
    "mechanism", ["counting+laplace", "randomized-response", "noisy-distances", "gaussian+gaussian"]
)
def test_people_without_attributes_get_a_row(engine: Engine, mechanism: str, tmp_path: Path) -> None:
    plan = plan_for(mechanism)
    people = {"bob": {vocabulary()[1]: 1.0}}
    expected = {who: people.get(who, {}) for who in ("ada", "bob", "cy")}
    options: dict[str, Any] = {"roster": list(expected), "vocabulary": vocabulary(), **LONG}
    check(engine.publish(table_of(people), plan, out=tmp_path / "out", **options), expected, vocabulary())


@pytest.mark.parametrize("form", ["Parquet", "CSV, commas", "JSON lines", "SQLite table", "DuckDB table", "pandas"])
def test_an_empty_source_of_every_kind_stops(engine: Engine, form: str, tmp_path: Path) -> None:
    nobody = pa.table({"person": pa.array([], pa.string()), "page": pa.array([], pa.string())})
    source, more = FORMATS[form](nobody, tmp_path)
    # A file without lines names no columns.
    text = (
        "must hold JSON objects" if form == "JSON lines" else "roster must hold people who have attributes in the table"
    )
    with pytest.raises(DataError, match=text):
        engine.publish(source, OPEN, roster=["ada"], out=tmp_path / "out", **LONG, **more)


@pytest.mark.parametrize(
    ("ids", "roster"),
    [
        (pa.array([7, 42]), ["007", "7", "42"]),
        (pa.array(["7", "42"]), [7, 42, 9]),
        (pa.array(["007", "42"]), [7, 42]),
    ],
)
@pytest.mark.thorough(but=1)
def test_a_roster_of_another_type_is_compared_as_text(
    engine: Engine, ids: pa.Array, roster: list[Any], tmp_path: Path
) -> None:
    rows = pa.table({"person": ids, "page": ["tea", "jam"]})
    texts = [str(one) for one in ids.to_pylist()]
    held = {texts[0]: {"tea": 1.0}, texts[1]: {"jam": 1.0}}
    release = engine.publish(rows, OPEN, roster=roster, out=tmp_path / "out", **LONG)
    check(release, {str(who): held.get(str(who), {}) for who in roster})


def test_without_a_roster_the_manifest_says_so(engine: Engine, tmp_path: Path) -> None:
    engine.publish(table_of(holdings()), OPEN, out=tmp_path / "out", **LONG)
    assert manifest_of(tmp_path / "out")["users"] == {"type": "text", "roster": "found", "pseudonyms": False}


@pytest.mark.parametrize("given", ["list", "text file", "Parquet"])
@pytest.mark.parametrize("mechanism", ["counting+laplace", "randomized-response", "gaussian+gaussian"])
@pytest.mark.thorough(but=1)
def test_attributes_outside_of_the_vocabulary_are_left_out(
    engine: Engine, mechanism: str, given: str, tmp_path: Path
) -> None:
    people = holdings()
    source: Any = vocabulary()
    if given == "text file":
        source = tmp_path / "vocabulary.txt"
        source.write_text("\n".join(vocabulary()), encoding="utf-8")
    elif given == "Parquet":
        source, _ = FORMATS["Parquet"](pa.table({"page": vocabulary()}), tmp_path)
    release = engine.publish(table_of(people), plan_for(mechanism), vocabulary=source, out=tmp_path / "out", **LONG)
    check(release, people, vocabulary())
    assert release.vocabulary.attributes == vocabulary()
    assert "tea" not in vocabulary()


def test_a_vocabulary_closes_a_plan_that_has_none(engine: Engine, tmp_path: Path) -> None:
    people = holdings()
    release = engine.publish(table_of(people), OPEN, vocabulary=vocabulary(), out=tmp_path / "out", **LONG)
    check(release, people, vocabulary())
    assert not (tmp_path / "out" / "attributes.parquet").exists()  # the plan says that any attribute may be asked for


def test_a_numbered_vocabulary_needs_no_list(engine: Engine, tmp_path: Path) -> None:
    from tests.plans import plan_of  # noqa: PLC0415 - only here

    rows = pa.table({"person": ["ada"] * 6 + ["bob"], "page": ["7", "99", "100", "-1", "007", "tea", "0"]})
    for mechanism in ("randomized-response", "gaussian+gaussian"):
        release = engine.publish(rows, plan_of(mechanism), out=tmp_path / mechanism, **LONG)
        names = [str(i) for i in range(100)]
        check(release, {"ada": {"7": 1.0, "99": 1.0}, "bob": {"0": 1.0}}, names)


@pytest.mark.parametrize("plan", [OPEN, VALUED], ids=["bits", "values"])
def test_repeats_count_once(engine: Engine, plan: Any, tmp_path: Path) -> None:
    rows = pa.table({"person": ["ada"] * 5 + ["bob"], "page": ["tea"] * 4 + ["jam", "tea"]})
    release = engine.publish(rows, plan, out=tmp_path / "out", **LONG)
    check(release, {"ada": {"tea": 1.0, "jam": 1.0}, "bob": {"tea": 1.0}})


def test_of_several_values_the_largest_counts(engine: Engine, tmp_path: Path) -> None:
    rows = pa.table({"person": ["ada"] * 4, "page": ["tea", "tea", "jam", "tea"], "share": [0.25, 0.75, 0.0, 0.5]})
    release = engine.publish(rows, VALUED, value="share", out=tmp_path / "out", **LONG)
    check(release, {"ada": {"tea": 0.75}})


def test_a_number_and_its_text_are_one_attribute(engine: Engine, tmp_path: Path) -> None:
    lines = [{"person": "ada", "page": page} for page in (42, "42", True, "true", 2**64, str(2**64))]
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    release = engine.publish(path, OPEN, out=tmp_path / "out", **LONG)
    check(release, {"ada": {"42": 1.0, "true": 1.0, str(2**64): 1.0}})


@pytest.mark.parametrize(
    ("column", "texts"),
    [
        (pa.array([True, False]), ["true", "false"]),
        (pa.array([-(2**63), 2**63 - 1]), [str(-(2**63)), str(2**63 - 1)]),
        (pa.array([7, 42], pa.uint8()), ["7", "42"]),
        (pa.array(["a", "é"]).dictionary_encode(), ["a", "é"]),
        (pa.array([datetime.date(2024, 2, 29), datetime.date(999, 1, 1)]), ["2024-02-29", "0999-01-01"]),
        (
            pa.array([datetime.datetime(2024, 2, 29, 1, 2, 3), datetime.datetime(1969, 1, 1, 0, 0, 0, 500)]),
            ["2024-02-29T01:02:03", "1969-01-01T00:00:00.0005"],
        ),
    ],
)
@pytest.mark.thorough(but=1)
def test_attributes_of_other_types_have_one_text(
    engine: Engine, column: pa.Array, texts: list[str], tmp_path: Path
) -> None:
    rows = pa.table({"person": [1, 2], "page": column})
    release = engine.publish(rows, OPEN, out=tmp_path / "out", **LONG)
    check(release, {1: {texts[0]: 1.0}, 2: {texts[1]: 1.0}})


def test_missing_cells_are_dropped_on_request_and_people_stay(engine: Engine, tmp_path: Path) -> None:
    rows = pa.table(
        {
            "person": ["ada", "ada", "bob", None, "cy", "", "dee"],
            "page": ["tea", None, None, "tea", "jam", "jam", "tea"],
            "share": [1.0, 1.0, 1.0, 1.0, None, 1.0, float("nan")],
        }
    )
    expected: Holdings = {"ada": {"tea": 1.0}, "bob": {}, "cy": {}, "dee": {}}
    with pytest.raises(DataError, match="some rows have no user"):
        engine.publish(rows, VALUED, value="share", out=tmp_path / "out", **LONG)
    release = engine.publish(rows, VALUED, value="share", nulls="drop", out=tmp_path / "out", **LONG)
    check(release, expected)


def test_missing_cells_of_lists_and_wide_tables(engine: Engine, tmp_path: Path) -> None:
    lists = pa.table({"person": ["ada", "bob", None], "pages": [["tea", None], None, ["jam"]]})
    release = engine.publish(lists, OPEN, user="person", attributes="pages", nulls="drop", out=tmp_path / "1")
    check(release, {"ada": {"tea": 1.0}, "bob": {}})
    wide = pa.table({"person": ["ada", "bob", None], "tea": [True, None, True], "jam": [1, None, 1]})
    release = engine.publish(wide, OPEN, user="person", columns="all", nulls="drop", out=tmp_path / "2")
    check(release, {"ada": {"tea": 1.0, "jam": 1.0}, "bob": {}})


@pytest.mark.parametrize("form", ["Parquet", "CSV, commas", "JSON lines"])
def test_values_are_clamped_on_request(engine: Engine, form: str, tmp_path: Path) -> None:
    rows = pa.table({"person": ["ada", "ada", "bob", "cy"], "page": list("abab"), "share": [-3.0, 0.5, 7.0, 1.0]})
    source, more = FORMATS[form](rows, tmp_path)
    options: dict[str, Any] = {"value": "share", **LONG, **more}
    with pytest.raises(DataError, match=r"outside \[0, 1\]"):
        engine.publish(source, VALUED, out=tmp_path / "out", **options)
    release = engine.publish(source, VALUED, values="clamp", out=tmp_path / "out", **options)
    check(release, {"ada": {"b": 0.5}, "bob": {"a": 1.0}, "cy": {"b": 1.0}})


@pytest.mark.parametrize("ids", [["ada", "007", "7"], [7, 42, -1]])
def test_pseudonyms_replace_ids_and_order(engine: Engine, ids: list[Any], tmp_path: Path) -> None:
    key = bytes(range(40))
    (tmp_path / "key").write_bytes(key)
    (tmp_path / "key").chmod(0o600)
    people = some(ids)
    options: dict[str, Any] = {"pseudonyms": tmp_path / "key", **LONG}

    def named(who: object) -> str:
        return hmac.new(key, str(who).encode(), hashlib.sha256).hexdigest()[:32]

    release = engine.publish(table_of(people), OPEN, out=tmp_path / "out", **options)
    check(release, {named(who): held for who, held in people.items()})
    assert manifest_of(tmp_path / "out")["users"] == {"type": "text", "roster": "found", "pseudonyms": True}
    roster = [*ids[1:], ids[1], "x" if isinstance(ids[0], str) else 5]
    release = engine.publish(table_of(people), OPEN, roster=roster, out=tmp_path / "out 2", **options)
    check(release, {named(who): people.get(who, {}) for who in roster})


def test_categories_need_a_plan_for_columns(engine: Engine, tmp_path: Path) -> None:
    frame = pd.DataFrame({"person": [1, 2], "color": ["red", "blue"], "tea": [1, 0]})
    with pytest.raises(ParameterError, match='unit="column"'):
        engine.publish(frame, OPEN, user="person", columns="all", out=tmp_path / "out")
    plan = plan_for("hashing+laplace", categories=True, listed=False)
    release = engine.publish(frame, plan, user="person", columns="all", out=tmp_path / "out")
    check(release, {1: {"color=red": 1.0, "tea": 1.0}, 2: {"color=blue": 1.0}})


@pytest.mark.parametrize("form", ["Parquet", "CSV, commas", "JSON lines", "DuckDB table", "SQLite table", "pandas"])
@pytest.mark.parametrize(
    ("user", "attribute"), [('"; DROP TABLE x; --', "it's a"), ("u", "a"), ("a", "u"), ("select", "from"), ("é ü", "v")]
)
def test_columns_may_have_any_name(engine: Engine, form: str, user: str, attribute: str, tmp_path: Path) -> None:
    people = holdings()
    source, more = FORMATS[form](long(people, user=user, attribute=attribute), tmp_path)
    release = engine.publish(source, OPEN, user=user, attribute=attribute, out=tmp_path / "out", **more)
    check(release, people)
