"""``Report``: all figures of ``dimly report``, computed from a release."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dimly.analyst.release import Release
from dimly.analyst.segments.segments import Count, Segments
from dimly.analyst.structure.plane import SegmentMap, map_of
from dimly.curator.options import Progress, Silence
from dimly.display import percent
from dimly.errors import ParameterError
from dimly.lab.report.acuity import Acuity, Distances, SeenDistance, acuity_of, distances_of, reach_of
from dimly.lab.report.officer import checks, guesses, limits, promise
from dimly.lab.report.shown_people import ShownPeople, sample_of
from dimly.release.documents.profiles_file import Profiles
from dimly.release.manifest import Manifest
from dimly.release.reader import StoredSketches, open_folder

MOST_NAMED = 4  # attributes of a segment
SHOWN_STEPS = (1, 2, 5)  # times powers of ten: squared distances that are listed


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """What a report says. Make one with :func:`report_of`; :func:`~dimly.lab.report.page.page_of` writes it.

    The same release gives the same report. It holds no user id.

    Attributes
    ----------
    manifest : Manifest
    sample : ShownPeople
        Whom it looked at.
    acuity : Acuity
        What theory says of errors.
    distances : Distances or None
        Of random pairs; None where there is no pair.
    reach : float
        Squared distance up to which it is worth looking.
    segments : Segments or None
        Of everybody, numbered anew. None where distances alone are published, or nobody is left to look at.
    map : SegmentMap or None
        None where there is nothing to be seen.
    profiles : Profiles or None
        Noisy counts of attributes in these segments, if they were given.
    """

    manifest: Manifest
    sample: ShownPeople
    acuity: Acuity
    distances: Distances | None
    reach: float
    segments: Segments | None
    map: SegmentMap | None
    profiles: Profiles | None = None

    @property
    def traits(self) -> list[str] | None:
        """What the people of each segment have in common, in words; None where nothing tells of attributes."""
        found = self.segments
        if found is None or len(found) == 1:
            return None
        if self.profiles is not None:
            told = (self.profiles.telling(segment, MOST_NAMED) for segment in range(len(found)))
            return [", ".join(map(_trait, one)) or "nothing beyond noise" for one in told]
        return [one.words for one in found.describe(most=MOST_NAMED)] if found.is_described else None

    @property
    def rungs(self) -> list[float]:
        """Squared distances from 0 to the reach, each told apart from the one before."""
        return self.acuity.rungs(self.reach)

    @property
    def seen(self) -> list[SeenDistance]:
        """What is to be seen of round squared distances, and of the average one of the release."""
        listed = {0.0} | {float(m * 10**e) for e in range(10) for m in SHOWN_STEPS if self.reach / 30 <= m * 10**e}
        shown = {distance for distance in listed if distance <= self.reach}
        if self.distances is not None and 0 < self.distances.mean <= self.reach:
            shown.add(self.distances.mean)
        return self.acuity.seen(sorted(shown))

    def to_dict(self) -> dict[str, Any]:
        """Return what it says, ready for JSON."""
        manifest, plan, found = self.manifest, self.manifest.plan, self.distances
        return {
            "release": manifest.release,
            "plan_digest": manifest.plan_digest,
            "private": manifest.private,
            "epsilon": plan.cost.epsilon,
            "delta": plan.cost.delta,
            "unit": plan.unit,
            "measure": plan.measured,
            "ledger": None if manifest.ledger is None else manifest.ledger.dataset,
            "users": manifest.n_users,
            "bytes": manifest.bytes,
            "promise": list(promise(manifest)),
            "limits": list(limits(manifest)),
            "checks": list(checks(manifest)),
            "guesses": [
                {
                    "together": one.several,
                    "delta": one.delta,
                    "right": {str(prior): bound for prior, bound in one.right.items()},
                }
                for one in guesses(plan)
            ],
            "looked_at": self.sample.looked_at,
            "saturated": self.sample.saturated,
            "told_apart": self.rungs,
            "errors": [{"distance": one.distance, "stderr": one.stderr, "told_from": one.apart} for one in self.seen],
            "distances": None
            if found is None
            else {
                "pairs": len(found.values),
                "mean": found.mean,
                "mean_may_be_off_by": found.mean_error,
                "deviation": found.spread,
                "deviation_of_noise": found.noise,
                "deviation_of_people": found.people,
            },
            "structure": self._structure(),
            "segments": self._segments(),
        }

    def _structure(self) -> dict[str, Any] | None:
        if self.segments is None:
            return None
        structure = self.segments.structure
        return {"components": structure.components, "share": structure.share, "words": structure.words}

    def _segments(self) -> dict[str, Any] | None:
        found = self.segments
        if found is None:
            return None
        return {
            "count": len(found),
            "sizes": found.sizes.tolist(),
            "stability": found.stability,
            "activity": found.activity,
            "words": found.words,
            "stabilities": {str(number): value for number, value in found.stabilities.items()},
            "traits": self.traits,
            "profiles": [profile.to_dict() for profile in found.describe()] if found.is_described else None,
        }


def _trait(one: tuple[str, float, float]) -> str:
    name, share, others = one
    return f"{name} ({percent(min(max(share, 0.0), 1.0))}, others {percent(min(max(others, 0.0), 1.0))})"


def report_of(
    release: str | Path | StoredSketches,
    *,
    count: Count = "auto",
    profiles: Profiles | None = None,
    progress: Progress | None = None,
) -> Report:
    """Return a report on a release folder.

    Distances and the map are of all of up to 65,536 people, and of as many of more; fewer where each has thousands of
    numbers. Segments are of everybody: those of :meth:`Release.segments` with the same ``count``.

    Parameters
    ----------
    release : path or StoredSketches
    count : int or "auto", default="auto"
        How many segments to look for; "auto" finds out, which takes most of the time.
    profiles : Profiles, optional
        What people of the segments have in common, counted by a survey.
    progress : Progress, optional

    Raises
    ------
    ReleaseError
        If it is not a release, or not whole.
    ParameterError
        If there are fewer people than segments, or profiles are of others.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa
    >>> from dimly.api import publish
    >>> from dimly.curator.ledger.ledger import Ledger
    >>> from dimly.mechanisms import Plan
    >>> from dimly.privacy import Budget
    >>> visits = pa.table({"person": [1, 1, 2, 3], "place": ["mill", "harbor", "mill", "square"]})
    >>> plan = Plan.of("counting+laplace", Budget(2.0), k=64)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger, out = f"{folder}/ledger.db", f"{folder}/release"
    ...     Ledger.create(ledger).add_dataset("visits", epsilon=4.0)
    ...     columns = {"user": "person", "attribute": "place", "roster": [1, 2, 3]}
    ...     _ = publish(visits, plan, **columns, out=out, ledger=ledger, dataset="visits")
    ...     found = report_of(out)
    >>> found.segments.structure.words
    'no structure beyond what independent attributes would show'
    """
    watch = progress or Silence()
    sketches = release if isinstance(release, StoredSketches) else open_folder(release)
    if profiles is not None and profiles.plan.release != sketches.manifest.release:
        raise ParameterError(
            "profiles must be of segments of this release, got those of another. Make segments of this one by dimly "
            "segments, and profiles by dimly survey --by."
        )
    if profiles is not None and profiles.private != sketches.manifest.private:
        raise ParameterError(
            "profiles must be private if the release is, and one of them was made for tests. Leave profiles out."
        )
    watch.phase("reading")
    sample = sample_of(sketches, progress=watch)
    watch.phase("estimating distances")
    people = sample.release
    distances = distances_of(people)
    acuity = acuity_of(people)
    segments, found = None, None
    if sample.places_people and len(people) > 1:
        watch.phase("looking for structure")
        # Of everybody, as release.segments and dimly segments find them, but for their ids.
        asked = Release(sketches)
        whole = asked.segments(count)
        if profiles is not None:
            whole = _profiled(asked, whole, count, profiles)
        segments = replace(whole, users=np.arange(len(sketches)))
        found = map_of(people, segments, positions=sample.positions)
    return Report(sketches.manifest, sample, acuity, distances, reach_of(acuity, distances), segments, found, profiles)


def _profiled(release: Release, found: Segments, count: Count, profiles: Profiles) -> Segments:
    """Return the segments that profiles are of: those that were found, or as many as were profiled."""
    n_profiled = len(profiles.sizes)
    if count == "auto" and not np.array_equal(found.sizes, profiles.sizes) and n_profiled <= len(release):
        found = release.segments(n_profiled)
    if not np.array_equal(found.sizes, profiles.sizes):
        raise ParameterError(
            f"profiles must be of the segments of this report, got {n_profiled} segments of other people. Make them "
            "again: dimly segments with the same count, then dimly survey --by."
        )
    return found
