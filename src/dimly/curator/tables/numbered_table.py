"""``NumberedTable``: people and attributes of any source as integers, sorted, in batches of rows."""

import contextlib
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import chain
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dimly.curator.diagnosis import LeftOutRows
from dimly.curator.options import Options, Resources
from dimly.curator.people import Pseudonyms
from dimly.curator.perturb import ListedTexts, Texts
from dimly.curator.tables import kernels
from dimly.curator.tables.columns import encoded_texts, literal
from dimly.curator.tables.condition import apply_condition, columns_to_read, wide_columns
from dimly.curator.tables.csv import CsvOptions
from dimly.curator.tables.database import Cursor, NotInParallelError, PrivateDatabase
from dimly.curator.tables.dictionary import (
    MOST,
    OTHER_ROWS,
    Dictionary,
    IntegerDictionary,
    NoRoomError,
    RangeDictionary,
    TextDictionary,
)
from dimly.curator.tables.input_files import find_files
from dimly.curator.tables.key_sort import Keys, KeySort, KeySpool, PartedKeys
from dimly.curator.tables.public_lists import Roster, nobody_there, read_roster
from dimly.curator.tables.shapes import Grain, RowsView, rows_view
from dimly.curator.tables.sources import are_paths, open_source
from dimly.errors import DataError, DimlyError
from dimly.mechanisms.projection.rows import IntArray
from dimly.mechanisms.projection.streams import EncodedTexts
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.release.format import VERY_FEW_ROWS, UserType, as_column, numbers_of, plain_values

_CHUNK = 1 << 17
_ROWS = 1 << 20
_OF_A_JSON_THREAD = 256 << 20
_OF_A_JSON_LIST_THREAD = 512 << 20  # which takes 2,048 lists apart at a time
_OF_A_SORTING_THREAD = 128 << 20
_CODED_AT_ONCE = 1 << 15
_TEXTS_AT_ONCE = 1 << 11  # which may be long
_BYTES_AT_ONCE = 1 << 29
"""A quarter of what Arrow can hold in one array of text."""
_FEW_ROWS = 1 << 17
"""As many are numbered without compiled code, which takes longer to load."""
_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}


class NumberedRows(NamedTuple):
    """Some (user, attribute[, value]) rows as integers, in the order of users and then attributes.

    A key holds the user's number in its upper and the attribute's in its lower 32 bits: one integer sorts faster than
    two, and is compared at once.
    """

    keys: NDArray[np.int64]
    values: NDArray[Any] | None
    in_steps: bool = False
    """Whether values are the plan's steps, integers in 0…resolution, and each attribute comes once; else in [0, 1]."""

    @classmethod
    def of(
        cls,
        users: NDArray[Any],
        attributes: NDArray[Any],
        values: NDArray[Any] | None = None,
        *,
        in_steps: bool = False,
    ) -> Self:
        """Return rows from numbers of users and attributes."""
        return cls((users.astype(np.int64) << 32) | attributes.astype(np.int64), values, in_steps)

    def __len__(self) -> int:
        return len(self.keys)

    def slice(self, start: int, stop: int) -> "NumberedRows":
        """Return some of the rows."""
        values = None if self.values is None else self.values[start:stop]
        return NumberedRows(self.keys[start:stop], values, self.in_steps)

    def distinct(self) -> "NumberedRows":
        """Return each row once, with the largest of its values; what is not a number is none, if there is another."""
        first = np.flatnonzero(np.diff(self.keys, prepend=self.keys[:1] - 1))
        largest = None if self.values is None else np.fmax.reduceat(self.values, first)
        return NumberedRows(self.keys[first], largest, self.in_steps)

    def rows_before(self, user: int) -> int:
        """Return how many rows are of users with a smaller number."""
        return int(np.searchsorted(self.keys, np.int64(user) << 32))


class NumberedTable:
    """A private table in which people and attributes are numbers; its rows come sorted. A context manager.

    Parameters
    ----------
    database : PrivateDatabase
    view : RowsView
        Checked, unless it ``shows_missing``: then it is checked here.
    roster : Roster, optional
        The people to publish; those who occur by default.
    vocabulary : Vocabulary, optional
        The attributes to publish; all by default.
    pseudonyms : Pseudonyms, optional
        Replace the ids, and with them the order of people.
    order_key : str, optional
        Number people by the SHA-256 of this public key and their id, and not by the id: neighbors in this order are
        pairs of people by chance, whatever their ids have in common.
    keep_values : bool
        Whether values other than 0 and 1 matter.
    memory : int
        Bytes for rows of bits, and the distinct people and attributes in them, that are numbered and sorted here.
        Rows that do not fit are spilled. If people and attributes do not fit, DuckDB numbers and sorts the rows, which
        takes several times as long, and so it does with values.
    keys_memory : int, optional
        Bytes of that for rows that are sorted already: they are in memory while people are perturbed. All by default.
    threads : int
        That number and sort here, beside those of the database.
    check_unchanged : callable
        Refuses a source that changed since it was opened: called after the last pass over it, and before anything can
        be drawn. What becomes of it later no longer matters, and must not cost a charge.

    Attributes
    ----------
    n_users : int
    user_type : {"int64", "text"}
        Of the published ids.

    Raises
    ------
    DataError
        If there is nobody, or a row without a user or an attribute.
    """

    def __init__(
        self,
        database: PrivateDatabase,
        view: RowsView,
        *,
        roster: Roster | None = None,
        vocabulary: Vocabulary | None = None,
        pseudonyms: Pseudonyms | None = None,
        order_key: str | None = None,
        keep_values: bool = False,
        memory: int = 0,
        keys_memory: int | None = None,
        threads: int = 1,
        check_unchanged: Callable[[], None] = lambda: None,
    ) -> None:
        self._database = database
        self._check_unchanged = check_unchanged
        self._view = view
        self._vocabulary = vocabulary
        self._values = keep_values and view.has_values
        as_text = roster is not None and roster.user_type != view.user_type
        # A roster of text and a table of integers, or the other way round, meet as text.
        self._user = "CAST(r.u AS VARCHAR)" if as_text and view.user_type == "int64" else "r.u"
        self.user_type: UserType = "text" if as_text or pseudonyms else view.user_type
        self._texts: str | None = None
        self._memory = memory
        self._keys_memory = memory if keys_memory is None else keys_memory
        self._threads = max(1, min(threads, memory // _OF_A_SORTING_THREAD))
        self._keys: KeySort | None = None
        coded = None if self._values else _CodedRows.of(database, view, memory=memory, threads=threads)
        if coded is None and view.shows_missing:
            view.check()
        self._attributes = self._number_attributes(coded)
        self._n_rows = int(database.fetch(f"SELECT coalesce(sum(n), 0) FROM {self._spelled}")[0][0])
        people = view.people_sql if roster is None else f"SELECT u FROM {roster.name}"  # each once, either way
        if coded is not None and view.people_in_rows and roster is None:
            people = f"SELECT x AS u FROM {coded.users}"
        if as_text:
            people = f"SELECT CAST(u AS VARCHAR) AS u FROM ({people})"
        self._people = self._number_people(people, pseudonyms, order_key)
        self.n_users = self._count(self._people)
        if self.n_users == 0:
            raise nobody_there("table" if roster is None else "roster")
        self._waiting = None if coded is None else self._recoded(coded)
        self._cursor = database.cursor()  # beside the stream of rows
        check_unchanged()

    def users(self, start: int, stop: int) -> pa.Array:
        """Return the published ids of people ``start`` … ``stop`` − 1."""
        sql = f"SELECT id FROM {self._people} WHERE code >= ? AND code < ? ORDER BY code"
        return self._cursor.table(sql, [start, stop]).column(0).combine_chunks()

    def published_ids(self) -> Iterator[pa.Array]:
        """Return everybody's published id, in order."""
        for start in range(0, self.n_users, _CHUNK):
            yield self.users(start, start + _CHUNK)

    def own_ids(self) -> Iterator[pa.Array]:
        """Return everybody's own id, pseudonyms or not, in no order."""
        for batch in self._database.stream(f"SELECT u FROM {self._people}", batch_rows=_CHUNK):
            yield batch.column(0)

    def rows(self) -> Iterator[NumberedRows]:
        """Return all rows in the order of people and then attributes, repeats included."""
        key = "(CAST(p.code AS BIGINT) << 32) | t.code"
        if self._waiting is not None:
            waiting, self._waiting = self._waiting, None  # if this is interrupted, DuckDB is asked the next time
            self._keys = self._sorted(waiting)
            del waiting  # what the numbers were is not needed while people are perturbed
        elif self._keys is None and not self._values and 8 * self._n_rows <= self._memory:
            self._keys = self._sorted_here(f"SELECT {key} FROM {self._published_rows}")
        if self._keys is not None:
            for keys in self._keys:
                for start in range(0, len(keys), _ROWS):
                    yield NumberedRows(keys[start : start + _ROWS], None)
            return
        value = ", r.v AS v" if self._values else ""
        sql = f"SELECT {key} AS key{value} FROM {self._published_rows} ORDER BY key"
        batches = self._database.stream(sql, batch_rows=_ROWS)
        first = next(batches, None)
        self._check_unchanged()  # to sort rows takes all of them, so that nothing of the source is left to read
        for batch in chain([] if first is None else [first], batches):
            keys, *values = map(numbers_of, batch.columns)
            yield NumberedRows(keys, values[0] if values else None)

    def texts(self) -> Texts:
        """Return what the numbers of attributes stand for."""
        if self._texts is None:
            return ListedTexts(self._vocabulary or ())
        return _KeptTexts(self._database.cursor(), self._texts, self._count(self._texts))

    def diagnostics(self) -> dict[str, int]:
        """Return private figures about the table, for the curator's own eyes."""
        return {"rows": self._n_rows, "distinct attributes": self._count(self._attributes)}

    def fits_list(self) -> bool:
        """Return whether any attribute of the table is in the list, whoever has it; the first one found is enough."""
        return self._occurs(f"{self._view.name} AS r JOIN {self._attributes} AS t ON r.a = t.a")

    def fits_roster(self) -> bool:
        """Return whether anybody on the roster has any attribute; the first one found is enough."""
        return self._occurs(f"{self._view.name} AS r JOIN {self._people} AS p ON {self._user} = p.u")

    def left_out(self, most: int) -> LeftOutRows:
        """Return private figures: how much roster and list leave out, and the most frequent attributes of that."""
        joined = f"{self._view.name} AS r LEFT JOIN {self._people} AS p ON {self._user} = p.u"
        named = f"{joined} LEFT JOIN {self._attributes} AS t ON r.a = t.a"
        ((rows, unknown, kept, unlisted, touched),) = self._database.fetch(
            "SELECT count(*), count(*) FILTER (p.u IS NULL), count(*) FILTER (p.u IS NOT NULL AND t.a IS NOT NULL), "
            "count(*) FILTER (p.u IS NOT NULL AND t.a IS NULL), "
            f"count(DISTINCT p.u) FILTER (t.a IS NULL) FROM {named}"
        )
        outside = f"{self._spelled} s ANTI JOIN {self._attributes} t USING (a)"
        frequent = self._database.fetch(f"SELECT text, n FROM {outside} ORDER BY n DESC, text LIMIT {int(most)}")
        return LeftOutRows(
            rows=rows,
            unknown=unknown,
            kept=kept,
            unlisted=unlisted,
            people=self.n_users,
            touched=touched,
            attributes=self._count(self._spelled),
            outside=self._count(outside),
            frequent=frequent,
        )

    @property
    def _published_rows(self) -> str:
        """Rows ``r`` of people ``p`` and attributes ``t`` that are published."""
        people = f"{self._people} AS p ON {self._user} = p.u"
        return f"{self._view.name} AS r JOIN {people} JOIN {self._attributes} AS t ON r.a = t.a"

    def _occurs(self, relation: str) -> bool:
        return self._count(f"(SELECT 1 FROM {relation} LIMIT 1)") > 0

    def _count(self, relation: str) -> int:
        return int(self._database.fetch(f"SELECT count(*) FROM {relation}")[0][0])

    def _recoded(self, coded: "_CodedRows") -> "_WaitingRows":
        """Return rows that were read, and what the numbers in them are in order; their values are let go."""
        users = f"(SELECT x AS u, seen FROM {coded.users}) AS r JOIN {self._people} AS p ON {self._user} = p.u"
        attributes = f"(SELECT x AS a, seen FROM {coded.attributes}) AS r JOIN {self._attributes} AS p ON r.a = p.a"
        codes = self._codes(users, coded.n_users), self._codes(attributes, coded.n_attributes)
        for name in (coded.users, coded.attributes):
            self._database.unregister(name)
        return _WaitingRows(coded.rows, *codes)

    def _sorted(self, waiting: "_WaitingRows") -> KeySort:
        """Return the keys of rows that are published, ready to be sorted."""
        keys = self._key_sort(len(waiting.rows), spilled=waiting.rows.is_spilled)

        def parted(some: Keys) -> PartedKeys:
            known = np.empty_like(some)
            return keys.part(known[: kernels.renumber(some, waiting.users, waiting.attributes, known)])

        for piece in _worked_ahead(parted, waiting.rows.drain(), threads=self._threads):
            keys.add(piece)
        keys.settle()
        return keys

    def _sorted_here(self, sql: str) -> KeySort:
        """Return the keys of a query, ready to be sorted, which takes a fraction of DuckDB's time."""
        keys, count = self._key_sort(self._n_rows), 0
        for batch in self._database.stream(sql, batch_rows=_ROWS):
            count += len(batch)
            if count > self._n_rows:
                raise DataError(OTHER_ROWS)
            keys.add(keys.part(numbers_of(batch.column(0))))
        self._check_unchanged()
        keys.settle()
        return keys

    def _key_sort(self, count: int, *, spilled: bool = False) -> KeySort:
        most = max(_ROWS, self._memory // 32)
        spilled = spilled or 8 * count > self._keys_memory
        return KeySort(self._database.folder, first=0, stop=self.n_users << 32, spilled=spilled, most=most)

    def _codes(self, found: str, size: int) -> NDArray[np.int32]:
        """Return the number of each value by the number that it was seen with; −1 if it is not published."""
        codes = np.full(size, -1, np.int32)
        for batch in self._database.stream(f"SELECT r.seen, p.code FROM {found}", batch_rows=_ROWS):
            seen, code = map(numbers_of, batch.columns)
            codes[seen] = code
        return codes

    def _number_people(self, people: str, pseudonyms: Pseudonyms | None, order_key: str | None) -> str:
        """Return a table of own ids ``u``, published ids ``id`` and numbers ``code``."""
        order = "id" if order_key is None else f"sha256({literal(order_key)} || CAST(id AS VARCHAR)), id"
        number = f"CAST(row_number() OVER (ORDER BY {order}) - 1 AS INTEGER)"
        if pseudonyms is None:  # one column of ids sorts in a third of the time of two
            numbered = f"SELECT id, {number} AS code FROM (SELECT u AS id FROM ({people}))"
            return self._database.create_table(f"SELECT id AS u, id, code FROM ({numbered})")
        found = self._database.create_table(people)
        renamed = self._rename(found, pseudonyms)
        named = f"SELECT f.u, n.id FROM {found} f JOIN {renamed} n ON CAST(f.u AS VARCHAR) = n.u"
        return self._database.create_table(f"SELECT u, id, {number} AS code FROM ({named})")

    def _rename(self, found: str, pseudonyms: Pseudonyms) -> str:
        """Return a table of own ids, as text, and pseudonyms."""
        pairs = self._database.create_table("SELECT '' AS u, '' AS id WHERE false")
        with self._database.cursor() as cursor:
            for batch in self._database.stream(f"SELECT CAST(u AS VARCHAR) AS u FROM {found}", batch_rows=_CHUNK):
                names = batch.column(0).to_pylist()
                cursor.insert(pairs, pa.table({"u": names, "id": pseudonyms.of(names)}))
        return pairs

    def _number_attributes(self, coded: "_CodedRows | None") -> str:
        """Return a table of attributes ``a`` as the rows have them, and numbers ``code``."""
        database = self._database
        counted = f"SELECT a, count(*) AS n FROM {self._view.name} GROUP BY a"
        if coded is not None:
            counted = f"SELECT x AS a, n FROM {coded.attributes}"
        spelled = database.create_table(f"SELECT a, {self._view.attribute_text_sql('a')} AS text, n FROM ({counted})")
        self._spelled = spelled
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


class _WaitingRows(NamedTuple):
    """Rows that were read but not sorted: their keys, and what the numbers of users and attributes in them become."""

    rows: KeySpool
    users: NDArray[np.int32]
    attributes: NDArray[np.int32]


class _CodedRows(NamedTuple):
    """All rows of a view, once read, by the numbers with which people and attributes were first seen.

    ``users`` and ``attributes`` name registered tables of the values ``x``, their numbers ``seen`` and counts ``n``;
    numbers are below ``n_users`` and ``n_attributes``. A key of ``rows`` has both, as :class:`NumberedRows` says.
    """

    rows: KeySpool
    users: str
    attributes: str
    n_users: int
    n_attributes: int

    @classmethod
    def of(cls, database: PrivateDatabase, view: RowsView, *, memory: int, threads: int) -> "_CodedRows | None":
        """Read a view of ``u`` and ``a``; None if one is neither text nor integers, or they do not fit in memory.

        Raises
        ------
        DataError
            If one is missing.
        """
        types = dict(database.columns(view.name))
        if not all(types[column] in {"VARCHAR", *_INTEGERS} for column in ("u", "a")):
            return None
        try:
            return cls._read(database, view.name, types, memory=memory, threads=threads)
        except (NoRoomError, NotInParallelError):  # DuckDB's path is bounded, and changes to serial reading by itself
            return None
        except _MissingError:
            view.check()
            raise DataError(OTHER_ROWS) from None  # checks found none

    @classmethod
    def _read(
        cls, database: PrivateDatabase, view: str, types: dict[str, str], *, memory: int, threads: int
    ) -> "_CodedRows | None":
        with contextlib.closing(_read_rows(database, view, memory)) as batches:
            few: list[pa.RecordBatch] = []
            most = min(memory // 8, _BYTES_AT_ONCE)
            while sum(map(len, few)) <= _FEW_ROWS and sum(batch.nbytes for batch in few) <= most:
                batch = next(batches, None)
                if batch is None:
                    return cls._of_few(database, few) if few else None
                few.append(batch)
        made = [_dictionary(database, view, column, types[column], memory=memory // 4) for column in ("u", "a")]
        rows = _code_rows(database, view, made, memory=memory, threads=threads)
        n_users, n_attributes = (one.size for one in made)
        users, attributes = (database.register(one.values()) for one in made)
        return cls(rows, users, attributes, n_users, n_attributes)

    @classmethod
    def _of_few(cls, database: PrivateDatabase, batches: list[pa.RecordBatch]) -> "_CodedRows":
        """Return some rows without compiled code, which a dry run then need not load."""
        rows = KeySpool(database.folder)
        keys, tables = np.zeros(sum(map(len, batches)), np.int64), []
        for place in (0, 1):
            codes, values = _numbered(pa.concat_arrays([batch.column(place) for batch in batches]))
            seen, counts = np.arange(len(values)), np.bincount(codes, minlength=len(values))
            # Arrow would load pandas to find out whether one of our arrays is a column of it.
            tables.append(pa.table({"x": values, "seen": as_column(seen), "n": as_column(counts)}))
            keys = (keys << 32) | codes
        rows.append(keys)
        users, attributes = map(database.register, tables)
        return cls(rows, users, attributes, *map(len, tables))


def _numbered(column: pa.Array) -> tuple[NDArray[Any], pa.Array]:
    """Return the numbers of texts or integers in the order in which they first appear, and these."""
    if len(column) > VERY_FEW_ROWS:
        encoded = column.dictionary_encode()
        return numbers_of(encoded.indices), encoded.dictionary
    numbers: dict[Any, int] = {}
    codes = np.array([numbers.setdefault(value, len(numbers)) for value in plain_values(column)], np.int64)
    first = np.unique(codes, return_index=True)[1].tolist()
    return codes, pa.concat_arrays([column.slice(place, 1) for place in first])


class _MissingError(Exception):
    """A user or an attribute is missing."""


def _code_rows(database: PrivateDatabase, view: str, made: list[Dictionary], *, memory: int, threads: int) -> KeySpool:
    """Return all rows of a view by the numbers of two dictionaries, for users and attributes; may raise NoRoomError."""
    users, attributes = made
    rows = KeySpool(database.folder)
    batches = _read_rows(database, view, memory)
    with contextlib.closing(batches), ThreadPoolExecutor(1, thread_name_prefix="dimly") as beside:
        for some in _gathered(batches, min(memory // 16, _BYTES_AT_ONCE)):
            free = memory - users.nbytes - attributes.nbytes
            if free < 0:
                raise NoRoomError
            for one in made:
                one.memory = one.nbytes + free // 2
            user, attribute = (pa.concat_arrays([batch.column(place) for batch in some]) for place in (0, 1))
            numbered = beside.submit(attributes.number, attribute)
            if threads == 1:
                wait([numbered])
            codes = users.number(user)
            codes <<= 32
            try:
                codes |= numbered.result()
            finally:
                del numbered  # an error of it holds this frame, and with it the dictionaries
            rows.append(codes)
            if users.nbytes + attributes.nbytes + rows.nbytes > memory:
                rows.spill()
    return rows


def _read_rows(database: PrivateDatabase, view: str, memory: int) -> Generator[pa.RecordBatch, None, None]:
    """Yield users and attributes in batches.

    Raises NoRoomError if even a few texts take much memory, and _MissingError if a user or an attribute is missing.
    """
    texts = [column for column, type_ in database.columns(view) if column in ("u", "a") and type_ == "VARCHAR"]
    sql = f"SELECT u, a FROM {view}"
    if texts:
        # A batch is made outside of the database's limit: a long text must be known before it is in one.
        longest = min(memory, 2 * _BYTES_AT_ONCE) // _TEXTS_AT_ONCE
        short = [f"CASE WHEN strlen({c}) <= {longest} THEN {c} END AS {c}" if c in texts else c for c in ("u", "a")]
        is_long = " OR ".join(f"strlen({column}) > {longest}" for column in texts)
        sql = f"SELECT {', '.join(short)}, {is_long} AS is_long FROM {view}"
    batch_rows = _TEXTS_AT_ONCE if texts else _CODED_AT_ONCE
    with contextlib.closing(database.stream(sql, batch_rows=batch_rows)) as batches:
        for batch in batches:
            if batch.nbytes > memory // 16 or (texts and batch.column("is_long").true_count):
                raise NoRoomError
            if any(column.null_count for column in batch.columns):
                raise _MissingError
            yield batch


def _gathered(batches: Iterator[pa.RecordBatch], most: int) -> Iterator[list[pa.RecordBatch]]:
    """Yield batches that are numbered together: so many rows, or so many bytes."""
    some: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        some.append(batch)
        rows, size = rows + len(batch), size + batch.nbytes
        if rows >= _CODED_AT_ONCE or size >= most:
            yield some
            some = []
            rows = size = 0
    if some:
        yield some


def _worked_ahead(work: Callable[[Keys], PartedKeys], pieces: Iterator[Keys], *, threads: int) -> Iterator[PartedKeys]:
    """Yield what ``work`` makes of each piece, in order, while so many threads work on the next ones."""
    ahead: deque[Future[PartedKeys]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="dimly") as pool:
        for piece in pieces:
            ahead.append(pool.submit(work, piece))
            if len(ahead) == threads:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def _dictionary(database: PrivateDatabase, view: str, column: str, type_: str, *, memory: int) -> Dictionary:
    """Return a dictionary for the values of a column."""
    if type_ == "VARCHAR":
        return TextDictionary()
    ((least, greatest, rows),) = database.fetch(f"SELECT min({column}), max({column}), count(*) FROM {view}")
    is_near = rows > 0 and greatest - least < min(4 * rows, MOST)
    is_small = is_near and RangeDictionary.bytes_for(least, greatest) <= memory
    return RangeDictionary(least, greatest) if is_small else IntegerDictionary()


class _KeptTexts:
    """Texts of attributes that occur, in the database."""

    def __init__(self, cursor: Cursor, table: str, size: int) -> None:
        self._cursor = cursor
        self._table = table
        self._size = size

    def __len__(self) -> int:
        return self._size

    def between(self, start: int, stop: int) -> EncodedTexts:
        """Return the texts of the attributes ``start`` … ``stop`` − 1."""
        return self._fetch("code >= ? AND code < ?", [start, stop])

    def at(self, codes: IntArray) -> EncodedTexts:
        """Return the texts of these attributes, whose numbers rise."""
        return self._fetch("code IN (SELECT unnest(?))", [codes.tolist()])

    def _fetch(self, condition: str, parameters: list[object]) -> EncodedTexts:
        sql = f"SELECT text FROM {self._table} WHERE {condition} ORDER BY code"
        return encoded_texts(self._cursor.table(sql, parameters).column(0))


def _reading_threads(source: Any, resources: Resources, *, lists: bool) -> int:
    """Return how many threads read: of JSON each holds a piece of a file and all that is parsed of it."""
    if _format_of(source) == "JSON lines":
        each = _OF_A_JSON_LIST_THREAD if lists else _OF_A_JSON_THREAD
        return max(1, min(resources.threads, resources.database_memory // each))
    return resources.threads


def _format_of(source: Any) -> str | None:
    """Return the format of files; None of what is in memory, and of what opening will refuse."""
    if are_paths(source):
        with contextlib.suppress(DimlyError):
            return find_files(source)[0]
    return None


@contextlib.contextmanager
def open_table(
    source: Any,
    plan: Grain,
    options: Options,
    *,
    vocabulary: Vocabulary | None = None,
    pseudonyms: Pseudonyms | None = None,
    order_key: str | None = None,
    resources: Resources | None = None,
) -> Iterator[NumberedTable]:
    """Read, check and number a table; all of it is forgotten at the end.

    Parameters
    ----------
    source, plan, options
        As :func:`dimly.publish` takes them.
    vocabulary, pseudonyms, order_key : optional
        As :class:`NumberedTable` takes them.
    resources : Resources, optional
        What reading may use; by default as the options say.

    Raises
    ------
    ParameterError
        If the source or its columns are not there, or cannot be what they are said to be.
    DataError
        If rows do not fit. The text holds nothing of them.
    """
    resources, progress = resources or options.resources, options.watcher
    with PrivateDatabase(
        memory=resources.database_memory,
        threads=_reading_threads(source, resources, lists=options.attributes is not None),
        temp=resources.temp,
    ) as database:
        progress.phase("reading")
        opened = open_source(
            database,
            source,
            table=options.table,
            query=options.query,
            csv=CsvOptions.of(options),
            wanted=columns_to_read(options),
            wide=wide_columns(options),
        ).naming({options.user_column, *(options.named_columns or ())}, database)
        opened = apply_condition(database, opened, options)
        if plan.unit == "column" and options.columns is not None:
            opened = opened.held(database)  # that everybody has one row is checked in a pass of its own
        view = rows_view(database, opened, plan, options)
        roster = None
        if options.roster is not None:
            roster = read_roster(database, options.roster, user_column=options.user_column)
        if not view.shows_missing:
            view.check()
        progress.phase("numbering")
        table = NumberedTable(
            database,
            view,
            roster=roster,
            vocabulary=vocabulary,
            pseudonyms=pseudonyms,
            order_key=order_key,
            keep_values=plan.resolution > 1,
            memory=resources.database_memory // 2,
            keys_memory=resources.keys_memory,
            threads=resources.threads,
            check_unchanged=opened.check_unchanged,
        )
        progress.phase("sorting")
        yield table
