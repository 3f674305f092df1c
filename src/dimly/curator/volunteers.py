"""Volunteers, whose public data a plan was made from, must not be among those who are published.

Directions show rare attributes of the people that they were learned from, and a list of attributes that was made of a
sample shows which attributes its people have: the promise does not hold for them. Whether somebody is in both lists is
asked before any noise is drawn. Ids are compared in memory, and are neither quoted nor written anywhere: neither
directions nor releases hold a list of volunteers. Text and integers are compared as numbers, because one of the two
lists may come from a file without types: "00031" is then 31.
"""

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from dimly.curator.options import Options
from dimly.curator.tables.database import PrivateDatabase
from dimly.curator.tables.public_lists import read_roster
from dimly.errors import DataError, ParameterError

_BATCH = 1 << 20


def check_options(options: Options) -> None:
    """Refuse an exception of volunteers without a list of them."""
    if options.except_volunteers and options.volunteers is None:
        raise ParameterError("volunteers must be given where except_volunteers is, got none.")


def check_apart(people: Iterable[pa.Array], options: Options) -> None:
    """Refuse to publish people who are volunteers, unless that is excepted from the promise.

    Parameters
    ----------
    people : iterable of arrays
        Own ids of those to be published.
    options : Options

    Raises
    ------
    DataError
        If somebody is both, or ids are of different kinds and cannot be compared. Nothing is said of who, or how many.
    ParameterError
        If the list of volunteers cannot be read.
    """
    if options.volunteers is None or options.except_volunteers:
        return
    volunteers = _ids(options)
    kinds, is_compared = set(), False
    for given in people:
        ids = given.cast(pa.int64() if pa.types.is_integer(given.type) else pa.string())
        kinds.add(ids.type)
        own, theirs = (ids, volunteers) if ids.type == volunteers.type else (_numbers(ids), _numbers(volunteers))
        is_compared |= bool(len(own) and len(theirs))
        if pc.any(pc.is_in(own, value_set=theirs)).as_py():
            raise DataError(
                "volunteers must not be among the people to publish, but some are: directions, or a list of "
                "attributes made of a sample, show their data. Take them out of the table or the roster; or add "
                "except_volunteers=True (--except-volunteers), and the promise says that it does not hold for them."
            )

    if kinds and not is_compared:
        raise DataError(
            "volunteers must have ids of the kind that the people have, but one are integers and the other text that "
            "is no number, so that nobody would be recognized. Give the ids as they are in the table."
        )


def _numbers(ids: pa.Array) -> pa.Array:
    """Return those ids that are integers, as they are usually written."""
    texts = pc.utf8_trim_whitespace(ids.cast(pa.string()))
    texts = texts.filter(pc.match_substring_regex(texts, r"^[+-]?[0-9]+$"))
    return pc.replace_substring_regex(texts, r"^\+?(-?)0*([0-9])", r"\1\2")


def _ids(options: Options) -> pa.Array:
    resources = options.resources
    with PrivateDatabase(memory=1 << 28, threads=1, temp=resources.temp) as database:
        listed = read_roster(database, options.volunteers, user_column=options.user or "user", role="volunteers")
        kind = pa.int64() if listed.user_type == "int64" else pa.string()
        batches = database.stream(f"SELECT u FROM {listed.name}", batch_rows=_BATCH)
        return pa.concat_arrays([batch.column(0).cast(kind) for batch in batches])
