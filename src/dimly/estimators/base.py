"""``ReleasingTransformer``: register of rows that were released, refusal to repeat, account of what it cost."""

import inspect
import multiprocessing
import re
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, Final, Literal, Self

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dimly.analyst.structure.coordinates import Coordinates
from dimly.compiled import undisturbed
from dimly.curator.people import refuse_masked, user_ids
from dimly.curator.perturb import Perturber
from dimly.curator.randomness import Keystream
from dimly.curator.tables.matrix import matrix_people
from dimly.errors import BudgetError, DataError, ParameterError, PrivacyWarning
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.privacy import Composition, Cost, compose

# Rows that were released by this process before, recognized without keeping them.
#
# For tools that make releases from bare matrices, where no ledger knows the people: a tag of eight bytes for each row,
# by content or by id, under a key that is drawn with the process and never leaves it. Limits: a person whose row
# changed is not recognized by content, two people with equal rows are taken for one, and another process knows nothing
# of this one. Different rows share a tag by chance at a rate of n·m/2⁶⁴ for n rows beside m; the second is then taken
# for a repeat.


Tags = NDArray[np.uint64]

# Held by ``undisturbed`` work only, so that a signal handler may transform while the thread that it interrupts does.
_lock = threading.Lock()


class _TagSet:
    """Tags in sorted arrays, each more than twice as long as the next: to add and to look up takes log n of them."""

    def __init__(self) -> None:
        self._arrays: list[Tags] = []

    def add(self, tags: Tags) -> None:
        self._arrays.append(np.unique(tags))
        while len(self._arrays) > 1 and len(self._arrays[-2]) <= 2 * len(self._arrays[-1]):
            last = self._arrays.pop()
            self._arrays[-1] = np.union1d(self._arrays[-1], last)

    def meets(self, tags: Tags) -> bool:
        """Return whether any of ``tags`` is in the set."""
        for known in self._arrays:
            if len(known):
                place = np.minimum(np.searchsorted(known, tags), len(known) - 1)
                if (known[place] == tags).any():
                    return True
        return False


class Register:
    """Which rows were released. One serves the process: :data:`REGISTER`.

    Rows that came with ids are told apart by these; rows without are told apart by content, from all others.
    """

    def __init__(self) -> None:
        key = np.empty(4, np.uint64)
        Keystream().fill(key)
        self._key = key.tobytes()
        self._users = _TagSet()
        self._identified = _TagSet()  # contents of rows that came with an id
        self._anonymous = _TagSet()  # contents of the others

    def contents(self, indptr: NDArray[Any], indices: NDArray[Any], values: NDArray[Any], *, width: int) -> Tags:
        """Return a tag for the content of each compressed sparse row, whose indices rise and values are not zero.

        Values are compared in single precision, so that a table is the same in whatever type it comes.
        """
        columns, numbers = indices.astype("<i8").tobytes(), values.astype("<f4").tobytes()
        start = blake2b(digest_size=8, key=self._key, person=b"row")
        start.update(width.to_bytes(8, "little"))

        def tag(first: int, stop: int) -> bytes:
            state = start.copy()
            state.update(columns[8 * first : 8 * stop])
            state.update(numbers[4 * first : 4 * stop])
            return state.digest()

        bounds = indptr.tolist()
        return np.frombuffer(b"".join(map(tag, bounds[:-1], bounds[1:])), np.uint64)

    def users(self, ids: Iterable[object]) -> Tags:
        """Return a tag for each id; 42 and "42" are one person."""
        start = blake2b(digest_size=8, key=self._key, person=b"user")

        def tag(user: object) -> bytes:
            state = start.copy()
            state.update(str(user).encode())
            return state.digest()

        return np.frombuffer(b"".join(map(tag, ids)), np.uint64)

    def enter(self, contents: Tags, users: Tags | None, *, repeats: bool) -> bool:
        """Enter rows that are about to be released, and return True; or return False if some were before.

        Check and entry are one step, so that of two threads with the same rows one is refused.

        Parameters
        ----------
        contents : ndarray
            Of :meth:`contents`.
        users : ndarray, optional
            Of :meth:`users`.
        repeats : bool
            Enter them in any case.
        """
        return undisturbed(lambda: self._enter(contents, users, repeats))

    def _enter(self, contents: Tags, users: Tags | None, repeats: bool) -> bool:
        with _lock:
            if users is None:
                known = self._anonymous.meets(contents) or self._identified.meets(contents)
            else:
                known = self._users.meets(users) or self._anonymous.meets(contents)
            if known and not repeats:
                return False
            if users is None:
                self._anonymous.add(contents)
            else:
                self._users.add(users)
                self._identified.add(contents)
            return True


REGISTER = Register()
"""Of this process."""


class Account:
    """What the releases of one tool cost any one person together, at most.

    Releases of people without ids all add up: that two tables share nobody cannot be seen from their rows. Of people
    with ids, the releases that share somebody do.
    """

    def __init__(self) -> None:
        self._anonymous: Counter[Cost] = Counter()
        self._users: dict[Cost, list[Tags]] = {}

    def charge(self, cost: Cost, users: Tags | None) -> None:
        """Count a release."""

        def count() -> None:
            with _lock:
                if users is None:
                    self._anonymous[cost] += 1
                else:
                    self._users.setdefault(cost, []).append(users)

        undisturbed(count)

    @property
    def spent(self) -> Composition:
        """The sum, which holds however the releases were chosen."""
        costs = list(self._counts().elements())
        return compose(costs, delta=min(sum(cost.delta for cost in costs) * (1 + 1e-12), 1 - 1e-12), method="sum")

    def _counts(self) -> Counter[Cost]:
        def count() -> Counter[Cost]:
            with _lock:
                counts = Counter(self._anonymous)
                for cost, tags in self._users.items():
                    if sum(map(len, tags)):
                        counts[cost] += int(np.unique(np.concatenate(tags), return_counts=True)[1].max())
            return counts

        return undisturbed(count)

    def __getstate__(self) -> dict[str, Any]:
        # Whoever holds tags and key could test who was released: numbers alone are stored.
        return {"_anonymous": self._counts(), "_users": {}}


Output = Literal["points", "integers"]


class ReleasingTransformer(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A transformer whose output may be published."""

    plan: Plan | None
    output: Output
    allow_repeats: bool
    n_features_in_: int

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803, ARG002 - scikit-learn's names
        """Make the plan for tables with as many columns as ``X``. Nothing of its values is used.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (n_samples, n_features)
            One row per person. Its number of columns and their names are public.
        y : object
            Not used.
        """
        if self.output not in ("points", "integers"):
            raise ParameterError(f"output must be points or integers, got {self.output!r}.")
        self._validated(X, reset=True)
        self.plan_ = self._planned()
        self.bias_ = Coordinates.of(self.plan_).bias
        if not hasattr(self, "_account"):  # what was spent stays spent when it is fitted again
            self._account = Account()
        return self

    def transform(self, X: Any, *, users: ArrayLike | None = None) -> NDArray[Any]:  # noqa: N803
        """Release the people of ``X``, with fresh secret noise.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (n_samples, n_features)
            One row per person: bits, or values in [0, 1].
        users : array_like of shape (n_samples,), optional
            Ids, integers or text, all different. With them people are recognized by id; without, by their rows.

        Returns
        -------
        ndarray of shape (n_samples, n_features_out)

        Raises
        ------
        DataError
            If the values do not fit the plan.
        BudgetError
            If some of these people were released before, or this is a search; unless ``allow_repeats`` is set.
        """
        check_is_fitted(self)
        X = self._validated(X, reset=False)  # noqa: N806
        names = getattr(self, "feature_names_in_", None)
        people, attributes = matrix_people(self._prepared(X), self.plan_, attributes=names)
        tags = None if users is None else REGISTER.users(user_ids(users, len(people)).tolist())
        self._refuse_repeats(X, tags)
        self._account.charge(self.plan_.cost, tags)
        rows = Perturber(self.plan_, attributes).perturb(people, Keystream())
        if self.output == "points":
            return Coordinates.of(self.plan_).points(rows)
        return self._integers(rows)

    def fit_transform(self, X: Any, y: Any = None, *, users: ArrayLike | None = None) -> NDArray[Any]:  # noqa: N803
        """Fit, and release the people of ``X`` once. See :meth:`transform`."""
        released: NDArray[Any] = self.fit(X, y).transform(X, users=users)
        return released

    @property
    def spent_(self) -> Composition:
        """What all transforms of this object cost any one person together, at most."""
        check_is_fitted(self)
        return self._account.spent

    def _planned(self) -> Plan:
        """Return the plan: the one that was given, or one by the parameters."""
        names = getattr(self, "feature_names_in_", None)
        if self.plan is None:
            return self._plan_by_parameters(names)
        if not isinstance(self.plan, Plan):
            raise ParameterError(f"plan must be a Plan, got {type(self.plan).__name__}.")
        self._check_mechanism(self.plan.mechanism)
        parameters = inspect.signature(type(self)).parameters
        for name in self._PLANNED:
            if getattr(self, name) != parameters[name].default:
                raise ParameterError(f"{name} must be left out where a plan is given, which states it.")
        if self.plan.n_attributes not in (None, self.n_features_in_):
            raise ParameterError(f"X must have {self.plan.n_attributes} columns, as the plan says.")
        self._check_columns(self.plan, names)
        return self.plan.along(None)  # which refuses one that was read without its directions

    _PLANNED: tuple[str, ...]

    @staticmethod
    def _check_columns(plan: Plan, names: Sequence[str] | None) -> None:
        """Refuse columns that are not the attributes of a closed plan, in its order, in which they come out."""
        if plan.vocabulary is None:
            return
        if names is None:
            if plan.vocabulary.sha256 is None:
                return
            raise ParameterError(
                "X must have column names where the plan was made with a list of attributes. Pass a data frame with "
                "the columns of that list, in its order."
            )
        listed = Vocabulary.listed(names)
        try:
            plan.vocabulary.matching(listed)
        except ParameterError:
            numbered = plan.vocabulary.sha256 is None
            kind = "are numbered from 0. Pass an array" if numbered else "have an order. Reorder them"
            raise ParameterError(f"the columns of X must be the plan's attributes, which {kind}.") from None
        plan.vocabulary_of(listed)

    def _plan_by_parameters(self, names: Sequence[str] | None) -> Plan:
        raise NotImplementedError

    def _check_mechanism(self, mechanism: str) -> None:
        raise NotImplementedError

    def _prepared(self, X: Any) -> Any:  # noqa: N803
        """Return the table with what the parameters say done to its values."""
        raise NotImplementedError

    def _integers(self, rows: NDArray[Any]) -> NDArray[Any]:
        return rows

    def _validated(self, X: Any, *, reset: bool) -> Any:  # noqa: N803
        refuse_masked(X)  # scikit-learn takes the mask off
        try:
            table = validate_data(self, X, reset=reset, accept_sparse="csr", accept_large_sparse=True, dtype="numeric")
        except (ValueError, TypeError, OverflowError) as error:
            failure = _quiet(error)
        else:
            if table.dtype.kind in "biuf":
                return table
            failure = _not_numbers()  # times, and what lists hold: to compare them would fail in others' words
        # Outside of the handler, so that not even the context of our error holds the original text.
        raise failure

    def _refuse_repeats(self, X: Any, users: Tags | None) -> None:  # noqa: N803
        name, again = type(self).__name__, f"spend epsilon {self.plan_.cost.epsilon:g} again"
        search = _search()
        if search is not None:
            if not self.allow_repeats:
                text = (
                    f"{name} must not be searched over, cross-validated or bagged: every fold and sample would "
                    f"{again}. Transform once, and search over the steps that follow; or set allow_repeats=True."
                )
                if search in _SILENT:
                    warnings.warn(text, PrivacyWarning, stacklevel=3)
                raise BudgetError(text)
            warnings.warn(
                f"A search with {name} in it: every fold and sample will {again}, and no spent_ adds that up.",
                PrivacyWarning,
                stacklevel=3,
            )
        if not self.allow_repeats and multiprocessing.parent_process() is not None:
            raise BudgetError(
                f"{name} must transform in the main process: others cannot tell whom it released before. Transform "
                "first, and do in parallel what follows; or set allow_repeats=True."
            )
        contents = REGISTER.contents(*_rising_rows(X), width=X.shape[1])
        if not REGISTER.enter(contents, users, repeats=self.allow_repeats):
            raise BudgetError(
                f"{name} must see each person once, but some of these rows were transformed before: that would "
                f"{again}. Keep the first result; pass users if equal rows are of different people; or set "
                "allow_repeats=True."
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # no seed for noise exists
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []
        return tags


# Where scikit-learn turns our error into scores of NaN without a word, or may: of a worker the caller is not seen.
_SILENT: Final = ("validation_curve", "_fit_and_score")


def _search() -> str | None:
    """Return which of scikit-learn's searches, cross-validations or baggings is at work, if any: it clones and repeats.

    By the callers, the outermost of them, because a clone is a new object, and may be in a new process.
    """
    frame, found = sys._getframe(), None
    while (caller := frame.f_back) is not None:
        frame = caller
        where, name = frame.f_globals.get("__name__", ""), frame.f_code.co_name
        _, is_selection, module = where.partition("sklearn.model_selection.")
        if where == "sklearn.ensemble._bagging":  # draws people with replacement: one table has some of them twice
            found = name
        # Not predict and the like, which a search passes on to the one estimator that it has fitted.
        if is_selection and (
            module == "_validation" or name.startswith("_fit") or (name == "fit" and "search" in module)
        ):
            found = name
    return found


def _rising_rows(X: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:  # noqa: N803
    """Return where compressed sparse rows start, their rising indices and their values, none of them zero."""
    with np.errstate(over="ignore"):  # values that will be clipped
        table = scipy.sparse.csr_array(X.astype(np.float32))
    table.sum_duplicates()
    table.eliminate_zeros()
    return table.indptr, table.indices, table.data


# What scikit-learn says of columns, of dimensions and of numbers that are none; nothing else of its texts is passed on,
# because many of them show the table.
_OF_COLUMNS: Final = ("X has ", "X does not have ", "The feature names ", "Feature names ")
_OF_SHAPE: Final = ("Found array with ", "Input X contains ")


def _quiet(error: Exception) -> Exception:
    """Return an error that says what scikit-learn's does, and nothing of the values."""
    text, kind = str(error), type(error)
    if text.startswith(_OF_COLUMNS):
        return kind(text)
    if text.startswith(_OF_SHAPE):
        # Without the number of rows, which is the number of people.
        return ParameterError(re.sub(r"shape=\(\d+, ", "shape=(, ", text.splitlines()[0]))
    if text.startswith("Expected 2D array"):
        return ParameterError("X must be a table with rows and columns. Reshape your data: one row for each person.")
    if text.startswith("Complex data not supported"):
        return ParameterError("X must hold real numbers. Complex data not supported.")
    if text.startswith("float() argument must be"):
        return kind("X must hold numbers: the argument must be a string or a real number, but some cells are neither.")
    return _not_numbers()


def _not_numbers() -> DataError:
    return DataError("X must hold booleans or numbers. Encode what is text by a public list of categories.")
