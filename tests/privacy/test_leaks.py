"""What must not depend on private rows, and does not: manifests, file shapes, printed output, the order of arrival.

Neighboring tables differ in one attribute of one person, with the list of people given. Whatever an outsider sees apart
from noisy numbers must be the same for both.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.lines import run
from tests.engines.tables import ATTRIBUTES, SHAPES, holdings, plan_for, vocabulary
from tests.folders import small_parts
from tests.privacy.moves import check, moved
from tests.streams import Recorded

from dimly.curator.ledger.ledger import Ledger
from dimly.curator.options import Options, Silence
from dimly.curator.publication import PublishOutcome, publish_table
from dimly.mechanisms import Plan
from dimly.release.reader import open_folder

__all__ = ["small_parts"]  # a fixture

Row = tuple[Any, ...]
PEOPLE: Final = holdings()
ROWS: Final[list[Row]] = [(who, what) for who, held in PEOPLE.items() for what in held]
EMPTY, HOLDER = "has nothing", "003"
ROSTER: Final = [*PEOPLE, EMPTY]
FREE: Final = next(what for what in ATTRIBUTES[1:] if what not in PEOPLE[HOLDER])
NEIGHBORS: Final[dict[str, list[Row]]] = {
    "one attribute more": [*ROWS, (HOLDER, FREE)],
    "somebody's first attribute": [*ROWS, (EMPTY, "jam")],
    "an attribute that nobody had": [*ROWS, (HOLDER, "SECRET")],
    "a first attribute that nobody had": [(EMPTY, "SECRET"), *ROWS],
    "one attribute less": [row for row in ROWS if row != (HOLDER, next(iter(PEOPLE[HOLDER])))],
    "a repeat": [*ROWS, ROWS[5]],
}
PLANS: Final = ["counting+laplace", "gaussian+gaussian", "randomized-response", "noisy-distances"]
LONG: Final[dict[str, Any]] = {"user": "person", "attribute": "page"}

every_plan = pytest.mark.parametrize("mechanism", PLANS)
every_neighbor = pytest.mark.parametrize("neighbor", NEIGHBORS.values(), ids=NEIGHBORS.keys())


def table_of(rows: list[Row], names: tuple[str, ...] = ("person", "page")) -> pa.Table:
    return pa.table([pa.array(column) for column in zip(*rows, strict=True)], names=names)


def public(plan: Plan) -> dict[str, Any]:
    return {"roster": ROSTER} | ({} if plan.vocabulary is None else {"vocabulary": vocabulary()})


class Watching(Silence):
    """Notes what is said about the run, but for how often: that goes by the clock."""

    def __init__(self) -> None:
        self.told: list[object] = []
        self.done = 0

    def phase(self, name: str) -> None:
        self.told.append(name)

    def start(self, n_users: int) -> None:
        self.told.append(n_users)

    def advance(self, n_users: int) -> None:
        self.done += n_users


def publish(rows: list[Row], plan: Plan, folder: Path) -> tuple[PublishOutcome, Watching]:
    """Publish with secret noise and a ledger."""
    folder.mkdir()
    Ledger.create(folder / "ledger.db").add_dataset("visits", epsilon=8.0, delta=1e-4)
    pq.write_table(table_of(rows), folder / "t.parquet")
    watching = Watching()
    published = publish_table(
        folder / "t.parquet",
        plan,
        Options(
            out=folder / "out",
            ledger=folder / "ledger.db",
            dataset="visits",
            recipient="ACME",
            progress=watching,
            threads=2,
            **LONG,
            **public(plan),
        ),
    )
    return published, watching


def manifest_of(release: Path) -> dict[str, Any]:
    """Return a manifest without what follows from the noisy numbers."""
    manifest: dict[str, Any] = json.loads((release / "manifest.json").read_bytes())
    manifest.pop("release")
    for record in manifest["files"]:
        if record["path"].startswith("sketches/"):
            del record["bytes"], record["sha256"]
    return manifest


def footers(release: Path) -> Iterator[dict[str, Any]]:
    """Yield what the footers say, without sizes and places of noisy numbers, but with what is said of users."""
    for path in sorted(release.rglob("*.parquet")):
        footer = pq.read_metadata(path)
        groups = []
        for i in range(footer.num_row_groups):
            group = footer.row_group(i)
            chunks = [group.column(j) for j in range(group.num_columns)]
            groups.append(
                [group.num_rows, group.sorting_columns, chunks[0].statistics and chunks[0].statistics.to_dict()]
                + [
                    (
                        chunk.path_in_schema,
                        chunk.physical_type,
                        chunk.encodings,
                        chunk.compression,
                        chunk.num_values,
                        chunk.is_stats_set,
                        chunk.has_dictionary_page,
                        chunk.total_uncompressed_size if chunk.path_in_schema == "user" else None,
                    )
                    for chunk in chunks
                ]
            )
        yield {
            "path": str(path.relative_to(release)),
            "made by": footer.created_by,
            "format": footer.format_version,
            "metadata": footer.metadata,
            "schema": str(footer.schema).partition("\n")[2],  # the first line is an address in memory
            "groups": groups,
            "mode": oct(path.stat().st_mode),
        }


def account(folder: Path) -> Any:
    """Return what the ledger says, without times, processes and release ids."""
    text = json.dumps(Ledger(folder / "ledger.db").export())
    text = re.sub(r'"20\d\d-[^"]*"', '"time"', text)
    return json.loads(re.sub(r'"[0-9a-f]{64}"', '"digest"', text))


@pytest.mark.usefixtures("small_parts")
@every_plan
@every_neighbor
def test_neighbors_differ_in_noisy_numbers_only(mechanism: str, neighbor: list[Row], tmp_path: Path) -> None:
    plan = plan_for(mechanism, listed=False)
    one, told = publish(ROWS, plan, tmp_path / "1")
    other, told_too = publish(neighbor, plan, tmp_path / "2")
    releases = [tmp_path / name / "out" for name in ("1", "2")]
    assert manifest_of(releases[0]) == manifest_of(releases[1])
    assert list(footers(releases[0])) == list(footers(releases[1]))
    names = [[str(path.relative_to(release)) for path in sorted(release.rglob("*"))] for release in releases]
    assert names[0] == names[1]
    assert len(names[0]) > 4  # several parts
    assert (told.told, told.done) == (told_too.told, told_too.done)
    assert (one.n_users, one.bytes, one.warnings, one.ledger) == (
        other.n_users,
        other.bytes,
        other.warnings,
        other.ledger,
    )
    assert account(tmp_path / "1") == account(tmp_path / "2")
    for release in releases:
        assert all(b"SECRET" not in path.read_bytes() for path in release.rglob("*") if path.is_file())


@pytest.mark.usefixtures("small_parts")
@every_plan
@every_neighbor
def test_with_the_same_noise_neighbors_differ_by_the_sensitivity(
    mechanism: str, neighbor: list[Row], tmp_path: Path
) -> None:
    plan = plan_for(mechanism, listed=False)
    found = []
    for name, rows in (("1", ROWS), ("2", neighbor)):
        publish_table(
            table_of(rows),
            plan,
            Options(out=tmp_path / name, threads=2, **LONG, **public(plan)),
            words=lambda: Recorded(3),
        )
        found.append(open_folder(tmp_path / name))
    assert found[0].users.tolist() == sorted(ROSTER)
    changed = set(ROWS) ^ set(neighbor)
    person = sorted(ROSTER).index(next(iter(changed))[0]) if changed else 0
    difference = moved(plan, *found)  # type: ignore[arg-type] # they have what it looks at
    check(plan, difference, person)
    outside = plan.vocabulary is not None and any(what not in vocabulary() for _, what in changed)
    assert np.any(difference) == bool(changed and not outside)


CELLS: Final = {  # shape, column and what stands there instead; None adds the cell's attribute to the list
    "a value": ("long with values", "share", 1.0),
    "a bit": ("wide bits", "jam", True),
    "a cell": ("wide values", "jam", 1.0),
    "a category": ("wide text", "color", "SECRET"),
    "a list": ("list", "pages", None),
}


@pytest.mark.parametrize("mechanism", ["counting+gaussian", "sparse+laplace", "noisy-distances", "gaussian+laplace"])
@pytest.mark.parametrize("cell", CELLS)
def test_so_do_tables_of_every_shape(mechanism: str, cell: str, tmp_path: Path) -> None:
    shape, column, content = CELLS[cell]
    table, options, people = SHAPES[shape]()
    plan = plan_for(mechanism, values=shape.endswith("values"), categories=shape == "wide text", listed=False)
    given: dict[str, Any] = {"roster": sorted(people)}
    if plan.vocabulary is not None:
        given["vocabulary"] = list(vocabulary(categories=shape == "wide text"))
    cells = table.column(column).to_pylist()
    place = next(i for i, old in enumerate(cells) if (FREE not in old if content is None else old != content))
    cells[place] = [*cells[place], FREE] if content is None else content
    neighbor = table.set_column(table.column_names.index(column), column, pa.array(cells))
    found = []
    for name, rows in (("1", table), ("2", neighbor)):
        publish_table(rows, plan, Options(out=tmp_path / name, **options, **given), words=lambda: Recorded(3))
        found.append(open_folder(tmp_path / name))
    person = sorted(people).index(table.column("person")[place].as_py())
    check(plan, moved(plan, *found), person)  # type: ignore[arg-type]


def files_of(release: Path) -> dict[str, bytes]:
    return {str(path.relative_to(release)): path.read_bytes() for path in sorted(release.rglob("*")) if path.is_file()}


@pytest.mark.usefixtures("small_parts")
@every_plan
def test_order_and_layout_of_the_source_change_nothing_at_all(mechanism: str, tmp_path: Path) -> None:
    plan = plan_for(mechanism, listed=False)
    table = table_of(ROWS)
    shuffled = table.take(np.random.default_rng(9).permutation(len(ROWS)))
    annotated = shuffled.replace_schema_metadata({"author": "SECRET"})
    sources: dict[str, Any] = {
        "in order": table,
        "shuffled": shuffled,
        "backwards": table.take(np.arange(len(ROWS))[::-1]),
    }
    sources["small groups"] = tmp_path / "small.parquet"
    pq.write_table(annotated, sources["small groups"], row_group_size=3, compression="gzip")
    sources["two files"] = [tmp_path / "1.parquet", tmp_path / "2.parquet"]
    pq.write_table(shuffled.slice(40), sources["two files"][0])
    pq.write_table(shuffled.slice(0, 40), sources["two files"][1])
    sources["with others' rows"] = table_of([*ROWS, ("not in the roster", "jam"), ("nor she", "SECRET")])
    sources["with repeats"] = table_of([*ROWS, *ROWS[::-2]])
    found = {}
    for i, (name, source) in enumerate(sources.items()):
        out = tmp_path / f"out {i}"
        publish_table(
            source, plan, Options(out=out, threads=1 + i % 3, **LONG, **public(plan)), words=lambda: Recorded(4)
        )
        found[name] = files_of(out)
    for name, files in found.items():
        assert files == found["in order"], name


@pytest.mark.parametrize("outside", ["tea", "SECRET"])
def test_attributes_outside_of_the_vocabulary_leave_no_trace(outside: str, tmp_path: Path) -> None:
    for mechanism in PLANS:
        plan = plan_for(mechanism)
        for name, rows in (("1", ROWS), ("2", [*ROWS, (EMPTY, outside)])):
            out = tmp_path / mechanism / name
            out.parent.mkdir(exist_ok=True)
            publish_table(table_of(rows), plan, Options(out=out, **LONG, **public(plan)), words=lambda: Recorded(4))
        assert files_of(tmp_path / mechanism / "1") == files_of(tmp_path / mechanism / "2")


def prepared(folder: Path, rows: list[Row]) -> list[object]:
    """Write what a command needs, and return the command line."""
    folder.mkdir()
    pq.write_table(table_of(rows), folder / "t.parquet")
    (folder / "roster.txt").write_text("\n".join(ROSTER), encoding="utf-8")
    (folder / "plan.json").write_text(plan_for("counting+laplace", listed=False).to_json(), encoding="utf-8")
    assert run("ledger", "init", folder / "ledger.db", "--dataset", "visits", "--epsilon", 4).exit_code == 0
    paths = {"plan": "plan.json", "roster": "roster.txt", "out": "out", "ledger": "ledger.db"}
    line: list[object] = ["publish", folder / "t.parquet", "--user", "person", "--attribute", "page"]
    line += [word for name, path in paths.items() for word in (f"--{name}", folder / path)]
    return [*line, "--dataset", "visits"]


def normal(text: str, folder: Path) -> str:
    """Return printed text without the folder's name and the release's id."""
    return re.sub(r"(?m)^(id +)[0-9a-f]{64}$", r"\1…", text.replace(str(folder), "~"))


@pytest.mark.parametrize("more", [[], ["--json"]], ids=["for people", "as JSON"])
@pytest.mark.thorough(but=1)
def test_the_command_prints_the_same(more: list[str], tmp_path: Path) -> None:
    said = []
    for i, rows in enumerate((ROWS, NEIGHBORS["a first attribute that nobody had"])):
        folder = tmp_path / str(i)
        line = [sys.executable, "-m", "dimly", *map(str, prepared(folder, rows)), *more]
        done = subprocess.run(line, capture_output=True, text=True, check=False, env=os.environ | {"NO_COLOR": "1"})  # noqa: S603
        assert done.returncode == 0, done.stderr
        said.append((normal(done.stdout, folder), normal(done.stderr, folder)))
    assert said[0] == said[1]
    assert said[0][0]


@every_neighbor
@pytest.mark.parametrize("more", [[], ["--dry-run", "--json"]], ids=["for real", "dry"])
def test_it_does_so_for_every_neighbor(neighbor: list[Row], more: list[str], tmp_path: Path) -> None:
    said = []
    for i, rows in enumerate((ROWS, neighbor)):
        folder = tmp_path / str(i)
        result = run(*prepared(folder, rows), *more)
        assert result.exit_code == 0
        said.append([normal(text, folder) for text in (result.stdout, result.stderr)])
    assert said[0] == said[1]


@pytest.mark.parametrize("more", [[], ["--json"]], ids=["for people", "as JSON"])
def test_a_dry_run_without_a_roster_does_not_count_people(more: list[str], tmp_path: Path) -> None:
    said = []
    for i, rows in enumerate((ROWS, [*ROWS, ("one more", "jam")])):
        folder = tmp_path / str(i)
        line = prepared(folder, rows)
        at = line.index("--roster")
        result = run(*line[:at], *line[at + 2 :], "--dry-run", *more)
        assert result.exit_code == 0
        said.append([normal(text, folder) for text in (result.stdout, result.stderr)])
    assert said[0] == said[1]
    assert '"users": null' in said[0][0] if more else "those found in the table" in said[0][0]


def test_nor_does_it_in_python() -> None:
    for mechanism in ("counting+laplace", "counting+gaussian"):
        plan = plan_for(mechanism, listed=False)
        found, more = (
            publish_table(table_of(rows), plan, Options(dry_run=True, **LONG))
            for rows in (ROWS, [*ROWS, ("one more", "jam")])
        )
        assert replace(found, diagnostics={}) == replace(more, diagnostics={})
        assert (found.n_users, found.bytes) == (None, None)
        given = publish_table(table_of(ROWS), plan, Options(dry_run=True, roster=ROSTER, **LONG))
        assert given.n_users == len(ROSTER)
        assert given.bytes


def test_the_comparison_would_notice(tmp_path: Path) -> None:
    said = []
    for i, rows in enumerate((ROWS, NEIGHBORS["one attribute more"])):
        folder = tmp_path / str(i)
        said.append(normal(run(*prepared(folder, rows), "--private-diagnostics").stderr, folder))
    assert said[0] != said[1]
    found = publish([*ROWS, ("one more", "jam")], plan_for("counting+laplace", listed=False), tmp_path / "found")[0]
    assert found.n_users == len(ROSTER)


def test_without_a_roster_release_and_terminal_say_what_that_weakens(tmp_path: Path) -> None:
    line = prepared(tmp_path / "1", ROWS)
    at = line.index("--roster")
    result = run(*line[:at], *line[at + 2 :])
    assert result.exit_code == 0
    assert "No roster: the people are those found in the table" in result.stderr
    guarantee = json.loads((tmp_path / "1" / "out" / "manifest.json").read_bytes())["guarantee"]
    assert any(line.startswith("The people are those found in the private table") for line in guarantee)
