# ruff: noqa: S608 - names that the database made itself
import json
import random
from pathlib import Path

import pytest

from dimly.curator.tables import formats
from dimly.curator.tables.database import MIN_MEMORY, PrivateDatabase
from dimly.curator.tables.formats import json_names
from dimly.curator.tables.input_files import Stamp
from dimly.curator.tables.sources import open_source
from dimly.errors import DataError


def write(folder: Path, text: str, name: str = "t.jsonl") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_every_name_of_every_line_is_a_column(database: PrivateDatabase, tmp_path: Path) -> None:
    lines = ['{"b": 1}'] * 30_000 + ['{"a": "x", "é \\" y": null}']
    source = open_source(database, write(tmp_path, "\n".join(lines)))
    assert source.columns == {"a": "JSON", "b": "JSON", 'é " y': "JSON"}
    assert database.fetch(f"SELECT count(*), count(a), count(b) FROM {source.name}") == [(30_001, 1, 30_000)]


@pytest.mark.parametrize(
    "text", ['[{"a": 1}, {"a": 2}]', '\ufeff{"a": 1}\n{"a": 2}', '{"a": 1}\n\n{"a": 2}\n', '{"a":\n1}{"a": 2}']
)
def test_lists_and_broken_lines_of_objects(database: PrivateDatabase, tmp_path: Path, text: str) -> None:
    source = open_source(database, write(tmp_path, text, "t.json"))
    assert sorted(database.fetch(f"SELECT a FROM {source.name}")) == [("1",), ("2",)]


def test_lines_with_other_names_each_need_not_fit_in_memory(tmp_path: Path) -> None:
    draws = random.Random(1)  # noqa: S311 - of names
    lines = (json.dumps(dict.fromkeys(draws.sample(range(1000), 20), 1)) for _ in range(80_000))
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    with PrivateDatabase(memory=MIN_MEMORY, threads=1) as database:
        assert len(json_names(database, [Stamp.of(tmp_path / "t.jsonl")])) == 1000


def test_null_is_missing(database: PrivateDatabase, tmp_path: Path) -> None:
    source = open_source(database, write(tmp_path, '{"a": null}\n{}\n{"a": "null"}'))
    assert sorted(database.fetch(f"SELECT a FROM {source.name}"), key=repr) == [('"null"',), (None,), (None,)]


@pytest.mark.parametrize("space", ["", "\n", " " * 5000])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_list_that_is_cut_off(database: PrivateDatabase, tmp_path: Path, space: str, mark: str) -> None:
    """DuckDB takes what ends after a comma for a whole list."""
    whole = mark + space + '[{"a": 1},' + space + '{"a": [2]}]' + space
    for text in (whole[: whole.index(",") + 1], whole[: whole.index(",") + 1] + space, mark + space + "["):
        with pytest.raises(DataError, match="whole list of JSON objects, and its end is missing"):
            open_source(database, write(tmp_path, text, "t.json"))
    if mark:  # which DuckDB takes before lines, but not before a list
        return
    source = open_source(database, write(tmp_path, whole, "t.json"))
    assert database.fetch(f"SELECT count(*) FROM {source.name}") == [(2,)]


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}\n{"a": SECRET}\n',
        '{"a": 1}\n{"a": "SECRET',
        '{"a": 1}\n["SECRET"]\n',
        '"SECRET"\n',
        '{"a": 1}\n"SECRET"\n5\n',
        '{"a": "SECRET", "a": 2}\n',
        "{}\n",
        "",
    ],
)
def test_what_is_no_object_a_line(database: PrivateDatabase, tmp_path: Path, text: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(DataError, match=r"t\.jsonl must ") as caught:
        database.fetch(f"SELECT a FROM {open_source(database, path).name}")
    assert "SECRET" not in str(caught.value)
    assert caught.value.__context__ is None


def test_one_long_object_leaves_the_pieces_of_others_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "_PIECE", 1000)
    path = tmp_path / "t.jsonl"
    objects = [{"person": n} for n in range(500)]
    objects[200] |= {f"name {n}": 1 for n in range(1000)}
    path.write_text("\n".join(map(json.dumps, objects)))
    with PrivateDatabase(memory=1 << 28, threads=1) as database:
        sizes = [
            database.fetch(f"SELECT count(*) FROM {apart}")[0][0]
            for apart, _ in formats._taken_apart(database, [Stamp.of(path)])
        ]
    assert sum(sizes) == 500
    assert len(sizes) < 20


def test_objects_that_do_not_fit_in_memory_are_cut_by_their_lengths(tmp_path: Path) -> None:
    """They are spilled, and to find where to cut takes none of them back."""
    path = tmp_path / "t.jsonl"
    with path.open("w") as file:
        file.writelines(json.dumps({"person": n, "note": f"{n:05}" * 10_000}) + "\n" for n in range(3_000))
    with PrivateDatabase(memory=192 << 20, threads=2) as database:
        pieces = formats._taken_apart(database, [Stamp.of(path)])
        assert database.fetch(f"SELECT count(*) > 10 FROM {next(pieces)[0]}") == [(True,)]
