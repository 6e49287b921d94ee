"""What a machine can build, run and time, as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.text.numbers import latency_text, speedup_text
from flashinfer_bench.text.tables import Block, Page, heading, paragraph, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.bench.sandbox.isolation import SandboxLevel
    from flashinfer_bench.bench.tools.doctor_report import (
        ClockState,
        DeviceState,
        DoctorReport,
        Folder,
        Installation,
        Isolation,
        Language,
        Tool,
    )

_GIGABYTE = 1e9
_NANOSECONDS_PER_MS = 1e6


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
        f"{speedup_text(noise.ratio, noise.interval, knows_processes=True)}{rounds}; samples spread {noise.spread:.1%}"
    )


def _isolation_cells(isolation: Isolation) -> list[tuple[str, str]]:
    return [
        ("user namespaces", "yes" if isolation.has_user_namespaces else "no"),
        ("landlock", f"ABI {isolation.landlock_abi}" if isolation.landlock_abi else "no"),
        ("seccomp filters", "yes" if isolation.has_seccomp_filters else "no"),
        ("brief children", _counted_text(isolation.children_uncounted)),
        *((f"level {each.name}", _level_text(each)) for each in isolation.levels),
    ]


def _counted_text(children_uncounted: str | None) -> str:
    return "counted" if children_uncounted is None else f"not counted: {children_uncounted}"


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
