"""Releases in a file system of Spark's own: whole or not there, whatever fails."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.engines.engine import carried, silence
from tests.engines.tables import check, holdings, plan_for
from tests.folders import small_parts
from tests.spark import spark, uses_spark
from tests.unit.spark.test_publishing import in_worker

import dimly
from dimly.curator.ledger import Ledger
from dimly.errors import DataError, DimlyError, ParameterError, PrivacyWarning
from dimly.release.layout import MANIFEST
from dimly.spark import hadoop, placing, remote
from dimly.spark.hadoop import HadoopFolder, is_address
from dimly.spark.publishing import publish, publish_frame
from dimly.spark.writing import SentPart

__all__ = ["small_parts", "spark"]  # fixtures

PLAN = plan_for("hashing+laplace", listed=False)
LONG: dict[str, Any] = {"user": "person", "attribute": "page"}
PEOPLE = holdings()
pytestmark = uses_spark


@pytest.fixture(params=["renames", "moves"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have a file system that renames folders in one step, and one that is taken for an object store."""
    name = str(request.param)
    if name == "moves":
        monkeypatch.setattr(hadoop, "_RENAMES", set())
    return name


@pytest.fixture
def place(spark: Any, tmp_path: Path) -> str:
    """Return the address of a folder behind a mount table of Hadoop's, which no path of this machine is."""
    (tmp_path / "there").mkdir()
    name = f"fs.viewfs.mounttable.{tmp_path.name.replace('_', '-')}.link./data"
    spark.sparkContext._jsc.hadoopConfiguration().set(name, (tmp_path / "there").as_uri())
    return f"viewfs://{tmp_path.name.replace('_', '-')}/data"


@pytest.fixture
def frame(spark: Any) -> Any:
    """Return a table as a frame."""
    return spark.createDataFrame(
        [(who, what) for who, held in PEOPLE.items() for what in held], "person string, page string"
    )


def fetched(spark: Any, address: str, folder: Path) -> Path:
    """Copy a folder to this machine as ``hdfs dfs -get`` does."""
    path = spark.sparkContext._jvm.org.apache.hadoop.fs.Path
    files = path(address).getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    files.copyToLocalFile(False, path(address), path(str(folder / "copy")), True)
    return folder / "copy"


def left_over(tmp_path: Path) -> list[str]:
    """Return what can be found; not Hadoop's own checksums of local files."""
    found = (tmp_path / "there").rglob("*")
    return sorted(str(path.relative_to(tmp_path / "there")) for path in found if path.suffix != ".crc")


@pytest.mark.usefixtures("small_parts")
def test_a_release_elsewhere_is_like_any_other(
    spark: Any, frame: Any, place: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placing, "_MOST_TASKS", 2)  # several parts in each task
    Ledger.create(tmp_path / "ledger.db").add_dataset("visits", epsilon=3.0)
    options: dict[str, Any] = {"ledger": tmp_path / "ledger.db", "dataset": "visits", **LONG}
    words = carried(silence(PLAN))
    published = publish_frame(frame, PLAN, out=f"{place}/{kind}/", words=words, **options)
    assert published.path == f"{place}/{kind}"
    parts = [f"{kind}/sketches/part-{index:06d}.parquet" for index in range(4)]
    assert left_over(tmp_path) == [kind, f"{kind}/{MANIFEST}", f"{kind}/sketches", *parts]
    assert (tmp_path / "there" / kind).stat().st_mode & 0o755 == 0o755
    check(dimly.open_release(fetched(spark, published.path, tmp_path)), PEOPLE)
    publish_frame(frame, PLAN, out=tmp_path / "here", words=words, **LONG)
    for name in (MANIFEST, *(part.removeprefix(f"{kind}/") for part in parts)):
        if name != MANIFEST:  # which knows of the ledger
            assert (tmp_path / "copy" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()
    (charge,) = Ledger(tmp_path / "ledger.db").status("visits").charges
    assert (charge.state, charge.release_id) == ("visible", published.release_id)


def test_secret_noise_a_list_and_the_rows_of_p_verify(spark: Any, place: str, tmp_path: Path) -> None:
    plan = dimly.Plan.of("gaussian+gaussian", dimly.Budget(1.0, 1e-6), k=8, vocabulary=["jam", "tea"])
    frame = spark.createDataFrame([("PAR1", "tea"), ("ö", "jam")], "person string, page string")
    with pytest.warns(PrivacyWarning):
        published = publish(frame, plan, vocabulary=["jam", "tea"], out=f"{place}/a", **LONG)
    assert isinstance(published, dimly.curator.Published)
    release = dimly.open_release(fetched(spark, f"{place}/a", tmp_path), verify=True)
    assert release.private
    assert release.users.tolist() == ["PAR1", "ö"]
    assert "a/projection.parquet" in left_over(tmp_path)


@pytest.mark.usefixtures("small_parts")
def test_only_the_attempt_that_counts_is_published(
    spark: Any, frame: Any, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placing, "_MOST_TASKS", 1)
    log = tmp_path / "log"

    def fail_at_first(attempt: int) -> None:
        with log.open("a") as file:
            file.write(f"{attempt}\n")
        if attempt == 0 and log.read_text().count("0") == 3:
            raise OSError(5, "Input/output error")

    words = in_worker(fail_at_first, carried(silence(PLAN)))
    publish_frame(frame, PLAN, out=f"{place}/out", words=words, **LONG)
    assert log.read_text().split() == ["0"] * 3 + ["1"] * 4
    check(dimly.open_release(fetched(spark, f"{place}/out", tmp_path)), PEOPLE)
    assert left_over(tmp_path)[:2] == ["out", f"out/{MANIFEST}"]


def test_a_failed_job_leaves_nothing_and_stays_charged(frame: Any, place: str, tmp_path: Path) -> None:
    Ledger.create(tmp_path / "ledger.db").add_dataset("visits", epsilon=3.0)
    charged: dict[str, Any] = {"ledger": tmp_path / "ledger.db", "dataset": "visits", **LONG}
    modes = tmp_path / "modes"

    def fail(_: int) -> None:
        (hidden,) = (tmp_path / "there").iterdir()
        modes.write_text(f"{hidden.name} {hidden.stat().st_mode & 0o777:o}")
        raise OSError(5, "Input/output error")

    with pytest.raises(DimlyError, match=r"A worker failed while publishing: Input/output.*Charge 1 stays"):
        publish_frame(frame, PLAN, out=f"{place}/out", words=in_worker(fail, carried(silence(PLAN))), **charged)
    assert re.fullmatch(r"\.dimly-staging-[0-9a-f]{32} 700", modes.read_text())
    missing = frame.union(frame.sparkSession.createDataFrame([(None, "tea")], frame.schema))
    with pytest.raises(DataError, match="some rows have no user"):
        publish_frame(missing, PLAN, out=f"{place}/out", **charged)
    status = Ledger(tmp_path / "ledger.db").status("visits")
    assert [charge.state for charge in status.charges] == ["sampling", "returned"]
    assert left_over(tmp_path) == []


def test_a_task_that_the_file_system_failed_is_not_tried_with_other_noise(
    frame: Any, place: str, tmp_path: Path
) -> None:
    def obstruct_at_first(attempt: int) -> None:
        import shutil  # noqa: PLC0415 - on a worker

        (hidden,) = (tmp_path / "there").iterdir()
        folder = hidden / "attempts" / "_temporary" / "0" / "_temporary"
        if attempt == 0:
            shutil.rmtree(folder)
            folder.touch()
        elif folder.is_file():
            folder.unlink()

    words = in_worker(obstruct_at_first, carried(silence(PLAN)))
    with pytest.raises(DimlyError, match="The file system failed a task"):
        publish_frame(frame, PLAN, out=f"{place}/out", words=words, **LONG)
    assert left_over(tmp_path) == []


def test_attempts_that_nobody_explains_are_refused(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    one = SentPart(None, 3, 7, 1)  # type: ignore[arg-type]

    def explained(*attempts: tuple[int, str | None]) -> None:
        monkeypatch.setattr(remote, "_other_attempts", lambda *_: list(attempts))
        remote._check_attempts(spark.sparkContext, [one])

    for harmless in (
        None,  # a copy that was killed
        "ExecutorLostFailure (executor 1 exited) Reason: lost",
        "FetchFailed(BlockManagerId(1))",
        "org.apache.spark.SparkException: Failed\n\tat x\nCaused by: org.apache.spark.api.python.PythonException: x",
        "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
    ):
        explained((7, harmless))
    for failure in (
        "",
        "java.io.IOException: No space left on device",
        "x\nCaused by: java.io.IOException\n\tSuppressed: org.apache.spark.api.python.PythonException",
        "x\nCaused by: java.io.IOException: ExecutorLostFailure",
    ):
        with pytest.raises(DimlyError, match="The file system failed a task"):
            explained((7, failure))
    for others in ([], [(6, None)]):
        with pytest.raises(DimlyError, match="Spark does not say why it tried a task again"):
            explained(*others)


@pytest.mark.parametrize("broken", ["rename_folder", "put", "_move"])
def test_a_file_system_that_fails_at_the_end_leaves_nothing(
    frame: Any, place: str, kind: str, broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if (broken, kind) == ("rename_folder", "moves"):
        pytest.skip("nothing is renamed")
    Ledger.create(tmp_path / "ledger.db").add_dataset("visits", epsilon=3.0)

    def fail(self: HadoopFolder, *_: object) -> None:
        raise self._failure("IOException")

    monkeypatch.setattr(HadoopFolder, broken, fail)
    words = carried(silence(PLAN))
    with pytest.raises(DimlyError, match=r"out cannot be written: IOException\. Charge 1 stays"):
        publish_frame(
            frame, PLAN, out=f"{place}/out", words=words, ledger=tmp_path / "ledger.db", dataset="visits", **LONG
        )
    assert left_over(tmp_path) == []


def test_an_answer_that_was_lost_is_looked_for(
    frame: Any, place: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "rename_folder" if kind == "renames" else "put"
    done: Callable[..., None] = getattr(HadoopFolder, name)

    def lose(self: HadoopFolder, *arguments: Any) -> None:
        done(self, *arguments)
        raise self._failure("SocketTimeoutException")

    monkeypatch.setattr(HadoopFolder, name, lose)
    publish_frame(frame, PLAN, out=f"{place}/out", words=carried(silence(PLAN)), **LONG)
    assert left_over(tmp_path) == ["out", f"out/{MANIFEST}", "out/sketches", "out/sketches/part-000000.parquet"]


def test_a_target_that_appears_meanwhile_is_left_alone(frame: Any, place: str, kind: str, tmp_path: Path) -> None:
    taken = tmp_path / "there" / "out" / "sketches"

    def take(_: int) -> None:
        taken.mkdir(parents=True, exist_ok=True)
        (taken / "part-000000.parquet").write_text("theirs")

    with pytest.raises(ParameterError, match=r"out must be a new folder, and \S*/out (has appeared|is there)"):
        publish_frame(frame, PLAN, out=f"{place}/out", words=in_worker(take, carried(silence(PLAN))), **LONG)
    assert left_over(tmp_path) == ["out", "out/sketches", "out/sketches/part-000000.parquet"], kind


def test_tasks_that_run_on_keep_their_folder(spark: Any, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_PATIENCE", 0.0)
    writer = remote.RemoteWriter(HadoopFolder(spark, f"{place}/out"), Path(), PLAN)
    writer._running = lambda: True
    with pytest.raises(DimlyError, match="cannot be removed: tasks still run"):
        writer.discard()


def test_files_that_came_out_otherwise_are_refused(
    frame: Any, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HadoopFolder, "sizes", lambda *_: {})
    with pytest.raises(DimlyError, match="files have other sizes than were written"):
        publish_frame(frame, PLAN, out=f"{place}/out", words=carried(silence(PLAN)), **LONG)
    assert left_over(tmp_path) == []


def test_what_an_address_may_be(spark: Any, frame: Any, place: str, tmp_path: Path) -> None:
    assert [is_address(one) for one in ("hdfs://a/b", "dbfs:/b", "file:/b", "b", "C:/b", Path("b"))] == [
        True, True, False, False, False, False
    ]  # fmt: skip

    def refused(match: str, out: str = f"{place}/out", **options: Any) -> None:
        with pytest.raises(ParameterError, match=match) as caught:
            publish_frame(frame, PLAN, **({"out": out} | LONG | options))
        assert "secret" not in str(caught.value)

    for name in ("overwrite", "append", "update"):
        refused(f"{name} must be left out where out is an address", **{name: True})
    refused("out must not hold a password", "hdfs://me:secret@host/out")
    refused("out must hold no spaces and none of", f"{place}/o*t")
    refused("out must name a new folder", "hdfs://host/")
    refused("out must name a new folder", f"{place}/..")
    refused("out must be of a file system that Spark can write to", "nosuch://host/out")
    refused("out must be in a folder that exists", f"{place}/none/out")
    refused("out must be in a folder that exists", f"{place}/none/out", dry_run=True)
    (tmp_path / "there" / "out").mkdir()
    refused("out must be a new folder, and .*/out is there already", dry_run=True)
    refused("out must be a new folder, and .*/out is there already")
    found = publish_frame(frame, PLAN, out=f"{place}/new", dry_run=True, **LONG)
    assert (found.n_users, found.path) == (len(PEOPLE), None)
    assert left_over(tmp_path) == ["out"]
    assert HadoopFolder(spark, "file:///a").parent == "file:///"
    assert HadoopFolder(spark, "file:/a/b").beside("c") == "file:/a/c"


def test_a_file_that_cannot_be_written_is_not_left(spark: Any, place: str, tmp_path: Path) -> None:
    folder = HadoopFolder(spark, f"{place}/out")
    folder.put(f"{place}/file", b"a")
    with pytest.raises(DimlyError, match="cannot be written: FileAlreadyExistsException"):
        folder.put(f"{place}/file", b"b")
    assert folder.read(f"{place}/file") == b"a"
    with pytest.raises(DimlyError, match="cannot be written: TypeError"):
        folder.put(f"{place}/other", [b"a", object()])  # type: ignore[arg-type]
    with pytest.raises(DimlyError, match="somebody else writes there"):
        folder.move_all([(f"{place}/file", f"{place}/file")], [])
    with pytest.raises(DimlyError, match="the file system refused"):
        folder._done(False)
    assert left_over(tmp_path) == ["file"]
