"""Public random matrices: families, rows from a seed, directions, kernels."""
