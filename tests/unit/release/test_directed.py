"""Releases along directions: format 2, with the directions in them, proven by verify; and what they can be asked."""

import dataclasses
import hashlib
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.directions import DIRECTIONS, named

from dimly.analyst.combine import combine
from dimly.analyst.release import open_release
from dimly.api import publish
from dimly.curator.ledger.ledger import Ledger
from dimly.errors import DimlyError, ParameterError, ReleaseError
from dimly.mechanisms import Directions, Plan
from dimly.privacy import Budget
from dimly.release.documents.directions_file import encode_directions, write_directions
from dimly.release.manifest import release_id
from dimly.release.verify import verify

TABLE = np.random.default_rng(0).random((40, 90)) < 0.3
pytestmark = pytest.mark.filterwarnings("ignore::dimly.errors.PrivacyWarning")


def plan_along(kind: str = "learned", epsilon: float = 4.0) -> Plan:
    return Plan.of("directions+laplace", Budget(epsilon), directions=named(kind))


@pytest.fixture(params=DIRECTIONS)
def kind(request: Any) -> str:
    return str(request.param)


def test_the_release_holds_its_directions_and_verifies(tmp_path: Path, kind: str) -> None:
    plan = plan_along(kind)
    release = publish(TABLE, Plan.from_json(plan.to_json()), directions=named(kind), out=tmp_path / "release")
    manifest = json.loads((tmp_path / "release/manifest.json").read_text(encoding="utf-8"))
    assert manifest["format"] == 2
    assert sorted(path.name for path in (tmp_path / "release").iterdir()) == [
        "README.md",
        "directions.parquet",
        "manifest.json",
        "sketches",
    ]
    assert release.directions == named(kind)
    found = verify(tmp_path / "release")
    assert any("directions.parquet holds the plan's directions" in check for check in found.checks)
    assert any("no attribute can move a sketch farther" in check for check in found.checks)
    assert ("category" in release.guarantee.splitlines()[0]) == ("categories" in kind)
    assert "along directions" in release.guarantee


def _renamed(folder: Path, **changes: Any) -> None:
    """Change the manifest, and give it an id that fits."""
    path = folder / "manifest.json"
    fields = json.loads(path.read_text(encoding="utf-8")) | changes
    fields.pop("release")
    path.write_text(json.dumps(fields | {"release": release_id(fields)}), encoding="utf-8")


def test_other_formats_and_missing_directions_are_refused(tmp_path: Path) -> None:
    publish(TABLE, plan_along(), out=tmp_path / "release")
    _renamed(tmp_path / "release", format=1)
    with pytest.raises(ReleaseError, match="format must be what the plan says"):
        open_release(tmp_path / "release")
    fields = json.loads((tmp_path / "release/manifest.json").read_text(encoding="utf-8"))
    files = [file for file in fields["files"] if file["path"] != "directions.parquet"]
    _renamed(tmp_path / "release", format=2, files=files)
    with pytest.raises(ReleaseError, match="files must be the parts of the release"):
        open_release(tmp_path / "release")
    for stream, other in ((1, 2), (2, 1)):
        plain = tmp_path / f"plain {stream}"
        publish(TABLE, Plan.of("counting+laplace", Budget(1.0), k=4, stream=stream), out=plain)  # type: ignore[arg-type]
        _renamed(plain, format=other)
        with pytest.raises(ReleaseError, match="format must be what the plan says"):
            open_release(plain)


def test_directions_of_another_digest_are_found_out(tmp_path: Path) -> None:
    """Even by a publisher who made the manifest fit: longer rows than the noise is for do not verify."""
    publish(TABLE, plan_along(), out=tmp_path / "release")
    longer = named("learned")
    other = type(longer)(longer.kind, longer.origin, longer.scale, longer.matrix * 2, longer.vocabulary)
    content = bytes(encode_directions(other))
    (tmp_path / "release/directions.parquet").write_bytes(content)
    with pytest.raises(ReleaseError):
        verify(tmp_path / "release")
    fields = json.loads((tmp_path / "release/manifest.json").read_text(encoding="utf-8"))
    files = [
        file | {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        if file["path"] == "directions.parquet"
        else file
        for file in fields["files"]
    ]
    _renamed(tmp_path / "release", files=files)
    with pytest.raises(ReleaseError, match="directions must be those that the plan was made with"):
        verify(tmp_path / "release")
    with pytest.raises(ReleaseError, match="directions must be those that the plan was made with"):
        _ = open_release(tmp_path / "release").directions


def test_nothing_is_charged_without_the_right_directions(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("d", epsilon=9.0)
    read = Plan.from_json(plan_along().to_json())
    write_directions(tmp_path / "other.parquet", named("weights"))
    (tmp_path / "empty.parquet").write_bytes(b"")
    given: list[tuple[Any, type[DimlyError], str]] = [
        (None, ParameterError, "directions must be given"),
        (tmp_path / "other.parquet", ParameterError, "must be those that the plan was made with"),
        (tmp_path / "none.parquet", ParameterError, "directions must be an existing file"),
        (tmp_path / "empty.parquet", ReleaseError, "must be a directions file"),
    ]
    for directions, kind, words in given:
        with pytest.raises(kind, match=words):
            publish(TABLE, read, directions=directions, out=tmp_path / "r", ledger=tmp_path / "ledger.db", dataset="d")
    assert not (tmp_path / "r").exists()
    assert Ledger(tmp_path / "ledger.db").status("d").charges == ()


def test_a_release_grows_along_the_same_directions_only(tmp_path: Path) -> None:
    Ledger.create(tmp_path / "ledger.db").add_dataset("d", epsilon=9.0)
    options: dict[str, Any] = {"ledger": tmp_path / "ledger.db", "dataset": "d"}
    publish(TABLE, plan_along(), out=tmp_path / "release", **options)
    ids = np.arange(100, 140)
    grown = publish(TABLE, plan_along(), append=tmp_path / "release", users=ids, **options)
    assert (len(grown), grown.directions) == (80, named("learned"))
    verify(tmp_path / "release")
    with pytest.raises(ParameterError, match="plan must be the one that the release was made by"):
        publish(TABLE, plan_along("embeddings"), append=tmp_path / "release", users=ids + 100, **options)


def test_what_directions_do_not_tell_is_refused() -> None:
    release = publish(TABLE, plan_along())
    for ask in (release.jaccard, release.hamming):
        with pytest.raises(ParameterError, match="about single attributes: directions say nothing"):
            ask(0, 1)
    with pytest.raises(ParameterError, match="directions say nothing about single attributes"):
        release.attribute(0, "1")
    with pytest.raises(ParameterError, match="directions say nothing about single attributes"):
        release.plan.error.attribute(1.0)


def test_vectors_of_ones_own_are_along_the_directions(tmp_path: Path, kind: str) -> None:
    publish(TABLE, plan_along(kind), out=tmp_path / "release")
    release = open_release(tmp_path / "release")
    one, other = release.project(["1", "2", "7", "nobody has this"]), release.project({"3": 1, "1": 1})
    exact = float(((one.row - other.row).astype(float) ** 2).sum()) * release.plan.scale**2
    assert release.distance(one, other).value == pytest.approx(exact)
    found = release.neighbors(one, n=3)
    assert len(found) == 3
    assert np.isfinite(release.distances(release.users, one).value).all()


@pytest.mark.parametrize(("kind", "name"), [("learned", "{} along the directions"), ("weights", "weighted {}")])
def test_estimates_say_what_they_are_of(kind: str, name: str) -> None:
    people = np.eye(30, 90, dtype=int)
    release = publish(people, Plan.of("directions+laplace", Budget(1.0), directions=named(kind)))
    told: dict[str, list[Any]] = {
        "squared distance": [
            release.distance(0, 1),
            release.distances([0], [1]),
            release.distance_matrix([0, 1]),
            release.neighbors(0, 3, metric="euclidean").estimates,
            release.neighbor_graph(3, metric="euclidean").estimates,
        ],
        "cosine": [release.cosine(0, 1), release.neighbors(0, 3, metric="cosine").estimates],
        "squared norm": [release.norm(0)],
        "inner product": [release.inner_product(0, 1)],
    }
    for quantity, estimates in told.items():
        for estimate in estimates:
            assert estimate.measure == name.format(quantity)
            assert name.format(quantity) in repr(estimate)
    ordinary = publish(people, Plan.of("counting+laplace", Budget(1.0), k=8))
    assert ordinary.distance(0, 1).measure == ""
    assert "distance" not in repr(ordinary.distance(0, 1))


def test_segments_that_noise_blurred_may_be_groups_all_the_same() -> None:
    table = np.random.default_rng(2).random((400, 90)) < 0.5
    release = publish(table, Plan.of("directions+laplace", Budget(5.0), directions=named("learned")))
    found = dataclasses.replace(release.segments(3), stability=0.0)
    assert "no more stable than cuts through a cloud" in found.words
    assert "segments may be near to them, and published numbers alone cannot tell" in found.words


def test_only_releases_along_the_same_directions_are_averaged() -> None:
    one, again = publish(TABLE, plan_along()), publish(TABLE, plan_along())
    combine([one, again], distance=10.0)
    with pytest.raises(ParameterError, match="never averaged"):
        combine([one, publish(TABLE, Plan.of("counting+laplace", Budget(1.0), k=8))], distance=10.0)


def test_segments_and_neighbors_find_groups() -> None:
    generator = np.random.default_rng(1)
    groups = generator.integers(3, size=600)
    odds = np.full((3, 90), 0.1)
    for group in range(3):
        odds[group, 30 * group : 30 * group + 30] = 0.5
    people = generator.random((600, 90)) < odds[groups]
    rows = Directions.of_values(list(map(str, range(90))), np.repeat(np.eye(3), 30, axis=0), origin="tests")
    release = publish(people, Plan.of("directions+laplace", Budget(1.0), directions=rows))
    found = release.segments()
    agree = max(np.mean(found.labels == np.array(order)[groups]) for order in itertools.permutations(range(3)))
    assert len(found) == 3
    assert agree > 0.95
    assert "noise alone" in found.words
    near = release.neighbor_graph(5)
    assert np.mean(groups[near.users] == groups[:, None]) > 0.9


def test_where_all_is_noise_there_is_no_structure() -> None:
    nobody = np.zeros((500, 90), np.int8)
    release = publish(nobody, plan_along(epsilon=0.5))
    assert release.structure.components == 0
    assert len(release.segments()) == 1
