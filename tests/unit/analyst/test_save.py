"""A release in memory becomes a folder: the same numbers, and no second charge."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.releases import every_mechanism, release_of

from dimly.analyst.combine import combine
from dimly.analyst.release import open_release
from dimly.api import publish
from dimly.errors import ParameterError, PrivacyWarning, ReleaseError
from dimly.mechanisms import Plan
from dimly.privacy import Budget
from dimly.release.format import README
from dimly.release.manifest import AboutRelease, read_manifest
from dimly.release.verify import verify

PEOPLE = np.random.default_rng(0).random((30, 40)) < 0.3


def test_what_is_saved_verifies_and_answers_the_same(tmp_path: Path) -> None:
    made = publish(PEOPLE, Plan.of("counting+laplace", Budget(2.0), k=16))
    path = made.save(tmp_path / "release", title="Shops\nand more", publisher="ACME", note="For a test.")
    assert verify(path).n_users == 30
    opened = open_release(path, verify=True)
    assert (opened.values == made.values).all()
    assert opened.distance(1, 2) == made.distance(1, 2)
    about = read_manifest(path).about
    assert about is not None
    assert (about.title, about.publisher, about.note) == ("Shops\nand more", "ACME", "For a test.")
    text = (path / README).read_text()
    assert text.startswith("# Shops and more\n")
    assert "Published by ACME" in text
    assert len(text.splitlines()) <= 14
    for title in ("", " ", "x" * 201, 5):
        with pytest.raises(ParameterError, match="title must be text of 1 to 200 characters"):
            made.save(tmp_path / "again", title=title)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"in a folder. Copy the folder"):
        opened.save(tmp_path / "again")
    with pytest.raises(ParameterError, match="already a release"):
        made.save(path)
    assert made.save(path, overwrite=True) == path
    assert read_manifest(path).format < 3


def test_a_changed_readme_does_not_verify(tmp_path: Path) -> None:
    path = publish(PEOPLE, Plan.of("counting+laplace", Budget(2.0), k=16)).save(tmp_path / "release")
    (path / README).write_text("Trust me.")
    with pytest.raises(ReleaseError, match=r"README\.md must be what follows from the manifest"):
        verify(path)
    (path / README).unlink()
    (path / README).mkdir()
    with pytest.raises(ReleaseError, match=r"README\.md must be what follows from the manifest"):
        verify(path)
    (path / README).rmdir()  # as of earlier releases
    assert verify(path).n_users == 30


@every_mechanism
def test_every_kind_is_saved(mechanism: str, tmp_path: Path) -> None:
    made = release_of(mechanism)
    path = made.save(tmp_path / "release")
    opened = open_release(path)
    np.testing.assert_array_equal(opened.values, made.values)
    assert opened.private == made.private
    assert read_manifest(path).ledger is None


def test_publishing_in_memory_warns_as_into_a_folder(tmp_path: Path) -> None:
    plan = Plan.of("counting+laplace", Budget(2.0), k=16)
    with pytest.warns(PrivacyWarning) as here:
        publish(PEOPLE, plan)
    with pytest.warns(PrivacyWarning) as there:
        publish(PEOPLE, plan, out=tmp_path / "release")
    assert [str(one.message) for one in here] == [str(one.message) for one in there]
    assert {one.filename for one in here} == {__file__}


@pytest.mark.parametrize("told", [{"title": ""}, {"note": "x" * 2001}, {"publisher": "a\x1b"}])
def test_what_cannot_be_said_is_refused(told: dict[str, Any], tmp_path: Path) -> None:
    made = publish(PEOPLE, Plan.of("counting+laplace", Budget(2.0), k=16))
    with pytest.raises(ParameterError, match=next(iter(told))):
        made.save(tmp_path / "release", **told)
    with pytest.raises(ParameterError, match=r"release.save"):
        publish(PEOPLE, made.plan, title="Shops")


def test_ids_of_either_type_are_one_person() -> None:
    plan = Plan.of("counting+laplace", Budget(2.0), k=16)
    numbers, texts = publish(PEOPLE, plan), publish(PEOPLE, plan, users=[str(i) for i in range(30)])
    assert numbers.distance("1", "2") == numbers.distance(1, 2)
    assert texts.distance(1, 2) == texts.distance("1", "2")
    assert texts.distances(1, [2, 3]).value.shape == (2,)
    assert "1" in numbers
    assert 1 in texts
    assert "01" not in numbers
    assert True not in numbers


def test_what_is_said_stays_text(tmp_path: Path) -> None:
    made = publish(PEOPLE, Plan.of("randomized-response", Budget(1.2345678901), n_attributes=40))
    said = "<img src=x onerror=alert(1)> [here](javascript:1) **NOT PRIVATE** &#8238; `x`\n\n# Another title"
    text = (made.save(tmp_path / "release", title=said, note=said) / README).read_text()
    for sign in ("<img", "[here]", "**NOT", "&#", "`x`", "\n# Another"):
        assert sign not in text.replace("\\" + sign[0], "")
    assert "epsilon = 1.2345678901 " in text


@pytest.mark.parametrize("sign", ["\x1b", "\x00", "\x9b", "\u202e", "\u2028"])
def test_signs_that_a_terminal_obeys_are_refused_in_manifests(sign: str) -> None:
    with pytest.raises(ParameterError, match="Remove control characters"):
        AboutRelease.of(title=f"a{sign}b", publisher=None, note=None, date="2020-02-02")
    with pytest.raises(ValueError, match="pattern"):  # as others may have written it
        AboutRelease(title=f"a{sign}b", date="2020-02-02")
    assert AboutRelease(title="Größe 大\n🙂", date="2020-02-02").title


def test_every_readme_names_the_columns_that_there_are(tmp_path: Path) -> None:
    path = release_of("noisy-distances").save(tmp_path / "release")
    (part,) = (path / "sketches").iterdir()
    assert pq.read_schema(part).names == ["user", "sketch"]
    assert "`user` and `sketch`" in (path / README).read_text()


def test_a_release_and_its_copies_are_not_combined(tmp_path: Path) -> None:
    made = publish(PEOPLE, Plan.of("randomized-response", Budget(2.0), n_attributes=40))
    first, second = (open_release(made.save(tmp_path / title, title=title)) for title in ("a", "b"))
    for pair in ((first, second), (made, first), (second, made)):
        with pytest.raises(ParameterError, match="two are the same: they share their noise"):
            combine(pair, distance=3.0)
