"""A survey of a table on the disk, against the counting that it cannot do without."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import Result, benchmark, compare
from dimly.curator.options import Options
from dimly.curator.survey.questions import survey_table
from dimly.mechanisms.survey_plan import SurveyPlan
from dimly.privacy import Budget

ROWS, QUICK_ROWS = 20_000_000, 1_000_000
WEIGHT = 100
PLACES = 20_000
MEMORY = 2_000_000_000
_GROUPED = (
    "SELECT count(*), sum(n) FROM (SELECT person, place, count(*) AS n FROM read_parquet(?) GROUP BY person, place)"
)


@benchmark("survey")
def survey(quick: bool) -> Iterator[Result]:
    """Survey a Parquet file of people and places: counts, weights and distances, from reading to the JSON.

    The target is half the speed of DuckDB's own GROUP BY person, place over the same rows, on as many threads and with
    as much memory. That says who has what, as a survey must know; the survey also puts people in pairs, adds noise from
    an AES-256 keystream, and finds intervals.
    """
    with tempfile.TemporaryDirectory(prefix="dimly-benchmark-") as folder:
        yield _surveyed(Path(folder) / "visits.parquet", QUICK_ROWS if quick else ROWS, repeats=3 if quick else 5)


def _surveyed(path: Path, rows: int, *, repeats: int) -> Result:
    people = rows // WEIGHT
    write_visits(path, rows, people=people)
    plan = SurveyPlan.of(Budget(0.3), ["counts", "weights", "distances"])
    options = Options(
        user="person",
        attribute="place",
        roster=np.arange(people),
        vocabulary=[str(place) for place in range(PLACES)],
        memory=MEMORY,
        threads=1,
    )

    def ours() -> object:
        found = survey_table(str(path), plan, options).survey
        return None if found is None else found.content()

    def grouped() -> object:
        with duckdb.connect(config={"threads": 1, "memory_limit": f"{MEMORY}B"}) as connection:
            return connection.execute(_GROUPED, [str(path)]).fetchall()

    return compare(
        f"{rows:,} rows, {people:,} people, {PLACES:,} places",
        ours,
        {"DuckDB GROUP BY": grouped},
        work=rows,
        unit="rows",
        parameters={"rows": rows, "people": people, "places": PLACES},
        repeats=repeats,
        targets={"DuckDB GROUP BY": 0.5},
    )


def write_visits(path: Path, rows: int, *, people: int) -> None:
    """Write who was where: some places far more often than others, some of it twice, in no order."""
    generator = np.random.default_rng(0)
    place = (PLACES * generator.random(rows) ** 2.5).astype(np.int64)
    table = pa.table({"person": generator.integers(0, people, rows), "place": place})
    pq.write_table(table, path)
