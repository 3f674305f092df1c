"""A report on a release as one page: for the privacy officer and for the analyst."""
