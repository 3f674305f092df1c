"""From a table to estimates by the front door, with secret noise: what holds whatever the noise was."""

from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.datasets import load_digits
from tests.plans import plan_of

import dimly
from dimly.api import publish
from dimly.errors import DataError, ParameterError
from dimly.mechanisms import MECHANISMS, Plan
from dimly.privacy import Budget

DIGITS = load_digits().data[:300]  # 8×8 pixels from 0 to 16
BITS = DIGITS >= 8


def digits_plan(mechanism: str, *, resolution: int = 16, seed: bytes | None = None) -> dimly.Plan:
    budget = dimly.Budget(8.0, 1e-6)
    if mechanism == "randomized-response":
        return dimly.Plan.of(mechanism, budget, n_attributes=64)
    if mechanism == "noisy-distances":
        arguments = {"n_attributes": 64, "n_users": 300, "resolution": resolution, "dtype": "int32"}
        return dimly.Plan.of(mechanism, budget, **arguments)  # type: ignore[arg-type]
    blocks = 4 if mechanism.startswith(("sparse", "dasgupta")) else 1
    return dimly.Plan.of(
        mechanism, budget, k=32, blocks=blocks, n_attributes=64, resolution=resolution, dtype="int32", seed=seed
    )


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_digits_go_through_from_end_to_end(mechanism: str) -> None:
    table = BITS if mechanism == "randomized-response" else DIGITS / 16
    release = dimly.publish(table, digits_plan(mechanism))
    assert len(release) == 300
    assert release.private
    assert release.guarantee.startswith("Publishing changes the odds")
    a, b = np.arange(0, 300, 2), np.arange(1, 300, 2)
    found = release.distances(a, b)
    assert np.isfinite(found.value).all()
    assert (found.low <= found.high).all()
    assert (found.high <= 64).all()
    if mechanism != "noisy-distances":
        mean = release.project({str(i): float(v) for i, v in enumerate(table.mean(axis=0).round())})
        assert release.distances(a, mean).value.shape == (150,)


def test_matrices_of_every_kind_are_taken() -> None:
    plan = dimly.Plan.of("counting+laplace", dimly.Budget(1.0), k=16)
    for table in (BITS, BITS.tolist(), BITS.astype(float), scipy.sparse.csr_array(BITS), scipy.sparse.coo_array(BITS)):
        assert dimly.publish(table, plan).values.shape == (300, 16)


def test_two_calls_never_use_the_same_noise() -> None:
    plan = dimly.Plan.of("counting+laplace", dimly.Budget(1.0), k=16)
    assert (dimly.publish(BITS, plan).values != dimly.publish(BITS, plan).values).any()


def test_users_are_ordered_and_named_as_they_were_given() -> None:
    plan = dimly.Plan.of("hashing+laplace", dimly.Budget(40.0), k=1024)
    release = dimly.publish([[1, 1, 1, 1], [0, 0, 0, 0]], plan, users=["zoe", "ann"])
    assert release.users.tolist() == ["ann", "zoe"]
    assert "zoe" in release
    assert release.norm("zoe").value > release.norm("ann").value + 1


def test_columns_may_have_names() -> None:
    plan = dimly.Plan.of("hashing+laplace", dimly.Budget(40.0), k=1024)
    release = dimly.publish([[1, 0], [0, 1]], plan, attributes=["tea", 42])
    assert round(release.attribute(0, "tea").value) == 1
    assert round(release.attribute(1, "42").value) == 1
    assert release.distance(1, release.project({42})).value < 1


@pytest.mark.parametrize("mechanism", ["hashing+laplace", "ternary+gaussian", "randomized-response"])
def test_a_listed_vocabulary_comes_with_the_columns(mechanism: str) -> None:
    names = ["tea", "coffee", "milk"]
    k = {} if mechanism == "randomized-response" else {"k": 64}
    plan = dimly.Plan.of(mechanism, dimly.Budget(1.0, 1e-6), vocabulary=names, **k)  # type: ignore[arg-type]
    release = dimly.publish([[1, 0, 1]], plan, attributes=names)
    assert release.vocabulary.attributes == tuple(names)
    assert release.project({"milk"}).steps == {"milk": 1}
    with pytest.raises(ParameterError, match="must be of the plan's vocabulary"):
        release.project({"beer"})
    with pytest.raises(ParameterError, match="its digest differs"):
        dimly.publish([[1, 0, 1]], plan, attributes=names[::-1])


def test_names_may_come_from_an_iterator() -> None:
    plan = dimly.Plan.of("hashing+laplace", dimly.Budget(1.0), k=64, vocabulary=["tea", "milk"])
    release = dimly.publish([[1, 0]], plan, attributes=iter(["tea", "milk"]))
    assert release.project({"tea"}).steps == {"tea": 1}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([[0, 2]], r"must lie in \[0, 1\]"),
        ([[0.5, 1.0]], "the plan is for bits"),
        ([[float("nan"), 1.0]], "must not hold NaN"),
        ([0, 1], "two dimensions"),
    ],
)
def test_tables_that_do_not_fit_are_refused(table: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        dimly.publish(table, dimly.Plan.of("hashing+laplace", dimly.Budget(1.0), k=8))


def test_more_people_than_planned_are_refused() -> None:
    with pytest.raises(DataError, match="at most 40 people"):
        dimly.publish(np.ones((41, 100)), plan_of("noisy-distances"))


class Frame:
    """What a data frame looks like from outside."""

    columns = ("tea", "milk")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.zeros((2, 2))


@pytest.mark.parametrize("attributes", [{"a", "b"}, "ab", 5])
def test_names_without_an_order_are_refused(attributes: Any) -> None:
    plan = Plan.of("counting+laplace", Budget(1.0), k=4)
    with pytest.raises(ParameterError, match="in a fixed order"):
        publish(np.zeros((2, 2)), plan, attributes=attributes)


def test_a_data_frame_needs_the_column_of_users() -> None:
    with pytest.raises(ParameterError, match="user must name the column"):
        publish(Frame(), Plan.of("counting+laplace", Budget(1.0), k=4))


def test_a_plan_must_be_a_plan() -> None:
    with pytest.raises(ParameterError, match="plan must be a Plan, got str"):
        publish(np.zeros((2, 2)), "counting+laplace")  # type: ignore[call-overload]


VISITS = pd.DataFrame({"person": ["ada", "ada", "bob"], "page": ["x", "y", "x"]})
BY_PAGE = {"user": "person", "attribute": "page"}


@pytest.mark.parametrize(
    ("source", "changed", "remedy"),
    [
        (VISITS.set_index("person"), {}, r"Its index is person: pass table\.reset_index\(\)"),
        (VISITS["page"], {}, r"reset_index\(\) makes a table of a pandas Series"),
        ({"person": ["ada"], "page": ["x"]}, {}, r"pandas\.DataFrame\(…\) makes a table"),
        ([("ada", "x"), ("bob", "y")], {}, r"Make a table of it: pandas\.DataFrame\(rows, columns="),
        (VISITS.assign(person=[1.0, 2.0, None]), {}, r"astype\('Int64'\)"),
        (VISITS.assign(page=[["x"], ["y"], ["x"]]), {}, "Pass a column of lists as attributes"),
        (VISITS, {"user": VISITS["person"]}, "user must be the name of a column, got Series"),
        (VISITS, {"attribute": ["page"]}, "attribute must be the name of a column, got list"),
        (VISITS, {"attribute": None}, r"attribute \(a row for each\), attributes \(a list column\) and columns"),
        (VISITS, {"attribute": None, "columns": "x,y"}, r"Write \['x', 'y'\]"),
        (VISITS, {"where": VISITS["page"] == "x"}, "where must be text such as .*, got Series"),
        (VISITS, {"dataset": "visits"}, "Add ledger=FILE, or leave dataset out"),
        (VISITS, {"plan": Budget(1.0)}, r"dimly\.plan\(budget\)"),
        (VISITS, {"plan": "plan.json"}, r"Plan\.from_json"),
    ],
)
def test_wrong_calls_name_what_mends_them_in_words_of_python(source: Any, changed: dict[str, Any], remedy: str) -> None:
    options: dict[str, Any] = {"plan": Plan.of("counting+laplace", Budget(1.0), k=4), **BY_PAGE, **changed}
    with pytest.raises(ParameterError, match=remedy) as refused:
        publish(source, **options)
    assert "--" not in str(refused.value)


def test_warnings_are_in_words_of_python_too() -> None:
    with pytest.warns(dimly.PrivacyWarning) as found:
        publish(VISITS, Plan.of("counting+laplace", Budget(1.0), k=4), user="person", attribute="page")
    assert any("people as roster." in str(one.message) for one in found)


def test_a_table_of_a_few_people_has_neighbors_without_a_number() -> None:
    release = publish(np.eye(3), Plan.of("counting+laplace", Budget(1.0), k=4))
    assert len(release.neighbors(0)) == 2
    with pytest.raises(ParameterError, match="this release has none"):
        publish(np.ones((1, 2)), Plan.of("counting+laplace", Budget(1.0), k=4)).neighbors(0)


def test_files_that_are_there_are_refused_by_the_name_of_the_argument(tmp_path: Path) -> None:
    release = publish(np.eye(3), Plan.of("counting+laplace", Budget(1.0), k=4))
    release.save(tmp_path / "release")
    with pytest.raises(ParameterError, match=r"^path must be a new folder, .* overwrite=True\.$"):
        release.save(tmp_path / "release")
    (tmp_path / "page.html").write_text("")
    with pytest.raises(ParameterError, match=r"^path must be a new file, .* overwrite=True to replace it\.$"):
        release.report(tmp_path / "page.html")


def test_what_a_notebook_shows_fits_into_a_line() -> None:
    release = publish(np.eye(3), Plan.of("counting+laplace", Budget(1.0), k=4))
    assert repr(release.project({"0", "2"})) == f"<Vector of 2 attributes, plan {release.plan.digest[:12]}…>"
    assert repr(release.denoised()).startswith("<Denoised points of 3 people in ")


def test_keywords_of_other_libraries_are_answered_with_ours() -> None:
    release = publish(np.eye(3), Plan.of("counting+laplace", Budget(1.0), k=4))
    calls: list[tuple[Any, str, str]] = [
        (release.neighbors, "k", "n"),
        (release.neighbors, "n_neighbors", "n"),
        (release.neighbors, "user", "who"),
        (release.neighbor_graph, "k", "n"),
        (release.segments, "n_clusters", "count"),
    ]
    for call, name, meant in calls:
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'. Did you mean '{meant}'"):
            call(**{name: 1})
    assert list(signature(dimly.Release.neighbors).parameters)[:3] == ["self", "who", "n"]
    assert repr(release.segments(1)).startswith("1 segment of 3 people")


def test_other_things_than_paths_and_pages_are_refused(tmp_path: Path) -> None:
    release = publish(np.eye(3), Plan.of("counting+laplace", Budget(1.0), k=4))
    with pytest.raises(ParameterError, match=r"must be the path of a folder, got Release\. It is open already"):
        dimly.open_release(release)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"got DataFrame\. Publish a table first"):
        dimly.open_release(pd.DataFrame({"person": [1]}))
    with pytest.raises(ParameterError, match=r"got int\. Pass text or a pathlib"):
        dimly.open_release(3)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"Release must be made of published sketches, got a path\. Call"):
        dimly.Release("release")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"path must end in \.html"):
        release.report(tmp_path / "report.pdf")
    with pytest.raises(ParameterError, match=r"Pass the text of the file: Path\(file\)\.read_text"):
        Plan.from_json("plan.json")


def test_a_numbered_list_is_a_vocabulary_too() -> None:
    plan = Plan.of("counting+laplace", Budget(1.0), k=4, vocabulary=["0", "1"])
    assert publish(np.zeros((2, 2)), plan).project({"1"}).squared_norm == 1
