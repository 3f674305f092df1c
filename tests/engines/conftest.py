"""Every test of the contract is for every engine."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest
from tests.engines.engine import ENGINES, Engine
from tests.spark import spark, uses_spark

__all__ = ["spark"]  # a fixture

# A release takes Spark a second, however small it is. So it meets the tests of the contract, but not with every source
# in every shape, nor with every mechanism, which it does not know of.
_FILES: Final = ("Parquet folder", "CSV, latin-1", "JSON lines")  # how each is opened: tests/unit/spark/test_files.py
_SOME: Final[Mapping[str, Callable[..., bool]]] = {
    "test_every_source_and_shape": lambda form, shape, **_: (
        form == "Arrow table"
        or (form == "JSON lines" and shape in ("list", "wide values"))
        or (form == "CSV, semicolons" and shape in ("wide bits", "wide text"))
    ),
    "test_every_matrix": lambda **_: False,
    "test_every_mechanism_on_bits_and_on_values": lambda mechanism: mechanism == "randomized-response",
    "test_ids_are_kept_exactly": lambda form: form in ("Arrow table", *_FILES),
    "test_integers_are_kept_exactly": lambda form: form == "Arrow table",
    "test_integers_of_untyped_formats_are_text": lambda form, **_: form == "JSON lines",
    "test_other_ids_are_text": lambda texts, **_: texts[1] == "2" or "-" in texts[0],
    "test_a_roster_says_who_is_in": lambda given: given == "list",
    "test_people_without_attributes_get_a_row": lambda mechanism: mechanism == "noisy-distances",
    "test_an_empty_source_of_every_kind_stops": lambda **_: False,
    "test_a_roster_of_another_type_is_compared_as_text": lambda roster, **_: roster != [7, 42],
    "test_attributes_outside_of_the_vocabulary_are_left_out": lambda mechanism, given: (
        given == "list" and mechanism != "gaussian+gaussian"
    ),
    "test_nothing_in_the_list_stops_before_anything_is_charged": lambda dry_run, listed, **_: (
        not dry_run and listed is None
    ),
    "test_people_who_are_added_may_have_nothing_in_the_list": lambda **_: False,
    "test_roster_and_list_that_leave_nothing_stop_before_anything_is_charged": lambda roster, **_: roster != [1, 2],
    "test_people_who_are_added_may_have_nothing": lambda **_: False,
    "test_a_diagnosis_that_cannot_be_written_is_refused_first": lambda **_: False,
    "test_repeats_count_once": lambda plan: plan.resolution > 1,
    "test_a_number_and_its_text_are_one_attribute": lambda **_: False,
    "test_attributes_of_other_types_have_one_text": lambda texts, **_: "T" in texts[0] or texts[0] == "true",
    "test_values_are_clamped_on_request": lambda form: form == "Parquet",
    "test_pseudonyms_replace_ids_and_order": lambda ids: isinstance(ids[0], int),
    "test_columns_may_have_any_name": lambda form, user, **_: form == "Parquet" and "DROP" in user,
    "test_one_person": lambda mechanism: mechanism == "noisy-distances",
    # Perturbed by the same code, whoever calls it.
    "test_more_dimensions_than_attributes": lambda **_: False,
    "test_large_sums_saturate": lambda **_: False,
    "test_people_at_the_borders_of_files": lambda mechanism, n, threads: (
        mechanism != "randomized-response" and n == 37 and threads == 1
    ),
    "test_appending_is_publishing_all_at_once": lambda mechanism: mechanism == "counting+laplace",
    "test_every_kind_on_bits_and_on_values": lambda kind, **_: kind in ("categories", "buckets"),
    # What has been written is merged by the same code, whoever wrote it.
    "test_what_was_published_stays_bit_by_bit": lambda **_: False,
    "test_ids_that_are_too_long_together_are_refused_before_noise_is_drawn": lambda grows_by: grows_by == "append",
    "test_integers_grow_too": lambda **_: False,
    "test_pseudonyms_grow_by_the_same_key": lambda **_: False,
    "test_what_cannot_grow": lambda **_: False,
    "test_updating_is_publishing_all_at_once": lambda **_: False,
}

# What Spark is asked in a short run: reading, lists, growing, surveys and directions, each once or twice.
_SHORT: Final = {
    "test_every_source_and_shape",
    "test_ids_are_kept_exactly",
    "test_a_roster_says_who_is_in",
    "test_values_are_clamped_on_request",
    "test_nothing_tells_whether_somebody_has_an_attribute",
    "test_appending_is_publishing_all_at_once",
    "test_every_question_is_answered_by_the_truth",
    "test_every_kind_on_bits_and_on_values",
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what Spark is not asked, and let it leave its sockets to the garbage collector."""
    left_out = []
    for item in items:
        found = getattr(item, "callspec", None)
        if found is None or found.params.get("engine") is not ENGINES["Spark"]:
            continue
        item.add_marker(uses_spark)
        item.add_marker(pytest.mark.xdist_group("spark"))
        if item.originalname not in _SHORT:  # type: ignore[attr-defined]
            item.add_marker(pytest.mark.thorough, append=False)  # before a test's own, which may leave some cases
        asked = _SOME.get(item.originalname, lambda **_: True)  # type: ignore[attr-defined]
        if not asked(**{name: value for name, value in found.params.items() if name != "engine"}):
            left_out.append(item)
    gone = set(left_out)
    items[:] = [item for item in items if item not in gone]
    config.hook.pytest_deselected(items=left_out)


@pytest.fixture(params=list(ENGINES.values()), ids=list(ENGINES))
def engine(request: pytest.FixtureRequest) -> Engine:
    """Return an engine."""
    found: Any = request.param
    if found is ENGINES["Spark"]:
        request.getfixturevalue("spark")
    engine: Engine = found
    return engine
