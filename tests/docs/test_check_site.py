"""The check of the built site finds what it is there to find."""

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

SCRIPT = Path(__file__).parents[2] / "docs" / "check_site.py"
faults_of = cast("Callable[[Path], list[str]]", runpy.run_path(str(SCRIPT))["faults_of"])

GOOD = (
    '<link rel="canonical" href="https://example.org/"><a href="https://example.org">x</a><a href="two.html#here">y</a>'
)


def site(folder: Path, first: str) -> Path:
    (folder / "one.html").write_text(first, encoding="utf-8")
    (folder / "two.html").write_text('<h2 id="here">z</h2><img src="data:image/png;base64,AA==">', encoding="utf-8")
    return folder


def test_a_good_site_passes(tmp_path: Path) -> None:
    assert faults_of(site(tmp_path, GOOD)) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('<a href="three.html">x</a>', "leads nowhere"),
        ('<a href="two.html#there">x</a>', "names no place"),
        ('<a href="#there">x</a>', "names no place"),
        ('<img src="missing.png">', "leads nowhere"),
        ("<pre>/home/ada/lib/site-packages/rich/live.py:260: UserWarning</pre>", "path of the machine"),
        (f"<pre>{SCRIPT.parent}/gallery/segments.py:17</pre>", "path of the machine"),
        ('<script src="https://example.org/a.js"></script>', "loaded from elsewhere"),
        ('<link rel="stylesheet" href="//example.org/a.css">', "loaded from elsewhere"),
    ],
)
def test_a_fault_is_found(text: str, fault: str, tmp_path: Path) -> None:
    (found,) = faults_of(site(tmp_path, GOOD + text))
    assert fault in found


def test_styles_load_nothing_from_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text("@font-face { src: url(https://example.org/a.woff2) }", encoding="utf-8")
    (found,) = faults_of(site(tmp_path, GOOD))
    assert "a.css" in found


def test_an_empty_folder_is_no_site(tmp_path: Path) -> None:
    assert faults_of(tmp_path) == [f"{tmp_path} holds no page"]
