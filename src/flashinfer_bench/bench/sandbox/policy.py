"""The sandbox of a process with somebody's code: the level, where it may write, and what is not in force."""

from __future__ import annotations

from typing import Literal

import msgspec

from flashinfer_bench.errors import DeviceError

Level = Literal["off", "process", "container"]
Measure = Literal["files", "network", "signals", "processes", "capabilities", "limits"]


class Missing(msgspec.Struct, frozen=True):
    """A measure that is not in force, and why."""

    measure: Measure
    reason: str


class RankPlace(msgspec.Struct, frozen=True):
    """Which of several ranks a process is, and where they meet before they are shut in."""

    rank: int
    world_size: int
    backend: Literal["gloo", "nccl"]
    port: int
    """Of the loopback interface; rank 0 inherits the socket that listens there."""


class SandboxPolicy(msgspec.Struct, frozen=True):
    """What the fork server must know to put a process into its sandbox before a line of anybody's code runs in it."""

    level: Level
    device: str
    scratch: str = ""
    """Its temporary folder, gone with the process."""
    build_folder: str = ""
    """Its own entry of the build cache; the only folder beside `scratch` that it may write to."""
    hidden: tuple[str, ...] = ()
    """What it must not read even where the folder around it is readable: datasets, others' builds."""
    is_judge: bool = False
    """The judge holds inputs and outputs of everybody: its memory and the size of its files have no limit."""
    lifted: tuple[Missing, ...] = ()
    """Measures that a tool which looks at the process cannot work under, each with the reason."""
    opens_device_first: bool = False
    """Start CUDA before the measures are in force: a profiler's library connects to its program then."""
    rank: RankPlace | None = None
    """Connect with the other ranks while that can still be done."""


class Sandbox(msgspec.Struct, frozen=True):
    """What was in force around a solution."""

    level: Level
    missing: tuple[Missing, ...] = ()

    @property
    def name(self) -> str:
        """What a trace calls it: the level only if every measure of it was in force."""
        return "partial" if self.missing and self.level != "off" else self.level


def of_judge(level: Level, device: str, hidden: tuple[str, ...]) -> SandboxPolicy:
    """Give the policy of a judge, which runs references: that of a solution, but in no container."""
    own: Level = "off" if level == "off" else "process"
    return SandboxPolicy(own, device, hidden=hidden, is_judge=True)


def require_all(missing: tuple[Missing, ...]) -> None:
    """Refuse to run with less than the whole of a sandbox."""
    if missing:
        reasons = "; ".join(f"{each.measure}: {each.reason}" for each in missing)
        raise DeviceError(
            f"a sandbox is required, and not all of it can be put in force here: {reasons}. "
            "`flashinfer-bench doctor` says what is missing"
        )
