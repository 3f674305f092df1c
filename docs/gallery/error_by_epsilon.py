"""
What a stronger promise costs
=============================

The standard error of a squared distance over ε, each mechanism at its best k. The command is
``dimly figure error-by-epsilon``.
"""

from dimly.lab.figures import Circumstances, figure_named

figure = figure_named("error-by-epsilon", Circumstances()).draw()
