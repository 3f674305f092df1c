"""The ledger: what was promised for a dataset, and what every release has spent of it.

A release is charged before its data are read, and the charge comes back only if nothing of it can have been seen. All
recipients count together, because they may collude. See ``docs/ledger.md``.
"""

import sqlite3
from pathlib import Path
from typing import Any, Self

from dimly.curator.ledger_budget import DatasetBudget
from dimly.curator.ledger_charge import Charge, record_of, records_of, update
from dimly.curator.ledger_process import ProcessMark
from dimly.curator.ledger_records import ChargeRecord, DatasetStatus, FilterMethod, check_text, cost_json
from dimly.curator.ledger_store import FORMAT, Store, now
from dimly.errors import BudgetError, ParameterError
from dimly.privacy.budget import Unit
from dimly.privacy.cost import Cost

__all__ = ["Charge", "ChargeRecord", "DatasetStatus", "Ledger"]


class Ledger:
    """An existing ledger: one SQLite file, safe to use from several threads and processes of one machine.

    Parameters
    ----------
    path : str or Path
        The file; on a local disk, because SQLite's write-ahead log does not work over a network.

    Raises
    ------
    ParameterError
        If there is no such file, or it is not a ledger.
    DimlyError
        If it is locked, read-only, damaged, or of a newer format.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger.create(folder.name + "/ledger.db")
    >>> ledger.add_dataset("purchases", epsilon=1.0)
    >>> charge = ledger.reserve("purchases", Cost(0.25), plan_digest="5e0c…")
    >>> charge.state, ledger.status("purchases").left
    ('reserved', 0.75)
    >>> charge.give_back()
    >>> ledger.status("purchases").left
    1.0
    >>> folder.cleanup()
    """

    def __init__(self, path: str | Path) -> None:
        self._store = Store(path)

    @classmethod
    def create(cls, path: str | Path) -> Self:
        """Return a new ledger with no dataset, or the one that is there already.

        Raises
        ------
        ParameterError
            If there is another file of this name, or no folder for it.
        """
        Store.create(path)
        return cls(path)

    @property
    def path(self) -> Path:
        """Where the ledger is."""
        return self._store.path

    def add_dataset(
        self,
        name: str,
        *,
        epsilon: float,
        delta: float = 0.0,
        unit: Unit = "attribute",
        method: FilterMethod | None = None,
    ) -> None:
        """Fix the budget of a dataset, for ever.

        Parameters
        ----------
        name : str
            One for everything that is known about the same people: two names for one table are two budgets.
        epsilon : float
            In (0, 700], at most 32 for "renyi". What all releases together may cost.
        delta : float, default=0.0
            In [0, 1). 0 admits pure releases only.
        unit : {"attribute", "column"}, default="attribute"
            Whom the budget protects.
        method : {"sum", "renyi"}, optional
            How charges add up; "sum" by default if ``delta`` is 0, else "renyi". To pick the better one afterwards
            would cost more.

        Raises
        ------
        ParameterError
            If the dataset is there already, or a parameter out of range.
        """
        budget = DatasetBudget.of(name, epsilon=epsilon, delta=delta, unit=unit, method=method)
        with self._store.writing() as connection:
            if connection.execute("SELECT 1 FROM dataset WHERE name = ?", (name,)).fetchone():
                raise ParameterError(
                    f"dataset must be new, and {name!r} is in the ledger already. Its budget is fixed for ever."
                )
            values = (budget.name, budget.epsilon, budget.delta, budget.unit, budget.method, now())
            connection.execute("INSERT INTO dataset VALUES (?, ?, ?, ?, ?, ?)", values)

    def datasets(self) -> tuple[str, ...]:
        """Return the names of all datasets, in alphabetical order."""
        with self._store.reading() as connection:
            return _names(connection)

    def status(self, dataset: str) -> DatasetStatus:
        """Return a dataset's budget, what is spent of it, what is left, and every charge.

        Raises
        ------
        ParameterError
            If there is no such dataset.
        """
        with self._store.reading() as connection:
            return _status(connection, dataset)

    def export(self) -> dict[str, Any]:
        """Return all that the ledger knows as JSON values, but for its key and the people's tags."""
        with self._store.reading() as connection:
            created = connection.execute("SELECT created_at FROM ledger").fetchone()[0]
            rows = {row["name"]: row["created_at"] for row in connection.execute("SELECT * FROM dataset")}
            datasets = [_status(connection, name).to_dict() | {"created_at": rows[name]} for name in _names(connection)]
        return {"format": FORMAT, "created_at": created, "exported_at": now(), "datasets": datasets}

    def check(self, dataset: str, cost: Cost) -> None:
        """Refuse what :meth:`reserve` would refuse now, and charge nothing.

        Raises
        ------
        BudgetError, ParameterError
            As :meth:`reserve` does.
        """
        with self._store.reading() as connection:
            _check_cost(connection, dataset, cost)

    def reserve(
        self,
        dataset: str,
        cost: Cost,
        *,
        plan_digest: str,
        recipient: str | None = None,
        updates: str | None = None,
    ) -> Charge:
        """Charge a release before anything of it exists.

        Check and charge are one transaction: publishers at the same time cannot spend more than there is.

        Parameters
        ----------
        dataset : str
        cost : Cost
            What the plan spends: ``plan.cost``.
        plan_digest : str
            Which plan: ``plan.digest``.
        recipient : str, optional
            Who gets the release. Recorded, and counted together with all others.
        updates : str, optional
            Id of a release of which some people are published anew, which costs as much as a new release. Its people
            and theirs are one line: whoever is in either cannot be appended later.

        Raises
        ------
        BudgetError
            If it does not fit, saying what is left, if the plan protects another unit, or if the release that it
            updates is none that may grow; see :meth:`reserve_append`.
        ParameterError
            If there is no such dataset.
        """
        with self._store.writing() as connection:
            _check_cost(connection, dataset, cost)
            line: dict[str, str | int] = {}
            if updates is not None:
                line = {"updates": updates, "lineage": _growing(connection, dataset, updates, plan_digest)}
            return self._charge(
                connection, dataset, cost=cost_json(cost), plan_digest=plan_digest, recipient=recipient, **line
            )

    def reserve_append(
        self, dataset: str, *, release_id: str, plan_digest: str, recipient: str | None = None
    ) -> Charge:
        """Reserve the right to add people to a release, by the same plan and at no cost.

        It costs nothing because :meth:`Charge.claim_users` refuses everybody who is in the release already. A line of
        releases has no branches: people are added to the newest, by one process at a time, so that none of them is
        lost when the folders are exchanged.

        Parameters
        ----------
        dataset : str
        release_id : str
            As the manifest of the release says, whose folder the caller has in hands.
        plan_digest : str
            Of the plan, which must be the release's.
        recipient : str, optional
            Who gets the new release.

        Raises
        ------
        BudgetError
            If this ledger did not charge the release to this dataset, if it is not the newest of its line, was made
            by another plan, cannot grow, or is being changed by another process.
        """
        with self._store.writing() as connection:
            lineage = _growing(connection, dataset, release_id, plan_digest)
            return self._charge(
                connection,
                dataset,
                plan_digest=plan_digest,
                recipient=recipient,
                appends_to=release_id,
                lineage=lineage,
            )

    def forgive(self, charge_id: int, *, reason: str, force: bool = False) -> None:
        """Strike a charge whose process died before its release was visible. It stays on record, with the reason.

        Parameters
        ----------
        charge_id : int
        reason : str
            One line for whoever reads the ledger later: how you know that nothing got out.
        force : bool, default=False
            Also if the process may be alive, or the release complete. Make sure that neither is so.

        Raises
        ------
        BudgetError
            If the release is visible, or may become so.
        ParameterError
            If there is no such charge, it does not count anyway, or there is no reason.
        """
        check_text("reason", reason, longest=2000)
        with self._store.writing() as connection:
            record = record_of(connection, charge_id)
            if not record.counts:
                raise ParameterError(f"charge must count to be forgiven, and charge {charge_id} is {record.state}.")
            if record.state == "visible":
                raise BudgetError(f"charge {charge_id} must not be visible to be forgiven: what is out is spent.")
            if not force:
                _refuse_unless_dead(record)
            # People stay on record: if the release comes out after all, they count again.
            update(connection, charge_id, state="forgiven", ended_at=now(), reason=reason)

    def _charge(
        self,
        connection: sqlite3.Connection,
        dataset: str,
        *,
        plan_digest: str,
        recipient: str | None,
        **fields: str | int,
    ) -> Charge:
        check_text("plan_digest", plan_digest)
        if recipient is not None:
            fields["recipient"] = check_text("recipient", recipient)
        process = ProcessMark.of_this_process().to_json()
        fields |= {"dataset": dataset, "state": "reserved", "plan_digest": plan_digest, "process": process}
        fields["reserved_at"] = now()
        columns, places = ", ".join(fields), ", ".join("?" * len(fields))
        insert = f"INSERT INTO charge ({columns}) VALUES ({places})"
        charge_id = connection.execute(insert, tuple(fields.values())).lastrowid
        assert charge_id is not None  # noqa: S101 - for the type checker: it was an INSERT
        return Charge(self._store, charge_id)

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"


def _names(connection: sqlite3.Connection) -> tuple[str, ...]:
    return tuple(row[0] for row in connection.execute("SELECT name FROM dataset ORDER BY name"))


def _budget(connection: sqlite3.Connection, dataset: str) -> DatasetBudget:
    fields = "name, epsilon, delta, unit, method"
    row = connection.execute(f"SELECT {fields} FROM dataset WHERE name = ?", (dataset,)).fetchone()
    if row is None:
        known = ", ".join(map(repr, _names(connection))) or "none yet"
        raise ParameterError(f"dataset must be one of the ledger's ({known}), got {dataset!r}.")
    return DatasetBudget(**dict(row))


def _counting(connection: sqlite3.Connection, dataset: str) -> list[ChargeRecord]:
    return [record for record in records_of(connection, dataset) if record.counts]


def _check_cost(connection: sqlite3.Connection, dataset: str, cost: Cost) -> None:
    budget = _budget(connection, dataset)
    spent = [budget.in_unit(record.cost) for record in _counting(connection, dataset) if record.cost]
    budget.check(spent, budget.in_unit(cost))


def _status(connection: sqlite3.Connection, dataset: str) -> DatasetStatus:
    budget = _budget(connection, dataset)
    records = records_of(connection, dataset)
    costs = [budget.in_unit(record.cost) for record in records if record.counts and record.cost]
    return DatasetStatus(
        name=budget.name,
        epsilon=budget.epsilon,
        delta=budget.delta,
        unit=budget.unit,
        method=budget.method,
        spent=budget.spent(costs),
        left=budget.left(costs),
        charges=tuple(records),
    )


def _growing(connection: sqlite3.Connection, dataset: str, release_id: str, plan_digest: str) -> int:
    """Return the line of a release that is to grow, if it may."""
    check_text("release_id", release_id)
    _budget(connection, dataset)
    counting = _counting(connection, dataset)
    made = [record for record in counting if record.release_id == release_id]
    if not made:
        raise BudgetError(
            f"release must be one that this ledger charged to dataset {dataset!r}, got another. "
            "Publish it as a new release, which is charged."
        )
    release = made[-1]
    line = [record for record in counting if record.lineage == release.lineage]
    _check_append(release, line, plan_digest=plan_digest)
    if release.state == "sampling":  # its process died after the exchange: the caller has the folder
        update(connection, release.id, state="visible", visible_at=now())
    return release.lineage


def _check_append(release: ChargeRecord, line: list[ChargeRecord], *, plan_digest: str) -> None:
    """Refuse to add people to a release; ``line`` holds all charges of its line that count."""
    if release.plan_digest != plan_digest:
        raise BudgetError("plan must be the one that the release was made by. With another, publish a new release.")
    if not release.appendable:
        raise BudgetError(
            "release must be one that can grow, and this one cannot. Publish a new one, which is charged."
        )
    if any(record.state == "visible" and record.id > release.id for record in line):
        raise BudgetError("release must be the newest of its line, and people were added to it since. Append to that.")
    if any(record.fate in {"this", "alive"} for record in line):
        raise BudgetError("release must not be changing, and another process works on it. Try again when it is done.")


def _refuse_unless_dead(record: ChargeRecord) -> None:
    if record.fate != "gone":
        where = {"this": "is this one", "alive": "is alive"}.get(record.fate or "", "is out of sight")
        raise BudgetError(
            f"charge {record.id} must be of a process that is gone to be forgiven, and its process {where}. "
            "Use --force if you know that it ended."
        )
    if record.release_id is not None:
        raise BudgetError(
            f"charge {record.id} must not be of a complete release to be forgiven: release {record.release_id} may be "
            "visible. Use --force if you know that no folder holds it."
        )
