"""How fast Dimly is, always as a ratio to a peer measured in the same run: ``python -m benchmarks``."""
