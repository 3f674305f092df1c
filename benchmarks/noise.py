"""Drawing noise on one core: against normals that are not integers, and integers that are not fast."""

import importlib.util
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks.harness import Result, Run, benchmark, compare
from dimly.curator.people import people_of
from dimly.curator.perturb import Perturber
from dimly.curator.randomness import Keystream
from dimly.curator.sampling import NoiseSampler
from dimly.mechanisms import Plan, Vocabulary
from dimly.privacy import Budget

SAMPLES = 1 << 20
PIECE = 1 << 16
"""Samples at a time, of ours and the peers': publishing, too, makes them in pieces that stay in a second cache."""
NUMPY = "NumPy standard_normal"
AES = "randomgen AESCounter normals"
OPENDP = "OpenDP vector Gaussian on integers"
OPENDP_SHARE = 256
"""OpenDP draws one in so many of the samples: all of them take it a quarter of a minute a call."""


@benchmark("noise")
def noise(quick: bool) -> Iterator[Result]:
    """Secure integer noise against NumPy's normals, normals from AES, and OpenDP's Gaussian on integers.

    Ours is added to integers and saturated to 16 bits, as in publishing. NumPy's is neither secure nor made of
    integers, and only drawn; randomgen's comes from AES-128, as floats. OpenDP's is exact, as ours is; it adds
    to a list of 64-bit integers made beforehand, and its scale is that of our noise.
    """
    plans = {
        "laplace, ε = 1": Plan.of("counting+laplace", Budget(1.0), k=64),
        "laplace, ε = 0.1": Plan.of("counting+laplace", Budget(0.1), k=64),
        "gaussian, ε = 1": Plan.of("counting+gaussian", Budget(1.0, 1e-6), k=64),
        "gaussian, σ = 1,000 steps": Plan.of("noisy-distances", Budget(1.0, 1e-6), n_users=60_000, n_attributes=9),
    }
    for name, plan in plans.items():
        sampler = NoiseSampler(plan.table)
        sketch, out = np.zeros(PIECE, np.int64), np.empty(PIECE, np.int16)

        def ours(sampler: NoiseSampler = sampler, sketch: Any = sketch, out: Any = out) -> None:
            words = Keystream()
            for _ in range(SAMPLES // PIECE):
                sampler.add(sketch, words, out)

        # OpenDP's Laplace is not what the target is about.
        peers = _peers(plan.table.variance**0.5 if "gaussian" in name else None)
        yield compare(
            name,
            ours,
            peers,
            work=SAMPLES,
            unit="samples",
            parameters={"mechanism": plan.mechanism, "weights": plan.table.n_weights},
            targets={peer: target for peer, target in ((NUMPY, 5.0), (OPENDP, 1000.0)) if peer in peers},
            shares={OPENDP: OPENDP_SHARE} if OPENDP in peers else {},
            repeats=5 if quick else 15,
        )


@benchmark("randomized-response")
def randomized_response(quick: bool) -> Iterator[Result]:
    """Flipping every bit of 100 people with 1 % ones among 100,000 attributes, packed, against NumPy's flips alone."""
    n_users, n_attributes = (20 if quick else 100), 100_000
    table = sparse.random_array((n_users, n_attributes), density=0.01, format="csr", rng=np.random.default_rng(0))
    table.data[:] = 1
    plan = Plan.of("randomized-response", Budget(1.0), n_attributes=n_attributes)
    perturber = Perturber(plan, Vocabulary.numbered(n_attributes))
    people, _ = people_of(table, resolution=1, n_columns=n_attributes, attributes=None)
    generator = np.random.default_rng(0)

    def flips() -> NDArray[np.bool_]:
        return generator.random((n_users, n_attributes)) < 0.2689

    yield compare(
        "ε = 1",
        lambda: perturber.perturb(people, Keystream()),
        {"NumPy random < p": flips},
        work=n_users * n_attributes,
        unit="bits",
        parameters={"n_users": n_users, "n_attributes": n_attributes},
        targets={"NumPy random < p": 10.0},
        repeats=5 if quick else 15,
    )


def _drawing(generator: np.random.Generator, normals: NDArray[np.float64]) -> Run:
    """Return a call that draws all samples, a piece at a time."""

    def run() -> None:
        for _ in range(SAMPLES // PIECE):
            generator.standard_normal(out=normals)

    return run


def _peers(scale: float | None) -> dict[str, Run]:
    """Return whoever is installed; OpenDP only where a scale is given."""
    normals = np.empty(PIECE)
    peers: dict[str, Run] = {NUMPY: _drawing(np.random.default_rng(0), normals)}
    if importlib.util.find_spec("randomgen"):
        from randomgen import AESCounter  # noqa: PLC0415  (wheels are not made for every Python)

        peers[AES] = _drawing(np.random.Generator(AESCounter(0)), normals)
    if scale is not None and importlib.util.find_spec("opendp"):
        import opendp.prelude as dp  # noqa: PLC0415  (wheels are not made for every Python)

        dp.enable_features("contrib")
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
        measure = dp.m.make_gaussian(*space, scale=scale)
        zeros = [0] * (SAMPLES // OPENDP_SHARE)
        peers[OPENDP] = lambda: measure(zeros)
    return peers
