"""``Manifest``: plan, guarantee, users, ledger entry, digests of files; the README.md of the folder.

Of the private table it depends on the noisy numbers alone, by the digests of their files; and without a roster on who
is in the table, as the numbers of people and the sizes of parts do.
"""

import builtins
import datetime
import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Literal, Self

import pyarrow.parquet as pq
from pydantic import BaseModel, Field, SerializerFunctionWrapHandler, ValidationError, model_serializer, model_validator

from dimly.errors import ParameterError, ReleaseError, check_path
from dimly.mechanisms.guarantee import RosterKind, guarantee
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.plan_parts import STRICT, AmbiguousJSONError, read_json
from dimly.privacy import Unit
from dimly.release.format import (
    MANIFEST,
    FileRecord,
    Layout,
    UserType,
    check_files,
    file_shape,
    format_version,
    layout_of,
    schema_in_words,
)
from dimly.release.parts import check_footer

_MARKUP: Final = str.maketrans({sign: f"\\{sign}" for sign in "\\`*_[]<>&#|~$"})

FORMATS: Final = (1, 2, 3)
"""Those that this version reads; see :class:`~dimly.release.format.Column`."""
_MOST_BYTES = 1 << 28  # the million files that a release may have take as much


class Users(BaseModel):
    """Who is in the release, as far as the promise is concerned."""

    model_config = STRICT

    type: UserType
    roster: RosterKind
    """Whether the list of people was given, which is public, or found in the private table."""
    pseudonyms: bool
    volunteers: bool = False
    """Whether people may be in it whose public data its directions or its plan were made from: the promise excepts
    them. Format 2."""

    @model_serializer(mode="wrap")
    def _written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = handler(self)
        return fields if self.volunteers else {name: value for name, value in fields.items() if name != "volunteers"}

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.pseudonyms and self.type != "text":
            raise ParameterError("type must be text where pseudonyms are published.")
        return self


class LedgerEntry(BaseModel):
    """Where the release was charged."""

    model_config = STRICT

    dataset: str = Field(min_length=1)


# What no terminal obeys: a fixed set, because which characters Python calls printable changes between versions.
_SHOWN: Final = "^[^\\x00-\\x09\\x0b-\\x1f\\x7f-\\x9f\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]*$"


class AboutRelease(BaseModel):
    """What the publisher says of a release, for people: nothing follows from it. Format 3."""

    model_config = STRICT

    title: str | None = Field(default=None, min_length=1, max_length=200, pattern=_SHOWN)
    publisher: str | None = Field(default=None, min_length=1, max_length=200, pattern=_SHOWN)
    note: str | None = Field(default=None, min_length=1, max_length=2000, pattern=_SHOWN)
    date: str = Field(pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}$")
    """Of publication, in UTC."""

    @classmethod
    def of(
        cls,
        *,
        title: str | None = None,
        publisher: str | None = None,
        note: str | None = None,
        date: str | None = None,
    ) -> "AboutRelease | None":
        """Return what was said, checked, of a release that is published today by default; None if nothing was said.

        Raises
        ------
        ParameterError
            If a text is empty, too long or holds control characters.
        """
        given: dict[str, Any] = {"title": title, "publisher": publisher, "note": note}
        if all(text is None for text in given.values()):
            return None
        for name, text in given.items():
            most = 2000 if name == "note" else 200
            if text is not None and not (isinstance(text, str) and 0 < len(text.strip()) <= len(text) <= most):
                raise ParameterError(f"{name} must be text of 1 to {most} characters. Shorten it, or leave it out.")
            if text is not None and not text.replace("\n", " ").isprintable():
                raise ParameterError(f"{name} must hold printable characters only. Remove control characters.")
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        return cls(title=title, publisher=publisher, note=note, date=today if date is None else date)


class Manifest(BaseModel):
    """What stands in manifest.json. Make one with :meth:`of`, read one with :func:`read_manifest`.

    Frozen; whatever is read or made is checked: its fields fit each other and the plan, whose proof runs again.
    """

    model_config = STRICT

    format: Literal[1, 2, 3]
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
    about: AboutRelease | None = None

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
        about: AboutRelease | None = None,
    ) -> "Manifest":
        """Return the manifest of a release by ``plan``, with its promise in words and its id."""
        promise = guarantee(
            plan,
            n_users,
            private=private,
            roster=users.roster,
            pseudonyms=users.pseudonyms,
            volunteers=users.volunteers,
        )
        fields: dict[str, Any] = {
            "format": format_version(plan, volunteers=users.volunteers, about=about is not None),
            "plan": json.loads(plan.to_json()),
            "plan_digest": plan.digest,
            "epsilon": plan.cost.epsilon,
            "delta": plan.cost.delta,
            "unit": plan.unit,
            "guarantee": promise.splitlines(),
            "n_users": n_users,
            "users": users.model_dump(mode="json"),
            "layout": layout_of(plan).model_dump(mode="json"),
            "schema": schema_in_words(plan, users.type),
            "files": [record.model_dump(mode="json") for record in sorted(files, key=lambda record: record.path)],
            "ledger": None if ledger is None else {"dataset": ledger},
        }
        if not private:
            fields["not_private"] = True
        if about is not None:
            fields["about"] = about.model_dump(mode="json")
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
            self.plan,
            self.n_users,
            private=self.private,
            roster=users.roster,
            pseudonyms=users.pseudonyms,
            volunteers=users.volunteers,
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
        shape = file_shape(record, self.plan, self.layout, n_users=self.n_users, user_type=self.users.type)
        check_footer(file, record, shape.schema, groups=shape.groups, entries=shape.entries)

    def to_json(self) -> str:
        """Return the manifest as indented JSON."""
        fields = self.model_dump(mode="json", by_alias=True, exclude={"plan", "not_private", "about"})
        fields["plan"] = json.loads(self.plan.to_json())
        if not self.private:
            fields["not_private"] = True
        if self.about is not None:
            fields["about"] = self.about.model_dump(mode="json")
        return json.dumps(fields, indent=2, sort_keys=True, ensure_ascii=False) + "\n"

    def readme(self) -> str:
        """Return README.md: what this is and how to read it, for whoever finds the folder without knowing Dimly.

        It follows from the manifest alone, so that verifying compares it word by word, and it adds nothing to what is
        known.
        """
        plan, about = self.plan, self.about
        title = "A release of Dimly" if about is None or about.title is None else _one_line(about.title)
        by = "" if about is None or about.publisher is None else f" Published by {_one_line(about.publisher)}."
        note = "" if about is None or about.note is None else f" {_one_line(about.note)}"
        date = "" if about is None else f" Date: {about.date}."
        warning = [] if self.private else ["**NOT PRIVATE: made for tests only. Do not give it to anyone.**", ""]
        epsilon, delta = (
            repr(value).removesuffix(".0") for value in (plan.cost.epsilon, plan.cost.delta)
        )  # not rounded
        cost = f"epsilon = {epsilon} and delta = {delta}"
        what = (
            f"One row of noisy integers for each of {self.n_users:,} people, made by `{plan.mechanism}` with {cost} "
            f"for one {plan.unit} of one person."
        )
        return "\n".join(
            [
                f"# {title}",
                "",
                *warning,
                what + by + date + note,
                "`manifest.json` says in words what is promised, and what is not.",
                "",
                "- pandas: `pandas.read_parquet('sketches')`, with the columns `user` and `sketch`",
                "- DuckDB: `SELECT * FROM 'sketches/*.parquet'`",
                "- Dimly: `pip install dimly`, then `dimly.open_release('.').neighbors(user)`, or `dimly report .`",
                "",
                "Single numbers are mostly noise. Dimly estimates distances from them, with intervals.",
                "`dimly verify .` checks that nothing was changed.",
                "",
            ]
        )

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
            fields = read_json(text)
        except AmbiguousJSONError as error:
            raise ReleaseError(f"{MANIFEST} {error}. It was changed or copied badly.") from None
        if fields.get("format") not in FORMATS or isinstance(fields.get("format"), bool):
            raise ReleaseError(
                f"{MANIFEST} field 'format' must be {' or '.join(map(str, FORMATS))}, got {fields.get('format')!r}. "
                "Read it with the version of Dimly that wrote it."
            )
        manifest = _validated(fields)
        stated = fields.pop("release")
        if release_id(fields) != stated:
            raise ReleaseError(
                f"{MANIFEST} field 'release' must be the digest of the rest, but it is not. The manifest was changed."
            )
        return manifest

    @model_validator(mode="after")
    def _check(self) -> Self:
        plan, cost = self.plan, self.plan.cost
        expected: dict[str, tuple[object, object]] = {
            "format": (
                self.format,
                format_version(plan, volunteers=self.users.volunteers, about=self.about is not None),
            ),
            "plan_digest": (self.plan_digest, plan.digest),
            "epsilon": (self.epsilon, cost.epsilon),
            "delta": (self.delta, cost.delta),
            "unit": (self.unit, plan.unit),
            "layout": (self.layout, layout_of(plan)),
            "schema": (self.columns, schema_in_words(plan, self.users.type)),
            "n_users": (plan.admits(self.n_users), True),
        }
        for name, (actual, wanted) in expected.items():
            if actual != wanted:
                raise ParameterError(f"{name} must be what the plan says, but it is not")
        check_files(self.files, plan, self.layout, n_users=self.n_users, user_type=self.users.type)
        return self


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a release folder, checked.

    Raises
    ------
    ReleaseError
        If there is none, or it is not one of ours.
    """
    check_path("release", folder)
    path = folder / MANIFEST
    if not folder.is_dir():
        missing = "it is not a folder" if folder.exists() else "there is no such folder"
        raise ReleaseError(f"{folder} must be a release folder, but {missing}.{_instead(folder)}")
    if path.is_symlink() or not path.is_file():
        raise ReleaseError(f"{folder} must be a release folder, but it has no {MANIFEST}.{_instead(folder)}")
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            content = file.read(_MOST_BYTES) if size <= _MOST_BYTES else None
    except OSError as error:
        raise ReleaseError(f"{path} cannot be read: {error.strerror}.") from None
    if content is None:
        raise ReleaseError(f"{MANIFEST} must hold at most {_MOST_BYTES} bytes, got {size}. It was changed.")
    return Manifest.from_json(content)


def _one_line(text: str) -> str:
    """Return text that cannot become another part of the page, nor a link, a picture or a tag in it."""
    return " ".join(text.split()).translate(_MARKUP)


def _instead(path: Path) -> str:
    """Return which folder to open instead of a path that is none of a release: the one around it, or one inside."""
    for above in list(path.parents)[:2]:
        if (above / MANIFEST).is_file():
            return f" Open {above} instead."
    if path.is_file() and path.suffix == ".json":
        return " If it is a plan, publish a table by it first: dimly publish TABLE --plan FILE … makes the folder."
    if path.is_file():
        return " If it is your table, publish it first: dimly publish makes the folder."
    inside = sorted(path.glob(f"*/{MANIFEST}"))[:1] if path.is_dir() else []
    return f" Open a folder inside it, such as {inside[0].parent}." if inside else f" {_found(path)}"


def _found(path: Path) -> str:
    """Return what to do about a path that leads nowhere: ``~`` is for the shell, which does not see it in quotes."""
    home = next((i for i, part in enumerate(path.parts) if part.startswith("~")), None)
    return "Check the path." if home is None else f"Write {Path(*path.parts[home:]).expanduser()}."


def release_id(fields: dict[str, Any]) -> str:
    """Return the id of a release: SHA-256 of its manifest's JSON with sorted keys and no spaces, without the id."""
    canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _validated(fields: dict[str, Any]) -> Manifest:
    try:
        return Manifest.model_validate_json(json.dumps(fields))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ").removesuffix(".")
        where = f"field {field!r}: " if field else ""
        raise ReleaseError(f"{MANIFEST} {where}{message}. It was changed or copied badly.") from None
