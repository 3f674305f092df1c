"""
Which mechanism wins where
==========================

The mechanism with the smallest error, over distances and numbers of attributes, at ε = 4. The command is
``dimly figure winners --epsilon 4``.
"""

from dimly.lab.figures import Circumstances, figure_named

figure = figure_named("winners", Circumstances(epsilon=4.0)).draw()
