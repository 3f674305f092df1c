"""Drawings give axes back, take some, and show names as they are."""

from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

from dimly.analyst.estimate import Estimate
from dimly.api import publish
from dimly.errors import ParameterError
from dimly.lab.planning import advise
from dimly.lab.population import make_population
from dimly.mechanisms import Directions, Plan
from dimly.plots import axes_or_new
from dimly.privacy import Budget

mpl.use("Agg")


@pytest.fixture
def ax() -> Any:
    from matplotlib.figure import Figure  # noqa: PLC0415

    return Figure().subplots()


def test_every_plot_takes_axes_and_returns_them(ax: Any) -> None:
    people = make_population(300, 300, n_groups=3, mean_weight=30, taste=30, seed=2)
    release = publish(people.table, Plan.of("hashing+laplace", Budget(6.0), k=64))
    directions = Directions.of_values(["cost $1", "tea $2"], [[1.0], [-0.5]], origin="made up")
    assert release.plot_map(count=3, ax=ax) is ax
    assert "3 segments" in ax.get_title()
    assert release.plot_map(color=people.groups, ax=ax) is ax
    assert release.plot_map(color=None, ax=ax) is ax
    assert release.plot_distances(ax=ax) is ax
    assert release.neighbors(1, 5).plot(ax=ax) is ax
    assert release.distances(1, [2, 3]).plot([2, 3], ax=ax) is ax
    assert advise(Budget(1.0), n_attributes=1000, distance=(100, 800)).plot(ax=ax) is ax
    ax.clear()
    assert directions.plot(ax=ax) is ax
    assert r"cost \$1  (0)" in [label.get_text() for label in ax.get_yticklabels()]


def test_new_axes_and_wrong_ones() -> None:
    import matplotlib.pyplot as plt  # noqa: PLC0415

    made = axes_or_new(None)
    assert hasattr(made, "plot")
    plt.close(made.figure)
    with pytest.raises(ParameterError, match="ax must be axes of matplotlib"):
        axes_or_new("here")


def test_what_cannot_be_drawn_is_refused(ax: Any) -> None:
    release = publish(np.eye(30), Plan.of("counting+laplace", Budget(1.0), k=8))
    with pytest.raises(ParameterError, match="color must be"):
        release.plot_map(color="red", ax=ax)
    with pytest.raises(ParameterError, match="one integer for each of the 30 people"):
        release.plot_map(color=[1, 2], ax=ax)
    with pytest.raises(ParameterError, match="at least two people"):
        release.plot_distances([3], ax=ax)
    with pytest.raises(ParameterError, match="Take one row"):
        release.distance_matrix([1, 2]).plot(ax=ax)
    with pytest.raises(ParameterError, match="names must be one for each"):
        Estimate(np.ones(2), np.ones(2), np.ones(2), np.ones(2)).plot(["a"], ax=ax)
    with pytest.raises(ParameterError, match="of one person"):
        release.neighbor_graph(2).plot(ax=ax)


def test_one_person_has_a_map(ax: Any) -> None:
    release = publish([[1, 0, 1]], Plan.of("hashing+laplace", Budget(6.0), k=4))
    assert release.plot_map(ax=ax) is ax  # all of its places are zero
    low, high = ax.get_xlim()
    assert low < 0 < high
