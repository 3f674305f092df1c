"""A small long table in every format that can be audited."""

import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

PEOPLE = ["ada", "bob", "cy", "dee"]
PAGES = ["tea", "jam", "tea", "milk"]
FORMATS = (
    "t.csv", "t.tsv", "utf16.csv", "t.parquet", "numbers.parquet", "t.jsonl", "t.jsonl.gz", "t.json", "t.sqlite",
    "t.duckdb",
)  # fmt: skip


def write(name: str, folder: Path) -> Path:
    """Write the table into a new file of that name, and return it."""
    path = folder / name
    rows = list(zip(PEOPLE, PAGES, strict=True))
    if name == "numbers.parquet":
        pq.write_table(pa.table({"person": [1, 2, 3, 4], "page": [7, 8, 7, 9]}), path)
    elif path.suffix == ".parquet":
        pq.write_table(pa.table({"person": PEOPLE, "page": PAGES, "more": [0.5] * 4}), path)
    elif path.suffix in (".csv", ".tsv"):
        sign = "\t" if path.suffix == ".tsv" else ";"
        text = "".join(f"{a}{sign}{b}{sign}\n" for a, b in [("person", "page"), *rows]).replace(
            f"page{sign}", f"page{sign}né", 1
        )
        path.write_text(text, encoding="utf-16" if name == "utf16.csv" else "utf-8")
    elif ".jsonl" in path.suffixes:
        lines = "\n".join(json.dumps({"person": a, "page": b}) for a, b in rows).encode()
        path.write_bytes(gzip.compress(lines) if path.suffix == ".gz" else lines)
    elif path.suffix == ".json":
        path.write_text(json.dumps([{"person": a, "page": b} for a, b in rows]))
    elif path.suffix == ".sqlite":
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("CREATE TABLE visits (person TEXT, page TEXT)")
            connection.executemany("INSERT INTO visits VALUES (?, ?)", rows)
    else:
        with duckdb.connect(path) as database:
            database.execute("CREATE TABLE visits (person VARCHAR, page VARCHAR)")
            database.executemany("INSERT INTO visits VALUES (?, ?)", [list(row) for row in rows])
    return path
