import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.plans import plan_of

from dimly.mechanisms import Plan
from dimly.privacy import Budget
from dimly.release import Layout, layout_of
from dimly.release.format import entry_type, part_index, part_path, part_schema, projection_schema, schema_in_words


def sketching(k: int, **changes: object) -> Plan:
    return Plan.of("counting+laplace", Budget(1.0), k=k, seed=bytes(32), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("k", "dtype", "users_per_part"),
    [
        (2, "int16", 65_536),
        (512, "int16", 65_536),  # 64 MiB exactly
        (513, "int16", 32_768),
        (512, "int32", 32_768),
        (4096, "int16", 8192),
        (40_000, "int16", 512),
    ],
)
def test_parts_are_powers_of_two_within_64_mib(k: int, dtype: str, users_per_part: int) -> None:
    layout = layout_of(sketching(k, dtype=dtype))
    assert layout.users_per_part == users_per_part
    assert layout.users_per_group == users_per_part // 8


def test_somebody_is_in_every_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Plan, "bytes_per_user", 10**9)
    assert layout_of(sketching(4)) == Layout(users_per_part=1, users_per_group=1)


def test_noisy_distances_are_cut_by_their_average() -> None:
    plan = Plan.of("noisy-distances", Budget(1.0, 1e-6), n_users=100_001, n_attributes=10)
    assert plan.bytes_per_user == 100_000
    assert layout_of(plan).users_per_part == 512


@given(n_users=st.integers(1, 10**6), step=st.integers(1, 70_000))
def test_everybody_is_in_one_part(n_users: int, step: int) -> None:
    layout = Layout(users_per_part=step, users_per_group=max(1, step // 8))
    counts = [layout.users_in(index, n_users) for index in range(layout.n_parts(n_users))]
    assert sum(counts) == n_users
    assert min(counts) >= 1
    assert set(counts[:-1]) <= {step}
    assert layout.users_in(len(counts), n_users) == 0
    groups = layout.groups_in(counts[-1])
    assert sum(groups) == counts[-1]
    assert set(groups[:-1]) <= {layout.users_per_group}


def test_names_sort_as_numbers_do() -> None:
    numbers = [0, 9, 10, 99_999, 100_000, 999_999]
    assert sorted(map(part_path, numbers)) == [part_path(number) for number in numbers]
    assert [part_index(part_path(number)) for number in numbers] == numbers
    for number in (-1, 10**6):
        with pytest.raises(ValueError, match="index must be in"):
            part_path(number)


def test_every_published_layout_has_its_columns() -> None:
    numbers = pa.list_(pa.field("element", pa.int16(), nullable=False))
    for mechanism, kind, words in (
        ("counting+laplace", numbers, "LIST of exactly 32 INT16"),
        ("randomized-response", pa.binary(13), "FIXED_LEN_BYTE_ARRAY of 13: 100 bits, bit i in byte i//8 as bit i%8"),
        ("noisy-distances", numbers, "LIST of INT16: the distances to the users after this one"),
    ):
        plan = plan_of(mechanism)
        schema = part_schema(plan, "int64")
        assert schema.names == ["user", "sketch"]
        assert schema.types == [pa.int64(), kind]
        assert not any(field.nullable for field in schema)
        assert part_schema(plan, "text").field("user").type == pa.string()
        assert schema_in_words(plan, "text") == {"user": "STRING", "sketch": words}
        assert schema_in_words(plan, "int64")["user"] == "INT64"


@pytest.mark.parametrize("mechanism", ["counting+laplace", "dasgupta+laplace", "ternary+gaussian", "gaussian+gaussian"])
def test_entries_of_p_fit_their_type(mechanism: str) -> None:
    plan = plan_of(mechanism)
    rows = plan.rows([str(i) for i in range(100)]).to_dense()
    limits = np.iinfo(entry_type(plan))
    assert limits.min <= rows.min() <= rows.max() <= limits.max
    assert projection_schema(plan).field("row").type.value_type == pa.from_numpy_dtype(entry_type(plan))
    assert entry_type(plan) == ("int16" if mechanism == "gaussian+gaussian" else "int8")
