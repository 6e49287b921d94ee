"""The live board in a real browser, of a real server: results appear in pages that are open."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import call
from tests.flow.kernels import HONEST
from tests.flow.service_processes import Place, place

pytest.importorskip("uvicorn", reason="the service's extra is not installed")
pytest.importorskip("fastapi", reason="the service's extra is not installed")
pytest.importorskip("torch", reason="running solutions needs torch")

SOON_MS = 60_000


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Place]:
    with place(tmp_path) as found:
        yield found


def kernel(folder: Path, name: str) -> Path:
    file = folder / f"{name}.py"
    file.write_text(f"{HONEST}# {name}\n")
    return file


def submit(at: Place, file: Path, *options: str) -> None:
    done = call("submit", file, "--server", at.url, "--definition", "increment", *options)
    assert done.returncode == 0, done.stderr


def faults(page) -> list[tuple[str, str]]:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe-core")
    found = axe.Axe().run(page, options={"preload": False}).response["violations"]
    return [(each["id"], each["nodes"][0]["html"]) for each in found]


def opened(browser, url: str, **settings):
    context = browser.new_context(viewport={"width": 1280, "height": 900}, **settings)
    page = context.new_page()
    page.set_default_timeout(SOON_MS)
    page.complaints = []
    page.on("console", lambda said: page.complaints.append(f"{said.type}: {said.text}"))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.goto(url)
    page.wait_for_selector("html[data-ready]", state="attached")
    return page


def test_results_appear_in_an_open_page_and_disturb_nobody_who_uses_it(
    browser, here: Place, tmp_path: Path
) -> None:
    here.serve()
    for name in ("wide1", "wide2", "narrow1", "narrow2"):
        submit(here, kernel(tmp_path, name))
    page = opened(browser, f"{here.url}/board")
    page.goto(f"{here.url}/board/solutions.html")
    page.wait_for_selector("html[data-ready]", state="attached")
    page.evaluate("window.isSamePage = true")
    page.get_by_role("searchbox", name=re.compile("Filter")).first.fill("wide")
    page.locator("h1").click()  # done with typing

    submit(here, kernel(tmp_path, "wide3"))
    page.get_by_role("link", name=re.compile("^wide3_")).first.wait_for(state="visible")

    shown = page.locator("#t-solutions tbody tr:visible").all_inner_texts()
    assert page.evaluate("window.isSamePage")
    assert len(shown) == 3
    assert page.get_by_role("status").filter(has_text="Live").inner_text().startswith("Live: new")
    assert faults(page) == []

    typed = page.get_by_role("searchbox", name=re.compile("Filter")).first
    typed.focus()
    submit(here, kernel(tmp_path, "wide4"))
    page.wait_for_function(
        "async () => (await (await fetch('solutions.html')).text()).includes('wide4_')"
    )
    page.wait_for_timeout(500)
    while_typing = page.get_by_role("link", name=re.compile("^wide4_")).count()
    typed.blur()
    page.get_by_role("link", name=re.compile("^wide4_")).first.wait_for(state="visible")

    assert while_typing == 0
    page.get_by_role("link", name=re.compile("^wide3_")).first.click()
    page.wait_for_selector("html[data-ready]", state="attached")
    assert page.locator("h1").inner_text().startswith("wide3_")
    assert faults(page) == []
    assert page.complaints == []
    page.context.close()


def test_a_tenant_signs_in_with_its_token_and_sees_its_own_results_only(
    browser, here: Place, tmp_path: Path
) -> None:
    tokens = {}
    for name in ("alice", "bob"):
        tokens[name] = call("tokens", "add", name, "--store", here.store).stdout.strip()
    worker = tmp_path / "worker.token"
    worker.write_text(
        call("tokens", "add", "box", "--scopes", "worker", "--store", here.store).stdout
    )
    here.serve("--no-worker")
    here.work("--token-file", str(worker))
    pages = {
        name: opened(
            browser,
            f"{here.url}/board/solutions.html",
            http_credentials={"username": "anybody", "password": token},
        )
        for name, token in tokens.items()
    }
    own = tmp_path / "alice.token"
    own.write_text(tokens["alice"])

    submit(here, kernel(tmp_path, "hers"), "--token-file", str(own))
    pages["alice"].get_by_role("link", name=re.compile("^hers_")).first.wait_for(state="visible")
    pages["bob"].reload()

    assert pages["bob"].locator("h1").inner_text() == "Solutions"
    for address in ("index.html", "solutions.html", "leaderboard.html", "data/search.js"):
        answer = pages["bob"].request.get(f"{here.url}/board/{address}")
        assert answer.status == 200
        assert "hers" not in answer.text()
    assert pages["alice"].complaints == pages["bob"].complaints == []
    for page in pages.values():
        page.context.close()
