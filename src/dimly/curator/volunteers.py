"""Volunteers, whose public data a plan was made from, must not be among those who are published.

Directions show rare attributes of the people that they were learned from, and a list of attributes that was made of a
sample shows which attributes its people have: the promise does not hold for them. Whether somebody is in both lists is
asked before any noise is drawn. Ids are compared as text, in memory, and are neither quoted nor written anywhere:
neither directions nor releases hold a list of volunteers.
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
        If somebody is both. Nothing is said of who, or how many.
    ParameterError
        If the list of volunteers cannot be read.
    """
    if options.volunteers is None or options.except_volunteers:
        return
    volunteers = _ids(options)
    for ids in people:
        if pc.any(pc.is_in(ids.cast(pa.string()), value_set=volunteers)).as_py():
            raise DataError(
                "volunteers must not be among the people to publish, but some are: directions, or a list of "
                "attributes made of a sample, show their data. Take them out of the table or the roster; or add "
                "except_volunteers=True (--except-volunteers), and the promise says that it does not hold for them."
            )


def _ids(options: Options) -> pa.Array:
    resources = options.resources
    with PrivateDatabase(memory=1 << 28, threads=1, temp=resources.temp) as database:
        listed = read_roster(database, options.volunteers, user_column=options.user or "user", role="volunteers")
        batches = database.stream(f"SELECT CAST(u AS VARCHAR) AS u FROM {listed.name}", batch_rows=_BATCH)
        return pa.concat_arrays([batch.column(0).cast(pa.string()) for batch in batches])
