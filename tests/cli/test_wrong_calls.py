"""Wrong calls as people make them: each gives one line that names the very option or call that mends it."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.cli.lines import run
from tests.folders import release_folder

CSV = "person,place,rating\nada,mill,1\nada,harbor,0\nbob,mill,1\n"
PUBLISH = ("publish", "{visits}", "--plan", "{plan}", "--user", "person", "--attribute", "place")
FILES = {
    "book": "book.xlsx",
    "empty": "empty.csv",
    "twice": "twice.csv",
    "wide": "wide.csv",
    "commas": "commas.csv",
    "lists": "lists.parquet",
    "floats": "floats.parquet",
    "spaced": "spaced.csv",
    "latin": "latin.csv",
    "both": "both.csv",
    "questions": "questions.csv",
    "weights": "weights.csv",
    "broken": "broken.csv",
}
ROSTER = ("--roster", "{people}")
SEMICOLON = ("--delimiter", ";", "--out", "{new}")

CALLS: list[tuple[tuple[str, ...], str]] = [
    # What is called, and what the line must name.
    (("plan",), "Add --epsilon 1, or --interactive"),
    (("plan", "--interactive", "--epsilon", "1"), "Leave --epsilon out"),
    (("plan", "--epsilon", "-1"), "epsilon must be"),
    (("plan", "--epsilon", "one"), "--epsilon"),
    (("plan", "--epsilon", "1", "--k", "64"), "Add --mechanism NAME, or leave --k out"),
    (("simulate", "--users", "-3"), "--users must be 1 or more"),
    (("simulate", "--weight", "0"), "--weight must be from 1 to a quarter"),
    (("plan", "--epsilon", "1", "--distance", "far"), "distance must be numbers"),
    (("plan", "--epsilon", "1", "--numbered"), "--n-attributes"),
    (("plan", "--epsilon", "1", "--mechanism", "counting"), "mechanism"),
    (("plan", "--epsilon", "1", "--purpose", "clusters"), "'distances', 'neighbors', 'segments'"),
    (("plan", "--epsilon", "1", "--user", "person"), "--sample FILE"),
    (("plan", "--epsilon", "1", "--survey", "{parquet}"), "pass it as --directions"),
    (("plan", "--epsilon", "1", "--max-bytes-per-user", "small"), "such as 2GB"),
    (("plan", "--epsilon", "1", "--vocabulary", "{nothing}"), "nothing.txt"),
    ((*PUBLISH,), "Add --out DIR, or --dry-run"),
    ((*PUBLISH[:6], "--columns", "all", "--out", "{new}"), "--all-columns"),
    ((*PUBLISH, "--out", "{release}"), "--overwrite"),
    ((*PUBLISH, "--out", "{release}/inside"), "Choose a place beside it"),
    ((*PUBLISH, "--out", "{folder}/no/where"), "Make it first"),
    ((*PUBLISH, "--out", "{new}", "--dataset", "d"), "ledger must be given where dataset is"),
    ((*PUBLISH, "--out", "{new}", "--where", "rating > 0"), "Give the public list of people as --roster"),
    ((*PUBLISH, "--out", "{new}", *ROSTER, "--where", "rating > 0"), "Write CAST(rating AS DOUBLE)"),
    ((*PUBLISH, "--out", "{new}", *ROSTER, "--where", "stars = '1'"), "The table has: person, place, rating"),
    ((*PUBLISH, "--out", "{new}", "--where", "rating = (SELECT '1')"), "got a subquery"),
    ((*PUBLISH, "--out", "{new}", "--where", "random() < 0.5"), "got the function 'random'"),
    ((*PUBLISH, "--out", "{new}", "--where", "count(*) > 1"), "got the function 'count_star'"),
    ((*PUBLISH, "--out", "{new}", "--where", "rating ="), 'such as "rating > 0"'),
    ((*PUBLISH, "--out", "{new}", "--engine", "flink"), "'local', 'spark'"),
    ((*PUBLISH, "--out", "{new}", "--master", "yarn"), "Add --engine spark"),
    ((*PUBLISH, "--out", "{new}", "--memory", "2"), "768 MiB"),
    ((*PUBLISH, "--out", "{new}", "--title", ""), "title must be text of 1 to 200 characters"),
    ((*PUBLISH, "--out", "{new}", "--table", "visits"), "table must be left out unless source is a DuckDB"),
    ((*PUBLISH, "--out", "{new}", "--append", "{release}"), "out must not be given with append"),
    (
        ("publish", "{visits}", "--plan", "{plan}", "--user", "name", "--attribute", "place", "--out", "{new}"),
        "person, place",
    ),
    (("publish", "{visits}", "--plan", "{nothing}", "--user", "person", "--out", "{new}"), "Make one with dimly plan"),
    (
        ("publish", "{uneven}", "--plan", "{plan}", "--user", "person", "--attribute", "place", "--out", "{new}"),
        "--diagnose FILE",
    ),
    (
        ("publish", "{nothing}", "--plan", "{plan}", "--user", "person", "--attribute", "place", "--out", "{new}"),
        "nothing.txt",
    ),
    (("neighbors", "{release}"), "Add --user ID"),
    (("neighbors", "{release}", "--user", "ada"), "--user must be an integer"),
    (("neighbors", "{release}", "--user", "1", "--csv", "--json"), "Leave one of them out"),
    (("neighbors", "{release}", "--user", "1", "-n", "3000"), "--count must be at most"),
    (("segments", "{release}", "--count", "many"), "a number of segments or auto"),
    (("segments", "{release}", "--out", "{folder}/segments.txt"), "must end in .csv or .parquet"),
    (("distance", "{release}", "1"), "'B'"),
    (("export", "{release}", "--to", "numpy"), "--out must say where"),
    (("inspect", "{visits}"), "If it is your table, publish it first"),
    (("verify", "{folder}"), "has no manifest.json"),
    (("ledger", "show", "{nothing}"), "ledger"),
    (("report", "{release}", "--out", "{page}"), "--overwrite"),
    (("neighbor", "{release}"), "neighbors"),
    (("cluster", "{release}"), "Did you mean 'dimly segments'?"),
    (("plan", "--epsilon", "0,5"), "a number such as 0.5, with a point"),
    (("plan", "--eps", "0.5"), "Did you mean --epsilon?"),
    (("plan", "--epsilon", "0.01", "--distance", "100:110", "-o", "{new}"), "or add --force to write it anyway"),
    (("publish", "{visits}", "--plan", "{plan}", "--out", "{new}"), "Add --user COLUMN: the column of people's ids"),
    (("publish", "{visits}", "--plan", "{plan}", "--user", "person", "--out", "{new}"), "--attribute-list"),
    (("publish", "{visits}", "--plan", "{visits}", *PUBLISH[4:], "--out", "{new}"), "Make it again with dimly plan"),
    ((*PUBLISH, "--out", "{new}", *ROSTER, "--vocabulary", "{people}"), "--diagnose FILE"),
    (("neighbors", "{release}", "--user", "123456"), "dimly inspect RELEASE --ids"),
    (("neighbors", "{release}", "1"), "Usage: dimly neighbors [OPTIONS] RELEASE"),
    (("neighbors", "{release}/sketches", "--user", "1"), "release instead."),
    (("segments", "{folder}"), "Open a folder inside it, such as"),
    (("segments", "{nothing}"), "there is no such folder"),
    (("segments", "{release}", "-o", "{release}/segments.csv"), "--out must not be inside another release"),
    (("report", "{release}", "-o", "{folder}/report.pdf"), "--out must end in .html"),
    ((*PUBLISH, "--out", "{new}", "--attribute", "rating"), "--attribute must be given once, got it 2 times"),
    ((*PUBLISH, "--out", "{new}", "--epsilon", "2"), "make one with dimly plan --epsilon"),
    ((*PUBLISH, "--out", "{new}", "--sep", ";"), "Did you mean --delimiter?"),
    ((*PUBLISH, "--out", "{new}", "--ledger", "{nothing}"), "Add --dataset NAME"),
    ((*PUBLISH, "--out", "{new}", "--recipient", "bob"), "Add --ledger FILE"),
    ((*PUBLISH, "--out", "{new}", "--roster", "{nothing}"), "--roster must be an existing file"),
    (("publish", "{visits}", "--plan", "{plan}", "--user-column", "person"), "Did you mean --user?"),
    (("publish", "{visits}", "--plan", "{plan}", "--user", "person", "--item", "place"), "Did you mean --attribute?"),
    (("publish", "{release}", *PUBLISH[2:], "--out", "{new}"), "DATA must be the private table"),
    (("publish", "{book}", *PUBLISH[2:], "--out", "{new}"), "Save the sheet as CSV in UTF-8"),
    (("publish", "{empty}", *PUBLISH[2:], "--out", "{new}"), "Add one"),
    (("publish", "{lists}", *PUBLISH[2:], "--out", "{new}"), "Pass a column of lists as --attribute-list"),
    (("publish", "{floats}", *PUBLISH[2:], "--out", "{new}"), ".astype('Int64')"),
    (("publish", "{twice}", *PUBLISH[2:], "--out", "{new}"), "error: the columns of "),
    (("publish", "{wide}", *PUBLISH[2:6], "--all-columns", "--out", "{new}"), "leave the column out"),
    (("publish", "https://host/visits.csv", *PUBLISH[2:], "--out", "{new}"), "Download it first"),
    (("plan", "--epsilon", "1", "--sample", "{nothing}", "--user", "a", "--attribute", "b"), "--sample must be"),
    (("plan", "--epsilon", "1", "--sample", "{visits}", "--user", "person"), "--attribute (a row for each)"),
    (("plan", "--epsilon", "1", "--mechanism", "randomized-response"), "--n-attributes or --vocabulary must be given"),
    (("audit", "{visits}"), "PLAN must be JSON"),
    (("audit", "{plan}", "--data", "{visits}"), "--user and --attribute must name columns"),
    (("segments", "{release}", "--k", "4"), "Did you mean --count?"),
    (("segments", "{parquet}"), "instead."),
    (("neighbors", "{release}", "--id", "1"), "Did you mean --user?"),
    (("neighbors", "{release}", "--user", "1", "-o", "{folder}/near.csv"), "--csv > FILE"),
    (("export", "{release}", "-o", "{folder}/points.parquet"), "pgvector. Add --to"),
    (("export", "{release}", "--to", "pgvector"), "Add --table NAME"),
    (("plan", "{visits}", "--epsilon", "1"), "leave the file out, and give it to dimly publish"),
    (("neighbors", "{release}", "8"), "An id goes behind --user"),
    (("audit", "{plan}", "{visits}"), "A table goes behind --data"),
    (("audit", "--plan", "{plan}"), "Write it without an option: Usage: dimly audit [OPTIONS] PLAN"),
    (("attack", "{plan}"), "To attack a plan or a release: dimly audit PLAN"),
    ((*PUBLISH, "--out", "{new}", *ROSTER, "--where", "rating > 0"), "CAST(translate(rating, ',.', '.') AS DOUBLE)"),
    (("publish", "{commas}", *PUBLISH[2:], "--value", "rating", "--out", "{new}"), "such as 0.5, with a point"),
    (("neighbors", "{release}", "--user", "12345678"), "Ids go from -20 to 183"),
    (("report", "{release}", "-o", "{folder}/r.html", "--profiles", "{people}"), "dimly survey TABLE --by"),
    (("ledger", "enter", "{ledger}", "{visits}", "--dataset", "visits"), "must be a release folder"),
    (("ledger", "enter", "{ledger}", "{release}", "--dataset", "visit"), "one of the ledger's ('visits')"),
    (("ledger", "enter", "{ledger}", "{release}"), "--dataset"),
    (("ledger", "enter", "{nothing}", "{release}", "--dataset", "visits"), "dimly ledger init"),
    (("ledger", "spent", "{ledger}"), "Did you mean 'dimly ledger show'?"),
    (("ledger", "show", "{visits}"), "make one under another name with `dimly ledger init`"),
    (("plan", "--epsilon", "10%"), "with a point and without %"),
    (("plan", "-e", "1"), "Did you mean --epsilon?"),
    (("plan", "--epsilon", "1", "--n-users", "1,000"), "such as 1000, without commas"),
    (("plan", "--epsilon", "1", "--distance", "100-200"), "such as 100:200"),
    (("plan", "--epsilon", "1", "--distance", "200:100"), "got 200 and 100. Swap them"),
    (("plan", "--epsilon", "1", "--mechanism", "counting+gaussian", "--k", "8"), "such as 1e-6, or use Laplace noise"),
    (("plan", "--epsilon", "1", "--vocabulary", "{empty}.txt"), "must name at least one attribute"),
    (("compare", "--epsilon", "1;2"), "such as 1,2,4"),
    (("publish", "{spaced}", *PUBLISH[2:], "--out", "{new}"), "The table has: person, ' place'."),
    (("publish", "~/no visits.csv", *PUBLISH[2:], "--out", "{new}"), "/no visits.csv. Write /"),
    (("publish", "{visits}", "--plan", "{release}/manifest.json", *PUBLISH[4:], "--out", "{new}"), "got a manifest"),
    ((*PUBLISH, "--out", "{new}", "--roster", "{release}"), "--roster must be a public list, got "),
    ((*PUBLISH, "--out", "{new}", "--roster", "{latin}"), "such as a roster, save it as UTF-8"),
    ((*PUBLISH, "--out", "{new}", "--roster", "{visits}s"), "--roster must be an existing file"),
    ((*PUBLISH, "--out", "{new}", "--delimiter", "comma"), 'one ASCII character, such as ";"'),
    ((*PUBLISH, "--out", "{new}", "--threads", "0"), "must be 1 or more"),
    ((*PUBLISH, "--out", "{new}", "--pseudonyms", "{nothing}"), "head -c 32 /dev/urandom"),
    ((*PUBLISH[:4], "--user", "--attribute", "place", "--out", "{new}"), "Write --user COLUMN"),
    (
        ("publish", "--input", "{visits}", *PUBLISH[2:], "--out", "{new}"),
        "without an option: Usage: dimly publish",
    ),
    (("neighbors", "--release", "{release}", "--user", "1"), "Write it without an option: Usage: dimly neighbors"),
    (("distance", "{release}", "--user", "1"), "Write it without an option: Usage: dimly distance"),
    (("segments", "{release}", "segments.csv"), "A file to write goes behind --out"),
    (("ledger", "export", "{ledger}", "-o", "x.json"), "Write what is printed to a file: > FILE"),
    ((*PUBLISH, "--out", "{new}", "--roster"), "Write --roster VALUE"),
    ((*PUBLISH, "--out", "{new}", *ROSTER, "--where", 'place = "mill"'), "Text goes between single quotes"),
    ((*PUBLISH[:6], "--attribute-list", "place", "--out", "{new}"), "Pass it as --attribute if each row holds one"),
    (
        (*PUBLISH[:6], "--all-columns", "--out", "{new}"),
        "give the plan, or a survey, --unit column if it is a column of text",
    ),
    ((*PUBLISH, "--out", "."), "such as release"),
    (("directions", "learn", "{visits}", *PUBLISH[4:], "-o", "{folder}/d.csv"), "must end in .parquet"),
    (("neighbors", "{plan}", "--user", "1"), "dimly publish TABLE --plan FILE"),
    (("segments", "~/no release"), "there is no such folder. Write /"),
    (("distance", "{release}", "1", "8", "--confidence", "95"), "such as 0.95"),
    (("export", "{release}", "--to", "parquet", "-o", "{folder}/points.csv"), "must end in .parquet with --to parquet"),
    ((*PUBLISH, "--out", "{new}", *ROSTER, "--where", "year(rating) = 2024"), "CAST(… AS DATE) for dates such as"),
    (
        ("survey", "{questions}", "--epsilon", "1", "--user", "person", "--columns", "place", *ROSTER, "-o", "{new}"),
        "give the plan, or a survey, --unit column",
    ),
    (("demo", "--out", "{new}"), "Did you mean --folder?"),
    ((*PUBLISH, "--append", "{release}"), "Add --ledger FILE and --dataset NAME"),
    (("directions", "make", "{weights}", "-o", "{new}.parquet"), "with a point"),
    (("directions", "make", "{visits}", "-o", "{new}.parquet", "--attribute", "places"), "Did you mean 'place'?"),
    (("publish", "{folder}", *PUBLISH[2:], "--out", "{new}"), "name some of them, such as '"),
    (("plan", "--epsilon", "1", "--roster", "{people}"), "give --roster to dimly publish"),
    (("report", "{release}", "-o", "."), "got '.'"),
    (("publish", "{both}", *PUBLISH[2:], "--out", "{new}"), 'such as --delimiter ";". If it is a list'),
    (("publish", "{broken}", *PUBLISH[2:], "--out", "{new}"), "If a name has a line break, remove it"),
    (("publish", "{both}", *PUBLISH[2:4], "--user", "person", "--columns", "age", *SEMICOLON), "mean 'Age (years)'?"),
    (
        ("publish", "{both}", *PUBLISH[2:4], "--user", "name", "--attribute", "plac", *SEMICOLON),
        "'name'. The first line of",
    ),
    (
        ("publish", "{both}", *PUBLISH[2:6], "--columns", "place;Age (years)", *SEMICOLON),
        "Separate the names with commas",
    ),
    (("publish", "{both}", *PUBLISH[2:6], "--columns", "place,place", *SEMICOLON), "got 'place' twice"),
    (("publish", "{both}", *PUBLISH[2:6], "--columns", "place,person", *SEMICOLON), "also --user. Leave it out"),
    ((*PUBLISH, "--out", "{new}", *ROSTER, "--where", "rating >= 3,5"), "Write decimals with a point"),
    ((*PUBLISH, "--out", "{new}", *ROSTER, "--where", "replace(rating, ',', '.') = '1'"), "Use translate"),
    ((*PUBLISH, "--out", "{new}", *ROSTER, "--where", "place.str.contains('m')"), "contains(place, …)"),
]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("wrong")
    visits, uneven, plan, people = (folder / name for name in ("visits.csv", "uneven.csv", "plan.json", "people.txt"))
    page = folder / "page.html"
    page.write_text("")
    people.write_text("ada\nbob\n")
    visits.write_text(CSV)
    uneven.write_text(CSV + "bob,square\n")
    made = run("plan", "--epsilon", 1, "--mechanism", "counting+laplace", "--k", 8, "-o", plan)
    assert made.exit_code == 0
    assert run("ledger", "init", folder / "ledger.db", "--dataset", "visits", "--epsilon", 1).exit_code == 0
    made_files = {name: folder / file for name, file in FILES.items()}
    made_files["book"].write_bytes(b"PK")
    made_files["empty"].write_text("")
    (folder / "empty.csv.txt").write_text("")
    made_files["spaced"].write_text("person, place\nada, mill\n")
    made_files["latin"].write_bytes("person\nJürgen\n".encode("latin-1"))
    made_files["both"].write_text("person;name, first;Age (years);place\nada;Ada;31;mill\n")
    made_files["questions"].write_text("person,place\nada,mill\nbob,harbor\n")
    made_files["weights"].write_text("attribute;weight\nmill;0,5\n")
    made_files["broken"].write_text('person;"How are\nyou?";place;name, first\nada;well;mill;Ada\n')
    made_files["twice"].write_text("person,person,place\nada,ada,mill\n")
    made_files["commas"].write_text('person;place;rating\nada;mill;"0,5"\nada;harbor;"1,0"\n')
    made_files["wide"].write_text("person,age\nada,31\n")
    parquet.write_table(pa.table({"person": ["ada"], "place": [["mill"]]}), made_files["lists"])
    parquet.write_table(pa.table({"person": [1.0], "place": ["mill"]}), made_files["floats"])
    return {
        **{name: str(file) for name, file in made_files.items()},
        "visits": str(visits),
        "uneven": str(uneven),
        "plan": str(plan),
        "people": str(people),
        "release": str(release_folder(folder / "release")),
        "page": str(page),
        "parquet": next(map(str, (folder / "release").rglob("*.parquet"))),
        "folder": str(folder),
        "ledger": str(folder / "ledger.db"),
        "new": str(folder / "new"),
        "nothing": str(folder / "nothing.txt"),
    }


def test_there_are_forty() -> None:
    assert len(CALLS) >= 40


@pytest.mark.parametrize(("call", "remedy"), CALLS, ids=[f"{i}-{call[0][0]}" for i, call in enumerate(CALLS)])
def test_one_line_with_its_remedy(call: tuple[str, ...], remedy: str, places: dict[str, str]) -> None:
    result = run(*(part.format(**places) for part in call))
    lines = [line for line in result.stderr.splitlines() if not line.startswith("warning: ")]
    assert result.exit_code in (1, 2)
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    assert remedy in lines[0]
    assert not Path(places["new"]).exists()


def test_a_diagnosis_names_the_line_for_the_curator_alone(places: dict[str, str], tmp_path: Path) -> None:
    private = tmp_path / "diagnosis.json"
    call: tuple[Any, ...] = ("--plan", places["plan"], "--user", "person", "--attribute", "place")
    result = run("publish", places["uneven"], *call, "--out", places["new"], "--diagnose", private)
    assert result.exit_code == 1
    assert ".csv was read as 3 names with ',' between them, in utf-8." in result.stderr
    assert "line 5" not in result.stderr
    assert '"line": 5' in private.read_text()
    assert "it has 2 fields, and the first line has 3" in private.read_text()
    assert private.stat().st_mode & 0o777 == 0o600
