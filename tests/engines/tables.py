"""One private table in every shape, and what must be published of it without noise: a plain SciPy product."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import scipy.sparse
from numpy.typing import NDArray
from tests.plans import SEED

from dimly.analyst.release import Release
from dimly.mechanisms import Plan
from dimly.privacy import Budget

Holdings = Mapping[Any, Mapping[str, float]]
"""Who has what: value by attribute by user."""

RESOLUTION: Final = 4
ATTRIBUTES: Final = (
    "tea",
    "jam",
    "42",
    "007",
    "thé",
    "x,y",
    'a "b"',
    "back\\slash",
    "u",
    "select",
    "Tea time",
    "é;\t|",
)
USERS: Final = (*(f"{i:03d}" for i in range(20)), "zoë", 'quo"te', "com,ma", "semi;colon", "back\\", "O'Neil")
COLUMNS: Final = {"color": ("red", "blue", "é, or none"), "size": ("1", "2"), "user id?": ("=", "a=b")}
K: Final = 32


def holdings(*, values: bool = False, seed: int = 0) -> dict[str, dict[str, float]]:
    """Return a few attributes for each of :data:`USERS`, at least one."""
    generator = np.random.default_rng(seed)
    found: dict[str, dict[str, float]] = {}
    for user in USERS:
        chosen = generator.permutation(len(ATTRIBUTES))[: generator.integers(1, 6)]
        steps = generator.integers(1, RESOLUTION + 1, len(chosen)) if values else np.full(len(chosen), RESOLUTION)
        found[user] = {ATTRIBUTES[i]: int(step) / RESOLUTION for i, step in zip(chosen, steps, strict=True)}
    return found


class Shaped(NamedTuple):
    """A table in some shape, the options that say so, and who has what."""

    table: pa.Table
    options: dict[str, Any]
    holdings: Holdings


def long(bits: Holdings, *, user: str = "person", attribute: str = "page") -> pa.Table:
    """Return one row for each attribute of each person, some of them twice, in no order."""
    rows = [(who, what) for who, held in bits.items() for what in held]
    return _table(_shuffled([*rows, *rows[::3]]), (user, attribute))


def _long() -> Shaped:
    bits = holdings()
    return Shaped(long(bits), {"user": "person", "attribute": "page"}, bits)


def _long_with_values() -> Shaped:
    values = holdings(values=True)
    rows: list[tuple[Any, ...]] = [(who, what, value) for who, held in values.items() for what, value in held.items()]
    smaller = [(who, what, value / 2) for who, what, value in rows[::3]]
    zeros = [(who, "of no value", 0.0) for who in list(values)[::2]]
    table = _table(_shuffled([*rows, *smaller, *zeros]), ("person", "page", "share"))
    return Shaped(table, {"user": "person", "attribute": "page", "value": "share"}, values)


def _list() -> Shaped:
    bits = {**holdings(), "has nothing": {}}
    rows = [(who, [*held, *list(held)[:1]]) for who, held in bits.items()]
    half = {who: list(held) for who, held in bits.items() if len(held) > 3}  # in two rows, with an overlap
    table = _table(_shuffled([*rows, *((who, held[:2]) for who, held in half.items())]), ("person", "pages"))
    return Shaped(table, {"user": "person", "attributes": "pages"}, bits)


def _wide_bits() -> Shaped:
    bits = {**holdings(), "has nothing": {}}
    rows = [(who, *(what in held for what in ATTRIBUTES)) for who, held in bits.items()]
    return Shaped(_table(_shuffled(rows), ("person", *ATTRIBUTES)), {"user": "person", "columns": "all"}, bits)


def _wide_values() -> Shaped:
    values = {**holdings(values=True), "has nothing": {}}
    rows: list[Any] = [(who, *(float(held.get(what, 0)) for what in ATTRIBUTES)) for who, held in values.items()]
    less = [(who, *(value / 2 for value in row)) for who, *row in rows[::2]]
    chosen = ATTRIBUTES[:-1]
    held = {who: {what: value for what, value in held.items() if what in chosen} for who, held in values.items()}
    table = _table(_shuffled([*rows, *less]), ("person", *ATTRIBUTES))
    return Shaped(table, {"user": "person", "columns": list(chosen)}, held)


def _wide_text() -> Shaped:
    generator = np.random.default_rng(2)
    rows = [(who, *(texts[generator.integers(len(texts))] for texts in COLUMNS.values()), "left out") for who in USERS]
    names = list(COLUMNS)
    held = {who: {f"{name}={text}": 1.0 for name, text in zip(names, row, strict=False)} for who, *row in rows}
    return Shaped(_table(_shuffled(rows), ("person", *names, "more")), {"user": "person", "columns": names}, held)


SHAPES: Final[dict[str, Callable[[], Shaped]]] = {
    "long": _long,
    "long with values": _long_with_values,
    "list": _list,
    "wide bits": _wide_bits,
    "wide values": _wide_values,
    "wide text": _wide_text,
}


@cache
def plan_for(mechanism: str, *, values: bool = False, categories: bool = False, listed: bool = True) -> Plan:
    """Return a plan for the tables above; its vocabulary is closed if ``listed``, or where it has to be."""
    arguments: dict[str, Any] = {"k": K, "seed": SEED}
    if mechanism.startswith(("sparse", "dasgupta")):
        arguments["blocks"] = 4
    if mechanism in ("randomized-response", "noisy-distances"):
        arguments = {"n_users": 40} if mechanism == "noisy-distances" else {}
    if listed or not mechanism.startswith(("counting", "hashing", "sparse", "sign")):
        arguments["vocabulary"] = vocabulary(categories=categories)
    if values:
        arguments |= {"resolution": RESOLUTION}
    return Plan.of(mechanism, Budget(1.0, 1e-6), unit="column" if categories else "attribute", **arguments)


def vocabulary(*, categories: bool = False) -> tuple[str, ...]:
    """Return a public list of attributes: of those that occur, all but one, and one that does not."""
    if categories:
        return (*(f"{name}={text}" for name, texts in COLUMNS.items() for text in texts), "size=9")
    return ("nobody has this", *ATTRIBUTES[1:])


def without_noise(plan: Plan, people: Holdings, attributes: Sequence[str] | None = None) -> NDArray[Any]:
    """Return what ``plan`` publishes of ``people``, in the order of users, if no noise is added.

    Parameters
    ----------
    plan : Plan
    people : Holdings
    attributes : sequence of str, optional
        The closed vocabulary.
    """
    columns = list(dict.fromkeys(what for held in people.values() for what in held))
    columns = columns if attributes is None else list(attributes)
    at = {what: i for i, what in enumerate(columns)}
    entries = [
        (i, at[what], round(value * plan.resolution))
        for i, who in enumerate(sorted(people))
        for what, value in people[who].items()
        if what in at
    ]
    rows, places, steps = zip(*entries, strict=True) if entries else ((), (), ())
    shape = (len(people), len(columns))
    matrix = scipy.sparse.coo_array((np.array(steps, np.int64), (rows, places)), shape=shape).tocsr()
    if plan.projection is not None:
        limits = np.iinfo(plan.dtype)
        sketches: NDArray[Any] = matrix @ plan.rows(columns).to_dense() if columns else np.zeros((len(people), K))
        return sketches.clip(limits.min, limits.max).astype(plan.dtype)
    dense = matrix.toarray()
    if plan.dtype == "bit":
        return np.packbits(dense.astype(bool), axis=1, bitorder="little")
    pairs = zip(*np.triu_indices(len(people), 1), strict=True)
    return np.array([((dense[i] - dense[j]) ** 2).sum() for i, j in pairs], plan.dtype)


def check(release: Release, people: Holdings, attributes: Sequence[str] | None = None) -> None:
    """Compare a release without noise to the product."""
    assert release.users.tolist() == sorted(people)
    expected = without_noise(release.plan, people, attributes)
    assert release.values.dtype == expected.dtype
    np.testing.assert_array_equal(release.values, expected)


def _table(rows: Iterable[Sequence[Any]], names: Sequence[str]) -> pa.Table:
    return pa.table([pa.array(list(column)) for column in zip(*rows, strict=True)], names=list(names))


def _shuffled(rows: Sequence[Any]) -> list[Any]:
    return [rows[i] for i in np.random.default_rng(1).permutation(len(rows))]
