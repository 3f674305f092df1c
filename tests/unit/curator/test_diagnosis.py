"""Which lines do not fit is for the curator alone; what everybody may hear holds no count of a person's row."""

import gzip
from pathlib import Path
from typing import Any

import pytest
from tests.plans import plan_of

from dimly.api import publish
from dimly.curator.diagnosis import header_words, lines_that_do_not_fit
from dimly.curator.options import Options
from dimly.errors import DataError

OPTIONS = Options(user="person", attribute="place")
LINES = "person,place,rating\nada,mill,5\nbob,mill\ncy,,3\n"


@pytest.mark.parametrize("packed", [False, True])
def test_lines_are_named_also_of_packed_files(tmp_path: Path, *, packed: bool) -> None:
    path = tmp_path / ("visits.csv.gz" if packed else "visits.csv")
    path.write_bytes(gzip.compress(LINES.encode()) if packed else LINES.encode())
    assert [(one["line"], one["why"]) for one in lines_that_do_not_fit(path, OPTIONS)] == [
        (3, "it has 2 fields, and the first line has 3"),
        (4, "it has no attribute"),
    ]


def test_a_line_that_may_be_a_persons_is_not_counted(tmp_path: Path) -> None:
    header, people = tmp_path / "header.csv", tmp_path / "people.csv"
    header.write_text(LINES)
    people.write_text("ada,mill,harbor,square\nbob,mill\n")
    assert (
        header_words(header, OPTIONS)
        == f"The first line of {header} was read as 3 names with ',' between them, in utf-8."
    )
    assert (
        header_words(people, OPTIONS)
        == f"The first line of {people} was read as names with ',' between them, in utf-8."
    )
    assert header_words(tmp_path / "none.csv", OPTIONS) == ""


def test_the_first_line_that_ends_otherwise_is_named(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_bytes(b'person,place\r\nada,"the\nmill"\r\nbob,mill\ncy,mill\nada,bay')
    found = lines_that_do_not_fit(path, OPTIONS)
    assert [one["line"] for one in found] == [4]
    assert found[0]["why"].startswith("it ends in LF")
    path.write_bytes(path.read_bytes().replace(b"\r\n", b"\n"))
    assert lines_that_do_not_fit(path, OPTIONS) == []


def test_rows_that_are_dropped_are_not_named(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_text(LINES)
    found = lines_that_do_not_fit(path, Options(user="person", attribute="place", nulls="drop"))
    assert [one["line"] for one in found] == [3]


def test_of_a_roster_that_cannot_be_read_nothing_is_said_of_the_table(tmp_path: Path) -> None:
    table, roster = tmp_path / "t.csv", tmp_path / "people.csv"
    table.write_text("person,place\nada,mill\n")
    roster.write_bytes("person\nJosé\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"people\.csv must be text in UTF-8.* save it as UTF-8") as stop:
        publish(table, plan_of("counting+laplace"), user="person", attribute="place", roster=roster)
    assert not any("first line of" in note for note in getattr(stop.value, "__notes__", ()))


@pytest.mark.parametrize(
    ("roster", "said"),
    [("people.csv", "some are missing"), (["ada", None], "some are missing"), ("people.jsonl", "some ids are neither")],
)
def test_of_ids_that_a_roster_lacks_nothing_is_said_of_the_table(roster: Any, said: str, tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("person,place\nada,mill\n")
    (tmp_path / "people.csv").write_text('person\nada\n""\n')
    (tmp_path / "people.jsonl").write_text('{"person": "ada"}\n{"person": true}\n')
    given = tmp_path / roster if isinstance(roster, str) else roster
    with pytest.raises(DataError, match=f"roster must .*{said}") as stop:
        publish(table, plan_of("counting+laplace"), user="person", attribute="place", roster=given)
    assert not any("first line of" in note for note in getattr(stop.value, "__notes__", ()))
