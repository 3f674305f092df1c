"""Scenes for runs that end badly; what is large is made once for each process of the tests."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.crash.scenes import Inputs, Scene, copy_release


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


@dataclass(frozen=True, slots=True)
class Published:
    """A release, its ledger, and how long the command took from the first sign of it to its end."""

    release: Path
    ledger: Path
    seconds: float

    def scene(self, folder: Path, inputs: Inputs) -> Scene:
        """Return a scene in which this release was published."""
        shutil.copyfile(self.ledger, folder / "ledger.db")
        scene = Scene(folder, inputs)
        copy_release(self.release, scene.target)
        return scene


@pytest.fixture(scope="session")
def published(workshop: Path, inputs: Inputs) -> Published:
    """Publish the table, undisturbed."""
    folder = workshop / "published"
    folder.mkdir()
    scene = Scene(folder, inputs)
    with scene.start(out=scene.target) as run:
        run.wait_for("staging")
        begun = time.monotonic()
        ended = run.result()
        seconds = time.monotonic() - begun
    assert ended.code == 0, ended.err
    assert scene.leftovers() == []
    assert len(list((scene.target / "sketches").iterdir())) == 2
    return Published(scene.target, scene.ledger, seconds)


@pytest.fixture
def published_scene(workshop: Path, published: Published, inputs: Inputs) -> Iterator[Scene]:
    """Return a scene with a release, and its charge in the ledger."""
    with tempfile.TemporaryDirectory(dir=workshop) as folder:
        yield published.scene(Path(folder), inputs)
