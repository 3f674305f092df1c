"""The Spark engine where a cluster differs from one machine: tasks that fail, partitions, ids; what a call may say."""

import base64
import decimal
import importlib
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.engines.engine import SparkEngine, carried, silence
from tests.engines.tables import Holdings, check, holdings, long, plan_for
from tests.folders import small_parts
from tests.plans import lowered
from tests.spark import spark, uses_spark
from tests.unit.spark.failing_workers import failing_once, in_worker

import dimly
from dimly.curator.ledger.ledger import Ledger
from dimly.curator.options import Options, Silence
from dimly.curator.randomness import RunSecret
from dimly.errors import DataError, DimlyError, ParameterError, PrivacyWarning
from dimly.mechanisms import Plan
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.spark import publishing
from dimly.spark import table as placing
from dimly.spark.cluster import mapped
from dimly.spark.file_frames import FrameSource, read_files
from dimly.spark.origins import check_types_are_stated
from dimly.spark.publishing import publish, publish_frame
from dimly.spark.table import _n_partitions, coded_list, open_frame
from dimly.spark.workers.parts import WRITTEN, CarriedPlan, WriteParts

__all__ = ["small_parts", "spark"]  # fixtures

PLAN = plan_for("hashing+laplace", listed=False)
LONG: dict[str, Any] = {"user": "person", "attribute": "page"}
PEOPLE = holdings()
ROWS = [(who, what) for who, held in PEOPLE.items() for what in held]
# Of the input. Each that Python has to look at costs Spark a tenth of a second: make test-spark4 has 200 of them.
MOST_PARTITIONS = int(os.environ.get("DIMLY_PARTITIONS", "20"))
pytestmark = uses_spark


@pytest.fixture
def frame(spark: Any) -> Any:
    """Return a table as a frame."""
    return spark.createDataFrame(ROWS, "person string, page string")


@pytest.fixture
def settings(spark: Any) -> Iterator[Callable[[str, str], None]]:
    """Return what changes a setting of the session for the while of a test."""
    old: dict[str, str] = {}

    def change(name: str, value: str) -> None:
        old.setdefault(name, spark.conf.get(name))
        spark.conf.set(name, value)

    yield change
    for name, value in old.items():
        spark.conf.set(name, value)


def left_over(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name not in ("log", "ledger.db"))


SILENT = carried(silence(PLAN))


def test_a_release_from_spark_is_like_any_other(frame: Any, tmp_path: Path) -> None:
    with pytest.warns(PrivacyWarning):
        release = publish(frame, PLAN, out=(tmp_path / "a").as_uri(), **LONG)
    with pytest.warns(PrivacyWarning):
        local = dimly.publish(long(PEOPLE), PLAN, out=tmp_path / "b", **LONG)
    assert release.private
    dimly.open_release(tmp_path / "a", verify=True)
    manifests = [json.loads((tmp_path / name / "manifest.json").read_bytes()) for name in "ab"]
    for manifest in manifests:
        manifest.pop("release")
        for file in manifest["files"]:
            file.pop("sha256")
            file.pop("bytes")
    assert manifests[0] == manifests[1]
    assert left_over(tmp_path) == ["a", "b"]
    assert (release.values != local.values).any()


@pytest.mark.usefixtures("small_parts")
def test_only_the_attempt_that_counts_is_published(frame: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placing, "_MOST_TASKS", 1)  # four parts in one task, which fails after some of them
    log = tmp_path / "log"
    folder = tmp_path / "folder"
    folder.mkdir()
    publish_frame(
        frame, PLAN, Options(out=folder / "out", **LONG), words=in_worker(failing_once(log), carried(silence(PLAN)))
    )
    assert log.read_text().split() == ["0"] * 3 + ["1"] * 4
    check(dimly.open_release(folder / "out"), PEOPLE)
    assert left_over(folder) == ["out"]


def test_a_worker_that_is_killed_costs_nothing_but_time(frame: Any, tmp_path: Path) -> None:
    def die_at_first(attempt: int) -> None:
        if attempt == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    publish_frame(frame, PLAN, Options(out=tmp_path / "out", **LONG), words=in_worker(die_at_first, SILENT))
    check(dimly.open_release(tmp_path / "out"), PEOPLE)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.thorough
def test_an_attempt_that_reads_the_same_rows_writes_the_same_bytes(
    frame: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placing, "_MOST_TASKS", 1)  # four parts in one task, which fails after three of them
    folder, seen = tmp_path / "folder", tmp_path / "seen"
    for one in (folder, seen):
        one.mkdir()
    cut_alike, secret = carried(silence(PLAN)), RunSecret()

    def draw(batch: bytes) -> Any:
        cut_alike(batch)
        return secret.keystream(batch)

    def look_and_fail(attempt: int) -> None:
        """Copy what others of this account can read now."""
        found = sorted(folder.rglob("part-*.parquet"))
        if len(found) < 3 * (attempt + 1):
            return
        for number, path in enumerate(found):
            (seen / f"{attempt} {number} {path.name}").write_bytes(path.read_bytes())
        if attempt == 0:
            raise OSError(5, "Input/output error")

    draw.__module__ = "__main__"
    publish_frame(frame, PLAN, Options(out=folder / "out", **LONG), words=in_worker(look_and_fail, draw))
    drawn: dict[str, list[bytes]] = {}
    for path in sorted(seen.glob("1 *")):
        drawn.setdefault(path.name.split()[-1], []).append(path.read_bytes())
    assert [len(attempts) for attempts in drawn.values()] == [2, 2, 2]
    for name, attempts in drawn.items():
        assert set(attempts) == {(folder / "out" / "sketches" / name).read_bytes()}
    assert len({attempts[0] for attempts in drawn.values()}) == 3
    assert dimly.open_release(folder / "out", verify=True).private
    assert left_over(folder) == ["out"]


def test_nothing_of_spark_shows_the_secret_of_a_run(frame: Any) -> None:
    secret = RunSecret()
    work = WriteParts(CarriedPlan(PLAN.to_json()), "text", {}, {}, False, secret.keystream, "folder")
    written = mapped(frame, work, WRITTEN.format("string"))
    shown = repr(work) + str(written._jdf.queryExecution())
    hidden = secret._secret
    assert "RunSecret" in shown
    assert not any(form in shown for form in (hidden.hex(), repr(hidden)[2:-1], base64.b64encode(hidden).decode()))


def test_a_failed_job_leaves_nothing_and_stays_charged(frame: Any, tmp_path: Path) -> None:
    Ledger.create(tmp_path / "ledger.db").add_dataset("visits", epsilon=3.0)
    charged: dict[str, Any] = {"ledger": tmp_path / "ledger.db", "dataset": "visits", **LONG}

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(DimlyError, match=r"(?s)A worker failed while publishing: No space left.*Charge 1 stays"):
        publish_frame(frame, PLAN, Options(out=tmp_path / "out", **charged), words=in_worker(fail, SILENT))
    assert left_over(tmp_path) == []
    # Before noise is drawn it is given back.
    missing = frame.union(frame.sparkSession.createDataFrame([(None, "tea")], frame.schema))
    with pytest.raises(DataError, match="some rows have no user"):
        publish_frame(missing, PLAN, Options(out=tmp_path / "out", **charged))
    status = Ledger(tmp_path / "ledger.db").status("visits")
    assert [charge.state for charge in status.charges] == ["sampling", "returned"]
    assert left_over(tmp_path) == []


@pytest.mark.usefixtures("small_parts")
@pytest.mark.thorough
def test_one_more_attribute_leaves_the_shape_of_files(
    spark: Any, tmp_path: Path, settings: Callable[[str, str], None]
) -> None:
    settings("spark.sql.adaptive.enabled", "true")
    settings("spark.sql.adaptive.coalescePartitions.enabled", "true")
    shapes = []
    for name, rows in (("a", ROWS), ("b", [*ROWS, (ROWS[0][0], "one more")])):
        frame = spark.createDataFrame(rows, "person string, page string")
        publish_frame(frame, PLAN, Options(out=tmp_path / name, **LONG), words=carried(silence(PLAN)))
        files = sorted(path for path in (tmp_path / name).rglob("*") if path.is_file())
        footers = [pq.read_metadata(path) for path in files if path.suffix == ".parquet"]
        groups = [[footer.row_group(i).num_rows for i in range(footer.num_row_groups)] for footer in footers]
        shapes.append(([str(path.relative_to(tmp_path / name)) for path in files], groups))
    assert shapes[0] == shapes[1]
    assert len(shapes[0][1]) == 4


@pytest.mark.parametrize("n_partitions", [2, 2 * MOST_PARTITIONS])  # more than there are people
@pytest.mark.thorough
def test_any_number_of_partitions_will_do(
    frame: Any, n_partitions: int, tmp_path: Path, settings: Callable[[str, str], None]
) -> None:
    from pyspark.sql import functions  # noqa: PLC0415

    settings("spark.sql.shuffle.partitions", str(n_partitions))
    # Of two, one is empty; of more, people's rows are spread over all.
    by = [functions.lit(0)] if n_partitions == 2 else []
    cut = frame.repartition(min(n_partitions, MOST_PARTITIONS), *by)
    publish_frame(cut, PLAN, Options(out=tmp_path / "out", **LONG), words=carried(silence(PLAN)))
    check(dimly.open_release(tmp_path / "out"), PEOPLE)


def test_spark_may_choose_the_number_of_partitions() -> None:
    class Conf:
        said = "auto"

        def get(self, _: str) -> str:
            return self.said

    session = SimpleNamespace(conf=Conf())
    assert _n_partitions(session) == 200  # some clusters say so
    Conf.said = "31"
    assert _n_partitions(session) == 31


@pytest.fixture
def little_room(spark: Any) -> Iterator[None]:
    """Fail whatever sends the driver more than 64 KiB."""
    conf = spark.sparkContext._jsc.sc().conf()
    conf.set("spark.driver.maxResultSize", "64k")
    yield
    conf.remove("spark.driver.maxResultSize")


@pytest.mark.usefixtures("little_room")
@pytest.mark.thorough
def test_nothing_large_comes_to_the_driver(spark: Any, tmp_path: Path) -> None:
    frame = spark.range(12_000).selectExpr("md5(CAST(id % 6000 AS STRING)) AS person", "CAST(id % 7 AS STRING) AS page")
    for large in (frame, frame.select("person").distinct()):
        with pytest.raises(Exception, match="maxResultSize"):
            large.collect()
    # Neither rows nor people; with a ledger people would pass by, a partition at a time.
    published = publish_frame(frame, PLAN, Options(out=tmp_path / "out", **LONG), words=carried(silence(PLAN)))
    assert published.n_users == 6_000


@pytest.mark.parametrize("small", [True, False])
def test_only_a_small_list_of_attributes_goes_to_every_worker(
    frame: Any, small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not small:
        monkeypatch.setattr("dimly.spark.table._SMALL_LIST", 0)
    known = sorted({what for _, what in ROWS})[1:]
    engine = publishing.SparkEngine(PLAN, None, None, None, SILENT)  # type: ignore[arg-type]
    rows = frame.selectExpr("person AS u", "page AS a")
    coded = engine._coded(rows, Vocabulary.listed(known), coded=True)
    assert ("Broadcast" in coded._jdf.queryExecution().executedPlan().toString()) == small
    expected = sorted((who, known.index(what)) for who, what in ROWS if what in known)
    assert sorted(tuple(row) for row in coded.collect()) == expected


@pytest.mark.thorough
def test_decimal_ids_are_text_and_a_roster_may_be_a_frame(spark: Any, tmp_path: Path) -> None:
    ids = [decimal.Decimal(one) for one in ("-7", "12345678901234567890123", "0")]
    rows = [(one, "tea") for one in ids]
    frame = spark.createDataFrame(rows, "person decimal(38, 0), page string")
    roster = spark.createDataFrame([(ids[0],), (ids[0],), (decimal.Decimal(5),)], "person decimal(38, 0)")
    words = carried(silence(PLAN))
    publish_frame(frame, PLAN, Options(roster=roster, out=tmp_path / "out", **LONG), words=words)
    check(dimly.open_release(tmp_path / "out"), {"-7": {"tea": 1.0}, "5": {}})
    nobody = spark.createDataFrame([(None,)], "person decimal(38, 0)")
    with pytest.raises(DataError, match="roster must give everybody an id"):
        publish_frame(frame, PLAN, Options(roster=nobody, out=tmp_path / "no", **LONG))
    with pytest.raises(DataError, match=r"at least one person to publish\. The roster is empty"):
        publish_frame(frame, PLAN, Options(roster=nobody.where("false"), out=tmp_path / "no", **LONG))


def test_several_rows_of_one_person_are_refused_wherever_they_are(spark: Any, tmp_path: Path) -> None:
    plan = plan_for("hashing+laplace", categories=True, listed=False)
    options: dict[str, Any] = {"user": "person", "columns": ["color"], "out": tmp_path / "out"}
    rows = spark.createDataFrame([(1, "red"), (1, "blue")], "person int, color string").repartition(2, "color")
    for roster in (None, [1]):
        with pytest.raises(DataError, match="some people have several rows"):
            publish_frame(rows, plan, Options(roster=roster, **options))


def changing(frame: Any, flag: Path, change: Callable[[pa.Table], pa.Table]) -> Any:
    """Return the frame as it is, and changed from the moment that there is a file ``flag``."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            table = pa.Table.from_batches([batch])
            yield from (change(table) if flag.exists() else table).to_batches()

    run.__module__ = change.__module__ = "__main__"
    return frame.mapInArrow(run, frame.schema)


class Flagging(Silence):
    """Makes a file when publishing comes to a phase, and has Spark lose what it keeps, so that it is computed again."""

    def __init__(self, flag: Path, phase: str, spark: Any = None) -> None:
        self._flag, self._phase, self._spark = flag, phase, spark

    def phase(self, name: str) -> None:
        if name == self._phase:
            self._flag.touch()
            if self._spark is not None:
                lose_blocks(self._spark)


def lose_blocks(spark: Any) -> None:
    """Have Spark lose what it keeps, as it does with a machine."""
    context = spark.sparkContext
    blocks = context._jvm.org.apache.spark.SparkEnv.get().blockManager()
    for number in context._jsc.getPersistentRDDs():
        blocks.removeRdd(number)


def test_what_changes_later_is_not_read(spark: Any, tmp_path: Path) -> None:
    """A table is read once: what becomes of it afterwards does not matter, unless Spark loses what it read."""
    flag = tmp_path / "flag"
    frame = changing(spark.range(40).selectExpr("id AS person", "id % 5 AS page"), flag, swapped)
    options = Options(out=tmp_path / "out", progress=Flagging(flag, "numbering"), **LONG)
    publish_frame(frame, PLAN, options, words=carried(silence(PLAN)))
    check(dimly.open_release(tmp_path / "out"), {i: {str(i % 5): 1.0} for i in range(40)})


@pytest.mark.parametrize("roster", [None, list(range(40))])
def test_how_often_a_frame_is_computed(spark: Any, tmp_path: Path, roster: list[int] | None) -> None:
    """Once; a piece of it again, to see whether a roster leaves anything."""
    log = tmp_path / "log"

    def told(table: pa.Table) -> pa.Table:
        with log.open("a") as file:
            file.write(f"{len(table)}\n")
        return table

    told.__module__ = "__main__"
    log.touch()
    rows = spark.range(40, numPartitions=4).selectExpr("id AS person", "id % 5 AS page")
    options = Options(out=tmp_path / "out", roster=roster, **LONG)
    publish_frame(changing(rows, log, told), PLAN, options, words=carried(silence(PLAN)))
    read = sum(map(int, log.read_text().split()))
    assert read == 40 if roster is None else 40 < read <= 80


def swapped(table: pa.Table) -> pa.Table:
    person = [100 if one == 7 else one for one in table.column("person").to_pylist()]
    return table.set_column(0, "person", pa.array(person, table.schema.field(0).type))


@pytest.mark.parametrize("phase", ["numbering", "publishing"])
@pytest.mark.thorough(but=1)
def test_people_who_are_swapped_between_two_passes_are_noticed(spark: Any, tmp_path: Path, phase: str) -> None:
    """Person 7 becomes person 100: there are as many people in every part as before."""
    flag = tmp_path / "flag"
    frame = changing(spark.range(40).selectExpr("id AS person", "id % 5 AS page"), flag, swapped)
    with pytest.raises(DataError, match="the table must stay as it is while it is read"):
        publish_frame(frame, PLAN, Options(out=tmp_path / "out", progress=Flagging(flag, phase, spark), **LONG))
    assert left_over(tmp_path) == ["flag"]


def forgotten(table: pa.Table) -> pa.Table:
    person = [None if str(one) == "7" else one for one in table.column("person").to_pylist()]
    return table.set_column(0, "person", pa.array(person, table.schema.field(0).type))


@pytest.mark.parametrize("kind", ["string", "bigint"])
@pytest.mark.parametrize("roster", [None, list(range(40))])
@pytest.mark.thorough(but=1)
def test_ids_that_vanish_between_two_passes_are_noticed(
    spark: Any, tmp_path: Path, kind: str, roster: list[int] | None
) -> None:
    flag = tmp_path / "flag"
    rows = spark.range(40).selectExpr(f"CAST(nullif(id, -1) AS {kind}) AS person", "id % 5 AS page")
    options = Options(out=tmp_path / "out", roster=roster, progress=Flagging(flag, "publishing", spark), **LONG)
    with pytest.raises(DataError, match="the table must stay as it is while it is read"):
        publish_frame(changing(rows, flag, forgotten), PLAN, options)
    assert left_over(tmp_path) == ["flag"]


@pytest.mark.parametrize("roster", [None, list(range(40))])
@pytest.mark.thorough
def test_nobody_gets_a_second_row_between_two_passes(spark: Any, tmp_path: Path, roster: list[int] | None) -> None:
    plan = plan_for("hashing+laplace", categories=True, listed=False)
    flag = tmp_path / "flag"
    options: dict[str, Any] = {"user": "person", "columns": ["color"], "roster": roster}

    def doubled(table: pa.Table) -> pa.Table:
        return pa.concat_tables(
            [table, table.set_column(1, table.schema.field(1), pa.array(["blue"] * table.num_rows))]
        )

    frame = spark.range(40).selectExpr("id AS person", "'red' AS color")
    if roster is not None:
        publish_frame(frame, plan, Options(out=tmp_path / "sound", **options))
    with pytest.raises(DataError, match="the table must stay as it is while it is read"):
        publish_frame(
            changing(frame, flag, doubled),
            plan,
            Options(out=tmp_path / "out", progress=Flagging(flag, "publishing", spark), **options),
        )


@pytest.mark.parametrize("opened", ["by path", "by Spark"])
def test_files_that_change_before_noise_is_drawn_cost_nothing(spark: Any, tmp_path: Path, opened: str) -> None:
    stored, rows = tmp_path / "visits.parquet", long(PEOPLE)
    pq.write_table(rows, stored)
    times = stored.stat()
    Ledger.create(tmp_path / "ledger.db").add_dataset("visits", epsilon=3.0)
    source = read_files(spark, str(stored)) if opened == "by path" else FrameSource(spark.read.parquet(str(stored)))

    class Rewriting(Silence):
        def phase(self, name: str) -> None:
            if name == "numbering":  # as long as before, and with its time set back
                pq.write_table(rows, stored)
                os.utime(stored, ns=(times.st_atime_ns, times.st_mtime_ns))

    charged: dict[str, Any] = {"ledger": tmp_path / "ledger.db", "dataset": "visits", **LONG}
    with pytest.raises(DataError, match=r"visits\.parquet must not change while it is read"):
        publish_frame(source, PLAN, Options(out=tmp_path / "out", progress=Rewriting(), **charged))
    assert [charge.state for charge in Ledger(tmp_path / "ledger.db").status("visits").charges] == ["returned"]


def test_values_that_change_between_two_passes_are_refused(spark: Any, tmp_path: Path) -> None:
    """And if they were not, they would be clipped: see the tests of batches."""
    plan = dimly.Plan.of("counting+laplace", dimly.Budget(1.0), k=8, resolution=4)
    flag = tmp_path / "flag"

    def wild(table: pa.Table) -> pa.Table:
        much = [1998.0 if one % 2 else float("nan") for one in table.column("person").to_pylist()]
        return table.set_column(2, "much", pa.array(much))

    frame = spark.range(6).selectExpr("id AS person", "'tea' AS page", "CAST(0.5 AS double) AS much")
    options = Options(out=tmp_path / "out", value="much", progress=Flagging(flag, "publishing", spark), **LONG)
    with pytest.raises(DataError, match="the table must stay as it is while it is read"):
        publish_frame(changing(frame, flag, wild), plan, options)


@pytest.mark.thorough
def test_a_dry_run_writes_nothing(frame: Any, tmp_path: Path) -> None:
    with pytest.warns(PrivacyWarning):
        found = publish(frame, PLAN, dry_run=True, out=tmp_path / "out", **LONG)
    assert (found.n_users, found.bytes, found.path) == (None, None, None)
    with pytest.warns(PrivacyWarning):
        found = publish(frame, PLAN, dry_run=True, out=tmp_path / "out", roster=[*list(PEOPLE)[:1], "x"], **LONG)
    assert (found.n_users, found.path) == (2, None)
    assert left_over(tmp_path) == []


def test_what_a_call_may_say(frame: Any, tmp_path: Path) -> None:
    def refused(match: str, source: Any = frame, kind: type[Exception] = ParameterError, **options: Any) -> None:
        with pytest.raises(kind, match=match):
            publish_frame(source, PLAN, Options(**{"out": tmp_path / "out"} | LONG | options))

    refused("frame must be a Spark DataFrame, got list", source=[1])
    refused("delimiter must be left out with Spark: the DataFrame is a table already", delimiter=";")
    refused("memory must be left out with Spark: Spark's own settings say it", memory=1 << 30)
    refused("out must be a folder to make, got none", out=None)
    refused("out must be of a file system that Spark can write to, but no:/out is not", out="no:/out")
    charged: dict[str, Any] = {"ledger": tmp_path / "ledger.db", "dataset": "visits"}
    refused("append must be a folder that the driver", out=None, append="file://elsewhere/out", **charged)
    refused("user must name the column", user=None)
    refused("attribute must be a column of the table, got 'nothing'", attribute="nothing")
    intervals = frame.selectExpr("person", "INTERVAL '1' MONTH AS page", "page AS other")
    refused("columns must be of types that Arrow has, got 'page' of type interval month", source=intervals)
    refused("at least one person to publish. The table has no rows", source=frame.where("false"), kind=DataError)
    broken = frame.selectExpr("raise_error(person) AS person", "page")
    refused("Spark failed while reading the table", source=broken, kind=DimlyError)
    assert left_over(tmp_path) == []


def test_a_full_disk_fails_the_job_at_once(frame: Any, tmp_path: Path) -> None:
    def fill_up(attempt: int) -> None:
        writing: Any = importlib.import_module("dimly.spark.workers.parts")
        kept = writing.write_part

        def write_part(*_: object) -> None:
            writing.write_part = kept  # for those who come after
            raise OSError(28, "No space left on device")

        assert attempt == 0
        writing.write_part = write_part

    with pytest.raises(DimlyError, match=r"the disk of .* is full"):
        publish_frame(frame, PLAN, Options(out=tmp_path / "out", **LONG), words=in_worker(fill_up, SILENT))
    assert left_over(tmp_path) == []


def test_a_plan_of_lowered_sensitivity_is_refused_whoever_has_the_longest_row(spark: Any, tmp_path: Path) -> None:
    text, short, names = lowered(listed=True)
    frame = spark.createDataFrame([("ada", short), ("ben", short)], "person string, page string")
    with pytest.raises(ParameterError, match="The plan was changed"):
        publish(frame, Plan.from_json(text), **LONG, vocabulary=names, out=tmp_path / "release")
    assert not list(tmp_path.iterdir())


def test_the_frame_is_not_its_own_roster(frame: Any, spark: Any, tmp_path: Path) -> None:
    stored = tmp_path / "visits"
    frame.write.parquet(str(stored))
    read, again = (spark.read.parquet(str(stored)) for _ in range(2))
    (first,) = stored.glob("part-00000-*")
    own = "roster must be a public list, got the private table's own column 'person'"
    itself = "roster must be a public list, got the private table itself"
    for table, roster, text in (
        (frame, frame, itself),
        (frame, frame.select("person").distinct(), own),
        (frame.withColumnRenamed("page", "what"), frame.selectExpr("upper(person) AS who"), own),
        (read, again.where("page = 'tea'").groupBy("person").count(), own),
        (read, spark.read.schema("person string").parquet(str(first)), own),
        (read, spark.sql("WITH some AS (SELECT person FROM {it}) SELECT DISTINCT person FROM some", it=again), own),
    ):
        with pytest.raises(ParameterError, match=text):
            publish(table, PLAN, **(LONG | {"attribute": table.columns[1]}), roster=roster, out=tmp_path / "release")
    (tmp_path / "people").symlink_to(stored)
    for source in (read_files(spark, str(stored)), read.where("person IS NOT NULL")):
        for public in ("roster", "vocabulary"):
            with pytest.raises(ParameterError, match=f"{public} must be a public list, got the private table itself"):
                publish_frame(source, PLAN, Options(**(LONG | {public: tmp_path / "people"}), out=tmp_path / "release"))


def test_a_cell_cannot_pass_for_a_text_of_ours(spark: Any, tmp_path: Path) -> None:
    """Spark quotes cells that it cannot read; one that looks like a text of a worker's is not passed on."""
    spark.conf.set("spark.sql.ansi.enabled", "true")
    try:
        cells = [("ada", "12"), ("bob", "see dimly/wiki: Zelda is ill")]
        frame = spark.createDataFrame(cells, "person string, page string").selectExpr(
            "person", "CAST(page AS int) AS page"
        )
        with pytest.raises(DimlyError, match="Spark failed while reading the table") as caught:
            publish(frame, PLAN, out=tmp_path / "release", **LONG)
    finally:
        spark.conf.set("spark.sql.ansi.enabled", "false")
    assert "Zelda" not in str(caught.value)


@pytest.mark.parametrize("form", ["json", "csv"])
def test_names_that_rows_gave_are_not_listed(spark: Any, tmp_path: Path, form: str) -> None:
    if form == "json":
        (tmp_path / "rows").write_text('{"person": "ada", "Zelda": 1}\n{"person": "bob"}\n')
        frame = spark.read.json(str(tmp_path / "rows"))
    else:
        (tmp_path / "rows").write_text("Zelda,ill\nbob,tea\n")  # without a header
        frame = spark.read.csv(str(tmp_path / "rows"), header=True)
    for options in (LONG | {"user": "who"}, {"user": "who", "columns": "all"}, LONG | {"attribute": "zeld"}):
        with pytest.raises(ParameterError, match="must be a column of the table") as caught:
            publish(frame, PLAN, out=tmp_path / "release", **options)
        assert "Zelda" not in str(caught.value)


def test_a_first_line_that_is_no_header_is_not_shown(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("Zelda,ill\nbob,tea\n")
    with pytest.raises(ParameterError, match="It is not shown here, because it may be a person's row") as caught:
        publish_frame(read_files(spark, str(tmp_path / "rows.csv")), PLAN, Options(out=tmp_path / "release", **LONG))
    assert "Zelda" not in str(caught.value)


def test_csv_of_which_spark_guessed_the_types_is_refused(spark: Any, tmp_path: Path) -> None:
    """With one person's cell 7 everybody's 007 is the number 7, with tea it is text."""
    stored = str(tmp_path / "rows.csv")
    for cell in ("7", "tea"):
        Path(stored).write_text(f"person,page\nada,007\nbob,{cell}\n")
        guessed = spark.read.csv(stored, header=True, inferSchema=True)
        with pytest.raises(ParameterError, match="must not be CSV of which Spark guessed the types"):
            publish(guessed.where("person <> ''"), PLAN, out=tmp_path / "release", **LONG)
    check_types_are_stated(spark.read.schema("person string, page string").csv(stored, header=True))
    check_types_are_stated(spark.read.csv(stored, header=True))  # all of it is text


@pytest.mark.parametrize("column", ["person", "page"])
def test_text_that_is_no_utf_8_is_refused_before_noise(spark: Any, tmp_path: Path, column: str) -> None:
    Ledger.create(tmp_path / "ledger.db").add_dataset("visits", epsilon=3.0)
    other = "page" if column == "person" else "person"
    frame = spark.range(3).selectExpr(f"CAST(X'FF6164' AS string) AS {column}", f"'tea' AS {other}")
    charged: dict[str, Any] = {"ledger": tmp_path / "ledger.db", "dataset": "visits", **LONG}
    with pytest.raises(DataError, match="the table must hold what its types say, but some of it is no UTF-8"):
        publish(frame, PLAN, out=tmp_path / "release", **charged)
    assert [charge.state for charge in Ledger(tmp_path / "ledger.db").status("visits").charges] == ["returned"]


@pytest.mark.thorough
def test_a_few_rows_say_whether_anything_is_left(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = spark.range(2_000, numPartitions=1).selectExpr("id AS person", "IF(id = 1, 'tea', 'sea') AS page")
    joined: list[Any] = []

    def counted(*given: Any) -> Any:
        joined.append(given)
        return coded_list(*given)

    monkeypatch.setattr(placing, "coded_list", counted)
    for roster, listed, left, all_rows in (
        (None, ["sea"], True, False),  # no list is moved where a few rows answer
        ([1, 5_000], ["tea"], True, True),  # one row in 2,000
        ([2], ["jam"], False, True),
    ):
        plan = Plan.of("counting+laplace", dimly.Budget(2.0), k=8, vocabulary=listed)
        joined.clear()
        options = Options(roster=roster, vocabulary=listed, **LONG)
        with open_frame(FrameSource(frame), plan, options, Vocabulary.listed(listed), None) as table:
            assert table.fits_list() == left
            assert table.fits_roster() == (roster != [5_000])
        assert bool(joined) == all_rows


def test_a_roster_may_share_sources_with_the_table(spark: Any, tmp_path: Path) -> None:
    both = spark.createDataFrame(
        [("ada", "tea", "ben"), ("ben", "jam", "cy")], "person string, page string, host string"
    )
    customers = spark.createDataFrame([("ada", True), ("cy", True), ("ben", False)], "person string, agreed boolean")
    joined = both.join(customers, "person").where("agreed")
    counted = spark.range(40).selectExpr("id AS person", "id % 5 AS page")
    for table, roster in (
        (both, both.select("host")),  # another column
        (joined, customers.where("agreed").select("person")),  # the other side of a join
        (joined, both.select("person").union(spark.createDataFrame([("dee",)], "person string"))),  # and somebody else
        (counted, spark.range(40)),  # numbers that belong to nobody
    ):
        publishing.check_frames_apart(table, roster, "person")
    for name in ("visits", "customers"):
        pq.write_table(pa.table({"person": ["ada"], name: ["tea"]}), tmp_path / name)
    visits, agreed = (spark.read.parquet(str(tmp_path / name)) for name in ("visits", "customers"))
    options = Options(**LONG, roster=tmp_path / "customers")
    (own,) = publishing.own_files(FrameSource(visits.join(agreed, "person")), options)
    assert own.path == tmp_path / "visits"


def test_too_many_people_for_noisy_distances(spark: Any, tmp_path: Path) -> None:
    from tests.plans import N_USERS, plan_of  # noqa: PLC0415

    frame = spark.range(N_USERS + 1).selectExpr("id AS person", "'1' AS page")
    with pytest.raises(DataError, match=f"at most {N_USERS} people, as the plan says"):
        publish_frame(frame, plan_of("noisy-distances"), Options(out=tmp_path / "out", **LONG))


def test_without_noise_both_engines_write_the_same_bytes(tmp_path: Path, spark: Any) -> None:
    from tests.engines.engine import LocalEngine  # noqa: PLC0415

    people: Holdings = {f"user {i}": {str(i % 7): 1.0, str(i % 11): 1.0} for i in range(200)}
    for name, engine in (("a", LocalEngine()), ("b", SparkEngine())):
        engine.publish(long(people), PLAN, out=tmp_path / name, **LONG)
    files = [sorted(path for path in (tmp_path / name).rglob("*") if path.is_file()) for name in "ab"]
    assert [path.read_bytes() for path in files[0]] == [path.read_bytes() for path in files[1]]
    assert isinstance(pq.read_table(files[0][-1]), pa.Table)
