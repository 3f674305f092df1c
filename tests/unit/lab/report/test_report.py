"""A page on any release: well formed, whole in itself, the same each time, and without anybody's id."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.folders import people, release_folder, write
from tests.matrices import publish_matrix
from tests.plans import plan_of
from tests.releases import PEOPLE, every_mechanism
from tests.streams import Recorded

from dimly.analyst.release import open_release
from dimly.errors import ParameterError, ReleaseError
from dimly.lab.report import shown_people as report_sample
from dimly.lab.report.page import page_of
from dimly.lab.report.report import Report, report_of
from dimly.mechanisms import Plan
from dimly.mechanisms.survey_plan import SurveyPlan
from dimly.privacy import Budget
from dimly.release import Sketches
from dimly.release.documents.profiles_file import Profiles
from dimly.release.manifest import release_id

EMPTY = {"meta", "link", "br", "path", "line", "rect", "circle"}
BLOCKS = {"h1", "h2", "h3", "p", "li", "dt", "dd", "th", "td", "caption", "text"}


class Page(HTMLParser):
    """What a page is made of; it fails where tags do not pair."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self.text += " " if tag in BLOCKS else ""

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text += data

    def all_of(self, name: str) -> list[str]:
        return [value for _, attrs in self.tags if (value := attrs.get(name)) is not None]


def words_of(report: Report) -> str:
    return " ".join(Page(page_of(report)).text.split())


def groups(n: int = 400, kinds: int = 3) -> Any:
    """Return people of some kinds, told apart by what they have."""
    generator = np.random.default_rng(0)
    tastes = generator.random((kinds, 300)) < 0.3
    return generator.random((n, 300)) < np.where(tastes[np.arange(n) % kinds], 0.8, 0.05)


@pytest.fixture(scope="module")
def grouped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    plan = Plan.of("counting+laplace", Budget(4.0), k=64)
    return write(tmp_path_factory.mktemp("grouped") / "release", publish_matrix(groups(), plan, users=np.arange(400)))


@pytest.fixture(scope="module")
def thirds(grouped: Path) -> Report:
    return report_of(grouped, count=3)


@every_mechanism
def test_every_mechanism_gives_a_page_that_is_whole_in_itself(mechanism: str, tmp_path: Path) -> None:
    text = page_of(report_of(release_folder(tmp_path / "release", mechanism), count=2))
    page = Page(text)
    assert "://" not in text
    assert "@import" not in text
    assert "url(" not in text
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"script", "img", "iframe", "object", "embed", "audio", "video", "base", "form"}
    assert all(target.startswith(("#", "data:")) for target in page.all_of("href"))
    assert page.all_of("src") == []
    ids = page.all_of("id")
    assert len(ids) == len(set(ids))
    for reference in [target[1:] for target in page.all_of("href") if target.startswith("#")]:
        assert reference in ids
    drawings = [attrs for tag, attrs in page.tags if tag == "svg" and attrs.get("role") == "img"]
    assert len(drawings) >= 1
    for attrs in drawings:
        assert set(str(attrs["aria-labelledby"]).split()) <= set(ids)
    assert "default-src 'none'" in text
    assert "NaN" not in text
    assert not re.search(r"\b(nan|inf)\b", page.text)


def test_with_a_delta_no_factor_is_said_to_bound_all_odds(grouped: Path, tmp_path: Path) -> None:
    pure = words_of(report_of(grouped, count=2))
    loose = words_of(report_of(release_folder(tmp_path / "release", "hashing+gaussian"), count=2))
    assert "Odds change by up to" in pure
    assert "δ together" not in pure
    assert "Odds change by up to" not in loose
    assert "δ together" in loose


def test_bits_that_are_mostly_kept_are_not_said_to_be_changed(tmp_path: Path) -> None:
    said = Page(page_of(report_of(release_folder(tmp_path / "release", "randomized-response")))).text
    assert "unchanged" not in said
    assert "A guess about one attribute that was 50 % sure becomes at most" in said


def test_headings_go_down_one_step_at_a_time(thirds: Report) -> None:
    levels = [int(tag[1]) for tag, _ in Page(page_of(thirds)).tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_nobodys_id_is_shown(tmp_path: Path) -> None:
    ids = [f"zebra{i:03d}" for i in range(30)]
    path = write(tmp_path / "release", publish_matrix(PEOPLE[:30], plan_of("counting+laplace"), users=ids))
    report = report_of(path)
    assert "zebra" not in page_of(report) + json.dumps(report.to_dict())


def test_the_same_release_gives_the_same_page(grouped: Path, thirds: Report) -> None:
    assert page_of(report_of(grouped, count=3)) == page_of(thirds)


def test_structure_and_segments_are_shown(grouped: Path) -> None:
    report = report_of(grouped)
    assert report.segments is not None
    np.testing.assert_array_equal(report.segments.labels, open_release(grouped).segments("auto").labels)
    assert report.map is not None
    assert len(report.segments) == 3
    said = words_of(report)
    assert f"3 segments; stability {report.segments.stability:.2f} of 1" in said
    for size in report.segments.sizes.tolist():
        assert f"{size}" in said
    facts = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert facts["segments"]["sizes"] == report.segments.sizes.tolist()
    assert facts["structure"]["components"] >= 2
    assert facts["distances"]["pairs"] == 200
    assert facts["looked_at"] == 400


def test_segments_are_those_of_the_release_with_the_same_numbers(
    grouped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_sample, "_MOST", 100)  # what else it shows is of some people
    found, report = open_release(grouped).segments(2), report_of(grouped, count=2)
    assert report.segments is not None
    assert report.map is not None
    np.testing.assert_array_equal(report.segments.labels, found.labels)
    np.testing.assert_array_equal(report.map.labels, found.labels[report.sample.positions][_shown(100)])
    rows = re.findall(r"</svg>(\d+)</t[dh]><td[^>]*>(\d+)<", page_of(report))
    assert [(int(label), int(size)) for label, size in rows] == list(enumerate(found.sizes.tolist()))
    names = re.findall(r'<text class="name"[^>]*>(\d+)</text>', page_of(report))
    assert [int(name) for name in names] == list(range(len(found)))


def _shown(n: int) -> Any:
    return np.random.default_rng(0).permutation(n)


def test_captions_explain_what_is_drawn_and_nothing_else(thirds: Report) -> None:
    report = thirds
    bend, found = report.acuity.bend, report.distances
    assert bend is not None
    assert found is not None
    for reach, explained in ((0.5 * bend, False), (2 * bend, True)):
        assert ("twice the average weight" in words_of(replace(report, reach=reach))) == explained
    values = found.values - found.values.min()
    for least, explained in ((1.0, False), (-1.0, True)):
        said = words_of(replace(report, distances=replace(found, values=values + least)))
        assert ("Estimates below 0 are noise" in said) == explained


def test_where_there_is_nothing_to_be_seen_the_page_says_so(tmp_path: Path) -> None:
    table = np.random.default_rng(0).random((200, 200)) < 0.1
    plan = Plan.of("counting+laplace", Budget(0.5), k=32, seed=bytes(32))
    report = report_of(write(tmp_path / "release", publish_matrix(table, plan, words=Recorded(0))))
    said = words_of(report)
    assert report.map is None
    assert "There is no map, because there is nothing to be seen on it." in said
    assert "No structure beyond what independent attributes would show." in said
    assert "There may still be structure" in said
    assert "The spread is noise." in said
    assert "Groups may still show" not in said


def test_noise_in_single_pairs_does_not_deny_structure_that_was_found(thirds: Report) -> None:
    report = thirds
    found = report.distances
    assert found is not None
    silent = words_of(replace(report, distances=replace(found, noise=2 * found.spread)))
    assert (
        "Nothing in it shows that some pairs are nearer than others. This is about single pairs. Groups may" in silent
    )
    assert "This is about single pairs." not in words_of(report)


def test_distances_alone_place_nobody(tmp_path: Path) -> None:
    report = report_of(release_folder(tmp_path / "release", "noisy-distances"))
    assert (report.segments, report.map) == (None, None)
    assert words_of(report).count("gives nobody a position") == 3
    assert report.to_dict()["structure"] is None
    assert report.to_dict()["segments"] is None
    assert report.distances is not None
    assert len(report.distances.values) == 30 * 29 / 2


@pytest.mark.parametrize("mechanism", ["counting+laplace", "randomized-response", "noisy-distances"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_few_people(n: int, mechanism: str, tmp_path: Path) -> None:
    report = report_of(release_folder(tmp_path / "release", mechanism, n))
    said = words_of(report)
    assert ("There are no two people to compare." in said) == (n == 1)
    assert ("There are too few pairs to say how distances differ." in said) == (n > 1)
    json.dumps(report.to_dict(), allow_nan=False)


def test_saturated_people_are_left_out(tmp_path: Path) -> None:
    plan = plan_of("hashing+laplace")
    values = np.array(people(plan).values)
    values[:4, 0] = np.iinfo(np.int16).max
    report = report_of(write(tmp_path / "some", Sketches(plan, np.arange(30), values)))
    assert (report.sample.looked_at, report.sample.saturated) == (30, 4)
    assert "4 of them have a saturated number" in words_of(report)
    values[:, 0] = np.iinfo(np.int16).max
    report = report_of(write(tmp_path / "all", Sketches(plan, np.arange(30), values)))
    assert (report.distances, report.segments) == (None, None)
    assert "fewer than two people with numbers that are not saturated" in words_of(report)


def test_of_many_people_some_are_looked_at(grouped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_sample, "_MOST", 100)
    monkeypatch.setattr(report_sample, "_RUNS", 10)
    report = report_of(grouped, count=3)
    assert report.sample.looked_at == 100
    assert (
        "Structure and segments are of everybody; for the rest it looked at 100 of 400 people, evenly spaced."
        in words_of(report)
    )
    whole = open_release(grouped).values
    np.testing.assert_array_equal(report.sample.release.values, whole.reshape(10, 40, -1)[:, :10].reshape(100, -1))


def test_wide_releases_are_looked_at_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_sample, "_WORK", 100 * 12)
    monkeypatch.setattr(report_sample, "_FEWEST", 5)
    path = release_folder(tmp_path / "release", "randomized-response")
    assert report_of(path).sample.looked_at == 5
    monkeypatch.setattr(report_sample, "WIDEST", 10)
    monkeypatch.setattr(report_sample, "_DIRECTIONS", 1)
    assert report_of(path).sample.looked_at == 12


def test_whoever_watches_is_told(grouped: Path) -> None:
    class Watch:
        def __init__(self) -> None:
            self.phases: list[str] = []
            self.total = self.done = 0

        def phase(self, name: str) -> None:
            self.phases.append(name)

        def start(self, n_users: int) -> None:
            self.total = n_users

        def advance(self, n_users: int) -> None:
            self.done += n_users

    watch = Watch()
    report_of(grouped, count=2, progress=watch)
    assert watch.phases == ["reading", "estimating distances", "looking for structure"]
    assert (watch.total, watch.done) == (400, 400)


def changed(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change a manifest and seal it again, as somebody might who knows how."""
    file = path / "manifest.json"
    fields = json.loads(file.read_text(encoding="utf-8"))
    fields.pop("release")
    change(fields)
    file.chmod(0o600)
    file.write_text(json.dumps(fields | {"release": release_id(fields)}), encoding="utf-8")


def test_words_that_are_not_the_plans_are_not_repeated(tmp_path: Path) -> None:
    path = release_folder(tmp_path / "release")
    changed(path, lambda fields: fields.update(guarantee=["Nobody can learn anything."]))
    said = words_of(report_of(path))
    assert "Nobody can learn anything" not in said
    assert "The manifest does not hold the words that belong to its plan." in said


def test_an_earlier_wording_of_the_promise_is_no_change() -> None:
    report = report_of(Path(__file__).parents[3] / "golden" / "format-1-randomized-response")
    assert report.manifest.guarantee != tuple(report.manifest.promise.splitlines())
    assert "Something was changed" not in words_of(report)


def test_a_release_for_tests_promises_nothing(tmp_path: Path) -> None:
    report = report_of(write(tmp_path / "release", people(plan_of("counting+laplace"), words=Recorded(0))))
    said = words_of(report)
    assert "Warning. NOT PRIVATE" in said
    assert "What is promised Nothing." in said
    assert "becomes at most" not in said
    assert report.to_dict()["promise"] == []
    assert report.to_dict()["private"] is False
    assert "Give this release to nobody" in said


def test_names_are_text_and_not_tags(tmp_path: Path) -> None:
    path = write(tmp_path / "release", people(plan_of("counting+laplace")), ledger="<b>visits</b> & “more”")
    text = page_of(report_of(path))
    assert "<b>visits" not in text
    assert "<b>visits</b> & “more”" in Page(text).text
    assert "Nobody adds up" not in text


def test_values_and_columns(tmp_path: Path) -> None:
    values = write(tmp_path / "values", people(plan_of("counting+laplace", resolution=4, dtype="int32")))
    assert "from 0 to 1, in steps of 1/4" in words_of(report_of(values))
    columns = write(tmp_path / "columns", people(plan_of("hashing+laplace", unit="column")))
    said = words_of(report_of(columns))
    assert "one column of one person" in said
    assert "Columns at once" in said


def test_pictures_are_left_out_where_they_would_be_too_much(tmp_path: Path) -> None:
    table = np.random.default_rng(0).random((40, 2000)) < 0.5
    plan = Plan.of("randomized-response", Budget(8.0), n_attributes=2000)
    report = report_of(write(tmp_path / "release", publish_matrix(table, plan)))
    assert len(report.rungs) > 12
    ids = Page(page_of(report)).all_of("id")
    assert "ladder-title" not in ids
    assert "curve-title" in ids


def profiles_of(release: str, sizes: Any, counts: Any) -> Profiles:
    plan = SurveyPlan.of(Budget(1.0), ["profiles"], release=release)
    names = tuple(f"<i>{name}</i>" for name in ("tea", "rye", "oat"))
    return Profiles(plan=plan, attributes=names, sizes=np.array(sizes), counts=np.array(counts), spread=(-3, 3))


def test_the_first_screen_says_what_it_is_what_is_in_it_and_what_to_rely_on(thirds: Report) -> None:
    words = words_of(thirds)
    short = words[words.index("In short") : words.index("Random pairs")]
    for text in (
        "400 people, each with 64 numbers",
        "3 segments of people",
        "is not in this release. It can be counted for a small further ε (dimly survey --by)",
        "Segments: stability",
        "Single pairs of people:",
    ):
        assert text in short
    assert "“<” marks" not in words  # one count was asked for


def test_profiles_name_what_each_segment_is_like(grouped: Path, thirds: Report) -> None:
    assert thirds.segments is not None
    sizes = thirds.segments.sizes
    counts = [[sizes[0], 5, 5], [2, sizes[1] // 2, 4], [0, 3, 6]]
    told = profiles_of(thirds.manifest.release, sizes, counts)
    report = report_of(grouped, count=3, profiles=told)
    half = 100 * (sizes[1] // 2) / sizes[1]
    others = 100 * 8 / (sizes[0] + sizes[2])
    assert report.traits == [
        "<i>tea</i> (100 %, others 1 %)",
        f"<i>rye</i> ({half:.0f} %, others {others:.0f} %)",
        "nothing beyond noise",
    ]
    said = report.to_dict()["segments"]
    assert said["traits"] == report.traits
    words = words_of(report)
    assert words.index("<i>tea</i> (100 %") < words.index("Contents")
    assert "<i>tea" not in page_of(report)  # escaped
    assert "is not in this release" not in words


def test_profiles_of_as_many_segments_are_found(grouped: Path, thirds: Report) -> None:
    assert thirds.segments is not None
    told = profiles_of(thirds.manifest.release, thirds.segments.sizes, np.zeros((3, 3), int))
    assert report_of(grouped, profiles=told).traits == ["nothing beyond noise"] * 3
    with pytest.raises(ParameterError, match="profiles must be of the segments of this report, got 2 segments"):
        report_of(grouped, profiles=profiles_of(thirds.manifest.release, [399, 1], np.zeros((2, 3), int)))
    with pytest.raises(ParameterError, match="profiles must be of segments of this release, got those of another"):
        report_of(grouped, profiles=profiles_of("ab" * 32, thirds.segments.sizes, np.zeros((3, 3), int)))


def test_a_report_of_python_takes_a_file_of_profiles(grouped: Path, thirds: Report, tmp_path: Path) -> None:
    assert thirds.segments is not None
    path = tmp_path / "profiles.parquet"
    told = profiles_of(thirds.manifest.release, thirds.segments.sizes, [[100, 0, 0], [0, 100, 0], [0, 0, 100]])
    path.write_bytes(told.content())
    open_release(grouped).report(tmp_path / "file.html", count=3, profiles=path)
    open_release(grouped).report(tmp_path / "same.html", count=3, profiles=told)
    assert (tmp_path / "file.html").read_text() == (tmp_path / "same.html").read_text()


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="must be a release folder"):
        report_of(tmp_path)
    with pytest.raises(ParameterError, match="count must be"):
        report_of(release_folder(tmp_path / "release"), count=31)
