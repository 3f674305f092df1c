"""
A map of segments
=================

Four groups of people are published at ε = 2. The release is asked for segments, and its denoised points are drawn along
their two strongest directions. Everything in the picture follows from published numbers.
"""

import numpy as np
from matplotlib.figure import Figure

import dimly
from dimly.lab.population import make_population

people = make_population(800, 2_000, n_groups=4, taste=20.0)
release = dimly.publish(people.table, dimly.Plan.of("counting+laplace", dimly.Budget(2.0), k=256))
found = release.segments(4)

points = release.export.numpy(denoise=True)
points = points - points.mean(axis=0)
strongest = np.linalg.svd(points, full_matrices=False)[2][:2]

figure = Figure(figsize=(6, 4.5), layout="constrained")
axis = figure.subplots()
for segment, (color, marker) in enumerate(zip(["#0072B2", "#D55E00", "#009E73", "#CC79A7"], "os^D", strict=True)):
    shown = points[found.labels == segment] @ strongest.T
    axis.scatter(*shown.T, s=10, color=color, marker=marker, label=f"segment {segment}, {len(shown)} people")
axis.set_xlabel("strongest direction")
axis.set_ylabel("second direction")
axis.legend(frameon=False, fontsize=8)
