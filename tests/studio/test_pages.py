"""The pages as a person meets them: one server and one Chromium for all of these tests."""

import re
import shlex
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from tests.cli.lines import answer, run
from tests.studio.browser import ARGUMENTS, PATIENCE, Served, chromium, opened, saved, served, visit

from dimly.api import publish, survey
from dimly.curator.ledger.ledger import Ledger
from dimly.errors import PrivacyWarning
from dimly.mechanisms import Plan
from dimly.privacy import Budget
from dimly.release.documents.survey_file import Survey

pytestmark = [
    pytest.mark.skipif(chromium() is None, reason="needs Chromium: apt install chromium, or another package of it"),
    pytest.mark.xdist_group("studio"),
]

N_PEOPLE = 20_000
EVIL = "<script>window.hacked=1</script>"
EVIL_NAME = "<img src=x onerror=window.hacked=1>"


def people_table(n: int, seed: int) -> tuple[scipy.sparse.csr_array, Any]:
    """Return people of three groups with 14 of 120 attributes each, and their groups."""
    chance = np.random.default_rng(seed)
    groups = chance.integers(3, size=n)
    own = 40 * groups[:, None] + np.argsort(chance.random((n, 40)), axis=1)[:, :10]
    anybody = (own[:, :1] + 41 + np.argsort(chance.random((n, 39)), axis=1)[:, :4]) % 120
    columns = np.sort(np.concatenate([own, anybody], axis=1), axis=1)
    table = scipy.sparse.lil_array((n, 120), dtype=np.int8)
    table.rows[:] = [np.unique(row).tolist() for row in columns]
    table.data[:] = [[1] * len(row) for row in table.rows]
    return scipy.sparse.csr_array(table), groups


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make releases and a ledger: one of 20,000 people, and one whose names are traps."""
    root = tmp_path_factory.mktemp("studio")
    ledger = Ledger.create(root / "ledger.db")
    ledger.add_dataset("purchases", epsilon=6.0)
    ledger.add_dataset(EVIL_NAME, epsilon=1.0)
    table, groups = people_table(N_PEOPLE, 0)
    names = [f"product {i}" for i in range(119)] + [EVIL]
    options: dict[str, Any] = {"ledger": root / "ledger.db", "dataset": "purchases", "attributes": names}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # there is no list of people
        publish(table, Plan.of("counting+laplace", Budget(4.0), k=48), out=root / "many", recipient=EVIL, **options)
        for name in ("some", "same"):
            publish(table[:300], Plan.of("counting+laplace", Budget(4.0), k=32), out=root / name, attributes=names)
        few = [f"{EVIL}{i}" for i in range(300)]
        vocabulary = Plan.of("counting+laplace", Budget(1.0), k=32, vocabulary=names)
        publish(table[:300], vocabulary, out=root / EVIL_NAME, users=few, **options)
    lines = "".join(f"{i},{'abc'[group]}\n" for i, group in enumerate(groups.tolist()))
    (root / "regions.csv").write_text(f"customer,{EVIL}\n" + lines, encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def studio(folder: Path) -> Iterator[Served]:
    with served(folder / "many", folder / EVIL_NAME, "--ledger", folder / "ledger.db") as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium(), args=list(ARGUMENTS))
        yield found
        found.close()


@pytest.fixture
def look(browser: Any, studio: Served) -> Iterator[Any]:
    """Open tabs; whatever they asked for came from the studio itself, and no trap was run."""
    pages: list[Any] = []

    def tab(path: str = "/", **options: Any) -> Any:
        pages.append(opened(browser, studio, path=path, **options))
        return pages[-1]

    yield tab
    for page in pages:
        assert page.evaluate("window.hacked") is None
        page.context.close()
    outside = [one for one in studio.requests if not one.startswith((studio.origin + "/", "data:", "blob:"))]
    assert len(studio.requests) > 10
    assert not outside


def verdict(page: Any, words: str) -> None:
    """Wait until the page says so."""
    page.locator("[role=status] .head", has_text=words).wait_for()


def middle_of(place: Any) -> tuple[float, float]:
    """Return the middle of an element, on the screen."""
    place.scroll_into_view_if_needed()
    box = place.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_a_page_without_the_token_is_refused(studio: Served, browser: Any) -> None:
    assert studio.status("/") == 403
    assert studio.status("/?token=guessed") == 403
    assert studio.status("/explore") == 403
    assert studio.status("/studio/map/x/points") == 403
    token = studio.address.partition("token=")[2]
    assert studio.status(f"/?token={token}", Host="evil.example") == 403
    assert studio.status(f"/?token={token}", Origin="http://evil.example") == 403
    cookie = f"dimly-studio-{studio.origin.rpartition(':')[2]}={token}"
    assert studio.status("/", Cookie=cookie) == 200
    assert studio.status("/", Cookie=cookie + "x") == 403
    context = browser.new_context()
    page = context.new_page()
    page.goto(studio.origin + "/explore")
    assert "needs the token" in page.inner_text("body")
    context.close()


def test_a_plan_is_found_saved_and_published_by(look: Any, tmp_path: Path) -> None:
    page = look()
    verdict(page, "it depends on the people")
    assert "token" not in page.url
    page.get_by_label("epsilon", exact=True).fill("2.6")
    verdict(page, "This plan should work well")
    page.get_by_text("The best guess was right in").wait_for()
    page.get_by_text("of how they differ on the left still shows").wait_for()
    learned = page.locator("section:has-text('What somebody could learn about a person')").inner_text()
    for words in ("one attribute\n50 % → 93.1 %", "2 together\n50 % → 99.5 %", "5 together", "10 together\nno promise"):
        assert words in learned
    with page.expect_download() as download:
        page.get_by_role("button", name="Save plan.json").click()
    path = saved(download.value, tmp_path)
    plan = Plan.from_json(path.read_text(encoding="utf-8"))
    assert plan.cost.epsilon == 2.6
    assert page.get_by_text(plan.digest).count() == 1
    # The command on the page makes the very same plan.
    command = page.locator(".command").first.inner_text()
    again = answer(*shlex.split(command)[1:-2])
    assert again["digest"] == plan.digest
    rows = "".join(f"{person},product {(7 * person + i) % 50}\n" for person in range(30) for i in range(9))
    (tmp_path / "table.csv").write_text("person,product\n" + rows, encoding="utf-8")
    line = ("publish", tmp_path / "table.csv", "--plan", path, "--user", "person", "--attribute", "product")
    assert run(*line, "--out", tmp_path / "release").exit_code == 0
    assert answer("verify", tmp_path / "release")["users"] == 30


@pytest.mark.thorough
def test_the_error_that_is_acceptable_sets_epsilon(look: Any) -> None:
    page = look()
    verdict(page, "it depends on the people")
    page.get_by_label("acceptable error", exact=True).fill("15")
    verdict(page, "This plan should work well")
    epsilon = float(page.get_by_label("epsilon", exact=True).input_value())
    assert 2 < epsilon < 4
    # And by the keyboard alone.
    page.locator("[data-testid=epsilon-slider] [tabindex='0']").focus()
    for _ in range(60):  # a busy browser takes several presses for one
        for _ in range(10):
            page.keyboard.press("ArrowLeft")
        page.wait_for_timeout(200)
        if float(page.get_by_label("epsilon", exact=True).input_value()) < 0.1:
            break
    verdict(page, "This plan would show little but noise")
    assert float(page.get_by_label("epsilon", exact=True).input_value()) < epsilon
    assert page.get_by_role("button", name="Save plan.json all the same").is_visible()


def test_what_cannot_be_planned_is_a_sentence(look: Any) -> None:
    page = look()
    verdict(page, "it depends on the people")
    page.get_by_label("How many of them does a typical person have?").fill("20000")
    page.get_by_text("This cannot be planned as it is stated").wait_for()
    assert page.get_by_role("button", name="Save plan.json").count() == 0


@pytest.mark.thorough
def test_two_tabs_have_drafts_of_their_own_which_outlive_a_page(look: Any) -> None:
    first, second = look(), look()
    for page, epsilon in ((first, "3"), (second, "0.2")):
        verdict(page, "it depends on the people")
        page.get_by_label("epsilon", exact=True).fill(epsilon)
    verdict(first, "This plan should work well")
    verdict(second, "This plan would show little but noise")
    first.get_by_role("link", name="Ledger", exact=True).click()
    first.get_by_role("button", name="Try the plan of the Plan page").click()
    first.get_by_text("It does not fit").wait_for()
    first.get_by_role("link", name="Plan", exact=True).click()
    verdict(first, "This plan should work well")
    assert first.get_by_label("epsilon", exact=True).input_value() == "3"


def test_a_release_of_many_is_explored(look: Any, folder: Path, tmp_path: Path) -> None:
    page = look("/explore")
    page.locator(f"[data-drawn='{N_PEOPLE}']").wait_for()
    canvas = page.locator("canvas[role=application]")
    page.mouse.click(*middle_of(canvas))
    page.locator("[data-testid=asked]").wait_for()
    rows = page.locator("section:has-text('One person') tbody tr")
    assert rows.count() == 10
    page.get_by_label("Id of a person").fill("17")
    page.get_by_role("button", name="Find").click()
    page.get_by_text("Nearest to 17", exact=True).wait_for()
    page.get_by_label("Id of a person").fill("nobody")
    page.get_by_role("button", name="Find").click()
    page.get_by_text("Nobody in this release has that id.").wait_for()
    # By the keyboard: whoever is in the middle of the map.
    canvas.focus()
    page.keyboard.press("+")
    page.keyboard.press("Enter")
    page.locator("[data-testid=asked]").wait_for()
    page.get_by_role("button", name="Draw around a group").click()
    page.locator("canvas[data-mode=lasso]").wait_for()  # until the studio has answered, a drag moves the map
    middle = middle_of(canvas)  # the page may have moved since
    corners = [(-140, -90), (140, -90), (140, 90), (-140, 90), (-140, -80)]
    page.mouse.move(middle[0] + corners[0][0], middle[1] + corners[0][1])
    page.mouse.down()
    for x, y in corners[1:]:
        page.mouse.move(middle[0] + x, middle[1] + y, steps=4)
    page.mouse.up()
    size = page.locator("[data-testid=group-size]").inner_text()
    count = int(re.sub(r"\D", "", size))
    assert 0 < count < N_PEOPLE
    with page.expect_download() as download:
        page.get_by_role("button", name="Save their ids").click()
    ids = saved(download.value, tmp_path).read_text(encoding="utf-8").splitlines()
    assert ids[0] == "user"
    assert len(set(ids)) == count + 1
    assert all(0 <= int(one) < N_PEOPLE for one in ids[1:])


def test_a_graphics_card_draws_the_map_that_is_drawn_without_one(look: Any) -> None:
    painted = []
    for renderer in ("canvas", "webgl"):
        page = look("/explore")
        if renderer == "webgl":  # WebGL in software, whose name the page is not told, passes for a card
            page.add_init_script(
                "const all = WebGLRenderingContext.prototype.getExtension;"
                "WebGLRenderingContext.prototype.getExtension = function (name) {"
                "  return name === 'WEBGL_debug_renderer_info' ? null : all.call(this, name); };"
            )
            page.reload()
        page.locator(f"[data-drawn='{N_PEOPLE}'][data-renderer={renderer}]").wait_for()
        painted.append(
            page.evaluate(
                """() => {
                  const map = document.querySelector("canvas"), copy = document.createElement("canvas");
                  const w = copy.width = map.width, h = copy.height = map.height, sums = new Array(32 * 24).fill(0);
                  const pen = copy.getContext("2d");
                  pen.drawImage(map, 0, 0);
                  const pixels = pen.getImageData(0, 0, w, h).data;
                  for (let y = 0; y < h; y++) for (let x = 0; x < w; x++)
                    sums[Math.floor(y * 24 / h) * 32 + Math.floor(x * 32 / w)] += pixels[4 * (y * w + x) + 3];
                  return sums;
                }"""
            )
        )
    assert np.corrcoef(painted)[0, 1] > 0.9  # where there are how many


def test_people_are_colored_by_groups_attributes_and_public_columns(look: Any, folder: Path, tmp_path: Path) -> None:
    page = look("/explore")
    page.locator(f"[data-drawn='{N_PEOPLE}']").wait_for()
    save = page.get_by_role("button", name="Save everybody's group")
    of_before = save.element_handle()  # "auto" may have found three groups, too
    page.get_by_label("How many groups").click()
    page.get_by_role("option", name="3", exact=True).click()
    of_before.wait_for_element_state("hidden")
    page.get_by_text(re.compile(r"^group 2: ")).wait_for()
    page.get_by_text(re.compile("^3 (stable )?groups")).wait_for()
    with page.expect_download() as download:
        save.click()
    header, *rows = saved(download.value, tmp_path).read_text(encoding="utf-8").splitlines()
    assert header == "user,segment"
    assert {int(row.split(",")[1]) for row in rows} - {-1} == {0, 1, 2}
    for by, then in (("an attribute", "Attribute, or several"), ("a public column of your own", "")):
        page.get_by_label("Color by").click()
        page.get_by_role("option", name=by).click()
        if then:
            page.get_by_label(then).fill("product 3")
            page.keyboard.press("Enter")
            page.get_by_text("estimated for product 3").wait_for()
        else:
            page.locator("input[type=file]").first.set_input_files(folder / "regions.csv")
            page.get_by_text(f"{N_PEOPLE:,} of {N_PEOPLE:,} people have a value").wait_for()
            assert page.get_by_text("a", exact=True).count() >= 1


@pytest.mark.thorough
def test_two_releases_are_compared(look: Any, folder: Path) -> None:
    page = look("/explore")
    for name in ("some", "same"):
        page.get_by_label("Open a release folder: its path").fill(str(folder / name))
        page.get_by_role("button", name="Open").click()
        page.locator(".q-select", has_text=name).wait_for()
    page.locator("[data-drawn='300']").wait_for()
    page.get_by_label("The other release").click()
    page.locator(".q-menu .q-item", has_text="some").click()
    page.get_by_text("300 people are in both").wait_for(timeout=4 * PATIENCE)  # groups of both are looked for
    page.get_by_text("privacy losses add up").wait_for()


@pytest.mark.thorough
def test_a_survey_takes_the_place_of_what_was_typed(look: Any, tmp_path: Path) -> None:
    people = np.random.default_rng(0).random((4_000, 60)) < 0.2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # no ledger counts it
        found = survey(people, Budget(1.0))
    assert isinstance(found, Survey)
    (tmp_path / "asked.json").write_text(found.to_json(), encoding="utf-8")
    (tmp_path / "list.txt").write_text("".join(f"{i}\n" for i in range(60)))
    page = look()
    page.get_by_text("More settings").click()
    upload = page.locator(".q-uploader", has_text="Survey").locator("input")
    upload.set_input_files(tmp_path / "list.txt")
    page.get_by_text("survey must be a file made by dimly survey").wait_for()
    visit(page, page.url)
    page.get_by_text("More settings").click()
    page.locator(".q-uploader", has_text="Survey").locator("input").set_input_files(tmp_path / "asked.json")
    page.get_by_text("From the survey: ").wait_for()
    assert page.locator("[data-testid=weight]").input_value() == ""
    page.locator(".q-uploader", has_text="List of attributes").locator("input").set_input_files(tmp_path / "list.txt")
    page.locator(".command", has_text="--vocabulary list.txt --survey asked.json").wait_for()
    page.locator(".command", has_text="--out release --vocabulary list.txt").wait_for()


def test_names_that_are_traps_stay_texts(look: Any) -> None:
    page = look("/release")
    page.get_by_label("Release").first.click()
    page.get_by_role("option", name=EVIL_NAME).click()
    page.locator(".big", has_text=re.compile("^300$")).wait_for()  # all else may be there already, of the other one
    page.get_by_text("attributes on average").wait_for()
    page.get_by_role("button", name="Verify").click()
    page.get_by_text("Everything that can be checked is in order").wait_for()
    visit(page, page.url.replace("/release", "/explore"))
    page.locator(f"[data-drawn='{N_PEOPLE}']").wait_for()
    page.get_by_label("Release").first.click()
    page.get_by_role("option", name=EVIL_NAME).click()
    page.locator("[data-drawn='300']").wait_for()
    page.get_by_label("Id of a person").fill(f"{EVIL}7")
    page.keyboard.press("Enter")
    page.get_by_text(f"Nearest to {EVIL}7").wait_for()
    page.get_by_label("Color by").click()
    page.get_by_role("option", name="an attribute").click()
    page.get_by_label("Attribute, or several").fill(EVIL)
    page.keyboard.press("Enter")
    page.get_by_text(f"estimated for {EVIL}").wait_for()
    visit(page, page.url.replace("/explore", "/ledger"))
    page.get_by_text(EVIL, exact=True).first.wait_for()
    assert page.get_by_role("cell", name="release", exact=True).count() >= 1  # of which kind a charge is
    assert page.get_by_text(EVIL_NAME, exact=True).count() >= 1
    assert page.evaluate("window.hacked") is None
    assert page.locator("main script, main img[src='x']").count() == 0


def test_a_release_that_vanishes_or_is_not_whole_is_a_sentence(look: Any, folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder / EVIL_NAME, copy)
    page = look("/release")
    place = page.get_by_label("Open a release folder: its path")
    place.fill(str(copy))
    page.get_by_role("button", name="Open").click()
    page.locator(".q-select", has_text="copy").wait_for()  # a list that is opened before this is drawn anew, closed
    shutil.rmtree(copy)
    page.get_by_label("Release").first.click()
    page.get_by_role("option", name="many").click()
    page.get_by_text(f"{N_PEOPLE:,}", exact=True).wait_for()
    page.get_by_label("Release").first.click()
    page.get_by_role("option", name="copy").click()
    page.get_by_text("copy is no longer there").wait_for()
    for path, reason in ((copy, "there is no such folder"), (folder, "it has no manifest.json")):
        place.fill(str(path))
        page.get_by_role("button", name="Open").click()
        page.get_by_text("This folder cannot be opened as a release").wait_for()
        page.get_by_text(reason).wait_for()
    assert "Traceback" not in page.inner_text("body")


def test_every_page_fits_a_phone_and_the_dark(look: Any) -> None:
    page = look(width=390, color_scheme="dark")
    for path, words in (
        ("/", "Error you can accept"),
        ("/release", "What is promised"),
        ("/explore", "One person"),
        ("/ledger", "Would a plan still fit?"),
    ):
        visit(page, page.url.rpartition("/")[0] + path)
        page.get_by_text(words, exact=True).wait_for()
        assert page.locator("body.body--dark").count() == 1
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
    page.get_by_label("Light or dark").click()
    menu = page.locator(".q-menu", has_text="Light")
    menu.wait_for()
    assert menu.bounding_box()["width"] < 200
