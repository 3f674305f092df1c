"""Users and attributes as integers: what the sort and the kernels work on, and what they stand for.

People are numbered in the order of their published ids, so that sorting by number is sorting by id. Attributes of an
open vocabulary are numbered by falling frequency, those of a closed one by their place in it. Text is compared once for
each row, in a hash join, and never sorted along with the rows: sorting 20 million rows of text takes six times as long.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dimly.curator.database import Cursor, PrivateDatabase
from dimly.curator.pseudonyms import Pseudonyms
from dimly.curator.public_lists import Roster
from dimly.curator.row_cache import ListedTexts, Texts
from dimly.curator.shapes import RowsView
from dimly.errors import DataError
from dimly.mechanisms.attributes import Vocabulary
from dimly.mechanisms.rows import IntArray
from dimly.release.layout import UserType

_CHUNK = 1 << 17
_ROWS = 1 << 20


class CodedRows(NamedTuple):
    """Some (user, attribute[, value]) rows as integers, in the order of users and then attributes.

    A key holds the user's number in its upper and the attribute's in its lower 32 bits: one integer sorts faster than
    two, and is compared at once.
    """

    keys: NDArray[np.int64]
    values: NDArray[np.float64] | None

    @classmethod
    def of(cls, users: NDArray[Any], attributes: NDArray[Any], values: NDArray[np.float64] | None = None) -> Self:
        """Return rows from numbers of users and attributes."""
        return cls((users.astype(np.int64) << 32) | attributes.astype(np.int64), values)

    def __len__(self) -> int:
        return len(self.keys)

    def slice(self, start: int, stop: int) -> "CodedRows":
        """Return some of the rows."""
        return CodedRows(self.keys[start:stop], None if self.values is None else self.values[start:stop])

    def rows_before(self, user: int) -> int:
        """Return how many rows are of users with a smaller number."""
        return int(np.searchsorted(self.keys, np.int64(user) << 32))


class CodedTable:
    """A private table in which people and attributes are numbers; its rows come sorted. A context manager.

    Parameters
    ----------
    database : PrivateDatabase
    view : RowsView
        Checked.
    roster : Roster, optional
        The people to publish; those who occur by default.
    vocabulary : Vocabulary, optional
        The attributes to publish; all by default.
    pseudonyms : Pseudonyms, optional
        Replace the ids, and with them the order of people.
    keep_values : bool
        Whether values other than 0 and 1 matter.

    Attributes
    ----------
    n_users : int
    user_type : {"int64", "text"}
        Of the published ids.

    Raises
    ------
    DataError
        If there is nobody.
    """

    def __init__(
        self,
        database: PrivateDatabase,
        view: RowsView,
        *,
        roster: Roster | None = None,
        vocabulary: Vocabulary | None = None,
        pseudonyms: Pseudonyms | None = None,
        keep_values: bool = False,
    ) -> None:
        self._database = database
        self._view = view
        self._vocabulary = vocabulary
        self._values = keep_values and view.has_values
        as_text = roster is not None and roster.user_type != view.user_type
        # A roster of text and a table of integers, or the other way round, meet as text.
        self._user = "CAST(r.u AS VARCHAR)" if as_text and view.user_type == "int64" else "r.u"
        self.user_type: UserType = "text" if as_text or pseudonyms else view.user_type
        people = view.people_sql if roster is None else f"SELECT u FROM {roster.name}"  # each once, either way
        if as_text:
            people = f"SELECT CAST(u AS VARCHAR) AS u FROM ({people})"
        self._people = self._number_people(people, pseudonyms)
        self.n_users = self._count(self._people)
        if self.n_users == 0:
            where = "The table has no rows" if roster is None else "The roster is empty"
            raise DataError(f"there must be at least one person to publish. {where}.")
        self._texts: str | None = None
        self._attributes = self._number_attributes()
        self._cursor = database.cursor()  # beside the stream of rows

    def users(self, start: int, stop: int) -> pa.Array:
        """Return the published ids of people ``start`` … ``stop`` − 1."""
        sql = f"SELECT id FROM {self._people} WHERE code >= ? AND code < ? ORDER BY code"
        return self._cursor.table(sql, [start, stop]).column(0).combine_chunks()

    def own_ids(self) -> Iterator[pa.Array]:
        """Return everybody's own id, pseudonyms or not, in no order."""
        for batch in self._database.stream(f"SELECT u FROM {self._people}", batch_rows=_CHUNK):
            yield batch.column(0)

    def rows(self) -> Iterator[CodedRows]:
        """Return all rows in the order of people and then attributes, repeats included."""
        value = ", r.v AS v" if self._values else ""
        sql = f"""
            SELECT (CAST(p.code AS BIGINT) << 32) | t.code AS key{value}
            FROM {self._view.name} AS r
            JOIN {self._people} AS p ON {self._user} = p.u
            JOIN {self._attributes} AS t ON r.a = t.a
            ORDER BY key
        """
        for batch in self._database.stream(sql, batch_rows=_ROWS):
            yield CodedRows(*(column.to_numpy() for column in batch.columns), *([] if self._values else [None]))

    def texts(self) -> Texts:
        """Return what the numbers of attributes stand for."""
        if self._texts is None:
            return ListedTexts(self._vocabulary or ())
        return _KeptTexts(self._database.cursor(), self._texts, self._count(self._texts))

    def diagnostics(self) -> dict[str, int]:
        """Return private figures about the table, for the curator's own eyes."""
        return {"rows": self._count(self._view.name), "distinct attributes": self._count(self._attributes)}

    def _count(self, relation: str) -> int:
        return int(self._database.fetch(f"SELECT count(*) FROM {relation}")[0][0])

    def _number_people(self, people: str, pseudonyms: Pseudonyms | None) -> str:
        """Return a table of own ids ``u``, published ids ``id`` and numbers ``code``."""
        named = f"SELECT u, u AS id FROM ({people})"
        if pseudonyms is not None:
            found = self._database.create_table(people)
            renamed = self._rename(found, pseudonyms)
            named = f"SELECT f.u, n.id FROM {found} f JOIN {renamed} n ON CAST(f.u AS VARCHAR) = n.u"
        number = "CAST(row_number() OVER (ORDER BY id) - 1 AS INTEGER)"
        return self._database.create_table(f"SELECT u, id, {number} AS code FROM ({named})")

    def _rename(self, found: str, pseudonyms: Pseudonyms) -> str:
        """Return a table of own ids, as text, and pseudonyms."""
        pairs = self._database.create_table("SELECT '' AS u, '' AS id WHERE false")
        with self._database.cursor() as cursor:
            for batch in self._database.stream(f"SELECT CAST(u AS VARCHAR) AS u FROM {found}", batch_rows=_CHUNK):
                names = batch.column(0).to_pylist()
                cursor.insert(pairs, pa.table({"u": names, "id": pseudonyms.of(names)}))
        return pairs

    def _number_attributes(self) -> str:
        """Return a table of attributes ``a`` as the rows have them, and numbers ``code``."""
        database = self._database
        counted = f"SELECT a, count(*) AS n FROM {self._view.name} GROUP BY a"
        spelled = database.create_table(f"SELECT a, {self._view.attribute_text_sql('a')} AS text, n FROM ({counted})")
        if self._vocabulary is None:
            # By text and not by a: were two values of a column ever spelled alike, they would be one attribute.
            number = "CAST(row_number() OVER (ORDER BY sum(n) DESC, text) - 1 AS INTEGER)"
            self._texts = database.create_table(f"SELECT text, {number} AS code FROM {spelled} GROUP BY text")
            return database.create_table(f"SELECT s.a, t.code FROM {spelled} s JOIN {self._texts} t USING (text)")
        if self._vocabulary.is_numbered:
            numbers = f"SELECT a, text, TRY_CAST(text AS BIGINT) AS code FROM {spelled}"
            return database.create_table(
                f"SELECT a, CAST(code AS INTEGER) AS code FROM ({numbers}) "
                f"WHERE code >= 0 AND code < {len(self._vocabulary)} AND CAST(code AS VARCHAR) = text"
            )
        listed = database.create_table("SELECT '' AS text, CAST(0 AS INTEGER) AS code WHERE false")
        with database.cursor() as cursor:
            for start in range(0, len(self._vocabulary), _CHUNK):
                texts = self._vocabulary[start : start + _CHUNK]
                codes = np.arange(start, start + len(texts), dtype=np.int32)
                cursor.insert(listed, pa.table({"text": pa.array(texts, pa.string()), "code": codes}))
        return database.create_table(f"SELECT s.a, v.code FROM {spelled} s JOIN {listed} v USING (text)")


class _KeptTexts:
    """Texts of attributes that occur, in the database."""

    def __init__(self, cursor: Cursor, table: str, size: int) -> None:
        self._cursor = cursor
        self._table = table
        self._size = size

    def __len__(self) -> int:
        return self._size

    def between(self, start: int, stop: int) -> list[str]:
        """Return the texts of the attributes ``start`` … ``stop`` − 1."""
        return self._fetch("code >= ? AND code < ?", [start, stop])

    def at(self, codes: IntArray) -> list[str]:
        """Return the texts of these attributes, whose numbers rise."""
        return self._fetch("code IN (SELECT unnest(?))", [codes.tolist()])

    def _fetch(self, condition: str, parameters: list[object]) -> list[str]:
        sql = f"SELECT text FROM {self._table} WHERE {condition} ORDER BY code"
        texts: list[str] = self._cursor.table(sql, parameters).column(0).to_pylist()
        return texts
