"""A charge on a ledger, in the hands of the process that publishes."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from dimly.curator.ledger_people import forget_people, share_people, store_tags, tag_chunks
from dimly.curator.ledger_process import ProcessMark
from dimly.curator.ledger_records import ChargeRecord, State, check_text
from dimly.curator.ledger_store import Store, now
from dimly.errors import BudgetError, ParameterError


class Charge:
    """One charge, bound to the process that reserved it. Made by :meth:`Ledger.reserve`.

    The order is ``claim_users``, ``start_sampling``, ``seal``, ``make_visible``; ``give_back`` ends it before it
    is visible. Whatever else happens, a charge stays.

    Attributes
    ----------
    id : int
        What the ledger calls it.
    """

    def __init__(self, store: Store, charge_id: int) -> None:
        self._store = store
        self._process = ProcessMark.of_this_process()
        self.id = charge_id

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
        """Record that noise is about to be drawn: from here on a crash costs the charge.

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
                update(connection, self.id, state="visible", visible_at=now())

    def give_back(self) -> None:
        """Return the charge, if it was not returned already; its people are forgotten.

        The caller guarantees that nothing it sampled is left, and that what went wrong did not depend on
        sampled values: to retry until the noise looks right would not be private.
        """
        if not self._own("reserved", "sampling", "returned", "forgiven").counts:
            return
        with self._changing("reserved", "sampling", "forgiven") as connection:
            update(connection, self.id, state="returned", ended_at=now())
            forget_people(connection, self.id)

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
            raise BudgetError(f"charge {self.id} must count, and was forgiven meanwhile. Reserve again.")
        raise RuntimeError(f"a charge must be {' or '.join(states)} for this, and is {record.state}.")

    @contextmanager
    def _changing(self, *states: State) -> Iterator[sqlite3.Connection]:
        with self._store.writing() as connection:
            self._expect(record_of(connection, self.id), states)
            yield connection

    def _refuse_known_people(self, connection: sqlite3.Connection, record: ChargeRecord, *, seen: set[int]) -> set[int]:
        """Return the charges of the same line, none of whose people is among this charge's."""
        if record.appends_to is None:
            return set()
        line = {other.id for other in lineage(connection, record) if other.n_users is not None} - {self.id}
        if share_people(connection, self.id, sorted(line - seen)):
            raise BudgetError(
                "users must be new to the release, and some people are in it already. Use --update, which is charged."
            )
        return line


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


def lineage(connection: sqlite3.Connection, append: ChargeRecord) -> list[ChargeRecord]:
    """Return the charges that count whose people an append must not repeat, the append itself included.

    Those of its own line, and of every other line with a release of the same id: tiny releases may come out alike, and
    then nobody can tell which of them the folder holds.
    """
    counting = [record for record in records_of(connection, append.dataset) if record.counts]
    lines = {record.lineage for record in counting if record.release_id == append.appends_to} | {append.lineage}
    return [record for record in counting if record.lineage in lines]


def update(connection: sqlite3.Connection, charge_id: int, **fields: str | int) -> None:
    """Change fields of a charge; their names are ours, the values parameters."""
    names = ", ".join(f"{name} = ?" for name in fields)
    connection.execute(f"UPDATE charge SET {names} WHERE id = ?", (*fields.values(), charge_id))
