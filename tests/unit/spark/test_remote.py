"""Releases in a file system of Spark's own: whole or not there, whatever fails."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.lines import run
from tests.engines.engine import carried, silence
from tests.engines.tables import check, holdings, long, plan_for
from tests.folders import small_parts
from tests.plans import plan_of
from tests.spark import spark, uses_spark
from tests.unit.spark.failing_workers import failing_once, in_worker
from tests.unit.spark.fetching import fetched

import dimly
from dimly.curator.ledger.ledger import Ledger
from dimly.curator.options import Options
from dimly.curator.publication import PublishOutcome, publish_table
from dimly.errors import DimlyError, ParameterError, PrivacyWarning
from dimly.release.format import MANIFEST
from dimly.release.parts import WrittenPart, encode_part
from dimly.spark import hadoop, remote
from dimly.spark import table as placing
from dimly.spark.hadoop import HadoopFolder, is_address
from dimly.spark.publishing import publish, publish_frame
from dimly.spark.remote import RemoteWriter
from dimly.spark.workers.parts import SentPart

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


def left_over(tmp_path: Path) -> list[str]:
    """Return what can be found; not Hadoop's own checksums of local files."""
    found = (tmp_path / "there").rglob("*")
    return sorted(str(path.relative_to(tmp_path / "there")) for path in found if path.suffix != ".crc")


@pytest.mark.parametrize("inside", ["new", "sketches/new"])
def test_nothing_is_made_inside_another_release(spark: Any, place: str, inside: str, tmp_path: Path) -> None:
    (tmp_path / "there" / "other" / "sketches").mkdir(parents=True)
    HadoopFolder(spark, f"{place}/other/{inside}").check()  # no release yet
    (tmp_path / "there" / "other" / MANIFEST).touch()
    with pytest.raises(ParameterError, match=rf"must not be inside another release, but {place}/other is one"):
        HadoopFolder(spark, f"{place}/other/{inside}").check()


@pytest.mark.usefixtures("small_parts")
@pytest.mark.thorough(but=1)
def test_a_release_elsewhere_is_like_any_other(
    spark: Any, frame: Any, place: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placing, "_MOST_TASKS", 2)  # several parts in each task
    Ledger.create(tmp_path / "ledger.db").add_dataset("visits", epsilon=3.0)
    options: dict[str, Any] = {"ledger": tmp_path / "ledger.db", "dataset": "visits", **LONG}
    words = carried(silence(PLAN))
    published = publish_frame(frame, PLAN, Options(out=f"{place}/{kind}/", **options), words=words)
    assert published.path == f"{place}/{kind}"
    parts = [f"{kind}/sketches/part-{index:06d}.parquet" for index in range(4)]
    assert left_over(tmp_path) == [kind, f"{kind}/README.md", f"{kind}/{MANIFEST}", f"{kind}/sketches", *parts]
    assert (tmp_path / "there" / kind).stat().st_mode & 0o755 == 0o755
    check(dimly.open_release(fetched(spark, published.path, tmp_path)), PEOPLE)
    publish_table(long(PEOPLE), PLAN, Options(out=tmp_path / "here", **LONG), words=lambda: silence(PLAN))
    for name in (MANIFEST, *(part.removeprefix(f"{kind}/") for part in parts)):
        if name != MANIFEST:  # which knows of the ledger
            assert (tmp_path / "copy" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()
    (charge,) = Ledger(tmp_path / "ledger.db").status("visits").charges
    assert (charge.state, charge.release_id) == ("visible", published.release_id)


@pytest.mark.parametrize("public", ["projection", "directions"])
@pytest.mark.thorough(but=1)
def test_secret_noise_and_all_that_is_public_verify(spark: Any, place: str, tmp_path: Path, public: str) -> None:
    listed: dict[str, Any] = {"vocabulary": ["jam", "tea"]}
    plan = dimly.Plan.of("gaussian+gaussian", dimly.Budget(1.0, 1e-6), k=8, **listed)
    if public == "directions":
        listed = {"directions": dimly.Directions.of_weights(["jam", "tea"], [0.5, 1.0], origin="tests", count=4)}
        plan = dimly.Plan.of("directions+laplace", dimly.Budget(1.0), **listed)
    frame = spark.createDataFrame([("PAR1", "tea"), ("ö", "jam")], "person string, page string")
    with pytest.warns(PrivacyWarning):
        published = publish(frame, plan, out=f"{place}/a", **listed, **LONG)
    assert isinstance(published, PublishOutcome)
    release = dimly.open_release(fetched(spark, f"{place}/a", tmp_path), verify=True)
    assert release.private
    assert release.users.tolist() == ["PAR1", "ö"]
    assert f"a/{public}.parquet" in left_over(tmp_path)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.thorough
def test_only_the_attempt_that_counts_is_published(
    spark: Any, frame: Any, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placing, "_MOST_TASKS", 1)
    log = tmp_path / "log"
    words = in_worker(failing_once(log), carried(silence(PLAN)))
    publish_frame(frame, PLAN, Options(out=f"{place}/out", **LONG), words=words)
    assert log.read_text().split() == ["0"] * 3 + ["1"] * 4
    check(dimly.open_release(fetched(spark, f"{place}/out", tmp_path)), PEOPLE)
    assert left_over(tmp_path)[:3] == ["out", "out/README.md", f"out/{MANIFEST}"]


@pytest.mark.thorough
def test_a_failed_job_leaves_nothing_and_stays_charged(frame: Any, place: str, tmp_path: Path) -> None:
    Ledger.create(tmp_path / "ledger.db").add_dataset("visits", epsilon=3.0)
    charged: dict[str, Any] = {"ledger": tmp_path / "ledger.db", "dataset": "visits", **LONG}
    modes = tmp_path / "modes"

    def fail(_: int) -> None:
        (hidden,) = (tmp_path / "there").iterdir()
        modes.write_text(f"{hidden.name} {hidden.stat().st_mode & 0o777:o}")
        raise OSError(5, "Input/output error")

    with pytest.raises(DimlyError, match=r"(?s)A worker failed while publishing: Input/output.*Charge 1 stays"):
        publish_frame(
            frame, PLAN, Options(out=f"{place}/out", **charged), words=in_worker(fail, carried(silence(PLAN)))
        )
    assert re.fullmatch(r"\.dimly-staging-[0-9a-f]{32} 700", modes.read_text())
    (charge,) = Ledger(tmp_path / "ledger.db").status("visits").charges
    assert charge.state == "sampling"
    assert left_over(tmp_path) == []


def test_a_task_that_the_file_system_failed_is_not_tried_with_other_noise(
    frame: Any, place: str, tmp_path: Path
) -> None:
    def obstruct_at_first(attempt: int) -> None:
        import shutil  # noqa: PLC0415 - on a worker
        import time  # noqa: PLC0415

        (hidden,) = (tmp_path / "there").iterdir()
        while attempt == 0:  # on a busy machine Spark may come later than the worker
            folders = list((hidden / "attempts").glob("_temporary/0/_temporary/*"))
            for folder in folders:
                shutil.rmtree(folder)
                folder.touch()
            if folders:
                break
            time.sleep(0.01)

    words = in_worker(obstruct_at_first, carried(silence(PLAN)))
    with pytest.raises(DimlyError, match="The file system failed a task"):
        publish_frame(frame, PLAN, Options(out=f"{place}/out", **LONG), words=words)
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


@pytest.fixture
def sealed(spark: Any, place: str, kind: str, tmp_path: Path) -> Iterator[RemoteWriter]:
    """Return the writer of a sealed release of one part, as Spark would have written it."""
    plan = plan_of("counting+laplace")
    with RemoteWriter(HadoopFolder(spark, f"{place}/out"), tmp_path / "local", plan) as writer:
        assert writer._remote.renames == (kind == "renames")
        writer.user_type = "int64"
        values = np.zeros((3, *plan.published_shape(1)[1:]), plan.published_dtype)
        record, content = encode_part(0, pa.array([1, 2, 3]), values, plan)
        writer._remote.put(f"{writer._hidden}/attempt", content.to_pybytes())
        writer._sources = {record.path: f"{writer._hidden}/attempt"}
        writer.adopt_part(WrittenPart(0, Path(), record, 1, 3, None))
        yield writer


WHOLE = ["out", "out/README.md", f"out/{MANIFEST}", "out/sketches", "out/sketches/part-000000.parquet"]


@pytest.mark.parametrize("broken", ["rename_folder", "put", "_move", "make"])
def test_a_file_system_that_fails_at_the_end_leaves_nothing(
    sealed: RemoteWriter, broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: HadoopFolder, *_: object) -> None:
        raise self._failure("IOException")

    def finish() -> None:
        sealed.seal(roster="given")
        sealed.publish()

    if broken == "rename_folder" and not sealed._remote.renames:
        broken = "put"
    with monkeypatch.context() as patch:
        patch.setattr(HadoopFolder, broken, fail)
        with pytest.raises(DimlyError, match=r"out cannot be written: IOException\."):
            finish()
        assert not sealed.is_published
    sealed.discard()
    assert left_over(tmp_path) == []


def test_an_answer_that_was_lost_is_looked_for(
    sealed: RemoteWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "rename_folder" if sealed._remote.renames else "put"
    done: Callable[..., None] = getattr(HadoopFolder, name)

    def lose(self: HadoopFolder, *arguments: Any) -> None:
        done(self, *arguments)
        if name == "rename_folder" or arguments[0].endswith(MANIFEST):  # before that, nothing is a release yet
            raise self._failure("SocketTimeoutException")

    sealed.seal(roster="given")
    with monkeypatch.context() as patch:
        patch.setattr(HadoopFolder, name, lose)
        sealed.publish()
    sealed.discard()
    assert sealed.is_published
    assert left_over(tmp_path) == WHOLE


def test_a_file_system_that_does_not_answer_may_have_published(
    sealed: RemoteWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: HadoopFolder, *_: object) -> None:
        raise self._failure("ConnectException")

    sealed.seal(roster="given")
    sealed.publish()
    with monkeypatch.context() as patch:
        patch.setattr(HadoopFolder, "read", fail)
        assert sealed.is_published is None
        sealed.discard()
    assert left_over(tmp_path) == WHOLE
    with monkeypatch.context() as patch:
        patch.setattr(HadoopFolder, "remove", fail)
        with pytest.warns(PrivacyWarning, match="holds what was not published"):
            sealed.__exit__(None, None, None)


def test_a_target_that_appears_meanwhile_is_left_alone(sealed: RemoteWriter, tmp_path: Path) -> None:
    sealed.seal(roster="given")
    (tmp_path / "there" / "out").mkdir()
    with pytest.raises(ParameterError, match=r"out must be a new folder, but \S*/out (has appeared|exists)"):
        sealed.publish()
    sealed.discard()
    assert left_over(tmp_path) == ["out"]


def test_somebody_elses_file_is_left_alone(
    sealed: RemoteWriter, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed.seal(roster="given")
    theirs = tmp_path / "there" / "out" / "sketches" / "part-000000.parquet"
    theirs.parent.mkdir(parents=True)
    theirs.touch()
    monkeypatch.setattr(HadoopFolder, "check", lambda _: None)  # it has been made in the same moment
    with pytest.raises(DimlyError, match="somebody else writes there" if kind == "moves" else "has appeared meanwhile"):
        sealed.publish()
    sealed.discard()
    assert left_over(tmp_path) == ["out", "out/sketches", "out/sketches/part-000000.parquet"]


def test_it_is_sealed_before_it_is_published(sealed: RemoteWriter) -> None:
    with pytest.raises(ValueError, match="must be sealed before"):
        sealed.publish()


def test_a_hidden_folder_that_cannot_be_made(
    spark: Any, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: HadoopFolder, *_: object) -> None:
        raise self._failure("AccessControlException")

    monkeypatch.setattr(HadoopFolder, "make_private", fail)
    with pytest.raises(DimlyError, match="cannot be written: AccessControlException"):
        RemoteWriter(HadoopFolder(spark, f"{place}/out"), tmp_path / "local", PLAN)
    assert {path.name for path in tmp_path.iterdir()} == {"there"}


def test_tasks_that_run_on_keep_their_folder(
    spark: Any, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "_PATIENCE", 0.2)
    with RemoteWriter(HadoopFolder(spark, f"{place}/out"), tmp_path / "local", PLAN) as writer:
        writer._running = lambda: True
        with pytest.raises(DimlyError, match="cannot be removed: tasks still run"):
            writer.discard()
        assert len(left_over(tmp_path)) == 1
        writer._running = lambda: False
    assert left_over(tmp_path) == []


@pytest.mark.thorough
def test_files_that_came_out_otherwise_are_refused(
    frame: Any, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HadoopFolder, "sizes", lambda *_: {})
    with pytest.raises(DimlyError, match="files have other sizes than were written"):
        publish_frame(frame, PLAN, Options(out=f"{place}/out", **LONG), words=carried(silence(PLAN)))
    assert left_over(tmp_path) == []


def test_what_an_address_may_be(spark: Any, frame: Any, place: str, tmp_path: Path) -> None:
    assert [is_address(one) for one in ("hdfs://a/b", "dbfs:/b", "file:/b", "b", "C:/b", Path("b"))] == [
        True, True, False, False, False, False
    ]  # fmt: skip

    def refused(match: str, out: str = f"{place}/out", **options: Any) -> None:
        with pytest.raises(ParameterError, match=match) as caught:
            publish_frame(frame, PLAN, Options(**{"out": out} | LONG | options))
        assert "secret" not in str(caught.value)

    refused("overwrite must be left out where out is an address", overwrite=True)
    refused("update must be left out where out is an address", update=tmp_path)
    charged = {"ledger": tmp_path / "ledger.db", "dataset": "visits"}
    with pytest.raises(ParameterError, match=r"append must be a folder that .* see, got an address of 'hdfs'"):
        publish_frame(frame, PLAN, Options(append="hdfs://a/b", **LONG, **charged))  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="out must be text where it is an address, got a PosixPath"):
        publish_frame(frame, PLAN, Options(out=Path(f"{place}/out"), **LONG))
    refused("out must not hold a password", "hdfs://me:secret@host/out")
    refused("out must hold no spaces and none of", f"{place}/o*t")
    refused("out must name a new folder", "hdfs://host/")
    refused("out must name a new folder", f"{place}/..")
    refused("out must be of a file system that Spark can write to", "nosuch://host/out")
    refused("out must be in a folder that exists", f"{place}/none/out")
    refused("out must be in a folder that exists", f"{place}/none/out", dry_run=True)
    (tmp_path / "there" / "out").mkdir()
    refused("out must be a new folder, but .*/out exists", dry_run=True)
    refused("out must be a new folder, but .*/out exists")
    found = publish_frame(frame, PLAN, Options(out=f"{place}/new", dry_run=True, **LONG))
    assert (found.n_users, found.path) == (None, None)
    assert left_over(tmp_path) == ["out"]
    assert HadoopFolder(spark, "file:///a").parent == "file:///"
    assert HadoopFolder(spark, "file:/a/b").beside("c") == "file:/a/c"


def test_the_command_takes_an_address(spark: Any, place: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({"person": [1, 2], "page": ["tea", "jam"]}), tmp_path / "visits.parquet")
    (tmp_path / "plan.json").write_text(PLAN.to_json())
    options = f"--plan {tmp_path}/plan.json --user person --attribute page --engine spark --out {place}/out --json"
    result = run("publish", f"{tmp_path}/visits.parquet", *options.split())
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["release"] == f"{place}/out"
    assert run("verify", str(fetched(spark, f"{place}/out", tmp_path))).exit_code == 0


def test_a_file_that_cannot_be_written_is_not_left(spark: Any, place: str, tmp_path: Path) -> None:
    folder = HadoopFolder(spark, f"{place}/out")
    folder.put(f"{place}/file", b"a")
    with pytest.raises(DimlyError, match="cannot be written: FileAlreadyExistsException"):
        folder.put(f"{place}/file", b"b")
    assert folder.read(f"{place}/file") == b"a"
    with pytest.raises(DimlyError, match="cannot be written: AttributeError"):
        folder.put(f"{place}/other", [b"a", object()])  # type: ignore[arg-type]
    with pytest.raises(DimlyError, match="somebody else writes there"):
        folder.move_all([(f"{place}/file", f"{place}/file")], [])
    with pytest.raises(DimlyError, match="the file system refused"):
        folder._done(False)
    assert left_over(tmp_path) == ["file"]
