"""Made-up people with tastes: heavy-tailed weights and popularity, known groups; written as tables."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy
from numpy.typing import NDArray

from dimly.errors import ParameterError

LARGEST_TASTE = 1e6
"""Beyond it nothing but favorites is ever chosen."""
_BLOCK = 500  # people at a time: a number for each of their possible attributes is held


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """People as a sparse matrix of ones, and the group that each belongs to."""

    table: scipy.sparse.csr_array
    groups: NDArray[np.int64]

    def squared_distances(self, a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the true squared distances of pairs of people, given by their rows."""
        weights = self.weights
        shared: NDArray[np.int64] = np.asarray(self.table[a].multiply(self.table[b]).sum(axis=1), np.int64)
        return weights[a] + weights[b] - 2 * shared

    def write(self, path: Path, *, first: int = 0) -> None:
        """Write a long table of persons and places that they visited, as CSV or Parquet by the ending of the name.

        Persons are numbered from ``first`` on.
        """
        if path.suffix == ".csv":
            self._write_csv(path, first)
        elif path.suffix == ".parquet":
            self._write_parquet(path, first)
        else:
            raise ParameterError(f"out must end in .csv or .parquet, got {path.name!r}.")

    def write_people(self, path: Path) -> None:
        """Write the list of people as Parquet: a roster, which is public."""
        import pyarrow as pa  # noqa: PLC0415  (slow to import)
        import pyarrow.parquet as pq  # noqa: PLC0415

        pq.write_table(pa.table({"person": np.arange(len(self.groups))}), path)

    def write_groups(self, path: Path) -> None:
        """Write everybody's true group as Parquet: what a curator would not give away."""
        import pyarrow as pa  # noqa: PLC0415  (slow to import)
        import pyarrow.parquet as pq  # noqa: PLC0415

        pq.write_table(pa.table({"person": np.arange(len(self.groups)), "group": self.groups}), path)

    def _write_parquet(self, path: Path, first: int) -> None:
        import pyarrow as pa  # noqa: PLC0415  (slow to import)
        import pyarrow.parquet as pq  # noqa: PLC0415

        rows, columns = self.table.nonzero()
        names = pa.array([f"place {place}" for place in range(self.table.shape[1])])
        places = pa.DictionaryArray.from_arrays(pa.array(columns.astype(np.int32)), names).cast(pa.string())
        pq.write_table(pa.table({"person": rows.astype(np.int64) + first, "place": places}), path)

    def _write_csv(self, path: Path, first: int) -> None:
        rows, columns = self.table.nonzero()
        people = (rows + first).tolist()
        lines = (f"{person},place {place}\n" for person, place in zip(people, columns.tolist(), strict=True))
        with path.open("w", encoding="utf-8") as file:
            file.write("person,place\n")
            file.writelines(lines)

    @property
    def weights(self) -> NDArray[np.int64]:
        """Number of attributes of each person."""
        weights: NDArray[np.int64] = np.diff(self.table.indptr).astype(np.int64)
        return weights


def make_population(
    n_users: int,
    n_attributes: int,
    *,
    n_groups: int = 8,
    mean_weight: float = 100.0,
    taste: float = 8.0,
    overlap: float = 0.0,
    seed: int = 0,
    volunteers: bool = False,
) -> Population:
    """Return people whose attributes follow popularity and the taste of their group.

    Parameters
    ----------
    n_users, n_attributes : int
    n_groups : int, default=8
    mean_weight : float, default=100.0
        Attributes of a person on average; a few have several times as many.
    taste : float, default=8.0
        How much more likely a group's favorites (a twentieth of all attributes) are, up to 1e6; 1: no groups at all.
    overlap : float, default=0.0
        Part of a group's favorites that are everybody's, from 0 to 1; 1: groups do not differ.
    seed : int
        The same seed makes the same people. Not secret: these people do not exist.
    volunteers : bool, default=False
        Whether to make other people of the same groups, such as might publish their data.

    Examples
    --------
    >>> people = make_population(200, 1000, seed=1)
    >>> people.table.shape, bool(80 < people.weights.mean() < 120)
    ((200, 1000), True)
    """
    for name, count in (("n_users", n_users), ("n_attributes", n_attributes)):
        if count < 1:
            raise ParameterError(f"{name} must be 1 or more, got {count!r}.")
    if not 1 <= n_groups <= n_users:
        raise ParameterError(f"n_groups must be from 1 to n_users = {n_users}, got {n_groups}.")
    if not 1 <= mean_weight <= n_attributes / 4:
        raise ParameterError(
            f"mean_weight must be from 1 to a quarter of n_attributes = {n_attributes}, got {mean_weight!r}."
        )
    if not 1 <= taste <= LARGEST_TASTE:
        raise ParameterError(f"taste must be from 1 to {LARGEST_TASTE:g}, got {taste!r}.")
    if seed < 0:
        raise ParameterError(f"seed must be 0 or more, got {seed!r}.")
    if not 0 <= overlap <= 1:
        raise ParameterError(f"overlap must be from 0 to 1, got {overlap!r}.")
    generator = np.random.default_rng(seed)
    popularity = (np.arange(n_attributes) + 10.0) ** -0.8
    draws = generator.random((n_groups, n_attributes))
    if overlap:  # these attributes are the favorites of all groups or of none
        common = np.random.default_rng([seed, 1]).random(n_attributes) < overlap
        draws[:, common] = draws[0, common]
    favorites = draws < 0.05
    rates = (popularity * np.where(favorites, taste, 1.0)).astype(np.float32)
    # Of volunteers groups have the same favorites, and people are drawn anew.
    generator = np.random.default_rng([seed, 2]) if volunteers else generator
    groups = generator.integers(n_groups, size=n_users)
    spread = 0.6
    drawn = generator.lognormal(np.log(mean_weight) - spread**2 / 2, spread, n_users)
    weights = np.clip(np.rint(drawn), 1, n_attributes // 2).astype(np.int64)
    rows = []
    for start in range(0, n_users, _BLOCK):
        block = slice(start, start + _BLOCK)
        # Of waiting times at such rates, the w shortest are w draws without replacement.
        waits = generator.standard_exponential((len(groups[block]), n_attributes), np.float32) / rates[groups[block]]
        most = int(weights[block].max())
        first = np.argpartition(waits, most - 1, axis=1)[:, :most]  # sorting all takes three times as long
        order = np.take_along_axis(first, np.argsort(np.take_along_axis(waits, first, axis=1), axis=1), axis=1)
        rows += [np.sort(order[i, :w]) for i, w in enumerate(weights[block])]
    indptr = np.concatenate([[0], np.cumsum(weights)])
    ones = np.ones(int(indptr[-1]), np.int8)
    table = scipy.sparse.csr_array((ones, np.concatenate(rows), indptr), shape=(n_users, n_attributes))
    return Population(table, groups)
