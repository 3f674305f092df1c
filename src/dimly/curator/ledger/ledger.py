"""``Ledger`` and ``DatasetBudget``: what was promised for a dataset, what is spent and left, reservations.

A release is charged before its data are read, and the charge comes back only if no noise was drawn for it. All
recipients count together, because they may collude. See ``docs/ledger.md``.
"""

import math
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self, get_args

from dimly.curator.ledger.charge import (
    Charge,
    ChargeRecord,
    check_text,
    counting_charges,
    make_visible,
    record_of,
    records_of,
    update,
)
from dimly.curator.ledger.store import FORMAT, Store, now
from dimly.display import Shown, data_frame
from dimly.errors import BudgetError, ParameterError, check_choice
from dimly.privacy.budget import UNITS, Budget, Unit
from dimly.privacy.composition import LARGEST_EPSILON, Composition, Cost, compose

FilterMethod = Literal["sum", "renyi"]
"""Rules that hold for plans chosen after earlier releases were seen."""

FILTER_METHODS: tuple[FilterMethod, ...] = get_args(FilterMethod)


# Whether one more release fits a dataset's budget: a filter over all that was charged.
#
# Plans may be chosen after earlier releases were seen, so that only rules count which hold for such choices: a sum, or
# a Rényi filter (Feldman and Zrnic, 2021), whose total ε, δ and method are fixed before the first charge.


@dataclass(frozen=True, slots=True)
class DatasetBudget:
    """What may be spent on one dataset, fixed for ever. Make one with :meth:`of`."""

    name: str
    epsilon: float
    delta: float
    unit: Unit
    method: FilterMethod

    @classmethod
    def of(cls, name: str, *, epsilon: float, delta: float, unit: Unit, method: FilterMethod | None) -> "DatasetBudget":
        """Return a budget whose parts fit each other.

        Raises
        ------
        ParameterError
            If they do not.
        """
        check_text("dataset", name)
        budget = Budget(epsilon, delta)
        check_choice("unit", unit, UNITS)
        if method is None:
            method = "sum" if budget.is_pure else "renyi"
        if method not in FILTER_METHODS:
            raise ParameterError(
                f"method must be one of {', '.join(FILTER_METHODS)}, got {method!r}. Others do not hold for plans "
                "that are chosen after earlier releases were seen."
            )
        if method == "renyi" and not (budget.delta > 0 and budget.epsilon <= LARGEST_EPSILON):
            raise ParameterError(
                f"method 'renyi' must have delta > 0 and epsilon of at most {LARGEST_EPSILON:g}, got delta "
                f"{budget.delta:g} and epsilon {budget.epsilon:g}. Use method 'sum'."
            )
        return cls(name, budget.epsilon, budget.delta, unit, method)

    def in_unit(self, cost: Cost) -> Cost:
        """Return a cost in the dataset's unit.

        A plan that protects a whole column protects each of its attributes, which move half as far, at no more than the
        same cost. The other way round there is no such claim.

        Raises
        ------
        BudgetError
            If the plan protects attributes and the dataset promises columns.
        """
        if cost.unit == self.unit:
            return cost
        if self.unit == "column":
            raise BudgetError(
                f"plan must protect unit 'column', as dataset {self.name!r} promises, got {cost.unit!r}: a changed "
                "category moves two attributes. Make a plan with unit 'column'."
            )
        return replace(cost, unit=self.unit)

    def spent(self, costs: Sequence[Cost]) -> Composition:
        """Return what these cost together by the dataset's own method.

        Beyond the budget only the plain sum is a claim: a Rényi filter is one as long as it is kept. Only a charge that
        was entered afterwards, or was forgiven by force and came out after all, can get there.
        """
        try:
            total = self._compose(costs)
        except ParameterError:
            total = None
        if total is not None and total.epsilon <= self.epsilon:
            return total
        try:
            return compose(costs, delta=math.nextafter(1.0, 0.0), method="sum")
        except ParameterError:  # their deltas add up to 1, and nothing is promised any more
            sum_up = math.nextafter(math.fsum(cost.epsilon for cost in costs), math.inf)
            return Composition(sum_up, 1.0, "sum", len(costs))

    def is_over(self, costs: Sequence[Cost]) -> bool:
        """Return whether these cost more than was promised, as only what was entered or forgiven by force can."""
        total = self.spent(costs)
        return total.epsilon > self.epsilon or total.delta > self.delta

    def left(self, costs: Sequence[Cost]) -> float:
        """Return the largest ε of one pure release that certainly still fits after these, or 0.0."""

        def total(epsilon: float) -> float:
            return self._compose([*costs, Cost(epsilon, unit=self.unit)]).epsilon

        least = self.epsilon * 1e-9  # less is rounding, not budget
        try:
            if total(least) > self.epsilon:
                return 0.0
        except ParameterError:
            return 0.0
        low, high = least, self.epsilon * (1 + 1e-9)
        while low < (middle := (low + high) / 2) < high:  # to neighboring floats
            low, high = (middle, high) if total(middle) <= self.epsilon else (low, middle)
        return low

    def check(self, costs: Sequence[Cost], cost: Cost) -> None:
        """Refuse a cost, in the dataset's unit, that does not fit beside these.

        Raises
        ------
        BudgetError
            Saying what is left.
        """
        try:
            total = self._compose([*costs, cost]).epsilon
        except ParameterError as error:
            raise BudgetError(
                f"{self._promise}, and this release does not fit: {error} {self._advice(costs)}"
            ) from None
        if total > self.epsilon:
            short = f"{total:.6g}"
            told = short if float(short) > self.epsilon else repr(total)
            raise BudgetError(
                f"{self._promise}, and this release of epsilon {cost.epsilon:g} would make it {told}. "
                f"{self._advice(costs)}"
            )

    def _compose(self, costs: Sequence[Cost]) -> Composition:
        return compose(costs, delta=self.delta, method=self.method)

    @property
    def _promise(self) -> str:
        return f"dataset {self.name!r} must stay within epsilon {self.epsilon:g} at delta {self.delta:g}"

    def _advice(self, costs: Sequence[Cost]) -> str:
        left = self.left(costs)
        if left == 0:
            return "Nothing is left."
        return f"A release of epsilon {_down(left):.6g} and delta 0 still fits."


def _down(value: float) -> float:
    """Return six digits that do not exceed the value, because people will type them."""
    near = float(f"{value:.5e}")
    return near if near <= value else near - 10.0 ** (math.floor(math.log10(value)) - 5)


@dataclass(frozen=True, slots=True)
class DatasetStatus:
    """A dataset's budget, what is spent of it, and on what.

    Attributes
    ----------
    name : str
    epsilon, delta : float
        The budget, for all recipients and for ever.
    unit : {"attribute", "column"}
    method : {"sum", "renyi"}
        How charges add up.
    spent : Composition
        What all charges that count cost together.
    left : float
        Largest ε of one pure release that certainly still fits; 0.0 if none does.
    charges : tuple of ChargeRecord
        All of them, also those that do not count, oldest first.
    """

    name: str
    epsilon: float
    delta: float
    unit: Unit
    method: FilterMethod
    spent: Composition
    left: float
    charges: tuple[ChargeRecord, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain JSON values."""
        fields = {name: getattr(self, name) for name in ("name", "epsilon", "delta", "unit", "method", "left")}
        spent = {name: getattr(self.spent, name) for name in ("epsilon", "delta", "method", "n_costs")}
        return fields | {"spent": spent, "charges": [charge.to_dict() for charge in self.charges]}


__all__ = ["Charge", "ChargeRecord", "DatasetStatus", "Ledger"]


_COLUMNS = ("dataset", "epsilon", "delta", "unit", "spent", "left", "charges")


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
    >>> charge.abandon()  # no noise was drawn
    True
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
                    f"dataset must be new, but {name!r} is already in the ledger. Its budget cannot be changed."
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
                line = {"updates": updates, "lineage": _lineage_to_grow(connection, dataset, updates, plan_digest)}
            return Charge.enter(
                self._store, connection, dataset, cost=cost, plan_digest=plan_digest, recipient=recipient, **line
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
            by another plan, cannot grow, or is being changed by another process; or if the dataset is over its budget:
            then whoever is not in this release may have got all of the budget by others.
        """
        with self._store.writing() as connection:
            lineage = _lineage_to_grow(connection, dataset, release_id, plan_digest)
            budget, spent = _spent(connection, dataset)
            if budget.is_over(spent):
                raise BudgetError(
                    f"dataset {dataset!r} must be within its budget for people to be added, but it is over it. Nothing "
                    "more can be published for it."
                )
            return Charge.enter(
                self._store,
                connection,
                dataset,
                cost=None,
                plan_digest=plan_digest,
                recipient=recipient,
                appends_to=release_id,
                lineage=lineage,
            )

    def enter(self, dataset: str, release: str | Path, *, recipient: str | None = None) -> ChargeRecord:
        """Charge a release that was published without this ledger.

        Its cost is already spent, so it is entered even beyond the budget; nothing can be published for this dataset
        then. Nobody can be added to a release that was entered: it cannot be told who else was published with it.

        Parameters
        ----------
        dataset : str
        release : str or Path
            Its folder; every file is verified.
        recipient : str, optional
            Who got it.

        Raises
        ------
        BudgetError
            If the dataset has a charge of this release already, or promises columns where the release protects
            attributes.
        ParameterError
            If there is no such dataset, or the release was made for tests.
        ReleaseError
            If it is not a release, or damaged.
        """
        from dimly.release.reader import open_folder  # noqa: PLC0415 (slow to import, and needed nowhere else)
        from dimly.release.verify import verify  # noqa: PLC0415

        manifest = open_folder(release).manifest
        if not manifest.private:
            raise ParameterError("release must be private to be entered, but it was made for tests and costs nothing.")
        verify(release)
        with self._store.writing() as connection:
            budget, cost = _budget(connection, dataset), manifest.plan.cost
            if budget.unit == "column" and cost.unit != "column":
                raise BudgetError(
                    f"release must protect unit 'column', as dataset {dataset!r} promises, got {cost.unit!r}. Enter it "
                    "into a dataset with unit 'attribute'."
                )
            for record in records_of(connection, dataset):
                if record.release_id == manifest.release and record.state != "returned":
                    raise BudgetError(_entered_already(record, self.path))
            charge = Charge.enter(
                self._store,
                connection,
                dataset,
                cost=budget.in_unit(cost),
                plan_digest=manifest.plan_digest,
                recipient=recipient,
                release_id=manifest.release,
                n_users=manifest.n_users,
                reason="entered after it was published",
            )
            make_visible(connection, charge.id)
            return record_of(connection, charge.id)

    def forgive(self, charge_id: int, *, reason: str, force: bool = False) -> None:
        """Strike a charge whose run ended before noise was drawn. It stays on record, with the reason.

        Parameters
        ----------
        charge_id : int
        reason : str
            One line for whoever reads the ledger later: how you know that nobody read anything.
        force : bool, default=False
            Also if the process may be alive, or noise was drawn. Make sure that it ended, that no folder holds the
            release, and that nobody read what was staged: the ledger cannot know any of it.

        Raises
        ------
        BudgetError
            If the release is visible, or may become so, or something of it may have been read.
        ParameterError
            If there is no such charge, it does not count anyway, or there is no reason.
        """
        check_text("reason", reason, longest=2000)
        with self._store.writing() as connection:
            record = record_of(connection, charge_id)
            if not record.counts:
                raise ParameterError(f"charge must count to be forgiven, but charge {charge_id} is {record.state}.")
            if record.state == "visible":
                raise BudgetError(f"charge {charge_id} must not be visible to be forgiven: what is out is spent.")
            if not force:
                _refuse_unless_dead(record)
            # People stay on record: if the release comes out after all, they count again.
            update(connection, charge_id, state="forgiven", ended_at=now(), reason=reason)

    def confirm(self, charge_id: int) -> None:
        """Record that the release of a charge is out, where the run that published it could not.

        Raises
        ------
        BudgetError
            If the run did not get as far as a complete release, or its charge was given back.
        ParameterError
            If there is no such charge.
        """
        with self._store.writing() as connection:
            record = record_of(connection, charge_id)
            if record.release_id is None:
                raise BudgetError(
                    f"charge {charge_id} must be of a complete release to be confirmed, but its run never had one."
                )
            if record.state == "returned":  # by an early version, which gave back what was drawn
                raise BudgetError(
                    f"charge {charge_id} must count or be forgiven to be confirmed, but it was given back, and its "
                    "people with it. Do not hand out its release: publish again."
                )
            if record.state != "visible":
                make_visible(connection, charge_id)

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

    def _repr_html_(self) -> str:
        return Shown(f"Ledger {self.path.name}", (), _COLUMNS, self._rows()).html()

    def to_pandas(self) -> Any:
        """Return a data frame: one row for each dataset, with its budget, what is spent and what is left.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        rows = self._rows()
        return data_frame({name: [row[i] for row in rows] for i, name in enumerate(_COLUMNS)})

    def _rows(self) -> list[tuple[object, ...]]:
        found = [self.status(name) for name in self.datasets()]
        return [
            (one.name, one.epsilon, one.delta, one.unit, one.spent.epsilon, one.left, len(one.charges)) for one in found
        ]


def _names(connection: sqlite3.Connection) -> tuple[str, ...]:
    return tuple(row[0] for row in connection.execute("SELECT name FROM dataset ORDER BY name"))


def _budget(connection: sqlite3.Connection, dataset: str) -> DatasetBudget:
    fields = "name, epsilon, delta, unit, method"
    names = _names(connection)
    if dataset not in names:  # before SQLite is asked, which takes no text but Unicode
        known = ", ".join(map(repr, names)) or "none yet"
        raise ParameterError(f"dataset must be one of the ledger's ({known}), got {dataset!r}.")
    row = connection.execute(f"SELECT {fields} FROM dataset WHERE name = ?", (dataset,)).fetchone()
    return DatasetBudget(**dict(row))


def _check_cost(connection: sqlite3.Connection, dataset: str, cost: Cost) -> None:
    budget, spent = _spent(connection, dataset)
    budget.check(spent, budget.in_unit(cost))


def _spent(connection: sqlite3.Connection, dataset: str) -> tuple[DatasetBudget, list[Cost]]:
    """Return a dataset's budget, and the costs that count, in its unit."""
    budget = _budget(connection, dataset)
    return budget, [budget.in_unit(record.cost) for record in counting_charges(connection, dataset) if record.cost]


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


def _lineage_to_grow(connection: sqlite3.Connection, dataset: str, release_id: str, plan_digest: str) -> int:
    """Return the line of a release that is to grow, if it may."""
    check_text("release_id", release_id)
    _budget(connection, dataset)
    counting = counting_charges(connection, dataset)
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
        make_visible(connection, release.id)
    return release.lineage


def _check_append(release: ChargeRecord, line: list[ChargeRecord], *, plan_digest: str) -> None:
    """Refuse to add people to a release; ``line`` holds all charges of its line that count."""
    if release.plan_digest != plan_digest:
        raise BudgetError("plan must be the one that the release was made by. With another, publish a new release.")
    if not release.appendable:
        raise BudgetError(
            "release must be one that can grow, but this one cannot. Publish a new one, which is charged."
        )
    if any(record.state == "visible" and record.id > release.id for record in line):
        raise BudgetError(
            "release must be the newest of its line, but people were added to it since. Append to the newest."
        )
    if any(record.fate in {"this", "alive"} for record in line):
        raise BudgetError(
            "release must not be changing, but another process is working on it. Try again when it is done."
        )


def _entered_already(record: ChargeRecord, path: Path) -> str:
    begins = f"release must be entered once, but charge {record.id} is its own"
    if record.state == "visible":
        return f"{begins} already."
    return f"{begins} and is {record.state}. Run `dimly ledger confirm {path} {record.id}` to count it as published."


def _refuse_unless_dead(record: ChargeRecord) -> None:
    if record.fate != "gone":
        where = {"this": "is this one", "alive": "is alive"}.get(record.fate or "", "is out of sight")
        raise BudgetError(
            f"charge {record.id} must be of a process that is gone to be forgiven, but its process {where}. "
            "Use --force if you know that it ended."
        )
    if record.release_id is not None:
        raise BudgetError(
            f"charge {record.id} must not be of a complete release to be forgiven: release {record.release_id} may be "
            "visible. Use --force if you know that no folder holds it, and that nobody read what was staged."
        )
    if record.sampling_at is not None:
        raise BudgetError(
            f"charge {record.id} must be of a run that drew no noise to be forgiven, but this one did: what may have "
            "been read is spent. Use --force if you are sure that nobody read what was staged."
        )
