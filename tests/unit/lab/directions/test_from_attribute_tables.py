"""Weights, categories and embeddings as tables: what they become, and which are refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dimly.errors import DataError, ParameterError
from dimly.lab.directions.from_attribute_tables import make_directions


def csv(folder: Path, text: str) -> Path:
    path = folder / "table.csv"
    path.write_text(text)
    return path


def test_weights_from_a_file(tmp_path: Path) -> None:
    path = csv(tmp_path, "attribute,weight\ntea,0.5\ncola,1\n42,0\n")
    made = make_directions(path, count=4, scale=4, family="counting")
    assert made.kind == "counted weights"
    assert make_directions(path, count=4).kind == "weights"
    assert list(made.vocabulary or ()) == ["42", "cola", "tea"]
    assert made.matrix.sum(axis=1).tolist() == [0, 4, 2]
    assert made.origin == "weights of table.csv"


def test_categories_in_any_order_are_the_same(tmp_path: Path) -> None:
    first = make_directions(csv(tmp_path, "attribute,category\nrye,bread\ntea,drink\ncola,drink\n"), origin="x")
    assert first.codes(["tea", "cola", "rye"]).tolist() == [0, 0, 1]
    second = make_directions(
        pa.table({"attribute": ["tea", "cola", "rye"], "category": ["drink", "drink", "bread"]}), origin="x"
    )
    assert first == second


@pytest.mark.parametrize("form", ["lists", "columns"])
def test_embeddings_keep_who_is_near_whom(form: str) -> None:
    vectors = np.random.default_rng(0).normal(size=(30, 3))
    columns: dict[str, Any] = {"attribute": [f"{number:02}" for number in range(30)]}
    columns |= {"vector": vectors.tolist()} if form == "lists" else {f"v{i}": vectors[:, i] for i in range(3)}
    made = make_directions(pa.table(columns), scale=1024)
    assert (made.kind, made.count, made.sensitivity.l1) == ("embeddings", 3, 1024)
    short = np.abs(made.matrix).sum(axis=1) < 1023  # those that were not bounded
    assert short.sum() >= 20
    gram = made.matrix[short].astype(float) @ made.matrix[short].T
    true = vectors[short] @ vectors[short].T
    assert np.corrcoef(gram.ravel(), true.ravel())[0, 1] > 0.999
    assert make_directions(pa.table(columns), count=2).count == 2


def test_a_column_of_a_file_without_types_is_read_by_what_it_holds(tmp_path: Path) -> None:
    path = csv(tmp_path, "place,kind,w,mixed\nrye,bread,0.5,1\ntea,drink,1,x\n")
    assert make_directions(path, attribute="place", column="kind").kind == "categories"
    assert make_directions(path, attribute="place", column="w").kind == "weights"
    with pytest.raises(ParameterError, match="column must hold numbers, which are weights, or texts"):
        make_directions(path, attribute="place", column="mixed")


def test_large_numbers_are_bounded_as_small_ones_are() -> None:
    for largest in (1.0, 1e300, 1e-300):
        vectors = (np.random.default_rng(0).normal(size=(30, 3)) * largest).tolist()
        made = make_directions(pa.table({"attribute": list(range(30)), "vector": vectors}), origin="x")
        assert made == make_directions(
            pa.table({"attribute": list(range(30)), "vector": np.random.default_rng(0).normal(size=(30, 3)).tolist()}),
            origin="x",
        )


def test_a_column_may_have_another_name() -> None:
    table = pa.table({"item": ["a", "b"], "w": [0.5, 1.0], "kind": ["x", "y"], "at": [[1.0], [2.0]]})
    for column, kind in (("w", "weights"), ("kind", "categories"), ("at", "embeddings")):
        assert make_directions(table, attribute="item", column=column).kind == kind


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"item": ["a"], "weight": [1.0]}, {}, "attribute must be a column"),
        ({"attribute": ["a"]}, {}, "a column weight, a column category"),
        ({"attribute": ["a"], "p": [[1.0]], "q": [[1.0]]}, {}, "a column weight, a column category"),
        ({"attribute": ["a"], "weight": [1.0]}, {"column": "w"}, "column must be another"),
        ({"attribute": ["a", "a"], "weight": [1.0, 1.0]}, {}, "'a' twice"),
        ({"attribute": [1, 1], "category": ["x", "y"]}, {}, "'1' twice"),
        ({"attribute": ["a", "b"], "weight": [0.5, 1.5]}, {}, "in \\[0, 1\\]"),
        ({"attribute": ["a", "b"], "weight": [0.5, None]}, {}, "in \\[0, 1\\]"),
        ({"attribute": ["a", "b"], "weight": ["0.5", "much"]}, {}, "must be numbers"),
        ({"attribute": ["a", "b"], "weight": [0.0, 0.0]}, {}, "not zero"),
        ({"attribute": ["a", "b"], "category": ["x", None]}, {}, "to every attribute"),
        ({"attribute": ["a", "b"], "category": ["x", "y"]}, {"family": "counting"}, "left out for categories"),
        ({"attribute": ["a", "b"], "vector": [[1.0], [2.0]]}, {"family": "hashing"}, "left out for embeddings"),
        ({"attribute": ["a", "b"], "vector": [[1.0, 2.0], [3.0]]}, {}, "same length"),
        ({"attribute": ["a", "b"], "vector": [[1.0], None]}, {}, "same length"),
        ({"attribute": ["a", "b"], "vector": [[1.0], [float("nan")]]}, {}, "NaN"),
        ({"attribute": ["a", "b"], "vector": [[0.0], [0.0]]}, {}, "not zero"),
        ({"attribute": ["a", "b"], "vector": [[1.0] * 80] * 2}, {}, "count must be given"),
        ({"attribute": ["a", "b"], "vector": [[1.0], [2.0]]}, {"count": 2}, "1 to 1"),
        ({"attribute": ["a", "b"], "vector": [[1.0], [2.0]]}, {"scale": 0}, "scale"),
        ({"attribute": ["a", "b", "c"], "vector": [[1.0], [1e300], [2.0]]}, {}, "The longest is that of 'b'"),
        ({"attribute": [0.5, 1.5], "weight": [1.0, 1.0]}, {}, "text, integers"),
    ],
)
def test_other_tables_are_refused(columns: dict[str, Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        make_directions(pa.table(columns), **options)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"attribute": pa.array([], pa.string()), "weight": pa.array([], pa.float64())}, "at least one row"),
        ({"attribute": ["a", None], "weight": [1.0, 1.0]}, "some are missing"),
    ],
)
def test_rows_that_cannot_be_read_are_refused(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        make_directions(pa.table(columns))
