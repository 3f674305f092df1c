"""What a survey tells the planner, where the curator states nothing: distances, weights, how many people there are."""

from dataclasses import dataclass, replace
from typing import Final, Self

from dimly.errors import ParameterError
from dimly.planner.question import Purpose
from dimly.release.survey import Curve, Interval, Survey

_FAR: Final[dict[Purpose, str]] = {"distances": "0.9", "neighbors": "0.5", "segments": "0.5"}
"""Which quantile of random pairs is that of far ones. For distances, those that are asked about reach from near to far;
for the others far is anybody."""
_NEAR: Final = "0.1"
"""Nobody surveyed who is nearest, or of one group: the nearest tenth of random pairs stands for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the planner is told about the data: stated by the curator, or measured by a survey.

    Attributes
    ----------
    n_attributes, n_users, distance, weight
        As of :func:`~dimly.planner.advise`.
    measured : tuple of str
        What came from a survey, in words.
    """

    n_attributes: int | None = None
    n_users: int | None = None
    distance: float | tuple[float, float] | None = None
    weight: float | None = None
    measured: tuple[str, ...] = ()

    def by(self, survey: Survey | None, *, purpose: Purpose, resolution: int) -> Self:
        """Return the same with what a survey measured in the place of what is not stated.

        Raises
        ------
        ParameterError
            If it is no survey, was made for tests, or counted bits where there are values, or the other way round.
        """
        if survey is None:
            return self
        if not isinstance(survey, Survey):
            raise ParameterError(f"survey must be a Survey, got {type(survey).__name__}. Read one with read_survey.")
        if not survey.private:
            raise ParameterError("survey must be private, but this one was made for tests. Make another.")
        if (survey.plan.resolution == 1) != (resolution == 1):
            raise ParameterError(
                f"resolution must be 1 for bits and more for values, as in the survey, got {resolution} beside the "
                f"survey's {survey.plan.resolution}."
            )
        return (
            self._people(survey)
            ._distances(survey.distances, _FAR.get(purpose, _FAR["neighbors"]))
            ._weights(survey.weights)
            ._size(survey)
        )

    def _people(self, survey: Survey) -> Self:
        if self.n_users is not None or survey.n_users is None or survey.n_users < 2:
            return self
        return replace(self, n_users=survey.n_users)

    def _distances(self, curve: Curve | None, far: str) -> Self:
        if self.distance is not None or curve is None or curve.quantiles[far].value <= 0:
            return self
        near, high = curve.quantiles[_NEAR], curve.quantiles[far]
        words = f"far pairs differ in {_text(high)}"
        if 0 < near.value < high.value:
            words = f"near pairs differ in {_text(near)}, far ones in {_text(high)}"
            return replace(self, distance=(near.value, high.value), measured=(*self.measured, words))
        return replace(self, distance=high.value, measured=(*self.measured, words))

    def _weights(self, curve: Curve | None) -> Self:
        if self.weight is not None or curve is None or (middle := curve.quantiles["0.5"]).value <= 0:
            return self
        words = f"people have {_text(middle)} attributes"
        return replace(self, weight=middle.value, measured=(*self.measured, words))

    def _size(self, survey: Survey) -> Self:
        """Return the number of attributes: those of a public list, or the names that were found, if they suffice."""
        found = survey.counts or survey.vocabulary
        if self.n_attributes is not None or found is None:
            return self
        size = len(found.attributes)
        far = self.distance[1] if isinstance(self.distance, tuple) else self.distance or 0
        if size < max(1, far, self.weight or 0):  # the rest is too rare to be shown, and yet there
            return self
        words = f"{size:,} attributes" + ("" if survey.counts else " that are frequent enough to be shown")
        return replace(self, n_attributes=size, measured=(*self.measured, words))


def _text(one: Interval) -> str:
    return f"{one.value:g} ({one.low:g} to {one.high:g})"
