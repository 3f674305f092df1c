"""
How many numbers to publish
===========================

More numbers per person mean less projection error and more noise. The best k of the paper and ours are marked. The
command is ``dimly figure error-by-k``.
"""

from dimly.lab.figures import Circumstances, figure_named

figure = figure_named("error-by-k", Circumstances()).draw()
