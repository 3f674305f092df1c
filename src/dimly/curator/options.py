"""``Options`` of publishing and surveys, spelled once; who pays; limits of memory and threads (``Resources``)."""

import difflib
import inspect
import math
import operator
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, Self, TypedDict, TypeVar

from numpy.typing import ArrayLike

from dimly.errors import ParameterError, as_integer, check_path
from dimly.mechanisms.guarantee import RosterKind
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.projection.directions import Directions
from dimly.release.format import layout_of
from dimly.release.manifest import AboutRelease


class Progress(Protocol):
    """Told by publishing how far it is; called from one thread at a time."""

    def phase(self, name: str) -> None:
        """Hear that work of a new kind begins, whose length is not known."""

    def start(self, n_users: int) -> None:
        """Hear that this many people are going to be published."""

    def advance(self, n_users: int) -> None:
        """Hear that so many more people are written."""


class Silence:
    """Nobody watches."""

    def phase(self, name: str) -> None:
        """Say nothing."""

    def start(self, n_users: int) -> None:
        """Say nothing."""

    def advance(self, n_users: int) -> None:
        """Say nothing."""


LEAST_MEMORY = 768 << 20
"""What the process, the least of a database, one batch and some rows of the projection take together."""
MOST_THREADS = 1024
"""More than any machine has use for; a system refuses to start many thousands."""
_MOST_MEMORY = 1 << 50
_LEAST_OF_A_DATABASE = 192 << 20  # JSON alone takes 32 MiB for each thread and file that is read at a time
_USUAL_MEMORY = 2 << 30
_OF_THE_PROCESS = 320 << 20  # the interpreter, its libraries and compiled kernels: 290 MB, measured
_LEAST_OF_KEYS = 16 << 20
_LEAST_OF_ROWS = 16 << 20  # with less, the same rows are derived again and again
_OF_A_THREAD = 160 << 20  # where a part takes up to 64 MiB


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
    of_a_thread : int
        Bytes of a batch with its copies, a part, and its encoded bytes: see :meth:`for_plan`.
    listed : int
        Bytes of the public list of attributes, which is held all the time: see :meth:`beside`.
    """

    memory: int
    threads: int
    temp: Path | None
    of_a_thread: int = _OF_A_THREAD
    listed: int = 0

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
            threads = min(_cores(), MOST_THREADS)
        if isinstance(memory, bool) or not hasattr(memory, "__index__"):
            raise ParameterError(
                f"memory must be a number of bytes, an integer, got {memory!r}. Write 2 << 30 for 2 GiB."
            )
        memory = operator.index(memory)
        if memory > _MOST_MEMORY:
            raise ParameterError(f"memory must be at most {_MOST_MEMORY} bytes (1 PiB), got {memory}.")
        if memory < LEAST_MEMORY:
            raise ParameterError(f"memory must be at least {LEAST_MEMORY} bytes (768 MiB), got {memory}.")
        threads = as_integer("threads", threads, 1, MOST_THREADS)
        folder = None if temp is None else Path(temp)
        if folder is not None:
            check_path("temp", folder)
        if folder is not None and not folder.is_dir():
            raise ParameterError(f"temp must be a folder, got {str(temp)!r}. Make it first.")
        return cls(memory, threads, folder)

    def for_plan(self, plan: Plan) -> Self:
        """Return the same limits for a release by ``plan``, from which follows how many bytes a part takes.

        Raises
        ------
        ParameterError
            If memory does not hold one part, of one person at least.
        """
        if not plan.places_people:
            return self  # noisy distances are held whole, whatever their number
        layout, row = layout_of(plan), plan.bytes_per_user
        # A part, its encoded bytes, and what Parquet takes while it encodes a row group (measured).
        each = math.ceil(2 * layout.users_per_part * row + 2.5 * layout.users_per_group * row)
        least = _OF_THE_PROCESS + _LEAST_OF_A_DATABASE + each
        if each > _OF_A_THREAD and self.memory < least:
            mebibytes = math.ceil(least / (1 << 20))
            raise ParameterError(
                f"memory must be at least {mebibytes} MiB for a plan with rows this long, got {self.memory} bytes. "
                "Pass more, or plan with fewer attributes."
            )
        return replace(self, of_a_thread=max(_OF_A_THREAD, each))

    def beside(self, listed: int) -> Self:
        """Return the same limits for a run that holds a public list of so many bytes.

        Raises
        ------
        ParameterError
            If memory does not hold both.
        """
        rest = _LEAST_OF_A_DATABASE + _LEAST_OF_ROWS + _LEAST_OF_KEYS + self.of_a_thread
        least = _OF_THE_PROCESS + rest + listed
        if self.memory < least:
            mebibytes = math.ceil(least / (1 << 20))
            raise ParameterError(
                f"memory must be at least {mebibytes} MiB for a list of attributes this long, got {self.memory} bytes. "
                "Pass more, or a shorter list."
            )
        return replace(self, listed=listed)

    @property
    def database_memory(self) -> int:
        """Bytes for sorting and joining; DuckDB itself takes somewhat more than it is told."""
        return max(_LEAST_OF_A_DATABASE, min(3 * self._free // 8, self._free - self.of_a_thread))

    @property
    def rows_memory(self) -> int:
        """Bytes for rows of the projection that are kept: an eighth, or what the least of a database leaves of it."""
        share = self._free // 8
        left = self._free - share - self.database_memory - self.workers * self.of_a_thread
        return max(_LEAST_OF_ROWS, min(share, left))

    @property
    def keys_memory(self) -> int:
        """Bytes for sorted keys while people are perturbed: what all else leaves; more are read from a file."""
        beside = self.database_memory + self.rows_memory + self.workers * self.of_a_thread
        return max(_LEAST_OF_KEYS, self._free - self._free // 8 - beside)

    @property
    def workers(self) -> int:
        """How many batches are perturbed or written at a time."""
        return max(1, min(self.threads, 3 * self._free // 8 // self.of_a_thread))

    @property
    def _free(self) -> int:
        """Bytes that are left for the table and its people."""
        return max(0, self.memory - _OF_THE_PROCESS - self.listed)


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


PathLike = str | os.PathLike[str]
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


class Payer(NamedTuple):
    """Which ledger pays: the file, the dataset's name in it, and who receives the release."""

    ledger: Path
    dataset: str
    recipient: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The keywords of :func:`dimly.publish`, which explains them, checked as far as they can be by themselves.

    Raises
    ------
    ParameterError
        If some of them do not go together.
    """

    user: str | None = None
    attribute: str | None = None
    attributes: str | Iterable[object] | None = None
    columns: Iterable[str] | Literal["all"] | None = None
    value: str | None = None
    users: ArrayLike | None = None
    roster: Any = None
    vocabulary: Any = None
    directions: Directions | PathLike | None = None
    volunteers: Any = None
    except_volunteers: bool = False
    pseudonyms: PathLike | None = None
    out: PathLike | None = None
    ledger: PathLike | None = None
    dataset: str | None = None
    recipient: str | None = None
    append: PathLike | None = None
    update: PathLike | None = None
    table: str | None = None
    query: str | None = None
    where: str | None = None
    delimiter: str | None = None
    quote: str | None = None
    escape: str | None = None
    encoding: str | None = None
    memory: int | None = None
    threads: int | None = None
    temp: PathLike | None = None
    nulls: Literal["refuse", "drop"] = "refuse"
    values: Literal["refuse", "clamp"] = "refuse"
    diagnose: PathLike | None = None
    overwrite: bool = False
    title: str | None = None
    publisher: str | None = None
    note: str | None = None
    dry_run: bool = False
    progress: Progress | None = None

    def __post_init__(self) -> None:
        _check_names(self)
        if isinstance(self.columns, Iterable) and not isinstance(self.columns, str):
            object.__setattr__(self, "columns", tuple(self.columns))  # which can be gone through again
        if self.ledger is None:
            for name in ("dataset", "recipient"):
                if getattr(self, name) is not None:
                    raise ParameterError(
                        f"ledger must be given where {name} is, got none. Add ledger=FILE (--ledger FILE), or leave "
                        f"{name} out."
                    )
        elif self.dataset is None:
            raise ParameterError(
                "dataset must be named where a ledger is given, got none. Add dataset=NAME (--dataset NAME), as in "
                "dimly ledger show."
            )
        _check_progress(self.progress)
        if self.append is None:
            return
        if self.update is not None:
            raise ParameterError("append and update must not be given together. Add new people first, then update.")
        if self.out is not None:
            raise ParameterError(
                "out must not be given with append, which replaces the release by a larger one. Leave it out."
            )
        if self.ledger is None:
            raise ParameterError(
                "ledger must be given with append: it alone knows who is in the release already. Add ledger=FILE "
                "(--ledger FILE) and dataset=NAME (--dataset NAME)."
            )

    @property
    def about(self) -> AboutRelease | None:
        """What the publisher says of the release."""
        return AboutRelease.of(title=self.title, publisher=self.publisher, note=self.note)

    @property
    def in_memory(self) -> bool:
        """Whether the release stays in memory."""
        return self.target is None and not self.dry_run

    @property
    def target(self) -> Path | None:
        """The folder to make, or to replace by a larger one; None in memory, and for a dry run without one."""
        target = self.out if self.append is None else self.append
        return None if target is None else Path(target)

    @property
    def grows(self) -> Path | None:
        """The release that another one grows from."""
        base = self.update if self.append is None else self.append
        return None if base is None else Path(base)

    @property
    def replaces(self) -> bool:
        """Whether a release that is there is replaced."""
        return self.overwrite or self.append is not None

    @property
    def payer(self) -> Payer | None:
        """Who pays."""
        if self.ledger is None or self.dataset is None:
            return None
        return Payer(Path(self.ledger), self.dataset, self.recipient)

    @property
    def roster_kind(self) -> RosterKind:
        """Whether the people are those of a list, or those found in the table."""
        return "found" if self.roster is None else "given"

    @property
    def resources(self) -> Resources:
        """What publishing may use of this machine."""
        return Resources.of(memory=self.memory, threads=self.threads, temp=self.temp)

    @property
    def watcher(self) -> Progress:
        """Who is told how far the work is."""
        return Silence() if self.progress is None else self.progress

    @property
    def user_column(self) -> str:
        """The column of the people's ids, of a table that has columns.

        Raises
        ------
        ParameterError
            If none is named, or ids are given apart.
        """
        if self.user is None:
            raise ParameterError(
                "user must name the column of the people's ids, got none. Add user=COLUMN (--user COLUMN)."
            )
        if self.users is not None:
            raise ParameterError("users must be given for a matrix only. Name the column of ids by user.")
        return self.user

    @property
    def named_columns(self) -> set[str] | None:
        """The columns of a table that are read; None where these may be all."""
        if self.columns is not None and not isinstance(self.columns, list | tuple):
            return None
        names = (self.user, self.attribute, self.attributes, self.value, *(self.columns or ()))
        return {name for name in names if isinstance(name, str)}

    def only(self, *names: str) -> "Options":
        """Return a record of some of the options."""
        return Options(**{name: getattr(self, name) for name in names})


class TableKeywords(TypedDict, total=False):
    """Those that say how a table is read, for type checkers."""

    user: str | None
    attribute: str | None
    attributes: str | Iterable[object] | None
    columns: Iterable[str] | Literal["all"] | None
    value: str | None
    users: ArrayLike | None
    table: str | None
    query: str | None
    where: str | None
    delimiter: str | None
    quote: str | None
    escape: str | None
    encoding: str | None
    nulls: Literal["refuse", "drop"]


READING = tuple(TableKeywords.__annotations__)


class PublishOptions(TableKeywords, total=False):
    """All of them, for type checkers: keywords of a call, but for ``dry_run``, which changes what is returned.

    Python has no way to say that a function takes the fields of a record as keywords. A test compares the two.
    """

    roster: Any
    vocabulary: Any
    directions: Directions | PathLike | None
    volunteers: Any
    except_volunteers: bool
    pseudonyms: PathLike | None
    out: PathLike | None
    ledger: PathLike | None
    dataset: str | None
    recipient: str | None
    append: PathLike | None
    update: PathLike | None
    memory: int | None
    threads: int | None
    temp: PathLike | None
    values: Literal["refuse", "clamp"]
    diagnose: PathLike | None
    overwrite: bool
    title: str | None
    publisher: str | None
    note: str | None
    progress: Progress | None


def takes_fields(record: type) -> Callable[[FunctionT], FunctionT]:
    """Show the fields of a record in the signature of a function that passes its keywords on to it.

    Of :class:`Options` these are all keywords. Beside another record the function takes options, too.
    """

    def with_fields(function: FunctionT) -> FunctionT:
        signature = inspect.signature(function)
        keywords = inspect.signature(record).parameters
        *own, options = (one for one in signature.parameters.values() if one.name not in keywords)
        shown = [*own, *keywords.values()] if record is Options else [*own, *keywords.values(), options]
        function.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
        return function

    return with_fields


_ALSO_CALLED = {
    "data": "sample",
    "folder": "out",
    "id": "user",
    "item": "attribute",
    "mean_weight": "weight",
    "path": "out",
    "people": "roster",
    "sep": "delimiter",
    "users": "n_users",
    "volunteers": "sample",
}
"""What people write, and the keyword that they mean, if the function has it."""


def check_keywords(keywords: Iterable[str], *, function: str = "publish", known: Iterable[str] | None = None) -> None:
    """Refuse a keyword that a function does not take, as Python would; without ``known`` it takes all options.

    Raises
    ------
    TypeError
        With the nearest keyword that there is.
    """
    names = [option.name for option in fields(Options)] if known is None else list(known)
    for name in keywords:
        if name not in names:
            also = [one for one in (_ALSO_CALLED.get(name),) if one in names]
            begins = [one for one in names if name.startswith(f"{one}_")]  # user_column, attribute_name
            near = also or begins or difflib.get_close_matches(name, names, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            if name in {"epsilon", "delta"} and function == "publish":
                hint = " The plan holds it: make one with dimly.plan(dimly.Budget(epsilon))."
            if name in {"random_state", "seed"} and function == "publish":
                hint = " Noise is secret and has no seed. That of the projection is in the plan: Plan.of(…, seed=…)."
            if name in {"directions", "k"} and function in {"plan", "advise"}:
                hint = f" Make that plan with dimly.Plan.of(mechanism, budget, {name}={name})."
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}.{hint}")


def _check_names(options: Options) -> None:
    for name in ("user", "attribute", "value"):
        given = getattr(options, name)
        if given is not None and not isinstance(given, str):
            kind = type(given).__name__
            several = name == "attribute" and isinstance(given, list | tuple)
            instead = "Pass several columns of a wide table as columns" if several else "Write it as text"
            raise ParameterError(f"{name} must be the name of a column, got {kind}. {instead}.")
    for name in ("delimiter", "quote", "escape", "encoding"):
        given = getattr(options, name)
        if given is not None and not isinstance(given, str):
            raise ParameterError(f"{name} must be text, got {type(given).__name__}. Write it in quotes.")
    for name in ("out", "ledger", "append", "update", "pseudonyms", "temp", "diagnose"):
        given = getattr(options, name)
        if given is not None:
            check_path(name, given)


def _check_progress(progress: object) -> None:
    if progress is not None and not all(hasattr(progress, name) for name in ("phase", "start", "advance")):
        raise ParameterError(
            "progress must be an object with the methods phase(name), start(n_users) and advance(n_users), got "
            f"{type(progress).__name__}. Leave it out for a bar, or pass False for none."
        )
