"""From loadings of attributes to rows of directions: rotated, bounded and rounded, so that little noise hides a row."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def bounded(loadings: Floats, cap: float) -> Floats:
    """Return rows none of which has a larger ℓ₁ norm than 1, which is the quantile ``cap`` of what they had.

    Attributes that nobody in the sample has are left out of account: a public list may hold any number of them.
    """
    norms = np.abs(loadings).sum(axis=1)
    positive = norms[norms > 1e-9 * norms.max(initial=0.0)]
    if not len(positive):
        return np.zeros_like(loadings)
    limit = float(np.quantile(positive, cap))
    matrix: Floats = loadings / np.maximum(norms, limit)[:, None]
    return matrix


def rounded(matrix: Floats, scale: int) -> Floats:
    """Return multiples of 1/``scale`` near a matrix, none of whose rows has grown by more than half a step in ℓ₁ norm.

    Rounding each entry could add half a step for each of them, and all the noise is scaled by the longest row.
    """
    steps = np.abs(matrix) * scale
    whole = np.floor(steps)
    missing = np.rint(steps.sum(axis=1)) - whole.sum(axis=1)
    rank = np.argsort(np.argsort(whole - steps, axis=1, kind="stable"), axis=1, kind="stable")
    near: Floats = np.sign(matrix) * (whole + (rank < missing[:, None])) / scale
    return near


def rotated(vectors: Floats) -> Floats:
    """Return the varimax rotation of orthonormal columns: each row then loads on few of them, and ℓ₁ is near ℓ₂.

    References
    ----------
    Kaiser (1958), by the singular value iteration of Sherin (1966).
    """
    rotation = np.eye(vectors.shape[1])
    before = 0.0
    for _ in range(60 if vectors.shape[1] > 1 else 0):
        turned = vectors @ rotation
        squares = turned * turned
        left, values, right = np.linalg.svd(vectors.T @ (turned * (squares - squares.mean(axis=0))))
        rotation = left @ right
        if values.sum() < before * (1 + 1e-6):
            break
        before = float(values.sum())
    return vectors @ rotation
