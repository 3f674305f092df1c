"""A survey from the charge to the file: exact counts, charged as a release is, whole or not there at all."""

import hashlib
import inspect
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pyarrow as pa
import pytest
from tests.streams import NO_NOISE
from tests.surveys import LIST, N_PEOPLE, ROSTER, cells, table

from dimly.api import survey
from dimly.curator.ledger.ledger import Ledger
from dimly.curator.options import Options, PublishOptions
from dimly.curator.randomness import Keystream, WordSource
from dimly.curator.survey import questions as surveys
from dimly.curator.survey import run as survey_run
from dimly.curator.survey.questions import Questions, SurveyOptions, default_questions, survey_table
from dimly.curator.survey.run import SurveyOutcome
from dimly.errors import BudgetError, DataError, DimlyError, ParameterError
from dimly.files import write_bytes
from dimly.mechanisms.survey_plan import SurveyPlan
from dimly.privacy import Budget
from dimly.release.documents.survey_file import Survey, read_survey

CELLS = cells()
ALL = ["counts", "weights", "distances"]
GIVEN: dict[str, Any] = {"user": "who", "attribute": "what", "roster": ROSTER, "vocabulary": LIST, "threads": 1}


def ask(
    questions: list[str] = ALL,
    *,
    epsilon: float = 3.0,
    delta: float = 0.0,
    source: Any = None,
    words: Callable[[], WordSource] = Keystream,
    plan: dict[str, Any] | None = None,
    **changes: Any,
) -> SurveyOutcome[Survey]:
    asked = SurveyPlan.of(Budget(epsilon, delta), questions, **(plan or {}))
    return survey_table(table(CELLS) if source is None else source, asked, Options(**GIVEN | changes), words=words)


def test_every_spelling_of_the_questions_has_the_same_names_and_types() -> None:
    record, keywords = get_type_hints(Questions), get_type_hints(SurveyOptions)
    assert {name: hint for name, hint in keywords.items() if name not in get_type_hints(PublishOptions)} == record
    shown = inspect.signature(survey).parameters
    assert list(shown) == ["source", "budget", "dry_run", *record, "options"]
    with pytest.raises(
        TypeError, match=r"survey\(\) got an unexpected keyword argument 'rooster'. Did you mean 'roster'"
    ):
        survey([[1]], Budget(1.0), rooster="people.csv")  # type: ignore[call-overload]


def answers(*given: Any, **changes: Any) -> Survey:
    done = ask(*given, words=lambda: NO_NOISE, **changes).survey
    assert done is not None
    return done


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger.create(tmp_path / "ledger.db")
    made.add_dataset("visits", epsilon=4.0, delta=1e-5)
    return made


def states(ledger: Ledger) -> list[str]:
    return [charge.state for charge in ledger.status("visits").charges]


def in_pairs(seed: str) -> list[int]:
    """Return the people in the order that they are paired in, as docs/survey.md defines it."""
    return sorted(ROSTER, key=lambda who: hashlib.sha256(f"dimly/survey {seed} {who}".encode()).hexdigest())


def test_without_noise_all_counts_are_exact() -> None:
    found = answers()
    having = Counter(what for _, what in CELLS)
    assert found.counts is not None
    assert [(one.attribute, one.count) for one in found.counts.attributes] == [(name, having[name]) for name in LIST]
    weight = Counter(who for who, _ in CELLS)
    assert found.weights is not None
    assert found.weights.of == N_PEOPLE
    assert list(found.weights.boundaries) == list(range(len(LIST)))
    assert list(found.weights.noisy) == [sum(weight[who] <= b for who in ROSTER) for b in range(len(LIST))]
    owned = {who: {what for owner, what in CELLS if owner == who} for who in ROSTER}
    order = in_pairs(found.plan.seed)
    apart = [len(owned[one] ^ owned[other]) for one, other in zip(order[::2], order[1::2], strict=True)]
    assert found.distances is not None
    assert found.distances.of == N_PEOPLE // 2
    assert list(found.distances.noisy) == [sum(d <= b for d in apart) for b in range(len(LIST))]
    assert found.distances.quantiles["0.5"].value == sorted(apart)[N_PEOPLE // 4 - 1]
    assert found.weights.quantiles["0.9"].value == sorted(weight[who] for who in ROSTER)[179]
    assert (found.n_users, found.roster, found.private) == (N_PEOPLE, "given", False)


def test_a_matrix_is_asked_as_a_table_is() -> None:
    matrix = np.array([[(who, what) in CELLS for what in LIST] for who in ROSTER])
    plan = {"seed": bytes(32)}
    done = survey_table(
        matrix,
        SurveyPlan.of(Budget(3.0), ALL, seed=bytes(32)),
        Options(attributes=LIST, users=ROSTER),
        words=lambda: NO_NOISE,
    ).survey
    whole = answers(plan=plan)
    assert done is not None
    assert (done.counts, done.weights, done.distances) == (whole.counts, whole.weights, whole.distances)
    with pytest.raises(ParameterError, match="roster must be given for a table with columns only"):
        survey_table(matrix, SurveyPlan.of(Budget(3.0), ALL), Options(roster=ROSTER))


def test_what_is_no_list_of_questions_is_refused() -> None:
    with pytest.raises(ParameterError, match="ask must be a list of questions, got int"):
        survey([[1, 0]], Budget(1.0), ask=7)  # type: ignore[call-overload]


def test_values_count_in_steps() -> None:
    rows = pa.table({"who": [0, 0, 1, 1], "what": ["x", "y", "y", "z"], "value": [1.0, 0.5, 0.25, 0.01]})
    found = answers(
        ALL, source=rows, value="value", plan={"resolution": 4}, epsilon=60.0, roster=[0, 1], vocabulary=["x", "y", "z"]
    )
    assert found.counts is not None
    assert [one.count for one in found.counts.attributes] == [1, 2, 0]  # 0.01 is less than half a step
    assert found.weights is not None
    assert list(found.weights.noisy) == [0, 1, 2]
    assert found.distances is not None
    assert list(found.distances.noisy) == [0, 0, 1]  # 1 + (1/4)² is between 1 and 2


def test_names_are_shown_by_falling_noisy_count_and_then_by_name() -> None:
    rows = {(who, name) for name, n in {"b": 150, "a": 150, "rare": 3, "c": 170}.items() for who in range(n)}
    found = answers(["vocabulary"], delta=1e-6, source=table(rows), vocabulary=None)
    assert found.vocabulary is not None
    assert found.vocabulary.threshold == found.plan.noise("vocabulary").center  # type: ignore[union-attr]
    assert [one.attribute for one in found.vocabulary.attributes] == ["c", "a", "b"]
    assert [one.low <= 170 <= one.high for one in found.vocabulary.attributes] == [True, False, False]
    assert found.names() == ("c", "a", "b")
    nothing = answers(["vocabulary"], delta=1e-6, source=table({(1, "x")}), vocabulary=None)
    with pytest.raises(ParameterError, match="shows none"):
        nothing.names()
    with pytest.raises(ParameterError, match="did not ask for one"):
        answers(["weights"]).names()


def test_people_of_the_table_who_are_not_on_the_roster_do_not_count() -> None:
    extra = CELLS | {(1000 + who, "a0") for who in range(50)}
    assert answers(source=table(extra), plan={"seed": bytes(32)}) == answers(plan={"seed": bytes(32)})


def test_without_a_roster_the_number_of_people_is_not_told() -> None:
    found = answers(["counts"], roster=None)
    assert (found.n_users, found.roster) == (None, "found")
    assert "n_users" not in found.to_json()


def test_a_survey_is_charged_and_visible(tmp_path: Path, ledger: Ledger) -> None:
    done = ask(out=tmp_path / "survey.json", ledger=ledger.path, dataset="visits", recipient="planning")
    (charge,) = ledger.status("visits").charges
    stored = read_survey(tmp_path / "survey.json")
    assert stored == done.survey
    assert stored.private
    assert stored.ledger == "visits"
    assert (charge.state, charge.release_id, charge.plan_digest) == ("visible", stored.id, stored.plan.digest)
    assert charge.cost is not None
    assert (charge.cost.epsilon, charge.appendable, charge.recipient) == (3.0, False, "planning")
    assert done.ledger == {"dataset": "visits", "charge": charge.id, "left": ledger.status("visits").left}
    assert done.warnings == ()
    with pytest.raises(ParameterError, match="output must be a new file"):
        ask(out=tmp_path / "survey.json", ledger=ledger.path, dataset="visits")
    with pytest.raises(BudgetError, match="still fits"):
        ask(out=tmp_path / "again.json", ledger=ledger.path, dataset="visits")
    assert states(ledger) == ["visible"]


def test_a_ledger_without_room_is_asked_before_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = Ledger.create(tmp_path / "small.db")
    small.add_dataset("visits", epsilon=0.5)
    source = tmp_path / "visits.parquet"
    pa.parquet.write_table(table(CELLS), source)

    def read(*_: object, **__: object) -> None:
        raise AssertionError("read")

    monkeypatch.setattr("dimly.curator.tables.numbered_table.open_source", read)
    with pytest.raises(BudgetError, match="still fits"):
        ask(source=source, out=tmp_path / "survey.json", ledger=small.path, dataset="visits")
    with pytest.raises(BudgetError, match="still fits"):
        ask(source=source, out=tmp_path / "survey.json", ledger=small.path, dataset="visits", dry_run=True)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("end", [DataError, KeyboardInterrupt, MemoryError])
def test_a_charge_comes_back_only_if_no_noise_was_drawn(
    tmp_path: Path, ledger: Ledger, end: type[BaseException], late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise end("x")

    monkeypatch.setattr(surveys, "quantiles" if late else "count_table", fail)
    with pytest.raises(end) as caught:
        ask(out=tmp_path / "survey.json", ledger=ledger.path, dataset="visits")
    assert states(ledger) == (["sampling"] if late else ["returned"])
    assert len(getattr(caught.value, "__notes__", [])) == int(late)
    assert [name for name in os.listdir(tmp_path) if not name.startswith("ledger")] == []


def test_a_file_that_cannot_be_written_keeps_the_charge(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(survey_run, "write_bytes", fail)
    with pytest.raises(DimlyError, match="cannot be written: No space left") as caught:
        ask(out=tmp_path / "survey.json", ledger=ledger.path, dataset="visits")
    assert "stays in the ledger" in caught.value.__notes__[0]
    assert states(ledger) == ["sampling"]


def test_a_survey_that_is_out_counts_even_if_the_run_ends_then(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = write_bytes

    def late(path: Path, text: bytes, *, overwrite: bool) -> None:
        written(path, text, overwrite=overwrite)
        raise KeyboardInterrupt

    monkeypatch.setattr(survey_run, "write_bytes", late)
    with pytest.raises(KeyboardInterrupt) as caught:
        ask(out=tmp_path / "survey.json", ledger=ledger.path, dataset="visits")
    assert "is published and charge 1 recorded" in caught.value.__notes__[0]
    assert states(ledger) == ["visible"]


def test_a_dry_run_checks_everything_and_leaves_nothing(tmp_path: Path, ledger: Ledger) -> None:
    done = ask(out=tmp_path / "survey.json", ledger=ledger.path, dataset="visits", dry_run=True)
    assert (done.survey, done.path, done.cost.epsilon) == (None, None, 3.0)
    assert states(ledger) == []
    assert not (tmp_path / "survey.json").exists()
    with pytest.raises(ParameterError, match=r"use a larger epsilon or share[.,]") as caught:
        ask(epsilon=0.01, dry_run=True)
    assert str(caught.value).startswith("epsilon must be larger")


@pytest.mark.parametrize("question", ALL)
def test_too_few_people_for_the_noise_are_told_before_anything_is_charged(
    tmp_path: Path, ledger: Ledger, question: str
) -> None:
    with pytest.raises(ParameterError, match=f"to ask 200 people for {question}.*Nothing was charged"):
        ask([question], epsilon=0.01, out=tmp_path / "survey.json", ledger=ledger.path, dataset="visits")
    assert states(ledger) == ["returned"]


def test_warnings(tmp_path: Path) -> None:
    options: dict[str, Any] = {"out": tmp_path / "survey.json", "vocabulary": None}
    (ledgerless, large) = ask(["vocabulary"], delta=0.01, **options).warnings
    assert "No ledger" in ledgerless
    assert "not well below 1/n" in large
    (_, unknown) = ask(["vocabulary"], delta=1e-6, roster=None, overwrite=True, **options).warnings
    assert "without a roster it is not compared" in unknown


def test_a_bare_epsilon_is_no_budget() -> None:
    with pytest.raises(ParameterError, match=r"budget must be a Budget, got float\. Write Budget"):
        survey(table(cells()), 0.2, **GIVEN)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("questions", "changes", "message"),
    [
        (["weights"], {"roster": None}, "roster must be given to ask for weights"),
        (["distances"], {"roster": None}, "roster must be given to ask for distances"),
        (["counts"], {"vocabulary": None}, "vocabulary must be given to ask for counts"),
        (["vocabulary"], {"delta": 1e-6}, "ask must be counts where a public list"),
        (["counts"], {"append": "release", "ledger": "l.db", "dataset": "d"}, "append must be left out of a survey"),
        (["counts"], {"pseudonyms": "key"}, "pseudonyms must be left out of a survey"),
        (["counts"], {"volunteers": ["a"]}, "volunteers must be left out of a survey"),
        (["counts"], {"except_volunteers": True}, "except_volunteers must be left out of a survey"),
        (["counts"], {"user": None}, "user must name the column"),
        (["counts"], {"attribute": "place"}, "attribute must be a column of the table"),
        (
            ["counts"],
            {"ledger": "l.db", "dataset": "d"},
            r"out must be a file to make where a ledger is given, got none\. Add out=FILE\.",
        ),
        (["counts"], {"out": "/nowhere/survey.json"}, "output must be in a folder that exists"),
    ],
)
def test_bad_calls(questions: list[str], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        ask(questions, **changes)


def test_lists_that_do_not_fit_stop_before_noise(tmp_path: Path, ledger: Ledger) -> None:
    options: dict[str, Any] = {"out": tmp_path / "survey.json", "ledger": ledger.path, "dataset": "visits"}
    with pytest.raises(DataError, match="the list must hold attributes of the table"):
        ask(["counts"], vocabulary=["nothing"], **options)
    with pytest.raises(DataError, match="roster must hold people"):
        ask(["weights"], roster=[5000 + who for who in range(200)], **options)
    assert states(ledger) == ["returned", "returned"]
    private = table(CELLS)
    with pytest.raises(ParameterError, match="vocabulary must be a public list"):
        ask(["counts"], source=private, vocabulary=private.column("what"))


def test_default_questions() -> None:
    pure, other = Budget(1.0), Budget(1.0, 1e-6)
    rows = table(CELLS)
    assert default_questions(rows, pure, Options(**GIVEN)) == ("counts", "weights", "distances")
    assert default_questions(rows, other, Options(user="who", roster=ROSTER)) == ("vocabulary", "weights", "distances")
    assert default_questions(np.eye(3), pure, Options()) == ("counts", "weights", "distances")
    with pytest.raises(ParameterError, match="must have a roster"):
        default_questions(rows, pure, Options(user="who"))


def test_a_file_that_nobody_can_look_at_leaves_it_open(tmp_path: Path) -> None:
    file = survey_run._SurveyFile(tmp_path, overwrite=False)
    assert file.is_published is False
    with pytest.raises(ParameterError, match="which is a folder"):
        file.publish(b"{}")
    assert file.is_published is None
    assert survey_run._SurveyFile(None, overwrite=False).is_published is False
