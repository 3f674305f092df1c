"""What groups tell of people's other numbers: groups are made from some coordinates and judged by those held out.

Each coordinate of a sketch has noise of its own and mostly attributes of its own. So whatever groups that were made
from three quarters of the coordinates explain of the last quarter, they have not read off its noise, nor off single
people's own tastes: it is what attributes have in common. The averages that predict are taken over half of the people
and judged by the other half. All views are judged by the same numbers, so that they compare whatever their scales.

References
----------
A. Owen and P. Perry, "Bi-cross-validation of the SVD and the nonnegative matrix factorization", Annals of Applied
Statistics 3 (2009).
W. Fu and P. Perry, "Estimating the number of clusters using cross-validation", Journal of Computational and Graphical
Statistics 29 (2020).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimly.analyst.structure.denoise import Denoiser, noise_variance
from dimly.analyst.structure.points import Coordinates, JoinedCoordinates, Points
from dimly.analyst.structure.views import View
from dimly.mechanisms.error.models import Floats

_FOLDS = 4
_RUNS = 2


class Told(NamedTuple):
    """What groups explain of each person's held-out coordinates: squared lengths, whatever noise does in them.

    Attributes
    ----------
    tastes : ndarray of float64 (n,)
        By rays through the groups, along which people stand as they are active, beyond the one ray of everybody.
    everything : ndarray of float64 (n,)
        By the groups' averages, beyond the average of everybody. Cuts by activity alone tell much of this.
    """

    tastes: Floats
    everything: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Fold:
    """Some people's coordinates in two parts.

    Attributes
    ----------
    shown : ndarray of float32 (n, k − h)
        What groups are made from.
    hidden : ndarray of float32 (n, h)
        What they are judged by.
    denoiser : Denoiser
        Of what is shown.
    """

    shown: Points
    hidden: Points
    denoiser: Denoiser

    def told(self, count: int, view: View) -> Told:
        """Return what ``count`` groups tell that are found in a view like the given one, of what is shown."""
        here = View.of(self.denoiser, denoise=view.width > 0, count=count)
        here = View(self.denoiser, here.width, view.activity, min(view.plain, here.width))
        labels = here(self.shown).grouped(count, _RUNS).labels_
        everyone = View(self.denoiser, self.denoiser.rank)
        active = everyone.active(everyone.project(self.shown))
        tastes, everything = np.empty(len(labels)), np.empty(len(labels))
        halves = _halves(len(labels))
        for fit, rest in (halves, halves[::-1]):
            hidden, ones = self.hidden[rest], np.ones(int(rest.sum()), np.float32)
            for told, by in ((tastes, active), (everything, np.ones_like(active))):
                far = by[rest] if by is active else ones
                everybody = _ray(self.hidden[fit], by[fit])
                told[rest] = -_explained(hidden, far, everybody)
                for label in np.unique(labels[rest]):
                    inside, own = labels[rest] == label, labels[fit] == label
                    ray = _ray(self.hidden[fit][own], by[fit][own]) if own.any() else everybody
                    told[np.flatnonzero(rest)[inside]] += _explained(hidden[inside], far[inside], ray)
        return Told(tastes, everything)


def folds_of(people: Points, coordinates: Coordinates, width: int) -> list[Fold]:
    """Return people in several ways to hold coordinates out; none where there are too few coordinates.

    Parameters
    ----------
    people : ndarray of float32 (n, k)
        Not centered: each part is centered by itself, so that neither tells of the other.
    coordinates : Coordinates
    width : int
        Directions that are looked for.
    """
    k = people.shape[1]
    n_folds = min(_FOLDS, k // 2)
    if n_folds < 2:
        return []
    # Joined releases have several averages each; theirs are taken off over all of a release's coordinates.
    joined = isinstance(coordinates, JoinedCoordinates)
    people = coordinates.centered(people) if joined else people
    centered = (lambda part: part) if joined else coordinates.centered
    folds, places = [], np.random.default_rng(0).permutation(k) % n_folds
    for fold in range(n_folds):
        shown = centered(people[:, places != fold])
        denoiser = Denoiser.of_points(shown, coordinates, most=width)
        folds.append(Fold(shown, centered(people[:, places == fold]), denoiser))
    return folds


def told_by(folds: Sequence[Fold], count: int, view: View) -> Told:
    """Return what groups tell of all coordinates, each held out once."""
    found = [fold.told(count, view) for fold in folds]
    return Told(sum(one.tastes for one in found), sum(one.everything for one in found))  # type: ignore[arg-type]


def without_groups(people: Points, coordinates: Coordinates, width: int, seed: int) -> Points:
    """Return people who are as active as the given ones, and whose tastes have their covariances and form no groups.

    Tastes are Gaussian. Noise, and what chance makes of directions, is taken off the variances first: in units of the
    noise's, a variance λ is that of a direction ℓ with λ = (1 + ℓ)(1 + β/ℓ), for β coordinates a person.
    """
    generator = np.random.default_rng([1, seed])
    denoiser, noise = Denoiser.of_points(people, coordinates, most=width), noise_variance(coordinates)
    view = View(denoiser, denoiser.rank)
    active = view.active(view.project(people))
    ray = _ray(people, active)
    n, k = people.shape
    own = people - np.outer(active, ray)
    tastes = Denoiser.of_points(own, coordinates, most=width)
    lengths = tastes.variances.astype(np.float64) / noise - k / n - 1
    spikes = noise / 2 * (lengths + np.sqrt(np.maximum(lengths**2 - 4 * k / n, 0.0)))
    spread = np.sqrt(spikes / float((active**2).mean())).astype(np.float32)
    drawn = generator.standard_normal((n, k), np.float32) * np.float32(noise**0.5)
    drawn += active[:, None] * (
        ray + (generator.standard_normal((n, tastes.rank), np.float32) * spread) @ tastes.basis.T
    )
    return drawn


def _halves(n: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    first = np.random.default_rng(0).permutation(n) < n // 2
    return first, ~first


def _ray(people: Points, active: Points) -> Points:
    """Return the direction that explains most of people who stand on it as they are active."""
    ray: Points = (active @ people) / np.float32(max(float(active @ active), 1e-30))
    return ray


def _explained(people: Points, active: Points, ray: Points) -> Any:
    """Return ‖x‖² − ‖x − a·r‖² of each person."""
    return 2 * active * (people @ ray) - active**2 * (ray @ ray)
