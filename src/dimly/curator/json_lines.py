"""JSON lines as a relation in which every column is JSON, so that no number loses a digit: types go by the cell."""

from collections.abc import Sequence

from dimly.curator.column_names import check_names
from dimly.curator.database import PrivateDatabase
from dimly.curator.files import Stamp, glob_literal
from dimly.curator.readings import literal, quoted
from dimly.errors import DataError


def open_json_lines(database: PrivateDatabase, files: Sequence[Stamp]) -> tuple[str, dict[str, str]]:
    """Return the quoted name of a view of all objects, and its columns: every name that occurs in any of them.

    Raises
    ------
    DataError
        If a line is no object, or if there are none.
    """
    names = json_names(database, files)
    check_json_names(names, files)
    return json_view(database, files, names), dict.fromkeys(names, "JSON")


def json_names(database: PrivateDatabase, files: Sequence[Stamp]) -> list[str]:
    """Return every name that occurs in any object, in order.

    Raises
    ------
    DataError
        If a line is no object.
    """
    # All lines, not a sample: an attribute that appears late is one too.
    found = database.fetch(
        "SELECT bool_or(json_type(json) <> 'OBJECT'), "
        "list_sort(list_distinct(flatten(array_agg(DISTINCT json_keys(json))))) "
        "FROM read_json_objects(?, format = 'auto')",
        [[glob_literal(stamp.path) for stamp in files]],
    )
    is_odd, names = found[0]
    if is_odd:
        raise DataError(f"{files[0].name} must hold one JSON object a line, and some line is none.")
    return list(names or ())


def check_json_names(names: Sequence[str], files: Sequence[Stamp]) -> None:
    """Refuse objects without names, or with such as cannot be told apart."""
    if not names:
        raise DataError(f"{files[0].name} must hold JSON objects with names in them, got none.")
    check_names(names, files[0].name)


def json_view(database: PrivateDatabase, files: Sequence[Stamp], names: Sequence[str]) -> str:
    """Return the quoted name of a view of all objects; one that lacks a name has nothing there."""
    columns = ", ".join(f"{literal(name)}: 'JSON'" for name in names)
    scan = f"read_json(?, columns = {{{columns}}}, format = 'auto', records = true)"
    paths = [glob_literal(stamp.path) for stamp in files]
    return database.create_view(f"SELECT {', '.join(map(quoted, names))} FROM {scan}", [paths])
