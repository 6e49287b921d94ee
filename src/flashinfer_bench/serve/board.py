"""The pages of `report html`, kept up to date while somebody looks at them.

They are written by a process of their own, with the lowest priority: answers take no longer for it, and the server
does not grow with what they show. Each viewer has a site: whoever runs the service sees the dataset, a tenant sees
what its own tasks measured.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.data import save_json_file, save_jsonl_file
from flashinfer_bench.serve.refusals import RefusedError

if TYPE_CHECKING:
    from pathlib import Path

    from flashinfer_bench.serve.service import Service

_log = logging.getLogger(__name__)
_LOOK_S = 0.1
_PAUSE_TIMES = 4
"""Writing takes a fifth of one core's time at most."""
_LEAST_PAUSE_S = 1.0
_DEADLINE_S = 300.0
_LOWEST_PRIORITY = 19
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}


@dataclass(frozen=True, slots=True)
class BoardSite:
    """One state of a viewer's pages, on disk."""

    folder: Path
    state: str


class LiveBoard:
    """The sites of a server, by viewer: a tenant's name, or None for whoever runs the service."""

    def __init__(self, service: Service, folder: Path) -> None:
        self.service = service
        self._folder = folder
        self._begun = secrets.token_hex(4)
        self._sites: dict[str | None, BoardSite] = {}
        self._faults: dict[str | None, str] = {}
        self._asked: dict[str | None, None] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def ask_for(self, viewer: str | None) -> BoardSite | None:
        """Give a viewer's site; where there is none, or it is not of now, have it written."""
        with self._changed:
            site = self._sites.get(viewer)
            if site is None or site.state != self._state(viewer):
                self._asked[viewer] = None
                self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="serve-board", daemon=True)
                self._thread.start()
        return site

    def fault(self, viewer: str | None) -> str | None:
        """Say why a site could not be written; None where it could."""
        return self._faults.get(viewer)

    def file(self, site: BoardSite, path: str) -> tuple[bytes, str]:
        """Read a file of a site, with its type; `RefusedError` where it has none of that name."""
        found = site.folder / path
        kind = _TYPES.get(found.suffix)
        with contextlib.suppress(OSError, ValueError):
            if kind is not None and found.resolve().is_relative_to(site.folder.resolve()):
                return found.read_bytes(), kind
        raise RefusedError(404, "the board has no such page; /board/index.html is its first")

    def _state(self, viewer: str | None) -> str:
        return f"{self._begun}.{self.service.changes.result_count(viewer)}"

    # Writing, in a thread of its own

    def _work(self) -> None:
        rested_s = 0.0
        while not self.service.changes.is_over:
            viewer = self._next(rests=time.monotonic() < rested_s)
            if viewer is None:
                continue
            began_s = time.monotonic()
            self._write(viewer[0])
            took_s = time.monotonic() - began_s
            rested_s = time.monotonic() + max(_LEAST_PAUSE_S, _PAUSE_TIMES * took_s)

    def _next(self, *, rests: bool) -> tuple[str | None] | None:
        """Choose whose site is written next; one who has none yet waits for no pause."""
        with self._changed:
            waiting = [each for each in self._asked if not rests or each not in self._sites]
            if not waiting:
                self._changed.wait(_LOOK_S if rests else 1.0)
                return None
            del self._asked[waiting[0]]
            return (waiting[0],)

    def _write(self, viewer: str | None) -> None:
        state = self._state(viewer)
        place = self._folder / ("all" if viewer is None else f"of-{viewer}")
        folder = place / state
        try:
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
            for old in place.iterdir():
                if viewer not in self._sites or old != self._sites[viewer].folder:
                    shutil.rmtree(old)
            roots = (
                _roots(self.service)
                if viewer is None
                else [self._own_dataset(viewer, place / "own")]
            )
            fault = self._run(viewer, roots, folder, state)
        except Exception as error:  # noqa: BLE001  # the disk may have room again, the database may come back
            _log.exception("cannot write the board")
            fault = str(error)
        if fault is None:
            self._sites[viewer] = BoardSite(folder, state)
            self._faults.pop(viewer, None)
        else:
            self._faults[viewer] = fault
        self.service.changes.tell(board_of(viewer))

    def _run(self, viewer: str | None, roots: list[Path], folder: Path, state: str) -> str | None:
        """Run `report html`; give why it failed, None where it did not."""
        title = "Live board" if viewer is None else f"Live board of {viewer}"
        command = [
            *(sys.executable, "-m", "flashinfer_bench", "report", "html", str(folder)),
            *("--live", state, "--title", title, "--log-level", "ERROR"),
            *(word for root in roots for word in ("--local", str(root))),
        ]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process.pid, _LOWEST_PRIORITY)
        until_s = time.monotonic() + _DEADLINE_S
        while True:
            try:
                _, said = process.communicate(timeout=_LOOK_S)
            except subprocess.TimeoutExpired:
                if self.service.changes.is_over or time.monotonic() > until_s:
                    process.kill()
                continue
            return None if process.returncode == 0 else said.strip()[-500:] or "it was ended"

    def _own_dataset(self, tenant: str, root: Path) -> Path:
        """Write what a tenant may see as a dataset: definitions, their workloads, and what it had measured."""
        shutil.rmtree(root, ignore_errors=True)
        definitions = self.service.trace_set.definitions
        for number, each in enumerate(definitions.values()):
            save_json_file(each, root / "definitions" / f"{number}.json")
            workloads = self.service.trace_set.workloads.get(each.name, [])
            save_jsonl_file(workloads, root / "workloads" / f"{number}.jsonl")
        numbers = {name: number for number, name in enumerate(definitions)}
        solutions: set[str] = set()
        for folder in ("solutions", "traces"):
            (root / folder).mkdir()
        for row in self.service.queue.measured_by(tenant):
            if row["solution"] not in solutions:
                file = root / "solutions" / f"{len(solutions)}.json"
                file.write_text(row["document"], encoding="utf-8")
                solutions.add(row["solution"])
            file = root / "traces" / f"{numbers[row['definition']]}.jsonl"
            with file.open("a", encoding="utf-8") as lines:
                lines.write(f"{row['trace']}\n")
        return root


def board_of(viewer: str | None) -> str:
    """Name what changes when a viewer's site was written."""
    return "board" if viewer is None else f"board of {viewer}"


def _roots(service: Service) -> list[Path]:
    found = [*service.trace_set.roots, service.trace_set.root, service.trace_set.output]
    return list(dict.fromkeys(each for each in found if each is not None and each.is_dir()))
