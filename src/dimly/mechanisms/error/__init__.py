"""How far off estimates will be: variances, intervals, proven bounds, the best k."""
