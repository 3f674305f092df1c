"""Releases of every published format open, verify and say the same for ever; damaged copies of them are refused."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.golden.edited import PART, edit, sign
from tests.golden.make import EXPECTED, HERE, digest, plans

from dimly.errors import ReleaseError
from dimly.mechanisms import Plan
from dimly.release import ReleaseWriter, open_folder, verify

HOLDS = json.loads(EXPECTED.read_text(encoding="utf-8"))
SKETCHES = "format-1-sketches-text"
DISTANCES = "format-1-noisy-distances"
BITS = "format-1-randomized-response"


def test_every_release_is_here() -> None:
    assert sorted(HOLDS) == sorted(path.name for path in HERE.iterdir() if path.name.startswith("format-"))
    assert set(HOLDS) == set(plans())


@pytest.mark.parametrize("name", HOLDS)
def test_a_golden_release_is_read_for_ever(name: str) -> None:
    stored = open_folder(HERE / name, verify=True)
    assert stored.private
    assert stored.manifest.release == HOLDS[name]["release"]
    assert stored.users.tolist() == HOLDS[name]["users"]
    assert digest(stored) == HOLDS[name]["values"]  # type: ignore[arg-type]
    assert stored.plan == plans()[name]


@pytest.mark.parametrize("name", HOLDS)
def test_a_golden_release_is_small(name: str) -> None:
    assert sum(path.stat().st_size for path in (HERE / name).rglob("*") if path.is_file()) < 20_000


@pytest.mark.parametrize("part", ["exchanged", "row"])
def test_a_plan_that_states_shorter_rows_than_its_directions_is_refused(tmp_path: Path, part: str) -> None:
    """As half the noise of a column would be: the plan is consistent, and its directions are not what it says."""
    path = tmp_path / "release"
    shutil.copytree(HERE / "format-2-directions-int64", path)
    fields = json.loads((path / "manifest.json").read_text(encoding="utf-8"))
    said = fields["plan"]["directions"]
    if part == "row":
        said["l1"] -= 1
        said["l2_squared"] -= 1
    said["exchanged_l1"], said["exchanged_l2_squared"] = said["l1"], said["l2_squared"]
    fields["plan"]["noise"]["l1_sensitivity"] = said["l1"] * fields["plan"]["resolution"]
    fields["plan_digest"] = Plan.from_json(json.dumps(fields["plan"])).digest
    edit(path, lambda _: fields)
    with pytest.raises(ReleaseError, match="must say the norms and sizes that its directions have"):
        verify(path)


# Damage -------------------------------------------------------------------------------------------------------


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table], name: str = PART, **options: Any) -> None:
    """Change a file as somebody would who knows the format, and sign the manifest anew."""
    table = change(pq.read_table(path / name))
    schema = pa.schema([field.with_nullable(False) for field in table.schema])
    if not any(column.null_count for column in table.columns):
        table = table.cast(schema)
    pq.write_table(table, path / name, store_schema=False, use_dictionary=False, **options)
    sign(path, name, rows=table.num_rows)


def column(table: pa.Table, name: str, values: list[Any], kind: pa.DataType | None = None) -> pa.Table:
    index = table.schema.get_field_index(name)
    kind = kind or table.schema.field(name).type
    return table.set_column(index, pa.field(name, kind, nullable=None in values), pa.array(values, kind))


def users(change: Callable[[list[Any]], list[Any]]) -> Callable[[pa.Table], pa.Table]:
    return lambda table: column(table, "user", change(table.column("user").to_pylist()))


def lists(change: Callable[[list[Any]], list[Any]], name: str = "sketch") -> Callable[[pa.Table], pa.Table]:
    return lambda table: column(table, name, change(table.column(name).to_pylist()))


def flip(path: Path, name: str) -> None:
    content = bytearray((path / name).read_bytes())
    content[len(content) // 3] ^= 1
    (path / name).write_bytes(content)


def ruin(path: Path, name: str, index: int) -> None:
    """Overwrite the pages of one column, and sign the manifest anew."""
    chunk = pq.read_metadata(path / name).row_group(0).column(index)
    content = bytearray((path / name).read_bytes())
    stop = chunk.data_page_offset + chunk.total_compressed_size
    content[chunk.data_page_offset : stop] = b"\xff" * chunk.total_compressed_size
    (path / name).write_bytes(content)
    sign(path, name)


def replace(path: Path, name: str, content: bytes) -> None:
    (path / name).write_bytes(content)
    sign(path, name)


def move_out(path: Path, name: str) -> None:
    (path / name).rename(path.parent / "moved")
    (path / name).symlink_to(path.parent / "moved")


def without(name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda fields: {key: value for key, value in fields.items() if key != name}


def listed_path(path: str) -> Callable[[dict[str, Any]], Any]:
    def change(fields: dict[str, Any]) -> None:
        fields["files"][-1]["path"] = path

    return change


def quieter(fields: dict[str, Any]) -> None:
    fields["plan"]["noise"]["sigma"] /= 2


def swapped(items: list[Any]) -> list[Any]:
    return [items[1], items[0], *items[2:]]


DAMAGE: dict[str, tuple[str, Callable[[Path], Any], str]] = {
    # As it happens: files cut, lost, changed on the way.
    "manifest lost": (SKETCHES, lambda path: (path / "manifest.json").unlink(), "has no manifest.json"),
    "manifest cut": (SKETCHES, lambda path: (path / "manifest.json").write_text("{"), "manifest.json must be JSON"),
    "part lost": (SKETCHES, lambda path: (path / PART).unlink(), f"{PART} must be a file .* is missing"),
    "part cut": (SKETCHES, lambda path: (path / PART).write_bytes(b"PAR1"), f"{PART} must hold .* bytes, got 4"),
    "part changed": (SKETCHES, lambda path: flip(path, PART), f"{PART} must have the SHA-256"),
    "bits changed": (BITS, lambda path: flip(path, PART), f"{PART} must have the SHA-256"),
    "attributes changed": (SKETCHES, lambda path: flip(path, "attributes.parquet"), "attributes.parquet must have the"),
    "projection lost": (SKETCHES, lambda path: (path / "projection.parquet").unlink(), "projection.parquet must be a"),
    # As somebody may who knows no more than an editor.
    "epsilon edited": (
        SKETCHES,
        lambda path: (path / "manifest.json").write_text(
            (path / "manifest.json").read_text().replace("e^2", "e^1"), encoding="utf-8"
        ),
        "field 'release' must be the digest",
    ),
    # As somebody may who knows the format: everything below has the right digests.
    "no parquet": (
        SKETCHES,
        lambda path: replace(path, PART, b"PAR1 or not PAR1"),
        f"{PART} must be a Parquet file",
    ),
    "pages ruined": (SKETCHES, lambda path: ruin(path, PART, 1), f"{PART} must be a Parquet file, but it is damaged"),
    "rows of P ruined": (
        SKETCHES,
        lambda path: ruin(path, "projection.parquet", 1),
        "projection.parquet must be a Parquet file, but it is damaged",
    ),
    "extra file": (SKETCHES, lambda path: (path / "notes.txt").write_text("x"), "notes.txt must not be in the release"),
    "extra part": (
        SKETCHES,
        lambda path: shutil.copy(path / PART, path / "sketches" / "part-000001.parquet"),
        "part-000001.parquet must not be in the release",
    ),
    "extra folder": (SKETCHES, lambda path: (path / "more").mkdir(), "more must not be in the release"),
    "linked part": (SKETCHES, lambda path: move_out(path, PART), f"{PART} must not be in the release: it is a link"),
    "linked folder": (SKETCHES, lambda path: move_out(path, "sketches"), "sketches must not be .* it is a link"),
    "linked manifest": (SKETCHES, lambda path: move_out(path, "manifest.json"), "has no manifest.json"),
    "path above": (SKETCHES, lambda path: edit(path, listed_path("../x.parquet")), "files must be the parts"),
    "absolute path": (SKETCHES, lambda path: edit(path, listed_path("/x.parquet")), "files must be the parts"),
    "other format": (
        SKETCHES,
        lambda path: edit(path, lambda fields: fields | {"format": 4}),
        "'format' must be 1 or 2 or 3",
    ),
    "other known format": (
        SKETCHES,
        lambda path: edit(path, lambda fields: fields | {"format": 2}),
        "format must be what",
    ),
    "unknown field": (SKETCHES, lambda path: edit(path, lambda fields: fields | {"rows": 9}), "field 'rows'"),
    "missing field": (SKETCHES, lambda path: edit(path, without("guarantee")), "field 'guarantee'"),
    "other digest": (
        SKETCHES,
        lambda path: edit(path, lambda fields: fields | {"plan_digest": "0" * 64}),
        "plan_digest must be what the plan says",
    ),
    "less noise": (SKETCHES, lambda path: edit(path, quieter), "field 'plan'"),
    "nicer words": (
        SKETCHES,
        lambda path: edit(path, lambda fields: fields | {"guarantee": ["Nobody can learn anything."]}),
        "field 'guarantee' must be the words",
    ),
    "roster renamed": (
        SKETCHES,
        lambda path: edit(path, lambda fields: fields["users"].update(roster="given")),
        "field 'guarantee' must be the words",
    ),
    "stamped": (
        SKETCHES,
        lambda path: edit(path, lambda fields: fields | {"not_private": True}),
        "field 'not_private' is set",
    ),
    "more people": (
        SKETCHES,
        lambda path: edit(path, lambda fields: fields | {"n_users": 11}),
        "files must hold as many rows",
    ),
    "users swapped": (
        SKETCHES,
        lambda path: rewrite(path, users(swapped)),
        f"{PART}: users must be in ascending order",
    ),
    "user twice": (
        SKETCHES,
        lambda path: rewrite(path, users(lambda ids: [ids[0], ids[0], *ids[2:]])),
        f"{PART}: users must be in ascending order",
    ),
    "user missing": (
        SKETCHES,
        lambda path: rewrite(path, users(lambda ids: [None, *ids[1:]])),
        f"{PART} must hold the columns",
    ),
    "list too long": (
        SKETCHES,
        lambda path: rewrite(path, lists(lambda rows: [[*rows[0], 0], *rows[1:]])),
        "must hold as many entries of sketch as the plan says",
    ),
    "list moved": (
        SKETCHES,
        lambda path: rewrite(path, lists(lambda rows: [[*rows[0], 0], rows[1][:-1], *rows[2:]])),
        "must hold lists of exactly 8 numbers",
    ),
    "row lost": (SKETCHES, lambda path: rewrite(path, lambda table: table.slice(1)), "files must hold as many rows"),
    "distance lost": (
        DISTANCES,
        lambda path: rewrite(path, lists(lambda rows: [rows[0][:-1], *rows[1:]])),
        "must hold as many entries of sketch as the plan says",
    ),
    "bit outside": (
        BITS,
        lambda path: rewrite(path, lists(lambda rows: [b"\x00\xf0", *rows[1:]])),
        "must hold bits of the vocabulary only",
    ),
    "other row groups": (
        SKETCHES,
        lambda path: rewrite(path, lambda table: table, row_group_size=5),
        "must hold row groups of 10 users",
    ),
    "other columns": (
        SKETCHES,
        lambda path: rewrite(path, lambda table: table.append_column("clicks", pa.array(range(10)))),
        "must hold the columns",
    ),
    "other type": (
        SKETCHES,
        lambda path: rewrite(path, lambda table: column(table, "sketch", [[0] * 8] * 10, pa.list_(pa.int32()))),
        "must hold the columns",
    ),
    "other attributes": (
        SKETCHES,
        lambda path: rewrite(path, lists(swapped, "attribute"), "attributes.parquet"),
        "attributes.parquet: vocabulary must be the list that the plan was made with",
    ),
    "attribute twice": (
        SKETCHES,
        lambda path: rewrite(path, lists(lambda names: [names[1], *names[1:]], "attribute"), "attributes.parquet"),
        "attributes.parquet: ",
    ),
    "other names in P": (
        SKETCHES,
        lambda path: rewrite(path, lists(swapped, "attribute"), "projection.parquet"),
        "projection.parquet: vocabulary must be the list",
    ),
    "other rows of P": (
        SKETCHES,
        lambda path: rewrite(
            path, projected(lambda rows: [[row + 1 for row in rows[0]], *rows[1:]]), "projection.parquet"
        ),
        "projection.parquet must hold the rows that the plan's seed gives",
    ),
    "shorter rows of P": (
        SKETCHES,
        lambda path: rewrite(path, projected(lambda rows: [rows[0][:-1], *rows[1:]]), "projection.parquet"),
        "projection.parquet must hold as many entries of row as the plan says",
    ),
}


def projected(change: Callable[[list[Any]], list[Any]]) -> Callable[[pa.Table], pa.Table]:
    return lists(change, "row")


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_noticed(kind: str, tmp_path: Path) -> None:
    name, damage, reason = DAMAGE[kind]
    copy = shutil.copytree(HERE / name, tmp_path / "copy")
    verify(copy)
    damage(copy)
    with pytest.raises(ReleaseError, match=reason) as refusal:
        verify(copy)
    assert not any(user in str(refusal.value) for user in ("Zoë", "line\nbreak", "Ann", "user 9"))  # nobody is quoted


def test_users_rise_from_part_to_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dimly.release.format._MOST_USERS", 4)
    plan = plans()["format-1-sketches-int64"]
    with ReleaseWriter(tmp_path / "copy", plan, user_type="int64") as writer:
        for index in range(2):
            writer.write_part(index, np.arange(4) + 4 * index, np.zeros((4, 16), np.int16))
        writer.seal(roster="given")
        path = writer.publish()
    second = "sketches/part-000001.parquet"
    shutil.copy(path / PART, path / second)
    sign(path, second)
    with pytest.raises(ReleaseError, match=f"{second} must hold users that come after those of {PART}"):
        verify(path)
