"""``Sketcher``: the sketch of one person at a time, on a device or in a stream."""

import os
import warnings
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from dimly.curator.people import People
from dimly.curator.perturb import Perturber
from dimly.curator.randomness import Keystream, WordSource
from dimly.errors import DataError, ParameterError, PrivacyWarning
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.plan_kinds import SketchPlan
from dimly.mechanisms.projection.directions import Directions
from dimly.mechanisms.projection.rows import Rows
from dimly.mechanisms.vocabulary import Vocabulary, attribute_text

if TYPE_CHECKING:
    from dimly.curator.publication import PublishOutcome


PathLike = str | os.PathLike[str]
Attributes = Iterable[object] | Mapping[Any, Any]
"""What one person has, or how much of each."""

_NUMBERS: Final[tuple[type, ...]] = (int, float, np.integer, np.floating, np.bool_)
_MOST_ENTRIES: Final = 1 << 24  # of a public vocabulary's rows that are kept


class Sketcher:
    """Makes the published row of one person at a time. It keeps no secret and remembers nobody.

    Every call draws noise from a fresh keystream and forgets it; rows are kept of the public ``vocabulary`` only, never
    of attributes that somebody happened to have. **Every sketch of a person is a release about that person** and
    spends ``plan.cost``: keep the integers, not the attributes, and hand out the same integers if they are asked for
    again. How long a call takes depends on how many attributes there are.

    May be used by several threads, called by a signal handler while it is at work, and pickled.

    Parameters
    ----------
    plan : Plan
        Any but noisy distances.
    vocabulary : iterable, optional
        Public list of attributes; others are left out. Needed if the plan was made with a list.
    directions : Directions or path, optional
        The public directions that the plan was made with; needed if the plan was read from JSON and names some.

    Raises
    ------
    ParameterError
        If the plan is for several people at once, or vocabulary or directions are not the plan's.

    Examples
    --------
    >>> from dimly.privacy import Budget
    >>> sketcher = Sketcher(Plan.of("counting+laplace", Budget(1.0), k=8))
    >>> sketch = sketcher.sketch({"tea", "jam", 42})
    >>> sketch.shape, sketch.dtype.name
    ((8,), 'int16')
    """

    def __init__(
        self,
        plan: Plan,
        *,
        vocabulary: Iterable[object] | None = None,
        directions: Directions | PathLike | None = None,
    ) -> None:
        if not isinstance(plan, Plan):
            raise ParameterError(f"plan must be a Plan, got {type(plan).__name__}. Call Sketcher(plan).")
        if not plan.places_people:
            raise ParameterError(
                "mechanism must be other than noisy-distances: one person alone has no distances. Plan sketches."
            )
        if isinstance(directions, str | os.PathLike):
            from dimly.release.documents.directions_file import read_directions  # noqa: PLC0415 - devices have them in memory

            directions = read_directions(directions)
        plan = plan.along(directions)
        listed = vocabulary
        if listed is not None and not isinstance(listed, Vocabulary):
            listed = Vocabulary.listed(listed)
        self.plan = plan
        self._vocabulary = listed if plan.vocabulary is None else plan.vocabulary_of(listed)
        self._positions: dict[str, int] | None = None
        self._rows: Rows | None = None
        self._resolution = plan.resolution
        self._perturber = Perturber(plan)  # of sketches the noise is wanted, and each person's rows are given
        known = self._vocabulary
        # Not where rows differ in norm: each must be seen not to exceed what the plan says. Nor for values.
        quick = isinstance(plan, SketchPlan) and not plan.is_realized and plan.projection.matrix.adds_at_once
        self._hashes = quick and plan.resolution == 1
        if known is not None and plan.adds_rows and not self._hashes and len(known) * plan.entries <= _MOST_ENTRIES:
            self._rows = plan.rows(known)
        if known is not None and (self._rows is not None or not known.is_numbered):
            self._positions = {text: position for position, text in enumerate(known)}

    def sketch(self, attributes: Attributes) -> NDArray[Any]:
        """Return what may be published of one person, with fresh secret noise.

        Parameters
        ----------
        attributes : iterable or mapping
            What the person has, in any order; repeats count once. Or a value in [0, 1] for each attribute; those that
            are left out have the value 0. An empty one is a person without attributes, who is published like others.

        Returns
        -------
        ndarray
            A sketch: the plan's integers, shape (k,). Randomized response: uint8 of shape (⌈d/8⌉,), bit i in byte
            i//8 as bit i%8.

        Raises
        ------
        ParameterError
            If the attributes are not text, integers, booleans or dates.
        DataError
            If a value does not fit the plan. The text holds nothing of the person.
        """
        return self._sketch(attributes, Keystream())

    def merge_into(
        self,
        release: PathLike,
        sketches: Mapping[Any, Any] | Iterable[tuple[Any, Any]],
        *,
        ledger: PathLike,
        dataset: str,
        recipient: str | None = None,
        create: bool = False,
        out: PathLike | None = None,
        roster: Iterable[Any] | None = None,
        pseudonyms: PathLike | None = None,
        volunteers: Any = None,
        except_volunteers: bool = False,
    ) -> "PublishOutcome":
        """Publish sketches that were made one by one, together with those of a release folder.

        A person's sketch spends the plan's cost for that person, once: so that the ledger charges the plan once for a
        release, and nothing for people who are new to it. It refuses whoever is in the release already.

        Parameters
        ----------
        release : path
            The folder, made by this plan and charged to this dataset. The larger release takes its place.
        sketches : mapping from ids to integers, or pairs of both
            As :meth:`sketch` returned them, in any order, also as lists. Ids are integers or text. Whether noise was
            added to them cannot be seen: take them from those whom you trust to have done it, by this plan.
        ledger, dataset, recipient
            Ledger to charge, the dataset's name in it, and who gets the release.
        create : bool, default=False
            Make the release, which must not be there yet, for the plan's full cost.
        out : path, optional
            Folder of a new release for the full cost, in which those who are in ``release`` already are replaced, and
            the others stay as they were.
        roster : iterable, optional
            Public list of those who were asked; sketches of others are refused. Whoever sent nothing is published as a
            person without attributes, so that being in the release alone does not say who took part. Their numbers may:
            the promise is about single attributes, and with m of them the odds of having taken part change by up to
            e^(m·ε). Without a roster, being in the release says that a person took part.
        pseudonyms : path, optional
            File with the secret key, if the release has pseudonyms.
        volunteers, except_volunteers : optional
            The people whose public data the plan was made from, and whether they are published all the same: as of
            :func:`dimly.publish`.

        Returns
        -------
        PublishOutcome

        Raises
        ------
        ParameterError
            If the call cannot work, or the plan is not the release's.
        DataError
            If a sketch is none of the plan's, or somebody comes twice.
        BudgetError
            If the ledger does not allow it.
        ReleaseError
            If the release is damaged.
        """
        if isinstance(roster, str | bytes):
            raise ParameterError("roster must be a list of ids, got text. Read the file first.")
        if create and out is not None:
            raise ParameterError("out must be left out with create, which makes the release itself.")
        if not isinstance(sketches, Iterable):
            raise ParameterError(
                f"sketches must be a mapping from ids to integers, or pairs of both, got {type(sketches).__name__}."
            )
        from dimly.curator.options import Options  # noqa: PLC0415 - devices need none of this
        from dimly.curator.sent_sketches import merge  # noqa: PLC0415

        pairs = sketches.items() if isinstance(sketches, Mapping) else sketches
        options = Options(
            out=release if create else out,
            append=None if create or out is not None else release,
            update=None if create or out is None else release,
            ledger=ledger,
            dataset=dataset,
            recipient=recipient,
            roster=roster,
            pseudonyms=pseudonyms,
            volunteers=volunteers,
            except_volunteers=except_volunteers,
        )
        published = merge(pairs, self.plan, options, vocabulary=self._vocabulary, nothing=lambda: self.sketch(()))
        for text in published.warnings:
            warnings.warn(text, PrivacyWarning, stacklevel=2)
        return published

    def _sketch(self, attributes: Attributes, words: WordSource) -> NDArray[Any]:
        """Return a sketch with noise from ``words``: for tests alone anything but a fresh keystream."""
        if self._hashes:
            return self._perturber.perturb_texts(self._published(_texts(attributes)), words)
        held = _steps(attributes, self._resolution)
        positions = np.empty(0, np.int64)
        if self._vocabulary is not None:
            places = {text: place for text in held if (place := self._position(self._vocabulary, text)) >= 0}
            held = {text: held[text] for text in places} if len(places) < len(held) else held
            positions = np.array(list(places.values()), np.int64)
        values = None if self._resolution == 1 else np.array(list(held.values()), np.int64)
        if self.plan.by_position:
            person = People(np.array([0, len(positions)]), positions, None)
            row: NDArray[Any] = self._perturber.perturb(person, words)[0]
            return row
        if not self.plan.adds_rows:  # categories are told by all of a person's attributes together
            person = People(np.array([0, len(held)]), np.arange(len(held)), values)
            sums: NDArray[Any] = self._perturber.with_attributes(list(held)).perturb(person, words)[0]
            return sums
        rows = self.plan.rows(list(held)) if self._rows is None else self._rows.take(positions)
        return self._perturber.perturb_one(rows, values, words)

    def _published(self, texts: Mapping[str, Any]) -> Collection[str]:
        """Return those of the texts that are in the public list, or all if there is none."""
        if self._vocabulary is None:
            return texts
        known = self._positions
        if known is not None and texts.keys() <= known.keys():  # as nearly always, and this asks for all at once
            return texts
        return [text for text in texts if text in (self._vocabulary if known is None else known)]

    def _position(self, vocabulary: Vocabulary, text: str) -> int:
        return vocabulary.index_of(text) if self._positions is None else self._positions.get(text, -1)

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (self.plan, self._vocabulary)

    def __repr__(self) -> str:
        return f"<Sketcher by {self.plan.mechanism}, plan {self.plan.digest[:12]}…>"


def _made(plan: Plan, vocabulary: Vocabulary | None) -> Sketcher:
    return Sketcher(plan, vocabulary=vocabulary)


_LISTS: Final = (list, tuple, set, frozenset)
_PLAIN_TEXT: Final = {str}


def _texts(attributes: Any) -> dict[str, Any]:
    """Return the canonical texts of the attributes that a person of bits has, each once.

    Nearly always they are text already. Only of Python's own: what else is text may say of two equal ones that they
    differ, and an attribute that counted twice would have twice the sensitivity that its noise is for.
    """
    if type(attributes) in _LISTS:
        try:
            each: dict[Any, None] = dict.fromkeys(attributes)
        except TypeError:  # of what has no hash, and is no attribute: it is refused below
            each = {}
        if {*map(type, each)} == _PLAIN_TEXT:
            return each
    return _steps(attributes, 1)


def _steps(attributes: Any, resolution: int) -> dict[str, int]:
    """Return each attribute's value in steps of the resolution, without zeros; of several values the largest."""
    if not isinstance(attributes, Mapping):
        # A series of pandas has items, too, and iterates over its values, which would become the attributes.
        is_list = isinstance(attributes, Iterable) and not hasattr(attributes, "items")
        if isinstance(attributes, str | bytes) or not is_list:
            raise ParameterError(
                f"attributes must be a set, a list or a mapping to values in [0, 1], got {type(attributes).__name__}."
            )
        return dict.fromkeys(map(attribute_text, attributes), resolution)
    steps: dict[str, int] = {}
    for attribute, value in attributes.items():
        step = _step(value, resolution)
        text = attribute_text(attribute)
        if step > steps.get(text, 0):
            steps[text] = step
    return steps


def _step(value: Any, resolution: int) -> int:
    is_number = isinstance(value, _NUMBERS)
    if not is_number or isinstance(value, np.timedelta64) or not 0 <= value <= 1:  # NumPy calls that one an integer
        raise DataError("the values of attributes must be numbers in [0, 1]. Scale or clip them by public bounds.")
    if resolution == 1 and value not in (0, 1):
        raise DataError("the plan is for bits: values must be 0 or 1. Make a plan with resolution > 1 for others.")
    return round(float(value) * resolution)
