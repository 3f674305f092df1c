import io
import re
import threading

import pytest
from rich.console import Console

from dimly.cli.terminal import ProgressBar, print_table, size_text
from dimly.curator.options import Progress


def test_on_a_terminal_people_rate_and_time_left_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")  # a dumb one gets no bar
    out = io.StringIO()
    with ProgressBar(console=Console(file=out, force_terminal=True, width=150)) as bar:
        watched: Progress = bar
        watched.advance(0)  # before the first phase
        watched.phase("reading [b]rows[/b]")
        watched.start(2_000)
        threads = [threading.Thread(target=watched.advance, args=(500,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert bar._bar is not None
        bar._bar.refresh()
    shown = out.getvalue()
    assert "reading [b]rows[/b]" in shown
    assert "1,500 people of 2,000 people" in shown
    assert "people/s" in shown


def test_bytes_are_counted_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")  # a dumb one gets no bar
    out = io.StringIO()
    with ProgressBar(amount=size_text, console=Console(file=out, force_terminal=True, width=150)) as bar:
        bar.phase("checking")
        bar.reach(1_500_000, 3_000_000)
        assert bar._bar is not None
        bar._bar.refresh()
    assert "1.5 MB of 3 MB" in out.getvalue()


def test_a_private_count_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")  # a dumb one gets no bar
    out = io.StringIO()
    with ProgressBar(amount=None, console=Console(file=out, force_terminal=True, width=150)) as bar:
        bar.phase("counting")
        bar.start(2_468)
        bar.advance(1_234)
        assert bar._bar is not None
        bar._bar.refresh()
    assert "50%" in out.getvalue()
    assert not {"1234", "2468"} & set(re.findall("[0-9]+", out.getvalue().replace(",", "")))


@pytest.mark.parametrize("setting", ["TERM", "FORCE_COLOR", "TTY_COMPATIBLE"])
def test_elsewhere_nothing_is_shown(
    setting: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(setting, "1")  # colors may be wanted in a log, a bar that moves is not
    with ProgressBar() as bar:
        bar.phase("reading")
        bar.start(10)
        bar.advance(5)
        bar.reach(5, 10)
    assert capsys.readouterr() == ("", "")


def test_a_table_in_a_pipe_is_not_folded(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    print_table(["name", "text"], [["x" * 50, "y" * 50]])
    assert f"{'x' * 50}  {'y' * 50}" in capsys.readouterr().out
