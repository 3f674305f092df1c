"""A file of profiles, read back; damaged ones, and files that are something else."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dimly.errors import ParameterError, ReleaseError
from dimly.mechanisms.survey_plan import SurveyPlan
from dimly.privacy import Budget
from dimly.release.documents.profiles_file import Profiles, read_profiles

PLAN = SurveyPlan.of(Budget(1.0), ["profiles"], release="ab" * 32)
FOUND = Profiles(
    plan=PLAN,
    attributes=("tea", "rye", "oat\0", "oat"),
    sizes=np.array([100, 50]),
    counts=np.array([[90, 10, -2, 3], [4, 40, 0, 2]]),
    spread=(-3, 3),
    ledger="visits",
)


def changed(path: Path, change: Any) -> Path:
    path.write_bytes(FOUND.content())
    pq.write_table(change(pq.read_table(path)), path)
    return path


def test_it_comes_back_with_attributes_by_name(tmp_path: Path) -> None:
    path = tmp_path / "profiles.parquet"
    path.write_bytes(FOUND.content())
    read = read_profiles(path)
    assert (read.plan, read.ledger, read.private) == (PLAN, "visits", True)
    assert read.attributes == ("oat", "oat\0", "rye", "tea")
    np.testing.assert_array_equal(read.counts, FOUND.counts[:, [3, 2, 1, 0]])
    np.testing.assert_array_equal(read.sizes, FOUND.sizes)
    assert read.spread == FOUND.spread
    assert read.table().equals(FOUND.table())


def test_noise_alone_tells_something_in_one_of_twenty_files_and_no_large_difference_hides_in_it() -> None:
    """False-alarm rate of the test: 60 of 400 files at a true rate of 0.05 or less have a probability below 1e-12."""
    generator = np.random.default_rng(0)
    sizes, shape, scale = np.array([300, 250, 350, 280, 320]), (5, 120), 10.0
    told = found = 0
    for _ in range(400):
        noise = np.rint(generator.laplace(0, scale, shape)).astype(np.int64)
        counts = noise + np.rint(0.3 * sizes[:, None]).astype(np.int64)
        spread = (-math.ceil(scale * math.log(20)), math.ceil(scale * math.log(20)))
        names = tuple(map(str, range(shape[1])))
        made = replace(FOUND, attributes=names, sizes=sizes, counts=counts.copy(), spread=spread)
        told += any(made.telling(segment, 3) for segment in range(5))
        counts[2, 7] += 210  # 90 % of the segment, and 30 % of the others
        made = replace(FOUND, attributes=names, sizes=sizes, counts=counts, spread=spread)
        found += "7" in [name for name, _, _ in made.telling(2, 3)]
    assert told < 60
    assert found > 390


def test_only_what_noise_cannot_have_made_is_telling() -> None:
    ((name, share, others),) = FOUND.telling(0, 4)
    assert name == "tea"
    assert (share, others) == pytest.approx((0.9, 0.08))
    assert [name for name, _, _ in FOUND.telling(1, 4)] == ["rye"]


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.slice(1),
        lambda table: pa.concat_tables([table.slice(1), table.slice(1, 1)]),
        lambda table: table.drop_columns("count"),
        lambda table: table.set_column(0, "segment", pa.array([7] * len(table))),
        lambda table: table.set_column(0, "segment", pa.array([-1] * len(table))),
        lambda table: table.set_column(1, "attribute", pa.array([None] * len(table), pa.string())),
        lambda table: table.set_column(1, "attribute", pa.array([1, 2, 3, 4] * 2)),
        lambda table: table.set_column(1, "attribute", table.column(1).cast(pa.binary())),
        lambda table: table.set_column(3, "count", pa.array(["many"] * len(table))),
        lambda table: table.set_column(3, "count", pa.array(["1"] * len(table))),
        lambda table: table.set_column(3, "count", pa.array([float("nan")] * len(table))),
        lambda table: table.set_column(3, "count", pa.array([None] * len(table), pa.int64())),
    ],
)
def test_a_changed_file_is_refused(change: Any, tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="It was changed: make it again"):
        read_profiles(changed(tmp_path / "profiles.parquet", change))


def with_facts(**others: Any) -> Any:
    def change(table: Any) -> Any:
        facts = json.loads(table.schema.metadata[b"dimly.profiles"]) | others
        return table.replace_schema_metadata({b"dimly.profiles": json.dumps(facts).encode()})

    return change


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.set_column(3, "count", pa.array(np.asarray(table["count"]) + 1)),
        lambda table: table.set_column(
            1, "attribute", pa.array([name.replace("tea", "ale") for name in table["attribute"].to_pylist()])
        ),
        with_facts(people=[100, 60]),
        with_facts(ledger=None),
        with_facts(not_private=True),
        with_facts(guarantee={}),
        with_facts(id="ab" * 32),
        with_facts(plan=SurveyPlan.of(Budget(0.1), ["profiles"], release="ab" * 32).fields()),
        with_facts(profiles=1, plan_digest="ab" * 32),
    ],
)
def test_a_file_must_have_the_digests_that_it_states(change: Any, tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="the digests that it states"):
        read_profiles(changed(tmp_path / "profiles.parquet", change))


def test_the_first_version_is_read_and_the_id_does_not_hang_on_the_order_of_the_list(tmp_path: Path) -> None:
    """Its digest was of a list in an order that the file does not hold."""
    path = changed(tmp_path / "profiles.parquet", with_facts(profiles=1, id="cd" * 32))
    assert read_profiles(path).id == FOUND.id


def test_a_file_of_more_segments_than_fit_is_refused_before_memory_is_taken(tmp_path: Path) -> None:
    many = 400_000  # squared, more than any machine has
    found = {"segment": np.zeros(many, np.int32), "attribute": pa.array(np.arange(many)).cast(pa.string())}
    facts = {"plan": PLAN.fields(), "people": [1] * many}
    path = tmp_path / "profiles.parquet"
    table = pa.table(found | {"count": found["segment"]})
    pq.write_table(table.replace_schema_metadata({b"dimly.profiles": json.dumps(facts).encode()}), path)
    with pytest.raises(ReleaseError, match="It was changed: make it again"):
        read_profiles(path)


def without(key: str) -> Any:
    def change(table: Any) -> Any:
        facts = json.loads(table.schema.metadata[b"dimly.profiles"])
        del facts[key]
        return table.replace_schema_metadata({b"dimly.profiles": json.dumps(facts).encode()})

    return change


@pytest.mark.parametrize(
    "change", [lambda table: table.replace_schema_metadata({}), without("plan"), without("people")]
)
def test_what_holds_no_profiles_is_refused(change: Any, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="made by dimly survey --by"):
        read_profiles(changed(tmp_path / "profiles.parquet", change))
    text = tmp_path / "profiles.txt"
    text.write_text("tea\n")
    for path in (text, tmp_path / "nothing.parquet"):
        with pytest.raises(ParameterError, match="made by dimly survey --by"):
            read_profiles(path)
