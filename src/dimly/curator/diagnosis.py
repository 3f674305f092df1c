"""``--diagnose``: rows that roster and vocabulary leave out, and lines of a file that do not fit.

How much is left out is an exact function of the private table. So publishing says nothing of it, but for the one case
in which only noise would be published. Whoever asks for figures gets them in a new file that nobody else can read.
"""

import contextlib
import csv
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from dimly.curator.options import Options
from dimly.curator.tables.csv import CsvOptions, Dialect, read_header
from dimly.curator.tables.input_files import Stamp, find_files, open_bytes
from dimly.curator.tables.public_lists import MISSING_IDS, ODD_IDS
from dimly.curator.tables.sources import are_paths
from dimly.errors import DataError, DimlyError, Note, ParameterError, check_path
from dimly.files import check_outside_releases, drafted
from dimly.mechanisms.plan_kinds import DirectionsPlan
from dimly.mechanisms.vocabulary import Vocabulary

MOST_FREQUENT: Final = 20
"""Left-out attributes that a diagnosis names."""
WARNING: Final = "Private: exact figures of the table that no promise covers. For the curator alone. Delete it soon."


class ListedTable(Protocol):
    """A private table that knows what roster and closed list leave out."""

    def fits_list(self) -> bool:
        """Return whether any attribute of the table is in the list, whoever has it."""

    def fits_roster(self) -> bool:
        """Return whether anybody on the roster has any attribute."""

    def left_out(self, most: int) -> "LeftOutRows":
        """Return private figures: how much is left out, and the most frequent attributes of that, so many of them."""


@dataclass(frozen=True, slots=True, repr=False)
class LeftOutRows:
    """How much of a table roster and list leave out: exact figures, for the curator alone.

    Attributes
    ----------
    rows : int
    unknown, kept, unlisted : int
        Rows of people who are not on the roster; of others, with attributes in the list and with others.
    people, touched : int
        People who are published, and those of them with something that the list leaves out.
    attributes, outside : int
        Attributes of the table, and those that are not in the list.
    frequent : sequence of (str, int)
        The most frequent of those, with their rows.
    """

    rows: int
    unknown: int
    kept: int
    unlisted: int
    people: int
    touched: int
    attributes: int
    outside: int
    frequent: Sequence[tuple[str, int]]

    def figures(self) -> dict[str, Any]:
        """Return what a diagnosis says, by name."""
        return {
            "rows": self.rows,
            "rows_of_people_not_on_the_roster": self.unknown,
            "rows_published": self.kept,
            "rows_left_out_by_the_list": self.unlisted,
            "share_of_rows_left_out_by_the_list": self.unlisted / max(1, self.kept + self.unlisted),
            "people": self.people,
            "share_of_people_with_something_left_out": self.touched / self.people,
            "attributes": self.attributes,
            "attributes_left_out": self.outside,
            "most_frequent_left_out": [{"attribute": text, "rows": rows} for text, rows in self.frequent],
        }


TableT = TypeVar("TableT", bound=ListedTable)


def check_new_file(path: str | os.PathLike[str]) -> Path:
    """Return where a diagnosis goes; refused before anything is read or charged.

    Raises
    ------
    ParameterError
        If it exists, or its folder does not, or cannot be written to.
    """
    check_path("diagnose", path)
    file = Path(path)
    if not file.parent.is_dir():
        raise ParameterError(f"diagnose must be in a folder that exists, got {str(file)!r}. Make the folder first.")
    if os.path.lexists(file):
        raise _taken(file)
    check_outside_releases(file.parent, "diagnose")
    try:
        probe = file.with_name(f".dimly-{secrets.token_hex(8)}")
        os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        probe.unlink()
    except OSError as error:
        raise ParameterError(
            f"diagnose must be in a folder that can be written to, got {str(file)!r}: {error.strerror}. Name another."
        ) from None
    return file


def _taken(file: Path) -> ParameterError:
    return ParameterError(f"diagnose must be a new file, got {str(file)!r}, which exists. Name another.")


def open_diagnosed(
    opening: AbstractContextManager[TableT],
    plan: object,
    options: Options,
    vocabulary: Vocabulary | None,
    *,
    nobody: str | None = None,
    source: object = None,
) -> AbstractContextManager[TableT]:
    """Open a table with a look at what is left out: before any noise is drawn, whatever the engine.

    Where the diagnosis goes is checked at once, and the table opened when the returned context is entered.

    The diagnosis is written even if publishing then stops: that is when it is wanted most. A few people who are added
    to a release, or changed in one, may have nothing in the lists by right, and that both fit was seen when the release
    was made: so nothing stops then. Nor does anything where a condition leaves rows out. ``nobody`` is what to say of a
    roster that holds nobody of the table. ``source`` is what is opened: of CSV files that do not fit, the diagnosis
    names lines.
    """
    file = None if options.diagnose is None else check_new_file(options.diagnose)
    wrong_list = "" if vocabulary is None else _nothing_listed(plan, vocabulary, options)
    wrong_roster = _NOBODY_LISTED if nobody is None else nobody

    @contextlib.contextmanager
    def opened() -> Iterator[TableT]:
        with contextlib.ExitStack() as stack:
            try:
                table = stack.enter_context(opening)
                _check_lists(table, options, wrong_list, wrong_roster, file)
            except DataError as error:
                _tell_lines(error, source, options, file)
                raise
            yield table

    return opened()


def _check_lists(table: ListedTable, options: Options, wrong_list: str, wrong_roster: str, file: Path | None) -> None:
    """Write the figures if they were asked for; refuse a table of which list or roster leave nothing."""
    if file is not None:
        _write(file, {"warning": WARNING, **table.left_out(MOST_FREQUENT).figures()})
    # Two questions about the whole table, and never whether people of the roster have attributes of the list: with
    # a roster of one and a list of one that would tell the attribute. So would a condition on one attribute with a
    # roster of one, and one on a person with a list of one.
    asks = options.grows is None and options.where is None
    if asks and wrong_list and not table.fits_list():
        raise DataError(wrong_list)
    if asks and options.roster is not None and not table.fits_roster():
        raise DataError(wrong_roster)


def _tell_lines(error: DataError, source: object, options: Options, file: Path | None) -> None:
    """Say of CSV files that do not fit how their first line was read, and in private which lines do not."""
    roster = options.roster
    of_roster = f"{os.fspath(roster)} " if isinstance(roster, str | os.PathLike) else MISSING_IDS
    if str(error).startswith((of_roster, MISSING_IDS, ODD_IDS)):
        return  # which is not the table's fault
    words = header_words(source, options)
    if words:
        error.add_note(Note(words))
    lines = [] if file is None or os.path.lexists(file) else lines_that_do_not_fit(source, options)
    if lines and file is not None:
        _write(file, {"warning": WARNING, "lines_that_do_not_fit": lines})


_PRIVATELY: Final = "diagnose=FILE (--diagnose FILE) says what is left out, in private."
_NOBODY_LISTED: Final = (
    "roster must hold people who have attributes in the table, but it holds none, so that only noise would be "
    "published. Check that user (--user) names the column of ids, and that ids are written alike in table and "
    f"roster: upper and lower case, spaces, leading zeros. {_PRIVATELY}"
)


def _nothing_listed(plan: object, vocabulary: Vocabulary, options: Options) -> str:
    """Return what to do. The list is public, and of the table nothing is said but that it does not fit it at all."""
    column = (
        f"Check that attribute (--attribute) names the right column, got {options.attribute!r}. "
        if options.attribute is not None
        else f"Check that attributes (--attribute-list) names the right column, got {options.attributes!r}. "
        if isinstance(options.attributes, str)
        else ""
    )
    if isinstance(plan, DirectionsPlan):
        return (
            "the directions must have rows for attributes of the table, but have none, so that only noise would be "
            f"published. {column}Check that attributes are written as in the directions (dimly directions show). "
            f"{_PRIVATELY}"
        )
    remedy = (
        f"The list is the numbers 0 to {len(vocabulary) - 1}: if attributes have names, plan with their public list, "
        "vocabulary=FILE (--vocabulary FILE), or with a mechanism that needs none (counting+laplace)."
        if vocabulary.is_numbered
        else "Give a vocabulary (--vocabulary) that is spelled as the table is, or plan or ask without one."
    )
    return (
        "the list must hold attributes of the table, but it holds none, so that only noise would be published. "
        f"{column}{remedy} {_PRIVATELY}"
    )


def _write(file: Path, figures: dict[str, Any]) -> None:
    text = json.dumps(figures, indent=2, ensure_ascii=False) + "\n"
    try:
        with (
            drafted(file, overwrite=False) as draft,
            open(draft, "x", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as out,
        ):
            out.write(text)
        return
    except ParameterError:
        if os.path.lexists(file):
            raise _taken(file) from None
        reason = "its folder is gone"
    except OSError as error:
        reason = error.strerror or "the disk fails"
    raise DimlyError(f"{file} cannot be written: {reason}. Name another file for diagnose; nothing was published.")


MOST_LINES: Final = 20
"""Lines that a diagnosis names."""


def header_words(source: object, options: Options) -> str:
    """Return how the first line of CSV files was read, in a sentence; nothing of other sources."""
    try:
        for stamp, dialect, names in _headers(source, options):
            between = {"\t": "tabs", " ": "blanks"}.get(dialect.delimiter, repr(dialect.delimiter))
            # A line without the names that were given may be a person's, who has so many attributes.
            known = {name.casefold() for name in names}
            is_header = all(name.casefold() in known for _, name in _needed(options))
            read = f"{len(names)} names" if is_header and len(names) > 1 else "names"
            return (
                f"The first line of {stamp.name} was read as {read} with {between} between them, in {dialect.encoding}."
            )
    except (DimlyError, OSError):
        pass
    return ""


def lines_that_do_not_fit(source: object, options: Options) -> list[dict[str, Any]]:
    """Return the first lines of CSV files that do not fit, and why; nothing of other sources. Private."""
    found: list[dict[str, Any]] = []
    try:
        for stamp, dialect, names in _headers(source, options):
            for line, reason in _misfits(stamp, dialect, names, options):
                found.append({"file": stamp.name, "line": line, "why": reason})
                if len(found) == MOST_LINES:
                    return found
    except (DimlyError, OSError):
        pass  # the refusal itself says what is wrong
    return found


def _headers(source: object, options: Options) -> Iterator[tuple[Stamp, Dialect, tuple[str, ...]]]:
    if not are_paths(source):
        return
    form, files = find_files(source)
    if form != "CSV":
        return
    for stamp in files:
        yield stamp, *read_header(stamp, CsvOptions.of(options))


def _misfits(stamp: Stamp, dialect: Dialect, names: tuple[str, ...], options: Options) -> Iterator[tuple[int, str]]:
    doubled = dialect.escape == dialect.quote
    needed = [(what, names.index(name)) for what, name in _needed(options) if name in names]
    with TextIOWrapper(open_bytes(stamp), encoding=dialect.encoding, newline="", errors="replace") as file:
        lines = _Lines(file)
        rows = csv.reader(
            lines,
            delimiter=dialect.delimiter,
            quotechar=dialect.quote or None,
            quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
            doublequote=doubled,
            escapechar=None if doubled or not dialect.escape else dialect.escape,
            strict=True,
        )
        last = 0
        while True:
            try:
                row = next(rows)
            except StopIteration:
                return
            except csv.Error:
                yield last + 1, "quotes are not in pairs"
                return
            first, last = last + 1, rows.line_num
            if lines.changed_end():
                yield first, f"it ends in {lines.end}, and the lines before it do not"
            if first == 1 or not row:
                continue
            if len(row) != len(names):
                yield first, f"it has {len(row)} fields, and the first line has {len(names)}"
            elif "\ufffd" in "".join(row):
                yield first, f"it is not text in {dialect.encoding}"
            else:
                if options.nulls == "refuse":
                    yield from ((first, f"it has no {what}") for what, place in needed if not row[place].strip())
                yield from _bad_value(row, names, options, first)


class _Lines:
    """The lines of a file, and whether they end alike.

    The reader takes them one by one, so that the last one taken ends a row: line breaks in quotes may differ.
    """

    def __init__(self, file: Iterable[str]) -> None:
        self._file = iter(file)
        self._ends: set[str] = set()
        self._last = ""

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        line = next(self._file)
        self._last = line[len(line.rstrip("\r\n")) :]
        return line

    @property
    def end(self) -> str:
        """How the last line ends, in words."""
        return self._last.replace("\r", "CR ").replace("\n", "LF").strip()

    def changed_end(self) -> bool:
        """Return whether the last line is the first with another end than those before it; a file may end without."""
        if not self._last or self._last in self._ends:
            return False
        self._ends.add(self._last)
        return len(self._ends) == 2


def _needed(options: Options) -> list[tuple[str, str]]:
    named = (("user", options.user), ("attribute", options.attribute), ("value", options.value))
    return [(what, name) for what, name in named if name is not None]


def _bad_value(row: list[str], names: tuple[str, ...], options: Options, line: int) -> Iterator[tuple[int, str]]:
    if options.value is None or options.value not in names or not row[names.index(options.value)].strip():
        return
    try:
        fits = 0 <= float(row[names.index(options.value)]) <= 1
    except ValueError:
        fits = False
    if not fits:
        yield line, "its value is not a number from 0 to 1"
