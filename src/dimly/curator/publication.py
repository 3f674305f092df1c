"""A publication from the charge to the rename: ``publish_table``, ``publish_by``, dry runs, interrupts, warnings."""

import contextlib
import math
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import scipy
from numpy.typing import NDArray

from dimly.curator.append import BaseRelease
from dimly.curator.diagnosis import open_diagnosed
from dimly.curator.engine import LocalEngine, NamedTable
from dimly.curator.ledger.ledger import Charge, Ledger
from dimly.curator.options import Options, Payer, Resources
from dimly.curator.people import Pseudonyms
from dimly.curator.perturb import Perturber
from dimly.curator.randomness import Keystream, WordSource
from dimly.curator.tables.matrix import MatrixTable, matrix_people, ordered_by_user, publish_people
from dimly.curator.tables.numbered_table import open_table
from dimly.curator.tables.public_lists import (
    check_before_reading,
    check_no_volunteers,
    check_volunteers_given,
    nobody_there,
    plan_along,
    vocabulary_for,
)
from dimly.errors import DataError, DimlyError, Note, ParameterError
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.vocabulary import Vocabulary, attribute_texts
from dimly.privacy import Cost
from dimly.release.format import UserType, layout_of
from dimly.release.manifest import AboutRelease
from dimly.release.parts import WrittenPart, as_user_column, check_ids, users_of
from dimly.release.sketches import Sketches
from dimly.release.writer import ReleaseWriter, check_public, check_target


class CheckedTable(Protocol):
    """A private table that has been read and checked, and whose people are known."""

    user_type: UserType

    @property
    def n_users(self) -> int:
        """How many people there are."""

    def own_ids(self) -> Iterator[pa.Array]:
        """Return everybody's own id, pseudonyms or not."""

    def published_ids(self) -> Iterator[pa.Array]:
        """Return everybody's published id, in order."""

    def diagnostics(self) -> dict[str, int]:
        """Return private figures about the table, for the curator's own eyes."""


class LocalTable(CheckedTable, Protocol):
    """A checked table whose published ids are at hand."""

    def users(self, start: int, stop: int) -> pa.Array:
        """Return the published ids of people ``start`` … ``stop`` − 1."""


class OpenTable(NamedTable, CheckedTable, Protocol):
    """A private table that has been read, checked and numbered."""


LocalTableT = TypeVar("LocalTableT", bound=LocalTable)

TableT = TypeVar("TableT", bound=CheckedTable)

Table_contra = TypeVar("Table_contra", bound=CheckedTable, contravariant=True)


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
class PublishOutcome:
    """What publishing did, or would do: nothing here depends on private rows but ``diagnostics``.

    After a dry run without a roster ``n_users`` and ``bytes`` are None: how many people the table holds is private
    until they are published.
    """

    path: Path | str | None
    """Where it is: a folder, or an address of another file system; None after a dry run."""
    n_users: int | None
    bytes: int | None
    cost: Cost | None
    """What was charged, or would be; None for an append, which costs nothing."""
    plan_digest: str
    release_id: str | None = None
    ledger: dict[str, Any] | None = None
    warnings: tuple[str, ...] = ()
    diagnostics: dict[str, int] = field(default_factory=dict, repr=False)


def publish_table(
    source: Any, plan: Plan, options: Options, *, words: Callable[[], WordSource] = Keystream
) -> PublishOutcome:
    """Publish into a folder as :func:`dimly.publish` does, and return what was done.

    ``words`` is for tests: a release made with anything but fresh keystreams is stamped as not private.
    """
    plan = plan_along(plan, options)
    opening, vocabulary, resources = _table_of(source, plan, options)
    if options.dry_run:
        return rehearse(with_short_ids(opening, plan), plan, options, vocabulary=vocabulary)
    engine = LocalEngine(plan, resources, options.watcher, words)
    return publish_by(lambda _: engine, with_short_ids(opening, plan), plan, options, vocabulary=vocabulary)


def _table_of(
    source: Any, plan: Plan, options: Options
) -> tuple[AbstractContextManager[OpenTable], Vocabulary | None, Resources]:
    """Return the table of a source, not opened yet, its list of attributes, and what the rest of the run may use.

    What is public is read and checked.
    """
    resources = options.resources.for_plan(plan)  # refused whatever the source
    if is_matrix(source):
        return *_matrix_table(source, plan, options), resources
    check_before_reading(source, options)
    vocabulary = vocabulary_for(plan, options)
    if vocabulary is not None:
        resources = resources.beside(vocabulary.nbytes)
    pseudonyms = None if options.pseudonyms is None else Pseudonyms.from_file(options.pseudonyms)
    opening = open_table(source, plan, options, vocabulary=vocabulary, pseudonyms=pseudonyms, resources=resources)
    return open_diagnosed(opening, plan, options, vocabulary, source=source), vocabulary, resources


def _matrix_table(source: Any, plan: Plan, options: Options) -> tuple[MatrixTable, Vocabulary | None]:
    for name in (
        "attribute",
        "columns",
        "diagnose",
        "pseudonyms",
        "query",
        "roster",
        "table",
        "user",
        "value",
        "where",
    ):
        if getattr(options, name) is not None:
            raise ParameterError(
                f"{name} must be given for a table with columns only, and this is a matrix. Make a table of it: "
                "pandas.DataFrame(rows, columns=[…])."
            )
    if options.vocabulary is not None:
        raise ParameterError("vocabulary of a matrix must be its columns. Name them by attributes.")
    texts = None if options.attributes is None else attribute_texts(options.attributes)
    people, known = matrix_people(source, plan, attributes=texts)
    people, ids = ordered_by_user(people, options.users)
    table = MatrixTable(people, ids, known, resolution=plan.resolution)
    return table, known if isinstance(known, Vocabulary) else None


def is_matrix(source: Any) -> bool:
    """Return whether a source has rows and columns, but no names for them."""
    if isinstance(source, list | tuple):  # of paths is a table in several files, of rows a matrix
        return not any(isinstance(item, str | os.PathLike) for item in source)
    # SciPy's matrices are asked about last: for a path, loading it would take longer than reading many a table.
    is_path = isinstance(source, str | os.PathLike)
    if isinstance(source, np.ndarray) or (_has_rows(source) and not hasattr(source, "columns")):
        return True
    return not is_path and bool(scipy.sparse.issparse(source))


def _has_rows(source: Any) -> bool:
    """Return whether a source is an array of another library with two dimensions, such as a tensor."""
    return hasattr(source, "__array__") and getattr(source, "ndim", None) == 2


@contextlib.contextmanager
def with_short_ids(opening: AbstractContextManager[LocalTableT], plan: Plan) -> Iterator[LocalTableT]:
    """Open a table with a look at the ids: those that no reader would take are refused before noise is drawn."""
    with opening as table:
        if table.user_type == "text":
            step = layout_of(plan).users_per_part
            for start in range(0, table.n_users, step):
                users = table.users(start, min(start + step, table.n_users))
                check_ids(as_user_column(users, "text"), plan)
        yield table


def publish_by(
    engine_for: Callable[[ReleaseWriter], Engine[TableT]],
    opening: AbstractContextManager[TableT],
    plan: Plan,
    options: Options,
    *,
    vocabulary: Vocabulary | None = None,
    writing: Callable[[], ReleaseWriter] | None = None,
) -> PublishOutcome:
    """Publish a table into a folder, by any engine.

    The target is checked and the charge reserved before the table is read; the folder appears whole or not at all.

    Parameters
    ----------
    engine_for : callable
        Makes the engine, given the writer whose file system it may use.
    opening : context manager
        Opens the table; entered once the charge is reserved.
    plan : Plan
    options : Options
        With a target.
    vocabulary : Vocabulary, optional
        The closed list of attributes.
    writing : callable, optional
        Makes another writer, for a release that ends elsewhere than in a folder of this machine.

    Raises
    ------
    DimlyError
        If anything does not fit or fails; a note on the error says what became of the charge. It is given back if no
        noise had been drawn. Nothing is visible then, unless the text says that the release is published.
    """
    payer, about, watcher = options.payer, options.about, options.watcher
    base = _base_of(options, plan)
    target = options.target
    if target is None:
        raise ParameterError("out must be a folder to make, got none.")
    check_public(plan, vocabulary)
    check_volunteers_given(options)
    if about is None and base is not None and (said := base.sketches.manifest.about) is not None:
        about = AboutRelease.of(title=said.title, publisher=said.publisher, note=said.note)  # on another day
    replaced = None if base is None else base.replaced_at(target)
    overwritten = _overwrites(options)
    made = ReleaseWriter(target, plan, overwrite=options.replaces, replaces=replaced) if writing is None else writing()
    with made as writer, charged(payer, plan, base, writer) as charge:
        with opening as table:
            _claim(table, charge, plan, options, base)
            writer.user_type = table.user_type
            parts: ReleaseParts = writer if base is None else base.new_parts(writer.make_scratch())
            engine = engine_for(writer)
            engine.publish(table, parts, before_noise=lambda: _begin_sampling(writer, charge))
            diagnostics = table.diagnostics()
        if base is not None:
            watcher.phase("merging")
            base.merge_into(writer)
        watcher.phase("sealing")
        writer.write_public(vocabulary)
        manifest = writer.seal(
            roster=options.roster_kind if base is None else base.roster(options.roster_kind),
            pseudonyms=options.pseudonyms is not None,
            volunteers=options.except_volunteers or (base is not None and base.sketches.manifest.users.volunteers),
            ledger=None if payer is None else payer.dataset,
            private=engine.private and (base is None or base.sketches.private),
            about=about,
        )
        if base is not None:
            base.check_unchanged()
        with interrupts_held(forget=True):  # after the rename there is nothing left to stop
            if charge is not None:
                charge.seal(release_id=manifest.release, appendable=plan.places_people)
            path = writer.publish()
            account = None
            if charge is not None and payer is not None:
                charge.make_visible()
                account = account_of(payer, charge.id)
    return PublishOutcome(
        path=path,
        n_users=manifest.n_users,
        bytes=published_bytes(plan, manifest.n_users),
        cost=_cost(plan, base),
        plan_digest=plan.digest,
        release_id=manifest.release,
        ledger=account,
        warnings=warnings_of(plan, manifest.n_users, options, base, replaced=overwritten),
        diagnostics=diagnostics,
    )


def _overwrites(options: Options) -> bool:
    return options.overwrite and options.target is not None and options.target.is_dir()


def _base_of(options: Options, plan: Plan) -> BaseRelease | None:
    """Return the release that another one grows from, read and verified now; None if there is none."""
    grows = options.grows
    return None if grows is None else BaseRelease(grows, plan, replace=options.append is None)


def _claim(table: CheckedTable, charge: Charge | None, plan: Plan, options: Options, base: BaseRelease | None) -> None:
    """Tell the ledger who is going to be published."""
    _check_people(table, plan, options, base)
    if charge is not None:
        charge.claim_users(table.own_ids())
    _check_ids_together(table, base)


def _check_people(table: CheckedTable, plan: Plan, options: Options, base: BaseRelease | None) -> None:
    """Refuse people who cannot be published by the plan, or together with those of an earlier release."""
    if table.n_users == 0:
        raise nobody_there("table")
    if not plan.admits(table.n_users):
        raise DataError(f"the table must have at most {plan.n_users} people, as the plan says.")
    if base is not None:
        base.check(table.user_type, pseudonyms=options.pseudonyms is not None)
    check_no_volunteers(table.own_ids(), options)


def _check_ids_together(table: CheckedTable, base: BaseRelease | None) -> None:
    """Refuse new people whose ids, among those of an earlier release, no reader would take."""
    if base is not None and table.user_type == "text":
        base.check_ids(table.published_ids())


def _begin_sampling(writer: ReleaseWriter, charge: Charge | None) -> None:
    """Tell the ledger that noise is about to be drawn, which spends the charge, if the release can still go out."""
    writer.check_free()
    if charge is not None:
        charge.start_sampling()


def published_bytes(plan: Plan, n_users: int) -> int:
    """Return the bytes of what is published before it is packed: how tightly it packs depends on the noise."""
    return plan.published_dtype.itemsize * math.prod(plan.published_shape(n_users))


def _cost(plan: Plan, base: BaseRelease | None) -> Cost | None:
    return plan.cost if base is None or base.replace else None


def warnings_of(
    plan: Plan, n_users: int | None, options: Options, base: BaseRelease | None = None, *, replaced: bool = False
) -> tuple[str, ...]:
    """Return what the curator should think about again: the same, wherever the release ends.

    ``replaced`` says whether a release stood where this one goes, and was not the base of it.
    """
    found = []
    if replaced:
        found.append(
            "Overwriting: the release that stood there stays spent, and this one costs its full price besides. Whoever "
            "has a copy of the old one has both."
        )
    if base is not None and base.replace:
        found.append("An update: whoever has the old release too sees who was published anew.")
    if options.ledger is None:
        found.append("No ledger: nothing keeps count of what these people's releases cost together.")
    if plan.directions_kind == "learned" and options.volunteers is None:
        found.append(
            "No volunteers: the directions were learned from people who must not be among those published. Give their "
            "list as volunteers (--volunteers), to have that checked."
        )
    if plan.directions_kind == "surveyed":
        found.append(
            "The directions were learned from a private table by a survey, whose epsilon and delta come on top of "
            "those of this release. Make sure that the survey was charged to the same dataset of the ledger."
        )
    if options.roster_kind == "found":
        found.append(
            "No roster: the people are those found in the table, and being in the release tells that a person has "
            "a row there. Give the public list of people as roster (--roster)."
        )
    if options.where is not None and options.diagnose is None:
        found.append(
            "A condition is given, and nobody checks whether any row meets it: if none does, only noise is published. "
            "Pass diagnose=FILE (--diagnose FILE) to know, in private. The release does not hold the condition: state "
            "it by note (--note)."
        )
    if n_users is None and plan.cost.delta > 0:
        found.append("delta should be well below 1/n: without a roster a dry run does not compare it with n.")
    elif n_users is not None and plan.cost.delta * n_users > 0.1:
        found.append("delta is not well below 1/n: it would allow some people to be exposed altogether.")
    return tuple(found)


def rehearse(
    opening: AbstractContextManager[CheckedTable],
    plan: Plan,
    options: Options,
    *,
    vocabulary: Vocabulary | None = None,
) -> PublishOutcome:
    """Check everything that publishing would check, and draw no noise, write nothing and charge nothing."""
    check_public(plan, vocabulary)
    check_volunteers_given(options)
    base, payer = _base_of(options, plan), options.payer
    if options.target is not None:
        check_target(options.target, overwrite=options.replaces)
    ledger = None
    if payer is not None:
        if base is None or base.replace:
            Ledger(payer.ledger).check(payer.dataset, plan.cost)
        ledger = account_of(payer, None)
    with opening as table:
        _check_people(table, plan, options, base)
        _check_ids_together(table, base)
        n_users = table.n_users if options.roster_kind == "given" else None
        diagnostics = table.diagnostics()
    return PublishOutcome(
        path=None,
        n_users=n_users,
        bytes=None if n_users is None else published_bytes(plan, n_users),
        cost=_cost(plan, base),
        plan_digest=plan.digest,
        ledger=ledger,
        warnings=warnings_of(plan, n_users, options, base, replaced=_overwrites(options)),
        diagnostics=diagnostics,
    )


def publish_here(source: Any, plan: Plan, options: Options) -> tuple[Sketches, Vocabulary | None]:
    """Publish in memory; return the sketches, and the closed list of attributes if there is one."""
    if options.about is not None:
        raise ParameterError(
            "title, publisher and note must come with out. Or give them to release.save(path, title=…)."
        )
    for name in ("ledger", "update"):
        if getattr(options, name) is not None:
            raise ParameterError(f"out must be a folder to make where {name} is given, got none. Add out=FOLDER.")
    plan = plan_along(plan, options)
    check_volunteers_given(options)
    opening, vocabulary, resources = _table_of(source, plan, options)
    if isinstance(opening, MatrixTable):
        check_no_volunteers(opening.own_ids(), options)
        sketches = publish_people(opening.people, Perturber(plan, opening.attributes), users=opening.ids)
    else:
        sketches = publish_in_memory(opening, plan, options, resources)
    told = replace(
        sketches,
        roster=options.roster_kind,
        pseudonyms=options.pseudonyms is not None,
        volunteers=options.except_volunteers,
    )
    return told, vocabulary


def publish_in_memory(
    opening: AbstractContextManager[OpenTable],
    plan: Plan,
    options: Options,
    resources: Resources | None = None,
    *,
    words: Callable[[], WordSource] = Keystream,
) -> Sketches:
    """Return what may be published of a table, in memory."""
    parts = _MemoryParts()
    engine = LocalEngine(plan, resources or options.resources.for_plan(plan), options.watcher, words)
    with opening as table:
        check_no_volunteers(table.own_ids(), options)
        engine.publish(table, parts)
    users, values = parts.joined()
    return Sketches(plan, users, values, private=engine.private)


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
        users = users_of(pa.chunked_array([users for users, _ in parts]))
        return users, np.concatenate([values for _, values in parts])


class Chargeable(Protocol):
    """What a ledger is charged for: a plan, or the questions of a survey."""

    @property
    def cost(self) -> Cost:
        """What it spends."""

    @property
    def digest(self) -> str:
        """Which one it is."""


class ChargedTarget(Protocol):
    """Where something charged becomes visible."""

    @property
    def place(self) -> str:
        """Where it will be, for texts."""

    @property
    def is_published(self) -> bool | None:
        """Whether it can be seen; None where nobody can tell."""


@contextlib.contextmanager
def charged(
    payer: Payer | None, plan: Chargeable, base: BaseRelease | None, writer: ChargedTarget
) -> Iterator[Charge | None]:
    """Charge a release; if it fails, give the charge back if no noise was drawn, and say what became of it.

    Noise that was drawn was staged where others of the same account can read it, and whether a run fails may depend on
    it (how many bytes a part takes on a full disk). So it is spent, whatever ended the run: to try again until it is
    to one's liking, or to average several tries, must cost as much as the tries.
    """
    charge = None
    try:
        if payer is not None:
            with interrupts_held():  # so that none comes between the charge and the name for it
                charge = _reserve(payer, plan, base)
        yield charge
    except BaseException as error:
        if charge is None or payer is None:
            raise
        is_published = writer.is_published
        if is_published is False:
            said = _end_without_release(charge, payer)
            if said is not None:
                error.add_note(said)
            raise
        if is_published is None:
            error.add_note(_unknown_note(charge, payer, writer))
            raise
        try:
            charge.make_visible()
        except Exception as failed:  # noqa: BLE001 - whatever it is: that the release is out must be said
            reason = str(failed) if isinstance(failed, DimlyError) else "The ledger could not be told."
            raise DimlyError(_unconfirmed_text(charge, payer, writer, reason)) from None
        error.add_note(Note(f"{writer.place} is published and charge {charge.id} recorded: nothing is left to do."))
        raise


def _reserve(payer: Payer, plan: Chargeable, base: BaseRelease | None) -> Charge:
    ledger = Ledger(payer.ledger)
    digest, recipient = plan.digest, payer.recipient
    if base is None:
        return ledger.reserve(payer.dataset, plan.cost, plan_digest=digest, recipient=recipient)
    release = base.sketches.manifest.release
    if base.replace:
        return ledger.reserve(payer.dataset, plan.cost, plan_digest=digest, recipient=recipient, updates=release)
    return ledger.reserve_append(payer.dataset, release_id=release, plan_digest=digest, recipient=recipient)


def account_of(payer: Payer, charge_id: int | None) -> dict[str, Any]:
    """Return what is left of a dataset's budget, and by which charge."""
    return {
        "dataset": payer.dataset,
        "charge": charge_id,
        "left": Ledger(payer.ledger).status(payer.dataset).left,
    }


def _end_without_release(charge: Charge, payer: Payer) -> Note | None:
    """End a charge whose release was not published; return why it stays, if it does."""
    try:
        if charge.abandon():
            return None
        record = charge.record
    except DimlyError as failed:
        return Note(
            f"Charge {charge.id} stays although nothing was published, because the ledger could not be told: {failed} "
            f"See `dimly ledger show {payer.ledger}`, and `dimly ledger forgive` if no noise was drawn."
        )
    if record.state == "visible":
        return Note(f"Charge {charge.id} stays although nothing was published, because it was confirmed meanwhile.")
    is_append = record.appends_to is not None
    again = "To add these people now takes --update, which is charged" if is_append else "To try again costs again"
    return Note(
        f"Charge {charge.id} stays in the ledger although nothing was published, because noise had been drawn and may "
        f"have been read. {again}. If you are sure that nobody read it, see `dimly ledger forgive --help`."
    )


def _unknown_note(charge: Charge, payer: Payer, writer: ChargedTarget) -> Note:
    return Note(
        f"It is not known whether {writer.place} was published, so that charge {charge.id} stays. If the release is "
        f"there, run `dimly ledger confirm {payer.ledger} {charge.id}`."
    )


def _unconfirmed_text(charge: Charge, payer: Payer, writer: ChargedTarget, reason: str) -> str:
    return (
        f"{writer.place} is published and charged, by charge {charge.id}; only the ledger's entry that it can be seen "
        f"is missing. Do not publish again: run `dimly ledger confirm {payer.ledger} {charge.id}` when the ledger "
        f"can be written to. {reason}"
    )


_HELD = [number for name in ("SIGINT", "SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None]


@contextlib.contextmanager
def interrupts_held(*, forget: bool = False) -> Iterator[None]:
    """Let signals that end a program wait until the block is left; they are then handled as if they had just come.

    Only the main thread of a program handles signals, so that elsewhere this does nothing.

    Parameters
    ----------
    forget : bool, default=False
        Whether to let them pass instead: for the last steps of a job, after which there is nothing left to end.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    handlers = {number: signal.signal(number, lambda *signals: came.append(signals)) for number in _HELD}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if came and not forget:
            number, frame = came[0]
            handler = handlers[number]
            if callable(handler):
                handler(number, frame)
            elif handler == signal.SIG_DFL:
                os.kill(os.getpid(), number)
