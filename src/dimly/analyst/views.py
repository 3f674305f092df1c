"""How people are looked at when they are grouped: denoised or not, with how active they are or without."""

from dataclasses import dataclass

import numpy as np

from dimly.analyst.coordinates import Points
from dimly.analyst.denoising import Denoiser

_DIRECTIONS = 32  # enough for k-means: c groups differ in c − 1, and the weaker ones hold mostly noise


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """From points to what k-means is given. Make one with :meth:`of`.

    Attributes
    ----------
    denoiser : Denoiser
    width : int
        Directions that are kept, the strongest; 0: the points as they are published.
    activity : bool
        Whether how active people are may set them apart. If not, the direction of the average person is left out
        and nobody is longer than usual: more of the same is then no difference. Those who are shorter stay so, since
        much of what is left of them is noise. Points as they are published all get the same length: what is usual
        among them is mostly noise.
    """

    denoiser: Denoiser
    width: int
    activity: bool = True

    @classmethod
    def of(cls, denoiser: Denoiser, *, denoise: bool, count: int = 1) -> "View":
        """Return the view that ``count`` groups are found in."""
        return cls(denoiser, min(denoiser.rank, max(_DIRECTIONS, 2 * count)) if denoise else 0)

    @property
    def n_coordinates(self) -> int:
        """Number of coordinates that are seen."""
        return self.width or self.denoiser.coordinates.dimension

    def __call__(self, points: Points) -> Points:
        """Return what is seen of points."""
        return self.finish(self.reduce(points))

    def reduce(self, points: Points) -> Points:
        """Return deviations from the average, activity included."""
        reduced: Points = points - self.denoiser.mean
        if self.width:
            reduced = reduced @ self.denoiser.map[:, : self.width]
        return reduced

    def finish(self, reduced: Points) -> Points:
        """Take activity out of deviations, if it is not to be seen."""
        if self.activity:
            return reduced
        along = self.along
        leveled: Points = reduced - np.outer(reduced @ along, along)
        lengths: Points = np.linalg.norm(leveled, axis=1, keepdims=True)
        leveled /= np.maximum(lengths, np.float32(max(self._usual_length, 1e-30)))
        return leveled

    @property
    def _usual_length(self) -> float:
        """Root mean square of people's lengths without activity; 0 for points as they are published."""
        variances = (self.denoiser.gains**2 * self.denoiser.variances)[: self.width]
        return float(np.sqrt(np.maximum((variances * (1 - self.along**2)).sum(), 0.0))) if self.width else 0.0

    @property
    def along(self) -> Points:
        """The direction of the average person, of length 1; 0 if he is nowhere."""
        mean = self.denoiser.mean
        along: Points = self.denoiser.basis[:, : self.width].T @ mean if self.width else mean
        return along / np.float32(max(float(np.linalg.norm(along)), 1e-30))
