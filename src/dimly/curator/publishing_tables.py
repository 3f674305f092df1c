"""From a private table to a release folder: charged before it is read, visible only when it is whole."""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dimly.curator.charging import Charging, account_of, charged
from dimly.curator.engine import LocalEngine, NamedTable, Parts
from dimly.curator.growing import Base
from dimly.curator.interrupts import interrupts_held
from dimly.curator.ledger import Charge, Ledger
from dimly.curator.progress import Progress
from dimly.curator.randomness import Keystream, WordSource
from dimly.curator.resources import Resources
from dimly.errors import DataError
from dimly.mechanisms.attributes import Vocabulary
from dimly.mechanisms.plan import Plan
from dimly.privacy import Cost
from dimly.release.layout import UserType
from dimly.release.parts import WrittenPart
from dimly.release.sketches import Sketches, published_layout
from dimly.release.writer import ReleaseWriter


class CheckedTable(Protocol):
    """A private table that has been read and checked, and whose people are known."""

    user_type: UserType

    @property
    def n_users(self) -> int:
        """How many people there are."""

    def own_ids(self) -> Iterator[pa.Array]:
        """Return everybody's own id, pseudonyms or not."""

    def diagnostics(self) -> dict[str, int]:
        """Return private figures about the table, for the curator's own eyes."""


class OpenTable(NamedTable, CheckedTable, Protocol):
    """A private table that has been read, checked and numbered."""


TableT = TypeVar("TableT", bound=CheckedTable)
Table_contra = TypeVar("Table_contra", bound=CheckedTable, contravariant=True)
Opening = Callable[[], AbstractContextManager[OpenTable]]
Filling = Callable[[Parts, Callable[[], None]], None]
"""Writes everybody's published row into parts, and calls the second argument before it starts."""


class ReleaseParts(Protocol):
    """Where parts of a stored release go: numbers to write, or files that were written elsewhere."""

    def write_part(self, index: int, users: pa.Array, values: NDArray[Any]) -> None:
        """Take the people of one part, and what is published of them."""

    def adopt_part(self, part: WrittenPart) -> None:
        """Take a part that is in a file already."""


class Engine(Protocol[Table_contra]):
    """Perturbs people and hands over the parts of a release."""

    @property
    def private(self) -> bool:
        """Whether all noise comes from fresh secret keystreams."""

    def publish(self, table: Table_contra, parts: ReleaseParts, *, before_noise: Callable[[], None]) -> None:
        """Publish everybody; ``before_noise`` is called once, before anything is drawn."""


@dataclass(frozen=True, slots=True)
class Public:
    """What is public about a run besides the plan."""

    roster: Literal["given", "found"]
    vocabulary: Vocabulary | None = None
    pseudonyms: bool = False


@dataclass(frozen=True, slots=True)
class Published:
    """What publishing did, or would do: nothing here depends on private rows but ``diagnostics``."""

    path: Path | str | None
    """Where it is: a folder, or an address of another file system; None after a dry run."""
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
    engine: Engine[OpenTable] = LocalEngine(plan, public.vocabulary, resources, progress, words)
    if filling is not None:
        engine = _Filled(engine.private, filling)
    return publish_by(
        lambda _: engine,
        opening,
        plan,
        out=out,
        public=public,
        charging=charging,
        progress=progress,
        overwrite=overwrite,
        base=base,
    )


@dataclass(frozen=True, slots=True)
class _Filled:
    """Hands over what was perturbed beforehand."""

    private: bool
    filling: Filling

    def publish(self, _: CheckedTable, parts: Parts, *, before_noise: Callable[[], None]) -> None:
        """Hand it over."""
        self.filling(parts, before_noise)


def publish_by(
    engine_for: Callable[[ReleaseWriter], Engine[TableT]],
    opening: Callable[[], AbstractContextManager[TableT]],
    plan: Plan,
    *,
    out: str | Path,
    public: Public,
    charging: Charging | None,
    progress: Progress,
    overwrite: bool = False,
    base: Base | None = None,
    writing: Callable[[], ReleaseWriter] | None = None,
) -> Published:
    """Publish a table into a folder, by any engine; see :func:`publish_folder`.

    Parameters
    ----------
    engine_for : callable
        Makes the engine, given the writer whose file system it may use.
    opening, plan, out, public, charging, progress, overwrite, base
        As there.
    writing : callable, optional
        Makes another writer, for a release that ends elsewhere than in a folder of this machine.
    """
    made = ReleaseWriter(out, plan, overwrite=overwrite) if writing is None else writing()
    with made as writer, charged(charging, plan, base, writer) as charge:
        with opening() as table:
            _claim(table, charge, public, base)
            writer.user_type = table.user_type
            parts: ReleaseParts = writer if base is None else base.new_parts(writer.make_scratch())
            engine = engine_for(writer)
            engine.publish(table, parts, before_noise=_nothing if charge is None else charge.start_sampling)
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
            private=engine.private and (base is None or base.sketches.private),
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
        ledger=None if charge is None or charging is None else account_of(charging, charge.id),
        warnings=_warnings(plan, manifest.n_users, public, charging, base),
        diagnostics=diagnostics,
    )


def _nothing() -> None:
    """Do nothing: there is no ledger to tell."""


def _claim(table: CheckedTable, charge: Charge | None, public: Public, base: Base | None) -> None:
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
    engine = LocalEngine(plan, public.vocabulary, resources, progress, words)
    with opening() as table:
        engine.publish(table, parts)
    users, values = parts.joined()
    return Sketches(plan, users, values, private=engine.private)


def rehearse(
    opening: Callable[[], AbstractContextManager[CheckedTable]],
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
        ledger = account_of(charging, None)
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
