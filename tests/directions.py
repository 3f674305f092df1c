"""Small public directions of every kind, over attributes "0" … "99" and columns "c0=0" … "c9=9"."""

from collections.abc import Callable

import numpy as np

from dimly.mechanisms import Directions
from dimly.mechanisms.projection.directions import Buckets
from dimly.mechanisms.vocabulary import Vocabulary

COUNT = 3
LISTED = [*map(str, range(90)), *(f"c{column}={value}" for column in range(9) for value in range(9))]
"""Attributes that have a row; those above do not."""


def _values(n_rows: int) -> np.ndarray:
    generator = np.random.default_rng(n_rows)
    return generator.uniform(-1, 1, (n_rows, COUNT)) * generator.random((n_rows, 1)) ** 3


DIRECTIONS: dict[str, Callable[[], Directions]] = {
    "learned": lambda: Directions.of_values(LISTED, _values(len(LISTED)), origin="tests", kind="learned"),
    "embeddings": lambda: Directions.of_values(LISTED, _values(len(LISTED)), origin="tests", scale=7),
    "weights": lambda: Directions.of_weights(LISTED, np.linspace(0, 1, len(LISTED)), origin="tests", count=8),
    "counted weights": lambda: Directions.of_weights(
        LISTED, np.linspace(0, 1, len(LISTED)), origin="tests", count=8, family="counting"
    ),
    "categories": lambda: Directions.of_categories(LISTED, [sum(map(ord, a)) % 6 for a in LISTED], origin="tests"),
    "shared categories": lambda: Directions.of_categories(
        LISTED, [sum(map(ord, a)) % 6 for a in LISTED], origin="tests", count=4
    ),
    "buckets": lambda: Directions.of_values(Buckets(16), _values(16), origin="tests"),
}


def named(kind: str) -> Directions:
    """Return the directions of a kind."""
    return DIRECTIONS[kind]()


def plain(directions: Directions, attributes: dict[str, int]) -> np.ndarray:
    """Return the exact sketch of one person, worked out in Python, from steps of each attribute."""
    total = np.zeros(directions.count, np.int64)
    held: dict[int, list[int]] = {}
    for attribute, steps in attributes.items():
        if directions.buckets is not None:
            code = int(directions.buckets.codes([attribute])[0])
        else:
            assert isinstance(directions.vocabulary, Vocabulary)
            if attribute not in directions.vocabulary:
                continue
            place = list(directions.vocabulary).index(attribute)
            code = place if directions.category_of is None else int(directions.category_of[place])
        held.setdefault(code, []).append(steps)
    for code, steps_of_code in held.items():
        total += (max if directions.merges else sum)(steps_of_code) * directions.matrix[code].astype(np.int64)
    return total
