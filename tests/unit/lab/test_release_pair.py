import numpy as np
import pytest

from dimly.api import publish
from dimly.errors import ParameterError
from dimly.lab.release_pair import compare_releases
from dimly.mechanisms import Plan
from dimly.privacy import Budget

PEOPLE = np.random.default_rng(0).random((500, 300)) < 0.2


def plan(epsilon: float = 6.0) -> Plan:
    return Plan.of("counting+laplace", Budget(epsilon), k=64)


def test_releases_of_the_same_people_agree() -> None:
    found = compare_releases(publish(PEOPLE, plan()), publish(PEOPLE[100:], plan(2.0), users=np.arange(100, 500)))
    assert found.n_common == 400
    assert found.epsilon == 8.0
    assert 0.8 < found.ratio < 1.2
    assert found.words.startswith("They agree")
    assert len(found.first) == len(found.second) == 2000


def test_releases_of_other_people_under_the_same_ids_do_not() -> None:
    others = np.random.default_rng(1).random((500, 300)) < np.linspace(0.02, 0.6, 500)[:, None]
    found = compare_releases(publish(PEOPLE, plan()), publish(others, plan()))
    assert found.ratio > 1.5
    assert "times as much as noise explains" in found.words


def test_what_cannot_be_compared() -> None:
    first = publish(PEOPLE, plan())
    nobody = compare_releases(first, publish(PEOPLE, plan(), users=np.arange(1000, 1500)))
    assert nobody.n_common == 0
    assert "no two people in common" in nobody.words
    with pytest.raises(ParameterError, match="name people alike"):
        compare_releases(first, publish(PEOPLE, plan(), users=[f"p{i}" for i in range(500)]))
