"""What publishing does with a ledger: charge before, and give back only what cannot have been seen."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dimly.curator.growing import Base
from dimly.curator.interrupts import interrupts_held
from dimly.curator.ledger import Charge, Ledger
from dimly.errors import BudgetError, DataError, DimlyError, ParameterError
from dimly.mechanisms.plan import Plan
from dimly.release.writer import ReleaseWriter


@dataclass(frozen=True, slots=True)
class Charging:
    """Which ledger pays: the file, the dataset's name in it, and who receives the release."""

    ledger: Path
    dataset: str
    recipient: str | None = None


def _reserve(charging: Charging, plan: Plan, base: Base | None) -> Charge:
    ledger = Ledger(charging.ledger)
    digest, recipient = plan.digest, charging.recipient
    if base is None:
        return ledger.reserve(charging.dataset, plan.cost, plan_digest=digest, recipient=recipient)
    release = base.sketches.manifest.release
    if base.replace:
        return ledger.reserve(charging.dataset, plan.cost, plan_digest=digest, recipient=recipient, updates=release)
    return ledger.reserve_append(charging.dataset, release_id=release, plan_digest=digest, recipient=recipient)


def account_of(charging: Charging, charge_id: int | None) -> dict[str, Any]:
    """Return what is left of a dataset's budget, and by which charge."""
    return {
        "dataset": charging.dataset,
        "charge": charge_id,
        "left": Ledger(charging.ledger).status(charging.dataset).left,
    }


# Nothing here is about numbers that were drawn: the table's rows, the call, the budget, the user's own will.
_INDEPENDENT = (DataError, ParameterError, BudgetError, KeyboardInterrupt, SystemExit)


@contextlib.contextmanager
def charged(charging: Charging | None, plan: Plan, base: Base | None, writer: ReleaseWriter) -> Iterator[Charge | None]:
    """Charge a release, and give the charge back if it fails, once nothing that was drawn is left anywhere.

    A failure that depends on what was drawn (how many bytes a part takes on a full disk) must be paid for: trying
    again until it does not occur would publish from another distribution than the one that was promised.
    """
    charge = None
    try:
        if charging is not None:
            with interrupts_held():  # so that none comes between the charge and the name for it
                charge = _reserve(charging, plan, base)
        yield charge
    except BaseException as error:
        if charge is None or writer.is_published:
            raise
        writer.discard()
        if charge.state == "reserved" or isinstance(error, _INDEPENDENT):
            charge.give_back()
            raise
        if isinstance(error, DimlyError):
            raise DimlyError(
                f"{error} Charge {charge.id} stays in the ledger, because noise had been drawn. Nothing was published: "
                "see dimly ledger forgive."
            ) from None
        raise
