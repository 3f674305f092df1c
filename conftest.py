"""Settings for every test, those in docstrings included."""

import hashlib
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# Texts are compared as they are without a terminal.
for name in ("FORCE_COLOR", "PY_COLORS", "TTY_COMPATIBLE", "GITHUB_ACTIONS"):
    os.environ.pop(name, None)

# Tests run on all cores already, one process each. Were each process to compute on all cores too, its threads would
# wait for each other actively: on a busy machine that takes half of the time of all tests. Set before NumPy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Nothing that a test finds is kept for another, or among the files of whoever runs it.
os.environ["DIMLY_CACHE"] = "off"

# No test asserts a time, and the first call of a kernel compiles it; the same examples in every run, so that a
# failure is a fault of the change at hand. `--hypothesis-profile=default` searches anew.
settings.register_profile("dimly", deadline=None, derandomize=True)
settings.load_profile("dimly")


# Tests' folders are in memory where there is plenty: ledgers and releases are synced to the disk at every step, and a
# disk takes ten times as long for it. What a full, slow or broken disk does is tested on mounts of its own.
_MEMORY = Path("/dev/shm")  # noqa: S108 - pytest makes a folder there that nobody else can read
if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > 4 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))


_true_urandom = os.urandom
_process = os.getpid()
_names: list[str] = []  # of what asks for randomness: a test, or a fixture while it is set up
_asked: Counter[str] = Counter()


def _urandom(size: int) -> bytes:
    """Return bytes that hang on the test and on nothing else where Dimly asks for them, true randomness elsewhere."""
    forked = os.getpid() != _process
    if forked or not _names or not sys._getframe(1).f_globals.get("__name__", "").startswith("dimly."):
        return _true_urandom(size)
    _asked[_names[-1]] += 1
    return hashlib.shake_256(f"{_names[-1]} {_asked[_names[-1]]}".encode()).digest(size)


# The same noise in every run, for the reason above: among thousands of tests with fresh noise, some meet a rare case
# now and then. Processes that tests start draw their own. `DIMLY_FRESH=1 make test` draws anew everywhere.
if not os.environ.get("DIMLY_FRESH"):
    os.urandom = _urandom


def _name(node: Any) -> str:
    """Return the name of a test or of what holds tests, without what xdist adds for its group."""
    group = node.get_closest_marker("xdist_group")
    name: str = node.nodeid
    return name if group is None else name.removesuffix(f"@{group.args[0]}")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let runs be short."""
    parser.addoption(
        "--cases",
        type=int,
        help="leave out tests that are marked as thorough, and all but so many cases of a test that has more",
    )


def _left_out(items: list[pytest.Item], n_cases: int) -> set[pytest.Item]:
    """Return the tests that a short run leaves out.

    ``thorough`` marks what another test says in less time; ``thorough(but=2)`` all but two cases of a test. Those that
    stay are spread evenly over its cases, and the same in every run. Both engines are tests of their own.
    """
    cases: dict[tuple[str, Any], list[pytest.Item]] = {}
    for item in items:
        found = getattr(item, "callspec", None)
        engine = None if found is None else found.params.get("engine")
        cases.setdefault((item.nodeid.partition("[")[0], engine), []).append(item)
    left_out: set[pytest.Item] = set()
    for several in cases.values():
        thorough = several[0].get_closest_marker("thorough")
        most = n_cases if thorough is None else min(n_cases, thorough.kwargs.get("but", 0))
        stay = {several[i * len(several) // most] for i in range(most)}
        left_out |= set(several) - stay
    return left_out


_LONG = ("tests/crash", "tests/docs", "tests/statistical", "tests/unit/audit", "tests/unit/lab", "tests/cli/test_lab")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Say what runs in one process, with `--dist loadgroup`, and in which order.

    All that need Spark, because its Java takes long to get up to speed; and the tests of a file that share a fixture of
    it, which each process would make for itself. Groups are dealt out first, the largest first.
    """
    n_cases = config.getoption("cases")
    if n_cases is not None:
        left_out = _left_out(items, n_cases)
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=list(left_out))
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))
        elif item.get_closest_marker("xdist_group") is None and _shares_a_fixture(item):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
    if config.getoption("loadgroup", False):  # one of many seconds that is dealt out last leaves the others idle
        items.sort(key=lambda item: not item.nodeid.startswith(_LONG))


def _shares_a_fixture(item: pytest.Item) -> bool:
    known = getattr(item, "_fixtureinfo", None)  # of a test in a docstring there is none
    made = {} if known is None else known.name2fixturedefs
    return any(fixtures[-1].scope == "module" for fixtures in made.values())


@pytest.hookimpl(tryfirst=True, hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Begin a test's own randomness."""
    _names.append(_name(item))
    yield
    _names.pop()


@pytest.hookimpl(hookwrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> Iterator[None]:
    """Begin a fixture's own: which test is the first to ask for it hangs on how tests are dealt to processes."""
    _names.append(f"{_name(request.node)} {fixturedef.argname} {getattr(request, 'param_index', 0)}")
    yield
    _names.pop()


@pytest.fixture(autouse=True)
def nobody_released_before() -> Iterator[None]:
    """Forget whom other tests released: estimators refuse a row that their process has released, wherever that was."""
    # A patch of its own: the tests' monkeypatch must begin after fixtures that it is to end before.
    with pytest.MonkeyPatch.context() as patch:
        if releasing := sys.modules.get("dimly.estimators.base"):
            patch.setattr(releasing, "REGISTER", sys.modules["dimly.estimators.base"].Register())
        yield


@pytest.fixture(autouse=True)
def common_workers() -> Iterator[None]:
    """Leave the workers of Spark to which a test has given a habit."""
    yield
    if spark := sys.modules.get("tests.spark"):
        spark.use_common_workers()


@pytest.fixture
def usual_signals() -> Iterator[None]:
    """Handle signals as a process in the foreground does, and those that it starts.

    Under ``nohup`` SIGHUP is ignored, and in the background of a script SIGINT is; children inherit that.
    """
    usual = {"SIGINT": signal.default_int_handler, "SIGTERM": signal.SIG_DFL, "SIGHUP": signal.SIG_DFL}
    numbers = {getattr(signal, name): handler for name, handler in usual.items() if hasattr(signal, name)}
    before = {number: signal.signal(number, handler) for number, handler in numbers.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
