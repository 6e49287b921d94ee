"""A command of this package in a process of its own: its document, its lines as they come, and its end when asked."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psutil

from flashinfer_bench.data import settings
from flashinfer_bench.errors import MissingPackageError

try:
    import anyio
    from anyio.streams.text import TextReceiveStream
except ImportError:
    raise MissingPackageError("mcp", extra="agents", needed_for="the MCP server") from None

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from anyio.abc import ByteReceiveStream, Process

_GRACE_S = 0.5
"""How long a command may take over ending by itself; a fifth of a second is usual."""
_LINES_TOLD = 20


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    """How a command ended."""

    document: dict[str, Any]
    exit_code: int

    @property
    def is_fault(self) -> bool:
        """Whether it could not do what it was asked."""
        return "error" in self.document


@dataclass(slots=True)
class _Said:
    """What a process has written so far."""

    text: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


async def run_command(
    words: Sequence[str], *, on_line: Callable[[str], Awaitable[None]]
) -> CommandAnswer:
    """Run a command with `--json`; where the caller is cancelled, the command and all it started end first.

    The process has no standard input, and none of this package's keys in its environment.
    """
    process = await anyio.open_process(
        [sys.executable, "-m", "flashinfer_bench.agents.child", *words],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        env=settings.environment_copy(),
    )
    said = _Said()
    try:
        async with anyio.create_task_group() as tasks:
            assert process.stdout is not None
            assert process.stderr is not None
            tasks.start_soon(_read, process.stdout, said)
            tasks.start_soon(_read_lines, process.stderr, said, on_line)
        exit_code = await process.wait()
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process)
    return CommandAnswer(_document(said, exit_code), exit_code)


async def _read(stream: ByteReceiveStream, said: _Said) -> None:
    async for text in TextReceiveStream(stream, errors="replace"):
        said.text.append(text)


async def _read_lines(
    stream: ByteReceiveStream, said: _Said, on_line: Callable[[str], Awaitable[None]]
) -> None:
    rest = ""
    async for text in TextReceiveStream(stream, errors="replace"):
        *lines, rest = (rest + text).split("\n")
        for line in lines:
            said.lines.append(line)
            await on_line(line)
    if rest:
        said.lines.append(rest)


def _document(said: _Said, exit_code: int) -> dict[str, Any]:
    try:
        found = json.loads("".join(said.text))
    except ValueError:
        found = None
    if isinstance(found, dict):
        return found
    message = f"the command ended with {exit_code} and printed no document: " + " / ".join(
        said.lines[-_LINES_TOLD:]
    )
    fault = {"kind": "internal", "message": message, "exit_code": exit_code}
    return {"schema_version": 1, "exit_code": exit_code, "error": fault}


async def _end(process: Process) -> None:
    """End a process that still runs, and everything below it."""
    if process.returncode is None:
        below = _descendants(process.pid)
        process.terminate()
        with anyio.move_on_after(_GRACE_S):
            await process.wait()
        _kill([*below, *_descendants(process.pid)])
        if process.returncode is None:
            process.kill()
        await process.wait()
    await process.aclose()


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _kill(processes: Sequence[psutil.Process]) -> None:
    for each in processes:
        try:
            each.kill()
        except psutil.NoSuchProcess:
            continue
