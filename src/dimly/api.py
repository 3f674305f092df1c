"""The short way through the rooms."""

import os
import warnings
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, overload

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike

from dimly.analyst.release import Release
from dimly.curator.csv_dialect import CsvOptions
from dimly.curator.job import Job
from dimly.curator.matrix_table import MatrixTable
from dimly.curator.opening import Reading, open_table
from dimly.curator.perturbing import Perturber
from dimly.curator.progress import Progress
from dimly.curator.publishing import matrix_people, ordered_by_user, publish_people
from dimly.curator.publishing_tables import (
    Opening,
    Public,
    Published,
    publish_folder,
    publish_in_memory,
    rehearse,
)
from dimly.curator.randomness import Keystream, WordSource
from dimly.curator.resources import Resources
from dimly.errors import ParameterError, PrivacyWarning
from dimly.mechanisms.attributes import Vocabulary, attribute_texts
from dimly.mechanisms.plan import Plan
from dimly.release.stored import open_folder

PathLike = str | os.PathLike[str]


class PublishOptions(TypedDict, total=False):
    """Keywords of :func:`publish`, which explains them."""

    user: str | None
    attribute: str | None
    attributes: str | Iterable[object] | None
    columns: Iterable[str] | Literal["all"] | None
    value: str | None
    users: ArrayLike | None
    roster: Any
    vocabulary: Any
    pseudonyms: PathLike | None
    out: PathLike | None
    ledger: PathLike | None
    dataset: str | None
    recipient: str | None
    append: PathLike | None
    update: PathLike | None
    table: str | None
    query: str | None
    delimiter: str | None
    quote: str | None
    escape: str | None
    encoding: str | None
    memory: int | None
    threads: int | None
    temp: PathLike | None
    nulls: Literal["refuse", "drop"]
    values: Literal["refuse", "clamp"]
    overwrite: bool
    progress: Progress | None


@overload
def publish(source: Any, plan: Plan, *, dry_run: Literal[True], **options: Unpack[PublishOptions]) -> Published: ...
@overload
def publish(
    source: Any, plan: Plan, *, dry_run: Literal[False] = False, **options: Unpack[PublishOptions]
) -> Release: ...


def publish(
    source: Any,
    plan: Plan,
    *,
    user: str | None = None,
    attribute: str | None = None,
    attributes: str | Iterable[object] | None = None,
    columns: Iterable[str] | Literal["all"] | None = None,
    value: str | None = None,
    users: ArrayLike | None = None,
    roster: Any = None,
    vocabulary: Any = None,
    pseudonyms: PathLike | None = None,
    out: PathLike | None = None,
    ledger: PathLike | None = None,
    dataset: str | None = None,
    recipient: str | None = None,
    append: PathLike | None = None,
    update: PathLike | None = None,
    table: str | None = None,
    query: str | None = None,
    delimiter: str | None = None,
    quote: str | None = None,
    escape: str | None = None,
    encoding: str | None = None,
    memory: int | None = None,
    threads: int | None = None,
    temp: PathLike | None = None,
    nulls: Literal["refuse", "drop"] = "refuse",
    values: Literal["refuse", "clamp"] = "refuse",
    overwrite: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Release | Published:
    """Publish a private table by ``plan``, with fresh secret noise.

    Parameters
    ----------
    source : path, list of paths, data frame, Arrow table, array_like or SciPy sparse matrix
        Parquet, CSV or JSON-lines files, globs and folders of them, a DuckDB or SQLite file, a table of pandas, polars
        or Arrow; or a matrix with one row per person and one column per attribute. See docs/sources.md.
    plan : Plan
        Made before the table was looked at.
    user : str
        Column of the people's ids. Not for a matrix.
    attribute, value : str, optional
        A long table: one row per person and attribute, with its value in [0, 1] if there is one.
    attributes : str or iterable, optional
        A column that holds lists of attributes. For a matrix: the names of its columns ("0", "1", … by default; columns
        whose names have the same text are one attribute).
    columns : iterable of str or "all", optional
        A wide table: these columns, or all but the user's, are attributes.
    users : array_like, optional
        For a matrix: ids of the people, integers or text; 0, 1, … by default.
    roster : path or iterable, optional
        Public list of the people to publish. Those without attributes get a row too, and nobody else does. Without it,
        the people are those found in the table, and that says something about them.
    vocabulary : path or iterable, optional
        Public list of attributes; others are left out. Needed if the plan was made with a list.
    pseudonyms : path, optional
        File with a secret key of at least 32 bytes: ids become keyed hashes.
    out : path, optional
        Folder to make. Without it the release stays in memory.
    ledger, dataset, recipient : optional
        Ledger to charge, the dataset's name in it, and who gets the release.
    append : path, optional
        A release to which people are added who are not in it yet, at no further charge; in place of ``out``. Needs the
        ledger.
    update : path, optional
        A release of which some people changed: they are published anew, charged, together with the others as they were,
        in a new release at ``out``.
    table, query : str, optional
        Which table, or what query, of a database file.
    delimiter, quote, escape, encoding : str, optional
        Of CSV files; found out by default.
    memory : int, optional
        Bytes that the process may use; what does not fit is sorted on disk. 2 GiB by default, or half of the machine's.
    threads : int, optional
        All cores by default.
    temp : path, optional
        Folder for what does not fit in memory. It holds private data while the run lasts.
    nulls : {"refuse", "drop"}, default="refuse"
        Rows without a user, attribute or value.
    values : {"refuse", "clamp"}, default="refuse"
        Values outside of [0, 1].
    overwrite : bool, default=False
        Whether a release at ``out`` is replaced; a full new charge.
    dry_run : bool, default=False
        Check everything, say what it would cost, and draw no noise.
    progress : Progress, optional
        Told how far the work is.

    Returns
    -------
    Release
        What an analyst can ask; in memory, or on disk at ``out``. After a dry run a :class:`Published`.

    Raises
    ------
    ParameterError
        If the call cannot work.
    DataError
        If the table does not fit the plan. The text holds nothing of the table.
    BudgetError
        If the ledger does not allow it.

    Examples
    --------
    >>> from dimly.mechanisms import Plan
    >>> from dimly.privacy import Budget
    >>> release = publish([[1, 0, 1], [0, 1, 1]], Plan.of("counting+laplace", Budget(1.0), k=4))
    >>> release.values.shape, release.values.dtype.name
    ((2, 4), 'int16')
    """
    arguments = {name: argument for name, argument in locals().items() if name not in ("source", "plan")}
    if out is None and append is None and not dry_run:
        return _publish_in_memory(source, plan, arguments)
    published = publish_table(source, plan, **arguments)
    for text in published.warnings:
        warnings.warn(text, PrivacyWarning, stacklevel=2)
    return published if published.path is None else open_release(published.path)


def publish_table(
    source: Any, plan: Plan, *, words: Callable[[], WordSource] = Keystream, **arguments: Any
) -> Published:
    """Publish into a folder as :func:`publish` does, and return what was done.

    ``words`` is for tests: a release made with anything but fresh keystreams is stamped as not private.
    """
    job = _Job(source, plan, arguments)
    destination = job.destination()
    if arguments.get("dry_run"):
        return rehearse(
            job.opening,
            plan,
            out=destination.target,
            public=job.open_public,
            charging=job.charging,
            overwrite=destination.overwrite,
            base=destination.base,
        )
    assert destination.target is not None  # noqa: S101 - refused above
    return publish_folder(
        job.opening,
        plan,
        out=destination.target,
        public=job.open_public,
        charging=job.charging,
        resources=job.resources,
        progress=job.progress,
        overwrite=destination.overwrite,
        base=destination.base,
        words=words,
    )


def open_release(path: PathLike, *, verify: bool = False) -> Release:
    """Open a release folder: at once, at any size.

    Parameters
    ----------
    path : path
    verify : bool, default=False
        Whether to read every file and check it against the manifest, too.

    Raises
    ------
    ReleaseError
        If it is not a release, or not whole.
    """
    sketches = open_folder(Path(path), verify=verify)
    return Release(sketches, vocabulary=sketches.vocabulary)


class _Job(Job):
    """The arguments of :func:`publish`, and the source that they go with."""

    def __init__(self, source: Any, plan: Plan, arguments: dict[str, Any]) -> None:
        super().__init__(plan, arguments)
        self.resources = Resources.of(**{name: self.given.get(name) for name in ("memory", "threads", "temp")})
        self._source = source
        self.opening: Opening
        self.open_public: Public
        self.matrix: MatrixTable | None = None
        if _is_matrix(source):
            self._open_matrix()
        else:
            self._open_table()

    def _open_table(self) -> None:
        self.check_table()
        names = ("user", "attribute", "attributes", "columns", "value", "table", "query", "nulls", "values", "roster")
        dialect = self.options("delimiter", "quote", "escape", "encoding")
        self.open_public = public = self.public
        reading = Reading(self._source, **self.options(*names), csv=CsvOptions(**dialect), pseudonyms=self.pseudonyms)
        self.opening = lambda: open_table(
            reading, self.plan, vocabulary=public.vocabulary, resources=self.resources, progress=self.progress
        )

    def _open_matrix(self) -> None:
        of_tables = {"user", "attribute", "columns", "value", "table", "query", "roster", "pseudonyms"}
        for name in sorted(of_tables & self.given.keys()):
            raise ParameterError(f"{name} must be given for a table with columns only, and this is a matrix.")
        names = self.given.get("attributes")
        texts = None if names is None else attribute_texts(names)
        if "vocabulary" in self.given:
            raise ParameterError("vocabulary of a matrix must be its columns. Name them by attributes.")
        people, known = matrix_people(self._source, self.plan, attributes=texts)
        people, ids = ordered_by_user(people, self.given.get("users"))
        self.matrix = table = MatrixTable(people, ids, known, resolution=self.plan.resolution)
        self.open_public = Public("found", known if isinstance(known, Vocabulary) else None)
        self.opening = lambda: nullcontext(table)


def _publish_in_memory(source: Any, plan: Plan, arguments: dict[str, Any]) -> Release:
    for name in ("ledger", "update"):
        if arguments[name] is not None:
            raise ParameterError(f"out must be a folder to make where {name} is given, got none.")
    job = _Job(source, plan, arguments)
    if job.matrix is not None:
        sketches = publish_people(job.matrix.people, Perturber(plan, job.matrix.attributes), users=job.matrix.ids)
    else:
        sketches = publish_in_memory(
            job.opening, plan, public=job.open_public, resources=job.resources, progress=job.progress
        )
    return Release(sketches, vocabulary=job.open_public.vocabulary)


def _is_matrix(source: Any) -> bool:
    """Return whether a source has rows and columns, but no names for them."""
    if scipy.sparse.issparse(source) or isinstance(source, np.ndarray):
        return True
    # A list of paths is a table in several files; a list of rows is a matrix.
    return isinstance(source, list | tuple) and not any(isinstance(item, str | os.PathLike) for item in source)
