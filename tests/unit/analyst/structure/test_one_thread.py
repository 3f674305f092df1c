"""Tests of linear algebra on one thread."""

import os
import subprocess
import sys

CODE = """
import sys
from threadpoolctl import threadpool_info
from dimly.analyst.structure.one_thread import one_thread

assert "scipy.linalg" not in sys.modules, "it is loaded already: this test shows nothing"
with one_thread():
    import scipy.linalg

    libraries = threadpool_info()
    print(len(libraries), max(library["num_threads"] for library in libraries))
"""


def test_scipys_own_library_is_limited_too_though_nothing_has_loaded_it_yet() -> None:
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "4")
    ran = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-c", CODE], env=os.environ | threads, capture_output=True, text=True, check=False
    )
    assert ran.stderr == ""
    libraries, most = map(int, ran.stdout.split())
    assert libraries >= 1
    assert most == 1
