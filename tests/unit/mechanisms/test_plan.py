import copy
import hashlib
import json
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dimly.errors import ParameterError
from dimly.mechanisms import MECHANISMS, Plan, Vocabulary
from dimly.mechanisms.error.models import CountingError
from dimly.mechanisms.make import sketching
from dimly.mechanisms.plan import KINDS
from dimly.mechanisms.plan_parts import FlipNoise, GaussianNoise, LaplaceNoise
from dimly.privacy import Budget, compose, delta_of

SEED = bytes(range(32))
BUDGET = Budget(1.0, 1e-6)


def arguments(mechanism: str, *, k: int = 32, d: int = 300, **others: Any) -> dict[str, Any]:
    """Return what :meth:`Plan.of` needs for any mechanism."""
    if mechanism == "randomized-response":
        return {"n_attributes": d} | others
    if mechanism == "noisy-distances":
        return {"n_attributes": d, "n_users": 50} | others
    blocks = 4 if mechanism.startswith(("sparse", "dasgupta")) else 1
    closed = {} if mechanism.startswith(("counting", "hashing", "sparse", "sign")) else {"n_attributes": d}
    return {"k": k, "blocks": blocks, "seed": SEED} | closed | others


def plan_of(mechanism: str, budget: Budget = BUDGET, **changes: Any) -> Plan:
    return Plan.of(mechanism, budget, **(arguments(mechanism) | changes))


every_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS)


@every_mechanism
def test_json_round_trip_keeps_the_plan_and_its_digest(mechanism: str) -> None:
    plan = plan_of(mechanism)
    again = Plan.from_json(plan.to_json())
    assert again == plan
    assert again.digest == plan.digest
    assert len(plan.digest) == 64
    assert "null" not in plan.to_json()


def test_the_digest_is_that_of_the_sorted_json() -> None:
    plan = plan_of("counting+laplace", Budget(1.0))
    compact = json.dumps(json.loads(plan.to_json()), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert plan.digest == hashlib.sha256(compact.encode()).hexdigest()
    # Signed plans stay valid: these digests may never change.
    assert plan.digest == "ed01f92486783fbce2a73646584a1bd936005fb1bb7e27f26032864656ac605b"
    older = plan_of("counting+laplace", Budget(1.0), stream=1)
    assert older.digest == "b1c8779cd96477823a607be5117718f033d2a8c9073c5e0700b5c2db353c9603"


@every_mechanism
def test_the_digest_changes_with_every_choice(mechanism: str) -> None:
    plans = [plan_of(mechanism), plan_of(mechanism, Budget(1.1, 1e-6)), plan_of(mechanism, unit="column")]
    if mechanism != "randomized-response":
        plans += [plan_of(mechanism, resolution=4, dtype="int32"), plan_of(mechanism, dtype="int32")]
    if sketching(mechanism):
        plans += [plan_of(mechanism, seed=bytes(32)), plan_of(mechanism, k=36)]
    if mechanism.endswith("gaussian"):
        plans += [plan_of(mechanism, rule="theorem1")]
    assert len({plan.digest for plan in plans}) == len(plans)


def test_seeds_are_fresh_unless_given() -> None:
    one, two = (Plan.of("counting+laplace", Budget(1.0), k=8) for _ in range(2))
    assert one.digest != two.digest
    assert Plan.of("counting+laplace", Budget(1.0), k=8, seed=SEED) == Plan.of(
        "counting+laplace", Budget(1.0), k=8, seed=SEED.hex()
    )


@every_mechanism
@pytest.mark.parametrize("unit", ["attribute", "column"])
@pytest.mark.parametrize("resolution", [1, 3])
def test_sensitivity_is_what_one_unit_moves(mechanism: str, unit: str, resolution: int) -> None:
    if mechanism == "randomized-response" and resolution != 1:
        return
    plan = plan_of(mechanism, unit=unit, resolution=resolution, dtype="int32")
    values = 1 if unit == "attribute" else 2
    moved = plan.sensitivity
    if mechanism == "randomized-response":
        assert (moved.l1, moved.l2_squared, plan.touched) == (values, values, values)
    elif mechanism == "noisy-distances":
        each = values * resolution**2
        assert (moved.l1, moved.l2_squared, plan.touched) == (49 * each, 49 * each**2, 49)
    else:
        assert plan.projection is not None
        rows = plan.projection.matrix.rows(Vocabulary.numbered(300)).to_dense() * resolution
        # The worst of all pairs of moves, by brute force over a part of the vocabulary.
        worst_l1, worst_l2 = 0, 0
        for row in rows[:60]:
            for other in rows[:60] if unit == "column" else rows[:1] * 0:
                for sign in (-1, 1):
                    worst_l1 = max(worst_l1, int(np.abs(row + sign * other).sum()))
                    worst_l2 = max(worst_l2, int(((row + sign * other) ** 2).sum()))
        assert worst_l1 <= moved.l1
        assert worst_l2 <= moved.l2_squared
        if plan.projection.matrix.record.open_vocabulary:
            assert (worst_l1, worst_l2) == (moved.l1, moved.l2_squared)
        entries = {"counting": 1, "hashing": 1, "sparse": 4, "dasgupta": 4}.get(plan.projection.family, 32)
        assert plan.touched == min(32, values * entries)


@every_mechanism
def test_the_noise_keeps_the_budget_and_wastes_little(mechanism: str) -> None:
    for budget in (Budget(0.3, 1e-9), BUDGET, Budget(6.0, 1e-4)):
        plan = plan_of(mechanism, budget, dtype="int32")
        if isinstance(plan.noise, LaplaceNoise):
            rate = plan.noise.table(budget).realized_rate
            assert budget.epsilon * (1 - 1e-9) <= rate * plan.sensitivity.l1 <= budget.epsilon * (1 + 1e-12)
        elif isinstance(plan.noise, GaussianNoise):
            spent = delta_of(plan.noise.sigma, epsilon=budget.epsilon, l2_sensitivity=plan.sensitivity.l2)
            table = plan.noise.table(budget)
            spent += (1 + math.exp(budget.epsilon)) * plan.touched * table.sampling_distance
            assert budget.delta * (1 - 1e-6) <= spent <= budget.delta * (1 + 1e-15)
        else:
            p = plan.noise.probability
            assert math.log((1 - p) / p) == pytest.approx(budget.epsilon, rel=1e-9)


@every_mechanism
def test_costs_compose_to_the_budget(mechanism: str) -> None:
    plan = plan_of(mechanism)
    alone = compose([plan.cost], delta=BUDGET.delta)
    assert alone.epsilon == pytest.approx(1.0)
    pure = not isinstance(plan.noise, GaussianNoise)
    assert plan.cost.is_pure is pure
    assert alone.delta == (0.0 if pure else BUDGET.delta)
    assert plan.cost.unit == "attribute"
    if not pure:
        assert isinstance(plan.noise, GaussianNoise)
        assert plan.cost.noise_multiplier == pytest.approx(plan.noise.sigma / plan.sensitivity.l2)
        assert plan.cost.noise_multiplier * plan.sensitivity.l2 <= plan.noise.sigma  # type: ignore[operator]
        distance = plan.noise.table(BUDGET).sampling_distance * plan.touched
        assert distance <= plan.cost.sampling_distance <= 1.001 * distance


@pytest.mark.parametrize("rule", ["lemma1", "theorem1", "lemma2"])
def test_the_papers_own_plan(rule: Any) -> None:
    plan = Plan.of("gaussian+gaussian", BUDGET, k=64, n_attributes=3706, rule=rule, seed=SEED, dtype="int32")
    assert isinstance(plan.noise, GaussianNoise)
    assert plan.projection is not None
    sigma = plan.noise.sigma * plan.scale
    norm = math.sqrt(plan.projection.l2_squared) * plan.scale
    assert 1 < norm < 2
    log_term = math.log(1 / 2e-6)
    expected = {
        "theorem1": norm * math.sqrt(2 * (log_term + 1)),
        "lemma1": norm * (math.sqrt(log_term) + math.sqrt(log_term + 1)) / math.sqrt(2),
        "lemma2": 4 * math.sqrt(math.log(1e6)),
    }[rule]
    assert sigma == pytest.approx(expected, rel=1e-9)
    assert plan.rule == rule


def test_published_sizes() -> None:
    assert plan_of("counting+laplace").bytes_per_user == 64
    assert plan_of("counting+laplace", dtype="int32").bytes_per_user == 128
    assert plan_of("randomized-response").bytes_per_user == 38
    assert plan_of("noisy-distances").bytes_per_user == 49


def test_scales() -> None:
    assert plan_of("counting+laplace", resolution=10).scale == 0.1
    assert plan_of("sparse+laplace").scale == 0.5
    assert plan_of("noisy-distances", resolution=10, dtype="int32").scale == pytest.approx(0.01)


def test_counting_trusts_sums_on_bits_only() -> None:
    for resolution, blend in ((1, 0.75), (16, 0.0)):
        plan = plan_of("counting+laplace", resolution=resolution)
        assert plan.blend == blend
        assert isinstance(plan.error, CountingError)
        assert (plan.error.blend, plan.error.bits) == (blend, resolution == 1)
    assert plan_of("hashing+laplace").blend is None


def test_bounds_are_claimed_only_where_they_are_proven() -> None:
    names = {name: [bound.name for bound in plan_of(name).bounds] for name in MECHANISMS}
    assert names["randomized-response"] == ["chebyshev", "theorem3"]
    assert names["noisy-distances"] == ["chebyshev", "normal"]
    # Counting's error depends on the weights of the two people: without them nothing is proven.
    assert names["counting+laplace"] == names["counting+gaussian"] == []
    assert plan_of("counting+laplace", resolution=4).bounds[0].name == "chebyshev"
    assert plan_of("counting+laplace", blend=0.0).bounds[0].name == "chebyshev"
    light, heavy = (plan_of("counting+laplace").bounds_at((w, w))[0].width(0.05, 40.0) for w in (20.0, 2000.0))
    assert heavy > 10 * light
    proven = {name for name, bounds in names.items() if "theorem2" in bounds}
    assert proven == {"gaussian+gaussian", "sign+gaussian", "ternary+gaussian"}


def test_tables_belong_to_noise_that_is_added() -> None:
    with pytest.raises(ParameterError, match="has no noise table"):
        plan_of("randomized-response").table  # noqa: B018
    with pytest.raises(ParameterError, match="one that sketches"):
        plan_of("randomized-response").rows(["0"])
    assert isinstance(plan_of("randomized-response").noise, FlipNoise)


def test_rows_never_exceed_the_plan() -> None:
    plan = plan_of("ternary+gaussian")
    assert plan.projection is not None
    rows = plan.rows(Vocabulary.numbered(300))
    assert (rows.l1, rows.l2_squared) == (plan.projection.l1, plan.projection.l2_squared)
    # Outside the vocabulary some row is longer, sooner or later.
    with pytest.raises(ParameterError, match="exceeds its sensitivity"):
        plan.rows([f"stranger-{i}" for i in range(20_000)])
    # So is a plan whose sensitivity was edited down, with noise to match, as soon as it is read.
    fields = json.loads(plan.to_json())
    fields["projection"]["l1"] = fields["projection"]["l2_squared"] = 2
    fields["noise"]["sigma"] = 6.0
    with pytest.raises(ParameterError, match="The plan was changed"):
        Plan.from_json(json.dumps(fields))


def test_vocabularies() -> None:
    listed = Plan.of("randomized-response", BUDGET, vocabulary=["tea", 42, "milk"])
    assert listed.vocabulary is not None
    assert (listed.n_attributes, listed.vocabulary.sha256) == (3, Vocabulary.listed(["tea", "42", "milk"]).digest)
    assert list(listed.vocabulary_of(["tea", "42", "milk"])) == ["tea", "42", "milk"]
    with pytest.raises(ParameterError, match="digest differs"):
        listed.vocabulary_of(["tea", "milk", "42"])
    with pytest.raises(ParameterError, match=r"vocabulary must be given: .* Add vocabulary=FILE"):
        listed.vocabulary_of(None)
    numbered = Plan.of("randomized-response", BUDGET, n_attributes=3)
    assert numbered.vocabulary is not None
    assert numbered.vocabulary.sha256 is None
    assert list(numbered.vocabulary_of(None)) == list(numbered.vocabulary_of([0, 1, 2])) == ["0", "1", "2"]
    assert plan_of("counting+laplace").vocabulary is None
    with pytest.raises(ParameterError, match="vocabulary must be closed by the plan to be listed"):
        plan_of("counting+laplace").vocabulary_of(None)
    assert Plan.of("randomized-response", BUDGET, vocabulary=Vocabulary.listed("ab" for _ in "x")).n_attributes == 1


def test_plain_integers_of_any_kind_will_do() -> None:
    small = Plan.of("sparse+laplace", BUDGET, k=np.int8(64), blocks=np.int64(4), resolution=np.uint8(200), seed=SEED)  # type: ignore[arg-type]
    assert small == Plan.of("sparse+laplace", BUDGET, k=64, blocks=4, resolution=200, seed=SEED)
    people = Plan.of("noisy-distances", BUDGET, n_users=np.int16(300), n_attributes=np.int16(300))  # type: ignore[arg-type]
    assert people == Plan.of("noisy-distances", BUDGET, n_users=300, n_attributes=300)
    assert Plan.of("counting+laplace", Budget(1.0, -0.0), k=8, seed=SEED).digest == plan_digest_of_zero_delta()


def plan_digest_of_zero_delta() -> str:
    return Plan.of("counting+laplace", Budget(1.0, 0.0), k=8, seed=SEED).digest


def test_there_is_no_way_around_the_proof() -> None:
    plan = plan_of("sign+gaussian")
    quieter = GaussianNoise(sigma=1.0)
    with pytest.raises(ParameterError, match="must keep delta at"):
        plan.model_copy(update={"noise": quieter})
    assert plan.model_copy() == plan
    looser = plan.model_copy(update={"budget": Budget(1.5, 1e-6)})
    assert looser.budget.epsilon == 1.5
    with pytest.raises(ParameterError, match="must be checked"):
        Plan.model_construct(noise=quieter)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="cannot be subclassed"):
        type("Lenient", (Plan,), {})
    with pytest.raises(ValueError, match="frozen"):
        plan.noise = quieter
    edited = Plan.from_json(plan_of("sparse+laplace").to_json())
    assert edited.projection is not None
    edited.__dict__["projection"] = edited.projection.model_copy(update={"l1": 1, "l2_squared": 1})
    edited.__dict__["noise"] = LaplaceNoise(l1_sensitivity=1)
    with pytest.raises(ParameterError, match="l1 and l2_squared must be 4 and 4 for sparse"):
        edited.prove()


def test_a_copy_has_no_facts_of_another_plan() -> None:
    plan, other = plan_of("counting+laplace"), plan_of("counting+laplace", k=64)
    assert plan.cost.epsilon == 1.0
    for copied in (copy.copy(plan), pickle.loads(pickle.dumps(plan))):  # noqa: S301
        assert copied == plan
        copied.__dict__["projection"] = other.projection
        assert (copied.k, copied.digest, copied.drawn_from) == (64, other.digest, other.drawn_from)
    assert plan.k == 32


def test_threads_may_prove_a_plan_at_once() -> None:
    class Forgotten(dict[str, Any]):
        """Fields and facts of a plan, of which another thread forgets the facts just after they were listed."""

        def keys(self) -> Any:
            listed = dict(self).keys()
            for name in listed - type(plan).model_fields.keys():
                self.pop(name, None)
            return listed

    plan = Plan.from_json(plan_of("counting+laplace").to_json())  # of its own: it is edited
    cost, digest = plan.cost, plan.digest
    object.__setattr__(plan, "__dict__", Forgotten(plan.__dict__))
    plan.prove()
    assert (plan.cost, plan.digest) == (cost, digest)


@pytest.mark.parametrize(
    "mechanism", ["counting+laplace", "ternary+gaussian", "randomized-response", "noisy-distances"]
)
def test_a_plan_is_of_the_kind_that_its_mechanism_names(mechanism: str) -> None:
    plan, kind = plan_of(mechanism), KINDS[mechanism]
    copied = plan.model_copy(update={"budget": Budget(plan.budget.epsilon * 2, plan.budget.delta)})
    read = (Plan.from_json(plan.to_json()), Plan.model_validate_json(plan.to_json()), pickle.loads(pickle.dumps(plan)))  # noqa: S301
    assert {type(one) for one in (plan, copied, *read)} == {kind}
    assert isinstance(plan, Plan)
    assert set(read) == {plan}
    assert read[-1].__dict__.keys() == kind.model_fields.keys()  # facts, tables among them, do not travel
    with pytest.raises(TypeError, match="cannot be subclassed"):
        type("Lenient", (kind,), {})
    with pytest.raises(TypeError, match="abstract"):
        Plan(mechanism=mechanism, budget=plan.budget, noise=plan.noise)  # type: ignore[abstract]
    # No kind reads another's plan.
    for other in set(KINDS.values()) - {kind}:
        with pytest.raises(ParameterError):
            other.from_json(plan.to_json())


BAD_CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("counting+laplace", {"k": 0}, "k must be an integer from 1"),
    ("counting+laplace", {"k": None}, "k must be given.*best_k"),
    ("counting+laplace", {"k": 1}, "at least 2 for counting"),
    ("counting+laplace", {"k": 2.5}, "k must be an integer"),
    ("counting+laplace", {"blocks": 2}, "blocks must be 1"),
    ("counting+laplace", {"n_users": 7}, "n_users must be left out"),
    ("counting+laplace", {"resolution": 0}, "resolution must be an integer"),
    ("counting+laplace", {"resolution": 1.5}, "resolution must be an integer"),
    ("counting+laplace", {"resolution": True}, "resolution must be an integer"),
    ("counting+laplace", {"unit": "person"}, "unit must be one of attribute, column"),
    ("counting+laplace", {"rule": "lemma3"}, "rule must be one of"),
    ("counting+laplace", {"dtype": "int8"}, "dtype must be one of int16, int32"),
    ("counting+laplace", {"seed": b"short"}, "seed must be 32 bytes"),
    ("counting+laplace", {"seed": "zz" * 32}, "seed must be 32 bytes"),
    ("counting+laplace", {"seed": 32}, "seed must be 32 bytes"),
    ("counting+laplace", {"seed": np.int64(32)}, "seed must be 32 bytes"),
    ("counting+laplace", {"blend": 1.5}, "blend"),
    ("counting+laplace", {"resolution": 4, "blend": 0.5}, "a blend above 0"),
    ("hashing+laplace", {"blend": 0.5}, "blend must be left out"),
    ("randomized-response", {"vocabulary": {"a", "b"}, "n_attributes": None}, "in a fixed order, got set"),
    ("randomized-response", {"vocabulary": 5, "n_attributes": None}, "in a fixed order, got int"),
    ("gaussian+gaussian", {"n_attributes": 10**9}, "entries of gaussian in all"),
    ("dasgupta+laplace", {"n_attributes": 2 * 10**9}, "entries of dasgupta in all"),
    ("counting+laplace", {"budget": Budget(60.0)}, "at most 40"),
    ("counting+laplace", {"budget": 1.0}, "budget must be a Budget"),
    ("counting+gaussian", {"budget": Budget(1.0)}, "delta must be > 0 for Gaussian noise"),
    ("counting+gaussian", {"rule": "theorem1", "budget": Budget(1.0, 0.6)}, "delta must be below 1/2"),
    ("counting+gaussian", {"rule": "lemma2"}, "about gaussian projections"),
    ("counting+gaussian", {"budget": Budget(1.0, 1e-36)}, "cannot certify less"),
    ("sign+gaussian", {"budget": Budget(20.0, 1e-27), "k": 1024}, "cannot certify less"),
    ("counting+gaussian", {"budget": Budget(100.0, 1e-6)}, "epsilon must be smaller for Gaussian noise here, got 100"),
    ("sparse+laplace", {"k": 30}, "blocks must divide k"),
    ("sign+laplace", {"k": 4096, "budget": Budget(0.1), "dtype": "int32"}, "at most 1048576 weights"),
    ("sign+laplace", {"k": 4096}, "dtype must hold.*dtype='int32'"),
    ("hashing+laplace", {"resolution": 60_000, "budget": Budget(20.0)}, "dtype must hold"),
    ("dasgupta+laplace", {"n_attributes": None}, "vocabulary must be stated"),
    ("ternary+gaussian", {"n_attributes": None}, "vocabulary must be stated"),
    ("gaussian+gaussian", {"n_attributes": None}, "vocabulary must be stated"),
    ("gaussian+gaussian", {"k": 0}, "k must be an integer from 1"),
    ("gaussian+gaussian", {"rule": "lemma2"}, "k must be above"),
    ("gaussian+gaussian", {"budget": Budget(0.005, 1e-9)}, "dtype must leave gaussian entries.*int32"),
    ("gaussian+gaussian", {"budget": Budget(0.001, 1e-9), "dtype": "int32"}, "a smaller k"),
    ("randomized-response", {"n_attributes": None}, "n_attributes or vocabulary must be given"),
    ("randomized-response", {"n_attributes": 0}, "n_attributes must be an integer"),
    ("randomized-response", {"k": 8}, "k must be left out"),
    ("randomized-response", {"blocks": 8}, "blocks must be left out"),
    ("randomized-response", {"seed": SEED}, "seed must be left out"),
    ("randomized-response", {"resolution": 2}, "resolution must be 1"),
    ("randomized-response", {"vocabulary": ["a", "b"]}, "n_attributes must be the length of vocabulary, 2"),
    ("randomized-response", {"budget": Budget(1e-17)}, "epsilon must be at least"),
    ("noisy-distances", {"n_users": None}, "n_users must be an integer from 2"),
    ("noisy-distances", {"n_users": 1}, "n_users must be an integer from 2"),
    ("noisy-distances", {"rule": "lemma2"}, "rule must be exact"),
    ("noisy-distances", {"n_attributes": 40_000}, "dtype must hold"),
    ("noisy-distances", {"n_users": 10**9, "dtype": "int32"}, "at most 1048576 weights"),
    ("noisy-distances", {"budget": Budget(1.0)}, "delta must be > 0"),
    ("hashing*laplace", {}, "mechanism must be"),
    ("counting+laplace", {"budget": Budget(1e-20)}, "at most 1048576 weights, but needs at least"),
    ("sign+gaussian", {"budget": Budget(1e-9, 1e-9)}, "at most 1048576 weights"),
    ("noisy-distances", {"budget": Budget(1e-9, 1e-9)}, "at most 1048576 weights"),
]


@pytest.mark.parametrize(("mechanism", "changes", "text"), BAD_CALLS)
def test_a_call_that_cannot_work_says_what_to_do(mechanism: str, changes: dict[str, Any], text: str) -> None:
    call = arguments(mechanism) | changes
    with pytest.raises(ParameterError, match=text) as caught:
        Plan.of(mechanism, call.pop("budget", BUDGET), **call)
    assert "\n" not in str(caught.value)


BAD_EDITS: list[tuple[str, dict[str, Any], str]] = [
    ("counting+laplace", {"format": 2}, "format"),
    ("counting+laplace", {"surprise": 1}, "surprise"),
    ("counting+laplace", {"noise.surprise": 1}, "surprise"),
    ("counting+laplace", {"mechanism": "hashing+laplace"}, r"projection\.family must fit"),
    ("counting+laplace", {"mechanism": "counting+gaussian"}, r"noise\.law must fit"),
    ("counting+laplace", {"mechanism": "nonsense"}, "mechanism must be"),
    ("counting+laplace", {"budget.epsilon": -1.0}, "budget.*epsilon must be"),
    ("counting+laplace", {"budget.epsilon": "1"}, r"budget\.epsilon"),
    ("counting+laplace", {"budget.epsilon": math.nan}, "must not hold NaN"),
    ("counting+laplace", {"budget": None}, "budget"),
    ("counting+laplace", {"unit": "column"}, r"noise\.l1_sensitivity must be at least 2"),
    ("counting+laplace", {"resolution": 0}, "resolution"),
    ("counting+laplace", {"resolution": 2}, r"l1_sensitivity|resolution"),
    ("counting+laplace", {"rule": "exact"}, "rule must fit"),
    ("counting+laplace", {"n_users": 5}, "n_users must fit"),
    ("counting+laplace", {"dtype": "bit"}, "dtype must fit"),
    ("counting+laplace", {"blend": 1.5}, "blend"),
    ("counting+laplace", {"projection.k": "64"}, r"projection\.k"),
    ("counting+laplace", {"projection.k": 0}, "k must be"),
    ("counting+laplace", {"projection.seed": "00"}, r"projection\.seed"),
    ("counting+laplace", {"projection.l1": 2}, "l1 and l2_squared must be 1 and 1"),
    ("counting+laplace", {"projection.family": "fourier"}, r"projection\.family"),
    ("counting+laplace", {"noise.l1_sensitivity": 0}, r"noise.*l1_sensitivity"),
    ("counting+laplace", {"noise.law": "cauchy"}, "noise"),
    ("hashing+laplace", {"blend": 0.5}, "blend must fit"),
    ("hashing+gaussian", {"noise.sigma": 4.2}, "must keep delta at"),
    ("hashing+gaussian", {"budget.delta": 0.0}, "must keep delta at"),
    ("hashing+gaussian", {"budget.epsilon": 0.9}, "must keep delta at"),
    ("gaussian+gaussian", {"vocabulary": None}, "vocabulary must be given"),
    ("gaussian+gaussian", {"projection.grid_bits": None}, "grid_bits"),
    ("randomized-response", {"noise.probability": 0.25}, "odds"),
    ("randomized-response", {"noise.probability": 0.75}, "probability"),
    ("randomized-response", {"unit": "column"}, "odds"),
    ("randomized-response", {"resolution": 2}, "resolution must be 1"),
    ("randomized-response", {"vocabulary.size": 0}, r"vocabulary\.size"),
    ("hashing+gaussian", {"rule": "theorem1"}, "noise.sigma must be at least 5.3"),
    ("sign+gaussian", {"rule": "lemma2"}, "rule must fit"),
    ("noisy-distances", {"rule": "lemma2"}, "rule must fit"),
    ("noisy-distances", {"vocabulary.size": 40_000}, "dtype must hold"),
    ("noisy-distances", {"vocabulary.size": 10**30}, r"vocabulary\.size"),
    ("noisy-distances", {"n_users": 10**400}, "n_users|plan"),
    ("counting+laplace", {"noise.l1_sensitivity": 10**4000}, "l1_sensitivity"),
    ("noisy-distances", {"n_users": 51}, "must keep delta at"),
    ("noisy-distances", {"n_users": 1}, "n_users"),
]


@pytest.mark.parametrize(("mechanism", "edits", "text"), BAD_EDITS)
def test_a_plan_edited_into_nonsense_names_the_field(mechanism: str, edits: dict[str, Any], text: str) -> None:
    fields = json.loads(plan_of(mechanism).to_json())
    for path, value in edits.items():
        *parents, name = path.split(".")
        place = fields
        for parent in parents:
            place = place[parent]
        if value is None:
            del place[name]
        else:
            place[name] = value
    with pytest.raises(ParameterError, match=text) as caught:
        Plan.from_json(json.dumps(fields))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "nope", "[]", "{}", '{"format": 1}'])
def test_what_is_no_plan(text: str) -> None:
    with pytest.raises(ParameterError, match="plan"):
        Plan.from_json(text)


AMBIGUOUS = [
    ('"k": 32', '"k": 32, "k": 32', "must name each field once"),
    ('"k": 32', '"k": NaN', "must not hold NaN"),
    ('"k": 32', '"k": -Infinity', "must not hold -Infinity"),
    ('"epsilon": 1.0', '"epsilon": 1e400', "numbers below 1.8e308"),
    ('"k": 32', f'"k": {"9" * 5000}', "must be JSON in UTF-8"),
    ('"k": 32', f'"k": {"9" * 400}', "k must be an integer from 1 to"),
    ('"k": 32', f'"k": {"[" * 10**5}{"]" * 10**5}', "must be JSON in UTF-8"),
    ('"k": 32', f'"k": {"[" * 500}{"]" * 500}', "recursion limit"),
    ("counting+laplace", "\\ud800", "must be JSON in UTF-8"),
    ('"format": 1', '"format": true', "must be the integer 1"),
    ('"format": 1', '"format": 1.0', "must be the integer 1"),
]


@pytest.mark.parametrize(("old", "new", "text"), AMBIGUOUS)
def test_json_that_readers_may_understand_differently_is_refused(old: str, new: str, text: str) -> None:
    plan = plan_of("counting+laplace").to_json()
    assert plan.count(old) == 1
    with pytest.raises(ParameterError, match=text) as caught:
        Plan.from_json(plan.replace(old, new))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600
    for encoding in ("utf-16", "utf-8-sig"):
        with pytest.raises(ParameterError, match="must be JSON in UTF-8"):
            Plan.from_json(plan.encode(encoding))


def test_a_resolution_with_a_blend_is_refused() -> None:
    fields = json.loads(plan_of("counting+laplace", resolution=4).to_json())
    fields["blend"] = 0.5
    with pytest.raises(ParameterError, match="a blend above 0"):
        Plan.from_json(json.dumps(fields))


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([m for m in MECHANISMS if not m.startswith(("gaussian", "ternary", "dasgupta"))]),
    st.floats(0.05, 8.0),
    st.floats(-12, -3),
)
def test_less_epsilon_is_never_more_accurate(mechanism: str, epsilon: float, log_delta: float) -> None:
    delta = 10.0**log_delta
    tight, loose = (
        Plan.of(mechanism, Budget(e, delta), **arguments(mechanism, dtype="int32")) for e in (epsilon, 1.5 * epsilon)
    )
    assert float(tight.error.distance()(100.0)) >= float(loose.error.distance()(100.0))
