"""Planning by example: plans are tried out on public people, and the best is chosen."""
