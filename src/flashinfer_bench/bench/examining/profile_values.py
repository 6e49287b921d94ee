"""What a profile says, whichever tool took it: values that go to JSON and to pages as they are."""

from __future__ import annotations

from typing import Literal

import msgspec

from flashinfer_bench.compile.instructions import (
    InstructionCounts,  # msgspec reads it
)

ProfileTool = Literal["ncu", "cupti", "torch", "ptxas", "remarks"]
"""`ncu`: Nsight Compute; `cupti`: activity records; `torch`: its profiler; `ptxas`: what the compiler reserves;
`remarks`: what the C++ compiler vectorised."""


class StallShare(msgspec.Struct, frozen=True):
    """Why warps that could have issued an instruction did not."""

    reason: str
    """As Nsight Compute names it: `long_scoreboard`, `barrier`, `math_pipe_throttle`, …"""
    share: float
    """Of the time between two instructions of a warp, from 0 to 1."""


class ProfiledKernel(msgspec.Struct, frozen=True, kw_only=True):
    """One kernel of a call; None where the tool does not tell."""

    name: str
    where: Literal["gpu", "cpu"] = "gpu"
    launches: int | None = None
    """In one call of the solution; None where nothing ran."""
    time_us: float | None = None
    """All its launches of one call together."""
    sm_percent: float | None = None
    """Throughput of the multiprocessors, of their peak."""
    dram_percent: float | None = None
    """Throughput of the device's memory, of its peak."""
    occupancy_percent: float | None = None
    """Warps that were resident, of the most there can be."""
    occupancy_limit_percent: float | None = None
    """What registers, shared memory and the size of blocks allow."""
    occupancy_limiter: str | None = None
    """What allows least: `registers`, `shared memory`, `warps`, `blocks` or `barriers`."""
    registers: int | None = None
    """Of each thread."""
    spill_bytes: int | None = None
    """Registers put to memory and read back: bytes stored and loaded, as the compiler counts them in the source."""
    stack_bytes: int | None = None
    """Of each thread."""
    shared_memory_bytes: int | None = None
    """Of each block, static and dynamic; only static where nothing ran."""
    instructions: InstructionCounts | None = None
    """In its code, by kind."""
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    top_stalls: tuple[StallShare, ...] = ()
    """At most three, the largest first."""
    tool: ProfileTool
    """Which tool told the most of it."""


class CompilerRemark(msgspec.Struct, frozen=True):
    """A loop or block that the C++ compiler vectorised, or did not."""

    file: str
    line: int
    is_vectorised: bool
    text: str


class ToolAttempt(msgspec.Struct, frozen=True):
    """One tool that was asked, and what kept it from answering."""

    tool: ProfileTool
    has_answered: bool
    why_not: str | None = None
    remedy: str | None = None
    """What would help: a package, a setting, a permission."""


class KeptReport(msgspec.Struct, frozen=True):
    """A tool's own report, as it wrote it."""

    tool: str
    path: str
    sha256: str
    size_bytes: int


class SolutionProfile(msgspec.Struct, frozen=True, kw_only=True):
    """One call of one solution on one workload, looked at by one tool or several."""

    definition: str
    solution: str
    solution_hash: str
    workload: str
    """Its uuid."""
    axes: dict[str, int]
    device: str
    hardware: str
    tool: ProfileTool | None
    """The best that answered; None where none did."""
    kernels: tuple[ProfiledKernel, ...]
    """Those that took longest first."""
    call_us: float | None = None
    """One call as the profiler saw it: slower than without one. `run` has the time."""
    remarks: tuple[CompilerRemark, ...] = ()
    attempts: tuple[ToolAttempt, ...] = ()
    """The tools that were asked, the best first."""
    notes: tuple[str, ...] = ()
    reports: tuple[KeptReport, ...] = ()
    warm_calls: int = 0
    """How many calls went before the one that was profiled."""
    sandbox: str = "off"
    sandbox_missing: tuple[str, ...] = ()
    """Measures of the sandbox that were not in force, each with its reason."""
    taken_at: str = ""
    """UTC, ISO 8601."""
