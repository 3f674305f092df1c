from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dimly.errors import DataError
from dimly.studio.public_column import read_column
from dimly.studio.sample_panel import columns_of


def locate(texts: Any) -> Any:
    """People are "0" to "9"."""
    return np.array([int(text) if str(text).isdigit() and int(text) < 10 else -1 for text in texts])


def test_names_are_counted_and_the_most_frequent_comes_first(tmp_path: Path) -> None:
    path = tmp_path / "regions.csv"
    path.write_text("id;region\n0;south\n1;north\n2;north\n77;east\n3;\n", encoding="utf-8")
    assert columns_of(path) == ("id", "region")
    found = read_column(path, "id", "region", locate, 10)
    assert found.names == ["north", "south"]
    assert found.codes is not None
    assert found.codes.tolist() == [1, 0, 0] + [255] * 7
    assert found.n_joined == 3


def test_many_names_end_in_others(tmp_path: Path) -> None:
    path = tmp_path / "names.csv"
    rows = [*((i, f"n{i}") for i in range(10)), *((i % 10, f"m{i}") for i in range(10))]
    path.write_text("id,name\n" + "".join(f"{i},{name}\n" for i, name in rows), encoding="utf-8")
    found = read_column(path, "id", "name", locate, 10)
    assert len(found.names) == 12
    assert found.names[-1] == "9 others"


def test_integers_beyond_the_exact_ones_of_floats_are_rounded(tmp_path: Path) -> None:
    path = tmp_path / "big.parquet"
    pq.write_table(pa.table({"id": [str(i % 10) for i in range(30)], "size": [2**53 + 1 + i for i in range(30)]}), path)
    found = read_column(path, "id", "size", locate, 10)
    assert found.numbers is not None
    assert np.all(np.abs(found.numbers - 2.0**53) < 40)


def test_numbers_stay_numbers(tmp_path: Path) -> None:
    path = tmp_path / "ages.parquet"
    pq.write_table(pa.table({"id": pa.array([0, 4, 99]), "age": [20.5, None, 3.0]}), path)
    assert columns_of(path) == ("id", "age")
    found = read_column(path, "id", "age", locate, 10)
    assert found.numbers is not None
    assert found.numbers[0] == 20.5
    assert np.isnan(found.numbers[1:]).all()
    assert found.n_joined == 1


def test_files_that_do_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("id,region\nx,north\n", encoding="utf-8")
    with pytest.raises(DataError, match="must hold ids of this release"):
        read_column(path, "id", "region", locate, 10)
    path.write_bytes(b"id,region\n1,2,3\n\xff")
    with pytest.raises(DataError, match="must be CSV"):
        read_column(path, "id", "region", locate, 10)
    path.write_bytes(b"id,region\n1,\xffnorth\n")
    with pytest.raises(DataError, match="column 'region' must hold text in UTF-8"):
        read_column(path, "id", "region", locate, 10)
    pq.write_table(pa.table({"id": [1], "lists": [["north"]]}), tmp_path / "lists.parquet")
    for ids, shown in (("id", "lists"), ("lists", "id")):
        with pytest.raises(DataError, match="column 'lists' must hold text"):
            read_column(tmp_path / "lists.parquet", ids, shown, locate, 10)
    (tmp_path / "bad.parquet").write_bytes(b"no")
    assert columns_of(tmp_path / "bad.parquet") == ()
    assert columns_of(tmp_path / "none.csv") == ()
