"""What a person does with the pages, in a real browser, from files."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

from flashinfer_bench.report.page.names import slug
from tests.marks import mostly_full

from .conftest import visitor_of

MODEL = f"models/{slug('SGLang/meta-llama/Llama-3.1-8B')}.html"
PAGES = [
    "index.html",
    "leaderboard.html",
    "definitions.html",
    "solutions.html",
    "models.html",
    "definitions/rmsnorm_h4096.html",
    "solutions/rmsnorm_h4096_in_place.html",
    MODEL,
]
STATES = [
    "leaderboard.html#score=sol-gap&hw=NVIDIA+H200",
    "definitions/rmsnorm_h4096.html#hw=NVIDIA+H200&pin=rmsnorm_h4096_cuda",
    "solutions/rmsnorm_h4096_half.html#diff=rmsnorm_h4096_in_place",
]


def shown(page, table: str, column: int) -> list[str]:
    """The texts of a column, of rows that can be seen."""
    rows = page.locator(f"#{table} tbody tr:visible")
    return [text.strip() for text in rows.locator(f"td:nth-child({column})").all_inner_texts()]


def test_the_bar_leads_to_every_list_and_their_rows_to_what_they_name(visitor) -> None:
    page = visitor.go()

    for name in ("Leaderboard", "Definitions", "Solutions", "Models", "Overview"):
        page.get_by_role("navigation", name="Pages").get_by_role("link", name=name).click()
        assert page.locator("h1").inner_text() == name
    page.get_by_role("link", name="softmax_v128256_cpp").first.click()
    page.get_by_role("link", name="softmax_v128256", exact=True).click()

    assert page.locator("h1").inner_text() == "softmax_v128256"


@pytest.mark.parametrize("address", mostly_full(PAGES, PAGES[0], PAGES[3], PAGES[5]))
def test_every_link_of_a_page_leads_to_a_page(visitor, site: Path, address: str) -> None:
    page = visitor.go(address)

    targets = page.eval_on_selector_all("a[href]", "links => links.map(link => link.href)")

    files = {target.partition("#")[0].removeprefix(site.as_uri() + "/") for target in targets}
    assert files
    assert [each for each in files if not (site / each).is_file()] == []


def test_search_finds_by_a_part_of_a_name_and_enter_opens_the_first(visitor) -> None:
    page = visitor.go("definitions/gemm_n1024_k4096.html")

    page.keyboard.press("/")
    page.keyboard.type("norm_h4096_cu")
    page.get_by_role("option", name="rmsnorm_h4096_cuda").wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url("**/solutions/rmsnorm_h4096_cuda.html")

    assert page.locator("h1").inner_text() == "rmsnorm_h4096_cuda"


def test_search_is_walked_with_arrows_and_left_with_escape(visitor) -> None:
    page = visitor.go()
    found = page.get_by_role("listbox", name="Found").get_by_role("option")

    page.get_by_role("combobox", name="Search").fill("rmsnorm")
    found.first.wait_for()
    page.keyboard.press("ArrowDown")
    chosen = page.locator('[role="option"][aria-selected="true"]')

    assert chosen.get_attribute("id") == "hit-1"
    page.keyboard.press("Escape")
    assert found.count() == 0 or not found.first.is_visible()


def test_a_click_on_a_head_sorts_by_numbers_and_the_address_keeps_it(visitor) -> None:
    page = visitor.go("solutions.html#hw=AMD+EPYC")
    head = page.locator("#t-solutions thead th", has_text="speedup")

    head.get_by_role("button").click()
    cells = page.locator("#t-solutions tbody tr:visible td:nth-child(2)").all()
    ratios = [float(value) for value in (each.get_attribute("data-v") for each in cells) if value]

    assert len(ratios) > 1
    assert ratios == sorted(ratios, reverse=True)
    assert shown(page, "t-solutions", 2)[-1] == "-"
    assert head.get_attribute("aria-sort") == "descending"
    address = page.url.rpartition("/")[2]
    again = visitor.go(address)
    assert shown(again, "t-solutions", 1)[0] == "rope_with_cos_sin_cache_neox_style_d128_rd128_cpp"


def test_filters_leave_rows_that_have_every_word(visitor) -> None:
    page = visitor.go("solutions.html#hw=AMD+EPYC")

    page.get_by_label("Filter by name").fill("softmax cpp")
    names = shown(page, "t-solutions", 1)
    page.get_by_label("Filter by name").fill("")
    page.get_by_label("Only this author").select_option("intern")

    assert names == ["moe_routing_softmax_topk8_e128_cpp", "softmax_v128256_cpp"]
    assert len(shown(page, "t-solutions", 1)) == 3
    assert set(shown(page, "t-solutions", 4)) == {"intern"}


def test_hardware_is_shown_one_at_a_time_and_remembered(visitor) -> None:
    page = visitor.go("definitions/rmsnorm_h4096.html")

    page.get_by_label("Hardware").select_option("NVIDIA H200")
    heads = [text for text in page.locator("h2:visible").all_inner_texts() if text.startswith("On")]
    elsewhere = visitor.go("solutions/rmsnorm_h4096_cuda.html")

    assert heads == ["On NVIDIA H200"]
    assert elsewhere.get_by_label("Hardware").input_value() == "NVIDIA H200"


def test_hardware_that_a_page_has_nothing_of_is_said(visitor) -> None:
    page = visitor.go("definitions/softmax_v128256.html#hw=NVIDIA+H200")

    assert page.get_by_text("Not measured on NVIDIA H200").is_visible()


def test_back_shows_what_was_chosen_and_forward_what_came_after(visitor) -> None:
    page = visitor.go("solutions.html#hw=AMD+EPYC")
    page.get_by_label("Filter by name").fill("softmax cpp")
    before = shown(page, "t-solutions", 1)
    page.get_by_role("link", name="softmax_v128256_cpp").click()
    page.wait_for_url("**/softmax_v128256_cpp.html")

    page.go_back()
    page.wait_for_selector("html[data-ready]", state="attached")
    after = shown(page, "t-solutions", 1)
    page.go_forward()

    assert page.locator("h1").inner_text() == "softmax_v128256_cpp"
    assert after == before == ["moe_routing_softmax_topk8_e128_cpp", "softmax_v128256_cpp"]


@pytest.mark.parametrize("width", [1280, 900])
def test_a_place_that_is_linked_to_is_not_under_the_bar(browser, site: Path, width: int) -> None:
    for visitor in visitor_of(browser, site, viewport={"width": width, "height": 700}):
        page = visitor.go("definitions/rmsnorm_h4096.html")

        page.get_by_role("link", name="Workloads", exact=True).click()
        bar = page.locator("header.top").bounding_box()
        head = page.locator("#workloads").bounding_box()

        assert bar is not None
        assert head is not None
        assert head["y"] >= bar["y"] + bar["height"]


def test_a_deep_link_shows_what_it_names(visitor) -> None:
    page = visitor.go(
        "definitions/rmsnorm_h4096.html#hw=NVIDIA+H200&pin=rmsnorm_h4096_triton&q.t-NONE=x"
    )

    pressed = page.locator('button.key[aria-pressed="true"]:visible').all_inner_texts()

    assert {text.strip() for text in pressed} == {"rmsnorm_h4096_triton"}
    assert page.locator('tr.chosen:visible[data-key="rmsnorm_h4096_triton"]').count() > 1


def test_two_solutions_are_compared_side_by_side_and_linked_to(visitor) -> None:
    page = visitor.go("solutions/rmsnorm_h4096_in_place.html")

    page.get_by_label("Side by side with").select_option("rmsnorm_h4096_half")
    page.locator(".diff td.gone", has_text="hidden_states.copy_(x * scale)").wait_for()

    assert page.locator(".diff td.new", has_text="* 1.02").is_visible()
    same = page.locator(".diff tr", has_text="def run(hidden_states, weight):")
    assert same.locator(".gone, .new").count() == 0
    linked = visitor.go(page.url.rpartition("site/")[2])
    linked.locator(".diff td.new", has_text="* 1.02").wait_for()


def background(page) -> tuple[int, ...]:
    color = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return tuple(map(int, re.findall(r"\d+", color)[:3]))


def test_colours_follow_the_system_and_the_button_overrules_it(in_the_dark) -> None:
    page = in_the_dark.go()
    by_system = background(page)

    page.get_by_role("button", name="Colours").click()
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Models").click()
    page.wait_for_selector("html[data-ready]", state="attached")

    assert max(by_system) < 40
    assert min(background(page)) > 240


def test_the_keyboard_alone_goes_everywhere(visitor) -> None:
    page = visitor.go()

    page.keyboard.press("Tab")
    first = page.evaluate("document.activeElement.textContent")
    page.keyboard.press("?")
    is_open = page.locator("dialog").is_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("s")
    page.wait_for_url("**/solutions.html")
    page.wait_for_selector("html[data-ready]", state="attached")
    page.keyboard.press("f")
    page.keyboard.type("cuda")

    assert first == "Skip to content"
    assert is_open
    assert page.get_by_label("Filter by name").input_value() == "cuda"


def test_single_keys_can_be_switched_off_and_stay_off(visitor) -> None:
    page = visitor.go()
    page.locator("#keys").click()
    page.get_by_label("Use single keys").uncheck()
    page.keyboard.press("Escape")

    page.reload()
    page.wait_for_selector("html[data-ready]", state="attached")
    page.keyboard.press("?")
    is_open = page.locator("dialog").is_visible()
    page.locator("#keys").click()
    page.get_by_label("Use single keys").check()
    page.keyboard.press("Escape")
    page.keyboard.press("?")

    assert not is_open
    assert page.locator("dialog").is_visible()


@pytest.mark.parametrize("address", mostly_full(PAGES, PAGES[0], PAGES[3], PAGES[5]))
def test_a_narrow_window_needs_no_scrolling_sideways(narrow, address: str) -> None:
    page = narrow.go(address)

    wide = page.evaluate("document.documentElement.scrollWidth")

    assert wide <= 360


@pytest.mark.parametrize(
    ("scheme", "address"),
    mostly_full(
        product(("light", "dark"), (*PAGES, *STATES)),
        ("light", "index.html"),
        ("light", "definitions/rmsnorm_h4096.html"),
        ("dark", "leaderboard.html"),
    ),
)
def test_a_page_has_no_fault_of_accessibility(
    browser, site: Path, scheme: str, address: str
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe-core")
    for visitor in visitor_of(browser, site, color_scheme=scheme):
        page = visitor.go(address)
        page.wait_for_selector(".diff" if "diff=" in address else "main", state="attached")
        page.eval_on_selector_all("details", "all => all.forEach(each => { each.open = true; })")

        found = axe.Axe().run(page, options={"preload": False}).response["violations"]

        assert [(each["id"], each["nodes"][0]["html"]) for each in found] == []


def test_the_scan_sees_every_kind_of_page(site: Path) -> None:
    scanned = {kind_of(site / address) for address in PAGES}

    assert scanned == {kind_of(path) for path in site.rglob("*.html")}


def kind_of(page: Path) -> str:
    found = re.search(r'data-page="(\w+)"', page.read_text(encoding="utf-8"))
    assert found is not None
    return found[1]


@pytest.mark.parametrize("scheme", mostly_full(["light", "dark"], "light"))
def test_what_opens_over_a_page_has_no_fault_either(browser, site: Path, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe-core")
    for visitor in visitor_of(browser, site, color_scheme=scheme):
        page = visitor.go("solutions.html")
        page.keyboard.press("/")
        page.keyboard.type("rms")
        page.locator("#found li").first.wait_for()
        searching = axe.Axe().run(page, options={"preload": False}).response["violations"]
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Keyboard").click()
        helping = axe.Axe().run(page, options={"preload": False}).response["violations"]

        assert [each["id"] for each in (*searching, *helping)] == []


def test_charts_say_in_words_what_they_draw_and_their_numbers_are_a_table(visitor) -> None:
    page = visitor.go("definitions/rmsnorm_h4096.html#hw=AMD+EPYC")
    figures = page.locator("figure:visible")

    named = page.get_by_role("img", name=re.compile(r"^(Latency|fast_p|Roofline)[^.]*\. \w+"))
    lists = figures.get_by_role("list", name=re.compile(r"^(Speedup|Distribution).*rmsnorm_h4096_"))

    assert figures.count() == 5
    assert (named.count(), lists.count()) == (3, 2)
    assert all(each.locator("> desc").count() for each in named.all())
    assert figures.locator("details.numbers table").count() == 5


def test_without_scripts_everything_can_be_read(browser, site: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()

    page.goto(f"{site.as_uri()}/definitions/rmsnorm_h4096.html")

    assert page.locator("section[data-hardware]:visible").count() == 2
    assert not page.get_by_label("Search definitions").is_visible()
    context.close()


def test_a_web_server_serves_it_as_well(browser, site: Path, web_server: str) -> None:
    page = browser.new_page()
    complaints: list[str] = []
    page.on("console", lambda said: complaints.append(said.text))

    page.goto(f"{web_server}/solutions/rmsnorm_h4096_half.html#diff=rmsnorm_h4096_in_place")
    page.locator(".diff").first.wait_for()

    assert complaints == []
    page.close()


def test_solutions_that_may_be_as_fast_as_the_best_are_called_tied(visitor) -> None:
    page = visitor.go("definitions/rmsnorm_h4096.html#hw=NVIDIA+H200")
    rows = page.locator("table:visible tbody tr:visible", has=page.locator(".tag"))

    marks = dict(text.split()[:2] for text in rows.locator("td:first-child").all_inner_texts())

    assert marks == {"rmsnorm_h4096_tilelang": "best", "rmsnorm_h4096_triton": "tied"}


CLICKED_IN_A_LOW_BOX = """() => [...document.querySelectorAll("a, button, summary, select, input")]
    .filter(each => each.checkVisibility() && each.getBoundingClientRect().height < 24)
    .map(each => each.outerHTML)"""
SMALL_TEXT = """() => [...document.querySelectorAll("body *")]
    .filter(each => [...each.childNodes].some(node => node.nodeType === 3 && node.data.trim()))
    .filter(each => each.checkVisibility() && parseFloat(getComputedStyle(each).fontSize) < 12)
    .map(each => each.outerHTML)"""


@pytest.mark.parametrize("address", mostly_full(PAGES, PAGES[0], PAGES[5]))
def test_what_is_clicked_is_24_pixels_high_and_no_letter_is_smaller_than_12(
    visitor, address: str
) -> None:
    page = visitor.go(address)
    page.eval_on_selector_all("details", "all => all.forEach(each => { each.open = true; })")

    assert page.evaluate(CLICKED_IN_A_LOW_BOX) == []
    assert page.evaluate(SMALL_TEXT) == []


def test_links_look_like_links(visitor) -> None:
    page = visitor.go("index.html")
    style = page.locator("td a").first.evaluate(
        "each => [getComputedStyle(each).textDecorationLine, getComputedStyle(each).color]"
    )

    assert style[0] == "underline"
    assert style[1] != page.evaluate("() => getComputedStyle(document.body).color")


def test_a_narrow_window_shows_the_speedup_without_scrolling(narrow) -> None:
    page = narrow.go("index.html")
    head = page.locator("table th", has_text="speedup").first.bounding_box()

    assert head["x"] + head["width"] <= 360
