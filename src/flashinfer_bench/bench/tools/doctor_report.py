"""What `doctor` saw of a machine: what it can build, run and time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flashinfer_bench.bench.sandbox.isolation import SandboxLevel
    from flashinfer_bench.bench.tools.noise import NoiseFloor


@dataclass(frozen=True, slots=True)
class Language:
    """One language with one binding."""

    language: str
    binding: str | None
    missing: str | None
    """What is not installed and how to get it; None where it can be built."""
    remark: str | None
    """What to know about it on this machine."""


@dataclass(frozen=True, slots=True)
class DeviceState:
    """A place where kernels run, or could."""

    name: str
    hardware: str
    remark: str | None


@dataclass(frozen=True, slots=True)
class Tool:
    """A program or package that runs depend on; no version where it is missing."""

    name: str
    version: str | None
    place: str | None


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder that is read or written."""

    purpose: str
    path: str
    exists: bool
    is_writable: bool
    free_bytes: int | None


@dataclass(frozen=True, slots=True)
class ClockState:
    """The wall clock."""

    resolution_ns: float
    """What the system promises."""
    smallest_step_ns: float
    """What was seen."""
    overhead_ns: float
    """What it says about a call that does nothing."""


@dataclass(frozen=True, slots=True)
class Process:
    """Another program that computes."""

    name: str
    processors: float


@dataclass(frozen=True, slots=True)
class MachineState:
    """What else the machine does, and how it manages power and memory."""

    cores: int
    usable_cpus: int
    cpu_quota: float | None
    memory_bytes: int
    available_bytes: int
    load: tuple[float, float, float]
    busiest: tuple[Process, ...]
    governor: str | None
    has_turbo: bool | None
    huge_pages: str | None


@dataclass(frozen=True, slots=True)
class Isolation:
    """What a sandbox could be made of, and what it holds when it is tried."""

    has_user_namespaces: bool
    landlock_abi: int
    has_seccomp_filters: bool
    levels: tuple[SandboxLevel, ...] = ()
    children_uncounted: str | None = None
    """Why the processor time of children that end before anybody looks is not counted; None where it is."""


@dataclass(frozen=True, slots=True)
class Installation:
    """Where this package comes from, and who else provides its name."""

    imported_from: str
    distributions: tuple[str, ...]
    """Name and version of all that provide the import name."""
    other_copies: tuple[str, ...]
    """Folders on the path that would be imported if this one were not there."""


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """Everything that was looked at."""

    can_run: bool
    languages: tuple[Language, ...]
    devices: tuple[DeviceState, ...]
    tools: tuple[Tool, ...]
    folders: tuple[Folder, ...]
    clock: ClockState
    noise: NoiseFloor | None
    noise_failure: str | None
    """Why the noise could not be measured where kernels run."""
    machine: MachineState
    isolation: Isolation
    installation: Installation
    advice: tuple[str, ...]
