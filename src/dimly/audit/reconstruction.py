"""Reading people's attributes back from their projection: what noise is for.

A projection to k numbers hides nothing by itself. People have few attributes of many, and k numbers are enough to tell
which: among all sets of that size, the attacker takes the one whose exact sketch is nearest to what was published.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_STARTS: Final = 200


class Reconstruction:
    """An attacker who knows the projection and how many attributes a person has.

    Least squares over sets: from many starts, one attribute is exchanged for another as long as that brings the set's
    sketch nearer. Without noise the true set is at distance 0, so that the attacker knows when it is found.

    Parameters
    ----------
    rows : ndarray of shape (attributes, k)
        The projection.
    weight : int
        How many attributes a person has.
    seed : int
        Of the starts.
    """

    def __init__(self, rows: NDArray[np.int64], *, weight: int, seed: int = 0) -> None:
        self._rows = rows.astype(np.float64)
        self._products: Floats = self._rows @ self._rows.T
        self._weight = weight
        self._chance = np.random.default_rng(seed)

    def read(self, sketch: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the attributes of the set that is nearest to a published sketch, in order."""
        published = sketch.astype(np.float64)
        likeness = self._rows @ published
        best, nearest = np.zeros(0, np.int64), np.inf
        for start in range(_STARTS):
            chosen = (
                np.argsort(-likeness)[: self._weight]
                if start == 0
                else self._chance.choice(len(self._rows), self._weight, replace=False)
            )
            found, distance = self._improved(chosen.copy(), published, likeness)
            if distance < nearest:
                best, nearest = found, distance
            if nearest < 0.5:  # exact: sketches are integers
                break
        return np.sort(best)

    def _improved(
        self, chosen: NDArray[np.int64], published: Floats, likeness: Floats
    ) -> tuple[NDArray[np.int64], float]:
        products = self._products
        pull = products[:, chosen].sum(axis=1) - likeness
        distance = float(((self._rows[chosen].sum(axis=0) - published) ** 2).sum())
        norms = np.diag(products)
        while True:
            # By how much the squared distance changes if one of the set goes and another comes.
            change = 2 * (pull[None, :] - pull[chosen][:, None]) - 2 * products[chosen]
            change += norms[None, :] + norms[chosen][:, None]
            change[:, chosen] = np.inf
            place = int(np.argmin(change))
            gone, come = divmod(place, len(self._rows))
            if change[gone, come] >= -1e-6:
                return chosen, distance
            pull += products[:, come] - products[:, chosen[gone]]
            distance += float(change[gone, come])
            chosen[gone] = come
