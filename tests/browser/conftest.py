"""A real Chromium, a site made from recorded traces, and a watch over what its pages do."""

from __future__ import annotations

import functools
import http.server
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from flashinfer_bench.cli.main import cli

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

REPOSITORY = Path(__file__).parents[2]
RECORDED = [REPOSITORY / "examples" / "dataset", REPOSITORY / "docs" / "recorded"]
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def write_site(folder: Path, *roots: Path) -> Path:
    """Run the command, as a user does."""
    local = [word for root in roots for word in ("--local", str(root))]
    done = CliRunner().invoke(cli, ["report", "html", str(folder), *local, "--title", "Recorded"])
    assert done.exit_code == 0, done.output
    return folder


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_site(tmp_path_factory.mktemp("recorded") / "site", *RECORDED)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for one file: while it runs, its thread has a running event loop, and others' tests may want one."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield started
        started.close()


@dataclass
class Visitor:
    """A window on a site; what its pages say and ask for is kept."""

    page: Page
    folder: Path
    complaints: list[str]
    requests: list[str]

    def go(self, address: str = "index.html") -> Page:
        """Open a page of the site from its file."""
        self.page.goto("about:blank")  # a new fragment alone would load nothing
        self.page.goto(f"{self.folder.as_uri()}/{address}")
        self.page.wait_for_selector("html[data-ready]", state="attached")
        return self.page

    @property
    def strays(self) -> list[str]:
        """What was asked for outside the site."""
        own = (self.folder.as_uri() + "/", "data:", "about:blank")
        return [each for each in self.requests if not each.startswith(own)]


def visitor_of(browser: Browser, folder: Path, **settings: Any) -> Iterator[Visitor]:
    settings = {"viewport": {"width": 1280, "height": 900}, **settings}
    context = browser.new_context(**settings)
    visitor = Visitor(context.new_page(), folder, [], [])
    visitor.page.set_default_timeout(10_000)
    visitor.page.on("console", lambda said: visitor.complaints.append(f"{said.type}: {said.text}"))
    visitor.page.on("pageerror", lambda error: visitor.complaints.append(str(error)))
    visitor.page.on("dialog", lambda shown: visitor.complaints.append(f"dialog {shown.message}"))
    context.on("request", lambda asked: visitor.requests.append(asked.url))
    yield visitor
    context.close()
    assert visitor.complaints == []
    assert visitor.strays == []


@pytest.fixture
def visitor(browser: Browser, site: Path) -> Iterator[Visitor]:
    yield from visitor_of(browser, site)


@pytest.fixture
def narrow(browser: Browser, site: Path) -> Iterator[Visitor]:
    yield from visitor_of(browser, site, viewport={"width": 360, "height": 740})


@pytest.fixture
def in_the_dark(browser: Browser, site: Path) -> Iterator[Visitor]:
    yield from visitor_of(browser, site, color_scheme="dark")


HOSTILE = [
    "<script>window.hacked = 1</script>",
    "\"><img src=x onerror='window.hacked = 1'>",
    "../../x",
    "..",
    "CON",
    "a" * 3000,
    "A",
    "a",
    "{{ 7 * 7 }}{% raw %}",
    "größe-矩阵-🚀-\u202egnp.exe",
    "javascript:window.hacked=1",
    "with spaces & ampersands; and#hashes?and=questions%2e%2e",
]


@pytest.fixture(scope="session")
def hostile_dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset in which every name, log and source means harm."""
    root = tmp_path_factory.mktemp("hostile")
    for index, name in enumerate(HOSTILE):
        _write(root / "definitions" / "op" / f"{index}.json", _definition(name))
        _write(root / "solutions" / "who" / f"{index}.json", _solution(name, index))
        traces = [_trace(name, status, size) for size, status in enumerate(STATUSES, start=1)]
        _write(root / "traces" / "who" / "op" / f"{index}.jsonl", *traces)
        profile = {
            "model": name,
            "framework": "vLLM",
            "kernels": [{"kernel": {"definition": name}, "count": 3}],
        }
        _write(root / "profiles" / "vLLM" / f"{index}.json", profile)
    return root


STATUSES = ("PASSED", "PASSED", "INCORRECT_NUMERICAL", "RUNTIME_ERROR")
EVIL = "</pre></script><script>window.hacked = 1</script><!-- \x1b[31m\u202e"


def _definition(name: str) -> dict[str, Any]:
    tensor = {"shape": ["n"], "dtype": "float32", "description": EVIL}
    return {
        "name": name,
        "op_type": name,
        "description": name,
        "tags": [name],
        "axes": {"n": {"type": "var", "description": EVIL}},
        "inputs": {"x": tensor},
        "outputs": {EVIL: tensor},
        "reference": f"# {EVIL}\ndef run(x):\n    return x\n",
    }


def _solution(name: str, index: int) -> dict[str, Any]:
    return {
        "name": f"{name}" if index % 2 else f"{name} solved",
        "definition": name,
        "author": name,
        "description": EVIL,
        "spec": {
            "language": "python",
            "target_hardware": [EVIL],
            "entry_point": "<b>main.py::run",
            "destination_passing_style": False,
        },
        "sources": [{"path": "<b>main.py", "content": f"# {EVIL}\ndef run(x):\n    return x\n"}],
    }


def _trace(name: str, status: str, size: int) -> dict[str, Any]:
    solution = name if HOSTILE.index(name) % 2 else f"{name} solved"
    passed = status == "PASSED"
    errors = {"max_absolute_error": 0.0, "max_relative_error": 0.0}
    violations = [{"code": EVIL, "evidence": EVIL}]
    return {
        "definition": name,
        "workload": {"uuid": EVIL, "axes": {"n": size, EVIL: size}, "inputs": {}},
        "solution": solution,
        "evaluation": {
            "status": status,
            "environment": {"hardware": EVIL, "libs": {"torch": EVIL}},
            "timestamp": EVIL,
            "log": EVIL,
            "correctness": {**errors, "extra": None if passed else {"violations": violations}}
            if status in {"PASSED", "INCORRECT_NUMERICAL"}
            else None,
            "performance": {
                "latency_ms": 1.0 / size,
                "reference_latency_ms": 2.0,
                "speedup_factor": 2.0 * size,
                "bytes_moved": 1e6 * size,
                "ceilings": {"memory_gb_per_s": 10.0, EVIL: 1.0},
            }
            if passed
            else None,
            "notes": [{"code": EVIL, "evidence": EVIL}],
        },
    }


def _write(path: Path, *objects: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each) + "\n" for each in objects), encoding="utf-8")


@pytest.fixture
def visitor_to(browser: Browser) -> Iterator[Callable[[Path], Visitor]]:
    """Open a site of one's own in a window that is watched as well."""
    opened: list[Iterator[Visitor]] = []

    def visit(folder: Path) -> Visitor:
        opened.append(visitor_of(browser, folder))
        return next(opened[-1])

    yield visit
    for each in opened:
        next(each, None)


@pytest.fixture(scope="session")
def web_server(site: Path) -> Iterator[str]:
    """A plain web server over the site; its address."""
    handler = functools.partial(_Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass
