"""How much memory and how many threads publishing may use, and where it may put what does not fit."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from dimly.errors import ParameterError

LEAST_MEMORY = 512 << 20
_USUAL_MEMORY = 2 << 30
_OF_A_THREAD = 160 << 20  # a batch with its copies, a part, and its encoded bytes


@dataclass(frozen=True, slots=True)
class Resources:
    """Limits of one run. Make one with :meth:`of`.

    Attributes
    ----------
    memory : int
        Bytes of the whole process, the interpreter and its libraries included.
    threads : int
        Of the sort; as many batches are perturbed at a time, unless ``memory`` is short.
    temp : Path or None
        Folder for what does not fit in memory; the system's own by default.
    """

    memory: int
    threads: int
    temp: Path | None

    @classmethod
    def of(
        cls, *, memory: int | None = None, threads: int | None = None, temp: str | os.PathLike[str] | None = None
    ) -> Self:
        """Return checked limits: by default 2 GiB or half of the machine's memory, and all of its cores.

        Raises
        ------
        ParameterError
            If they are too small to work with.
        """
        if memory is None:
            memory = max(LEAST_MEMORY, min(_USUAL_MEMORY, _machine_memory() // 2))
        if threads is None:
            threads = _cores()
        if not _is_integer(memory) or memory < LEAST_MEMORY:
            raise ParameterError(f"memory must be at least {LEAST_MEMORY} bytes (512 MiB), got {memory!r}.")
        if not _is_integer(threads) or threads < 1:
            raise ParameterError(f"threads must be an integer ≥ 1, got {threads!r}.")
        folder = None if temp is None else Path(temp)
        if folder is not None and not folder.is_dir():
            raise ParameterError(f"temp must be a folder, got {str(temp)!r}. Make it first.")
        return cls(memory, threads, folder)

    @property
    def database_memory(self) -> int:
        """Bytes for sorting and joining."""
        return self.memory // 2

    @property
    def rows_memory(self) -> int:
        """Bytes for rows of the projection that are kept."""
        return self.memory // 8

    @property
    def workers(self) -> int:
        """How many batches are perturbed or written at a time."""
        return max(1, min(self.threads, self.memory // 4 // _OF_A_THREAD))


def _is_integer(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _machine_memory() -> int:
    """Return the bytes that this process may count on: the machine's, or fewer in a container."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return total
    return min(total, int(limit)) if limit.isdecimal() else total
