"""An endpoint of chat completions: a real HTTP server whose answers are written beforehand."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class ScriptedModel:
    """What it was asked, and by whom; the last of its answers is repeated."""

    url: str
    bodies: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)


def completion(text: str) -> bytes:
    message = {"choices": [{"message": {"role": "assistant", "content": text}}]}
    return json.dumps(
        message | {"usage": {"prompt_tokens": 1000, "completion_tokens": 100}}
    ).encode()


@contextlib.contextmanager
def scripted_model(answers: Sequence[str | int]) -> Iterator[ScriptedModel]:
    """Serve answers in turn; a number is an HTTP status that refuses."""
    model = ScriptedModel("")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # the library's name
            body = self.rfile.read(int(self.headers["Content-Length"]))
            model.bodies.append(json.loads(body))
            model.keys.append(self.headers["Authorization"])
            answer = answers[min(len(model.bodies), len(answers)) - 1]
            text = f"refused: {self.headers['Authorization']}".encode()
            self.send_response(answer if isinstance(answer, int) else 200)
            self.end_headers()
            self.wfile.write(text if isinstance(answer, int) else completion(answer))

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        model.url = f"http://127.0.0.1:{server.server_port}/v1"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield model
        server.shutdown()
