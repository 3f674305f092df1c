"""Surveys: a few noisy counts of a private table, charged like a release; each kind has a file of its own."""
