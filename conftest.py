"""Settings for every test, those in docstrings included."""

import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

# No test asserts a time, and the first call of a kernel compiles it; the same examples in every run, so that a
# failure is a fault of the change at hand. `--hypothesis-profile=default` searches anew.
settings.register_profile("dimly", deadline=None, derandomize=True)
settings.load_profile("dimly")


@pytest.fixture(autouse=True)
def nobody_released_before() -> Iterator[None]:
    """Forget whom other tests released: estimators refuse a row that their process has released, wherever that was."""
    # A patch of its own: the tests' monkeypatch must begin after fixtures that it is to end before.
    with pytest.MonkeyPatch.context() as patch:
        if releasing := sys.modules.get("dimly.estimators.releasing"):
            patch.setattr(releasing, "REGISTER", sys.modules["dimly.curator.repeats"].Register())
        yield


@pytest.fixture(autouse=True)
def common_workers() -> Iterator[None]:
    """Leave the workers of Spark to which a test has given a habit."""
    yield
    if spark := sys.modules.get("tests.spark"):
        spark.use_common_workers()
