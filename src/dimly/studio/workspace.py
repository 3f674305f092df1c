"""The releases, ledgers and samples that are open, each once for all tabs; layers of their maps."""

import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from starlette.responses import Response

from dimly.analyst.release import Release
from dimly.analyst.segments.segments import Count, Segments
from dimly.analyst.structure.plane import Plane, plane_of
from dimly.curator.ledger.ledger import Ledger
from dimly.errors import ReleaseError
from dimly.release.format import text_ids
from dimly.release.manifest import Manifest
from dimly.release.reader import StoredSketches, open_folder
from dimly.studio.background_work import Job
from dimly.studio.point_map import Bytes, MapData

_MOST_LAYERS: Final = 12  # of colors, of one release
_MOST_VALUES: Final = 1 << 30  # bytes of published numbers that are held in memory, so that clicks are answered at once
_INTEGER: Final = re.compile(r"-?[0-9]{1,19}")
_MOST_LISTED: Final = 200  # characters of a name on the page


@dataclass(eq=False)
class OpenedRelease:
    """A release that is open, and what was found out about it so far."""

    path: Path
    sketches: StoredSketches
    key: str
    jobs: dict[str, Job[Any]] = field(default_factory=dict)
    layers: "OrderedDict[str, bytes]" = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self.release = Release(self.sketches, vocabulary=self.sketches.vocabulary)

    @property
    def name(self) -> str:
        """What it is called on the page: its folder's name."""
        return self.path.name[:_MOST_LISTED]

    @property
    def manifest(self) -> Manifest:
        """What it says of itself."""
        return self.sketches.manifest

    def check(self) -> None:
        """Refuse a release that vanished, or is no longer what was opened.

        Raises
        ------
        ReleaseError
            Saying which.
        """
        if not (self.path / "manifest.json").is_file():
            raise ReleaseError(f"{self.name} is no longer there: its folder was moved or deleted. Open it again.")
        self.sketches.check_footers()

    def job(self, name: str, work: Callable[[Job[Any]], Any]) -> Job[Any]:
        """Return the job of that name: the one under way or done, for all tabs, or a new one if the last one failed."""
        with self._lock:
            found = self.jobs.get(name)
            if found is None or found.error is not None:
                found = self.jobs[name] = Job(work)
            return found

    def map_job(self) -> "Job[DrawnRelease]":
        """Return the job that reads the release and places everybody on a map."""
        return self.job("map", self._drawn)

    def segments_job(self, count: Count) -> Job[Segments]:
        """Return the job that looks for so many segments."""

        def work(job: Job[Segments]) -> Segments:
            self.check()
            job.phase("looking for groups")
            return self.release.segments(count, progress=job.reach)

        return self.job(f"segments {count}", work)

    def _drawn(self, job: "Job[DrawnRelease]") -> "DrawnRelease":
        self.check()
        job.phase("reading the release")
        if self.manifest.n_users * self.sketches.plan.bytes_per_user <= _MOST_VALUES:
            _ = self.sketches.values
        _ = self.sketches.users
        job.phase("telling noise from structure")
        _ = self.release.denoiser
        job.phase("drawing the map")
        plane = plane_of(self.release, progress=job.reach)
        data = MapData.of(plane)
        return DrawnRelease(plane, data, data.encoded())

    def add_layer(self, colors: Bytes, data: MapData) -> str:
        """Keep colors for the page to fetch, and return their address."""
        drawn = data.colors_drawn(colors)
        name = f"colors-{hashlib.sha256(drawn).hexdigest()[:16]}"
        with self._lock:
            self.layers[name] = drawn
            while len(self.layers) > _MOST_LAYERS:
                self.layers.popitem(last=False)
        return f"/studio/map/{self.key}/{name}"


@dataclass(frozen=True, eq=False)
class DrawnRelease:
    """A release on a map."""

    plane: Plane
    data: MapData
    encoded: bytes


class Workspace:
    """All that is open. Shared by all tabs."""

    def __init__(self) -> None:
        self.releases: dict[str, OpenedRelease] = {}
        self.ledgers: dict[str, Ledger] = {}
        self.sample: str | None = None

    def open_release(self, path: str | Path) -> OpenedRelease:
        """Open a release, or return the one that is open already.

        Raises
        ------
        ReleaseError
            If it is none, or not whole.
        """
        folder = Path(path).expanduser().absolute()
        sketches = open_folder(folder)
        key = hashlib.sha256(f"{folder}\0{sketches.manifest.release}".encode()).hexdigest()[:16]
        if key not in self.releases:
            self.releases[key] = OpenedRelease(folder, sketches, key)
        return self.releases[key]

    def open_ledger(self, path: str | Path) -> Ledger:
        """Open a ledger, to read."""
        found = Ledger(Path(path).expanduser())
        self.ledgers[str(found.path)] = found
        return found

    def release_names(self) -> dict[str, str]:
        """Return the releases by key, with names that differ."""
        names: dict[str, str] = {}
        for key, one in self.releases.items():
            taken = one.name in names.values()
            names[key] = f"{one.path.parent.name}/{one.name}" if taken else one.name
        return names

    def map_response(self, key: str, name: str) -> Response:
        """Return what the page draws of a release: ``points``, or colors by name."""
        opened = self.releases.get(key)
        content: bytes | None = None
        if opened is not None and name == "points":
            job = opened.jobs.get("map")
            content = job.found.encoded if job is not None and job.is_done and job.error is None else None
        elif opened is not None:
            content = opened.layers.get(name)
        if content is None:
            return Response("There is no such map.", status_code=404, media_type="text/plain")
        return Response(content, media_type="application/octet-stream", headers={"cache-control": "no-store"})


def as_ids(opened: OpenedRelease, texts: NDArray[Any]) -> NDArray[np.int64]:
    """Return where ids that were written as text are in a release; −1 for those who are not in it."""
    sketches = opened.sketches
    if sketches.textual:
        return sketches.locate(text_ids(map(str, texts)))
    numbers, places = [], []
    for i, one in enumerate(texts):
        text = str(one).strip()
        if _INTEGER.fullmatch(text) and abs(int(text)) < 2**63:
            numbers.append(int(text))
            places.append(i)
    found = np.full(len(texts), -1, np.int64)
    found[places] = sketches.locate(np.array(numbers, np.int64))
    return found
