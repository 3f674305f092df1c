"""Noise that is used twice reveals what it hides, and so does noise that someone can compute.

Whatever is published of empty tables is noise alone, so that two releases can be compared number by number.
"""

import multiprocessing
import os
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.matrices import publish_matrix
from tests.plans import N_ATTRIBUTES, N_USERS, plan_of
from tests.processes import in_a_fork
from tests.streams import NO_NOISE, Recorded

from dimly.analyst.release import Release
from dimly.api import publish
from dimly.curator.people import people_of
from dimly.curator.perturb import Perturber
from dimly.curator.randomness import Keystream, WordSource
from dimly.curator.tables.matrix import publish_people
from dimly.mechanisms import MECHANISMS, Vocabulary

MECHANISM = "counting+laplace"
every_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS)


def noise_of(mechanism: str = MECHANISM) -> NDArray[Any]:
    return publish(np.zeros((N_USERS, N_ATTRIBUTES), bool), plan_of(mechanism)).values


def pieces(values: NDArray[Any]) -> list[bytes]:
    """Cut published noise into pieces that carry far more than 64 bits of chance each, so that none comes twice."""
    flat = values.reshape(-1)
    size = 64 if flat.dtype == np.int16 else 20
    return [flat[i : i + size].tobytes() for i in range(0, len(flat) - size + 1, size)]


def all_different(releases: list[NDArray[Any]]) -> bool:
    found = [piece for values in releases for piece in pieces(values)]
    assert len(found) > len(releases)
    return len(set(found)) == len(found)


def test_the_check_itself_notices_noise_that_comes_twice() -> None:
    plan = plan_of(MECHANISM)
    seeded = [publish_matrix(np.zeros((N_USERS, 1)), plan, words=Recorded(0)).values for _ in range(2)]
    assert not all_different(seeded)
    # A piece that comes again within one release, too.
    assert not all_different([np.concatenate([noise_of(), seeded[0], seeded[1][:2]])])


@every_mechanism
def test_two_calls_never_publish_the_same_noise(mechanism: str) -> None:
    assert all_different([noise_of(mechanism) for _ in range(4)])


@every_mechanism
def test_two_threads_never_publish_the_same_noise(mechanism: str) -> None:
    start = threading.Barrier(4)

    def work(_: int) -> NDArray[Any]:
        start.wait()
        return noise_of(mechanism)

    with ThreadPoolExecutor(4) as pool:
        assert all_different(list(pool.map(work, range(4))))


def test_threads_that_share_a_perturber_and_a_keystream_never_publish_the_same_noise() -> None:
    perturber = Perturber(plan_of(MECHANISM), Vocabulary.numbered(N_ATTRIBUTES))
    people, _ = people_of(np.zeros((500, N_ATTRIBUTES)), resolution=1, n_columns=None, attributes=None)
    words = Keystream()
    with ThreadPoolExecutor(4) as pool:
        values = list(pool.map(lambda _: publish_people(people, perturber, words=words).values, range(8)))
    assert all_different(values)


def forked(work: Callable[[], NDArray[Any]]) -> NDArray[Any]:
    return np.frombuffer(in_a_fork(lambda: work().tobytes()), np.int16)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_never_publishes_its_parents_noise() -> None:
    people, _ = people_of(np.zeros((N_USERS, N_ATTRIBUTES)), resolution=1, n_columns=None, attributes=None)
    perturber, words = Perturber(plan_of(MECHANISM), Vocabulary.numbered(N_ATTRIBUTES)), Keystream()

    def inherited() -> NDArray[Any]:
        """Publish with a keystream that was begun before the fork."""
        return publish_people(people, perturber, words=words).values

    found = [inherited(), forked(inherited), forked(inherited), inherited()]
    found += [noise_of(), forked(noise_of), forked(noise_of), noise_of()]
    assert all_different(found)


def test_new_processes_never_publish_the_same_noise() -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        found = pool.map(noise_of, [MECHANISM] * 4, chunksize=1)
    assert all_different([*found, noise_of()])


@every_mechanism
def test_a_seed_changes_nothing(mechanism: str) -> None:
    found = []
    for _ in range(2):
        random.seed(1)
        np.random.seed(1)
        found.append(noise_of(mechanism))
    assert all_different(found)


@every_mechanism
def test_no_generator_but_the_operating_systems_is_asked(mechanism: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(mechanism)
    publish(np.zeros((5, N_ATTRIBUTES)), plan)  # compiling a kernel for the first time asks for names of files

    def forbidden(*_: object, **__: object) -> NoReturn:
        raise AssertionError("noise must not come from here")

    asked = []
    truly_random = os.urandom

    def noted(size: int) -> bytes:
        asked.append(size)
        return truly_random(size)

    with monkeypatch.context() as patched:
        patched.setattr(os, "urandom", noted)
        for name in ("random", "getrandbits", "randbytes", "seed", "gauss", "Random"):
            patched.setattr(random, name, forbidden)
        for name in ("default_rng", "seed", "random", "bytes", "standard_normal", "laplace", "Generator", "PCG64"):
            patched.setattr(np.random, name, forbidden)
        releases = [publish(np.zeros((5, N_ATTRIBUTES)), plan) for _ in range(2)]
    assert all(release.private for release in releases)
    assert asked == [32, 32]  # a fresh key for each batch


class Lookalike(Keystream):
    def fill(self, out: Any) -> None:
        out[...] = 0


@pytest.mark.parametrize("words", [Recorded(0), NO_NOISE, Lookalike()], ids=["recorded", "constant", "subclass"])
def test_whatever_is_injected_leaves_its_stamp(words: WordSource) -> None:
    sketches = publish_matrix(np.zeros((5, N_ATTRIBUTES)), plan_of(MECHANISM), words=words)
    assert not sketches.private
    assert "NOT PRIVATE" in repr(sketches)
    release = Release(sketches)
    assert not release.private
    assert "NOT PRIVATE" in repr(release)
    assert release.guarantee.startswith("NOT PRIVATE")
    assert "odds" not in release.guarantee


def test_the_front_door_takes_no_words() -> None:
    release = publish(np.zeros((5, N_ATTRIBUTES)), plan_of(MECHANISM))
    assert release.private
    assert "NOT PRIVATE" not in repr(release) + release.guarantee
    with pytest.raises(TypeError, match="words"):
        publish(np.zeros((5, N_ATTRIBUTES)), plan_of(MECHANISM), words=Recorded(0))  # type: ignore[call-overload]
