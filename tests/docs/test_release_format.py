"""docs/release-format.md is enough to write another reader: one that was written from its words, on its vectors."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.docs.vectors import decode
from tests.golden.make import HERE
from tests.spark import spark, uses_spark

from dimly.release import Manifest

__all__ = ["spark"]

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "release-format.md").read_text(encoding="utf-8")
VECTORS, MANIFEST = map(json.loads, re.findall(r"^```json\n(.*?)^```$", PAGE, re.M | re.S))
RELEASES = pytest.mark.parametrize("vector", VECTORS["releases"], ids=lambda vector: vector["name"])


def sha256_of_json(fields: dict[str, Any]) -> str:
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def manifest_of(vector: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads((HERE / vector["name"] / "manifest.json").read_text(encoding="utf-8"))
    return fields


def bytes_per_person(plan: dict[str, Any]) -> float:
    width = {"int16": 2, "int32": 4}.get(plan["dtype"], 0)
    if plan["dtype"] == "bit":
        return float(-(-plan["vocabulary"]["size"] // 8))
    return float(plan["projection"]["k"] * width if "projection" in plan else (plan["n_users"] - 1) / 2 * width)


def test_every_golden_release_has_a_vector() -> None:
    assert {vector["name"] for vector in VECTORS["releases"]} == {path.name for path in HERE.glob("format-1-*")}


@RELEASES
def test_ids_and_digests_follow_from_the_page(vector: dict[str, Any]) -> None:
    fields = manifest_of(vector)
    assert fields.pop("release") == vector["release"] == sha256_of_json(fields)
    assert fields["plan_digest"] == vector["plan_digest"] == sha256_of_json(fields["plan"])
    for record in fields["files"]:
        content = (HERE / vector["name"] / record["path"]).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (record["bytes"], record["sha256"])
    assert fields["files"][-1]["sha256"] == vector["sha256"]
    assert fields["files"] == sorted(fields["files"], key=lambda record: record["path"])


@RELEASES
def test_the_layout_follows_from_the_page(vector: dict[str, Any]) -> None:
    fields = manifest_of(vector)
    room = 2**26 / max(bytes_per_person(fields["plan"]), 1)
    users_per_part = max(2**i for i in range(17) if 2**i <= max(1, room))
    assert fields["layout"] == {"users_per_part": users_per_part, "users_per_group": max(1, users_per_part // 8)}


@RELEASES
def test_the_rows_are_those_of_the_page(vector: dict[str, Any]) -> None:
    fields = manifest_of(vector)
    table = pq.read_table(HERE / vector["name"] / "sketches" / "part-000000.parquet")
    users, sketches = table.column("user").to_pylist(), table.column("sketch").to_pylist()
    assert users == sorted(users, key=lambda user: user.encode() if isinstance(user, str) else user)
    assert users[:2] == vector["users"]
    assert [row.hex() if isinstance(row, bytes) else row for row in sketches[:2]] == vector["rows"]
    plan = fields["plan"]
    if plan["dtype"] == "bit":
        wanted = [bytes_per_person(plan)] * len(users)
    elif "projection" in plan:
        wanted = [plan["projection"]["k"]] * len(users)
    else:
        wanted = list(range(len(users) - 1, -1, -1))
    assert list(map(len, sketches)) == wanted


@RELEASES
def test_public_lists_follow_from_the_page(vector: dict[str, Any]) -> None:
    plan, folder = manifest_of(vector)["plan"], HERE / vector["name"]
    if "vocabulary" not in plan:
        return
    attributes = pq.read_table(folder / "attributes.parquet").column("attribute").to_pylist()
    if "sha256" in plan["vocabulary"]:
        assert attributes == VECTORS["attributes"]
        encoded = [text.encode() for text in attributes]
        joined = b"".join(len(name).to_bytes(4, "little") + name for name in encoded)
        assert hashlib.sha256(joined).hexdigest() == plan["vocabulary"]["sha256"]
    else:
        assert attributes == [str(i) for i in range(plan["vocabulary"]["size"])]
    if "projection" in plan:
        part = plan["projection"]
        rows = pq.read_table(folder / "projection.parquet").column("row").to_pylist()
        arguments = part["family"], part["k"], part["blocks"]
        assert rows == [decode(*arguments, text, part["grid_bits"], version=1) for text in attributes]


def test_the_manifest_of_the_page_is_that_of_the_release() -> None:
    (vector,) = (vector for vector in VECTORS["releases"] if vector["name"] == "format-1-sketches-int64")
    assert manifest_of(vector) == MANIFEST
    assert Manifest.from_json(json.dumps(MANIFEST)).release == vector["release"]


def test_the_page_names_every_field() -> None:
    named = set(re.findall(r"`([a-z_.]+)`", PAGE))
    for name, field in Manifest.model_fields.items():
        top = field.alias or name
        assert top in named or any(other.startswith(f"{top}.") for other in named), top


@uses_spark
@pytest.mark.thorough
def test_the_example_with_spark_runs(
    spark: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    (code,) = re.findall(r"^```py\n(.*?)^```$", PAGE, re.M | re.S)
    exec(compile(code, "snippet", "exec"), {"spark": spark})  # noqa: S102
    assert capsys.readouterr().out.startswith("[")
