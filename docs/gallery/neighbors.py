"""
Neighbors and noise
===================

Left: the ten people found nearest to one person, each with the 95 % interval of the squared distance. Right: how far
apart random pairs seem to be, and how far noise alone would spread them.
"""

from matplotlib.figure import Figure

import dimly
from dimly.lab.population import make_population

people = make_population(800, 2_000, n_groups=4, taste=20.0)
release = dimly.publish(people.table, dimly.Plan.of("counting+laplace", dimly.Budget(2.0), k=256))

figure = Figure(figsize=(9, 4), layout="constrained")
left, right = figure.subplots(1, 2)
release.neighbors(3).plot(ax=left)
release.plot_distances(ax=right)
