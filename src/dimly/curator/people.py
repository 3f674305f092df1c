"""``People``: a table in memory as sparse rows of integers; checks of matrices; ``Pseudonyms`` by a key.

Errors here say what is wrong and never quote a value, a user or a count that depends on the data.
"""

import contextlib
import hmac
import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from dimly.curator import kernels
from dimly.errors import DataError, ParameterError
from dimly.mechanisms.vocabulary import Vocabulary, attribute_texts, is_unicode

# Pseudonyms: user ids replaced by a keyed hash, so that who lacks the key cannot look anybody up by id.
#
# They hide ids, not people: whoever holds the key can undo them by trying all ids, the same key gives the same person
# the same pseudonym in every release, and sketches of people whose attributes are known can be matched. They are no
# part of what a plan promises.


MIN_KEY_BYTES: Final = 32
_MAX_KEY_BYTES: Final = 1 << 16
_DIGITS: Final = 32  # 128 bits: among a billion people two alike in one of 10^20 releases


class Pseudonyms:
    """The pseudonyms of one key: HMAC-SHA256 of the id's canonical text, its first 32 hexadecimal digits.

    Parameters
    ----------
    key : bytes
        At least 32 bytes, random and secret.

    Raises
    ------
    ParameterError
        If the key is shorter.

    Examples
    --------
    >>> Pseudonyms(bytes(32)).of(["42"])
    ['96ce0a5a8208370ab4abd635460c4c9a']
    """

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        if len(key) < MIN_KEY_BYTES:
            raise ParameterError(
                f"the key of pseudonyms must be at least {MIN_KEY_BYTES} random bytes, got {len(key)}. "
                "Make one: head -c 32 /dev/urandom > key"
            )
        self._key = key

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> "Pseudonyms":
        """Read a key: all bytes of a file, line ends included.

        Raises
        ------
        ParameterError
            If the file cannot be read, is too short or too long, or can be read or changed by everybody.
        """
        name = os.fspath(path)
        try:
            with Path(path).open("rb") as opened:
                mode = os.fstat(opened.fileno()).st_mode
                key = opened.read(_MAX_KEY_BYTES + 1)
        except (OSError, ValueError):  # the latter of a path that is none
            mode, key = 0, None
        if key is None:
            raise ParameterError(
                f"pseudonyms must be a file that can be read, got {name}. Make a key, once: "
                "(umask 077; head -c 32 /dev/urandom > KEYFILE)."
            )
        if os.name == "posix" and mode & (stat.S_IROTH | stat.S_IWOTH):
            raise ParameterError(
                f"{name} must be closed to others: it is the key to who is who. Run chmod o-rwx on it."
            )
        if len(key) > _MAX_KEY_BYTES:
            raise ParameterError(f"{name} must be a key of at most {_MAX_KEY_BYTES} bytes. Is it another file?")
        return cls(key)

    def of(self, texts: Iterable[str]) -> list[str]:
        """Return the pseudonym of each id, given as canonical text."""
        key = self._key
        return [hmac.digest(key, text.encode(), "sha256").hex()[:_DIGITS] for text in texts]

    def hand_over(self) -> bytes:
        """Return the key, for the workers of the curator's own cluster."""
        return self._key

    def __repr__(self) -> str:
        return "<Pseudonyms>"  # the key stays out of tracebacks and logs

    def __reduce__(self) -> NoReturn:
        raise TypeError("Pseudonyms cannot be pickled or copied: their key stays in this process.")


_NO_IDS = (bool, np.timedelta64)  # Python and NumPy call them integers


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class People:
    """Whole people as integers: person i has ``indices[indptr[i]:indptr[i+1]]``, each attribute once.

    Attributes
    ----------
    indptr, indices : ndarray
        Compressed sparse rows; indices are positions in the list of attributes.
    values : ndarray of int64, optional
        In 0…resolution; None: all ones.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32] | NDArray[np.int64]
    values: NDArray[np.int64] | None

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def bounded(self, *, width: int, resolution: int) -> "People":
        """Return the same people with each attribute once, in order, and every value in 0…resolution.

        Sensitivity rests on both. They were seen to in an earlier pass already, over a table that may have changed
        since: so that this is asked again where noise is added, and costs one look at sound rows.

        Parameters
        ----------
        width : int
            How many attributes there are.
        resolution : int

        Raises
        ------
        DataError
            If an attribute is none of them.
        """
        state = kernels.inspect_rows(self.indptr, self.indices, width)
        if state == kernels.INVALID_ROWS:
            raise DataError("people must have attributes of the list that they are published by, but some have others.")
        values = self.values
        if values is not None and len(values) and not 0 <= values.min() <= values.max() <= resolution:
            values = np.clip(values, 0, resolution)
        if state == kernels.RISING_ROWS:
            return self if values is self.values else People(self.indptr, self.indices, values)
        indptr, indices, largest = _largest_of_repeats(
            self.indptr, self.indices, np.zeros(len(self.indices), np.bool_) if values is None else values
        )
        return People(indptr, indices, None if values is None else largest)

    def take(self, order: NDArray[np.int64]) -> "People":
        """Return the people at these positions, in this order."""
        matrix = scipy.sparse.csr_array(
            (np.arange(len(self.indices)), self.indices, self.indptr), shape=(len(self), _width(self.indices))
        )[order]
        values = None if self.values is None else self.values[matrix.data]
        return People(matrix.indptr.astype(np.int64), matrix.indices, values)


def people_of(
    table: Any, *, resolution: int, n_columns: int | None, attributes: Iterable[object] | None
) -> tuple[People, Sequence[str]]:
    """Return the people of a matrix, and its attributes as canonical text.

    Parameters
    ----------
    table : array_like or SciPy sparse matrix
        One row per person: booleans, 0 and 1, or values in [0, 1] if ``resolution`` is above 1.
    resolution : int
        1 for bits; else values become integers in 0…resolution.
    n_columns : int or None
        Number of columns that a plan allows.
    attributes : iterable or None
        Names of the columns; "0", "1", … by default. Columns with the same canonical text are one attribute, and
        a person's value of it is the largest of theirs.

    Raises
    ------
    DataError
        If the table does not fit.
    """
    data, indices, indptr, width = _as_rows(table)
    if n_columns is not None and width != n_columns and attributes is None:
        raise DataError(f"the table must have {n_columns} columns, as the plan says.")
    state = kernels.inspect_rows(indptr, indices, width)
    if state == kernels.INVALID_ROWS:
        raise DataError(_INVALID)
    values = _steps(data, resolution)
    distinct, position = _distinct(attributes, width)
    if position is not None:
        indices = position[indices]
    if position is not None or state != kernels.RISING_ROWS:
        indptr, indices, values = _largest_of_repeats(indptr, indices, values)
    if resolution == 1:
        if not values.all():  # explicit zeros
            keep = values != 0
            indptr = np.concatenate([[0], np.cumsum(keep)])[indptr]
            indices = indices[keep]
        return People(indptr, indices, None), distinct
    return People(indptr, indices, values), distinct


def user_ids(users: ArrayLike | None, n_users: int) -> NDArray[Any]:
    """Return the ids of ``n_users`` people as an array of integers or of text, checked.

    Raises
    ------
    DataError
        If there are too many or too few, if they are neither integers nor text, or not all different.
    """
    if users is None:
        return np.arange(n_users, dtype=np.int64)
    # A plain list goes through objects, because NumPy would turn [1, "a"] into text and [True, 2] into numbers.
    ids = np.asarray(users) if hasattr(users, "__array__") else np.asarray(users, dtype=object)
    if ids.ndim != 1 or len(ids) != n_users:
        raise DataError("users must be a list with one id for each row of the table.")
    if ids.dtype.kind in "UT":  # NumPy's own texts, of which some kinds may hold a missing one
        ids = ids.astype(object)
    kinds = {type(user) for user in ids.tolist()} if ids.dtype == object else {ids.dtype.type}
    if kinds and all(issubclass(kind, str) for kind in kinds):
        from dimly.release.format import text_ids  # noqa: PLC0415  (its room loads Arrow, which a device need not have)

        ids = text_ids(map(str, ids.tolist()))
        if not is_unicode("".join(ids)):
            raise DataError("users must be text that encodes to UTF-8.")
    elif all(issubclass(kind, int | np.integer) and not issubclass(kind, _NO_IDS) for kind in kinds):
        limits = np.iinfo(np.int64)
        if len(ids) and not (limits.min <= ids.min() and ids.max() <= limits.max):
            raise DataError("users must be integers that fit 64 bits, or text.")
        ids = ids.astype(np.int64)
    else:
        raise DataError("users must be integers or text, all of one kind.")
    if len(set(ids.tolist())) != len(ids):
        raise DataError("users must all be different. Merge the rows of one person first.")
    return ids


def _as_rows(table: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64], int]:
    """Return values, column numbers, where each row starts, and the number of columns; repeats are kept."""
    if not scipy.sparse.issparse(table):
        matrix = scipy.sparse.csr_array(_as_dense(table))
        return matrix.data, matrix.indices, matrix.indptr.astype(np.int64), matrix.shape[1]
    if table.ndim != 2:
        raise DataError(f"the table must have two dimensions, got {table.ndim}.")
    try:
        return _sparse_rows(table)
    except DataError:
        raise
    except Exception:  # noqa: BLE001, S110 - of SciPy, whose texts quote indices
        pass
    raise DataError(_INVALID)


def _sparse_rows(table: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64], int]:
    height, width = table.shape
    if table.format == "csr":
        indptr, indices, data = _parts(table)
        if indices is table.indices:
            indices = indices.copy()  # the caller's own may change between the check and the noise
        _check_lengths(len(indptr) == height + 1 and data.ndim == 1 and len(data) == len(indices))
        return data, indices, indptr, width
    rows, columns, data = _entries(table)
    if len(rows) and not 0 <= rows.min() <= rows.max() < height:
        raise DataError(_INVALID)
    # SciPy adds repeated entries up when it converts to rows; we want the largest.
    order = np.argsort(rows, kind="stable")
    counts = np.bincount(rows, minlength=height)
    return data[order], columns[order], np.concatenate([[0], np.cumsum(counts)]), width


def _entries(table: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return row, column and value of each entry of a matrix whose entries are not in rows."""
    if table.format == "csc":
        indptr, rows, data = _parts(table)
        _check_lengths(len(indptr) == table.shape[1] + 1 and len(rows) == len(data))
        if kernels.inspect_rows(indptr, rows, table.shape[0]) == kernels.INVALID_ROWS:
            raise DataError(_INVALID)
        used = slice(int(indptr[0]), int(indptr[-1]))  # there may be room to spare
        return rows[used], np.repeat(np.arange(table.shape[1]), np.diff(indptr)), data[used]
    if table.format == "bsr":  # SciPy's own conversion believes what these say, and writes beyond its memory
        (indptr, places, data), (down, across) = _parts(table), table.blocksize
        _check_lengths(len(indptr) == table.shape[0] // down + 1 and len(places) == len(data))
        if indptr[0] != 0 or indptr[-1] != len(places):
            raise DataError(_INVALID)
        if kernels.inspect_rows(indptr, places, table.shape[1] // across) == kernels.INVALID_ROWS:
            raise DataError(_INVALID)
    if table.format == "lil":
        _check_lengths(all(len(row) == len(cells) for row, cells in zip(table.rows, table.data, strict=True)))
    coo = table.tocoo()
    rows, columns = coo.coords
    _check_lengths(len(rows) == len(columns) == len(coo.data))
    return rows, columns, coo.data


def _parts(table: Any) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[Any]]:
    """Return the three arrays of a compressed matrix, in the machine's order of bytes."""
    indptr, indices, data = (np.asarray(part) for part in (table.indptr, table.indices, table.data))
    return indptr.astype(np.int64), _native(indices), _native(data)


def _native(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(array.dtype.newbyteorder("="), copy=False)


_INVALID = "the table must be a valid sparse matrix: its indices do not fit its shape."


def _check_lengths(fit: bool) -> None:
    if not fit:
        raise DataError("the table must be a valid sparse matrix: its parts differ in length.")


def refuse_masked(table: Any) -> None:
    """Refuse masked arrays, and lists of them: what lies under the mask would be published without a word.

    Raises
    ------
    DataError
    """
    rows = table if isinstance(table, list | tuple) else ()
    if any(isinstance(one, np.ma.MaskedArray) for one in (table, *rows)):
        raise DataError("the table must not be masked. Fill in what is missing, or leave it out.")


def _as_dense(table: Any) -> NDArray[Any]:
    refuse_masked(table)
    if hasattr(table, "columns"):  # a data frame: its names would be lost without a word
        raise DataError("the table must be a matrix. Pass df.to_numpy() with attributes=df.columns, users=df.index.")
    dense: NDArray[Any] | None = None
    with contextlib.suppress(ValueError):
        dense = np.asarray(table)
    if dense is None:  # outside of the handler: NumPy's error tells how many people there are
        raise DataError("the table must have rows of one length.")
    if dense.ndim != 2:
        raise DataError(f"the table must have two dimensions, people and attributes, got {dense.ndim}.")
    if dense.dtype.kind not in "biuf":
        raise _not_numbers(dense)
    # SciPy has no sparse matrices of half precision, nor of bytes in another order than the machine's.
    return dense.astype(np.float32) if dense.dtype == np.float16 else _native(dense)


def _not_numbers(data: NDArray[Any]) -> DataError:
    # The kind and not the type: "<U12" would say how long a text is.
    return DataError(
        f"the table must hold booleans or numbers, got {data.dtype.type.__name__}. If its rows are pairs of person and "
        "attribute, pass pandas.DataFrame(rows, columns=[…]) and name the columns."
    )


def _distinct(attributes: Iterable[object] | None, width: int) -> tuple[Sequence[str], NDArray[np.int32] | None]:
    """Return the different attributes, and which of them each column is, unless each is its own."""
    if attributes is None:
        return Vocabulary.numbered(width) if width else (), None
    names = attribute_texts(attributes)
    if len(names) != width:
        raise DataError("attributes must name each of the table's columns, once for each.")
    first: dict[str, int] = {}
    position = np.fromiter((first.setdefault(name, len(first)) for name in names), np.int32, width)
    return tuple(first), position if len(first) < width else None


def _steps(data: NDArray[Any], resolution: int) -> NDArray[Any]:
    """Return values as integers in 0…resolution; bits in whatever type they came, because there may be many."""
    if data.dtype.kind not in "biuf":
        raise _not_numbers(data)
    if data.dtype.kind == "b":
        return data if resolution == 1 else data.astype(np.int64) * resolution
    if data.dtype.kind == "f" and np.isnan(data).any():
        raise DataError("the table must not hold NaN. Leave out what is unknown, or fill it in.")
    if len(data) and not (data.min() >= 0 and data.max() <= 1):
        raise DataError("the table's values must lie in [0, 1]. Scale or clip them by public bounds.")
    if resolution == 1:
        if data.dtype.kind == "f" and not ((data == 0) | (data == 1)).all():
            raise DataError("the plan is for bits: values must be 0 or 1. Make a plan with resolution > 1 for others.")
        return data
    return np.rint(data.astype(np.float64) * resolution).astype(np.int64)


def _largest_of_repeats(
    indptr: NDArray[np.int64], indices: NDArray[Any], values: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[Any]]:
    """Return rows in which no attribute repeats; of several values the largest stays."""
    person = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    used = slice(int(indptr[0]), int(indptr[-1]))
    indices, values = indices[used], values[used]
    order = np.lexsort((indices, person))
    person, indices, values = person[order], indices[order], values[order]
    starts = np.flatnonzero(np.concatenate([[True], (np.diff(person) != 0) | (np.diff(indices) != 0)]))
    if not len(indices):
        return np.zeros_like(indptr), indices, values
    kept = np.bincount(person[starts], minlength=len(indptr) - 1)
    return (
        np.concatenate([[0], np.cumsum(kept)]),
        indices[starts],
        np.maximum.reduceat(values, starts),
    )


def _width(indices: NDArray[Any]) -> int:
    return int(indices.max(initial=0)) + 1
