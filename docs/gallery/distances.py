"""
Estimated and true distances
============================

500 made-up people are published at ε = 2. Each point is a pair of people. Estimates scatter around the truth by what
the plan predicts.
"""

import numpy as np
from matplotlib.figure import Figure

import dimly
from dimly.lab.population import make_population

people = make_population(500, 2_000, n_groups=4).table.toarray()
plan = dimly.Plan.of("counting+laplace", dimly.Budget(2.0), k=256)
release = dimly.publish(people, plan)

generator = np.random.default_rng(0)
a, b = generator.permutation(500).reshape(2, 250)
estimates = release.distances(a, b)
truth = (people[a] != people[b]).sum(axis=1)

figure = Figure(figsize=(6, 4.5), layout="constrained")
axis = figure.subplots()
axis.errorbar(truth, estimates.value, yerr=estimates.stderr, fmt="o", markersize=3, color="#0072B2", ecolor="#BBBBBB")
axis.axline((truth.mean(), truth.mean()), slope=1, color="black", linewidth=1)
axis.set_xlabel("true squared distance")
axis.set_ylabel("estimate ± standard error")
