"""Neighboring Spark frames, of every shape: what is published of them differs in one person's row."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.engines.engine import carried
from tests.privacy import neighboring_files as files
from tests.privacy.neighboring_files import NAMES, NUMBERS, PEOPLE, PERSON, USUAL, LeakError
from tests.streams import Recorded

from dimly.curator.options import Options
from dimly.mechanisms import Plan


def _long(chance: random.Random) -> tuple[list[list[Any]], list[list[Any]], Any]:
    cell = files.odd_text(chance)
    rows = [[who, page] for who, page in zip(PEOPLE, USUAL, strict=True)]
    place = chance.randint(0, len(rows))
    return rows, [*rows[:place], *[[PEOPLE[PERSON], cell]] * chance.choice([1, 2]), *rows[place:]], cell


def _lists(chance: random.Random) -> tuple[list[list[Any]], list[list[Any]], Any]:
    cell = files.odd_text(chance)
    rows: list[list[Any]] = [[who, [page]] for who, page in zip(PEOPLE, USUAL, strict=True)]
    changed = [[who, [*pages, cell] if who == PEOPLE[PERSON] else pages] for who, pages in rows]
    return rows, changed, cell


def _wide(columns: files.Wide, odd: files.Cell) -> Callable[[random.Random], tuple[Any, Any, Any]]:
    def make(chance: random.Random) -> tuple[list[list[Any]], list[list[Any]], Any]:
        cell, column = odd(chance), chance.randrange(len(columns))
        rows = [[who, *cells] for who, *cells in zip(PEOPLE, *columns.values(), strict=True)]
        changed = [list(row) for row in rows]
        changed[PERSON][1 + column] = cell
        return rows, changed, cell

    return make


def _number(chance: random.Random) -> Any:
    cell = chance.choice(files.NUMBER_CELLS)
    return None if cell is None else float(cell)


FLOATS: Final = {name: [float(one) for one in cells] for name, cells in NUMBERS.items()}
SPARK_SHAPES: Final[dict[str, tuple[Any, str, Plan, dict[str, Any]]]] = {
    "long": (_long, "person string, page string", files.plan_at(), {}),
    "lists": (
        _lists,
        "person string, pages array<string>",
        files.plan_at(),
        {"attribute": None, "attributes": "pages"},
    ),
    "wide, numbers": (
        _wide(FLOATS, _number),
        "person string, " + ", ".join(f"{name} double" for name in NUMBERS),
        files.plan_of_wide(NUMBERS),
        files.wide_options(lenient=True),
    ),
    "wide, names": (
        _wide(NAMES, files.odd_text),
        "person string, " + ", ".join(f"{name} string" for name in NAMES),
        files.plan_of_wide(NAMES),
        files.wide_options(lenient=False),
    ),
}


def spark_pair(spark: Any, shape: str, seed: int, folder: Path) -> bool:
    """Publish two neighboring frames with the same noise, and compare; return whether both went through."""
    from dimly.spark.publishing import publish_frame  # noqa: PLC0415 - only where there is a Spark

    make, schema, plan, options = SPARK_SHAPES[shape]
    chance = files.chance_of(f"Spark {shape}", seed)
    rows, changed, cell = make(chance)

    def publish(frame: Any, of: Plan, chosen: Options) -> Any:
        return publish_frame(frame, of, chosen, words=carried(Recorded(7)))

    outcomes = []
    for i, cells in enumerate((rows, changed)):
        inner = folder / str(i)
        shutil.rmtree(inner, ignore_errors=True)
        inner.mkdir(parents=True)
        frame = spark.createDataFrame(cells, schema)
        outcomes.append(files.published(frame, plan, inner, engine=files.HERE._replace(publish=publish), **options))
    if outcomes[0].stopped is not None:
        raise LeakError(f"the usual frame was refused: {outcomes[0].stopped}")
    return files.compare(plan, *outcomes, planted=cell, folder=folder)
