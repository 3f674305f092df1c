"""People of thirteen kinds and scikit-learn's tables, in two halves: to set limits of verdicts, and to test them.

``people`` yields the same ones always. Sizes and strengths are drawn from one seed, and so is who belongs to which
half: kinds have no say in it. Nobody had looked at any of them before. Limits were set by the first half, and the
second was published only then.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from benchmarks.planning import NO_GROUPS
from dimly.lab.population import Population

SEED = 20_261_118
DRAWS = 4
"""Of each kind."""
Bits = NDArray[np.bool_]
Groups = NDArray[Any]


class Table(NamedTuple):
    """People, and which half they belong to."""

    name: str
    people: Population
    held_out: bool


class _Sizes(NamedTuple):
    """How many people, attributes and groups there are, and about how many attributes a person has."""

    n: int
    d: int
    w: float
    g: int


def _sizes(generator: np.random.Generator) -> _Sizes:
    n, d = (int(round(np.exp(generator.uniform(*np.log(ends))), -1)) for ends in ((500, 3_000), (100, 2_000)))
    return _Sizes(n, d, float(np.exp(generator.uniform(np.log(6), np.log(0.2 * d)))), int(generator.integers(3, 9)))


def _drawn(odds: NDArray[np.float64], weights: Any, generator: np.random.Generator) -> Bits:
    """Return people who have attributes independently, by odds that are scaled to their weights."""
    likely = odds / odds.sum(axis=1, keepdims=True) * np.reshape(weights, (-1, 1))
    found: Bits = generator.random(odds.shape) < np.minimum(likely, 0.97)
    return found


def _uneven(s: _Sizes, generator: np.random.Generator, spread: float = 0.5) -> NDArray[np.float64]:
    return s.w * generator.lognormal(-(spread**2) / 2, spread, s.n)


def topics(s: _Sizes, generator: np.random.Generator) -> tuple[Bits, Groups]:
    """Return mixed tastes: everybody draws from several topics."""
    likes = generator.dirichlet(np.full(s.d, 0.05), s.g)
    mixed = generator.dirichlet(np.full(s.g, 0.25), s.n)
    return _drawn(mixed @ likes + 1e-3 / s.d, _uneven(s, generator), generator), mixed.argmax(axis=1)


def near_duplicates(s: _Sizes, generator: np.random.Generator) -> tuple[Bits, None]:
    """Return families of 3 to 12 who differ in few attributes."""
    families = np.repeat(np.arange(s.n), generator.integers(3, 13, s.n))[: s.n]
    first = generator.random((s.n, s.d)) < s.w / s.d
    flipped = generator.random((s.n, s.d)) < generator.uniform(0.05, 0.3) * s.w / s.d
    return first[families] ^ flipped, None


def popular(s: _Sizes, generator: np.random.Generator) -> tuple[Bits, None]:
    """Return popularity by a power law, nothing else in common."""
    odds = (np.arange(s.d) + 3.0) ** -generator.uniform(0.5, 1.2)
    return _drawn(np.tile(odds, (s.n, 1)), _uneven(s, generator, 0.8), generator), None


def bundles(s: _Sizes, generator: np.random.Generator) -> tuple[Bits, None]:
    """Return attributes that come in bundles, of which each person has some."""
    size = int(generator.integers(3, 15))
    bundle = generator.integers(max(2, s.d // size), size=s.d)
    has = generator.random((s.n, bundle.max() + 1)) < s.w / s.d
    return has[:, bundle] & (generator.random((s.n, s.d)) < 0.8), None


def along_a_line(s: _Sizes, generator: np.random.Generator) -> tuple[Bits, None]:
    """Return people along a line, who have most of the attributes near them."""
    where, places = generator.random((s.n, 1)), np.linspace(0.0, 1.0, s.d)
    wide = max(s.w / s.d, 0.01)
    return _drawn(np.exp(-(((where - places) / wide) ** 2) / 2) + 0.01, _uneven(s, generator, 0.3), generator), None


def map_of_places(s: _Sizes, generator: np.random.Generator) -> tuple[Bits, Groups]:
    """Return people around towns, who visit popular places near them."""
    towns, near = generator.random((s.g, 2)), generator.integers(s.g, size=s.n)
    homes = towns[near] + 0.06 * generator.standard_normal((s.n, 2))
    places, fame = generator.random((s.d, 2)), generator.pareto(1.5, s.d) + 0.2
    far = ((homes[:, None] - places) ** 2).sum(axis=2)
    return _drawn(fame * np.exp(-far / 0.02) + 1e-3, _uneven(s, generator), generator), near


def tree(s: _Sizes, generator: np.random.Generator) -> tuple[Bits, Groups]:
    """Return groups of groups: large ones share some tastes, small ones within them more."""
    large = generator.integers(3, size=s.n)
    small = 3 * large + generator.integers(3, size=s.n)
    likes = np.where(generator.random((3, s.d)) < 0.2, 6.0, 1.0)
    more = np.where(generator.random((9, s.d)) < 0.1, 10.0, 1.0)
    return _drawn(likes[large] * more[small], _uneven(s, generator, 0.3), generator), small


def survey(s: _Sizes, generator: np.random.Generator) -> tuple[Bits, Groups]:
    """Return answers to questions of a few options each, by latent classes."""
    options = int(generator.integers(2, 8))
    n_questions = max(4, min(s.d, 600) // options)
    classes = generator.integers(s.g, size=s.n)
    likely = generator.dirichlet(np.full(options, 0.7), (s.g, n_questions))
    steps = likely.cumsum(axis=2)[classes]
    answers = (generator.random((s.n, n_questions, 1)) > steps).sum(axis=2).clip(max=options - 1)
    return (answers[:, :, None] == np.arange(options)).reshape(s.n, -1), classes


def factors(s: _Sizes, generator: np.random.Generator) -> tuple[Bits, None]:
    """Return ability and difficulty: attributes are thresholds of a few factors."""
    n_factors = int(generator.integers(1, 6))
    latent = generator.standard_normal((s.n, n_factors)) @ generator.standard_normal((n_factors, s.d))
    latent = latent / np.sqrt(n_factors) + generator.standard_normal((s.n, s.d))
    share = min(0.5, s.w / s.d)
    hard = np.quantile(latent, 1 - share * generator.uniform(0.2, 1.8, s.d).clip(max=0.95), axis=0)
    return latent > np.diagonal(hard), None


def unequal_groups(s: _Sizes, generator: np.random.Generator) -> tuple[Bits, Groups]:
    """Return groups whose sizes follow a power law, with tastes of their own."""
    sizes = (np.arange(s.g) + 1.0) ** -1.2
    groups = generator.choice(s.g, s.n, p=sizes / sizes.sum())
    likes = np.where(generator.random((s.g, s.d)) < 0.15, generator.uniform(4, 20), 1.0)
    return _drawn(likes[groups] * generator.lognormal(0, 1, s.d), _uneven(s, generator), generator), groups


def circles(s: _Sizes, generator: np.random.Generator) -> tuple[Bits, None]:
    """Return circles of 3 to 40 friends, who share a part of what they have, and everything else with nobody."""
    circle = np.repeat(np.arange(s.n), generator.integers(3, 41, s.n))[: s.n]
    shared = generator.random((s.n, s.d)) < 0.6 * s.w / s.d
    return shared[circle] | (generator.random((s.n, s.d)) < 0.4 * s.w / s.d), None


def light(s: _Sizes, generator: np.random.Generator) -> tuple[Bits, Groups]:
    """Return people with three to eight attributes, in groups."""
    groups = generator.integers(s.g, size=s.n)
    likes = np.where(generator.random((s.g, s.d)) < 0.2, 15.0, 1.0) * (np.arange(s.d) + 5.0) ** -0.5
    return _drawn(likes[groups], generator.integers(3, 9, s.n), generator), groups


def dense(s: _Sizes, generator: np.random.Generator) -> tuple[Bits, Groups]:
    """Return people who have a third of everything: alleles of groups that drifted apart."""
    d, drift = min(s.d, 1_000), generator.uniform(0.02, 0.15)
    common, scale = generator.beta(1.0, 2.0, d).clip(0.02, 0.98), 1 / drift - 1
    likely = generator.beta(common * scale, (1 - common) * scale, (s.g, d))
    groups = generator.integers(s.g, size=s.n)
    return generator.random((s.n, d)) < likely[groups], groups


KINDS: tuple[Callable[[_Sizes, np.random.Generator], tuple[Bits, Groups | None]], ...] = (
    topics,
    near_duplicates,
    popular,
    bundles,
    along_a_line,
    map_of_places,
    tree,
    survey,
    factors,
    unequal_groups,
    circles,
    light,
    dense,
)


def _measured(cuts: int, *, one_hot: bool) -> Iterator[tuple[str, Bits, Groups]]:
    """Yield the tables of scikit-learn: each column cut at quantiles, as a thermometer or by the part it falls into."""
    from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine  # noqa: PLC0415

    for load in (load_breast_cancer, load_digits, load_iris, load_wine):
        loaded = load()
        levels = np.quantile(loaded.data, np.arange(1, cuts + 1) / (cuts + 1), axis=0)
        above = loaded.data[:, None, :] > levels
        if one_hot:
            above = np.arange(cuts + 1)[:, None] == above.sum(axis=1, keepdims=True)
        name = load.__name__.removeprefix("load_").replace("_", " ")
        yield f"{name}, {cuts} cuts{', one-hot' * one_hot}", above.reshape(len(above), -1), loaded.target


def people() -> Iterator[Table]:
    """Yield everybody."""
    every: list[tuple[str, Callable[[], tuple[Bits, Groups | None]]]] = []
    for number, kind in enumerate(KINDS):
        for draw in range(DRAWS):
            generator = np.random.default_rng([SEED, number, draw])
            every.append(
                (f"{kind.__name__.replace('_', ' ')} {draw}", lambda k=kind, g=generator: k(_sizes(g), g))  # type: ignore[misc]
            )
    every += [(n, lambda b=b, t=t: (b, t)) for n, b, t in (*_measured(2, one_hot=True), *_measured(5, one_hot=False))]  # type: ignore[misc]
    aside = np.random.default_rng(SEED).permutation(len(every)) < len(every) // 2
    for (name, make), held_out in zip(every, aside.tolist(), strict=True):
        bits, groups = make()
        groups = np.full(len(bits), NO_GROUPS) if groups is None else groups
        yield Table(name, Population(scipy.sparse.csr_array(bits.astype(np.int8)), groups), held_out)
