"""A charge and its states, held by the process that publishes: claimed people, sealed, settled, abandoned."""

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, Literal, Self

from dimly.curator.ledger.store import Store, forget_people, now, share_people, store_tags, tag_chunks
from dimly.errors import BudgetError, DimlyError, ParameterError
from dimly.privacy.composition import Cost

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


State = Literal["reserved", "sampling", "visible", "returned", "forgiven"]
"""Where a charge stands. All but the last two count."""

COUNTING: Final = frozenset({"reserved", "sampling", "visible"})


@dataclass(frozen=True, slots=True)
class ChargeRecord:
    """One charge as the ledger holds it. Times are UTC.

    Attributes
    ----------
    id : int
        Counted up over the whole ledger.
    dataset : str
    state : {"reserved", "sampling", "visible", "returned", "forgiven"}
    cost : Cost or None
        None for an append, which costs nothing.
    plan_digest : str
    recipient : str or None
    release_id : str or None
        Known once the release is complete, before it is visible.
    appends_to : str or None
        Of an append: the release that people were added to.
    updates : str or None
        Of an update: the release of which some people were published anew.
    appendable : bool
        Whether people may be added to the release.
    n_users : int or None
        Number of people; None as long as they are not claimed.
    process : ProcessMark
        Which process made the charge.
    reserved_at, sampling_at, sealed_at, visible_at : str or None
        When it got there.
    ended_at : str or None
        When it was given back or forgiven, or when its run ended after noise was drawn, and without a release.
    reason : str or None
        Why it was forgiven, or that it was entered after the release was published.
    lineage : int
        The charge that made the first release of its line: itself unless it is an append or an update.
    """

    id: int
    dataset: str
    state: State
    cost: Cost | None
    plan_digest: str
    recipient: str | None
    release_id: str | None
    appends_to: str | None
    updates: str | None
    appendable: bool
    n_users: int | None
    process: ProcessMark
    reserved_at: str
    sampling_at: str | None
    sealed_at: str | None
    visible_at: str | None
    ended_at: str | None
    reason: str | None
    lineage: int

    @property
    def counts(self) -> bool:
        """Whether the charge is part of what is spent."""
        return self.state in COUNTING

    @property
    def fate(self) -> Fate | None:
        """What became of the process behind a charge that is under way; None for every other charge."""
        if self.state not in {"reserved", "sampling"}:
            return None
        return self.process.fate if self.ended_at is None else "gone"

    @property
    def label(self) -> str:
        """The state in words: "sampling (process gone)" where nobody will finish it."""
        if self.state == "forgiven" and self.sampling_at is not None:
            return "forgiven (noise drawn)"
        if self.state == "sampling" and self.ended_at is not None:
            return "sampling (run ended)"
        words = {"gone": " (process gone)", "unknown": " (process out of sight)"}
        return self.state + words.get(self.fate or "", "")

    @property
    def kind(self) -> Literal["release", "append", "update", "survey"] | None:
        """What was charged; None as long as that is not known.

        Publishing claims its people before it draws noise, and a survey claims nobody.
        """
        if self.appends_to is not None:
            return "append"
        if self.updates is not None:
            return "update"
        if self.n_users is not None:
            return "release"
        return None if self.sampling_at is None else "survey"

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain JSON values."""
        cost = None if self.cost is None else _cost_fields(self.cost)
        return asdict(self) | {"cost": cost, "label": self.label, "kind": self.kind}

    @classmethod
    def of_row(cls, row: sqlite3.Row) -> Self:
        """Read a row of the table ``charge``."""
        fields: dict[str, Any] = dict(row)
        fields["cost"] = None if row["cost"] is None else cost_of_json(row["cost"])
        fields["process"] = ProcessMark.from_json(row["process"])
        fields["appendable"] = bool(row["appendable"])
        fields["lineage"] = row["id"] if row["lineage"] is None else row["lineage"]
        return cls(**fields)


@lru_cache(maxsize=4096)  # a Gaussian cost is proven again each time it is made, for a millisecond
def cost_of_json(text: str) -> Cost:
    """Read a cost as the ledger stores it."""
    try:
        return Cost(**json.loads(text))
    except (TypeError, ValueError):  # of which ParameterError is one
        raise DimlyError("a charge in the ledger must hold a cost, but one does not. The file was edited.") from None


def cost_json(cost: Cost) -> str:
    """Return a cost as the ledger stores it; floats keep every bit."""
    return json.dumps(_cost_fields(cost))


def _cost_fields(cost: Cost) -> dict[str, Any]:
    """Return a cost as JSON values; that it is about one unit goes without saying, as it did before."""
    fields = asdict(cost)
    if cost.together == 1:
        del fields["together"]
    return fields


def _is_within(cost: Cost, other: Cost) -> bool:
    """Return whether a plain claim is no more than another."""
    return (cost.unit, cost.noise_multiplier) == (other.unit, None) and (
        cost.epsilon <= other.epsilon and cost.delta <= other.delta
    )


def check_text(name: str, value: object, *, longest: int = 200) -> str:
    """Return a name, digest or reason that is one readable line.

    Raises
    ------
    ParameterError
        If it is empty, too long, or holds what cannot be printed.
    """
    if not isinstance(value, str) or not value.strip() or len(value) > longest or not value.isprintable():
        raise ParameterError(f"{name} must be one line of 1 to {longest} characters, got {value!r}.")
    return value


class Charge:
    """One charge, bound to the process that reserved it. Made by :meth:`Ledger.reserve`.

    The order is ``claim_users``, ``start_sampling``, ``seal``, ``make_visible``; ``abandon`` ends it before it
    is visible, and gives it back if no noise was drawn. Whatever else happens, a charge stays.

    Attributes
    ----------
    id : int
        What the ledger calls it.
    """

    def __init__(self, store: Store, charge_id: int) -> None:
        self._store = store
        self._process = ProcessMark.of_this_process()
        self.id = charge_id

    @classmethod
    def enter(
        cls,
        store: Store,
        connection: sqlite3.Connection,
        dataset: str,
        *,
        cost: Cost | None,
        plan_digest: str,
        recipient: str | None,
        **known: str | int,
    ) -> Self:
        """Enter a charge of this process into the ledger, with what else is known of it: what it appends to, say."""
        check_text("plan_digest", plan_digest)
        fields = known | {"dataset": dataset, "state": "reserved", "plan_digest": plan_digest, "reserved_at": now()}
        if cost is not None:
            fields["cost"] = cost_json(cost)
        if recipient is not None:
            fields["recipient"] = check_text("recipient", recipient)
        fields["process"] = ProcessMark.of_this_process().to_json()
        columns, places = ", ".join(fields), ", ".join("?" * len(fields))
        insert = f"INSERT INTO charge ({columns}) VALUES ({places})"
        charge_id = connection.execute(insert, tuple(fields.values())).lastrowid
        assert charge_id is not None  # noqa: S101 - for the type checker: it was an INSERT
        return cls(store, charge_id)

    @property
    def record(self) -> ChargeRecord:
        """The charge as the ledger holds it now."""
        with self._store.reading() as connection:
            return record_of(connection, self.id)

    @property
    def state(self) -> State:
        """Where it stands now, by the ledger."""
        return self.record.state

    def claim_users(self, users: Iterable[Any]) -> None:
        """Record who is in the release; once, before noise is drawn.

        The people count from the end of this call on, all at once. Of an append, nobody may be in the release or in
        one of its line already: each person's attributes are then seen through one noise only, and adding people
        costs nothing.

        Parameters
        ----------
        users : iterable of arrays
            Batches of user ids, of any size: Arrow arrays, NumPy arrays or lists, integers or text. Ids as the curator
            knows them, not pseudonyms: another key would make the same people look new.

        Raises
        ------
        BudgetError
            If some people are in the release already.
        DataError
            If ids are missing, or neither integers nor text.
        """
        record = self._own("reserved")
        if record.n_users is not None:
            raise RuntimeError("users are claimed once for each charge.")
        with self._changing("reserved") as connection:
            forget_people(connection, self.id)  # of an attempt that failed half-way
            key = connection.execute("SELECT tag_key FROM ledger").fetchone()[0]
        n_users = 0
        # In short transactions: they count for nothing before the last one, and others need not wait.
        for chunk, tags in enumerate(tag_chunks(users, key=key)):
            with self._changing("reserved") as connection:
                store_tags(connection, self.id, chunk, tags)
            n_users += len(tags)
        with self._store.reading() as connection:
            seen = self._refuse_known_people(connection, record, seen=set())
        with self._changing("reserved") as connection:  # only those who were claimed since are left to look at
            self._refuse_known_people(connection, record, seen=seen)
            update(connection, self.id, n_users=n_users)

    def start_sampling(self) -> None:
        """Record that noise is about to be drawn: from here on the charge is spent, whatever ends the run.

        Raises
        ------
        BudgetError
            If somebody forgave the charge meanwhile: nothing may be published then.
        """
        record = self._own("reserved")
        if (record.appends_to or record.updates) and record.n_users is None:
            raise RuntimeError("an append or an update must claim its users before it draws noise.")
        with self._changing("reserved") as connection:
            update(connection, self.id, state="sampling", sampling_at=now())

    def seal(self, *, release_id: str, appendable: bool = True) -> None:
        """Record the id of the complete release, just before it becomes visible.

        Parameters
        ----------
        release_id : str
            As the manifest says.
        appendable : bool, default=True
            Whether people may be added later; never for noisy distances, where each one changes everybody's list. Nor
            for a charge that claimed no users.

        Raises
        ------
        BudgetError
            If somebody forgave the charge meanwhile: nothing may be published then.
        """
        record = self._own("sampling")
        if record.ended_at is not None:
            raise RuntimeError("a charge that was settled is of a run without a release.")
        check_text("release_id", release_id)
        may_grow = int(appendable and record.n_users is not None)
        with self._changing("sampling") as connection:
            update(connection, self.id, release_id=release_id, appendable=may_grow, sealed_at=now())

    def make_visible(self) -> None:
        """Record that the release is out. Nothing undoes this.

        It counts even if somebody forgave the charge by force between sealing and now: what is out is spent.
        """
        record = self._own("sampling", "visible", "forgiven")
        if record.release_id is None:
            raise RuntimeError("a charge must be sealed before its release becomes visible.")
        with self._changing("sampling", "visible", "forgiven") as connection:
            if record_of(connection, self.id).state != "visible":
                make_visible(connection, self.id)

    def settle(self, cost: Cost) -> None:
        """Lower the charge of a run that stops after a part of its noise to what that part cost.

        The run must draw nothing more. Which part it was may depend on the noise that was drawn: filters allow for it.

        Parameters
        ----------
        cost : Cost
            Not above what was reserved, in the same unit.
        """
        self._own("sampling")
        with self._changing("sampling") as connection:
            record = record_of(connection, self.id)
            if record.cost is None or record.release_id is not None or not _is_within(cost, record.cost):
                raise RuntimeError("a charge can only be lowered, and only before its release is complete.")
            update(connection, self.id, cost=cost_json(cost), ended_at=now())

    def abandon(self) -> bool:
        """End the charge without a release, and return whether it counts no more.

        It comes back, and its people are forgotten, only if no noise was drawn. What was drawn could be read while it
        was staged, by others of the same account, and a second release beside it would be a second look: so from
        "sampling" on a charge stays, and its people stay claimed, whatever ended the run. A second call does nothing,
        nor does one after somebody confirmed the charge meanwhile.
        """
        states: tuple[State, ...] = ("reserved", "sampling", "visible", "returned", "forgiven")
        self._own(*states)
        with self._changing(*states) as connection:
            record = record_of(connection, self.id)
            if record.state == "reserved":
                update(connection, self.id, state="returned", ended_at=now())
                forget_people(connection, self.id)
            elif record.state == "sampling" and record.ended_at is None:
                update(connection, self.id, ended_at=now())
            return record.state not in {"sampling", "visible"}

    def _own(self, *states: State) -> ChargeRecord:
        """Return the charge if this process made it and it is in one of these states."""
        if ProcessMark.of_this_process() != self._process:
            raise RuntimeError("a charge belongs to the process that reserved it.")
        record = self.record
        self._expect(record, states)
        return record

    def _expect(self, record: ChargeRecord, states: Iterable[State]) -> None:
        if record.state in states:
            return
        if record.state == "forgiven":
            raise BudgetError(f"charge {self.id} must count, but it was forgiven meanwhile. Reserve again.")
        raise RuntimeError(f"a charge must be {' or '.join(states)} for this, but it is {record.state}.")

    @contextmanager
    def _changing(self, *states: State) -> Iterator[sqlite3.Connection]:
        with self._store.writing() as connection:
            self._expect(record_of(connection, self.id), states)
            yield connection

    def _refuse_known_people(self, connection: sqlite3.Connection, record: ChargeRecord, *, seen: set[int]) -> set[int]:
        """Return the charges of the same line, none of whose people is among this charge's."""
        if record.appends_to is None:
            return set()
        line = {other.id: other for other in lineage(connection, record) if other.n_users is not None}
        line.pop(self.id, None)
        met = [line[other] for other in sorted(line.keys() - seen) if share_people(connection, self.id, [other])]
        if any(other.state == "visible" for other in met):
            raise BudgetError(
                "users must be new to the release, but some people are already in it. Use --update, which is charged."
            )
        if met:
            raise BudgetError(self._claimed_elsewhere(met[0]))
        return set(line)

    def _claimed_elsewhere(self, other: ChargeRecord) -> str:
        """Return what to do about people of a run that did not finish, or may not have."""
        if other.fate in ("this", "alive"):
            return (
                f"users must be new to the release, and charge {other.id}, whose run is under way, claimed some "
                "people. Wait until it ends, and try again."
            )
        if other.fate == "unknown":
            return (
                f"users must be new to the release, and charge {other.id} claimed some people. Whether its run has "
                "ended cannot be seen from here: it is of another machine or container, or this machine was started "
                "again since. Look there, and wait if it is under way. If it ended, use --update, which is charged, or "
                "see `dimly ledger forgive --help`."
            )
        force = "" if other.sampling_at is None else " --force"
        command = f"dimly ledger forgive {self._store.path} {other.id}{force} --reason TEXT"
        claimed = f"users must be new to the release, and charge {other.id}, which did not finish, claimed some people."
        if other.sampling_at is None:
            return f"{claimed} It drew no noise: cancel it with `{command}`, and try again."
        return (
            f"{claimed} Use --update, which is charged, because noise was drawn for them; or, if you are sure that "
            f"nobody read that, cancel it with `{command}` and try again."
        )


def record_of(connection: sqlite3.Connection, charge_id: int) -> ChargeRecord:
    """Return one charge.

    Raises
    ------
    ParameterError
        If there is none with this id.
    """
    row = connection.execute("SELECT * FROM charge WHERE id = ?", (charge_id,)).fetchone()
    if row is None:
        raise ParameterError(f"charge must be one of the ledger's, got {charge_id}. See `dimly ledger show`.")
    return ChargeRecord.of_row(row)


def records_of(connection: sqlite3.Connection, dataset: str) -> list[ChargeRecord]:
    """Return a dataset's charges, oldest first."""
    rows = connection.execute("SELECT * FROM charge WHERE dataset = ? ORDER BY id", (dataset,))
    return [ChargeRecord.of_row(row) for row in rows]


def counting_charges(connection: sqlite3.Connection, dataset: str) -> list[ChargeRecord]:
    """Return those of a dataset's charges that count, oldest first."""
    return [record for record in records_of(connection, dataset) if record.counts]


def lineage(connection: sqlite3.Connection, append: ChargeRecord) -> list[ChargeRecord]:
    """Return the charges that count whose people an append must not repeat, the append itself included.

    Those of its own line, and of every other line with a release of the same id: tiny releases may come out alike, and
    then nobody can tell which of them the folder holds.
    """
    counting = counting_charges(connection, append.dataset)
    lines = {record.lineage for record in counting if record.release_id == append.appends_to} | {append.lineage}
    return [record for record in counting if record.lineage in lines]


def make_visible(connection: sqlite3.Connection, charge_id: int) -> None:
    """Record that the release of a charge is out."""
    connection.execute(
        "UPDATE charge SET state = 'visible', visible_at = ?, ended_at = NULL WHERE id = ?", (now(), charge_id)
    )


def update(connection: sqlite3.Connection, charge_id: int, **fields: str | int) -> None:
    """Change fields of a charge; their names are ours, the values parameters."""
    names = ", ".join(f"{name} = ?" for name in fields)
    connection.execute(f"UPDATE charge SET {names} WHERE id = ?", (*fields.values(), charge_id))
