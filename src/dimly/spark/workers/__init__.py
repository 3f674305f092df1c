"""What runs in Spark's workers: private rows are read, cut into batches, perturbed and written."""
