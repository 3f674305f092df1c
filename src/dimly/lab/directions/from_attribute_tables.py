"""Directions from tables of attributes: weights, categories, embeddings."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dimly.curator.options import Resources
from dimly.curator.tables.columns import element_type, quoted, read_attribute
from dimly.curator.tables.csv import CsvOptions
from dimly.curator.tables.database import PrivateDatabase
from dimly.curator.tables.sources import Source, open_source
from dimly.errors import DataError, ParameterError
from dimly.lab.sample import source_name
from dimly.mechanisms.projection.directions import PUBLIC_SEED, Directions, bounded, rotated, rounded

_LARGEST_COUNT = 64
_CAP = 0.8


def make_directions(
    source: Any,
    *,
    attribute: str = "attribute",
    column: str | None = None,
    count: int | None = None,
    family: Literal["hashing", "counting"] | None = None,
    scale: int = 128,
    seed: bytes = PUBLIC_SEED,
    origin: str | None = None,
    csv: CsvOptions | None = None,
) -> Directions:
    """Make directions from a public table that has one row for each attribute.

    Parameters
    ----------
    source : path or table
        With a column of attributes, and one named ``weight`` (numbers in [0, 1]), one named ``category``, or vectors: a
        column of lists, or several columns of numbers.
    attribute : str, default="attribute"
        The column of attributes.
    column : str, optional
        The column of weights, categories or vectors, if it is named otherwise: numbers are weights, texts are
        categories and lists are vectors.
    count : int, optional
        How many directions. Weights: 256 by default. Categories: one for each. Vectors: as many as they are long, at
        most 64; fewer are the main axes of the vectors.
    family : {"hashing", "counting"}, optional
        For weights alone: "hashing" by default.
    scale : int, default=128
        Weights and vectors are rounded to multiples of 1/scale.
    seed : bytes
        Public; spreads weights, and categories if ``count`` is given.
    origin : str, optional
        Where the table comes from, in words.
    csv : CsvOptions, optional
        How a CSV file is written.

    Raises
    ------
    ParameterError
        If the call cannot work, or the table is none of these: an attribute twice, weights outside of [0, 1], vectors
        of different dimensions or with NaN, or so long that nothing would be left of most others.
    DataError
        If a file cannot be read.
    """
    resources = Resources.of()
    with PrivateDatabase(memory=resources.database_memory, threads=resources.threads) as database:
        table = open_source(database, source, csv=csv or CsvOptions())
        if attribute not in table.columns:
            raise ParameterError(
                f"attribute must be a column of the table, got {attribute!r}.{table.meant(attribute)} {table.listing}"
            )
        kind, columns = _kind(table, attribute, column)
        names, cells = _cells(database, table, attribute, columns)
    if column is not None and kind == "weights" and not table.has_types:
        kind = _kind_of_texts(cells[0])
    if family is not None and kind != "weights":
        raise ParameterError(f"family must be left out for {kind}: it is how weights are spread.")
    words = origin or f"{kind} of {source_name(source)}"
    if kind == "weights":
        weights = _numbers(cells[0], "weights")
        sized: dict[str, Any] = {} if count is None else {"count": count}
        return Directions.of_weights(
            names, weights, origin=words, family=family or "hashing", scale=scale, seed=seed, **sized
        )
    if kind == "categories":
        if any(cell is None or cell == "" for cell in cells[0]):
            raise ParameterError(
                "categories must be given to every attribute, but some are missing. Remove those rows."
            )
        return Directions.of_categories(names, cells[0], origin=words, count=count, seed=seed)
    return _embedded(names, _vectors(cells), count=count, scale=scale, origin=words)


def _kind(
    table: Source, attribute: str, column: str | None
) -> tuple[Literal["weights", "categories", "embeddings"], list[str]]:
    others = [name for name in table.columns if name != attribute]
    if column is not None:
        if column not in others:
            raise ParameterError(
                f"column must be another column of the table, got {column!r}.{table.meant(column)} {table.listing}"
            )
        type_ = table.columns[column]
        if element_type(type_) is not None and type_ != "JSON":
            return "embeddings", [column]
        return ("categories" if type_ == "VARCHAR" and table.has_types else "weights"), [column]
    if "weight" in others:
        return "weights", ["weight"]
    if "category" in others:
        return "categories", ["category"]
    lists = [name for name in others if element_type(table.columns[name]) is not None]
    if len(lists) == 1:
        return "embeddings", lists
    if not others or lists:
        raise ParameterError(
            "the table must have a column weight, a column category, one column of vectors, or columns of numbers. "
            f"{table.listing}"
        )
    return "embeddings", others


def _kind_of_texts(cells: Sequence[Any]) -> Literal["weights", "categories"]:
    """Return what a column without a type holds: numbers are weights, and texts are categories."""
    numbers = [_is_number(cell) for cell in cells if cell is not None and cell != ""]
    if any(numbers) and not all(numbers):
        raise ParameterError(
            "column must hold numbers, which are weights, or texts, which are categories, but some of its cells are "
            "numbers and some are not. Name the column weight or category in the file."
        )
    return "weights" if all(numbers) else "categories"


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _cells(
    database: PrivateDatabase, table: Source, attribute: str, columns: Sequence[str]
) -> tuple[list[str], list[list[Any]]]:
    """Return the canonical texts of the attributes, in their order, and the cells of each column."""
    reading = read_attribute(quoted(attribute), table.columns[attribute], column=attribute, columns=table.listing)
    before, after = reading.text
    selected = ", ".join(f"{quoted(name)} AS c{number}" for number, name in enumerate(columns))
    wrong = reading.wrong or "false"
    fields = f"{before}{reading.sql}{after} AS a, ({reading.sql}) IS NULL OR {wrong} AS w, {selected}"
    # Ordered, so that the order of rows in the file does not matter.
    rows = database.table(f"SELECT {fields} FROM {table.name} ORDER BY a")  # noqa: S608 - names are quoted
    table.check_unchanged()
    if not rows.num_rows:
        raise DataError("the table must have at least one row, but it has none.")
    if any(rows.column("w").to_pylist()):
        raise DataError("attributes must be text, integers, booleans or dates, but some are missing or something else.")
    return rows.column("a").to_pylist(), [rows.column(f"c{number}").to_pylist() for number in range(len(columns))]


def _numbers(cells: Sequence[Any], name: str) -> NDArray[np.float64]:
    try:
        return np.array([np.nan if cell is None or cell == "" else float(cell) for cell in cells])
    except (TypeError, ValueError):
        raise ParameterError(
            f"{name} must be numbers such as 0.5, with a point, but some are not. Correct them."
        ) from None


def _vectors(cells: Sequence[Sequence[Any]]) -> NDArray[np.float64]:
    if len(cells) > 1 or not isinstance(cells[0][0], list):
        return np.stack([_numbers(column, "vectors") for column in cells], axis=1)
    lengths = {-1 if cell is None else len(cell) for cell in cells[0]}
    if len(lengths) > 1 or min(lengths) < 1:
        raise ParameterError(
            "vectors must all have the same length, at least 1, but some are longer, shorter or missing."
        )
    return np.stack([_numbers(cell, "vectors") for cell in cells[0]])


def _embedded(
    names: list[str], vectors: NDArray[np.float64], *, count: int | None, scale: int, origin: str
) -> Directions:
    """Return vectors along their main axes, turned so that ℓ₁ norms are small, bounded and rounded."""
    if not np.isfinite(vectors).all():
        raise ParameterError(
            "vectors must be finite numbers, but some are NaN, infinite or missing. Remove those rows."
        )
    n_told = np.count_nonzero(vectors.any(axis=1))
    vectors = vectors / max(float(np.abs(vectors).max()), 1e-300)  # rows are bounded below: squares must not overflow
    most = min(_LARGEST_COUNT, *vectors.shape)
    if count is None and vectors.shape[1] > _LARGEST_COUNT:
        raise ParameterError(
            f"count must be given for vectors of {vectors.shape[1]} numbers, got none. Each direction adds noise: "
            "8 to 32 are usual."
        )
    if count is not None and (type(count) is not int or not 1 <= count <= most):
        raise ParameterError(f"count must be 1 to {most} for these vectors, got {count!r}.")
    if count is not None:
        vectors = vectors @ np.linalg.svd(vectors, full_matrices=False)[2][:count].T
    if type(scale) is not int or scale < 1:
        raise ParameterError(f"scale must be an integer ≥ 1, got {scale!r}.")
    matrix = rounded(bounded(rotated(vectors), _CAP), scale)
    lengths = np.abs(vectors).sum(axis=1)
    if np.count_nonzero(matrix.any(axis=1)) < n_told / 2:
        raise ParameterError(
            "vectors must be of comparable lengths, but beside the longest ones nothing would be left of most others. "
            f"The longest is that of {names[int(lengths.argmax())]!r}. Correct it, remove it, or divide all by their "
            "lengths."
        )
    return Directions.of_values(names, matrix, origin=origin, scale=scale, kind="embeddings")
