"""What a client says of a server that is none."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tests.commands import call


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<html>")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def pages() -> Iterator[str]:
    """Another program's server."""
    with HTTPServer(("127.0.0.1", 0), _Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("words", [("tasks",), ("contest", "board")], ids=" ".join)
def test_another_programs_server_is_named(words: tuple[str, ...], pages: str) -> None:
    done = call(*words, "--server", pages)

    assert done.returncode == 2
    assert f"error: {pages}: its answer is none of a flashinfer-bench server" in done.stderr
    assert "internal error" not in done.stderr


@pytest.mark.parametrize("url", ["http://[::1", "http://ü..x"])
def test_what_is_no_url_is_named(url: str) -> None:
    done = call("tasks", "--server", url)

    assert done.returncode == 2
    assert f"error: {url!r} is no server: give its URL" in done.stderr
