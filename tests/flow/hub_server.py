"""A local server that speaks as much of the Hugging Face hub's API as pulling a dataset needs."""

from __future__ import annotations

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit


class HubServer(ThreadingHTTPServer):
    """Serves folders as revisions of one dataset repository; `main` is the last that was published."""

    def __init__(self, name: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.name = name
        self.commits: dict[str, Path] = {}
        self.refs: dict[str, str] = {}
        self.requests: list[str] = []
        self.tokens: set[str] = set()
        self.status: int | None = None
        """Answered to everything, when set."""
        self.file_status: int | None = None
        """Answered to what asks for a file, when set."""
        self.cut: str | None = None
        """Ending of the files whose second half is not sent."""
        self.strange_paths: list[str] = []
        """Paths that the repository's list of files has too."""

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def publish(self, folder: Path, ref: str = "main") -> str:
        """Make a folder's content a commit, and the ref point to it."""
        listed = "".join(f"{path.relative_to(folder)}{_oid(path)}" for path in _files(folder))
        commit = hashlib.sha1(listed.encode()).hexdigest()
        self.commits[commit] = folder
        self.refs[ref] = commit
        return commit

    def start(self) -> None:
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self.shutdown()
        self.server_close()


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _oid(path: Path) -> str:
    return hashlib.sha1(path.read_bytes()).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    server: HubServer
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:  # the base class's name
        self._respond()

    def do_GET(self) -> None:
        self._respond()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass

    def _respond(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.requests.append(f"{self.command} {path}")
        self.server.tokens.add(self.headers.get("Authorization", ""))
        name = self.server.name
        if self.server.status is not None:
            return self._send(self.server.status, b"", {})
        for prefix, answer in (
            (f"/api/datasets/{name}/revision/", self._info),
            (f"/api/datasets/{name}/tree/", self._tree),
            (f"/datasets/{name}/resolve/", self._file),
        ):
            if path.startswith(prefix):
                revision, _, rest = path.removeprefix(prefix).partition("/")
                commit = self.server.refs.get(revision, revision)
                if commit not in self.server.commits:
                    return self._refuse("RevisionNotFound")
                return answer(commit, rest)
        return self._refuse("RepoNotFound")

    def _info(self, commit: str, _: str) -> None:
        self._send_json({"id": self.server.name, "sha": commit, "siblings": []})

    def _tree(self, commit: str, _: str) -> None:
        root = self.server.commits[commit]
        listed = [(path.relative_to(root).as_posix(), path) for path in _files(root)]
        listed += [(name, _files(root)[0]) for name in self.server.strange_paths]
        self._send_json(
            [
                {"type": "file", "oid": _oid(path), "size": path.stat().st_size, "path": name}
                for name, path in listed
            ]
        )

    def _file(self, commit: str, name: str) -> None:
        root = self.server.commits[commit]
        path = _files(root)[0] if name in self.server.strange_paths else root / name
        if self.server.file_status is not None:
            return self._send(self.server.file_status, b"", {})
        if not path.is_file():
            return self._refuse("EntryNotFound")
        headers = {"X-Repo-Commit": commit, "ETag": f'"{_oid(path)}"'}
        return self._send(200, path.read_bytes(), headers)

    def _refuse(self, code: str) -> None:
        self._send(404, b"", {"X-Error-Code": code, "X-Error-Message": code})

    def _send_json(self, content: object) -> None:
        self._send(200, json.dumps(content).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        is_cut = self.server.cut is not None and self.path.endswith(self.server.cut)
        if self.command == "GET":
            self.wfile.write(body[: len(body) // 2] if is_cut else body)
            self.close_connection = is_cut
