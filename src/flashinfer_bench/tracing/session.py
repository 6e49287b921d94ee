"""What `flashinfer-bench trace` and the programs it runs tell each other, in files of one folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from flashinfer_bench.data import settings
from flashinfer_bench.data.files import write_whole

if TYPE_CHECKING:
    from pathlib import Path

_REQUEST = "session.json"
_STARTUP = '''"""Put on the path by `flashinfer-bench trace`: Python runs it at its start."""

import pathlib
import sys

_FOLDER = pathlib.Path(__file__).resolve().parent
_THIS = sys.modules.pop("sitecustomize")
_PATH = sys.path[:]
sys.path[:] = [each for each in _PATH if pathlib.Path(each or ".").resolve() != _FOLDER]
try:
    import sitecustomize  # the one that this file hides
except ModuleNotFoundError as error:
    if error.name != "sitecustomize":
        raise
    sys.modules["sitecustomize"] = _THIS
finally:
    sys.path[:] = _PATH

try:
    from flashinfer_bench.tracing.child import begin
except ImportError as error:
    (_FOLDER / "failed.txt").write_text(f"{sys.executable} cannot import flashinfer_bench: {error}")
else:
    begin()
'''


class TracingRequest(msgspec.Struct, frozen=True):
    """What a program's calls are recorded for."""

    dataset: str
    adapters: list[str] = []
    """Python files that register adapters."""
    filter_policy: str | None = None
    """None: the presets."""
    filter_policy_kwargs: dict[str, int] = {}
    input_dump_policy: str | list[str] = "dump_int"


class Use(msgspec.Struct, frozen=True):
    """How often a definition was called at one set of sizes."""

    definition: str
    axes: dict[str, int]
    count: int


class Report(msgspec.Struct, frozen=True):
    """What one process recorded."""

    uses: list[Use]
    unknown: dict[str, int]
    """Calls that fit no definition, by name and reason."""
    workloads: dict[str, int]
    """New ones, by definition."""
    repeated: dict[str, int]
    lost: dict[str, int]
    blob_bytes: int


class TracingFolder:
    """The folder that both sides know."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def of_environment(cls) -> TracingFolder | None:
        """Find the session this process belongs to."""
        folder = settings.trace_session()
        return None if folder is None else cls(folder)

    def prepare(self, request: TracingRequest) -> dict[str, str]:
        """Write the request and what Python runs at its start; gives the program's environment."""
        (self._folder / _REQUEST).write_bytes(msgspec.json.encode(request))
        (self._folder / "sitecustomize.py").write_text(_STARTUP)
        environment = settings.environment_copy()
        path = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = (
            f"{self._folder}{os.pathsep}{path}" if path else str(self._folder)
        )
        environment[settings.TRACE_SESSION_VARIABLE] = str(self._folder)
        return environment

    def request(self) -> TracingRequest:
        """Read what is to be recorded."""
        return msgspec.json.decode((self._folder / _REQUEST).read_bytes(), type=TracingRequest)

    def write(self, report: Report) -> None:
        """Write this process's report, in the place of its earlier one."""
        if self._folder.is_dir():  # a program that outlives the command has nobody to report to
            write_whole(self._folder / f"report-{os.getpid()}.json", msgspec.json.encode(report))

    def reports(self) -> list[Report]:
        """Read what each process reported."""
        files = sorted(self._folder.glob("report-*.json"))
        return [msgspec.json.decode(file.read_bytes(), type=Report) for file in files]

    def fail(self, reason: str) -> None:
        """Say why nothing is recorded."""
        (self._folder / "failed.txt").write_text(reason)

    def failure(self) -> str | None:
        """Read why nothing was recorded."""
        file = self._folder / "failed.txt"
        return file.read_text() if file.exists() else None
