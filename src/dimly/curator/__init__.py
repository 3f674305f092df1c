"""Party A: private data and secret randomness live here, and nowhere else."""
