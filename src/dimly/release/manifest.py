"""The manifest: what a release is, what it promises and which files it holds. Nothing in it depends on private data."""

import builtins
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Literal, Self

import pyarrow.parquet as pq
from pydantic import BaseModel, Field, ValidationError, model_validator

from dimly.errors import ParameterError, ReleaseError
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.plan_parts import STRICT
from dimly.privacy import Unit
from dimly.release.guarantee import Roster, guarantee
from dimly.release.layout import (
    ATTRIBUTES,
    MANIFEST,
    PROJECTION,
    Layout,
    UserType,
    attributes_schema,
    described_schema,
    layout_of,
    part_path,
    part_schema,
    projection_schema,
)
from dimly.release.parts import FileRecord, check_footer

FORMAT: Final = 1


class Users(BaseModel):
    """Who is in the release, as far as the promise is concerned."""

    model_config = STRICT

    type: UserType
    roster: Roster
    """Whether the list of people was given, which is public, or found in the private table."""
    pseudonyms: bool

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.pseudonyms and self.type != "text":
            raise ParameterError("type must be text where pseudonyms are published.")
        return self


class LedgerEntry(BaseModel):
    """Where the release was charged."""

    model_config = STRICT

    dataset: str = Field(min_length=1)


class Manifest(BaseModel):
    """What stands in manifest.json. Make one with :meth:`of`, read one with :func:`read_manifest`.

    Frozen; whatever is read or made is checked: its fields fit each other and the plan, whose proof runs again.
    """

    model_config = STRICT

    format: Literal[1] = FORMAT
    release: str = Field(pattern="^[0-9a-f]{64}$")
    """SHA-256 of the manifest's canonical JSON without this field: the files' digests included."""
    plan: Plan
    plan_digest: str
    epsilon: float
    delta: float
    unit: Unit
    guarantee: tuple[str, ...]
    n_users: int = Field(ge=1)
    users: Users
    layout: Layout
    columns: dict[str, str] = Field(alias="schema")
    files: tuple[FileRecord, ...]
    ledger: LedgerEntry | None
    not_private: Literal[True] | None = None

    @classmethod
    def of(
        cls,
        plan: Plan,
        *,
        users: Users,
        n_users: int,
        files: Iterable[FileRecord],
        ledger: str | None = None,
        private: bool = True,
    ) -> "Manifest":
        """Return the manifest of a release by ``plan``, with its promise in words and its id."""
        promise = guarantee(plan, n_users, private=private, roster=users.roster, pseudonyms=users.pseudonyms)
        fields: dict[str, Any] = {
            "format": FORMAT,
            "plan": json.loads(plan.to_json()),
            "plan_digest": plan.digest,
            "epsilon": plan.cost.epsilon,
            "delta": plan.cost.delta,
            "unit": plan.unit,
            "guarantee": promise.splitlines(),
            "n_users": n_users,
            "users": users.model_dump(mode="json"),
            "layout": layout_of(plan).model_dump(mode="json"),
            "schema": described_schema(plan, users.type),
            "files": [record.model_dump(mode="json") for record in sorted(files, key=lambda record: record.path)],
            "ledger": None if ledger is None else {"dataset": ledger},
        }
        if not private:
            fields["not_private"] = True
        return _validated(fields | {"release": release_id(fields)})

    @property
    def private(self) -> bool:
        """Whether the noise came from a fresh secret keystream, as far as the publisher's software says."""
        return self.not_private is None

    @property
    def promise(self) -> str:
        """What this version of the software says that such a release promises, one sentence a line."""
        users = self.users
        return guarantee(
            self.plan, self.n_users, private=self.private, roster=users.roster, pseudonyms=users.pseudonyms
        )

    def record(self, path: str) -> FileRecord | None:
        """Return what is said of one file; None if the release does not hold it."""
        return next((record for record in self.files if record.path == path), None)

    @property
    def parts(self) -> tuple[FileRecord, ...]:
        """The parts, in the order of their users."""
        return self.files[-self.layout.n_parts(self.n_users) :]

    def users_after(self, index: int) -> int:
        """Return how many people come after those of part ``index``."""
        return max(0, self.n_users - (index + 1) * self.layout.users_per_part)

    def check_footer(self, file: pq.ParquetFile, record: FileRecord) -> None:
        """Refuse a file of the release whose columns, rows or row groups are not what they must be.

        Raises
        ------
        ReleaseError
            Naming the file and what is wrong.
        """
        if record.path == ATTRIBUTES:
            check_footer(file, record, attributes_schema(), groups=None)
        elif record.path == PROJECTION:
            check_footer(file, record, projection_schema(self.plan), groups=None)
        else:
            schema = part_schema(self.plan, self.users.type)
            check_footer(file, record, schema, groups=self.layout.groups_in(record.rows))

    def to_json(self) -> str:
        """Return the manifest as indented JSON."""
        fields = self.model_dump(mode="json", by_alias=True, exclude={"plan", "not_private"})
        fields["plan"] = json.loads(self.plan.to_json())
        if not self.private:
            fields["not_private"] = True
        return json.dumps(fields, indent=2, sort_keys=True, ensure_ascii=False) + "\n"

    @property
    def bytes(self) -> int:
        """Size of all files but the manifest."""
        return sum(record.bytes for record in self.files)

    @classmethod
    def from_json(cls, text: str | builtins.bytes) -> "Manifest":
        """Read a manifest, prove its plan again, and check its id.

        Raises
        ------
        ReleaseError
            Naming the field that is missing, unknown or does not fit the others.
        """
        try:
            fields = json.loads(text, object_pairs_hook=_each_once, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            reason = str(error) if isinstance(error, _AmbiguousError) else "must be JSON in UTF-8"
            raise ReleaseError(f"{MANIFEST} {reason}. It was changed or copied badly.") from None
        if not isinstance(fields, dict):
            raise ReleaseError(f"{MANIFEST} must be a JSON object. It was changed or copied badly.")
        if fields.get("format") != FORMAT or isinstance(fields.get("format"), bool):
            raise ReleaseError(
                f"{MANIFEST} field 'format' must be {FORMAT}, got {fields.get('format')!r}. "
                "Read it with the version of Dimly that wrote it."
            )
        manifest = _validated(fields)
        stated = fields.pop("release")
        if release_id(fields) != stated:
            raise ReleaseError(
                f"{MANIFEST} field 'release' must be the digest of the rest, and is not. The manifest was changed."
            )
        return manifest

    @model_validator(mode="after")
    def _check(self) -> Self:
        plan, cost = self.plan, self.plan.cost
        expected: dict[str, tuple[object, object]] = {
            "plan_digest": (self.plan_digest, plan.digest),
            "epsilon": (self.epsilon, cost.epsilon),
            "delta": (self.delta, cost.delta),
            "unit": (self.unit, plan.unit),
            "layout": (self.layout, layout_of(plan)),
            "schema": (self.columns, described_schema(plan, self.users.type)),
            "n_users": (plan.n_users is None or self.n_users <= plan.n_users, True),
        }
        for name, (actual, wanted) in expected.items():
            if actual != wanted:
                raise ParameterError(f"{name} must be what the plan says, and is not")
        self._check_files()
        return self

    def _check_files(self) -> None:
        n_parts = self.layout.n_parts(self.n_users)
        if n_parts > len(self.files):
            raise ParameterError(f"files must hold the {n_parts} parts of {self.n_users} users, and does not")
        rows = {part_path(index): self.layout.users_in(index, self.n_users) for index in range(n_parts)}
        listed = {ATTRIBUTES, PROJECTION} if self.plan.vocabulary is not None else set()
        if self.plan.projection is None:
            listed.discard(PROJECTION)
        paths = [record.path for record in self.files]
        if paths != sorted(set(paths)) or not set(rows) <= set(paths) <= set(rows) | listed:
            raise ParameterError("files must be the parts of the release, and what goes with its vocabulary, in order")
        for record in self.files:
            if record.rows != rows.get(record.path, self.plan.n_attributes):
                raise ParameterError(f"files must hold as many rows as the layout says, and {record.path} does not")


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a release folder, checked.

    Raises
    ------
    ReleaseError
        If there is none, or it is not one of ours.
    """
    path = folder / MANIFEST
    if not folder.is_dir():
        raise ReleaseError(f"{folder} must be a release folder, and is no folder.")
    if path.is_symlink() or not path.is_file():
        raise ReleaseError(f"{folder} must be a release folder, and holds no {MANIFEST}.")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ReleaseError(f"{path} cannot be read: {error.strerror}.") from None
    return Manifest.from_json(content)


def release_id(fields: dict[str, Any]) -> str:
    """Return the id of a release: SHA-256 of its manifest's JSON with sorted keys and no spaces, without the id."""
    canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


class _AmbiguousError(ValueError):
    """JSON that two readers may understand differently."""


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise _AmbiguousError("must name each field once")
    return fields


def _no_constant(name: str) -> None:
    raise _AmbiguousError(f"must not hold {name}")


def _validated(fields: dict[str, Any]) -> Manifest:
    try:
        return Manifest.model_validate_json(json.dumps(fields))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ").removesuffix(".")
        where = f"field {field!r}: " if field else ""
        raise ReleaseError(f"{MANIFEST} {where}{message}. It was changed or copied badly.") from None
