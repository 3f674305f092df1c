"""Bars show themselves after two seconds, where somebody looks."""

import io
import sys
import types
from typing import Any

import pytest

from dimly import progress
from dimly.errors import ParameterError
from dimly.progress import LateBar, progress_bar


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_nobody_looks_at_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress_bar(None, "working") as watching:
        assert watching is None
    told: list[Any] = []
    with progress_bar(told.append, "working") as watching:
        assert watching == told.append
    monkeypatch.setattr(sys, "stderr", _Terminal())
    with progress_bar(False, "working") as watching:
        assert watching is None


@pytest.mark.parametrize("given", [True, "yes", 3])
def test_what_cannot_be_told_anything_is_refused(given: Any) -> None:
    with (
        pytest.raises(ParameterError, match="progress must be something that is told how far the work is"),
        progress_bar(given, "working"),
    ):
        pass


def test_a_terminal_gets_a_bar_once_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", _Terminal())
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with progress_bar(None, "working") as bar:
        assert isinstance(bar, LateBar)
        bar(10, 100)
        assert bar._bar is None
        now[0] = 2.5
        bar.phase("sorting")
        bar.start(100)
        bar.advance(80)
        bar.advance(80)
        assert isinstance(bar._bar, progress._TerminalBar)
        (task,) = bar._bar._bar.tasks
        assert (task.description, task.completed, task.total) == ("sorting", 100, 100)
        bar.reach(120, 100)
        assert task.completed == 100
    assert bar._bar is None


def test_a_notebook_is_known_by_its_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    class Shell:
        kernel = object()

    class Module:
        @staticmethod
        def get_ipython() -> Shell:
            return Shell()

    assert not progress.in_notebook()
    monkeypatch.setitem(sys.modules, "IPython", Module())
    assert progress.in_notebook()
    assert progress.is_watched()


def test_a_notebook_gets_the_browsers_own_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Handle:
        update = staticmethod(shown.append)

    def display(first: str, *, display_id: bool) -> Handle:
        assert display_id
        shown.append(first)
        return Handle()

    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(HTML=str, display=display))
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with progress_bar(None, "a < b") as bar:
        bar(1, 100)
        assert not shown
        now[0] = 3.0
        bar(5, 100)
        bar(6, 100)  # too soon to be shown
        now[0] = 4.0
        bar.phase("sorting")
    assert shown == [
        "",
        'a &lt; b <progress max="100" value="5"></progress>',
        "sorting <progress ></progress>",
        "",
    ]
