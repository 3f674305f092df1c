"""Public matrices P: families, rows from a seed, the matrix itself, directions, kernels."""
