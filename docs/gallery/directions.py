"""
Two groups along a direction
============================

Along a direction that was learned for it, a single published number tells two groups apart. With random signs it does
not. The command is ``dimly figure directions --epsilon 0.2``.
"""

from dimly.lab.figures import Circumstances, figure_named

figure = figure_named("directions", Circumstances(epsilon=0.2)).draw()
