"""The figure of profiles: a panel for each segment, names that fit."""

import numpy as np
import pytest

from dimly.lab.charts import MOST_PANELS, ProfileChart, encoded
from dimly.mechanisms.survey_plan import SurveyPlan
from dimly.privacy import Budget
from dimly.release.documents.profiles_file import Profiles

NAMES = ("tea", "jam", "$ and $", "a name that is far too long to stand beside a panel")


def profiles(segments: int) -> Profiles:
    counts = np.random.default_rng(0).integers(-3, 90, (segments, len(NAMES)))
    plan = SurveyPlan.of(Budget(1.0), ["profiles"], release="ab" * 32)
    return Profiles(plan=plan, attributes=NAMES, sizes=np.full(segments, 90), counts=counts, spread=(-4, 4))


@pytest.mark.parametrize("segments", [1, 4, MOST_PANELS + 1])
@pytest.mark.thorough(but=1)
def test_a_panel_for_each_segment(segments: int) -> None:
    text = encoded(ProfileChart(profiles(segments)).draw(), "svg").decode()
    for segment in range(segments):
        assert (f"segment {segment}, 90 people" in text) == (segment < MOST_PANELS)
    assert "stand besi" not in text


def test_every_mark_is_inside_its_panel() -> None:
    for axis in ProfileChart(profiles(6)).draw().axes[:6]:
        least, most = axis.get_xlim()
        marks = np.concatenate([np.asarray(line.get_xdata(), np.float64) for line in axis.lines])
        assert least < marks.min()
        assert marks.max() < most
