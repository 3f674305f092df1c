"""``open_release`` and ``Release``: distances, norms, cosine, Jaccard, neighbors, segments, maps.

A question loads what it needs when it is asked: distances take a fraction of the time that loading all the rest does.
"""

import importlib
import os
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dimly.analyst.estimate import (
    Arrays,
    Estimate,
    Vector,
    choose,
    exactly,
    own_steps,
    scalar,
    symmetric,
    unknown,
    within_one,
)
from dimly.analyst.export.exports import Alias, Exports
from dimly.analyst.intervals import distance_skewness, inverted, quadratic
from dimly.analyst.pairs import (
    ChosenSide,
    ComparedPairs,
    Pairs,
    Published,
    Reader,
    Who,
    Whom,
    at_limit,
    check_lengths,
    chosen,
    compared,
    cosine_of,
    distance_variance,
    is_one,
    jaccard_of,
    like_input,
    located,
    positions_of,
    reader_of,
    saturated,
)
from dimly.display import Shown
from dimly.errors import ParameterError, also_called
from dimly.mechanisms.error.models import Floats
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.plan_kinds import DirectionsPlan
from dimly.mechanisms.projection.directions import Directions
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.progress import OnProgress, progress_bar
from dimly.release.manifest import AboutRelease
from dimly.release.reader import open_folder
from dimly.release.sketches import Sketches
from dimly.release.writer import save_sketches

if TYPE_CHECKING:
    from dimly.analyst.export.exported_points import Exported
    from dimly.analyst.likelihood.search import Method
    from dimly.analyst.neighbors.expected_precision import StandIns
    from dimly.analyst.neighbors.graph import Engine
    from dimly.analyst.neighbors.index import Index
    from dimly.analyst.neighbors.query import Neighbors
    from dimly.analyst.neighbors.spaces import Metric
    from dimly.analyst.segments.segments import Activity, Count, Segments
    from dimly.analyst.structure.coordinates import Points
    from dimly.analyst.structure.denoise import Denoised, Denoiser
    from dimly.analyst.structure.parallel_analysis import Structure

_MOST_IN_A_MATRIX = 3_000


class Release:
    """What an analyst can tell from published numbers. Users are always named by their ids.

    Methods that take a user also take a :class:`Vector` of the analyst's own, or a list of users (then the answer holds
    arrays). Distances and norms are squared. Nothing is known about somebody with a saturated number (see
    docs/error-theory.md): the value is NaN, and the interval holds everything.

    Parameters
    ----------
    sketches : Sketches or StoredSketches
        In memory, or in a folder.
    vocabulary : iterable of attributes, optional
        The plan's listed vocabulary, where it has one; needed for :meth:`project` and :meth:`attribute` only.

    Examples
    --------
    >>> import numpy as np
    >>> from dimly.api import publish
    >>> from dimly.mechanisms import Plan
    >>> from dimly.privacy import Budget
    >>> people = np.random.default_rng(0).random((20, 500)) < 0.3
    >>> release = publish(people, Plan.of("counting+laplace", Budget(8.0), k=256))
    >>> estimate = release.distance(0, 1)
    >>> estimate.low <= estimate.value <= estimate.high, 7 in release, len(release)
    (True, True, 20)
    """

    def __init__(self, sketches: Published, *, vocabulary: Iterable[object] | None = None) -> None:
        if isinstance(sketches, str | os.PathLike):
            raise ParameterError(
                "Release must be made of published sketches, got a path. Call dimly.open_release(path)."
            )
        self._sketches = sketches
        self._attributes = vocabulary
        self._reader: Reader | None = reader_of(sketches.plan)

    @property
    def plan(self) -> Plan:
        """The plan that the release was made by."""
        return self._sketches.plan

    @property
    def users(self) -> NDArray[Any]:
        """Ids of the people in the release, in ascending order."""
        return self._sketches.users

    @property
    def values(self) -> NDArray[Any]:
        """The published numbers, as :class:`~dimly.release.Sketches` lays them out."""
        return self._sketches.values

    @property
    def private(self) -> bool:
        """Whether the noise came from a fresh secret keystream, as far as the publisher's software says."""
        return self._sketches.private

    @property
    def guarantee(self) -> str:
        """What is promised, and what is not, in words."""
        from dimly.analyst.export.exported_points import promise

        return promise(self._sketches)

    @property
    def directions(self) -> Directions | None:
        """The public directions that people are published along; None for other mechanisms.

        ``release.directions.describe()`` names the attributes that count most at both ends of each.
        """
        return self._sketches.directions

    def __len__(self) -> int:
        return len(self._sketches)

    def __contains__(self, user: object) -> bool:
        if isinstance(user, bool) or not isinstance(user, int | str | np.integer):
            return False
        try:
            return bool((located(self._sketches, user)[1] >= 0).all())
        except ParameterError:  # of another type
            return False

    def __repr__(self) -> str:
        return repr(self._sketches).replace("Sketches", "Release", 1)

    def _repr_html_(self) -> str:
        plan = self.plan
        rows = [
            ("people", f"{len(self):,}"),
            ("mechanism", plan.mechanism + (f", k = {plan.k:,}" if plan.k else "")),
            ("epsilon", f"{plan.cost.epsilon:g}"),
            ("delta", f"{plan.cost.delta:g}"),
            ("unit", plan.unit),
            ("plan digest", plan.digest),
        ]
        stamp = [] if self.private else ["NOT PRIVATE: made for tests only; must not be given to anyone."]
        return Shown("Release", [*stamp, *self.guarantee.splitlines()[:2]], ("", ""), rows).html()

    def distance(self, a: Who, b: Who, *, confidence: float = 0.95, method: "Method" = "unbiased") -> Estimate[float]:
        """Return the squared distance between two people.

        For bits it is the number of attributes in which they differ. In a release along directions it is the squared
        distance *along the directions* only. See :meth:`distances` for ``method``.
        """
        if not is_one(a, b):
            raise ParameterError("distance takes one user on each side. Use distances for several.")
        return scalar(self.distances(a, b, confidence=confidence, method=method))

    def distances(self, a: Whom, b: Whom, *, confidence: float = 0.95, method: "Method" = "unbiased") -> Arrays:
        """Return the squared distances of pairs: two lists of the same length, or one user and a list.

        ``method="likelihood"``, for counting and hashing on bits, has smaller errors, above all at a large k: see
        docs/likelihood.md. Its estimates are never negative, and therefore too large on average for the nearest pairs.

        Examples
        --------
        ``release.distances([0, 5], [1, 9])`` is about the pairs (0, 1) and (5, 9).
        """
        if method != "unbiased":
            from dimly.analyst.likelihood.search import check_method

            check_method(method, self.plan)
        if self._reader is None:
            return self._published_distances(a, b, confidence)
        return self._named(self._distance_estimate(self._compare(a, b), confidence, method), "squared distance")

    def distance_matrix(self, users: ArrayLike | None = None, *, confidence: float = 0.95) -> Arrays:
        """Return the squared distances of all pairs of a small set of users (all of them by default).

        Four numbers of each pair are kept in memory: 0.3 GB for three thousand people. See :meth:`neighbor_graph` for
        the nearest people of everybody.
        """
        positions = np.arange(len(self)) if users is None else self._positions(users)
        n = len(positions)
        if n > _MOST_IN_A_MATRIX:
            raise ParameterError(f"users must be at most {_MOST_IN_A_MATRIX} for a matrix, got {n}. Use distances.")
        if self._reader is None:
            rows, columns = np.meshgrid(positions, positions, indexing="ij")
            return self._condensed(rows, columns, confidence)
        whole = ChosenSide(self._sketches, positions)
        side = whole.cut(slice(None))
        pairs = self._reader.pairs(self._reader.gram(side, side), side, side)
        same = positions[:, None] == positions[None, :]
        lost = saturated(side)
        found = self._distance_estimate(ComparedPairs(whole, whole, pairs, same, lost[:, None] | lost), confidence)
        return self._named(found, "squared distance")

    def inner_product(self, a: Whom, b: Whom, *, confidence: float = 0.95) -> Estimate[Any]:
        """Return the inner product of two people; for bits the number of attributes that they share.

        Along directions it may be negative.
        """
        x, y, pairs, same, lost = self._compare(a, b)
        if not x.noisy:
            return like_input(self._named(exactly(pairs.inner_product), "inner product"), a, b)
        norms = pairs.possible_norms
        variance = quadratic(lambda c: self.plan.error.inner_product(norms, c, one_sided=not y.noisy))
        if self._directed:
            found = symmetric(pairs.inner_product, variance(pairs.inner_product), confidence)
        else:
            found = inverted(pairs.inner_product, variance, confidence, largest=min(self._largest, y.total))
        if same.any():  # with oneself it is the squared norm
            found = choose(same, self._norm_estimate(pairs.squared_norm_x, confidence), found)
        least = -np.inf if self._directed else 0.0
        found = choose(lost, unknown(lost.shape, self._largest, least=least), found)
        return like_input(self._named(found, "inner product"), a, b)

    def norm(self, a: Whom, *, confidence: float = 0.95) -> Estimate[Any]:
        """Return the squared norm of one person; for bits the number of attributes. Along directions, of the sums."""
        self._need_reader("norms")
        x, _, pairs, _, lost = self._compare(a, self.project({}))
        value = pairs.squared_norm_x
        if not x.noisy:
            return like_input(self._named(exactly(value), "squared norm"), a)
        found = choose(lost, unknown(lost.shape, self._largest), self._norm_estimate(value, confidence))
        return like_input(self._named(found, "squared norm"), a)

    def cosine(self, a: Whom, b: Whom, *, confidence: float = 0.95) -> Estimate[Any]:
        """Return the cosine of two people, ⟨x, y⟩/(‖x‖‖y‖): a plug-in, biased where norms are uncertain.

        NaN, with every cosine possible, where a squared norm is estimated at zero or below. Along directions, which
        have signs, it is from −1 to 1, else from 0.
        """
        x, y, pairs, same, lost = self._compare(a, b)
        least = -1.0 if self._directed else 0.0
        joint = partial(self.plan.error.joint, pairs.possible_norms, one_sided=not y.noisy) if x.noisy else None
        found = cosine_of(pairs, joint, confidence, least=least)
        found = choose(lost, unknown(lost.shape, 1.0, least=least), found)
        found = choose(same, exactly(np.ones_like(found.value)), found)
        return like_input(self._named(found, "cosine"), a, b)

    def jaccard(self, a: Whom, b: Whom, *, confidence: float = 0.95) -> Estimate[Any]:
        """Return the Jaccard similarity of two people, shared over all attributes: a plug-in; bits only.

        The interval is Fieller's, for a ratio of two estimates with known covariances. NaN, with every similarity
        possible, where the number of all attributes is estimated at zero or below. Two empty sets are alike.
        """
        self._need_bits("Jaccard similarity")
        x, y, pairs, same, lost = self._compare(a, b)
        found = jaccard_of(pairs, self._joint(pairs, y) if x.noisy else None, confidence)
        found = choose(lost, unknown(lost.shape, 1.0), found)
        return like_input(choose(same, exactly(np.ones_like(found.value)), found), a, b)

    def hamming(self, a: Whom, b: Whom, *, confidence: float = 0.95) -> Estimate[Any]:
        """Return the number of attributes in which two people differ; bits only."""
        self._need_bits("Hamming distance")
        return like_input(self.distances(a, b, confidence=confidence), a, b)

    def attribute(self, user: Whom, attribute: object, *, confidence: float = 0.95) -> Estimate[Any]:
        """Return one attribute of one person. How much this can tell is what the promise bounds: see its interval."""
        self._need_reader("attributes")
        if self._directed:
            raise ParameterError(
                "directions say nothing about single attributes. Ask for distances, segments or neighbors."
            )
        if not isinstance(attribute, Hashable):
            raise ParameterError(
                f"attribute must be one attribute, got {type(attribute).__name__}. Ask for each alone."
            )
        x, _, pairs, _, lost = self._compare(user, self.project({attribute}))
        value = pairs.inner_product
        if not x.noisy:
            return like_input(exactly(value), user)
        variance = self.plan.error.attribute(pairs.possible_norms[0], np.clip(value, 0.0, 1.0))
        found = within_one(value, np.sqrt(variance), confidence)
        return like_input(choose(lost, unknown(lost.shape, 1.0), found), user)

    @cached_property
    def denoiser(self) -> "Denoiser":
        """The map that shrinks noise; fitted to the whole release when it is first asked for."""
        from dimly.analyst.disk_cache import denoiser_of

        return denoiser_of(self._sketches)

    @cached_property
    def structure(self) -> "Structure":
        """How far attributes go together, beyond chance; found when it is first asked for."""
        from dimly.analyst.disk_cache import structure_kept
        from dimly.analyst.structure.parallel_analysis import structure_of

        return structure_kept(self._sketches, structure_of)

    @cached_property
    def _stand_ins(self) -> "StandIns":
        from dimly.analyst.neighbors.expected_precision import StandIns

        return StandIns.of(self)

    def denoised(self) -> "Denoised":
        """Return everybody's point with its noise shrunk: to rank and to cluster by, not to measure distances."""
        from dimly.analyst.structure.denoise import denoised

        return denoised(self._sketches, self.denoiser, self.structure)

    @also_called(k="count", n="count", n_clusters="count", n_segments="count")
    def segments(
        self,
        count: "Count" = "auto",
        *,
        denoise: bool = True,
        activity: "Activity" = "auto",
        progress: OnProgress | None = None,
    ) -> "Segments":
        """Return the people in groups, by k-means; the same release gives the same groups.

        Parameters
        ----------
        count : int or "auto", default="auto"
            "auto" looks for up to 12 groups, and finds 1 where there are none. There may be fewer than asked for, if
            people do not differ in as many ways.
        denoise : bool, default=True
            Group denoised points; else the points as they are published, which is mostly worse.
        activity : bool or "auto"
            Whether how active people are may set them apart, or only their taste. "auto": whichever gives the more
            telling groups, of several ways to look at people; see docs/denoising.md. Along directions: points as they
            are published, in the directions that rise above the noise.
        progress : callable or False, optional
            By default a bar in terminals and notebooks, after two seconds; False: none. Else told of
            (people read, people to read in all passes).
        """
        from dimly.analyst.segments.segments import segments_of

        with progress_bar(progress, "finding segments") as watching:
            return segments_of(self, count, denoise=denoise, activity=activity, progress=watching)

    @also_called(k="n", count="n", n_neighbors="n", top="n", user="who", users="who")
    def neighbors(
        self,
        who: Who,
        n: int | None = None,
        *,
        metric: "Metric" = "euclidean",
        denoise: bool = True,
        progress: OnProgress | None = None,
    ) -> "Neighbors":
        """Return the n nearest people of a user, who is not among them, or of a vector of one's own.

        Reads the release once, in parts.

        Parameters
        ----------
        who : user or Vector
        n : int, optional
            From 1 to the number of other people; 10 by default, or all of them if they are fewer.
        metric : {"euclidean", "cosine", "jaccard"}
            Jaccard for bits only.
        denoise : bool, default=True
            Rank by denoised points, which mostly finds more of the true neighbors; else by the points as they are
            published, as a search on exported points does. Noisy distances are never denoised.
        progress : callable or False, optional
            By default a bar in terminals and notebooks, after two seconds; False: none. Else told of
            (people done, people in all).

        Raises
        ------
        ParameterError
            If n or the metric cannot be, or the user is not in the release.
        ReleaseError
            If a file was changed since the release was opened, or does not hold what it must.
        """
        from dimly.analyst.neighbors.query import nearest_to

        with progress_bar(progress, "searching") as watching:
            return nearest_to(self, who, n, metric=metric, denoise=denoise, progress=watching)

    def index(self, *, recall: float = 0.95, denoise: bool = True, progress: OnProgress | None = None) -> "Index":
        """Return an index, for many questions about neighbors among millions: approximate, without reading everybody.

        Making it reads the release once or twice, takes about as much memory as two copies of the published numbers,
        and is worth it from a million people on. It is kept in the cache folder, if the release is on disk.

        Parameters
        ----------
        recall : float, default=0.95
            Part of the exact search's ten nearest to find, in (0, 1). What it came to, measured on other people, is
            ``recall`` of the index and of its answers.
        denoise : bool, default=True
            As of :meth:`neighbors`.
        progress : callable or False, optional
            As of :meth:`neighbors`.

        Examples
        --------
        ``release.index().neighbors("ada", n=5)``

        Raises
        ------
        ParameterError
            For noisy distances, for fewer than two people, and if recall cannot be.
        """
        from dimly.analyst.neighbors.index import index_of

        with progress_bar(progress, "making an index") as watching:
            return index_of(self, denoise=denoise, recall=recall, progress=watching)

    @also_called(k="n", count="n", n_neighbors="n")
    def neighbor_graph(
        self,
        n: int = 10,
        *,
        metric: "Metric" = "euclidean",
        denoise: bool = True,
        engine: "Engine" = "auto",
        progress: OnProgress | None = None,
    ) -> "Neighbors":
        """Return the n nearest people of everybody, exactly; all pairs are compared, on all cores.

        Holds the published numbers in memory, and of each person what it returns: 40 bytes for each neighbor.

        Parameters
        ----------
        n, metric, denoise
            As of :meth:`neighbors`.
        engine : {"auto", "tiles", "faiss"}
            All three are our own tiles. FAISS's flat index finds the same people and was measured to take six times as
            long (100,000 people, k = 256: 98 s against 16 s); "faiss" is still taken, and needs no FAISS.
        progress : callable or False, optional
            By default a bar in terminals and notebooks, after two seconds; False: none. Else told of
            (people done, people in all).

        Raises
        ------
        ParameterError
            If n, the metric or the engine cannot be.
        """
        from dimly.analyst.neighbors.graph import graph_of

        with progress_bar(progress, "comparing everybody") as watching:
            return graph_of(self, n, metric=metric, denoise=denoise, engine=engine, progress=watching)

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        title: str | None = None,
        publisher: str | None = None,
        note: str | None = None,
    ) -> Path:
        """Write a release that was published in memory as a folder: the same numbers, at no further cost in privacy.

        It is a release folder like any other: ``dimly verify`` checks it, and :func:`dimly.open_release` opens it. No
        ledger is charged here, since nothing new is published.

        Parameters
        ----------
        path : path
            Folder to make.
        overwrite : bool, default=False
            Whether a release that is there is replaced.
        title, publisher, note : str, optional
            What you want to say of it, in its manifest, README and report. Public.

        Returns
        -------
        Path
            Where it is.

        Raises
        ------
        ParameterError
            If it is in a folder already, or the folder cannot be made.
        """
        if not isinstance(self._sketches, Sketches):
            raise ParameterError("save is for a release made in memory, and this one is in a folder. Copy the folder.")
        about = AboutRelease.of(title=title, publisher=publisher, note=note)
        known = None if self.plan.vocabulary is None or self._attributes is None else self.vocabulary
        try:
            return save_sketches(Path(path), self._sketches, vocabulary=known, overwrite=overwrite, about=about)
        except ParameterError as error:  # which speaks of out, as publishing calls it
            refusal = ParameterError(str(error).replace("out must", "path must", 1))
        raise refusal

    def plot_map(self, *, color: Any = "segments", count: "Count" = "auto", ax: Any = None) -> Any:
        """Draw some people on a map: where they lie in the two directions in which they differ most.

        Parameters
        ----------
        color : "segments", Segments, array_like or None
            What colors them: the segments of the release, segments that you have already, a number for each person in
            the order of :attr:`users`, or nothing.
        count : int or "auto"
            How many segments, if these are to be found.
        ax : Axes, optional
            Of matplotlib; new ones by default.

        Returns
        -------
        Axes
        """
        from dimly.analyst.drawings import draw_map

        return draw_map(self, color, count, ax)

    def plot_distances(self, users: ArrayLike | None = None, *, ax: Any = None) -> Any:
        """Draw estimated squared distances of random pairs, and how far noise alone would spread them.

        Parameters
        ----------
        users : array_like, optional
            Only pairs among these people; of everybody by default.
        ax : Axes, optional

        Returns
        -------
        Axes
        """
        from dimly.analyst.drawings import draw_distances

        return draw_distances(self, None if users is None else self._positions(users), ax)

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        count: "Count" = "auto",
        profiles: Any = None,
        overwrite: bool = False,
        progress: Any = None,
    ) -> Path:
        """Write a page on the release, for the privacy officer and for the analyst; see ``dimly report``.

        Parameters
        ----------
        path : path
            The HTML file to make.
        count : int or "auto"
            How many segments to look for.
        profiles : Profiles or path, optional
            What people of each segment have in common: a file, or what :func:`dimly.survey` returned with ``by``.
        overwrite : bool, default=False
        progress : Progress, optional
            Told how far the work is.
        """
        # The page is made in a room below this one, which it is drawn from; so it is fetched by name, when asked for.
        write = importlib.import_module("dimly.lab.report.page").write_report
        try:
            written: Path = write(
                self, Path(path), count=count, profiles=profiles, overwrite=overwrite, progress=progress
            )
        except ParameterError as error:  # which speaks of output, as commands call it
            refusal = ParameterError(str(error).replace("output must", "path must", 1))
        else:
            return written
        raise refusal

    @property
    def export(self) -> Exports:
        """Everybody as points for other tools: NumPy, pandas, Arrow, Parquet, FAISS, PostgreSQL."""
        return Exports(self)

    to_numpy = Alias(Exports.numpy)
    to_pandas = Alias(Exports.pandas)
    to_arrow = Alias(Exports.arrow)
    to_parquet = Alias(Exports.parquet)
    to_npz = Alias(Exports.npz)
    to_faiss = Alias(Exports.faiss)
    to_pgvector = Alias(Exports.pgvector)

    def point(self, who: Who, *, denoise: bool = False) -> "Points":
        """Return the point of a user, NaN if nothing is known of them, or of a vector of one's own: to search by."""
        return self._exported(denoise).point(who)

    def _exported(self, denoise: bool) -> "Exported":
        from dimly.analyst.export.exported_points import Exported

        return Exported.of(self._sketches, self.denoiser if denoise else None)

    def project(self, attributes: Iterable[object] | Mapping[Any, float]) -> Vector:
        """Return the analyst's own vector: a set of attributes, or a mapping from attributes to values in [0, 1].

        Raises
        ------
        ParameterError
            If values are out of range, or an attribute is not of the plan's closed vocabulary.
        """
        self._need_reader("vectors of one's own")
        steps = own_steps(attributes, resolution=self.plan.resolution)
        names = list(steps)
        plan = self.plan.along(self.directions) if names and self._directed else self.plan
        counts = np.fromiter(steps.values(), np.int64, len(names))
        if plan.vocabulary is not None and names and (self.vocabulary.codes(names) < 0).any():
            raise ParameterError("attributes must be of the plan's vocabulary. Leave out those that are not.")
        if plan.by_position:
            bits = np.zeros(8 * plan.published_shape(1)[1], np.uint8)
            if names:
                bits[self.vocabulary.codes(names)] = 1
            row: NDArray[Any] = np.packbits(bits, bitorder="little")
        else:
            row = plan.exact(names, counts)
        return Vector(row, steps, plan)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The plan's closed vocabulary."""
        if self.plan.vocabulary is None:
            return self.plan.vocabulary_of(self._attributes)  # which refuses
        return self.plan.vocabulary.matching(self._attributes)

    @property
    def _directed(self) -> bool:
        return not self.plan.measures_attributes

    @property
    def _largest(self) -> float:
        return np.inf if self.plan.n_attributes is None else float(self.plan.n_attributes)

    def _compare(self, a: Whom, b: Whom) -> ComparedPairs:
        reader = self._need_reader("inner products")
        return compared(reader, chosen(self._sketches, a), chosen(self._sketches, b))

    def _named(self, found: Arrays, quantity: str) -> Arrays:
        """Return an estimate that says what it is of, where that is not the quantity in all attributes."""
        plan = self.plan
        return replace(found, measure=plan.name_of(quantity)) if isinstance(plan, DirectionsPlan) else found

    def _distance_estimate(self, compared: ComparedPairs, confidence: float, method: "Method" = "unbiased") -> Arrays:
        x, _, pairs, same, lost = compared
        if not x.noisy:  # both are the analyst's own
            return exactly(pairs.squared_distance)
        if method == "unbiased":
            found = self._unbiased(compared, confidence)
        else:
            from dimly.analyst.likelihood.search import most_likely

            found = most_likely(
                compared,
                lambda: self._unbiased(compared, confidence),
                plan=self.plan,
                confidence=confidence,
                largest=self._largest,
            )
        found = choose(lost, unknown(lost.shape, self._largest), found)
        return choose(same, exactly(np.zeros_like(found.value)), found)

    def _unbiased(self, compared: ComparedPairs, confidence: float) -> Arrays:
        y, pairs = compared.y, compared.pairs
        variance = distance_variance(self.plan.error, pairs, one_sided=not y.noisy)
        skewness = distance_skewness(self.plan, sides=1 + y.noisy)
        return inverted(pairs.squared_distance, variance, confidence, largest=self._largest, skewness=skewness)

    def _norm_estimate(self, value: Floats, confidence: float) -> Arrays:
        """Return the squared distance to one's own zero."""
        variance = quadratic(lambda n: self.plan.error.distance(one_sided=True, weights=(n, 0.0))(n))
        skewness = distance_skewness(self.plan, sides=1)
        return inverted(value, variance, confidence, largest=self._largest, skewness=skewness)

    def _joint(self, pairs: Pairs, y: ChosenSide) -> Floats:
        norms = pairs.possible_norms
        most = np.sqrt(norms[0] * norms[1])
        inner = np.clip(pairs.inner_product, -most if self._directed else 0.0, most)
        return self.plan.error.joint(norms, inner, one_sided=not y.noisy)

    def _published_distances(self, a: Whom, b: Whom, confidence: float) -> Arrays:
        if isinstance(a, Vector) or isinstance(b, Vector):
            raise ParameterError("noisy distances hold pairs of published people only. Publish sketches instead.")
        first, second = (chosen(self._sketches, who).positions for who in (a, b))
        assert first is not None  # noqa: S101
        assert second is not None  # noqa: S101
        check_lengths(len(first), len(second))
        first, second = np.broadcast_arrays(first, second)
        return self._condensed(first, second, confidence)

    def _condensed(self, first: NDArray[np.int64], second: NDArray[np.int64], confidence: float) -> Arrays:
        """Look pairs of positions up in the upper triangle; the distance of a person to themselves is 0."""
        same = first == second
        steps = self._sketches.pairs(first.reshape(-1), second.reshape(-1)).reshape(first.shape)
        found = inverted(steps * self.plan.scale, self.plan.error.distance(), confidence, largest=self._largest)
        found = choose(at_limit(steps), unknown(same.shape, self._largest), found)
        return choose(same, exactly(np.zeros(same.shape)), found)

    def _positions(self, users: Any) -> NDArray[np.int64]:
        return positions_of(self._sketches, users)

    def _need_reader(self, what: str) -> Reader:
        if self._reader is None:
            raise ParameterError(f"noisy distances say nothing about {what}. Publish sketches instead.")
        return self._reader

    def _need_bits(self, what: str) -> None:
        if self._directed:
            raise ParameterError(f"{what} is about single attributes: directions say nothing of those. Use distance.")
        if self.plan.resolution != 1:
            raise ParameterError(
                f"{what} is about bits: this release holds values in steps of 1/{self.plan.resolution}."
            )


def open_release(path: str | os.PathLike[str], *, verify: bool = False) -> Release:
    """Open a release folder: its manifest, the footers of its files and its list of attributes are read and checked.

    That proves that the noise which the plan states keeps its budget for the sensitivity which the plan states, and
    that the list is the plan's. Where rows of the projection differ in norm (dasgupta, ternary, gaussian), it does not
    prove again that no row exceeds that sensitivity: ``verify`` does, and so does whatever publishes by the plan.

    Parameters
    ----------
    path : path
    verify : bool, default=False
        Whether to read every file and check it against the manifest, and to prove the plan's sensitivity, too.

    Raises
    ------
    ReleaseError
        If it is not a release, or not whole.
    """
    sketches = open_folder(path, verify=verify)
    return Release(sketches, vocabulary=sketches.vocabulary)
