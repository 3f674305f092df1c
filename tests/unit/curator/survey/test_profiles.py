"""Profiles of segments: exact counts by a public label, one of which an attribute moves, and whose labels are taken."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.streams import NO_NOISE, Recorded
from tests.surveys import LIST, N_PEOPLE, ROSTER, Cells, cells, table

from dimly.api import survey
from dimly.curator.ledger.ledger import Ledger
from dimly.curator.options import Options
from dimly.curator.people import Pseudonyms
from dimly.curator.survey.profiles import profile_table
from dimly.errors import BudgetError, DataError, ParameterError, PrivacyWarning, ReleaseError
from dimly.mechanisms.survey_plan import SurveyPlan
from dimly.privacy import Budget, Cost
from dimly.release.documents.profiles_file import Profiles
from dimly.release.documents.segments_file import encode_segments, read_segments

RELEASE = "ab" * 32
SEGMENTS = np.array([who % 3 if who % 10 else -1 for who in ROSTER], np.int32)
GIVEN: dict[str, Any] = {"user": "who", "attribute": "what", "vocabulary": LIST, "threads": 1}


@pytest.fixture
def by(tmp_path: Path) -> Path:
    path = tmp_path / "segments.parquet"
    path.write_bytes(encode_segments(ROSTER, SEGMENTS, user_type="int64", release=RELEASE))
    return path


def profiles(found: Cells, by: Path, words: Any = NO_NOISE, unit: Any = "attribute", **changes: Any) -> Profiles:
    plan = SurveyPlan.of(Budget(2.0), ["profiles"], release=RELEASE, unit=unit, seed=bytes(32))
    labels = read_segments(by)
    done = profile_table(table(found), plan, Options(**GIVEN | changes), labels=labels, words=lambda: words).survey
    assert done is not None
    return done


@pytest.mark.thorough
def test_without_noise_counts_are_exact(by: Path) -> None:
    found = profiles(cells(), by)
    wanted = [
        [sum((who, name) in cells() for who in ROSTER if SEGMENTS[who] == segment) for name in LIST]
        for segment in range(3)
    ]
    assert found.counts.tolist() == wanted
    assert found.sizes.tolist() == [np.count_nonzero(segment == SEGMENTS) for segment in range(3)]
    rest = (sum(wanted[s][4] for s in (1, 2))) / (found.sizes[1] + found.sizes[2])
    assert found.apart[0, 4] == pytest.approx(wanted[0][4] / found.sizes[0] - rest)
    rows = found.strongest(1, 4)
    assert [row["segment"] for row in rows] == [1] * 4
    assert [row["apart"] for row in rows] == sorted(found.apart[1], reverse=True)[:4]
    assert not found.private


@pytest.mark.parametrize(("unit", "most"), [("attribute", 1), ("column", 2)])
def test_one_unit_moves_as_many_counts_as_the_plan_says(by: Path, unit: Any, most: int) -> None:
    one = cells() - {(7, "a3"), (7, "a4")} | {(7, "a3")}
    others = [one - {(7, "a3")}, one | {(7, "a4")}] if most == 1 else [one - {(7, "a3")} | {(7, "a4")}]
    for other in others:
        a, b = (profiles(which, by, Recorded(3), unit=unit) for which in (one, other))
        assert np.abs(a.counts - b.counts).sum() == most
        assert (a.sizes == b.sizes).all()


def test_people_outside_of_the_segments_do_not_count(by: Path) -> None:
    extra = cells() | {(10, "a0"), (5000, "a0")}  # the first has no segment, the second no label
    assert (profiles(extra, by).counts == profiles(cells(), by).counts).all()


def test_ids_of_another_type_are_met_as_text(by: Path, tmp_path: Path) -> None:
    path = tmp_path / "text.parquet"
    order = sorted(ROSTER, key=str)
    path.write_bytes(encode_segments(list(map(str, order)), SEGMENTS[order], user_type="text", release=RELEASE))
    assert (profiles(cells(), path).counts == profiles(cells(), by).counts).all()


def charge_release(ledger: Ledger, people: list[int] | None) -> None:
    charge = ledger.reserve("visits", Cost(1.0), plan_digest="x")
    if people is not None:
        charge.claim_users([people])
    charge.start_sampling()
    charge.seal(release_id=RELEASE)
    charge.make_visible()


@pytest.mark.parametrize("people", [None, ROSTER[1:]], ids=["a survey", "a release of others"])
def test_labels_that_claim_the_id_of_something_else_are_refused(
    by: Path, tmp_path: Path, people: list[int] | None
) -> None:
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("visits", epsilon=4.0)
    charge_release(ledger, people)
    charging: dict[str, Any] = {"ledger": ledger.path, "dataset": "visits", "out": tmp_path / "profiles.parquet"}
    with pytest.raises(BudgetError, match="segments of a release that the ledger charged"):
        survey(table(cells()), Budget(2.0), by=by, **GIVEN, **charging)
    assert len(ledger.status("visits").charges) == 1


def test_without_a_ledger_labels_are_taken_on_trust_and_that_is_said(by: Path, tmp_path: Path) -> None:
    out = tmp_path / "profiles.parquet"
    with pytest.warns(PrivacyWarning, match="on your word"), pytest.warns(PrivacyWarning, match="keeps count"):
        survey(table(cells()), Budget(2.0), by=by, out=out, **GIVEN)
    by.write_bytes(encode_segments(ROSTER, SEGMENTS, user_type="int64", release="z" * 64))
    with pytest.raises(ParameterError, match="does not say of which release"):
        survey(table(cells()), Budget(2.0), by=by, **GIVEN)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_bytes(bytes(range(32)))
    path.chmod(0o600)
    return path


def test_segments_of_a_release_with_pseudonyms(by: Path, key: Path, tmp_path: Path) -> None:
    hidden = tmp_path / "hidden.parquet"
    names = Pseudonyms(key.read_bytes()).of(map(str, ROSTER))
    order = np.argsort(names)
    hidden.write_bytes(encode_segments([names[at] for at in order], SEGMENTS[order], user_type="text", release=RELEASE))
    found, plain = profiles(cells(), hidden, pseudonyms=key), profiles(cells(), by)
    assert (found.counts == plain.counts).all()
    assert (found.sizes == plain.sizes).all()  # people without attributes are in a segment, too
    with pytest.raises(DataError, match=r"by must hold people .* give their key as pseudonyms=KEY"):
        profiles(cells(), hidden)
    key.write_bytes(bytes(32))
    with pytest.raises(DataError, match="by must hold people"):
        profiles(cells(), hidden, pseudonyms=key)
    with pytest.raises(ParameterError, match="epsilon must be larger to ask 180 people for profiles"):
        survey(table(cells()), Budget(0.01), by=hidden, pseudonyms=key, **GIVEN)


def test_what_does_not_apply_is_refused(by: Path) -> None:
    for option in ({"members": 5}, {"volunteers": [1]}, {"except_volunteers": True}, {"directions": "d.parquet"}):
        with pytest.raises(ParameterError, match=f"{next(iter(option))} must be"):
            survey(table(cells()), Budget(2.0), by=by, **GIVEN, **option)


def test_the_file_says_what_was_asked(by: Path, tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("visits", epsilon=4.0)
    charging: dict[str, Any] = {"ledger": ledger.path, "dataset": "visits"}
    out = tmp_path / "profiles.parquet"
    with pytest.raises(BudgetError, match="segments of a release that the ledger charged"):
        survey(table(cells()), Budget(2.0), by=by, out=out, **GIVEN, **charging)
    charge_release(ledger, ROSTER)
    found = survey(table(cells()), Budget(2.0), by=by, out=out, **GIVEN, **charging)
    assert isinstance(found, Profiles)
    assert found.private
    facts = json.loads(pq.read_schema(out).metadata[b"dimly.profiles"])
    assert facts["profiles"] == 2
    assert facts["id"] == found.id == ledger.status("visits").charges[-1].release_id
    assert facts["plan"]["release"] == RELEASE
    assert "any one attribute" in facts["guarantee"][0]
    stored = pq.read_table(out)
    assert stored.num_rows == 3 * len(LIST)
    assert stored.equals(found.table())


def test_labels_of_unknown_origin_are_refused(by: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.parquet"
    pq.write_table(pa.table({"user": ROSTER, "segment": SEGMENTS}), own)
    with pytest.raises(ParameterError, match="does not say of which release"):
        survey(table(cells()), Budget(2.0), by=own, **GIVEN)
    with pytest.raises(ParameterError, match="Make one by dimly segments"):
        read_segments(tmp_path / "missing.parquet")
    for changed in (SEGMENTS - 1, np.full(N_PEOPLE, 20_000, np.int32)):
        own.write_bytes(encode_segments(ROSTER, changed.astype(np.int32), user_type="int64", release=RELEASE))
        with pytest.raises(ReleaseError, match="by must give each person once"):
            read_segments(own)
    stored = pq.read_table(by)
    pq.write_table(stored.rename_columns(["user", "label"]).replace_schema_metadata(stored.schema.metadata), own)
    with pytest.raises(ReleaseError, match="columns user, of integers or text, and segment"):
        read_segments(own)
    odd = ({"user": [[1]]}, {"user": [0.5]}, {"segment": ["north"]}, {"segment": [[0]]}, {"segment": pa.nulls(1)})
    for columns in odd:  # no text of Arrow's or NumPy's, which quote what stands there
        changed = pa.table({"user": [1], "segment": [0], **columns}).replace_schema_metadata(stored.schema.metadata)
        pq.write_table(changed, own)
        with pytest.raises(ReleaseError, match="columns user, of integers or text, and segment"):
            read_segments(own)
    pq.write_table(stored.replace_schema_metadata({"dimly.segments": "[" * 100_000}), own)
    with pytest.raises(ParameterError, match="does not say of which release"):
        read_segments(own)
    pq.write_table(stored.rename_columns(["who", "what"]), own)
    with pytest.raises(
        ParameterError, match="by must be segments of a release, got the private table itself"
    ):  # it is the table that is surveyed
        profile_table(
            own,
            SurveyPlan.of(Budget(2.0), ["profiles"], release=RELEASE),
            Options(**GIVEN),
            labels=read_segments(by),
            labels_from=own,
        )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocabulary": None}, "vocabulary must be given for profiles"),
        ({"roster": ROSTER}, "roster must be left out with by"),
        ({"ask": ["weights"]}, "profiles must be asked for alone"),
        ({"members": 5}, "members must be given for directions only"),
        ({"source": np.eye(3)}, "source must be a table with a column"),
    ],
)
def test_bad_calls(by: Path, changes: dict[str, Any], message: str) -> None:
    options = GIVEN | changes
    with pytest.raises(ParameterError, match=message):
        survey(options.pop("source", table(cells())), Budget(2.0), by=by, **options)


def test_other_bad_labels(by: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = SurveyPlan.of(Budget(2.0), ["profiles"], release="cd" * 32)
    with pytest.raises(ParameterError, match="made for the release that the segments are of"):
        profile_table(table(cells()), other, Options(**GIVEN), labels=read_segments(by))
    nobody = tmp_path / "nobody.parquet"
    nobody.write_bytes(encode_segments(ROSTER, np.full(N_PEOPLE, -1), user_type="int64", release=RELEASE))
    with pytest.raises(ParameterError, match="at least one person into a segment"):
        profiles(cells(), nobody)
    monkeypatch.setattr("dimly.curator.survey.profiles.MOST_COUNTS", 50)
    with pytest.raises(ParameterError, match="short enough for 50 counts"):
        profiles(cells(), by)


def test_ids_that_do_not_meet_are_refused() -> None:
    from dimly.curator.survey.profiles import _in_order  # noqa: PLC0415

    class Table:
        n_users = 2

        def users(self, _: int, __: int) -> pa.Array:
            return pa.array(["1", "02"])

    with pytest.raises(DataError, match="written in another way"):
        _in_order(Table(), pa.array([1, 2]), np.array([0, 1]), all_there=True)  # type: ignore[arg-type]
