# ruff: noqa: S608 - names that the database made itself
import csv
import encodings.aliases
import gzip
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dimly.curator.tables import csv as csv_dialect
from dimly.curator.tables import kernels
from dimly.curator.tables.csv import CsvOptions, open_csv, read_header
from dimly.curator.tables.database import PrivateDatabase
from dimly.curator.tables.input_files import Stamp
from dimly.curator.tables.sources import open_source
from dimly.errors import DataError, DimlyError, ParameterError

AS_WRITTEN = CsvOptions()


def read(database: PrivateDatabase, path: Path, content: bytes | str, **options: Any) -> list[tuple[Any, ...]]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    database.inputs[str(path)] = (path.name, "CSV")
    name, columns = open_csv(database, [replace(Stamp.of(path), name=path.name)], CsvOptions(**options))
    assert set(columns.values()) == {"VARCHAR"}
    return sorted(database.fetch(f"SELECT * FROM {name}"), key=repr)


@pytest.mark.parametrize(
    ("content", "delimiter", "quote", "escape"),
    [
        ("a,b\n1,2\n", ",", '"', '"'),
        ("a;b\n1,5;2\n", ";", '"', '"'),
        ("a\n1;2,3\n", ",", '"', '"'),
        ("a\tb\n1,5\t2;3\n", "\t", '"', '"'),
        ("a|b\n1|2\n", "|", '"', '"'),
        ("a\n1\n", ",", '"', '"'),
        ('"a,x";"b"\n"1;2";"3"\n', ";", '"', '"'),
        ('a,b\n"say ""hi""",2\n', ",", '"', '"'),
        ('a,b\n"say \\"hi\\", you",2\n', ",", '"', '"'),
        ('a;"b,c"\n', ";", '"', '"'),
        ('5" pipe,b\n', ",", '"', '"'),
        ("'90s,b\n", ",", '"', '"'),
        ('a,b\n"ends in \\",2\n', ",", '"', '"'),
        ("a,b\n'x','y'\n", ",", '"', '"'),
        ('a,b\n\'1\';"2",\\"\n', ",", '"', '"'),
    ],
)
def test_dialects(tmp_path: Path, content: str, delimiter: str, quote: str, escape: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(content)
    dialect, names = read_header(Stamp.of(path), AS_WRITTEN)
    assert (dialect.delimiter, dialect.quote, dialect.escape) == (delimiter, quote, escape)
    assert len(names) == (1 if content.startswith("a\n") else 2)


@pytest.mark.parametrize(
    ("encoding", "found"),
    [
        ("utf-8", "utf-8"),
        ("utf-8-sig", "utf-8-sig"),
        ("utf-16", "utf-16"),
        ("utf-32", "utf-32"),
    ],
)
def test_encodings(database: PrivateDatabase, tmp_path: Path, encoding: str, found: str) -> None:
    path = tmp_path / "t.csv"
    content = "größe,b\nZoë,x\n".encode(encoding)
    assert read(database, path, content) == [("Zoë", "x")]
    dialect, names = read_header(Stamp.of(path), AS_WRITTEN)
    assert (dialect.encoding, names[0]) == (found, "größe")
    assert [file.stat().st_mode & 0o777 for file in database.folder.glob("copy-*")] in ([], [0o600])


def test_the_encoding_is_never_guessed_from_rows(database: PrivateDatabase, tmp_path: Path) -> None:
    table = b"a,b\n\xe9\x81,x\n"
    with pytest.raises(
        DataError, match=r"text in UTF-8, but some of it is not. If this file is the table, pass its encoding"
    ):
        read(database, tmp_path / "t.csv", table)
    assert read(database, tmp_path / "t.csv", table, encoding="latin-1") == [("é\x81", "x")]
    with pytest.raises(DataError, match="must be text in cp1252"):
        read(database, tmp_path / "t.csv", table, encoding="cp1252")
    assert read(database, tmp_path / "u.csv", b"a,b\n\x80\xe9,x\n", encoding="cp1252") == [("€é", "x")]


@pytest.mark.parametrize("name", ["t.tsv", "t.tsv.gz"])
def test_a_name_that_says_tabs(database: PrivateDatabase, tmp_path: Path, name: str) -> None:
    pack = gzip.compress if name.endswith("gz") else bytes
    assert read(database, tmp_path / name, pack(b"a,x\tb|y\n1,5\t2\n")) == [("1,5", "2")]
    assert read(database, tmp_path / name, pack(b"a\n1,5\n")) == [("1,5",)]
    with pytest.raises(DataError, match="either , or a tab could"):
        read(database, tmp_path / name, pack(b"a,b\n1,5\n"))


def cuts(packed: bytes) -> list[bytes]:
    ends = [len(packed) * i // 26 for i in range(1, 26)] + [len(packed) - i for i in range(1, 10)]
    return [packed[:end] for end in ends]


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
@pytest.mark.parametrize("form", ["CSV", "JSON lines"])
def test_packed_files_that_are_cut_short_or_damaged(
    database: PrivateDatabase, tmp_path: Path, codec: str, form: str
) -> None:
    """DuckDB reads what there is, and asks for no checksum."""
    rows = [(f"p{i % 50}", str(i * i % 9973)) for i in range(3000)]
    lines = (
        ["who,what", *map(",".join, rows)] if form == "CSV" else [f'{{"who": "{a}", "what": "{b}"}}' for a, b in rows]
    )
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        for line in lines:
            stream.write(f"{line}\n".encode())
    packed = sink.getvalue().to_pybytes()
    path = tmp_path / ("t" + {"CSV": ".csv", "JSON lines": ".jsonl"}[form] + {"gzip": ".gz", "zstd": ".zst"}[codec])
    path.write_bytes(packed + packed if form == "JSON lines" else packed)  # some tools write a file in pieces
    source = open_source(database, path)
    assert database.fetch(f"SELECT count(*) FROM {source.name}") == [(len(rows) * (1 + (form == "JSON lines")),)]
    spoiled = [*cuts(packed), packed + b"x"]
    if codec == "gzip":  # which has a checksum
        places = range(20, len(packed), len(packed) // 10)
        spoiled += [packed[:place] + bytes([packed[place] ^ 1]) + packed[place + 1 :] for place in places]
    for content in spoiled:
        path.write_bytes(content)
        with pytest.raises(DataError, match="must be a complete compressed file") as caught:
            open_source(database, path)
        assert caught.value.__context__ is None


def test_options_override_what_the_header_shows(database: PrivateDatabase, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    assert read(database, path, "a,b;c\n1,2;3\n", delimiter=";") == [("1,2", "3")]
    assert read(database, path, "a,b\n'1,2',3\n", quote="'") == [("1,2", "3")]
    assert read(database, path, 'a,b\n"1,2\n', quote="") == [('"1', "2")]
    assert read(database, path, 'a,b\n"x\\"y",2\n', escape="\\") == [('x"y', "2")]
    assert read(database, path, "a,b\nДа,2\n".encode("koi8-r"), encoding="koi8-r") == [("Да", "2")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delimiter": ""}, "delimiter must be one ASCII character, such as \";\", got ''"),
        ({"delimiter": "ab"}, "delimiter must be one ASCII character"),
        ({"quote": "\n"}, "quote must be one ASCII character"),
        ({"escape": "é"}, "escape must be one ASCII character"),
        *(
            ({"encoding": name}, f"encoding must be one of text that Python knows, got {name!r}")
            for name in (
                "klingon",
                "rot13",
                "base64",
                "hex",
                "zlib",
                "bz2",
                "uu",
                "quopri",
                "idna",
                "punycode",
                "undefined",
            )
        ),
        *(
            ({"encoding": name}, f"no cell changes how the rows after it are read, got {name!r}")
            for name in ("iso2022_jp", "ISO-2022-JP-2004", "csiso2022kr", "iso2022_jp_ext", "hz", "HZ-GB-2312")
        ),
        ({"encoding": "unicode_escape"}, "encoding must be one of text"),
        ({"encoding": "a\0b"}, "encoding must be one of text"),
        ({"encoding": "\udcff"}, "encoding must be one of text"),
    ],
)
def test_options_that_cannot_be(options: dict[str, str], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        CsvOptions(**options)


def _shifts(encoding: str, cell: str) -> bool:
    """Return whether a cell, as Python's own writer encodes it, changes the rows after it or their bytes' meaning."""
    rows = "v,C:\\x~1\nw,tea\n"
    try:
        written = f"u,{cell}\n{rows}".encode(encoding)
    except UnicodeError:
        return False
    return not written.decode(encoding, "replace").endswith(rows)


def test_no_cell_shifts_how_others_are_read() -> None:
    """Escape sequences in a cell switch some encodings to another alphabet until the next one: these are refused."""
    cells = [
        "\x1b(J",
        "\x1b$B",
        "\x1b(I",
        "\x1b$)C\x0e",
        "\x1b$(O",
        "\x1b$(Q",
        "\x0e",
        "\x1b",
        "~{",
        "+",
        "+AG",
        "日本",
    ]
    known = sorted(set(encodings.aliases.aliases.values()))
    shifting = {name for name in known if _is_text(name) and any(_shifts(name, cell) for cell in cells)}
    assert {"iso2022_jp", "iso2022_jp_2004"} <= shifting
    for name in shifting:
        with pytest.raises(ParameterError, match="no cell changes how the rows after it are read"):
            CsvOptions(encoding=name)


def _is_text(encoding: str) -> bool:
    try:
        return isinstance("a".encode(encoding), bytes) and encoding != "punycode"
    except (LookupError, UnicodeError):
        return False


def test_cells_stay_as_they_are_written(database: PrivateDatabase, tmp_path: Path) -> None:
    content = 'a,b\n007, x \n"1,5",NULL\n"line\nbreak","""q"""\nNA,1e3\n'
    rows = [("007", " x "), ("1,5", "NULL"), ("NA", "1e3"), ("line\nbreak", '"q"')]
    assert read(database, tmp_path / "t.csv", content) == sorted(rows, key=repr)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_empty_cells_are_missing(database: PrivateDatabase, tmp_path: Path, end: str) -> None:
    content = end.join(["a,b", ",x", '"",y', "z,", ""])
    assert read(database, tmp_path / "t.csv", content) == [("z", None), (None, "x"), (None, "y")]


def test_a_header_alone_is_an_empty_table(database: PrivateDatabase, tmp_path: Path) -> None:
    assert read(database, tmp_path / "t.csv", "a,b\n") == []


RAGGED = "as many fields in each line"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b\n1,2\nSECRET\n", RAGGED),
        (b"a,b\n1,2\nSECRET,2,3\n", RAGGED),
        (b"a,b,c\n1,2,3\nSECRET,two, three,\n", RAGGED),  # a delimiter in a cell, and nothing in the last
        (b'a,b,c\n1,2,3\nSECRET,two, three,\n1,2,"3\n4"\n', RAGGED),
        (b"a\n1\nSECRET,\n", RAGGED),
        (b'a,b\n1,2\n"SECRET,2\n', RAGGED),
        (b"a,b\n1,2\r\nSECRET,2\n", RAGGED),
        (b"a,b\n1," + b"SECRET" * 500_000 + b"\n", RAGGED),
        pytest.param(b"a,b\n" + b"x,y\n" * 100_000 + b"SECRET\xe9,2\n", "text in UTF-8.*encoding", id="late"),
    ],
)
def test_files_that_are_not_csv(database: PrivateDatabase, tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=rf"^t\.csv must .*{message}") as caught:
        read(database, tmp_path / "t.csv", content)
    assert "SECRET" not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"", {}, "its first line is empty"),
        (b"\n \n", {}, "its first line is empty"),
        (b"\na,b\nSECRET,1\n", {}, "its first line is empty"),
        (b"\r\na,b\r\nSECRET,1\r\n", {}, "its first line is empty"),
        (b"\xef\xbb\xbf\na,b\n", {}, "its first line is empty"),
        (b"a\0,SECRET\n", {}, "zero bytes"),
        (
            b"gr\xf6\xdfe,b\nx,y\n",
            {},
            "text in UTF-8, but some of it is not. If this file is the table, pass its encoding",
        ),
        (
            b"a,b;c\n1,2;3\n",
            {},
            'either , or ; could. If this file is the table, pass the right one, such as delimiter=","',
        ),
        (b"a\tb|c\n1,2;3\n", {}, r'either a tab or \| could\..*such as delimiter="\\t"\.'),
        (b"a;b;c,d\n1,2;3\n", {}, 'such as delimiter=";". If it is a list, such as a roster, put quotes around'),
        (
            b"'a';'b'\n'1;2';'3'\n",
            {},
            "' may be a quote there, or part of the names. If this file is the table, pass its quote",
        ),
        (
            b'"a\\"b",c\n',
            {},
            "within quotes. If a name has a line break, remove it: .* Otherwise pass its quote, escape and delimiter",
        ),
        (b'person,page,"note\n(x)"\r\nada,tea,x\r\n', {}, "If a name has a line break, remove it"),
        (b'\xef\xbb\xbfperson,page,"note\n(x)"\nada,tea,x\n', {}, "If a name has a line break, remove it"),
        (b'person;page;"note\n(x)";rest, too\nada;tea;x;y\n', {}, "If a name has a line break, remove it"),
        (b'person, "page"\nada,tea\n', {}, "quotes in pairs and no space before one"),
        (b"+2AA-,b\n", {"encoding": "utf-7"}, "text in utf-7, but some of it is not"),
        (b"a,b\n\xff\xfeSECRET\n", {"encoding": "utf-8"}, "text in UTF-8, but some of it is not"),
        (b"\xff\xfeS\0E", {"encoding": "ascii"}, "text in ascii"),
        (b'"SECRET\n', {}, "must name all columns in its first line"),
    ],
)
def test_beginnings_that_cannot_be_read(
    database: PrivateDatabase, tmp_path: Path, content: bytes, options: dict[str, str], message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read(database, tmp_path / "t.csv", content, **options)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    "options", [{"delimiter": '"'}, {"quote": ","}, {"escape": ","}, {"delimiter": ";", "quote": ";"}]
)
def test_delimiter_quote_and_escape_differ(database: PrivateDatabase, tmp_path: Path, options: dict[str, str]) -> None:
    with pytest.raises(ParameterError, match=r"delimiter must differ from quote and escape, got"):
        read(database, tmp_path / "t.csv", b"a,b\n1,2\n", **options)


def test_text_that_is_not_what_it_is_said_to_be(database: PrivateDatabase, tmp_path: Path) -> None:
    late = "a,b\n".encode("utf-16-le") + "x,y\n".encode("utf-16-le") * 100_000 + b"\x00\xd8\x00\x00SECRET"
    with pytest.raises(DataError, match="text in utf-16-le, but some of it is not") as caught:
        read(database, tmp_path / "t.csv", late, encoding="utf-16-le")
    assert caught.value.__context__ is None


def test_files_that_vanish_or_are_not_packed(database: PrivateDatabase, tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    with pytest.raises(DataError, match=r"must be a complete compressed file"):
        read(database, path, b"a,b\n1,2\n")


def test_a_full_disk(database: PrivateDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.open", full)
    with pytest.raises(DimlyError, match="temp must be on a disk with room"):
        read(database, tmp_path / "t.csv", "a,b\né,x\n".encode("latin-1"), encoding="latin-1")


def test_files_that_are_written_in_different_ways(database: PrivateDatabase, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("a,b\n1,2\n")
    (tmp_path / "2.csv").write_text("b;a\n4;3\n")
    (tmp_path / "3.csv").write_bytes("a\tb\né\t6\n".encode("utf-16"))
    name, columns = open_csv(database, [Stamp.of(path) for path in sorted(tmp_path.glob("*.csv"))], AS_WRITTEN)
    assert list(columns) == ["a", "b"]
    assert sorted(database.fetch(f"SELECT a, b FROM {name}")) == [("1", "2"), ("3", "4"), ("é", "6")]


CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=8)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.lists(st.tuples(CELLS, CELLS), max_size=5), st.sampled_from(",;\t|"), st.booleans())
def test_what_python_writes_is_read_back(
    database: PrivateDatabase,
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, str]],
    delimiter: str,
    quote_all: bool,
) -> None:
    text = io.StringIO()
    options: dict[str, Any] = {"quoting": csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL}
    csv.writer(text, delimiter=delimiter, lineterminator="\n", **options).writerows([("a", "b"), *rows])
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    found = read(database, path, text.getvalue(), delimiter=delimiter, quote='"', escape='"', encoding="utf-8")
    assert found == sorted([tuple(cell or None for cell in row) for row in rows], key=repr)


@pytest.mark.parametrize("chunk", [1, 2, 3, 5])
def test_a_header_may_be_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(csv_dialect, "_CHUNK", chunk + 3)  # a mark is in the first of them
    path = tmp_path / "t.csv"
    path.write_text("größe;b\r\n1;2é\r\n3;4\r\n", encoding="utf-16")
    dialect, names = read_header(Stamp.of(path), AS_WRITTEN)
    assert (dialect.delimiter, dialect.encoding, names) == (";", "utf-16", ("größe", "b"))


def test_long_headers(tmp_path: Path) -> None:
    names = [f"column {i}" for i in range(30_000)]
    path = tmp_path / "t.csv"
    path.write_text(";".join(names) + "\n")
    assert read_header(Stamp.of(path), AS_WRITTEN)[1] == tuple(names)


def test_line_breaks_that_look_like_rows_in_a_large_file(tmp_path: Path) -> None:
    """DuckDB begins in the middle of such a file, within a quoted cell, notices it, and refuses the file."""
    cell = "\n".join(["eve,jam,ok"] * 3000)
    rows = [(f"p{i:05}", f"page {i % 50}", cell if i % 100 == 0 else "ok") for i in range(30_000)]
    path = tmp_path / "t.csv"
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("person", "page", "note"), *rows])
    assert path.stat().st_size > 9_000_000
    with PrivateDatabase(memory=1 << 28, threads=2) as database:
        name, _ = open_csv(database, [Stamp.of(path)], AS_WRITTEN)
        above = database.create_view(f"SELECT person, page FROM {name}")
        stream = database.stream(f"SELECT person, page FROM {above} ORDER BY person", batch_rows=1 << 12)
        found = [tuple(row.values()) for batch in stream for row in batch.to_pylist()]
        assert found == [row[:2] for row in rows]
        assert database.cursor().fetch(f"SELECT count(*), max(length(note)) FROM {name}") == [(len(rows), len(cell))]
    with PrivateDatabase(memory=1 << 28, threads=2) as database:
        name, _ = open_csv(database, [Stamp.of(path)], AS_WRITTEN)
        database.execute(f"CREATE TABLE held AS SELECT * FROM {name}")
        assert database.fetch("SELECT count(*) FROM held") == [(len(rows),)]
        query = "SELECT * FROM read_csv(?, header = true, all_varchar = true, quote = '\"', escape = '\"')"
        with pytest.raises(DataError, match="Add parallel = false"):
            database.fetch(query, [str(path)])


def test_a_quote_that_stays_open_in_a_file_that_one_thread_reads(tmp_path: Path) -> None:
    """One thread of DuckDB leaves out what follows it without a word."""
    cell = "\n".join(["eve,jam,ok"] * 3000)
    lines = [f'p{i:05},tea,"{cell}"\n' if i % 100 == 0 else f"p{i:05},tea,ok\n" for i in range(30_000)]
    path = tmp_path / "t.csv"
    for last, opened in ((29_949, ""), (29_950, '"')):
        lines[last] = f"p{last},tea,{opened}ok\n"
        path.write_text("person,page,note\n" + "".join(lines), encoding="utf-8")
        with PrivateDatabase(memory=1 << 28, threads=2) as database:
            name, _ = open_csv(database, [Stamp.of(path)], AS_WRITTEN)
            if not opened:
                assert database.fetch(f"SELECT count(*) FROM {name}") == [(len(lines),)]
                continue
            for _ in range(2):
                with pytest.raises(DataError, match="quotes in pairs"):
                    database.fetch(f"SELECT count(*) FROM {name}")


@settings(max_examples=300)
@given(
    cells=st.lists(st.text('",;\\\nab ', max_size=6), min_size=1, max_size=8),
    escape=st.sampled_from(['"', "\\"]),
    cut=st.integers(0, 60),
    chunk=st.integers(1, 5),
)
def test_where_a_file_ends(cells: list[str], escape: str, cut: int, chunk: int) -> None:
    """Within quotes is where Python's reader says so, of what Python writes and of its beginnings."""
    doubled, file = escape == '"', io.StringIO()
    form: dict[str, Any] = {"doublequote": doubled, "escapechar": None if doubled else escape}
    csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL, **form).writerow(cells)
    text = file.getvalue()[: max(1, len(file.getvalue()) - cut)]
    place = kernels.AT_FIELD
    for start in range(0, len(text), chunk):
        part = np.frombuffer(text[start : start + chunk].encode(), np.uint8)
        place = kernels.place_in_csv(part, place, ord(","), ord('"'), ord(escape))
    try:
        list(csv.reader(io.StringIO(text, newline=""), strict=True, **form))
        is_open = False
    except csv.Error:
        is_open = True
    assert (place in {kernels.IN_QUOTES, kernels.ESCAPED}) == is_open
