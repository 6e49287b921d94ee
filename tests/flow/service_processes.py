"""Servers and workers as people start them: processes of their own, on free ports."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from flashinfer_bench.data import Solution
from flashinfer_bench.serve.client import ServiceClient
from tests.flow.kernels import HONEST, solution, write_dataset

QUICK = (
    *("--warmup-runs", "1", "--iterations", "5", "--num-trials", "1", "--threads", "1"),
    *("--device", "cpu"),
)
START_S = 60.0


@dataclass
class Place:
    """A dataset, a store, and the processes that were started on them."""

    folder: Path
    sizes: tuple[int, ...] = (100, 200)
    url: str = ""
    database: str = ""
    """The store, where it is no file of this folder."""
    given: Path | None = None
    """The dataset, where it is another than one of tiny jobs."""
    settings: tuple[str, ...] = QUICK
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.given is None:
            write_dataset(self.dataset, sizes=self.sizes)

    @property
    def dataset(self) -> Path:
        return self.given or self.folder / "dataset"

    @property
    def store(self) -> str:
        return self.database or str(self.folder / "store.sqlite")

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command; what it says on stderr goes to a file."""
        log = (self.folder / f"{words[0]}-{len(self.processes)}.log").open("w")
        with log:
            process = subprocess.Popen(
                [sys.executable, "-m", "flashinfer_bench", *words],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "FIB_CACHE_PATH": str(self.folder / "cache")},
            )
        self.processes.append(process)
        return process

    def serve(self, *options: str, port: int = 0) -> subprocess.Popen[str]:
        """Start a server and wait until it answers."""
        process = self.start(
            *("serve", "--local", str(self.dataset), "--store", self.store),
            *("--port", str(port or self.port or 0), *self.settings, *options),
        )
        assert process.stdout is not None
        line = process.stdout.readline()
        assert " at http" in line, self.logs()
        self.url = line.rpartition(" ")[2].strip()
        return process

    @property
    def port(self) -> int:
        """Where the last server was: the next one comes to the same place."""
        return int(self.url.rpartition(":")[2]) if self.url else 0

    def work(self, *options: str) -> subprocess.Popen[str]:
        """Start a worker."""
        return self.start("worker", "--server", self.url, "--device", "cpu", *options)

    def client(self, token: str | None = None) -> ServiceClient:
        return ServiceClient(self.url, token)

    def recorded(self) -> list[dict[str, object]]:
        """Every trace line on disk; each is whole."""
        files = sorted((self.dataset / "traces").rglob("*.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def keys(self) -> list[tuple[str, int]]:
        return sorted(
            (str(line["solution"]), line["workload"]["axes"]["n"])  # type: ignore[index]
            for line in self.recorded()
        )

    def logs(self) -> str:
        return "\n".join(file.read_text() for file in sorted(self.folder.glob("*.log")))

    def end(self) -> None:
        """End everything, and what they started."""
        for process in self.processes:
            for each in (process.pid, *(child.pid for child in children(process.pid))):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


@contextlib.contextmanager
def place(folder: Path, **options: object) -> Iterator[Place]:
    """A place that is left without processes."""
    found = Place(folder, **options)  # type: ignore[arg-type]
    try:
        yield found
    finally:
        found.end()


def children(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).children(recursive=True)
    return []


def own_worker(server: subprocess.Popen[str]) -> psutil.Process | None:
    """The worker that a server started itself."""
    found = (each for each in children(server.pid) if "worker" in _command_line(each))
    return next(found, None)


def _command_line(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        return process.cmdline()
    return []


def kill(process: subprocess.Popen[str] | psutil.Process | None) -> None:
    """As `kill -9`."""
    if process is not None:
        with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
            os.kill(process.pid, signal.SIGKILL)
        with contextlib.suppress(psutil.NoSuchProcess):
            process.wait()


def honest(name: str) -> Solution:
    return solution(f"{HONEST}# {name}\n", name=name)
