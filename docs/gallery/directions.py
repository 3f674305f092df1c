"""
Two groups along a direction
============================

One published number tells two groups apart along a direction that was learned for it, and not at random signs. The
command is ``dimly figure directions --epsilon 0.2``.
"""

from dimly.lab.figures import Circumstances, figure_named

figure = figure_named("directions", Circumstances(epsilon=0.2)).draw()
