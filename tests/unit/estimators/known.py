"""What scikit-learn's checks must know of the estimators."""

from dimly.estimators import PrivateProjection, RandomizedResponse, SketchDenoiser

# The checks transform the same made-up numbers over and over, which are neither bits nor in [0, 1].
ESTIMATORS = [
    PrivateProjection(8, resolution=16, clip=True, allow_repeats=True),
    PrivateProjection(8, mechanism="hashing+laplace", resolution=16, clip=True, allow_repeats=True),
    RandomizedResponse(threshold=0.5, allow_repeats=True),
    SketchDenoiser(noise_variance=0.5),
]


NOISE = dict.fromkeys(
    ("check_fit_idempotent", "check_estimators_pickle"),
    "The same data transformed twice must come out alike; noise is fresh each time, and no seed for it exists.",
)


ONE_COLUMN = dict.fromkeys(
    ("check_fit2d_1sample", "check_fit2d_1feature", "check_fit2d_predict1d", "check_dont_overwrite_parameters"),
    "The check sets n_components to 1; counting needs 2, because points are centered.",
)
