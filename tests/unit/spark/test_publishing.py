"""The Spark engine where a cluster differs from one machine: tasks that fail, partitions, ids; what a call may say."""

import decimal
import importlib
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.engines.engine import SparkEngine, carried, silence
from tests.engines.tables import Holdings, check, holdings, long, plan_for
from tests.folders import small_parts
from tests.spark import spark, uses_spark

import dimly
from dimly.curator.ledger import Ledger
from dimly.curator.randomness import Keystream
from dimly.errors import DataError, DimlyError, ParameterError, PrivacyWarning
from dimly.mechanisms.attributes import Vocabulary
from dimly.spark import placing, publishing
from dimly.spark.publishing import publish, publish_frame
from dimly.spark.table import _n_partitions

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


def in_worker(act: Callable[[int], None], make: Callable[[], Any]) -> Callable[[], Any]:
    """Return what makes words; on a worker ``act`` is told first which attempt it is."""

    def made() -> Any:
        from pyspark import TaskContext  # noqa: PLC0415

        task = TaskContext.get()  # the driver, too, makes words, to see whether they are secret
        words = make()
        if task is not None:
            act(task.attemptNumber())
        return words

    made.__module__ = act.__module__ = "__main__"
    return made


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

    def fail_at_first(attempt: int) -> None:
        with log.open("a") as file:
            file.write(f"{attempt}\n")
        if attempt == 0 and log.read_text().count("0") == 3:
            raise OSError(5, "Input/output error")

    folder = tmp_path / "folder"
    folder.mkdir()
    publish_frame(frame, PLAN, out=folder / "out", words=in_worker(fail_at_first, carried(silence(PLAN))), **LONG)
    assert log.read_text().split() == ["0"] * 3 + ["1"] * 4
    check(dimly.open_release(folder / "out"), PEOPLE)
    assert left_over(folder) == ["out"]


def test_a_worker_that_is_killed_costs_nothing_but_time(frame: Any, tmp_path: Path) -> None:
    def die_at_first(attempt: int) -> None:
        if attempt == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    publish_frame(frame, PLAN, out=tmp_path / "out", words=in_worker(die_at_first, SILENT), **LONG)
    check(dimly.open_release(tmp_path / "out"), PEOPLE)


@pytest.mark.usefixtures("small_parts")
def test_every_attempt_draws_words_of_its_own(frame: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placing, "_MOST_TASKS", 1)
    log = tmp_path / "log"
    cut_alike = carried(silence(PLAN))

    def draw() -> Any:
        cut_alike()
        words, seen = Keystream(), np.empty(4, np.uint64)
        words.fill(seen)
        with log.open("a") as file:
            file.write(f"{seen.tobytes().hex()}\n")
        return words

    def fail_late(attempt: int) -> None:
        if attempt == 0 and len(log.read_text().split()) == 4:
            raise OSError(5, "Input/output error")

    draw.__module__ = "__main__"
    publish_frame(frame, PLAN, out=tmp_path / "out", words=in_worker(fail_late, draw), **LONG)
    drawn = log.read_text().split()
    assert len(drawn) == 4 + 4 + 1  # the driver asks whether words are secret, too
    assert len(set(drawn)) == len(drawn)


def test_a_failed_job_leaves_nothing_and_stays_charged(frame: Any, tmp_path: Path) -> None:
    Ledger.create(tmp_path / "ledger.db").add_dataset("visits", epsilon=3.0)
    charged: dict[str, Any] = {"ledger": tmp_path / "ledger.db", "dataset": "visits", **LONG}

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(DimlyError, match=r"A worker failed while publishing: No space left.*Charge 1 stays"):
        publish_frame(frame, PLAN, out=tmp_path / "out", words=in_worker(fail, SILENT), **charged)
    assert left_over(tmp_path) == []
    # What cannot have to do with the noise is given back.
    missing = frame.union(frame.sparkSession.createDataFrame([(None, "tea")], frame.schema))
    with pytest.raises(DataError, match="some rows have no user"):
        publish_frame(missing, PLAN, out=tmp_path / "out", **charged)
    status = Ledger(tmp_path / "ledger.db").status("visits")
    assert [charge.state for charge in status.charges] == ["sampling", "returned"]
    assert left_over(tmp_path) == []


@pytest.mark.usefixtures("small_parts")
def test_one_more_attribute_leaves_the_shape_of_files(
    spark: Any, tmp_path: Path, settings: Callable[[str, str], None]
) -> None:
    settings("spark.sql.adaptive.enabled", "true")
    settings("spark.sql.adaptive.coalescePartitions.enabled", "true")
    shapes = []
    for name, rows in (("a", ROWS), ("b", [*ROWS, (ROWS[0][0], "one more")])):
        frame = spark.createDataFrame(rows, "person string, page string")
        publish_frame(frame, PLAN, out=tmp_path / name, words=carried(silence(PLAN)), **LONG)
        files = sorted(path for path in (tmp_path / name).rglob("*") if path.is_file())
        footers = [pq.read_metadata(path) for path in files if path.suffix == ".parquet"]
        groups = [[footer.row_group(i).num_rows for i in range(footer.num_row_groups)] for footer in footers]
        shapes.append(([str(path.relative_to(tmp_path / name)) for path in files], groups))
    assert shapes[0] == shapes[1]
    assert len(shapes[0][1]) == 4


@pytest.mark.parametrize("n_partitions", [2, 200])
def test_any_number_of_partitions_will_do(
    frame: Any, n_partitions: int, tmp_path: Path, settings: Callable[[str, str], None]
) -> None:
    from pyspark.sql import functions  # noqa: PLC0415

    settings("spark.sql.shuffle.partitions", str(n_partitions))
    # Of two, one is empty; of more, people's rows are spread over all.
    by = [functions.lit(0)] if n_partitions == 2 else []
    cut = frame.repartition(min(n_partitions, MOST_PARTITIONS), *by)
    publish_frame(cut, PLAN, out=tmp_path / "out", words=carried(silence(PLAN)), **LONG)
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
def test_nothing_large_comes_to_the_driver(spark: Any, tmp_path: Path) -> None:
    frame = spark.range(60_000).selectExpr(
        "md5(CAST(id % 20000 AS STRING)) AS person", "CAST(id % 7 AS STRING) AS page"
    )
    for large in (frame, frame.select("person").distinct()):
        with pytest.raises(Exception, match="maxResultSize"):
            large.collect()
    # Neither rows nor people; with a ledger people would pass by, a partition at a time.
    published = publish_frame(frame, PLAN, out=tmp_path / "out", words=carried(silence(PLAN)), **LONG)
    assert published.n_users == 20_000


@pytest.mark.parametrize("small", [True, False])
def test_only_a_small_list_of_attributes_goes_to_every_worker(
    frame: Any, small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not small:
        monkeypatch.setattr(publishing, "_SMALL_LIST", 0)
    known = sorted({what for _, what in ROWS})[1:]
    engine = publishing.SparkEngine(PLAN, None, None, None)  # type: ignore[arg-type]
    rows = frame.selectExpr("0 AS place", "person AS u", "page AS a")
    coded = engine._coded(rows, Vocabulary.listed(known), coded=True)
    assert ("Broadcast" in coded._jdf.queryExecution().executedPlan().toString()) == small
    expected = sorted((0, who, known.index(what)) for who, what in ROWS if what in known)
    assert sorted(tuple(row) for row in coded.collect()) == expected


def test_decimal_ids_are_text_and_a_roster_may_be_a_frame(spark: Any, tmp_path: Path) -> None:
    ids = [decimal.Decimal(one) for one in ("-7", "12345678901234567890123", "0")]
    rows = [(one, "tea") for one in ids]
    frame = spark.createDataFrame(rows, "person decimal(38, 0), page string")
    roster = spark.createDataFrame([(ids[0],), (ids[0],), (decimal.Decimal(5),)], "person decimal(38, 0)")
    words = carried(silence(PLAN))
    publish_frame(frame, PLAN, roster=roster, out=tmp_path / "out", words=words, **LONG)
    check(dimly.open_release(tmp_path / "out"), {"-7": {"tea": 1.0}, "5": {}})
    nobody = spark.createDataFrame([(None,)], "person decimal(38, 0)")
    with pytest.raises(DataError, match="roster must give everybody an id"):
        publish_frame(frame, PLAN, roster=nobody, out=tmp_path / "no", **LONG)
    with pytest.raises(DataError, match=r"at least one person to publish\. The roster is empty"):
        publish_frame(frame, PLAN, roster=nobody.where("false"), out=tmp_path / "no", **LONG)


def test_several_rows_of_one_person_are_refused_wherever_they_are(spark: Any, tmp_path: Path) -> None:
    plan = plan_for("hashing+laplace", categories=True, listed=False)
    options: dict[str, Any] = {"user": "person", "columns": ["color"], "out": tmp_path / "out"}
    rows = spark.createDataFrame([(1, "red"), (1, "blue")], "person int, color string").repartition(2, "color")
    for roster in (None, [1]):
        with pytest.raises(DataError, match="some people have several rows"):
            publish_frame(rows, plan, roster=roster, **options)


def test_a_dry_run_writes_nothing(frame: Any, tmp_path: Path) -> None:
    with pytest.warns(PrivacyWarning):
        found = publish(frame, PLAN, dry_run=True, out=tmp_path / "out", **LONG)
    assert (found.n_users, found.path) == (len(PEOPLE), None)
    assert left_over(tmp_path) == []


def test_what_a_call_may_say(frame: Any, tmp_path: Path) -> None:
    def refused(match: str, source: Any = frame, kind: type[Exception] = ParameterError, **options: Any) -> None:
        with pytest.raises(kind, match=match):
            publish_frame(source, PLAN, **({"out": tmp_path / "out"} | LONG | options))

    refused("frame must be a Spark DataFrame, got list", source=[1])
    refused("delimiter must be left out with Spark: the DataFrame is a table already", delimiter=";")
    refused("memory must be left out with Spark: Spark's own settings say it", memory=1 << 30)
    refused("out must be a folder to make, got none", out=None)
    refused("out must be of a file system that Spark can write to, and no:/out is not", out="no:/out")
    refused("append must be a folder that the driver", out=None, append="file://elsewhere/out")
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
        writing: Any = importlib.import_module("dimly.spark.writing")
        kept = writing.write_part

        def write_part(*_: object) -> None:
            writing.write_part = kept  # for those who come after
            raise OSError(28, "No space left on device")

        assert attempt == 0
        writing.write_part = write_part

    with pytest.raises(DimlyError, match=r"the disk of .* is full"):
        publish_frame(frame, PLAN, out=tmp_path / "out", words=in_worker(fill_up, SILENT), **LONG)
    assert left_over(tmp_path) == []


def test_too_many_people_for_noisy_distances(spark: Any, tmp_path: Path) -> None:
    from tests.plans import N_USERS, plan_of  # noqa: PLC0415

    frame = spark.range(N_USERS + 1).selectExpr("id AS person", "'1' AS page")
    with pytest.raises(DataError, match=f"at most {N_USERS} people, as the plan says"):
        publish_frame(frame, plan_of("noisy-distances"), out=tmp_path / "out", **LONG)


def test_without_noise_both_engines_write_the_same_bytes(tmp_path: Path, spark: Any) -> None:
    from tests.engines.engine import LocalEngine  # noqa: PLC0415

    people: Holdings = {f"user {i}": {str(i % 7): 1.0, str(i % 11): 1.0} for i in range(200)}
    for name, engine in (("a", LocalEngine()), ("b", SparkEngine())):
        engine.publish(long(people), PLAN, out=tmp_path / name, **LONG)
    files = [sorted(path for path in (tmp_path / name).rglob("*") if path.is_file()) for name in "ab"]
    assert [path.read_bytes() for path in files[0]] == [path.read_bytes() for path in files[1]]
    assert isinstance(pq.read_table(files[0][-1]), pa.Table)
