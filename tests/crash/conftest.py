"""Scenes for runs that end badly; what is large is made once for each process of the tests."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.crash.scenes import Inputs, Scene, parts_as_in_scenes


@pytest.fixture(autouse=True)
def _parts() -> Iterator[None]:
    with parts_as_in_scenes():
        yield


@pytest.fixture(scope="session")
def workshop() -> Iterator[Path]:
    """Return a folder that is removed at once: pytest would keep hundreds of megabytes of three runs."""
    with tempfile.TemporaryDirectory(prefix="dimly-crash-") as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def inputs(workshop: Path) -> Inputs:
    """Return the plan and the tables."""
    folder = workshop / "inputs"
    folder.mkdir()
    return Inputs.make(folder)


@pytest.fixture
def scene(workshop: Path, inputs: Inputs) -> Iterator[Scene]:
    """Return a scene with an empty ledger and no release."""
    with tempfile.TemporaryDirectory(dir=workshop) as folder:
        yield Scene(Path(folder), inputs)


@pytest.fixture(scope="session")
def published(workshop: Path, inputs: Inputs) -> "Published":
    """Publish the table, undisturbed."""
    return _publish(workshop / "published", inputs)


@pytest.fixture(scope="session")
def widely_published(workshop: Path, inputs: Inputs) -> "Published":
    """Publish the table by the wide plan, undisturbed."""
    published = _publish(workshop / "widely", inputs, wide=True)
    assert len(list((published.release / "sketches").iterdir())) == 2
    return published


@pytest.fixture
def published_scene(workshop: Path, published: "Published", inputs: Inputs) -> Iterator[Scene]:
    """Return a scene with a release, and its charge in the ledger."""
    with tempfile.TemporaryDirectory(dir=workshop) as name:
        folder = Path(name)
        shutil.copyfile(published.ledger, folder / "ledger.db")
        scene = Scene(folder, inputs)
        shutil.copytree(published.release, scene.target)
        yield scene


@dataclass(frozen=True, slots=True)
class Published:
    """A release, its id and ledger, and how long the command took from the first sign of it to its end."""

    release: Path
    id: str
    ledger: Path
    seconds: float


def _publish(folder: Path, inputs: Inputs, *, wide: bool = False) -> Published:
    folder.mkdir()
    scene = Scene(folder, inputs)
    with scene.start(out=scene.target, wide=wide) as run:
        run.wait_for("staging")
        begun = time.monotonic()
        ended = run.result()
        seconds = time.monotonic() - begun
    assert ended.code == 0, ended.err
    assert scene.leftovers() == []
    with parts_as_in_scenes():
        (found,) = scene.releases().values()
    return Published(scene.target, found, scene.ledger, seconds)
