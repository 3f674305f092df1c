"""What was promised for a dataset, and what every release has spent of it."""
