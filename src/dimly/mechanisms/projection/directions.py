"""``Directions``: a public matrix of small integers, one row an attribute or bucket; bounding, rounding, rotating.

A random projection spends the promise on all directions alike. Directions spend it on a few that public knowledge
names: people who published their data, weights, categories or an embedding. A person's sketch is the sum of the rows of
their attributes, and an attribute without a row counts nothing. So the farthest that one attribute can move a sketch is
the longest row, whatever the private table holds, and that is computed here in exact integers.

**What may never change**: the bytes that :attr:`Directions.digest` is taken over, and the hash of the buckets. A plan
is signed by the former, and a published sketch is the sum of rows that the latter chose.
"""

import hashlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dimly.display import MOST_ROWS, Shown, data_frame
from dimly.errors import ParameterError, as_integer, check_choice
from dimly.mechanisms.projection.random_matrix import SEED_BYTES, Projection, Sensitivity
from dimly.mechanisms.projection.rows import DenseRows, HashedRows, Integers, Rows
from dimly.mechanisms.projection.streams import NEWEST, StreamVersion, check_stream
from dimly.mechanisms.vocabulary import Vocabulary, attribute_texts, is_unicode
from dimly.plots import two_ends

Floats = NDArray[np.float64]
Kind = Literal["learned", "weights", "counted weights", "categories", "embeddings", "surveyed"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
WEIGHTED: Final[dict[Kind, Literal["hashing", "counting"]]] = {"weights": "hashing", "counted weights": "counting"}
"""Kinds whose rows are those of a random projection times a weight, and its family."""

MAX_ENTRY: Final = 2**15 - 1
"""Largest absolute value of an entry: rows are stored in at most 16 bits."""
MAX_SCALE: Final = 2**15 - 1
MAX_COUNT: Final = 1 << 16
MAX_BUCKETS: Final = 1 << 24
MAX_ENTRIES: Final = 1 << 28
"""Rows times directions: half a gigabyte at most."""
LONGEST_ORIGIN: Final = 10_000
PUBLIC_SEED: Final = hashlib.sha256(b"dimly/directions").digest()
"""Seed of buckets and of spread weights where none is stated. Public, as every seed of a projection is."""

_DIGESTED: Final = b"dimly/directions/1\0"
_COMPARED: Final = 1 << 10  # rows that are compared with each other at once
_MOST_COMPARED: Final = 1 << 29  # entries of all pairs of rows that are compared: seconds


@dataclass(frozen=True, slots=True)
class Buckets:
    """Rows for an open vocabulary: each attribute that there is or ever will be falls into one of m buckets.

    The bucket is the coordinate that the family ``counting`` with k = m, this seed and this version of the streams
    gives to the attribute, so that ``docs/projections.md`` defines it, with test vectors.

    Examples
    --------
    >>> Buckets(8, bytes(range(32)), stream=1).codes(["0", "42"]).tolist()
    [6, 6]
    """

    count: int
    seed: bytes = PUBLIC_SEED
    stream: StreamVersion = NEWEST

    def __post_init__(self) -> None:
        if type(self.count) is not int or not 2 <= self.count <= MAX_BUCKETS:
            raise ParameterError(f"buckets must be 2 to {MAX_BUCKETS}, got {self.count!r}.")
        if type(self.seed) is not bytes or len(self.seed) != SEED_BYTES:
            raise ParameterError(f"seed must be {SEED_BYTES} bytes, got {self.seed!r}.")
        check_stream(self.stream)

    def codes(self, attributes: Sequence[str]) -> NDArray[np.int64]:
        """Return the bucket of each attribute, given by its canonical text."""
        rows = Projection("counting", self.count, 1, self.seed, stream=self.stream).rows(attributes)
        assert isinstance(rows, HashedRows)  # noqa: S101 - what counting gives
        return rows.columns[:, 0].astype(np.int64)


class DirectionEnds(NamedTuple):
    """The attributes that count most along one direction, at both of its ends, the strongest first."""

    positive: tuple[tuple[str, float], ...]
    negative: tuple[tuple[str, float], ...]


@dataclass(frozen=True, eq=False, repr=False)
class Directions:
    """A public matrix of integers with bounded rows; a sketch is the sum of the rows of a person's attributes.

    Make one with :func:`dimly.learn_directions`, or with :meth:`of_values`, :meth:`of_weights` or
    :meth:`of_categories`. It must come from public knowledge, never from the private table. Immutable; equal if the
    digests are.

    Attributes
    ----------
    kind : {"learned", "weights", "counted weights", "categories", "embeddings", "surveyed"}
        Where the rows come from; "surveyed": from the private table, under a promise of their own. Rows of weights are
        those of ``hashing``, of counted weights those of ``counting``.
    origin : str
        The same in words, for whoever has to trust it.
    scale : int
        An entry means its integer divided by this.
    matrix : ndarray of int8 or int16, shape (rows, count)
        One row for each attribute, bucket or category; read-only.
    vocabulary : Vocabulary or None
        The attributes that have a row, or belong to a category; None if there are buckets.
    buckets : Buckets or None
        For an open vocabulary.
    categories : tuple of str or None
        Names of the categories, one a row. A person who has several attributes of a category has it once.
    category_of : ndarray of int32 or None
        The category of each attribute of the vocabulary.

    Examples
    --------
    >>> directions = Directions.of_values(["tea", "coffee"], [[1.0, 0.0], [-0.5, 0.25]], scale=4, origin="by hand")
    >>> directions.matrix.tolist(), directions.sensitivity
    ([[4, 0], [-2, 1]], Sensitivity(l1=4, l2_squared=16))
    >>> directions.codes(["coffee", "water"]).tolist()
    [1, -1]
    """

    kind: Kind
    origin: str
    scale: int
    matrix: NDArray[Any]
    vocabulary: Vocabulary | None
    buckets: Buckets | None = None
    categories: tuple[str, ...] | None = None
    category_of: NDArray[np.int32] | None = None

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, KINDS)
        if not self.origin.strip() or not is_unicode(self.origin):
            raise ParameterError("origin must say in words where the directions come from, got none.")
        if len(self.origin) > LONGEST_ORIGIN:
            raise ParameterError(f"origin must be at most {LONGEST_ORIGIN} characters, got {len(self.origin)}.")
        object.__setattr__(self, "scale", as_integer("scale", self.scale, 1, MAX_SCALE))
        object.__setattr__(self, "matrix", _entries(self.matrix))
        if (self.vocabulary is None) == (self.buckets is None):
            raise ParameterError("directions must have a vocabulary or buckets, one of them.")
        if (self.categories is None) != (self.category_of is None) or (self.kind == "categories") != bool(
            self.categories
        ):
            raise ParameterError("categories must be named, and given to every attribute, for that kind only.")
        if self.categories is not None:
            self._check_categories()
        known = self.categories or self.vocabulary or range(self.buckets.count if self.buckets else 0)
        if len(self.matrix) != len(known):
            raise ParameterError(f"directions must have {len(known)} rows, one for each name, got {len(self.matrix)}.")
        self._check_weights()
        if not self.matrix.any():
            raise ParameterError("directions must have a row that is not zero, got none: every sketch would be noise.")

    def _check_weights(self) -> None:
        if self.kind not in WEIGHTED:
            return
        if (np.count_nonzero(self.matrix, axis=1) > 1).any():
            raise ParameterError("weights must have at most one number in each row that is not zero. Use of_weights.")
        if WEIGHTED[self.kind] == "counting" and ((self.matrix < 0).any() or self.count < 2):
            raise ParameterError("counted weights must not be negative, and take at least 2 directions.")

    def _check_categories(self) -> None:
        names, group = self.categories or (), np.array(self.category_of, np.int32)
        if self.vocabulary is None or group.shape != (len(self.vocabulary),) or len(set(names)) != len(names):
            raise ParameterError("categories must have different names, and every attribute must have one.")
        if not np.array_equal(np.unique(group), np.arange(len(names))):
            raise ParameterError("categories must have at least one attribute each.")
        group.flags.writeable = False
        object.__setattr__(self, "category_of", group)

    @classmethod
    def of_values(
        cls,
        attributes: Iterable[object] | Vocabulary | Buckets,
        values: ArrayLike,
        *,
        origin: str,
        scale: int = 128,
        kind: Kind = "embeddings",
    ) -> "Directions":
        """Return directions whose entries are ``values`` rounded to multiples of 1/``scale``.

        Parameters
        ----------
        attributes : iterable, Vocabulary or Buckets
            What the rows belong to.
        values : array_like of shape (rows, count)
            Finite; at most 32767/scale.
        origin : str
        scale : int, default=128
        kind : {"embeddings", "learned", "surveyed"}
        """
        scale = as_integer("scale", scale, 1, MAX_SCALE)
        try:
            table = np.asarray(values, np.float64)
        except (TypeError, ValueError):
            raise ParameterError("vectors must be lists of numbers, all of the same length.") from None
        if table.ndim != 2:
            raise ParameterError(
                f"vectors must be lists of numbers, all of the same length, got {table.ndim} dimensions."
            )
        if not np.isfinite(table).all():
            raise ParameterError("vectors must be finite numbers, got NaN or infinity. Remove those rows.")
        if np.abs(table).max(initial=0) * scale > MAX_ENTRY:
            raise ParameterError(
                f"vectors must be within ±{MAX_ENTRY / scale:.6g} at scale {scale}. Use a smaller scale, or bound them."
            )
        named = attributes if isinstance(attributes, Vocabulary | Buckets) else Vocabulary.listed(attributes)
        return cls(
            kind,
            origin,
            scale,
            np.rint(table * scale).astype(np.int16),
            named if isinstance(named, Vocabulary) else None,
            named if isinstance(named, Buckets) else None,
        )

    @classmethod
    def of_weights(
        cls,
        attributes: Iterable[object] | Vocabulary,
        weights: ArrayLike,
        *,
        origin: str,
        count: int = 256,
        family: Literal["hashing", "counting"] = "hashing",
        scale: int = 128,
        seed: bytes = PUBLIC_SEED,
    ) -> "Directions":
        """Return the rows of a random projection, each times the weight of its attribute.

        Distances of a release estimate Σ w²(x−y)², with the error of the projection in their intervals. With
        ``counting`` the sum of a sketch, times the plan's scale, estimates Σ w·x.

        Parameters
        ----------
        attributes : iterable or Vocabulary
        weights : array_like
            In [0, 1], one for each attribute.
        origin : str
        count : int, default=256
            Coordinates of a sketch (k).
        family : {"hashing", "counting"}, default="hashing"
        scale : int, default=128
            Weights are rounded to multiples of 1/scale.
        seed : bytes
            Public.
        """
        named = attributes if isinstance(attributes, Vocabulary) else Vocabulary.listed(attributes)
        try:
            factors = np.asarray(weights, np.float64)
        except (TypeError, ValueError):
            raise ParameterError("weights must be numbers in [0, 1].") from None
        if factors.shape != (len(named),):
            raise ParameterError(f"weights must be one number for each attribute, got shape {factors.shape}.")
        if not ((factors >= 0) & (factors <= 1)).all():
            raise ParameterError(
                "weights must be numbers in [0, 1], but some are outside or NaN. Divide them by the largest."
            )
        if family not in ("hashing", "counting"):
            raise ParameterError(f"family must be hashing or counting, got {family!r}.")
        _check_size(len(named), count)
        # Streams of version 1: the same list makes the same directions for ever, of the digest that plans have signed.
        placed = Projection(family, count, 1, seed, stream=1).rows(named)
        assert isinstance(placed, HashedRows)  # noqa: S101 - what these families give
        unit = cls.of_values(named, factors[:, None], origin=origin, scale=scale).matrix
        matrix = np.zeros((len(named), count), unit.dtype)
        matrix[np.arange(len(named)), placed.columns[:, 0]] = unit[:, 0] * placed.signs[:, 0]
        return cls("counted weights" if family == "counting" else "weights", origin, scale, matrix, named)

    @classmethod
    def of_categories(
        cls,
        attributes: Iterable[object] | Vocabulary,
        categories: Iterable[object],
        *,
        origin: str,
        count: int | None = None,
        seed: bytes = PUBLIC_SEED,
    ) -> "Directions":
        """Return directions in which an attribute counts as its category, and each category of a person once.

        The promise is then about a category of a person: more than about one attribute.

        Parameters
        ----------
        attributes : iterable or Vocabulary
        categories : iterable
            The category of each attribute.
        origin : str
        count : int, optional
            Coordinates of a sketch. By default one for each category; fewer are shared by ``hashing``.
        seed : bytes
            Public; for ``hashing``.
        """
        named = attributes if isinstance(attributes, Vocabulary) else Vocabulary.listed(attributes)
        texts = attribute_texts(categories)
        if len(texts) != len(named):
            raise ParameterError(f"categories must be one for each of {len(named)} attributes, got {len(texts)}.")
        first: dict[str, int] = {}
        group = np.fromiter((first.setdefault(text, len(first)) for text in texts), np.int32, len(texts))
        _check_size(len(first), len(first) if count is None else count)
        if count is None:
            matrix = np.eye(len(first), dtype=np.int8)
        else:
            matrix = Projection("hashing", count, 1, seed, stream=1).rows(tuple(first)).to_dense().astype(np.int8)
        return cls("categories", origin, 1, matrix, named, None, tuple(first), group)

    @property
    def count(self) -> int:
        """How many directions there are: the coordinates of a sketch."""
        return int(self.matrix.shape[1])

    @property
    def size(self) -> int:
        """How many attributes are listed, or buckets there are: the rows of a directions file."""
        return len(self.matrix) if self.vocabulary is None else len(self.vocabulary)

    @property
    def merges(self) -> bool:
        """Whether rows are categories: equal codes of one person are then one, whose value is the largest."""
        return self.categories is not None

    @property
    def tells_names(self) -> bool:
        """Whether rows say which attributes go together; not where attributes share numbers by a random projection."""
        return self.kind not in WEIGHTED and (self.categories is None or self.count >= len(self.categories))

    def codes(self, attributes: Sequence[str]) -> NDArray[np.int64]:
        """Return the row of each attribute, given by its canonical text; -1 where it has none and counts nothing."""
        if self.buckets is not None:
            return self.buckets.codes(attributes)
        assert self.vocabulary is not None  # noqa: S101 - checked when it was made
        codes = self.vocabulary.codes(attributes)
        return codes if self.category_of is None else np.where(codes < 0, -1, self.category_of[codes])

    @cached_property
    def rows(self) -> Rows:
        """The rows, ready to be summed up."""
        return DenseRows(self.matrix)

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """The largest norms of a row, in steps of 1/``scale``: the farthest that one attribute moves a sketch."""
        return Sensitivity(self.rows.l1, self.rows.l2_squared)

    @cached_property
    def difference(self) -> Sensitivity:
        """The largest norms of the difference of any two rows, the zero row included.

        A cell that changes takes one row out and puts another in (``unit="column"``). Which attributes belong to one
        column cannot be told from their names: one-hot columns are called anything, and a long table has no columns.
        So any two are compared. Exact where that takes seconds; above, twice the longest row, which is at least as
        much.
        """
        from scipy.spatial.distance import cdist  # noqa: PLC0415 - slow to import, and seldom needed

        l1, l2_squared = self.sensitivity.l1, self.sensitivity.l2_squared
        distinct = np.unique(self.matrix, axis=0).astype(np.float64)  # doubles hold every one of these sums exactly
        if len(distinct) * distinct.size > _MOST_COMPARED:
            return Sensitivity(2 * l1, 4 * l2_squared)
        for start in range(0, len(distinct), _COMPARED):
            some = distinct[start : start + _COMPARED]
            l1 = max(l1, int(cdist(some, distinct, "cityblock").max()))
            l2_squared = max(l2_squared, int(cdist(some, distinct, "sqeuclidean").max()))
        return Sensitivity(l1, l2_squared)

    @cached_property
    def digest(self) -> str:
        """SHA-256, in hexadecimal, over all that decides a sketch, and the origin.

        ``dimly/directions/1`` 00 ‖ text(kind) ‖ text(origin) ‖ u32(scale) ‖ u32(count) ‖ u32(rows) ‖ names ‖ the matrix
        as i16, row by row. ``names`` is 00 ‖ the vocabulary's digest (32 bytes); or 01 (03 with streams of version 2)
        ‖ u32(buckets) ‖ seed (32 bytes); or 02 ‖ the vocabulary's digest ‖ the digest of the categories as a vocabulary
        ‖ u32(category) of each attribute. Numbers are little-endian, text(t) is u32(length in bytes) ‖ UTF-8 of t.
        """
        state = hashlib.sha256(_DIGESTED)
        for text in (self.kind, self.origin):
            encoded = text.encode()
            state.update(struct.pack("<I", len(encoded)) + encoded)
        state.update(struct.pack("<III", self.scale, self.count, len(self.matrix)))
        if self.buckets is not None:
            state.update(b"\1" if self.buckets.stream == 1 else b"\3")
            state.update(struct.pack("<I", self.buckets.count) + self.buckets.seed)
        elif self.vocabulary is not None:
            state.update((b"\2" if self.categories else b"\0") + bytes.fromhex(self.vocabulary.digest))
        if self.categories is not None and self.category_of is not None:
            state.update(bytes.fromhex(Vocabulary.listed(self.categories).digest))
            state.update(self.category_of.astype("<u4").tobytes())
        for start in range(0, len(self.matrix), _COMPARED):
            state.update(self.matrix[start : start + _COMPARED].astype("<i2").tobytes())
        return state.hexdigest()

    @property
    def names(self) -> Sequence[str]:
        """What the rows are called: attributes, categories, or numbers of buckets."""
        if self.buckets is not None:
            return [f"bucket {number}" for number in range(self.buckets.count)]
        return self.categories or self.vocabulary or ()

    def describe(self, *, most: int = 5) -> tuple[DirectionEnds, ...]:
        """Return what each direction tells apart: its strongest attributes at both ends, with their entries.

        Examples
        --------
        >>> Directions.of_values(["tea", "cola"], [[1.0], [-0.5]], origin="by hand").describe()
        (DirectionEnds(positive=(('tea', 1.0),), negative=(('cola', -0.5),)),)
        """
        names = self.names
        found = []
        for column in self.matrix.T.astype(np.int64):
            order = np.argsort(-np.abs(column), kind="stable")
            ends = []
            for sign in (1, -1):
                chosen = order[(sign * column)[order] > 0][:most]
                ends.append(tuple((names[int(row)], int(column[row]) / self.scale) for row in chosen))
            found.append(DirectionEnds(*ends))
        return tuple(found)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Come back from a pickle: NumPy's own forgets that arrays are read-only."""
        self.__dict__.update(state)
        for array in (self.matrix, self.category_of):
            if array is not None:
                array.flags.writeable = False

    def __eq__(self, other: object) -> bool:
        return self.digest == other.digest if isinstance(other, Directions) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    def _repr_html_(self) -> str:
        rows = []
        for number, ends in enumerate(self.describe(most=3)[:MOST_ROWS]):
            named = (", ".join(f"{name} ({entry:+.2g})" for name, entry in end) for end in ends)
            rows.append((number, *named))
        title = f"{self.count} directions over {len(self.matrix):,} rows, {self.kind}"
        header = ("direction", "one end", "other end")
        return Shown(title, [self.origin], header, rows, self.count - len(rows)).html()

    def plot(self, *, most: int = 4, directions: int = 6, ax: Any = None) -> Any:
        """Draw the strongest attributes at both ends of the first directions; return matplotlib's axes.

        Parameters
        ----------
        most : int, default=4
            Attributes at each end.
        directions : int, default=6
            How many directions.
        ax : Axes, optional
            New ones by default.
        """
        return two_ends(self.describe(most=most)[:directions], ax=ax)

    def to_pandas(self) -> Any:
        """Return a data frame: one row for each attribute (bucket or category), one column for each direction.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        names = self.names
        columns = {"name": [names[row] for row in range(len(self.matrix))]}
        return data_frame(columns | {f"x{i}": column / self.scale for i, column in enumerate(self.matrix.T)})

    def __repr__(self) -> str:
        known = f"{len(self.matrix)} {'buckets' if self.buckets else 'categories' if self.merges else 'attributes'}"
        return f"<Directions: {self.count} over {known}, {self.kind}, sha256 {self.digest[:12]}…>"


def bounded(loadings: Floats, cap: float) -> Floats:
    """Return rows none of which has a larger ℓ₁ norm than 1, which is the quantile ``cap`` of what they had.

    Attributes that nobody in the sample has are left out of account: a public list may hold any number of them.
    """
    norms = np.abs(loadings).sum(axis=1)
    positive = norms[norms > 1e-9 * norms.max(initial=0.0)]
    if not len(positive):
        return np.zeros_like(loadings)
    limit = float(np.quantile(positive, cap))
    matrix: Floats = loadings / np.maximum(norms, limit)[:, None]
    return matrix


def rounded(matrix: Floats, scale: int) -> Floats:
    """Return multiples of 1/``scale`` near a matrix, none of whose rows has grown by more than half a step in ℓ₁ norm.

    Rounding each entry could add half a step for each of them, and all the noise is scaled by the longest row.
    """
    steps = np.abs(matrix) * scale
    whole = np.floor(steps)
    missing = np.rint(steps.sum(axis=1)) - whole.sum(axis=1)
    rank = np.argsort(np.argsort(whole - steps, axis=1, kind="stable"), axis=1, kind="stable")
    near: Floats = np.sign(matrix) * (whole + (rank < missing[:, None])) / scale
    return near


def rotated(vectors: Floats) -> Floats:
    """Return the varimax rotation of orthonormal columns: each row then loads on few of them, and ℓ₁ is near ℓ₂.

    References
    ----------
    Kaiser (1958), by the singular value iteration of Sherin (1966).
    """
    rotation = np.eye(vectors.shape[1])
    before = 0.0
    for _ in range(60 if vectors.shape[1] > 1 else 0):
        turned = vectors @ rotation
        squares = turned * turned
        left, values, right = np.linalg.svd(vectors.T @ (turned * (squares - squares.mean(axis=0))))
        rotation = left @ right
        if values.sum() < before * (1 + 1e-6):
            break
        before = float(values.sum())
    return vectors @ rotation


def _check_size(n_rows: int, count: int) -> None:
    if type(count) is not int or not 1 <= count <= MAX_COUNT:
        raise ParameterError(f"count must be 1 to {MAX_COUNT} directions, got {count!r}.")
    if n_rows * count > MAX_ENTRIES:
        raise ParameterError(
            f"directions must have at most {MAX_ENTRIES} entries, got {n_rows} rows of {count}. Use fewer directions."
        )


def _entries(matrix: Integers) -> Integers:
    """Return a matrix as a read-only copy in the smallest type that holds it."""
    table = np.asarray(matrix)
    if table.ndim != 2 or table.dtype.kind not in "iu":
        raise ParameterError(f"directions must be a matrix of integers, got {table.ndim} dimensions of {table.dtype}.")
    _check_size(*table.shape)
    low, high = int(table.min(initial=0)), int(table.max(initial=0))
    if max(high, -low) > MAX_ENTRY:
        raise ParameterError(
            f"entries must be within ±{MAX_ENTRY}, got {max(high, low, key=abs)}. Use a smaller scale."
        )
    kept: Integers = np.array(table, np.int8 if max(high, -low) < 2**7 else np.int16, order="C")
    kept.flags.writeable = False
    return kept
