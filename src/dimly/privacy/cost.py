"""What one release spends."""

from dataclasses import dataclass
from numbers import Real

from dimly.errors import ParameterError
from dimly.privacy.budget import UNITS, Budget, Unit
from dimly.privacy.calibration import delta_of


@dataclass(frozen=True, slots=True)
class Cost:
    """What one release spends: its own claim, and what an accountant needs to know beyond it.

    All fields are plain numbers and strings, so that ``dataclasses.asdict`` gives JSON.

    Parameters
    ----------
    epsilon : float
        The release's own claim; in (0, 700], beyond which e^ε is no number.
    delta : float, default=0.0
        The release's own claim; in [0, 1), and > 0 for Gaussian noise.
    noise_multiplier : float, optional
        Gaussian releases: a lower bound on σ over the ℓ₂ sensitivity; in [0.01, 1e9]. None for every other.
    sampling_distance : float, default=0.0
        Gaussian releases: an upper bound on the total-variation distance between the noise that is sampled
        and the law on paper, summed over the coordinates that one unit touches; in [0, 1). Every other
        mechanism certifies its tables within its claim, so that it is 0.
    unit : {"attribute", "column"}, default="attribute"
        Whom the claim protects. Costs in different units cannot be composed.
    declared : str, optional
        Names a set of plans that were registered together before the first of them was published. Only costs
        that share it may be composed by their loss distributions, and then all of the set: which of its plans
        are carried out must not depend on what the others revealed.

    Raises
    ------
    ParameterError
        If a field is not in its range, or contradicts another.

    Examples
    --------
    >>> Cost(1.0).is_pure
    True
    >>> Cost(1.0, 1e-6, noise_multiplier=4.225).is_pure
    False
    """

    epsilon: float
    delta: float = 0.0
    noise_multiplier: float | None = None
    sampling_distance: float = 0.0
    unit: Unit = "attribute"
    declared: str | None = None

    def __post_init__(self) -> None:
        claim = Budget(self.epsilon, self.delta)
        object.__setattr__(self, "epsilon", claim.epsilon)
        object.__setattr__(self, "delta", claim.delta)
        self._check_noise()
        if self.unit not in UNITS:
            raise ParameterError(f"unit must be one of {', '.join(UNITS)}, got {self.unit!r}.")
        declared: object = self.declared
        if declared is not None and (not isinstance(declared, str) or not declared):
            raise ParameterError(f"declared must be None or a name, got {self.declared!r}.")

    def _check_noise(self) -> None:
        for name in ("noise_multiplier", "sampling_distance"):
            value = getattr(self, name)
            if name == "noise_multiplier" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, Real):
                raise ParameterError(f"{name} must be a number, got {value!r}.")
            object.__setattr__(self, name, float(value))
        if not 0 <= self.sampling_distance < 1:
            raise ParameterError(f"sampling_distance must be in [0, 1), got {self.sampling_distance!r}.")
        if self.noise_multiplier is None:
            if self.sampling_distance > 0:
                raise ParameterError(
                    f"sampling_distance must be 0 without a noise_multiplier, got {self.sampling_distance!r}."
                    " Only Gaussian tables are compared with a law on paper."
                )
            return
        if not 0.01 <= self.noise_multiplier <= 1e9:
            raise ParameterError(f"noise_multiplier must be in [0.01, 1e9], got {self.noise_multiplier!r}.")
        if self.delta == 0:
            raise ParameterError("delta must be > 0 with a noise_multiplier, got 0.0: Gaussian noise is never pure.")
        least = delta_of(self.noise_multiplier, epsilon=self.epsilon)
        if least > self.delta * (1 + 1e-9):  # a multiplier is itself rounded down
            raise ParameterError(
                f"delta must be at least {least:.6g} for noise_multiplier {self.noise_multiplier:.6g} at epsilon "
                f"{self.epsilon!r}, got {self.delta!r}. The claim must hold for the noise."
            )

    @property
    def is_pure(self) -> bool:
        """Whether δ is zero: the factor e^ε holds without exception."""
        return self.delta == 0.0
