import numpy as np
import pytest

from dimly.analyst.structure.plane import Plane
from dimly.studio.point_map import MapData, ramp


def plane(n: int = 2000) -> Plane:
    points = np.random.default_rng(0).normal(size=(n, 2)).astype(np.float32) * [5, 1]
    known = np.ones(n, np.bool_)
    known[3] = False
    points[3] = 0
    return Plane(points.astype(np.float32), known, 2, (0.9, 0.8))


def test_people_keep_their_places() -> None:
    made = plane()
    data = MapData.of(made)
    assert data.cells is None
    assert np.abs(data.places).max() <= 32_000
    back = np.corrcoef(data.places[:, 0], made.points[:, 0])[0, 1]
    assert back > 0.999999
    content = data.encoded()
    n = int(np.frombuffer(content, "<u4", 1)[0])
    assert n == 2000
    assert (np.frombuffer(content, "<i2", 2 * n, 4).reshape(n, 2) == data.places).all()
    assert len(content) == 4 + 4 * n + n
    left, bottom, right, top = data.view
    inside = (data.places >= [left, bottom]) & (data.places <= [right, top])
    assert inside.all(axis=1).mean() > 0.99


def test_of_more_people_cells_are_drawn() -> None:
    data = MapData.of(plane(), most=500)
    assert data.cells is not None
    assert len(data.drawn) < 2000
    assert data.cells.max() == len(data.drawn) - 1
    colors = np.zeros(2000, np.uint8)
    crowded = np.bincount(data.cells).argmax()
    members = np.flatnonzero(data.cells == crowded)
    colors[members] = 7
    colors[members[:1]] = 9 if len(members) > 2 else 7
    drawn = np.frombuffer(data.colors_drawn(colors), np.uint8)
    assert len(drawn) == len(data.drawn)
    assert drawn[crowded] == 7
    assert (np.delete(drawn, crowded) == 0).all()


def test_who_is_nearest_and_who_is_inside() -> None:
    data = MapData.of(plane())
    for person in (0, 5, 1999):
        at = data.nearest(*data.places[person].tolist())
        assert (data.places[at] == data.places[person]).all()
    box = [[-3000.0, -3000.0], [3000.0, -3000.0], [3000.0, 3000.0], [-3000.0, 3000.0]]
    expected = np.flatnonzero((np.abs(data.places) < 3000).all(axis=1))
    assert set(data.inside(box)) ^ set(expected) <= set(np.flatnonzero((np.abs(data.places) == 3000).any(axis=1)))
    assert len(expected) > 10
    assert not len(data.inside([[31_999, 31_999], [32_000, 31_999], [32_000, 32_000]]))


@pytest.mark.parametrize("n", [1, 2])
def test_maps_of_hardly_anybody(n: int) -> None:
    data = MapData.of(Plane(np.zeros((n, 2), np.float32), np.zeros(n, np.bool_), 0, (0.0, 0.0)))
    assert data.nearest(0, 0) == 0
    assert np.isfinite(data.view).all()


def test_colors_from_low_to_high() -> None:
    colors = ramp()
    assert len(colors) == 255
    assert colors[0] != colors[127] != colors[254]
    assert all(len(one) == 7 for one in colors)
