from pathlib import Path
from typing import Any

import pytest

from dimly.curator import resources as module
from dimly.curator.resources import LEAST_MEMORY, Resources
from dimly.errors import ParameterError

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


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"memory": LEAST_MEMORY - 1}, "memory must be at least"),
        ({"memory": 1e10}, "memory must be at least"),
        ({"memory": True}, "memory must be at least"),
        ({"threads": 0}, "threads must be an integer"),
        ({"threads": 1.5}, "threads must be an integer"),
        ({"threads": True}, "threads must be an integer"),
        ({"temp": "no such folder"}, "temp must be a folder"),
    ],
)
def test_refusals(argument: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Resources.of(**argument)
