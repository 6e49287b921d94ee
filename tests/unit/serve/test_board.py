"""Who may see the live board, and what of it."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from flashinfer_bench.data import TraceSet
from flashinfer_bench.serve.app import make_app
from flashinfer_bench.serve.service import Service
from flashinfer_bench.serve.tokens import LOCAL, SCOPES, Scope
from tests.flow.kernels import write_dataset
from tests.loops import run_apart
from tests.unit.serve.parts import do_all, register, service, submission

app = make_app()


@pytest.fixture
def running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Service]:
    if request.config.getoption("--fast"):
        pytest.skip("a process writes the board's pages, and a thread starts it")
    monkeypatch.setenv("FIB_CACHE_PATH", str(tmp_path / "cache"))
    made = service(TraceSet.from_path(write_dataset(tmp_path / "dataset", sizes=(100,))))
    yield made
    made.close()


def get(
    running: Service, path: str, password: str | None = None, **headers: str
) -> httpx2.Response:
    app.state.service = running
    app.state.is_open = True
    if password is not None:
        headers["Authorization"] = f"Basic {base64.b64encode(f'me:{password}'.encode()).decode()}"

    async def act() -> httpx2.Response:
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get(path, headers=headers, timeout=60)

    return run_apart(act())


def evaluated(by: Service, caller: Any, name: str) -> None:
    worker = register(by)
    by.submit(submission(f"def run(x):\n    return x + 1  # {name}\n", name=name), caller)
    do_all(by, worker)


def test_the_board_shows_what_was_recorded(running: Service) -> None:
    evaluated(running, LOCAL, "first")

    led = get(running, "/board")
    page = get(running, "/board/solutions.html")

    assert (led.status_code, led.headers["Location"]) == (307, "/board/index.html")
    assert page.headers["Content-Type"].startswith("text/html")
    assert page.headers["Cache-Control"] == "no-store"
    assert "first_" in page.text
    assert "connect-src 'self'" in page.text
    assert get(running, "/board/live.js").headers["Content-Type"].startswith("text/javascript")


def test_a_browser_is_asked_for_a_token_once_one_was_made(running: Service) -> None:
    token = running.tokens.add("alice", ["read"])
    worker = running.tokens.add("box", ["worker"])

    answers = [
        get(running, f"/board/{path}", password)
        for path in ("index.html", "news", "site.css")
        for password in (None, "nobody", worker)
    ]

    assert [each.status_code for each in answers] == [401, 401, 403] * 3
    assert answers[0].headers["WWW-Authenticate"].startswith("Basic realm=")
    assert get(running, "/board/index.html", token).status_code == 200
    assert get(running, "/tasks", token).status_code == 401  # a page elsewhere must not use it
    assert get(running, "/board/index.html", Authorization=f"Bearer {token}").status_code == 200


@pytest.mark.parametrize("scope", [each for each in SCOPES if each not in {"read", "submit"}])
def test_a_token_that_may_not_read_sees_nothing(running: Service, scope: Scope) -> None:
    token = running.tokens.add("ann", [scope])

    assert {get(running, f"/board/{path}", token).status_code for path in ("news", "x.html")} == {
        403
    }


def test_a_tenant_sees_its_own_and_an_operator_all(running: Service) -> None:
    tokens = {name: running.tokens.add(name, ["submit"]) for name in ("alice", "carol")}
    admin = running.tokens.add("root", ["admin", "read"])
    for name, token in tokens.items():
        caller = running.tokens.caller(token)
        evaluated(running, caller, f"of_{name}")

    shown = {
        name: "".join(
            get(running, f"/board/{path}", token).text
            for path in ("index.html", "solutions.html", "leaderboard.html", "data/search.js")
        )
        for name, token in {**tokens, "root": admin}.items()
    }

    assert "of_alice_" in shown["alice"]
    assert "of_alice_" not in shown["carol"]
    assert "of_carol_" in shown["carol"]
    assert "carol" not in shown["alice"]
    assert "of_alice_" in shown["root"]
    assert "of_carol_" in shown["root"]


def test_the_same_code_of_two_tenants_is_each_ones_own(running: Service) -> None:
    for name in ("alice", "bob"):
        caller = running.tokens.caller(running.tokens.add(name, ["submit"]))
        evaluated(running, caller, "same")

    token = running.tokens.add("bob", ["read"])

    page = get(running, "/board/solutions.html", token).text
    assert "same_" in page
    assert "alice" not in page


@pytest.mark.parametrize(
    "path",
    [
        "nowhere.html",
        "../../../service.sqlite",
        "..%2f..%2f..%2f..%2fdataset%2fdefinitions%2fincrement.json",
        "%2fetc%2fpasswd",
        "data",
        ".flashinfer-bench-site.json",
        "%00.html",
        "x" * 5000 + ".html",
    ],
)
def test_what_is_no_page_is_refused_with_a_sentence(running: Service, path: str) -> None:
    answer = get(running, f"/board/{path}")

    assert answer.status_code == 404
    assert isinstance(answer.json()["detail"], str)
    assert len(answer.text) < 1000


def test_a_dataset_in_memory_has_no_board() -> None:
    made = service()
    try:
        answer = get(made, "/board/index.html")
    finally:
        made.close()

    assert answer.status_code == 404
    assert "in memory" in answer.json()["detail"]


def test_a_board_that_cannot_be_written_says_why(running: Service, tmp_path: Path) -> None:
    get(running, "/board")
    definition = next((tmp_path / "dataset" / "definitions").rglob("*.json"))
    definition.write_text("{")

    answer = get(running, "/board/index.html")

    assert answer.status_code == 503
    assert "the board cannot be written" in answer.json()["detail"]
    assert int(answer.headers["Retry-After"]) > 0
