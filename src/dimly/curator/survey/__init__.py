"""Surveys: a few noisy counts of a private table, charged like a release."""
