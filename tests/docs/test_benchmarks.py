"""docs/benchmarks.md shows what was measured, and its commands are there."""

import re

from benchmarks import __main__ as command
from benchmarks import accuracy, report

PAGE = report.PAGE.read_text(encoding="utf-8")
STORED, *OTHERS = report.stored_reports()


def test_the_page_shows_what_was_measured() -> None:
    assert report.fill(PAGE, STORED, accuracy.load(), OTHERS) == PAGE, "run: python -m benchmarks.report"


def test_every_section_has_its_place() -> None:
    assert set(re.findall(r"<!-- begin (\S+) -->", PAGE)) == set(report.SECTIONS)


def test_every_miss_is_explained() -> None:
    assert "Not explained yet" not in PAGE, "give the reason in benchmarks/missed.py"


def test_commands_are_there() -> None:
    block = re.findall(r"^```\n(.*?)^```", PAGE, re.M | re.S)[0]
    makefile = (report.PAGE.parents[1] / "Makefile").read_text(encoding="utf-8")
    lines = [line.partition("#")[0].split() for line in block.splitlines()]
    assert len(lines) == 4
    for words in lines:
        if words[0] == "make":
            assert re.search(rf"^{words[1]}:", makefile, re.M)
        else:
            assert words[:3] == ["python", "-m", "benchmarks"]
            command.build_parser().parse_args(words[3:])  # it would exit
