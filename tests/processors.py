"""A plainer processor than this machine's: ``python -m tests.processors ARGUMENTS`` runs pytest as on one.

Libraries choose their code by what the processor can do, and round differently by it. These settings take such
choices back: vector instructions of NumPy and Arrow, fused multiplication of the C library, OpenBLAS's newest kernels,
and whatever Numba would compile for this very processor.
"""

import os
import platform
import sys

from numpy._core import _multiarray_umath as numpy_core  # type: ignore[attr-defined]  # not for the public

_FOUND = {name for name, usable in numpy_core.__cpu_features__.items() if usable}


def vector_instructions() -> list[str]:
    """Return the sets of instructions that NumPy may choose and that are here."""
    return [name for name in numpy_core.__cpu_dispatch__ if name in _FOUND]


def plain() -> dict[str, str]:
    """Return the settings; a process must start with them."""
    off = os.environ.get("NPY_DISABLE_CPU_FEATURES", "").split()
    settings = {
        # Only what NumPy chooses between: naming what it cannot do without is an error, what is not there a warning.
        "NPY_DISABLE_CPU_FEATURES": " ".join([*off, *vector_instructions()]),
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": "",
        "ARROW_USER_SIMD_LEVEL": "NONE",
    }
    if platform.machine().lower() in {"x86_64", "amd64"}:
        settings["GLIBC_TUNABLES"] = "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4"
        if {"AVX2", "FMA3"} <= _FOUND:  # Haswell's own instructions would end a process on an older processor
            settings["OPENBLAS_CORETYPE"] = "Haswell"
    return settings


if __name__ == "__main__":
    # The same interpreter anew: libraries look at the processor when they are loaded.
    os.execve(sys.executable, [sys.executable, "-m", "pytest", *sys.argv[1:]], os.environ | plain())  # noqa: S606
