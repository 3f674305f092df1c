"""The picture holds what was found."""

import math
from pathlib import Path

import numpy as np
import pytest

from dimly.audit.attack_figure import draw, save
from dimly.audit.attacks import (
    EPSILONS,
    KNOWN,
    LINKED,
    MECHANISMS,
    REPEATS,
    Attacks,
    AttributesRead,
    Averaging,
    Inference,
    Linkage,
)
from dimly.errors import ParameterError

FOUND = Attacks(
    tuple(AttributesRead(epsilon, 10, 0.5, 0.6) for epsilon in (math.inf, *EPSILONS)),
    tuple(Inference(name, epsilon, 0.6, 0.7) for name in MECHANISMS for epsilon in EPSILONS),
    tuple(Averaging(repeats, 0.6, 0.62, 0.9) for repeats in REPEATS),
    tuple(Linkage(epsilon, known, 0.25, 0.6, 0.7, 0.73) for epsilon in LINKED for known in KNOWN),
)


def test_four_charts() -> None:
    charts = draw(FOUND).axes
    assert len(charts) == 4
    assert {line.get_label() for line in charts[1].get_lines()} >= set(MECHANISMS)
    drawn = [np.asarray(line.get_ydata()) for line in charts[3].get_lines()]
    assert all(np.all(one == 0.25) for one in drawn[0::2])  # found
    assert all(np.all(one == 0.6) for one in drawn[1::2])  # one more


def test_it_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    save(FOUND, path, overwrite=False)
    assert path.stat().st_size > 1000
    with pytest.raises(ParameterError):
        save(FOUND, path, overwrite=False)


def test_other_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"figure must end in \.png"):
        save(FOUND, tmp_path / "a.txt", overwrite=False)
