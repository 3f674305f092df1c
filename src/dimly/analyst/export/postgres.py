"""A table of PostgreSQL with pgvector, its index, and a table of one row that says what it is.

All of it is one transaction. New tables are filled under names of their own and take theirs at the end, so that whoever
reads an older export meanwhile is not kept waiting. Texts of the server quote rows: none of them leaves this file.
"""

import re
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from dimly.analyst.export.exported_points import AboutExport, Exported, PointBatch
from dimly.errors import DataError, DimlyError, MissingExtraError, ParameterError
from dimly.progress import OnProgress

PostgresIndex = Literal["auto", "flat", "hnsw"]
Column = Literal["vector", "halfvec"]

_EXTENSION = "vector"
_WIDEST = 16_000  # coordinates of a vector or halfvec
_WIDEST_INDEXED = {"vector": 2_000, "halfvec": 4_000}  # of one that HNSW takes
_LARGEST_HALF = 65_504
_LONGEST_NAME = 50  # PostgreSQL cuts names at 63 bytes, and we append to them
_MARK = "Dimly export"  # how comments on our tables begin
_NO_PGVECTOR = "the database must have pgvector 0.7 or newer, on its search path, but it does not."
_REASONS = {
    "0A000": _NO_PGVECTOR,
    "58P01": _NO_PGVECTOR,
    "42704": _NO_PGVECTOR,
    "42501": "the role of dsn must be allowed to make tables, and the extension vector, but it is not.",
    "42P07": "the table, or what belongs to it, was made by somebody else meanwhile.",
    "53100": "the disk of the server is full.",
    "54000": "user ids must be shorter for an index of PostgreSQL, which takes some 2,700 bytes.",
}


def write_pgvector(
    exported: Exported,
    dsn: str,
    *,
    table: str,
    index: PostgresIndex,
    column: Column,
    overwrite: bool,
    progress: OnProgress | None,
) -> AboutExport:
    """Write two tables; see :meth:`Exports.pgvector`."""
    if not isinstance(dsn, str):
        raise ParameterError(
            f"dsn must be a connection string, such as postgresql://ada@localhost/shop, got {type(dsn).__name__}."
        )
    target = _TableName.of(table)
    form = _Form.of(exported.dimension, column, index)
    psycopg, failure = _driver(), None
    try:
        psycopg.conninfo.conninfo_to_dict(dsn)
        with psycopg.connect(dsn, application_name="dimly") as connection:
            _Export(connection, exported, target, form).run(overwrite=overwrite, progress=progress)
    except psycopg.Error as error:
        failure = _translated(error, target)
    # Outside of the handler, so that not even the context of our error holds the server's text.
    if failure is not None:
        raise failure
    return exported.about


def _driver() -> Any:
    try:
        import pgvector.psycopg  # noqa: F401, PLC0415  (an extra)
        import psycopg  # noqa: PLC0415
    except ImportError:
        raise MissingExtraError(
            "export.pgvector needs psycopg and pgvector. Run pip install 'dimly[postgres]'."
        ) from None
    return psycopg


class _TableName(NamedTuple):
    """Where to: a schema, None for the connection's own, and a table."""

    schema: str | None
    table: str

    @classmethod
    def of(cls, table: object) -> "_TableName":
        match = re.fullmatch(r"(?:([a-z_][a-z0-9_]*)\.)?([a-z_][a-z0-9_]*)", table) if isinstance(table, str) else None
        if match is None or len(match[2]) > _LONGEST_NAME:
            raise ParameterError(
                "table must be a name such as people or shop.people, of small letters, digits and _, "
                f"at most {_LONGEST_NAME} of them, got {table!r}."
            )
        return cls(match[1], match[2])

    def text(self, ending: str = "") -> str:
        """Return a name that begins like the table's, as SQL has it."""
        parts = [self.table + ending] if self.schema is None else [self.schema, self.table + ending]
        return ".".join('"{}"'.format(part.replace('"', '""')) for part in parts)


@dataclass(frozen=True, slots=True)
class _Form:
    """How points are held and indexed."""

    dimension: int
    column: Column
    indexed: Column | None
    """As what HNSW takes the points; None: no index."""

    @property
    def half(self) -> bool:
        """Whether points are held in half precision."""
        return self.column == "halfvec"

    @classmethod
    def of(cls, dimension: int, column: Column, index: PostgresIndex) -> "_Form":
        if column not in get_args(Column):
            raise ParameterError(f"column must be 'vector' or 'halfvec', got {column!r}.")
        if index not in get_args(PostgresIndex):
            raise ParameterError(f"index must be 'auto', 'flat' or 'hnsw', got {index!r}.")
        if dimension > _WIDEST:
            raise ParameterError(
                f"points must have at most {_WIDEST} coordinates for pgvector, got {dimension}. Use denoise=True."
            )
        kinds: tuple[Column, ...] = ("vector", "halfvec") if column == "vector" else ("halfvec",)
        indexed = next((kind for kind in kinds if dimension <= _WIDEST_INDEXED[kind]), None)
        if index == "hnsw" and indexed is None:
            raise ParameterError(
                f"index must be 'flat' here: HNSW takes points of at most {_WIDEST_INDEXED['halfvec']} coordinates, "
                f"got {dimension}. Or use denoise=True."
            )
        return cls(dimension, column, None if index == "flat" else indexed)


class _Export:
    """One transaction."""

    def __init__(self, connection: Any, exported: Exported, target: _TableName, form: _Form) -> None:
        self._connection = connection
        self._exported = exported
        self._form = form
        if target.schema is None:  # never a table of that name elsewhere on the search path
            target = target._replace(schema=connection.execute("SELECT current_schema()").fetchone()[0])
        self._target = target
        self._draft = target._replace(table=f"dimly_{secrets.token_hex(8)}")

    def run(self, *, overwrite: bool, progress: OnProgress | None) -> None:
        """Make the tables; nothing is seen of them until the connection commits."""
        replaced = self._taken(overwrite=overwrite)
        self._execute(f"CREATE EXTENSION IF NOT EXISTS {_EXTENSION}")
        kind = "text" if self._exported.sketches.textual else "int8"
        columns = {
            # Named, as PostgreSQL 18 would name it after the draft.
            "user_id": f'{kind} CONSTRAINT "{self._target.table}_user_id" NOT NULL',
            "point": f"{self._form.column}({self._form.dimension})",
        }
        if self._exported.denoiser is None:
            columns["excess"] = "float8"
        self._execute(f"CREATE TABLE {self._draft.text()} ({_listed(columns)})")
        self._copy(columns, progress)
        self._execute(
            f'ALTER TABLE {self._draft.text()} ADD CONSTRAINT "{self._draft.table}_pkey" PRIMARY KEY (user_id)'
        )
        self._index()
        self._tell()
        for name in replaced:
            self._execute(f"DROP TABLE {name}")
        self._rename()
        self._execute(f"ANALYZE {self._target.text()}")

    def _taken(self, *, overwrite: bool) -> list[str]:
        """Return which of the two tables are there and to be replaced.

        Raises
        ------
        ParameterError
            If there is one and it is not to be replaced, or is not ours to replace.
        """
        found = []
        for name in (self._target.text(), self._target.text("_about")):
            query = "SELECT relkind, obj_description(oid, 'pg_class') FROM pg_class WHERE oid = to_regclass(%s)"
            row = self._connection.execute(query, [name]).fetchone()
            if row is None:
                continue
            shown = name.replace('"', "")
            if not overwrite:
                raise ParameterError(f"table must be a new one, but {shown} exists. Use overwrite to replace it.")
            if row[0] not in ("r", b"r") or not (row[1] or "").startswith(_MARK):
                raise ParameterError(
                    f"table must be of an earlier export to be replaced, but {shown} is not. Choose another name."
                )
            found.append(name)
        return found

    def _copy(self, columns: dict[str, str], progress: OnProgress | None) -> None:
        import pgvector.psycopg  # noqa: PLC0415

        pgvector.psycopg.register_vector(self._connection)
        statement = f"COPY {self._draft.text()} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)"
        with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types([re.split(r"\W", kind)[0] for kind in columns.values()])
            for batch in self._exported.batches(progress):
                for row in self._rows(batch):
                    copy.write_row(row)

    def _rows(self, batch: PointBatch) -> Iterator[tuple[Any, ...]]:
        """Yield what stands in the columns; of people of whom nothing is known only their ids."""
        import pgvector  # noqa: PLC0415

        users: list[Any] = batch.users.tolist()
        if self._exported.sketches.textual and any("\0" in user for user in users):
            raise DataError("user ids must not hold NUL for PostgreSQL, which has no such text. Use another export.")
        if self._form.half and (np.abs(batch.points) > _LARGEST_HALF).any():
            raise ParameterError(f"column must be 'vector' here: points go beyond {_LARGEST_HALF}, where half ends.")
        points: Iterable[Any] = map(pgvector.HalfVector, batch.points) if self._form.half else batch.points
        columns: list[Iterable[Any]] = [points] if batch.excess is None else [points, batch.excess.tolist()]
        nothing = (None,) * len(columns)
        for user, known, *rest in zip(users, batch.known.tolist(), *columns, strict=True):
            yield user, *(rest if known else nothing)

    def _index(self) -> None:
        form = self._form
        if form.indexed is None:
            return
        what = "point" if form.indexed == form.column else f"(point::{form.indexed}({form.dimension}))"
        self._execute(
            f'CREATE INDEX "{self._draft.table}_hnsw" ON {self._draft.text()} USING hnsw ({what} {form.indexed}_l2_ops)'
        )

    def _tell(self) -> None:
        """Write what the points are."""
        about = self._exported.about
        name = self._draft.text("_about")
        kinds = {
            "release": "text",
            "plan_digest": "text",
            "mechanism": "text",
            "epsilon": "float8",
            "delta": "float8",
            "unit": "text",
            "measure": "text",
            "private": "boolean",
            "guarantee": "text",
            "people": "int8",
            "dimension": "int4",
            "denoised": "boolean",
            "bias": "float8",
        }
        self._execute(f"CREATE TABLE {name} ({_listed(kinds)})")
        values = [about[field] for field in kinds]  # type: ignore[literal-required]
        self._connection.execute(f"INSERT INTO {name} VALUES ({', '.join(['%s'] * len(values))})", values)  # noqa: S608
        words = (
            "denoised, to cluster by" if about["denoised"] else "squared distances are too large by the excess of both"
        )
        said = f"{_MARK}: points of people by {about['mechanism']}, plan {about['plan_digest']}; {words}, see"
        for draft, other in ((self._draft.text(), "_about"), (name, "")):
            # A comment takes no parameters; nothing in it needs a quote.
            self._execute(f"COMMENT ON TABLE {draft} IS '{said} {self._target.table}{other}'")

    def _rename(self) -> None:
        draft, table = self._draft, self._target.table
        self._execute(f'ALTER TABLE {draft.text()} RENAME CONSTRAINT "{draft.table}_pkey" TO "{table}_pkey"')
        if self._form.indexed is not None:
            self._execute(f'ALTER INDEX {draft.text("_hnsw")} RENAME TO "{table}_hnsw"')
        for ending in ("", "_about"):
            self._execute(f'ALTER TABLE {draft.text(ending)} RENAME TO "{table}{ending}"')

    def _execute(self, statement: str) -> None:
        self._connection.execute(statement)


def _listed(columns: dict[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def _translated(error: Any, target: _TableName) -> DimlyError:
    """Return what went wrong in words of our own; by the server's code, never its text."""
    code = error.sqlstate
    if code is None and type(error).__name__ == "ProgrammingError":  # its text may quote a password
        return ParameterError("dsn must be a connection string, such as postgresql://ada@localhost/shop.")
    if code is None:
        return DimlyError("dsn must lead to a server that takes the connection, and keeps it. Try the same with psql.")
    if code == "3F000" and target.schema is None:
        return ParameterError("table must be in a schema that the role of dsn can use. Name one, as in shop.people.")
    if code == "3F000":
        return ParameterError(f"schema {target.schema} must exist, but it does not. Make it first.")
    if code == "2BP01":
        return ParameterError(f"table {target.table} must not be what views are made of, to be replaced. Drop them.")
    reason = _REASONS.get(code, f"PostgreSQL refused the export with code {code}.")
    return DimlyError(f"{reason} Nothing was changed.")
