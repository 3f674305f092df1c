"""Bounds that a privacy officer reads hold, and he is told what to check."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm
from tests.folders import people, release_folder, write
from tests.plans import plan_of
from tests.streams import Recorded

from dimly.lab.report.officer import PRIORS, SEVERAL, checks, guess_in_words, guesses, limits, promise, published
from dimly.mechanisms import Plan
from dimly.mechanisms.plan_parts import GaussianNoise
from dimly.privacy import Budget
from dimly.release import Manifest, read_manifest


def manifest_of(path: Path) -> Manifest:
    return read_manifest(path)


def test_a_pure_promise_is_bayes_rule_rounded_up() -> None:
    for one in guesses(plan_of("counting+laplace")):
        assert set(one.right) == set(PRIORS)
        for prior, bound in one.right.items():
            exact = Budget(float(one.several)).posterior(prior)
            assert exact <= bound <= exact + 0.001
    assert [one.several for one in guesses(plan_of("counting+laplace"))] == list(SEVERAL)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_with_delta_nobody_guesses_better_than_the_bound(epsilon: float) -> None:
    plan = Plan.of("hashing+gaussian", Budget(epsilon, 1e-6), k=8, seed=bytes(32))
    assert isinstance(plan.noise, GaussianNoise)
    for one in guesses(plan):
        best = norm.cdf(one.several / (2 * plan.noise.sigma))  # between two Gaussians that lie so far apart
        assert best <= one.right[0.5] <= 1
        assert list(one.right) == [0.5]
        away = one.several / plan.noise.sigma  # the exact δ of εm, for as many attributes in one bucket
        together = one.several * epsilon
        exact = norm.cdf(away / 2 - together / away) - np.exp(together) * norm.cdf(-away / 2 - together / away)
        assert exact <= one.delta * (1 + 1e-9)
    assert guesses(plan)[0].right[0.5] == pytest.approx(Budget(epsilon).posterior(0.5), abs=0.0011)


def test_huge_promises_are_no_overflow() -> None:
    for mechanism, delta in (("hashing+laplace", 0.0), ("hashing+gaussian", 1e-6)):
        found = guesses(Plan.of(mechanism, Budget(40.0, delta), k=8, seed=bytes(32), dtype="int32"))
        assert found[-1].odds == float("inf")
        assert found[-1].right[0.5] == 1
        assert found[-1].delta == (1 if delta else 0)


@pytest.mark.parametrize("mechanism", ["counting+laplace", "hashing+gaussian", "noisy-distances"])
def test_promise_and_limits_are_the_manifests_words(mechanism: str, tmp_path: Path) -> None:
    manifest = manifest_of(release_folder(tmp_path / "release", mechanism))
    assert (*promise(manifest), *limits(manifest)) == manifest.guarantee
    assert "by at most e^1" in promise(manifest)[0]
    assert any(line.startswith("Not protected") for line in limits(manifest))
    assert not any("Not protected" in line or "Several" in line for line in promise(manifest))


def test_a_release_for_tests(tmp_path: Path) -> None:
    manifest = manifest_of(write(tmp_path / "release", people(plan_of("counting+laplace"), words=Recorded(0))))
    assert promise(manifest) == ()
    assert "NOT PRIVATE" in limits(manifest)[0]
    assert checks(manifest) == ("Give this release to nobody: it was made for tests, and promises nothing.",)


def test_what_to_check_depends_on_the_release(tmp_path: Path) -> None:
    plain = manifest_of(write(tmp_path / "plain", people(plan_of("counting+laplace"))))
    text = "\n".join(checks(plain))
    for words in (plain.plan_digest, "dimly verify", "names no ledger", "public knowledge already", "as they are"):
        assert words in text
    for words in ("δ", "delta", "pseudonyms", "list of attributes"):
        assert words not in text
    sketches = people(plan_of("gaussian+gaussian"), text=True)
    other = manifest_of(write(tmp_path / "other", sketches, roster="found", ledger="visits", pseudonyms=True))
    text = "\n".join(checks(other))
    for words in (
        "dataset “visits”",
        "dimly ledger show",
        "everybody found there",
        "key of the pseudonyms",
        "list of attributes is public",
        "δ = 1e-06 is well below",
    ):
        assert words in text
    large = Plan.of("hashing+gaussian", Budget(1.0, 0.1), k=8, seed=bytes(32))
    assert "e^(m·epsilon), with a delta above m·delta." in text
    assert "δ = 0.1 is NOT well below" in "\n".join(checks(manifest_of(write(tmp_path / "large", people(large)))))


@pytest.mark.parametrize(
    ("mechanism", "noise", "numbers"),
    [
        ("counting+laplace", "discrete Laplace on each number, of standard deviation 1.357", "32, int16"),
        ("gaussian+gaussian", "rounded Gaussian (rule: exact) on each number", "32, int16"),
        ("randomized-response", "each bit is flipped with probability 0.2689", "one bit for each attribute"),
        ("noisy-distances", "on each squared distance", "the distances to the people after it"),
    ],
)
def test_what_was_published(mechanism: str, noise: str, numbers: str, tmp_path: Path) -> None:
    facts = published(manifest_of(release_folder(tmp_path / "release", mechanism)))
    assert noise in facts["Noise"]
    assert facts["Numbers per person"] == numbers
    assert facts["Mechanism"] == mechanism
    assert facts["People"].startswith("30, ")


def test_the_promise_in_a_sentence() -> None:
    assert "becomes at most 73.2 %" in guess_in_words(plan_of("counting+laplace"))
    assert "is right at most 73.2 % of the time" in guess_in_words(plan_of("hashing+gaussian"))


def test_several_attributes_together_are_part_of_the_promise(tmp_path: Path) -> None:
    plan = Plan.of("counting+laplace", Budget(0.25), k=8, seed=bytes(32), protect=4)
    manifest = manifest_of(write(tmp_path / "release", people(plan)))
    together = (
        "Any 4 attributes of one person together: their odds change by at most e^1 = 2.72 (epsilon = 1, delta = 0)."
    )
    assert promise(manifest)[2:] == (together,)
    assert (*promise(manifest), *limits(manifest)) == manifest.guarantee
    assert published(manifest)["Protected together"] == "any 4 of them, with ε = 1, δ = 0"
