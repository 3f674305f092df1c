"""Which process holds a charge, and whether it is still there."""

import json
import os
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Literal, Self

Fate = Literal["this", "alive", "gone", "unknown"]
"""What is known of the process behind a charge. "unknown": another machine, container or start of this machine."""

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class ProcessMark:
    """What tells a process from every other, later ones with the same number included. No name of a host or a user.

    Attributes
    ----------
    pid : int
        Its number, which is used again later.
    started : int or None
        Clock ticks from the machine's start to the process's: two processes of one number differ in it.
    boot : str or None
        Random number that the kernel draws when it starts. None where there is no such number: then nothing is
        known of other processes.
    namespace : str or None
        Within which the number counts: containers on one machine have numbers of their own.
    """

    pid: int
    started: int | None
    boot: str | None
    namespace: str | None

    @classmethod
    def of_this_process(cls) -> Self:
        """Return the mark of the process that asks; a fork has another."""
        pid = os.getpid()
        boot, namespace = _surroundings(pid)
        stat = _stat(pid)
        return cls(pid=pid, started=None if stat is None else stat[1], boot=boot, namespace=namespace)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a mark back."""
        return cls(**json.loads(text))

    def to_json(self) -> str:
        """Return the mark as JSON."""
        return json.dumps(asdict(self))

    @property
    def fate(self) -> Fate:
        """Whether that process is this one, another that lives, gone, or out of sight."""
        here = ProcessMark.of_this_process()
        if self == here:
            return "this"
        if self.boot is None or (self.boot, self.namespace) != (here.boot, here.namespace):
            return "unknown"
        try:
            os.kill(self.pid, 0)  # sees processes that /proc may hide from us
        except ProcessLookupError:
            return "gone"
        except PermissionError:
            pass
        stat = _stat(self.pid)
        if stat is None:
            return "unknown"
        state, started = stat
        return "gone" if started != self.started or state in "ZX" else "alive"  # zombies run no more


@cache  # by number: a fork that moved into a container asks again
def _surroundings(pid: int) -> tuple[str | None, str | None]:
    del pid
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return boot, str((_PROC / "self/ns/pid").readlink())
    except OSError:
        return None, None


def _stat(pid: int) -> tuple[str, int] | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold anything
    return fields[0], int(fields[19])
