"""What tests of exports share: releases with people of whom nothing is known, and what a search must find."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.matrices import publish_matrix
from tests.plans import plan_of
from tests.releases import PEOPLE, READABLE, release_of
from tests.streams import Recorded

from dimly.analyst import Release, Vector
from dimly.release import Sketches

FAMILIES = [mechanism for mechanism in READABLE if not mechanism.endswith("+gaussian")]
"""Every kind of points; the noise makes no difference to them."""
LOST = 4
"""Place of whoever has a saturated number in :func:`saturated`."""


def named(users: list[str]) -> Release:
    """Return people by hashing with these ids."""
    ordered = sorted(users)
    return Release(publish_matrix(PEOPLE[: len(users)], plan_of("hashing+laplace"), users=ordered, words=Recorded(7)))


def saturated() -> Release:
    """Return people by hashing, of one of whom nothing is known."""
    sketches = release_of("hashing+laplace")._sketches
    values = sketches.values.copy()
    values[LOST, 3] = np.iinfo(np.int16).max
    return Release(Sketches(sketches.plan, sketches.users, values))


def check_neighbors(release: Release, who: int | Vector, found: Any) -> None:
    """Check that a search by points found the neighbors of the release's own, in order; ids are integers.

    People whose distances agree to single precision may have changed places.
    """
    expected = release.neighbors(who, n=len(found), denoise=False).users
    points = release.to_numpy().astype(np.float64)
    everybody: NDArray[np.float64] = ((points - release.point(who)) ** 2).sum(axis=1)
    distances, mine = (everybody[np.searchsorted(release.users, users)] for users in (np.asarray(found), expected))
    np.testing.assert_allclose(distances, mine, rtol=1e-5)
    gaps = np.diff(mine) > 1e-4 * mine[1:]
    alone = np.r_[True, gaps] & np.r_[gaps, False]  # whoever comes next after the last is not known
    assert alone.any()
    np.testing.assert_array_equal(np.asarray(found)[alone], expected[alone])
