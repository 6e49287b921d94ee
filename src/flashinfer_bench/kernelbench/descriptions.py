"""The side that asks what a problem takes and returns: starts a process that runs it, and hears the answer."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from flashinfer_bench.data import settings
from flashinfer_bench.errors import DeviceError, MissingPackageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_NO_TORCH = b"No module named 'torch'"


class Input(msgspec.Struct, frozen=True):
    """One tensor or number that forward is given, and where its content comes from."""

    name: str
    shape: tuple[int, ...] | None
    dtype: str
    source: Literal["random", "file", "scalar"]
    distribution: dict[str, Any] | None = None
    value: bool | int | float | None = None


class Output(msgspec.Struct, frozen=True):
    """One tensor that forward returns."""

    shape: tuple[int, ...]
    dtype: str


class Description(msgspec.Struct, frozen=True):
    """What a problem takes and returns."""

    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    template: list[Any]
    is_random: bool
    """Whether forward draws random numbers."""
    written: tuple[int, ...]
    """Inputs that forward overwrites."""
    shared: tuple[int, ...]
    """Outputs that lie in the memory of others."""
    parameters: int
    atol: float
    rtol: float

    @property
    def fixed(self) -> tuple[str, ...]:
        """Inputs that stay what `get_inputs` made of them, because no distribution gives such."""
        return tuple(each.name for each in self.inputs if each.source == "file")


class _Answer(msgspec.Struct, frozen=True):
    found: Description | None = None
    fault: str = ""


def describe(
    problem: Path, folder: Path, *, seeds: Sequence[int], device: str, timeout_s: float
) -> Description:
    """Run a problem in a process of its own; tensors that stay fixed are left in `folder`."""
    command = [
        *(sys.executable, "-P", "-m", "flashinfer_bench.kernelbench.describing"),
        *(str(problem.resolve()), str(folder), device, *map(str, seeds)),
    ]
    output = _run(command, folder, problem, timeout_s)
    try:
        answer = (folder / "answer.json").read_bytes()
    except OSError:
        raise _unanswered(problem, output) from None
    heard = msgspec.json.decode(answer, type=_Answer)
    if heard.found is None:
        raise UsageError(heard.fault)
    if not heard.found.outputs:
        raise UsageError(f"{problem}: forward returns no tensor, so there is nothing to judge")
    return heard.found


def _run(command: list[str], folder: Path, problem: Path, timeout_s: float) -> bytes:
    log = folder / "describing.log"
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command,
            env=settings.environment_copy(),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
        )
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise UsageError(
                f"{problem} did not run within {timeout_s:g} s; --timeout allows it more"
            ) from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return log.read_bytes() + _ended(process.returncode)


def _ended(code: int) -> bytes:
    return b"" if code >= 0 else f"\nended by {signal.Signals(-code).name}".encode()


def _unanswered(problem: Path, output: bytes) -> Exception:
    if _NO_TORCH in output:
        return MissingPackageError("torch", extra="torch", needed_for="running a problem")
    lines = [
        line.strip() for line in output.decode("utf-8", "replace").splitlines() if line.strip()
    ]
    last = lines[-1] if lines else "it said nothing"
    return DeviceError(f"the process that ran {problem} ended without an answer: {last}")
