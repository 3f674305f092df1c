"""``dimly directions``: learned, made and shown, as text and as JSON; bad input is one line."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.lines import answer, refusal, run

from dimly.lab.population import make_population
from dimly.mechanisms.projection.directions import Directions
from dimly.release.documents.directions_file import read_directions, write_directions

LEARN = ("--user", "person", "--attribute", "place")


@pytest.fixture(scope="module")
def volunteers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("public") / "volunteers.parquet"
    make_population(40, 80, n_groups=2, mean_weight=15, taste=50).write(path)
    return path


def test_learned_directions_say_how_they_were_chosen(volunteers: Path, tmp_path: Path) -> None:
    out = tmp_path / "directions.parquet"
    told = answer("directions", "learn", volunteers, *LEARN, "--count", 2, "--origin", "a fair", "-o", out)
    found = read_directions(out)
    assert (told["digest"], told["count"], told["l1"]) == (found.digest, 2, found.sensitivity.l1)
    assert found.origin.startswith("a fair (")
    assert told["learning"]["merit"] >= told["learning"]["compared"][0]["merit"] - 0.05
    again = run("directions", "learn", volunteers, *LEARN, "--count", 2, "-o", out, "--overwrite", "--buckets", 16)
    assert again.exit_code == 0
    assert "2 directions of 16 buckets" in again.stdout
    assert "only as far as these people are like" in again.stdout


def test_made_directions_are_shown_by_both_ends(tmp_path: Path) -> None:
    table, out = tmp_path / "embeddings.parquet", tmp_path / "directions.parquet"
    pq.write_table(pa.table({"attribute": ["tea", "cola"], "vector": [[1.0], [-0.5]]}), table)
    assert answer("directions", "make", table, "-o", out)["kind"] == "embeddings"
    shown = answer("directions", "show", out)
    (ends,) = shown["ends"]
    assert ends["positive"] == {"tea": 1.0}
    assert -1 < ends["negative"]["cola"] < 0
    text = run("directions", "show", out).stdout
    assert "tea" in text
    assert shown["digest"] in text
    assert "one of them moves a sketch by at most 1 (sum of changes) or 1 (distance)" in text


def test_weights_and_categories_are_made(tmp_path: Path) -> None:
    weights, categories = tmp_path / "weights.csv", tmp_path / "categories.csv"
    weights.write_text("attribute;weight\ntea;0.5\ncola;1\n")
    categories.write_text("attribute,category\ntea,drink\ncola,drink\nrye,bread\n")
    told = answer("directions", "make", weights, "--count", 8, "--family", "counting", "-o", tmp_path / "w.parquet")
    assert (told["kind"], told["count"], told["l1"], told["scale"]) == ("counted weights", 8, 128, 128)
    made = run("directions", "make", categories, "-o", tmp_path / "c.parquet")
    assert "2 directions of 2 categories" in made.stdout


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("attribute,weight\ntea,0.5\ntea,1\n", "'tea' twice"),
        ("attribute,weight\ntea,1.5\n", "in [0, 1]"),
        ("attribute,weight\ntea,nan\n", "in [0, 1]"),
        ("attribute,weight\ntea,0\n", "not zero"),
        ("attribute,category\ntea,\n", "to every attribute"),
        ("attribute,category\ntea,drink\n", "family must be left out for categories"),
        ("attribute,x,y\ntea,1,\n", "NaN, infinite or missing"),
        ("name,weight\ntea,1\n", "attribute must be a column"),
    ],
)
def test_bad_tables_are_refused_in_one_line(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text(content)
    family = ("--family", "counting") if "family" in message else ()
    assert message in refusal("directions", "make", path, *family, "-o", tmp_path / "directions.parquet")
    assert not (tmp_path / "directions.parquet").exists()


def test_bad_calls_are_refused_in_one_line(volunteers: Path, tmp_path: Path) -> None:
    out = tmp_path / "directions.parquet"
    lone = tmp_path / "lone.csv"
    lone.write_text("person,place\nada,home\n")
    assert "at least 2 people, got 1" in refusal("directions", "learn", lone, *LEARN, "-o", out)
    assert "count" in refusal("directions", "learn", volunteers, *LEARN, "--count", "few", "-o", out)
    assert "must be a number of directions or auto" in refusal(
        "directions", "learn", volunteers, *LEARN, "--count", 0, "-o", out
    )
    assert '"auto" or 1 to 39' in refusal("directions", "learn", volunteers, *LEARN, "--count", 70, "-o", out)
    both = ("--columns", "a", "--all-columns")
    assert "got both" in refusal("directions", "learn", volunteers, "--user", "person", *both, "-o", out)
    assert "existing file" in refusal("directions", "show", out)
    assert not out.exists()
    write_directions(out, Directions.of_values(["a"], [[1.0]], origin="x"))
    assert "exist" in refusal("directions", "make", lone, "-o", out)
    out.write_bytes(out.read_bytes().replace(b'"origin":"x"', b'"origin":"y"'))
    assert "It was changed" in refusal("directions", "show", out, code=1)


def test_the_group_alone_shows_its_commands() -> None:
    result = run("directions")
    assert result.exit_code == 0
    assert all(name in result.stdout for name in ("learn", "make", "show"))
