"""
What Gaussian noise promises
============================

Figure 1 of the paper: the pairs of ε and δ that Gaussian noise keeps, exactly and by Theorem 1. The command is
``dimly figure privacy-curves``.
"""

from dimly.lab.figures import Circumstances, figure_named

figure = figure_named("privacy-curves", Circumstances()).draw()
