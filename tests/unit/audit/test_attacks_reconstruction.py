"""Without noise nearly everybody is read; the attacker itself finds what is nearest."""

import numpy as np

from dimly.audit.attacks import Reconstruction


def test_exact_sketches_are_read_and_very_noisy_ones_are_not() -> None:
    generator = np.random.default_rng(0)
    rows = generator.choice([-1, 1], (300, 48))
    reader = Reconstruction(rows, weight=5)
    right = wrong = 0
    for _ in range(20):
        chosen = np.sort(generator.choice(300, 5, replace=False))
        exact = rows[chosen].sum(axis=0)
        right += np.array_equal(reader.read(exact), chosen)
        wrong += len(np.intersect1d(reader.read(exact + generator.integers(-200, 201, 48)), chosen))
    assert right >= 19
    assert wrong < 20  # of 100: by chance 1.7, and above 19 with a probability below 1e-12
