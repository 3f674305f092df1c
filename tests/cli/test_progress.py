import io
import threading

import pytest
from rich.console import Console

from dimly.cli.output import size_text
from dimly.cli.progress import ProgressBar
from dimly.curator.progress import Progress


def test_on_a_terminal_people_rate_and_time_left_are_shown() -> None:
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
        bar._bar.refresh()
    shown = out.getvalue()
    assert "reading [b]rows[/b]" in shown
    assert "1,500 people of 2,000 people" in shown
    assert "people/s" in shown


def test_bytes_are_counted_as_such() -> None:
    out = io.StringIO()
    with ProgressBar(amount=size_text, console=Console(file=out, force_terminal=True, width=150)) as bar:
        bar.phase("checking")
        bar.reach(1_500_000, 3_000_000)
        bar._bar.refresh()
    assert "1.5 MB of 3 MB" in out.getvalue()


def test_elsewhere_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar() as bar:
        bar.phase("reading")
        bar.start(10)
        bar.advance(5)
        bar.reach(5, 10)
    assert capsys.readouterr() == ("", "")
