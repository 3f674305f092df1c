"""Files of every format with bytes changed at random, given to the readers: whatever comes out, nothing is told.

In this process and on one database for many files, so that a second tries hundreds. A file may be read or refused;
any error that is not one of ours, and any text that quotes a cell or counts, is a fault.
"""

import gzip
import json
import os
import random
import re
import sqlite3
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from tests.privacy.neighboring_files import MARK, LeakError, check_quiet, plan_at

from dimly.curator.options import Options
from dimly.curator.tables.csv import CsvOptions
from dimly.curator.tables.database import PrivateDatabase
from dimly.curator.tables.shapes import rows_view
from dimly.curator.tables.sources import open_source
from dimly.errors import DimlyError

PEOPLE: Final = [f"user{i}" for i in range(12)]
PAGES: Final = [f"{MARK}{i % 5}" for i in range(12)]
_ROWS: Final = list(zip(PEOPLE, PAGES, strict=True))
_AT_ONCE: Final = 400  # files a database sees before it is thrown away
MOST_EDITS: Final = 3


def _csv(sign: str) -> bytes:
    return "\n".join(sign.join(f'"{cell}"' for cell in row) for row in [("person", "page"), *_ROWS]).encode() + b"\n"


def _arrow() -> pa.Table:
    return pa.table({"person": PEOPLE, "page": PAGES})


def _file(name: str, write: Callable[[Path], object], folder: Path) -> bytes:
    path = folder / name
    write(path)
    content = path.read_bytes()
    path.unlink()
    return content


def _sqlite(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE t (person TEXT, page TEXT)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", _ROWS)


def _duckdb(path: Path) -> None:
    with duckdb.connect(path) as connection:
        connection.register("rows", _arrow())
        connection.execute("CREATE TABLE t AS SELECT * FROM rows")


def sound_files(folder: Path) -> dict[str, bytes]:
    """Return a small sound file of every format by its name."""
    json_rows = [json.dumps({"person": who, "page": page}) for who, page in _ROWS]
    return {
        "t.csv": _csv(","),
        "t.tsv": _csv("\t"),
        "t.csv.gz": gzip.compress(_csv(",")),
        "t.jsonl": "\n".join(json_rows).encode(),
        "t.json": ("[" + ",\n".join(json_rows) + "]").encode(),
        "t.parquet": _file("t.parquet", lambda path: pq.write_table(_arrow(), path, row_group_size=5), folder),
        "plain.parquet": _file(
            "plain.parquet",
            lambda path: pq.write_table(_arrow(), path, compression="none", use_dictionary=False),
            folder,
        ),
        "t.sqlite": _file("t.sqlite", _sqlite, folder),
        "t.duckdb": _file("t.duckdb", _duckdb, folder),
    }


@cache
def _sound(folder: Path) -> dict[str, bytes]:
    return sound_files(folder)


ODD: Final = [0, 1, 9, 10, 13, 34, 39, 44, 59, 91, 92, 93, 123, 125, 127, 128, 192, 233, 254, 255]
PIECES: Final = [b'"', b'""', b"\\", b"\n", b"\r\n", b",", b"\xef\xbb\xbf", b"\xff\xfe", b"\0", b"null", b"1e5"]


def mutated(content: bytes, chance: random.Random) -> bytes:
    """Return a content with some bytes changed, added, moved or cut off."""
    found = bytearray(content)
    for _ in range(chance.randint(1, MOST_EDITS)):
        place = chance.randrange(len(found) + 1)
        kind = chance.randrange(7)
        if kind == 0 and place < len(found):
            found[place] ^= 1 << chance.randrange(8)
        elif kind == 1 and place < len(found):
            found[place] = chance.choice(ODD)
        elif kind == 2:
            found[place:place] = chance.choice(PIECES)
        elif kind == 3:
            del found[place : place + chance.randint(1, 8)]
        elif kind == 4:
            piece = found[place : place + chance.randint(1, 32)]
            # Not into the first line: whatever stands there beside the right names is a name, and may be told.
            other = chance.randint(min(len(found), found.find(b"\n") + 1), len(found))
            found[other:other] = piece
        elif kind == 5 and chance.random() < 0.2:
            del found[place:]
        elif place + 4 < len(found):
            found[place : place + 4] = chance.randbytes(4)
    return bytes(found)


def read(database: PrivateDatabase, path: Path) -> int:
    """Read and check a file as publishing does, up to the numbering; return how many rows there are."""
    options = Options(user="person", attribute="page", threads=1)
    opened = open_source(database, path, csv=CsvOptions.of(options), wanted=options.named_columns)
    view = rows_view(database, opened.naming({"person", "page"}, database), plan_at(), options)
    view.check()
    return len(database.table(f"SELECT * FROM {view.name}"))  # noqa: S608 - our own name


def fuzz(inputs: int, folder: Path, *, start: int = 0, reading: Any = read) -> Counter[str]:
    """Give so many changed files to the readers; return how many were read and how many refused, by format."""
    folder.mkdir(parents=True, exist_ok=True)
    sound, found = list(_sound(folder).items()), Counter[str]()
    done = 0
    while done < inputs:
        with PrivateDatabase(memory=1 << 28, threads=1, temp=folder) as database:
            for i in range(done, min(inputs, done + _AT_ONCE)):
                seed = start + i
                name, content = sound[seed % len(sound)]
                chance = random.Random(seed)  # noqa: S311 - the same in every run
                path = folder / f"{seed}-{name}"
                path.write_bytes(mutated(content, chance))
                try:
                    outcome = _outcome(database, path, reading)
                except LeakError as error:
                    raise LeakError(f"{name}, seed {seed}: {error}") from None
                finally:
                    path.unlink()
                found[f"{name} {outcome}"] += 1
        done += _AT_ONCE
    return found


def _outcome(database: PrivateDatabase, path: Path, reading: Any) -> str:
    try:
        reading(database, path)
    except DimlyError as error:
        chain = [error, error.__cause__, error.__context__]
        said = " ".join(str(one) for one in chain if one is not None)
        if path.suffix in (".csv", ".tsv"):  # what was moved up into the first line is a name, too, and may be told
            for name in re.findall(MARK + r"\d", path.read_bytes().partition(b"\n")[0].decode("latin-1")):
                said = said.replace(name, "")
        check_quiet(said.replace(os.fspath(path.parent), "").replace(path.name, ""), None)
        return "refused"
    except Exception:  # noqa: BLE001 - whatever it is, it is a fault
        raise LeakError(traceback.format_exc()) from None
    return "read"
