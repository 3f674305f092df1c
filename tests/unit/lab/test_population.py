from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.spatial.distance import cdist

from dimly.errors import ParameterError
from dimly.lab.population import Population, make_population


def test_people_are_heavy_tailed_and_reproducible() -> None:
    people = make_population(1500, 2000, mean_weight=60, seed=3)
    assert (people.table.toarray() == make_population(1500, 2000, mean_weight=60, seed=3).table.toarray()).all()
    assert people.weights.mean() == pytest.approx(60, rel=0.1)
    assert people.weights.max() > 3 * np.median(people.weights)
    popularity = np.sort(np.asarray(people.table.sum(axis=0)).reshape(-1))[::-1]
    assert popularity[:20].mean() > 10 * popularity[1000:].mean()
    assert people.table.has_canonical_format
    assert set(people.table.data.tolist()) == {1}


def test_distances_are_true() -> None:
    people = make_population(40, 300, mean_weight=20)
    dense = people.table.toarray().astype(float)
    a, b = np.triu_indices(40, 1)
    assert (people.squared_distances(a, b) == cdist(dense, dense, "sqeuclidean")[a, b]).all()


def test_people_of_one_taste_are_nearer_unless_there_is_none() -> None:
    for taste, apart in ((8.0, True), (1.0, False)):
        people = make_population(600, 2000, taste=taste, n_groups=4, seed=5)
        a, b = np.triu_indices(600, 1)
        same = people.groups[a] == people.groups[b]
        truth = people.squared_distances(a, b)
        gap = truth[~same].mean() - truth[same].mean()
        assert bool(gap > 5) is apart


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"n_users": -5}, "n_users"),
        ({"n_attributes": 0}, "n_attributes"),
        ({"n_groups": 0}, "n_groups"),
        ({"mean_weight": 99}, "mean_weight"),
        ({"taste": 0.5}, "taste"),
        ({"seed": -1}, "seed"),
        ({"overlap": 1.5}, "overlap"),
    ],
)
def test_impossible_people_are_refused(changes: dict[str, float], text: str) -> None:
    sizes = {"n_users": 10, "n_attributes": 100, "mean_weight": 10}
    with pytest.raises(ParameterError, match=f"^{text} must be"):
        make_population(**(sizes | changes))  # type: ignore[arg-type]


def test_people_as_a_table(tmp_path: Path) -> None:
    people = make_population(20, 40, mean_weight=5, n_groups=2)
    people.write(tmp_path / "visits.csv")
    header, *rows = (tmp_path / "visits.csv").read_text().splitlines()
    assert header == "person,place"
    expected = [f"{i},place {j}" for i, row in enumerate(people.table.toarray()) for j in np.flatnonzero(row)]
    assert rows == expected
    people.write(tmp_path / "visits.parquet")
    table = pq.read_table(tmp_path / "visits.parquet")
    assert [f"{i},{j}" for i, j in zip(*(column.to_pylist() for column in table.columns), strict=True)] == expected
    with pytest.raises(ParameterError, match=r"must end in \.csv or \.parquet"):
        people.write(tmp_path / "visits.txt")


def test_favorites_that_all_share_set_nobody_apart() -> None:
    apart, alike = (make_population(400, 500, mean_weight=50, n_groups=2, taste=60, overlap=o) for o in (0.0, 1.0))

    def between(people: Population) -> float:
        bits = people.table.toarray().astype(float)
        return float(np.linalg.norm(bits[people.groups == 0].mean(axis=0) - bits[people.groups == 1].mean(axis=0)))

    assert between(apart) > 3 * between(alike)


def test_volunteers_are_others_of_the_same_groups(tmp_path: Path) -> None:
    people = make_population(300, 400, n_groups=2, mean_weight=40, taste=1000, seed=4)
    others = make_population(300, 400, n_groups=2, mean_weight=40, taste=1000, seed=4, volunteers=True)
    assert (people.table != others.table).nnz > 0
    own = [[one.table[one.groups == g].mean(axis=0) for g in (0, 1)] for one in (people, others)]
    alike = [np.corrcoef(own[0][g], own[1][g])[0, 1] for g in (0, 1)]
    assert min(alike) > 0.9 > np.corrcoef(own[0][0], own[1][1])[0, 1]
    others.write(tmp_path / "volunteers.parquet", first=300)
    assert pq.read_table(tmp_path / "volunteers.parquet")["person"].to_pylist()[0] == 300
