"""From whatever the curator has to a numbered table: source, shape, people and vocabulary put together."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from dimly.curator.coding import CodedTable
from dimly.curator.csv_dialect import CsvOptions
from dimly.curator.database import PrivateDatabase
from dimly.curator.progress import Progress
from dimly.curator.pseudonyms import Pseudonyms
from dimly.curator.public_lists import read_roster
from dimly.curator.resources import Resources
from dimly.curator.shapes import rows_view
from dimly.curator.sources import open_source
from dimly.mechanisms.attributes import Vocabulary
from dimly.mechanisms.plan import Plan


@dataclass(frozen=True, slots=True)
class Reading:
    """How a source is to be understood: where it is, its columns, and what to do with what does not fit.

    See :func:`dimly.publish` for the fields.
    """

    source: Any
    user: str
    attribute: str | None = None
    attributes: str | None = None
    columns: Any = None
    value: str | None = None
    table: str | None = None
    query: str | None = None
    csv: CsvOptions = field(default_factory=CsvOptions)
    nulls: Literal["refuse", "drop"] = "refuse"
    values: Literal["refuse", "clamp"] = "refuse"
    roster: Any = None
    pseudonyms: Pseudonyms | None = None


@contextlib.contextmanager
def open_table(
    reading: Reading, plan: Plan, *, vocabulary: Vocabulary | None, resources: Resources, progress: Progress
) -> Iterator[CodedTable]:
    """Read, check and number a table; all of it is forgotten at the end.

    Raises
    ------
    ParameterError
        If the source or its columns are not there, or cannot be what they are said to be.
    DataError
        If rows do not fit. The text holds nothing of them.
    """
    with PrivateDatabase(memory=resources.database_memory, threads=resources.threads, temp=resources.temp) as database:
        progress.phase("reading")
        source = open_source(database, reading.source, table=reading.table, query=reading.query, csv=reading.csv)
        view = rows_view(
            database,
            source,
            user=reading.user,
            attribute=reading.attribute,
            attributes=reading.attributes,
            columns=reading.columns,
            value=reading.value,
            plan=plan,
            nulls=reading.nulls,
            values=reading.values,
        )
        roster = None if reading.roster is None else read_roster(database, reading.roster, user_column=reading.user)
        view.check()
        progress.phase("numbering")
        table = CodedTable(
            database,
            view,
            roster=roster,
            vocabulary=vocabulary,
            pseudonyms=reading.pseudonyms,
            keep_values=plan.resolution > 1,
        )
        progress.phase("sorting")
        yield table
        source.check_unchanged()
