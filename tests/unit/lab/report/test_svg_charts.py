"""Drawings show what they are given, and maps put groups apart."""

import re

import numpy as np
import pytest
from tests.matrices import publish_matrix
from tests.streams import Recorded

from dimly.analyst import Release
from dimly.analyst.structure.plane import SegmentMap, map_of
from dimly.lab.charts import SEGMENTS
from dimly.lab.report.acuity import Acuity, Distances
from dimly.lab.report.svg_charts import (
    WIDTH,
    _apart,
    _bins,
    attack_curve,
    error_curve,
    histogram,
    ladder,
    segment_map,
    symbol,
)
from dimly.mechanisms import Plan
from dimly.privacy import Budget

ACUITY = Acuity(Plan.of("hashing+laplace", Budget(1.0), k=128, seed=bytes(32)), 100.0)


def test_bars_of_steps_hold_equally_many_places() -> None:
    step = 4.68
    values = step * np.random.default_rng(0).integers(-10, 60, 5000).astype(np.float64)
    edges = _bins(values, float(values.min()), float(values.max()))
    places = np.unique(values)
    inside = np.histogram(places, bins=edges)[0]
    assert len(set(inside[:-1].tolist())) == 1
    assert inside.sum() == len(places)


def test_what_is_promised_is_rounded_up_and_what_was_seen_down() -> None:
    drawn = attack_curve(ACUITY.plan, 0.998)
    assert "A promise of ε = 1 allows 73.2 % right guesses." in drawn  # 73.106
    assert "claimed 1: 73.2 %" in drawn
    assert "at least ε = 0.99, which is 72 %." in drawn  # 72.9
    assert "audit" not in attack_curve(ACUITY.plan, None)


def test_bars_of_one_place() -> None:
    found = _bins(np.full(100, 7.0), 4.0, 10.0)
    assert found[0] <= 7 <= found[-1]


def test_bars_hold_everybody_and_noise_is_drawn_beside_them() -> None:
    values = np.random.default_rng(0).normal(100.0, 20.0, 1000)
    drawn = histogram(Distances(values, 10.0, 0.0))
    assert drawn.count('class="bar"') > 20
    assert 'class="alone"' in drawn
    assert "Noise alone would give a standard deviation of 10." in drawn
    assert "nan" not in histogram(Distances(np.full(100, 5.0), 0.0, 0.0))


def test_curves_mark_what_was_found() -> None:
    values = np.random.default_rng(0).normal(300.0, 150.0, 1000)
    with_people = error_curve(ACUITY, Distances(values, 100.0, 0.0), 700.0)
    assert 'class="band"' in with_people
    assert "average pair" in with_people
    noise_only = error_curve(ACUITY, Distances(values, 160.0, 0.0), 700.0)
    assert 'class="band"' not in noise_only
    assert "average pair" not in error_curve(ACUITY, None, 700.0)


@pytest.mark.parametrize("mean", [20.0, 200.0, 400.0, 410.0, 420.0, 430.0, 690.0])
def test_what_is_written_beside_a_curve_fits_a_phone(mean: float) -> None:
    drawn = error_curve(ACUITY, Distances(np.full(10, mean), 100.0, 0.0), 700.0)
    ((at, side, text),) = re.findall(r'class="strong" x="([\d.]+)" y="[\d.]+" text-anchor="(\w+)">([^<]+)<', drawn)
    width = 8.2 * len(text)  # bold letters of 15 px
    left = float(at) - {"start": 0.0, "middle": width / 2, "end": width}[side]
    assert 56 <= left <= left + width <= WIDTH  # the numbers of the axis end at 50


def test_a_curve_has_a_point_where_it_bends() -> None:
    counting = Acuity(Plan.of("counting+laplace", Budget(2.0), k=256, seed=bytes(32)), 100.0)
    points = [drawn.count("L") for drawn in (error_curve(counting, None, reach) for reach in (100.0, 400.0))]
    assert points[1] == points[0] + 1


def test_ladders_have_a_rung_for_each_distance() -> None:
    drawn = ladder(ACUITY, [0.0, 150.0, 350.0], 400.0)
    assert drawn.count("<circle") == 3
    assert "0, 150, 350." in drawn


def test_bands_of_a_ladder_are_not_cut_off() -> None:
    drawn = ladder(ACUITY, [0.0, 150.0, 350.0], 360.0)
    edges = re.findall(r'class="band" x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', drawn)
    dots = re.findall(r'<circle class="dot" cx="([\d.]+)"', drawn)
    for (left, width), dot in zip(edges, dots, strict=True):
        assert float(left) + float(width) / 2 == pytest.approx(float(dot), abs=0.2)
        assert 0 < float(left) < float(left) + float(width) < WIDTH


def test_segments_differ_in_color_or_shape_or_filling() -> None:
    looks = [re.sub(r"\s+", " ", symbol(label)) for label in range(12)]
    assert len(set(looks)) == 12
    assert len({look.color for look in SEGMENTS}) == len(SEGMENTS) == len({look.marker for look in SEGMENTS})


def test_a_map_of_more_segments_than_colors() -> None:
    generator = np.random.default_rng(0)
    labels = generator.integers(12, size=300)
    drawn = segment_map(SegmentMap(generator.normal(size=(300, 2)), labels, generator.normal(size=(12, 2)), (0.5, 0.2)))
    assert drawn.count('class="people"') == 12
    assert drawn.count('class="name"') == 12
    alone = segment_map(SegmentMap(generator.normal(size=(50, 2)), np.zeros(50), np.zeros((1, 2)), (0.5, 0.2)))
    assert 'class="name"' not in alone
    assert "do not fall into groups" in alone


def test_numbers_of_near_segments_do_not_cover_each_other() -> None:
    places = [(100.0, 100.0), (100.0, 100.0), (104.0, 98.0), (300.0, 50.0)]
    moved = np.array(_apart(places))
    apart = np.linalg.norm(moved[:, None] - moved, axis=2)[np.triu_indices(4, 1)]
    assert apart.min() > 19
    np.testing.assert_allclose(moved[3], places[3], atol=0.1)


@pytest.mark.parametrize("mechanism", ["counting+laplace", "hashing+laplace"])
def test_maps_put_groups_apart(mechanism: str) -> None:
    generator = np.random.default_rng(0)
    tastes = generator.random((3, 300)) < 0.3
    kind = np.arange(450) % 3
    table = generator.random((450, 300)) < np.where(tastes[kind], 0.8, 0.05)
    plan = Plan.of(mechanism, Budget(4.0), k=64, seed=bytes(32))
    release = Release(publish_matrix(table, plan, words=Recorded(0)))
    segments = release.segments(3, activity=True)  # where everybody counts alike, a center is an average
    found = map_of(release, segments, positions=np.arange(450))
    assert found is not None
    assert found.points.shape == (450, 2)
    for label in range(3):
        mine = found.points[found.labels == label]
        np.testing.assert_allclose(mine.mean(axis=0), found.centers[label], atol=1e-4)
        inner = np.linalg.norm(mine - found.centers[label], axis=1).mean()
        others = np.linalg.norm(np.delete(found.centers, label, axis=0) - found.centers[label], axis=1)
        assert others.min() > 2 * inner
    assert 0.2 < found.shares[1] <= found.shares[0] < 1
