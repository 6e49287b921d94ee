"""What a machine can build, run and time, as a value and as a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.report.numbers import latency_text, speedup_text
from flashinfer_bench.report.tables import Block, Page, heading, paragraph, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.report.numbers import Interval

_GIGABYTE = 1e9
_NANOSECONDS_PER_MS = 1e6


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
class NoiseFloor:
    """The same kernel against itself: what differs is noise."""

    where: str
    """`worker processes` or `this process`."""
    ratio: float | None
    interval: Interval | None
    spread: float
    """Interquartile range of the samples over their median."""
    rounds: int
    latency_ms: float


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
class SandboxMeasure:
    """One thing a solution is kept from, and why not where that fails."""

    name: str
    meaning: str
    missing: str | None


@dataclass(frozen=True, slots=True)
class SandboxLevel:
    """A level of isolation, and what stands in its way."""

    name: str
    missing: str | None
    measures: tuple[SandboxMeasure, ...]


@dataclass(frozen=True, slots=True)
class Isolation:
    """What a sandbox could be made of, and what it holds when it is tried."""

    has_user_namespaces: bool
    landlock_abi: int
    has_seccomp_filters: bool
    levels: tuple[SandboxLevel, ...] = ()


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


def doctor_page(report: DoctorReport) -> Page:
    """Show what works, what is missing and the commands to get it, and what disturbs measurements."""
    return (
        heading("Languages"),
        _aligned([_language_cells(each) for each in report.languages]),
        heading("Devices"),
        _aligned([_device_cells(each) for each in report.devices]),
        heading("Tools"),
        _aligned([_tool_cells(each) for each in report.tools]),
        heading("Installation"),
        _aligned(_installation_cells(report.installation)),
        heading("Folders"),
        _aligned([_folder_cells(each) for each in report.folders]),
        heading("Timing"),
        _aligned(_timing_cells(report)),
        heading("Isolation"),
        _aligned(_isolation_cells(report.isolation)),
        *_advice_blocks(report.advice),
        heading(
            "Kernels can be run and timed here"
            if report.can_run
            else "Nothing can be run here yet: see the advice"
        ),
    )


def _language_cells(each: Language) -> tuple[str, str]:
    name = each.language if each.binding is None else f"{each.language} ({each.binding})"
    if each.missing is not None:
        return name, f"missing: {each.missing.splitlines()[0].rstrip(':')}"
    return name, "ready" if each.remark is None else f"ready; {each.remark}"


def _device_cells(each: DeviceState) -> tuple[str, str]:
    return each.name, ", ".join(text for text in (each.hardware, each.remark) if text)


def _tool_cells(each: Tool) -> tuple[str, str]:
    version = each.version or "missing"
    return each.name, version if each.place is None else f"{version}, {each.place}"


def _installation_cells(installation: Installation) -> list[tuple[str, str]]:
    return [
        ("imported from", installation.imported_from),
        ("provided by", ", ".join(installation.distributions) or "no installed package"),
        ("other copies", ", ".join(installation.other_copies) or "none"),
    ]


def _folder_cells(each: Folder) -> tuple[str, str]:
    state = "there" if each.exists else "not there yet"
    writable = "writable" if each.is_writable else "NOT writable"
    free = "" if each.free_bytes is None else f", {each.free_bytes / _GIGABYTE:.1f} GB free"
    return each.purpose, f"{each.path} ({state}, {writable}{free})"


def _timing_cells(report: DoctorReport) -> list[tuple[str, str]]:
    machine = report.machine
    quota = "" if machine.cpu_quota is None else f", limited to {machine.cpu_quota:g}"
    busiest = ", ".join(f"{each.name} {each.processors:.0%}" for each in machine.busiest)
    turbo = {True: "on", False: "off", None: "not readable"}[machine.has_turbo]
    return [
        ("wall clock", _clock_text(report.clock)),
        ("noise floor", _noise_text(report)),
        ("load", f"{' '.join(f'{each:.2f}' for each in machine.load)} (1, 5, 15 minutes)"),
        ("other programs", busiest or "none that compute"),
        ("processors", f"{machine.cores} cores, {machine.usable_cpus} usable{quota}"),
        ("memory", f"{machine.available_bytes / _GIGABYTE:.1f} GB free"),
        ("frequency", f"governor {machine.governor or 'not readable'}, turbo {turbo}"),
        ("huge pages", machine.huge_pages or "not readable"),
    ]


def _clock_text(clock: ClockState) -> str:
    return (
        f"resolution {_ns(clock.resolution_ns)}, smallest step seen {_ns(clock.smallest_step_ns)}, "
        f"an empty call {_ns(clock.overhead_ns)}"
    )


def _noise_text(report: DoctorReport) -> str:
    noise = report.noise
    if noise is None:
        return f"not measured: {report.noise_failure or 'not asked for'}"
    rounds = f" over {noise.rounds} pairs of processes" if noise.rounds > 1 else ""
    return (
        f"a kernel of {latency_text(noise.latency_ms)} against itself, in {noise.where}: "
        f"{speedup_text(noise.ratio, noise.interval)}{rounds}; samples spread {noise.spread:.1%}"
    )


def _isolation_cells(isolation: Isolation) -> list[tuple[str, str]]:
    return [
        ("user namespaces", "yes" if isolation.has_user_namespaces else "no"),
        ("landlock", f"ABI {isolation.landlock_abi}" if isolation.landlock_abi else "no"),
        ("seccomp filters", "yes" if isolation.has_seccomp_filters else "no"),
        *((f"level {each.name}", _level_text(each)) for each in isolation.levels),
    ]


def _level_text(level: SandboxLevel) -> str:
    if level.missing is not None:
        return f"not available: {level.missing}"
    missing = [each for each in level.measures if each.missing is not None]
    if not missing:
        names = ", ".join(each.name for each in level.measures)
        return f"all of it: {names}" if names else "available"
    return "without " + ", ".join(f"{each.name} ({each.missing})" for each in missing)


def _advice_blocks(advice: tuple[str, ...]) -> list[Block]:
    if not advice:
        return []
    lines: list[str] = []
    for each in advice:
        first, *rest = each.splitlines()
        lines += [f"- {first}", *(f"  {line}" for line in rest)]
    return [heading("Advice"), paragraph(*lines)]


def _aligned(rows: Sequence[tuple[str, str]]) -> Block:
    """Write names and what there is to say about them, one below the other."""
    width = max(len(name) for name, _ in rows)
    return paragraph(*(f"{name:{width}}  {printable(text)}" for name, text in rows))


def _ns(value: float) -> str:
    return latency_text(value / _NANOSECONDS_PER_MS)
