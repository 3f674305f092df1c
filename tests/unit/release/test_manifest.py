import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from tests.plans import plan_of

from dimly.errors import ReleaseError
from dimly.mechanisms import MECHANISMS
from dimly.release import Manifest, guarantee, layout_of, read_manifest
from dimly.release.format import FileRecord, part_path
from dimly.release.manifest import Users, release_id

N = 30


def record(path: str = part_path(0), rows: int = N) -> FileRecord:
    return FileRecord(path=path, bytes=100, sha256="ab" * 32, rows=rows)


def manifest_of(mechanism: str = "counting+laplace", **changes: Any) -> Manifest:
    arguments: dict[str, Any] = {
        "users": Users(type="int64", roster="given", pseudonyms=False),
        "n_users": N,
        "files": [record()],
    }
    return Manifest.of(plan_of(mechanism), **(arguments | changes))


def fields_of(manifest: Manifest | None = None) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads((manifest or manifest_of()).to_json())
    return fields


def signed(fields: dict[str, Any]) -> str:
    """Return JSON of fields with the id that belongs to them."""
    fields = {name: value for name, value in fields.items() if name != "release"}
    return json.dumps(fields | {"release": release_id(fields)})


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_manifest_is_read_as_it_was_written(mechanism: str) -> None:
    manifest = manifest_of(mechanism)
    text = manifest.to_json()
    again = Manifest.from_json(text)
    assert again == manifest
    assert again.to_json() == text
    assert Manifest.from_json(text.encode()) == manifest
    assert manifest.private
    assert manifest.bytes == 100
    assert manifest.parts == manifest.files


def test_the_fields_are_these_and_no_others() -> None:
    fields = fields_of(manifest_of(ledger="clicks"))
    plan = plan_of("counting+laplace")
    assert fields == {
        "format": 2,  # by streams of version 2
        "release": fields["release"],
        "plan": json.loads(plan.to_json()),
        "plan_digest": plan.digest,
        "epsilon": 1.0,
        "delta": 0.0,
        "unit": "attribute",
        "guarantee": guarantee(plan, N, roster="given").splitlines(),
        "n_users": N,
        "users": {"type": "int64", "roster": "given", "pseudonyms": False},
        "layout": {"users_per_part": 65_536, "users_per_group": 8192},
        "schema": {"user": "INT64", "sketch": "LIST of exactly 32 INT16"},
        "files": [{"path": "sketches/part-000000.parquet", "bytes": 100, "sha256": "ab" * 32, "rows": N}],
        "ledger": {"dataset": "clicks"},
    }
    assert fields_of()["ledger"] is None


def test_the_id_is_the_digest_of_the_rest() -> None:
    fields = fields_of()
    assert Manifest.from_json(signed(fields)).release == fields["release"]
    fields["ledger"] = {"dataset": "other"}
    with pytest.raises(ReleaseError, match="field 'release' must be the digest of the rest, but it is not"):
        Manifest.from_json(json.dumps(fields))
    assert Manifest.from_json(signed(fields)).release != fields["release"]


def test_what_is_not_private_says_so() -> None:
    manifest = manifest_of(private=False)
    assert not manifest.private
    assert fields_of(manifest)["not_private"] is True
    assert fields_of(manifest)["guarantee"] == guarantee(manifest.plan, N, private=False).splitlines()
    assert Manifest.from_json(manifest.to_json()) == manifest
    for stamp in (False, None, "yes"):
        fields = fields_of() | {"not_private": stamp}
        if stamp is None:
            assert Manifest.from_json(signed(fields)).private
        else:
            with pytest.raises(ReleaseError, match="field 'not_private'"):
                Manifest.from_json(signed(fields))


CHANGES: dict[str, tuple[Any, str]] = {
    "plan_digest": ("0" * 64, "plan_digest must be what the plan says"),
    "epsilon": (0.5, "epsilon must be what the plan says"),
    "delta": (1e-9, "delta must be what the plan says"),
    "unit": ("column", "unit must be what the plan says"),
    "layout": ({"users_per_part": 1024, "users_per_group": 128}, "layout must be what the plan says"),
    "schema": ({"user": "INT64", "sketch": "LIST of exactly 31 INT16"}, "schema must be what the plan says"),
    "n_users": (N + 1, "files must hold as many rows as the layout says, but sketches/part-000000.parquet does not"),
    "files": ([], "files must hold the 1 parts of 30 users"),
    "users": ({"type": "int64", "roster": "given", "pseudonyms": True}, "type must be text where pseudonyms"),
    "ledger": ({"dataset": ""}, "field 'ledger.dataset'"),
    "guarantee": ("words", "field 'guarantee'"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_fields_that_contradict_the_plan_are_refused(name: str) -> None:
    value, reason = CHANGES[name]
    with pytest.raises(ReleaseError, match=f"manifest.json .*{reason}"):
        Manifest.from_json(signed(fields_of() | {name: value}))


@pytest.mark.parametrize(
    "path", ["../part-000000.parquet", "/etc/passwd", "sketches/../x", "part-000000.parquet", "sketches/part-0.parquet"]
)
def test_paths_that_are_none_of_ours_are_refused(path: str) -> None:
    for files in ([record(path)], [record(), record(path)]):
        fields = fields_of() | {"files": [file.model_dump(mode="json") for file in files]}
        with pytest.raises(ReleaseError, match="files must be the parts of the release"):
            Manifest.from_json(signed(fields))


def test_files_that_a_plan_does_not_have_are_refused() -> None:
    attributes, projection = record("attributes.parquet", 100), record("projection.parquet", 100)
    files = [attributes, projection, record()]
    assert manifest_of("gaussian+gaussian", files=files).record("attributes.parquet") == attributes
    assert manifest_of("gaussian+gaussian", files=files).record("other") is None
    assert manifest_of("gaussian+gaussian", files=files).parts == (record(),)
    for mechanism, wrong in (
        ("counting+laplace", [attributes, record()]),  # its vocabulary is open
        ("randomized-response", [projection, record()]),
        ("gaussian+gaussian", [attributes, attributes, record()]),
    ):
        with pytest.raises(ReleaseError, match="files must be the parts of the release"):
            manifest_of(mechanism, files=wrong)
    with pytest.raises(ReleaseError, match=r"but attributes.parquet does not"):
        manifest_of("gaussian+gaussian", files=[record("attributes.parquet", 99), record()])


def test_more_people_than_a_plan_holds_are_refused() -> None:
    with pytest.raises(ReleaseError, match="n_users must be what the plan says"):
        manifest_of("noisy-distances", n_users=41, files=[record(rows=41)])


@pytest.mark.parametrize("name", sorted(fields_of().keys() - {"format"}))
def test_a_missing_field_is_named(name: str) -> None:
    fields = fields_of()
    del fields[name]
    with pytest.raises(ReleaseError, match=f"field '{name}': Field required"):
        Manifest.from_json(json.dumps(fields))


def test_an_unknown_field_is_named() -> None:
    with pytest.raises(ReleaseError, match="field 'rows_read': Extra inputs are not permitted"):
        Manifest.from_json(signed(fields_of() | {"rows_read": 5}))
    fields = fields_of()
    fields["files"][0]["mtime"] = 5
    with pytest.raises(ReleaseError, match=r"field 'files\.0\.mtime': Extra inputs"):
        Manifest.from_json(signed(fields))


def test_a_plan_is_proven_again() -> None:
    fields = fields_of()
    fields["plan"]["noise"]["l1_sensitivity"] = 0
    with pytest.raises(ReleaseError, match=r"field 'plan\.noise"):
        Manifest.from_json(signed(fields))


@pytest.mark.parametrize("version", [0, 4, "1", None, True, 1.5])
def test_another_format_is_refused(version: Any) -> None:
    with pytest.raises(ReleaseError, match=f"field 'format' must be 1 or 2 or 3, got {version!r}"):
        Manifest.from_json(signed(fields_of() | {"format": version}))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "must be JSON"),
        ("{", "must be JSON"),
        (b"\xff\xfe\xff", "must be JSON"),
        ("[" * 100_000, "must be JSON"),
        ("[]", "must be a JSON object"),
        ('{"format": 1, "format": 1}', "must name each field once"),
        ('{"format": 1, "epsilon": NaN}', "must not hold NaN"),
    ],
    ids=["empty", "cut", "bytes", "deep", "list", "twice", "nan"],
)
def test_what_is_no_manifest_is_refused(text: Any, reason: str) -> None:
    with pytest.raises(ReleaseError, match=f"manifest.json {reason}"):
        Manifest.from_json(text)


def test_a_manifest_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        manifest_of().n_users = 5


def test_many_parts_are_listed_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dimly.release.format._MOST_USERS", 8)
    files = [record(part_path(i), rows) for i, rows in ((2, 8), (0, 8), (3, 6), (1, 8))]
    manifest = manifest_of(files=files)
    assert [file.path for file in manifest.files] == [part_path(i) for i in range(4)]
    assert [manifest.users_after(i) for i in range(4)] == [22, 14, 6, 0]
    for wrong in (files[1:], [*files, record(part_path(4), 8)]):
        with pytest.raises(ReleaseError, match="files must"):
            manifest_of(files=wrong)
    assert layout_of(manifest.plan).users_per_part == 8


def test_a_folder_without_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ReleaseError, match="none must be a release folder, but there is no such folder"):
        read_manifest(tmp_path / "none")
    with pytest.raises(ReleaseError, match=r"must be a release folder, but it has no manifest.json"):
        read_manifest(tmp_path)
    (tmp_path / "elsewhere").write_text(manifest_of().to_json())
    (tmp_path / "manifest.json").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ReleaseError, match=r"has no manifest.json"):
        read_manifest(tmp_path)
    (tmp_path / "manifest.json").unlink()
    (tmp_path / "elsewhere").rename(tmp_path / "manifest.json")
    assert read_manifest(tmp_path) == manifest_of()

    def refuse(path: Path, mode: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ReleaseError, match=r"manifest.json cannot be read: Permission denied"):
        read_manifest(tmp_path)
