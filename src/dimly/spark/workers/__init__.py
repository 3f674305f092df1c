"""What runs in Spark's workers: private rows are read, cut into batches of whole people, perturbed and written."""
