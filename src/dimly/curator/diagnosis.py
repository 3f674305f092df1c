"""What roster and closed list leave out: a stop where that is everything, and figures for the curator alone.

How much is left out is an exact function of the private table. So publishing says nothing of it, but for the one case
in which only noise would be published. Whoever asks for figures gets them in a new file that nobody else can read.
"""

import contextlib
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from dimly.curator.options import Options
from dimly.curator.tables.csv_lines import header_words, lines_that_do_not_fit
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


def inspected(
    opening: AbstractContextManager[TableT],
    plan: object,
    options: Options,
    vocabulary: Vocabulary | None,
    *,
    nobody: str | None = None,
    source: object = None,
) -> AbstractContextManager[TableT]:
    """Return ``opening`` with a look at what is left out: before any noise is drawn, whatever the engine.

    The diagnosis is written even if publishing then stops: that is when it is wanted most. A few people who are added
    to a release, or changed in one, may have nothing in the lists by right, and that both fit was seen when the release
    was made: so nothing stops then. Nor does anything where a condition leaves rows out. ``nobody`` is what to say of a
    roster that holds nobody of the table. ``source`` is what is opened: of CSV files that do not fit, the diagnosis
    names lines.
    """
    file = None if options.diagnose is None else check_new_file(options.diagnose)
    wrong = "" if vocabulary is None else _nothing_listed(plan, vocabulary)
    found = _inspected(opening, options, wrong, _NOBODY_LISTED if nobody is None else nobody, file)
    return _with_lines(found, options, source, file)


@contextlib.contextmanager
def _with_lines(
    opening: AbstractContextManager[TableT], options: Options, source: object, file: Path | None
) -> Iterator[TableT]:
    """Say of CSV files that do not fit how their first line was read, and in private which lines do not."""
    with contextlib.ExitStack() as stack:
        try:
            table = stack.enter_context(opening)
        except DataError as error:
            words = header_words(source, options)
            if words:
                error.add_note(Note(words))
            lines = [] if file is None or os.path.lexists(file) else lines_that_do_not_fit(source, options)
            if lines and file is not None:
                _write(file, {"warning": WARNING, "lines_that_do_not_fit": lines})
            raise
        yield table


@contextlib.contextmanager
def _inspected(
    opening: AbstractContextManager[TableT], options: Options, wrong_list: str, wrong_roster: str, file: Path | None
) -> Iterator[TableT]:
    with opening as table:
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
        yield table


_PRIVATELY: Final = "diagnose=FILE (--diagnose FILE) says what is left out, in private."
_NOBODY_LISTED: Final = (
    "roster must hold people who have attributes in the table, but it holds none, so that only noise would be "
    "published. Check that user (--user) names the column of ids, and that ids are written alike in table and "
    f"roster: upper and lower case, spaces, leading zeros. {_PRIVATELY}"
)


def _nothing_listed(plan: object, vocabulary: Vocabulary) -> str:
    """Return what to do. The list is public, and of the table nothing is said but that it does not fit it at all."""
    if isinstance(plan, DirectionsPlan):
        return (
            "the directions must have rows for attributes of the table, but have none, so that only noise would be "
            "published. Check that attribute names the right column, and that attributes are written as in "
            f"the directions (dimly directions show). {_PRIVATELY}"
        )
    remedy = (
        f"The list is the numbers 0 to {len(vocabulary) - 1}: if attributes have names, plan with their public list "
        "(--vocabulary), or with a mechanism that needs none (counting+laplace)."
        if vocabulary.is_numbered
        else "Give a list that is spelled as the table is (--vocabulary), or plan or ask without one."
    )
    return (
        "the list must hold attributes of the table, but it holds none, so that only noise would be published. "
        f"{remedy} {_PRIVATELY}"
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
