"""One person at a time, against scikit-learn's feature hashing."""

from collections.abc import Iterator

import numpy as np
from sklearn.feature_extraction import FeatureHasher

from benchmarks.harness import Result, benchmark, compare
from dimly.curator.sketcher import Sketcher
from dimly.mechanisms import Plan
from dimly.privacy import Budget

K = 64
HASHER = "scikit-learn FeatureHasher"
CATALOG = [f"attribute {i}" for i in range(20_000)]


@benchmark("sketcher")
def sketcher(quick: bool) -> Iterator[Result]:
    """Make the sketch of one person at k = 64, from attributes as text to published integers.

    The target is 50 microseconds, 20,000 people a second. Every sketch has a keystream of its own. The peer hashes the
    same text by MurmurHash3 in C and adds NumPy's Laplace noise, which is neither secure nor exact.
    """
    for mechanism in ("counting+laplace", "hashing+laplace"):
        plan = Plan.of(mechanism, Budget(1.0), k=K)
        for listed in (False, True):
            made = Sketcher(plan, vocabulary=CATALOG if listed else None)
            for ones in (5, 20, 100):
                yield _one_person(made, mechanism, ones, listed=listed, repeats=5 if quick else 15)


def _one_person(made: Sketcher, mechanism: str, ones: int, *, listed: bool, repeats: int) -> Result:
    attributes = CATALOG[:: len(CATALOG) // ones][:ones]
    hasher = FeatureHasher(K, input_type="string", alternate_sign=mechanism.startswith("hashing"))
    generator = np.random.default_rng(0)
    return compare(
        f"{mechanism}, {ones} attributes, {'public list' if listed else 'any attributes'}",
        lambda: made.sketch(attributes),
        {HASHER: lambda: np.rint(hasher.transform([attributes]).toarray()[0] + generator.laplace(size=K))},
        work=1,
        unit="people",
        parameters={"k": K, "attributes": ones},
        targets={HASHER: 2.0},
        warmups=2,  # the first call loads machine code, and would tell nothing of how many calls a timed run needs
        repeats=repeats,
    )
