"""What only workers of Spark may do."""

from collections.abc import Callable
from pathlib import Path
from typing import Any


def in_worker(act: Callable[[int], None], make: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """Return what makes words; on a worker ``act`` is told first which attempt it is."""

    def made(batch: bytes) -> Any:
        from pyspark import TaskContext  # noqa: PLC0415

        task = TaskContext.get()  # the driver, too, makes words, to see whether they are secret
        words = make(batch)
        if task is not None:
            act(task.attemptNumber())
        return words

    made.__module__ = act.__module__ = "__main__"
    return made


def failing_once(log: Path) -> Callable[[int], None]:
    """Return an act that fails at its third batch in the first attempt, and notes in ``log`` which attempt each is."""

    def fail_at_first(attempt: int) -> None:
        with log.open("a") as file:
            file.write(f"{attempt}\n")
        if attempt == 0 and log.read_text().count("0") == 3:
            raise OSError(5, "Input/output error")

    return fail_at_first
