"""Surveys on every engine: without noise all give the same counts, and those that are true."""

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.engines.engine import ENGINES, Engine, frame_of
from tests.streams import NO_NOISE
from tests.surveys import LIST, ROSTER, cells, table

from dimly.curator import kernels
from dimly.curator.options import Options
from dimly.curator.survey.exact_counts import count_columns, count_pairs, order_key, person_key
from dimly.curator.survey.profiles import profile_table
from dimly.curator.survey.questions import survey_table
from dimly.curator.survey.run import open_survey
from dimly.mechanisms.projection.directions import Buckets
from dimly.mechanisms.survey_plan import SurveyPlan
from dimly.privacy import Budget
from dimly.release.documents.segments_file import Labels

SEED = "5" * 64
LONG: dict[str, Any] = {"user": "who", "attribute": "what"}
FOUND = cells()


def source_for(engine: Engine, source: Any, folder: Path) -> Any:
    """Return a table as the engine takes it."""
    if engine is not ENGINES["Spark"]:
        return source
    from dimly.spark.file_frames import FrameSource  # noqa: PLC0415 - only where there is a Spark
    from dimly.spark.surveying import SurveyedFrame  # noqa: PLC0415

    made = frame_of(source, folder)
    return SurveyedFrame(made if isinstance(made, FrameSource) else FrameSource(made))


def plan_of(*ask: str, **more: Any) -> SurveyPlan:
    return SurveyPlan.of(Budget(4.0, 1e-3), ask, **{"seed": SEED} | more)


def paired() -> list[tuple[int, int]]:
    """Return who is paired with whom, by the words of docs/survey.md."""
    order = sorted(ROSTER, key=lambda who: hashlib.sha256(f"dimly/survey {SEED} {who}".encode()).hexdigest())
    return list(zip(order[::2], order[1::2], strict=True))


def at_most(numbers: Sequence[float], boundaries: tuple[int, ...]) -> list[int]:
    return [sum(number <= at for number in numbers) for at in boundaries]


@pytest.mark.parametrize("roster", [ROSTER, [str(who) for who in ROSTER]], ids=["integers", "text"])
@pytest.mark.thorough(but=1)
def test_every_question_is_answered_by_the_truth(engine: Engine, roster: list[Any], tmp_path: Path) -> None:
    options = Options(**LONG, roster=roster, vocabulary=LIST)
    source = source_for(engine, table(FOUND), tmp_path)
    done: Any = survey_table(source, plan_of("counts", "weights", "distances"), options, words=lambda: NO_NOISE).survey
    assert done.not_private
    has = {who: {what for one, what in FOUND if one == who} for who in ROSTER}
    counted = Counter(what for _, what in FOUND)
    assert {one.attribute: one.count for one in done.counts.attributes} == {name: counted[name] for name in LIST}
    assert list(done.weights.noisy) == at_most([len(some) for some in has.values()], done.weights.boundaries)
    apart = [len(has[one] ^ has[other]) for one, other in paired()]
    assert list(done.distances.noisy) == at_most(apart, done.distances.boundaries)


def test_names_are_shown_by_their_counts(engine: Engine, tmp_path: Path) -> None:
    rare = FOUND | {(3, "only one has this")}
    source = source_for(engine, table(rare), tmp_path)
    done: Any = survey_table(source, plan_of("vocabulary"), Options(**LONG), words=lambda: NO_NOISE).survey
    counted = Counter(what for _, what in FOUND)
    expected = sorted(counted, key=lambda name: (-counted[name], name))
    assert [(one.attribute, one.count) for one in done.vocabulary.attributes] == [
        (name, counted[name]) for name in expected
    ]


def test_values_count_in_steps(engine: Engine, tmp_path: Path) -> None:
    rows = sorted(FOUND)
    values = np.random.default_rng(3).integers(0, 101, len(rows)) / 100
    given = pa.table(
        {
            "who": [who for who, _ in rows] * 2,
            "what": [what for _, what in rows] * 2,
            "how": np.concatenate([values, values / 2]),  # of several values the largest counts
        }
    )
    options = Options(**LONG, value="how", roster=ROSTER, vocabulary=LIST)
    plan = plan_of("counts", "weights", "distances", resolution=4)
    done: Any = survey_table(source_for(engine, given, tmp_path), plan, options, words=lambda: NO_NOISE).survey
    steps = {cell: int(np.rint(4 * value)) for cell, value in zip(rows, values, strict=True)}
    counted = Counter(what for (_, what), step in steps.items() if step)
    assert {one.attribute: one.count for one in done.counts.attributes} == {name: counted[name] for name in LIST}
    weights = [sum(steps.get((who, what), 0) > 0 for what in LIST) for who in ROSTER]
    assert list(done.weights.noisy) == at_most(weights, done.weights.boundaries)
    apart = [
        math.fsum((steps.get((one, what), 0) - steps.get((other, what), 0)) ** 2 for what in LIST) / 16
        for one, other in paired()
    ]
    assert list(done.distances.noisy) == at_most(apart, done.distances.boundaries)


def test_a_wide_table_of_numbered_attributes(engine: Engine, tmp_path: Path) -> None:
    has = np.array([[(who, f"a{number}") in FOUND for number in range(30)] for who in ROSTER])
    given = pa.table({"who": ROSTER} | {str(number): has[:, number] for number in range(30)})
    listed = [str(number) for number in range(30)]
    options = Options(user="who", columns="all", roster=ROSTER, vocabulary=listed)
    done: Any = survey_table(
        source_for(engine, given, tmp_path), plan_of("counts", "weights"), options, words=lambda: NO_NOISE
    ).survey
    assert [one.count for one in done.counts.attributes] == has.sum(axis=0).tolist()
    assert list(done.weights.noisy) == at_most(has.sum(axis=1).tolist(), done.weights.boundaries)


def test_profiles_are_counts_by_segment(engine: Engine, tmp_path: Path) -> None:
    known = [who for who in ROSTER if who % 7]
    segments = np.array([who % 3 for who in known])
    segments[0] = -1  # in none
    labels = Labels(pa.array(known), segments, "a" * 64)
    plan = plan_of("profiles", release="a" * 64)
    source = source_for(engine, table(FOUND), tmp_path)
    done: Any = profile_table(
        source, plan, Options(**LONG, vocabulary=LIST), labels=labels, words=lambda: NO_NOISE
    ).survey
    of = dict(zip(known, segments.tolist(), strict=True))
    counted = Counter((of[who], what) for who, what in FOUND if of.get(who, -1) >= 0)
    assert done.counts.tolist() == [[counted[segment, name] for name in LIST] for segment in range(3)]
    assert done.sizes.tolist() == [int((segments == segment).sum()) for segment in range(3)]


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.thorough(but=1)
def test_pairs_of_attributes_and_of_buckets_for_directions(engine: Engine, tmp_path: Path, listed: bool) -> None:
    plan, buckets = plan_of("directions", members=5), Buckets(12, bytes(32))
    chosen, place = (np.arange(5, 25), 30) if listed else (np.arange(2, 12), 12)
    options = Options(**LONG, roster=ROSTER, vocabulary=LIST if listed else None)
    taken = None if listed else buckets
    with open_survey(source_for(engine, table(FOUND), tmp_path), plan, options).opening as opened:
        counts = count_pairs(opened, plan, chosen, width=place, members=5, buckets=taken)
        people = None if listed else count_columns(opened, plan, buckets)
    codes = dict(zip(LIST, range(30) if listed else buckets.codes(LIST).tolist(), strict=True))
    own = [{codes[what] for one, what in FOUND if one == who} for who in ROSTER]
    expected = np.zeros((len(chosen), len(chosen)), np.int64)
    kept = [sorted(one & {*chosen.tolist()}) for one in own]
    indptr = np.concatenate([[0], np.cumsum([len(one) for one in kept])])
    keys = np.array([person_key(order_key(plan), who) for who in ROSTER], np.uint64)
    column = np.full(place, -1, np.int32)
    column[chosen] = np.arange(len(chosen))
    kernels.count_pairs(indptr, np.concatenate(kept).astype(np.int32), column, keys, 5, expected)
    assert counts.tolist() == expected.tolist()
    if people is not None:
        assert people.tolist() == [sum(bucket in one for one in own) for bucket in range(12)]


def test_a_list_is_put_into_buckets(engine: Engine, tmp_path: Path) -> None:
    plan, buckets = plan_of("directions", members=5), Buckets(12, bytes(32))
    options = Options(**LONG, roster=ROSTER, vocabulary=LIST[:20])
    with open_survey(source_for(engine, table(FOUND), tmp_path), plan, options).opening as opened:
        people = count_columns(opened, plan, buckets)
    codes = dict(zip(LIST[:20], buckets.codes(LIST[:20]).tolist(), strict=True))
    own = [{codes[what] for one, what in FOUND if one == who and what in codes} for who in ROSTER]
    assert people.tolist() == [sum(bucket in one for one in own) for bucket in range(12)]
