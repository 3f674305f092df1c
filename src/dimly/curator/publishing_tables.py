"""From a private table to a release folder: charged before it is read, visible only when it is whole."""

import contextlib
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dimly.curator.engine import Parts, Table, publish_rows
from dimly.curator.growing import Base
from dimly.curator.interrupts import interrupts_held
from dimly.curator.ledger import Charge, Ledger
from dimly.curator.perturbing import Perturber
from dimly.curator.progress import Progress
from dimly.curator.randomness import Keystream, WordSource, is_secret
from dimly.curator.resources import Resources
from dimly.curator.row_cache import RowCache, Texts
from dimly.errors import BudgetError, DataError, DimlyError, ParameterError
from dimly.mechanisms.attributes import Vocabulary
from dimly.mechanisms.plan import Plan
from dimly.privacy import Cost
from dimly.release.layout import UserType
from dimly.release.sketches import Sketches, published_layout
from dimly.release.writer import ReleaseWriter


class OpenTable(Table, Protocol):
    """A private table that has been read, checked and numbered."""

    user_type: UserType

    def own_ids(self) -> Iterator[pa.Array]:
        """Return everybody's own id, pseudonyms or not."""

    def texts(self) -> Texts:
        """Return what the numbers of attributes stand for."""

    def diagnostics(self) -> dict[str, int]:
        """Return private figures about the table, for the curator's own eyes."""


Opening = Callable[[], AbstractContextManager[OpenTable]]
Filling = Callable[[Parts, Callable[[], None]], None]
"""Writes everybody's published row into parts, and calls the second argument before it starts."""


@dataclass(frozen=True, slots=True)
class Charging:
    """Which ledger pays: the file, the dataset's name in it, and who receives the release."""

    ledger: Path
    dataset: str
    recipient: str | None = None


@dataclass(frozen=True, slots=True)
class Public:
    """What is public about a run besides the plan."""

    roster: Literal["given", "found"]
    vocabulary: Vocabulary | None = None
    pseudonyms: bool = False


@dataclass(frozen=True, slots=True)
class Published:
    """What publishing did, or would do: nothing here depends on private rows but ``diagnostics``."""

    path: Path | None
    n_users: int
    bytes: int
    cost: Cost | None
    """What was charged, or would be; None for an append, which costs nothing."""
    plan_digest: str
    release_id: str | None = None
    ledger: dict[str, Any] | None = None
    warnings: tuple[str, ...] = ()
    diagnostics: dict[str, int] = field(default_factory=dict, repr=False)


def publish_folder(
    opening: Opening,
    plan: Plan,
    *,
    out: str | Path,
    public: Public,
    charging: Charging | None,
    resources: Resources,
    progress: Progress,
    overwrite: bool = False,
    base: Base | None = None,
    words: Callable[[], WordSource] = Keystream,
    filling: Filling | None = None,
) -> Published:
    """Publish a table into a folder.

    The target is checked and the charge reserved before the table is read; the folder appears whole or not at all.

    Parameters
    ----------
    opening : callable
        Opens the table; called once the charge is reserved.
    plan : Plan
    out : str or Path
        The folder to make.
    public : Public
    charging : Charging, optional
    resources : Resources
    progress : Progress
    overwrite : bool, default=False
        Whether a release at ``out`` may be replaced.
    base : Base, optional
        A release whose other people are taken over.
    words : callable
        Makes a source of random words for each batch; anything but fresh keystreams leaves a stamp.
    filling : callable, optional
        Writes what was perturbed beforehand, in the place of perturbing the table's rows.

    Raises
    ------
    DimlyError
        If anything does not fit or fails. Nothing is visible then. The charge is given back unless noise had been
        drawn and the failure may have depended on it.
    """
    with ReleaseWriter(out, plan, overwrite=overwrite) as writer, _charged(charging, plan, base, writer) as charge:
        with opening() as table:
            _claim(table, charge, public, base)
            writer.user_type = table.user_type
            parts: Parts = writer if base is None else base.new_parts(writer.make_scratch())
            before_noise = _nothing if charge is None else charge.start_sampling
            if filling is not None:
                filling(parts, before_noise)
            else:
                publish_rows(
                    table,
                    _perturber(plan, table, public, resources),
                    parts,
                    plan=plan,
                    threads=resources.workers,
                    progress=progress,
                    words=words,
                    before_noise=before_noise,
                )
            diagnostics = table.diagnostics()
        if base is not None:
            progress.phase("merging")
            base.merge_into(writer)
        progress.phase("sealing")
        _write_public(writer, plan, public)
        manifest = writer.seal(
            roster=public.roster if base is None else base.roster(public.roster),
            pseudonyms=public.pseudonyms,
            ledger=None if charging is None else charging.dataset,
            private=is_secret(words()) and (base is None or base.sketches.private),
        )
        if base is not None:
            base.check_unchanged()
        with interrupts_held(forget=True):  # after the rename there is nothing left to stop
            if charge is not None:
                charge.seal(release_id=manifest.release, appendable=plan.n_users is None)
            path = writer.publish()
            if charge is not None:
                charge.make_visible()
    return Published(
        path=path,
        n_users=manifest.n_users,
        bytes=published_bytes(plan, manifest.n_users),
        cost=_cost(plan, base),
        plan_digest=plan.digest,
        release_id=manifest.release,
        ledger=None if charge is None or charging is None else _account(charging, charge.id),
        warnings=_warnings(plan, manifest.n_users, public, charging, base),
        diagnostics=diagnostics,
    )


def _nothing() -> None:
    """Do nothing: there is no ledger to tell."""


def _claim(table: OpenTable, charge: Charge | None, public: Public, base: Base | None) -> None:
    """Tell the ledger who is going to be published."""
    if table.n_users == 0:
        raise DataError("there must be at least one person to publish. The table has no rows.")
    if base is not None:
        base.check(table.user_type, pseudonyms=public.pseudonyms)
    if charge is not None:
        charge.claim_users(table.own_ids())


def publish_in_memory(
    opening: Opening,
    plan: Plan,
    *,
    public: Public,
    resources: Resources,
    progress: Progress,
    words: Callable[[], WordSource] = Keystream,
) -> Sketches:
    """Return what may be published of a table, in memory."""
    parts = _MemoryParts()
    with opening() as table:
        making = _perturber(plan, table, public, resources)
        publish_rows(table, making, parts, plan=plan, threads=resources.workers, progress=progress, words=words)
    users, values = parts.joined()
    return Sketches(plan, users, values, private=is_secret(words()))


def rehearse(
    opening: Opening,
    plan: Plan,
    *,
    out: str | Path | None,
    public: Public,
    charging: Charging | None,
    overwrite: bool,
    base: Base | None = None,
) -> Published:
    """Check everything that publishing would check, and draw no noise, write nothing and charge nothing."""
    if out is not None:
        ReleaseWriter.check_target(out, overwrite=overwrite)
    ledger = None
    if charging is not None:
        if base is None or base.replace:
            Ledger(charging.ledger).check(charging.dataset, plan.cost)
        ledger = _account(charging, None)
    with opening() as table:
        n_users, diagnostics = table.n_users, table.diagnostics()
    return Published(
        path=None,
        n_users=n_users,
        bytes=published_bytes(plan, n_users),
        cost=_cost(plan, base),
        plan_digest=plan.digest,
        ledger=ledger,
        warnings=_warnings(plan, n_users, public, charging, base),
        diagnostics=diagnostics,
    )


class _MemoryParts:
    """Parts of a release that stays in memory."""

    def __init__(self) -> None:
        self._parts: dict[int, tuple[pa.Array, NDArray[Any]]] = {}

    def write_part(self, index: int, users: pa.Array, values: NDArray[Any]) -> None:
        """Take a part."""
        self._parts[index] = (users, values)

    def joined(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return users and values of all parts."""
        parts = [self._parts[index] for index in sorted(self._parts)]
        users = pa.chunked_array([users for users, _ in parts])
        ids = (
            users.to_numpy()
            if pa.types.is_integer(users.type)
            else np.array(users.to_pylist(), np.dtypes.StringDType())
        )
        return ids, np.concatenate([values for _, values in parts])


def _perturber(plan: Plan, table: OpenTable, public: Public, resources: Resources) -> Callable[[], Perturber]:
    if plan.projection is not None:
        texts = table.texts()  # now, and not while the rows are streamed
        return lambda: Perturber(plan, RowCache(plan, texts, memory=resources.rows_memory))
    assert public.vocabulary is not None  # noqa: S101 - these plans have one
    vocabulary = public.vocabulary
    return lambda: Perturber(plan, vocabulary)


def _write_public(writer: ReleaseWriter, plan: Plan, public: Public) -> None:
    """Write what is public knowledge: the plan's list of attributes, and P where readers need it."""
    vocabulary = public.vocabulary
    # A list that the plan knows nothing of only says what is left out.
    if vocabulary is None or plan.vocabulary is None:
        return
    if not vocabulary.is_numbered:
        writer.write_vocabulary(vocabulary)
    if plan.projection is not None and plan.projection.family == "gaussian":
        writer.write_projection(vocabulary)


def _reserve(charging: Charging, plan: Plan, base: Base | None) -> Charge:
    ledger = Ledger(charging.ledger)
    digest, recipient = plan.digest, charging.recipient
    if base is None:
        return ledger.reserve(charging.dataset, plan.cost, plan_digest=digest, recipient=recipient)
    release = base.sketches.manifest.release
    if base.replace:
        return ledger.reserve(charging.dataset, plan.cost, plan_digest=digest, recipient=recipient, updates=release)
    return ledger.reserve_append(charging.dataset, release_id=release, plan_digest=digest, recipient=recipient)


def _account(charging: Charging, charge_id: int | None) -> dict[str, Any]:
    return {
        "dataset": charging.dataset,
        "charge": charge_id,
        "left": Ledger(charging.ledger).status(charging.dataset).left,
    }


# Nothing here is about numbers that were drawn: the table's rows, the call, the budget, the user's own will.
_INDEPENDENT = (DataError, ParameterError, BudgetError, KeyboardInterrupt, SystemExit)


@contextlib.contextmanager
def _charged(
    charging: Charging | None, plan: Plan, base: Base | None, writer: ReleaseWriter
) -> Iterator[Charge | None]:
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


def published_bytes(plan: Plan, n_users: int) -> int:
    """Return the bytes of what is published before it is packed: how tightly it packs depends on the noise."""
    dtype, shape = published_layout(plan, n_users)
    return dtype.itemsize * math.prod(shape)


def _cost(plan: Plan, base: Base | None) -> Cost | None:
    return plan.cost if base is None or base.replace else None


def _warnings(
    plan: Plan, n_users: int, public: Public, charging: Charging | None, base: Base | None
) -> tuple[str, ...]:
    found = []
    if base is not None and base.replace:
        found.append("An update: whoever has the old release too sees who was published anew.")
    if charging is None:
        found.append("No ledger: nothing keeps count of what these people's releases cost together.")
    if public.roster == "found":
        found.append(
            "No roster: the people are those found in the table, so that being in the release says that a person "
            "has a row there. Give the public list of people as roster."
        )
    if plan.cost.delta * n_users > 0.1:
        found.append("delta is not well below 1/n: it would allow some people to be exposed altogether.")
    return tuple(found)
