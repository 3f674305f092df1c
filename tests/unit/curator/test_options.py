"""The options of publishing: spelled alike for people, for type checkers and in signatures."""

import inspect
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from dimly.api import publish
from dimly.curator import options as module
from dimly.curator.options import LEAST_MEMORY, Options, PublishOptions, Resources, check_keywords
from dimly.errors import ParameterError, PrivacyWarning
from dimly.mechanisms import Plan, Vocabulary
from dimly.privacy import Budget


def test_every_spelling_has_the_same_names_and_types() -> None:
    record = get_type_hints(Options)
    assert get_type_hints(PublishOptions) == {name: hint for name, hint in record.items() if name != "dry_run"}
    shown = inspect.signature(publish).parameters
    assert list(shown) == ["source", "plan", *record]
    assert {name: shown[name].default for name in record} == {field.name: field.default for field in fields(Options)}


def test_progress_that_cannot_be_told_is_refused_before_anything_is_read() -> None:
    with pytest.raises(
        ParameterError, match=r"progress must be an object with the methods phase\(name\).*got function"
    ):
        publish(np.eye(2, dtype=bool), Plan.of("counting+laplace", Budget(1.0), k=4), progress=lambda *_: None)  # type: ignore[call-overload]


def test_a_keyword_that_does_not_exist_is_refused_with_the_nearest() -> None:
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'atribute'\. Did you mean 'attribute'\?"):
        publish([[1]], None, atribute="place")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'zzz'\.$"):
        check_keywords(["user", "zzz"])
    with pytest.raises(TypeError, match=r"'random_state'\. Noise is secret and has no seed"):
        check_keywords(["random_state"])
    with pytest.raises(ParameterError, match=r"got list\. Pass several columns of a wide table as columns"):
        publish(np.eye(2, dtype=bool), Plan.of("counting+laplace", Budget(1.0), k=4), user="u", attribute=["a", "b"])  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"'user_column'\. Did you mean 'user'\?"):
        check_keywords(["user_column"])
    with pytest.raises(TypeError, match=r"'path'\. Did you mean 'out'\?"):
        check_keywords(["path"])
    with pytest.raises(TypeError, match=r"'epsilon'\. The plan holds it: make one with dimly\.plan"):
        check_keywords(["epsilon"])


class _Tensor:
    """An array of another library, as NumPy sees it."""

    def __init__(self, rows: NDArray[Any]) -> None:
        self.rows, self.ndim = rows, rows.ndim

    def __array__(self, *_: Any, **__: Any) -> NDArray[Any]:
        return self.rows


def test_a_tensor_is_a_matrix() -> None:
    plan = Plan.of("counting+laplace", Budget(1.0), k=4)
    with pytest.warns(PrivacyWarning):
        assert len(publish(_Tensor(np.eye(3, dtype=bool)), plan)) == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"dataset": "visits"}, "ledger must be given where dataset is"),
        ({"recipient": "ACME"}, "ledger must be given where recipient is"),
        ({"ledger": "l.db"}, "dataset must be named where a ledger is given"),
        ({"append": "old", "update": "old"}, "append and update must not be given together"),
        ({"append": "old", "out": "new"}, "out must not be given with append"),
        ({"append": "old"}, "ledger must be given with append"),
    ],
)
def test_what_does_not_go_together(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Options(**given)


def test_where_a_release_goes() -> None:
    charged = {"ledger": "l.db", "dataset": "visits"}
    made, grown, anew = Options(out="new"), Options(append="old", **charged), Options(update="old", out="new")  # type: ignore[arg-type]
    assert [one.target for one in (made, grown, anew)] == [Path("new"), Path("old"), Path("new")]
    assert [one.grows for one in (made, grown, anew)] == [None, Path("old"), Path("old")]
    assert [one.replaces for one in (made, grown, anew)] == [False, True, False]
    assert [Options().in_memory, Options(dry_run=True).in_memory, made.in_memory] == [True, False, False]


@pytest.mark.parametrize("columns", [np.array(["a", "b"]), iter(["a", "b"]), ["a", "b"]])
def test_columns_may_be_any_iterable_and_are_gone_through_more_than_once(columns: Any) -> None:
    rows = pa.table({"who": [1, 2], "a": [1, 0], "b": [0, 1]})
    plan = Plan.of("counting+laplace", Budget(1.0), k=8)
    assert publish(rows, plan, user="who", columns=columns).users.tolist() == [1, 2]


def test_limits_are_checked_for_a_matrix_too() -> None:
    plan = Plan.of("counting+laplace", Budget(1.0), k=8)
    for given in ({"threads": 0}, {"memory": "1GB"}, {"temp": "nowhere"}):
        with pytest.raises(ParameterError, match=next(iter(given))):
            publish(np.eye(3), plan, **given)


GIB = 1 << 30


def test_what_is_not_said_is_found_out() -> None:
    found = Resources.of()
    assert LEAST_MEMORY <= found.memory <= 2 * GIB
    assert found.threads >= 1
    assert found.temp is None


@pytest.mark.parametrize(("machine", "memory"), [(64 * GIB, 2 * GIB), (2 * GIB, GIB), (GIB // 2, LEAST_MEMORY)])
def test_half_of_a_small_machine(monkeypatch: pytest.MonkeyPatch, machine: int, memory: int) -> None:
    monkeypatch.setattr(module, "_machine_memory", lambda: machine)
    assert Resources.of().memory == memory


def test_a_container_has_less_memory_than_its_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda _: f"{GIB}\n")
    assert module._machine_memory() == GIB
    monkeypatch.setattr(Path, "read_text", lambda _: "max\n")
    assert module._machine_memory() > GIB


@pytest.mark.parametrize(("memory", "threads", "workers"), [(2 * GIB, 2, 2), (GIB, 64, 1), (64 * GIB, 64, 64)])
def test_little_memory_means_few_workers(memory: int, threads: int, workers: int) -> None:
    found = Resources.of(memory=memory, threads=threads)
    assert found.workers == workers
    assert found.database_memory + found.rows_memory < found.memory


@pytest.mark.parametrize("memory", [LEAST_MEMORY, GIB, 2 * GIB, 64 * GIB])
@pytest.mark.parametrize("threads", [1, 64])
def test_the_shares_fit_into_the_whole(memory: int, threads: int) -> None:
    found = Resources.of(memory=memory, threads=threads)
    batches, beyond = found.workers * module._OF_A_THREAD, (memory - module._OF_THE_PROCESS) // 8  # DuckDB's own
    assert module._OF_THE_PROCESS + found.database_memory + found.rows_memory + batches + beyond <= memory
    keys = found.keys_memory if found.keys_memory > module._LEAST_OF_KEYS else 0
    assert module._OF_THE_PROCESS + found.database_memory + found.rows_memory + batches + beyond + keys <= memory
    assert found.rows_memory > 0


@pytest.mark.parametrize("memory", [LEAST_MEMORY, GIB, 2 * GIB, 64 * GIB])
@pytest.mark.parametrize("attributes", [1000, 1 << 27, 1 << 29, 1 << 31])
def test_long_rows_have_their_share(memory: int, attributes: int) -> None:
    plan = Plan.of("randomized-response", Budget(1.0), n_attributes=attributes)
    given = Resources.of(memory=memory, threads=64)
    if (memory, attributes) in [(LEAST_MEMORY, 1 << 29), (LEAST_MEMORY, 1 << 31), (GIB, 1 << 31)]:
        with pytest.raises(ParameterError, match=r"memory must be at least \d+ MiB for a plan with rows"):
            given.for_plan(plan)
        return
    found = given.for_plan(plan)
    assert found.of_a_thread >= 4.2 * plan.bytes_per_user * (attributes > 1 << 27)  # measured of 2³¹ attributes
    assert module._OF_THE_PROCESS + found.database_memory + found.workers * found.of_a_thread <= memory
    assert found.workers <= given.workers


@pytest.mark.parametrize("memory", [LEAST_MEMORY, GIB, 2 * GIB])
@pytest.mark.parametrize("listed", [0, 10**6, 60 << 20, 300 << 20, 1 << 40])
def test_a_long_list_has_its_share(memory: int, listed: int) -> None:
    given = Resources.of(memory=memory, threads=2)
    if memory < listed + (704 << 20):
        with pytest.raises(ParameterError, match=r"memory must be at least \d+ MiB for a list of attributes this long"):
            given.beside(listed)
        return
    found = given.beside(listed)
    held = module._OF_THE_PROCESS + listed + found.workers * module._OF_A_THREAD
    assert held + found.database_memory + found.rows_memory + found.keys_memory <= memory
    assert min(found.rows_memory, found.keys_memory) >= 16 << 20
    assert given.beside(0) == given


def test_a_list_that_does_not_fit_is_refused_before_the_table_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.csv").write_text("nothing that could be read")
    names = Vocabulary.listed(f"place {number:0100}" for number in range(100))
    plan = Plan.of("counting+laplace", Budget(1.0), k=4, vocabulary=names)
    assert 10_000 < names.nbytes < 20_000
    monkeypatch.setattr(Resources, "for_plan", lambda self, _: replace(self, of_a_thread=(224 << 20) - 10_000))
    options: dict[str, Any] = {"user": "person", "attribute": "page", "vocabulary": names, "memory": LEAST_MEMORY}
    for more in ({"out": tmp_path / "out"}, {"out": tmp_path / "out", "dry_run": True}, {}):
        with pytest.raises(ParameterError, match="memory must be at least 769 MiB for a list"):
            publish(tmp_path / "t.csv", plan, **options, **more)


def test_rows_that_do_not_fit_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("nothing that could be read")
    plan = Plan.of("randomized-response", Budget(1.0), n_attributes=1 << 31)
    options: dict[str, Any] = {"user": "person", "attribute": "page", "memory": 10**9}
    for more in ({"out": tmp_path / "out"}, {"out": tmp_path / "out", "dry_run": True}, {}):
        with pytest.raises(ParameterError, match="memory must be at least 1664 MiB"):
            publish(tmp_path / "t.csv", plan, **options, **more)
    with pytest.raises(ParameterError, match="memory must be at least 1664 MiB"):
        publish(np.eye(3), plan, memory=10**9)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"memory": LEAST_MEMORY - 1}, "memory must be at least"),
        ({"memory": 1e10}, "memory must be a number of bytes"),
        ({"memory": True}, "memory must be a number of bytes"),
        ({"memory": "1 GB"}, "memory must be a number of bytes, an integer, got '1 GB'"),
        ({"threads": 0}, "threads must be an integer"),
        ({"threads": 1025}, "threads must be an integer from 1 to 1024"),
        ({"threads": 2**70}, "threads must be an integer from 1 to 1024"),
        ({"memory": 2**70}, "memory must be at most"),
        ({"temp": "b\udcffd"}, "temp must be a path in UTF-8"),
        ({"threads": 1.5}, "threads must be an integer"),
        ({"threads": True}, "threads must be an integer"),
        ({"temp": "no such folder"}, "temp must be a folder"),
    ],
)
def test_refusals(argument: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Resources.of(**argument)


def test_integers_of_numpy_count() -> None:
    found = Resources.of(memory=np.int64(1 << 30), threads=np.int32(2))  # type: ignore[arg-type]
    assert (type(found.memory), found.threads) == (int, 2)


@pytest.mark.parametrize("name", ["out", "ledger", "append", "update", "pseudonyms", "temp", "diagnose"])
def test_what_is_no_path_is_refused(name: str) -> None:
    more: dict[str, Any] = {"dataset": "people"} if name == "ledger" else {}
    for wrong, message in ((7, "a path, got int"), (b"x", "a path, got bytes"), ("x\0", "a path without NUL")):
        with pytest.raises(ParameterError, match=f"{name} must be {message}"):
            Options(**{name: wrong, **more})


@pytest.mark.parametrize("name", ["delimiter", "quote", "escape", "encoding"])
def test_what_is_no_text_is_refused(name: str) -> None:
    wrong: dict[str, Any] = {name: b","}
    with pytest.raises(ParameterError, match=f"{name} must be text, got bytes"):
        Options(**wrong)


_PUBLISH = """
import sys
import dimly
from dimly.curator.options import Options
from dimly.curator.publication import publish_table

plan = dimly.Plan.of("counting+laplace", dimly.Budget(1.0), k=64)
limits = {"memory": int(sys.argv[3]), "threads": 1}
publish_table(sys.argv[1], plan, Options(user="user", attribute="page", out=sys.argv[2], **limits))
with open("/proc/self/status") as status:
    print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the most that a process held")
def test_memory_is_a_bound_for_the_whole_process(tmp_path: Path) -> None:
    """Nearly every row has an attribute of its own, whose names were all held at once while their rows were derived."""
    n, memory = 2_000_000, LEAST_MEMORY
    names = pc.binary_join_element_wise("https://page.example/", pa.array(range(n)).cast(pa.string()), "")
    table = pa.table({"user": pa.array(np.arange(n) % 1000), "page": names})
    pq.write_table(table, tmp_path / "visits.parquet")
    arguments = [str(tmp_path / "visits.parquet"), str(tmp_path / "out"), str(memory)]
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-W", "ignore", "-c", _PUBLISH, *arguments], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) * 1024 <= memory
