"""
A map of segments
=================

Four groups of people are published at ε = 2. ``release.plot_map`` finds segments and draws people where denoising puts
them, along their two strongest directions. Everything in the picture follows from published numbers.
"""

from matplotlib.figure import Figure

import dimly
from dimly.lab.population import make_population

people = make_population(800, 2_000, n_groups=4, taste=20.0)
release = dimly.publish(people.table, dimly.Plan.of("counting+laplace", dimly.Budget(2.0), k=256))

figure = Figure(figsize=(6, 4.5), layout="constrained")
release.plot_map(color="segments", ax=figure.subplots())
