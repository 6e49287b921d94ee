"""What sanitizers found, whichever tool looked: values that go to JSON and to pages as they are."""

from __future__ import annotations

from typing import Literal

import msgspec

from flashinfer_bench.bench.examining.profile_values import KeptReport

SanitizerTool = Literal[
    "memcheck", "racecheck", "initcheck", "synccheck", "address", "undefined", "uninitialised"
]
"""The first four are compute-sanitizer's; the others look at C++ on a CPU."""


class SanitizerFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One fault at one place, however often it was met."""

    tool: SanitizerTool
    kind: str
    """What is wrong, in the tool's words: `Invalid __global__ write of size 4 bytes`, `heap-buffer-overflow`, …"""
    kernel: str | None = None
    """The kernel, or the function on a CPU."""
    file: str | None = None
    line: int | None = None
    count: int = 1
    detail: str = ""
    """More of what the tool said, cut to a few lines."""

    @property
    def place(self) -> str | None:
        """`file:line`, or as much of it as is known."""
        if self.file is None:
            return None
        return self.file if self.line is None else f"{self.file}:{self.line}"


class SanitizerRun(msgspec.Struct, frozen=True, kw_only=True):
    """One tool, and whether it could look."""

    tool: SanitizerTool
    by: str | None = None
    """The program or compiler that looked, such as `compute-sanitizer`, `valgrind`, `g++ -fsanitize=address`."""
    status: Literal["clean", "faults", "failed", "unavailable"]
    """`failed`: the solution or the tool ended before it could say; `unavailable`: the tool is not here, or does not
    apply."""
    why_not: str | None = None
    remedy: str | None = None


class SanitizerReport(msgspec.Struct, frozen=True, kw_only=True):
    """One call of one solution on one workload, looked at by sanitizers."""

    definition: str
    solution: str
    solution_hash: str
    workload: str
    axes: dict[str, int]
    device: str
    hardware: str
    status: Literal["clean", "faults", "failed", "unavailable"]
    """`faults` when any tool found one, else `failed` when any could not finish, else `clean` when any looked."""
    findings: tuple[SanitizerFinding, ...]
    runs: tuple[SanitizerRun, ...]
    notes: tuple[str, ...] = ()
    reports: tuple[KeptReport, ...] = ()
    sandbox: str = "off"
    sandbox_missing: tuple[str, ...] = ()

    @property
    def has_passed(self) -> bool:
        """Whether at least one tool looked, none found a fault and none failed."""
        return self.status == "clean"


def overall(runs: tuple[SanitizerRun, ...]) -> Literal["clean", "faults", "failed", "unavailable"]:
    """Sum up what the tools came to."""
    seen = {run.status for run in runs}
    if "faults" in seen:
        return "faults"
    if "failed" in seen:
        return "failed"
    if "clean" in seen:
        return "clean"
    return "unavailable"
