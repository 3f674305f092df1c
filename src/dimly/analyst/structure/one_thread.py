"""``one_thread``: linear algebra on one thread, also that of libraries which would be loaded only later."""

import scipy
from threadpoolctl import threadpool_limits


def one_thread() -> threadpool_limits:
    """Return a context in which NumPy and SciPy compute on one thread.

    For many small products, which threads only slow down, and for sums that must be added up in the same order always.
    """
    _ = scipy.linalg.eigh  # SciPy has a library of its own, which can be limited only once it is loaded
    return threadpool_limits(1)
