import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dimly.curator.tables.formats import arrow_column, arrow_data
from dimly.errors import DataError, ParameterError


def test_pandas() -> None:
    frame = pd.DataFrame(
        {
            "text": ["a", None],
            "category": pd.Categorical(["x", "y"]),
            "nullable": pd.array([1, None], dtype="Int64"),
            "float": [0.5, np.nan],
            "list": [["a"], []],
            "date": [dt.date(2024, 2, 29), None],
            7: [1, 2],
        }
    )
    table = arrow_data(frame)
    assert isinstance(table, pa.Table)
    assert table.column_names == ["text", "category", "nullable", "float", "list", "date", "7"]
    assert table.to_pylist()[1] == {
        "text": None,
        "category": "y",
        "nullable": None,
        "float": None,
        "list": [],
        "date": None,
        "7": 2,
    }


def test_sparse_columns_are_told_how_to_be_filled() -> None:
    frame = pd.get_dummies(pd.DataFrame({"u": [1, 2], "drink": ["tea", "rye"]}), sparse=True)
    with pytest.raises(ParameterError, match=r"column 'drink_rye' must not be sparse.*\.sparse\.to_dense"):
        arrow_data(frame)
    for column in ("drink_rye", "drink_tea"):
        frame[column] = frame[column].sparse.to_dense()
    assert arrow_data(frame).to_pydict() == {"u": [1, 2], "drink_rye": [False, True], "drink_tea": [True, False]}


def test_mixed_cells() -> None:
    with pytest.raises(DataError, match="column 'x' must hold cells of one type") as caught:
        arrow_data(pd.DataFrame({"x": [1, "SECRET"]}))
    assert "SECRET" not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("label", [("a", "b"), 0.5, True, None])
def test_odd_labels(label: Any) -> None:
    frame = pd.DataFrame([[1]])
    frame.columns = pd.Index([label], dtype=object)
    with pytest.raises(ParameterError, match="named by text or integers"):
        arrow_data(frame)


def test_text_that_is_not_unicode() -> None:
    cells = pd.Series(["\ud800"], dtype=object)
    with pytest.raises(DataError, match="column 'x' must hold text that encodes to UTF-8") as caught:
        arrow_data(pd.DataFrame({"x": cells}))
    assert caught.value.__context__ is None
    frame = pd.DataFrame([[1]])
    frame.columns = pd.Index(["\ud800"], dtype=object)
    with pytest.raises(ParameterError, match="named by text that encodes to UTF-8"):
        arrow_data(frame)


def test_lazy_tables_that_fail() -> None:
    frame = pl.LazyFrame({"x": ["SECRET"]}).with_columns(pl.col("x").cast(pl.Int64))
    with pytest.raises(DataError, match="must be one that polars can compute") as caught:
        arrow_data(frame)
    assert caught.value.__context__ is None


class Broken:
    def __arrow_c_stream__(self, _: object = None) -> object:
        raise RuntimeError("SECRET")


def test_streams_that_fail() -> None:
    with pytest.raises(DataError, match="a stream that Arrow can read") as caught:
        arrow_data(Broken())
    assert caught.value.__context__ is None


def test_polars() -> None:
    frame = pl.DataFrame({"x": [1, 2], "c": pl.Series(["a", "b"], dtype=pl.Categorical)})
    for source in (frame, frame.lazy()):
        table = arrow_data(source)
        assert isinstance(table, pa.Table)
        assert table.to_pydict() == {"x": [1, 2], "c": ["a", "b"]}


@pytest.mark.parametrize(
    "source", [5, "t.csv", [1], {"x": [1]}, np.ones(3), pd.Series([1]), pl.Series([1]), pa.array([1])]
)
def test_what_is_no_table(source: object) -> None:
    assert arrow_data(source) is None


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["b", "a"]),
        pa.chunked_array([["b"], ["a"]]),
        pd.Series(["b", "a"], name="x"),
        pd.Index(["b", "a"]),
        pd.Series(["b", "a"], dtype="category"),
        pl.Series(["b", "a"]),
    ],
)
def test_columns(column: object) -> None:
    found = arrow_column(column)
    assert isinstance(found, pa.ChunkedArray)
    assert found.to_pylist() == ["b", "a"]


@pytest.mark.parametrize("source", [5, "t.csv", ["a"], np.ones(3), pd.DataFrame({"x": [1]}), pl.DataFrame({"x": [1]})])
def test_what_is_no_column(source: object) -> None:
    assert arrow_column(source) is None
