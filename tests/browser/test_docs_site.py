"""The documentation site: built strictly, opened from files, searched, and scanned with axe-core."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.marks import mostly_full

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

REPOSITORY = Path(__file__).parents[2]
NEEDED = ("mkdocs", "material", "mkdocstrings_handlers")
ASKED = ("throttled", "unaccounted_ms", "TraceSet")
VARIED = (
    "index.html",
    "evaluation.html",
    "html.html",
    "api/apply.html",
    "measurements/scores.html",
)
"""Code, tables, lists, pictures, signatures; `make test-full` scans all pages."""


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(
            f"the site's packages are missing ({', '.join(missing)}): pip install '.[docs]'"
        )
    folder = tmp_path_factory.mktemp("docs")
    done = built(REPOSITORY, folder)
    assert done.returncode == 0, done.stderr
    return folder


def built(repository: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Build as `make site` does."""
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=repository,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(params=mostly_full(["light", "dark"], "light"))
def window(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    context = browser.new_context(
        color_scheme=request.param, viewport={"width": 1280, "height": 900}
    )
    yield context.new_page()
    context.close()


def faults(window: Page, path: Path) -> list[tuple[str, str]]:
    """Everything that axe-core finds on a page, whatever its weight."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe-core")
    window.goto(path.as_uri())
    found = axe.Axe().run(window, options={"preload": False}).response["violations"]
    return [(each["id"], each["nodes"][0]["html"][:120]) for each in found]


@pytest.mark.parametrize("name", mostly_full(VARIED, "index.html", "html.html"))
def test_a_page_has_no_fault_of_accessibility(docs: Path, window: Page, name: str) -> None:
    assert faults(window, docs / name) == []


@pytest.mark.full
def test_no_page_has_a_fault_of_accessibility(docs: Path, window: Page) -> None:
    pages = sorted(docs.rglob("*.html"))

    found = {path.name: faults(window, path) for path in pages}

    assert len(pages) > 40
    assert {name: each for name, each in found.items() if each} == {}


@pytest.mark.parametrize("word", mostly_full(ASKED, "throttled"))
def test_search_works_in_a_page_that_is_opened_from_a_file(
    docs: Path, window: Page, word: str
) -> None:
    window.goto((docs / "evaluation.html").as_uri())

    window.get_by_role("textbox", name="Search").fill(word)
    first = window.locator(".md-search-result__item").first
    first.wait_for()

    assert word.lower() in first.inner_text().lower()


def test_pages_ask_for_nothing_outside_of_the_site(docs: Path, window: Page) -> None:
    asked: list[str] = []
    window.on("request", lambda request: asked.append(request.url))

    for name in ("index.html", "cli.html", "api/data.html", "measurements/index.html"):
        window.goto((docs / name).as_uri())
        window.wait_for_load_state("networkidle")

    own = (f"{docs.as_uri()}/", "data:", "about:", "blob:")
    assert [url for url in asked if not url.startswith(own)] == []


@pytest.mark.full
def test_a_link_that_leads_nowhere_fails_the_build(docs: Path, tmp_path: Path) -> None:
    shutil.copytree(REPOSITORY / "docs", tmp_path / "docs")
    for source in REPOSITORY.iterdir():
        if source.name not in {"docs", "build"}:
            (tmp_path / source.name).symlink_to(source)
    with (tmp_path / "docs" / "glossary.md").open("a", encoding="utf-8") as page:
        page.write("\n[gone](nowhere.md)\n")

    done = built(tmp_path, tmp_path / "site_of_it")

    assert docs.exists()
    assert done.returncode == 1
    assert "nowhere.md" in done.stderr
    assert done.stderr.count("WARNING") == 1
