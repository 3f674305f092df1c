"""Smaller errors from the whole likelihood of two published rows."""
