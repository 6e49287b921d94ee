"""Nsight Compute: its command, what it says when it may not look, and its table of metrics.

Metrics are named as `ncu --query-metrics` names them; the sections are those that show them in its window, too.
Source: Nsight Compute's documentation, "Profiling Guide" and "Command Line Interface".
"""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from flashinfer_bench.bench.examining.profile_values import ProfiledKernel, StallShare
from flashinfer_bench.bench.examining.tool_answers import (
    ToolUnavailableError,
    number,
    short_name,
    summed_up,
)
from flashinfer_bench.bench.sandbox.policy import Missing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

REPORT = "report.ncu-rep"
SECTIONS = ("SpeedOfLight", "LaunchStats", "Occupancy", "WarpStateStats", "MemoryWorkloadAnalysis")
_PLACES = (
    "/usr/local/cuda/bin/ncu",
    "/usr/local/cuda-*/bin/ncu",
    "/opt/nvidia/nsight-compute/*/ncu",
)
_PARAMETERS = Path("/proc/driver/nvidia/params")
_IMPORT_TIMEOUT_S = 120
_MOST_STALLS = 3
_TIME = "gpu__time_duration.sum"
_SM = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
_DRAM = (
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
)
_OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
_OCCUPANCY_LIMIT = "sm__maximum_warps_per_active_cycle_pct"
_REGISTERS = "launch__registers_per_thread"
_SHARED = ("launch__shared_mem_per_block_static", "launch__shared_mem_per_block_dynamic")
_LATENCY = "smsp__average_warp_latency_per_inst_issued.ratio"
_STALL = re.compile(
    r"smsp__average_warp(?:s|_latency)_issue_stalled_(\w+?)(?:_per_issue_active)?\.ratio"
)
_NO_STALL = "selected"
_LIMITS = {
    "registers": "launch__occupancy_limit_registers",
    "shared memory": "launch__occupancy_limit_shared_mem",
    "warps": "launch__occupancy_limit_warps",
    "blocks": "launch__occupancy_limit_blocks",
    "barriers": "launch__occupancy_limit_barriers",
}
_IN_US = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}
_LONG_UNITS = {"nsecond": "ns", "usecond": "us", "msecond": "ms", "second": "s"}
_NO_COUNTERS = "ERR_NVGPUCTRPERM"
COUNTERS_REMEDY = (
    "let users read the counters: `options nvidia NVreg_RestrictProfilingToAdminUsers=0` in /etc/modprobe.d and a "
    "restart; or profile as root, in a container started with --cap-add=SYS_ADMIN"
)
_INSTALL = (
    "install Nsight Compute: it comes with the CUDA toolkit (`apt-get install cuda-nsight-compute-13-0`, conda "
    "`nsight-compute`), or from https://developer.nvidia.com/nsight-compute"
)


def find_ncu() -> str:
    """Find the program; raises `ToolUnavailableError` that says how to get it."""
    found = shutil.which("ncu")
    if found is not None:
        return found
    for pattern in _PLACES:
        places = sorted(Path("/").glob(pattern.removeprefix("/")), reverse=True)
        if places:
            return str(places[0])
    raise ToolUnavailableError("Nsight Compute (ncu) is not here", _INSTALL)


def command(program: str) -> tuple[str, ...]:
    """Write what stands before the command of a worker: only what lies between its markers is looked at.

    Clocks are left as they are, so that times are those of the machine as it is; caches are flushed before each pass.
    """
    sections = (word for name in SECTIONS for word in ("--section", name))
    return (
        program,
        *("--config-file", "off", "--profile-from-start", "off", "--target-processes", "all"),
        *("--clock-control", "none", "--cache-control", "all"),
        *sections,
        *("--force-overwrite", "--export", "{scratch}/report"),
    )


def lifted() -> tuple[Missing, ...]:
    """Name the measure that the counters ask to lift: a driver may keep them for administrators."""
    if os.geteuid() != 0 or not _are_counters_restricted():
        return ()
    reason = "counters are for administrators here, so CAP_SYS_ADMIN and CAP_PERFMON were kept"
    return (Missing("capabilities", reason),)


def _are_counters_restricted() -> bool:
    try:
        told = _PARAMETERS.read_text(encoding="ascii", errors="replace")
    except OSError:
        return True
    return "RmProfilingAdminOnly: 0" not in told


def failure(log: str) -> ToolUnavailableError:
    """Say why there is no report, by what ncu printed."""
    if _NO_COUNTERS in log:
        return ToolUnavailableError(
            "the driver lets this user read no counters (ERR_NVGPUCTRPERM)", COUNTERS_REMEDY
        )
    if "No kernels were profiled" in log:
        return ToolUnavailableError("Nsight Compute saw no kernel in the call")
    lines = [line for line in log.splitlines() if line.startswith("==ERROR==")]
    said = lines[0].removeprefix("==ERROR==").strip() if lines else ""
    return ToolUnavailableError(said or "Nsight Compute wrote no report")


def kernels_of(program: str, report: bytes) -> tuple[ProfiledKernel, ...]:
    """Have ncu write a report as a table, and read it."""
    with tempfile.TemporaryDirectory(prefix="flashinfer-bench-") as folder:
        file = Path(folder) / REPORT
        file.write_bytes(report)
        words = [program, "--import", str(file), "--page", "raw", "--csv", "--print-units", "base"]
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=_IMPORT_TIMEOUT_S, check=False
        )
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise ToolUnavailableError(f"ncu cannot read its report: {said[-1] if said else '?'}")
    return kernels_of_table(done.stdout)


def kernels_of_table(text: str) -> tuple[ProfiledKernel, ...]:
    """Read `--page raw --csv`: names of columns, their units, then a row for each launch."""
    lines = text.splitlines()
    head = next((place for place, line in enumerate(lines) if line.startswith('"ID"')), None)
    if head is None:
        raise ToolUnavailableError("Nsight Compute saw no kernel in the call")
    rows = list(csv.DictReader(io.StringIO("\n".join(lines[head:]))))
    if not rows:
        raise ToolUnavailableError("Nsight Compute saw no kernel in the call")
    units = rows[0] if not rows[0].get("ID") else {}
    return summed_up(_launch(row, units) for row in rows[bool(units) :])


def _launch(row: Mapping[str, str], units: Mapping[str, str]) -> ProfiledKernel:
    time = number(row.get(_TIME))
    shared = [each for name in _SHARED if (each := number(row.get(name))) is not None]
    registers = number(row.get(_REGISTERS))
    return ProfiledKernel(
        name=short_name(row.get("Kernel Name", "?")),
        launches=1,
        time_us=None if time is None else time * _to_us(units.get(_TIME, "ns")),
        sm_percent=number(row.get(_SM)),
        dram_percent=next(
            (each for name in _DRAM if (each := number(row.get(name))) is not None), None
        ),
        occupancy_percent=number(row.get(_OCCUPANCY)),
        occupancy_limit_percent=number(row.get(_OCCUPANCY_LIMIT)),
        occupancy_limiter=_limiter(row),
        registers=None if registers is None else int(registers),
        shared_memory_bytes=int(sum(shared)) if shared else None,
        grid=_lengths(row.get("Grid Size", "")),
        block=_lengths(row.get("Block Size", "")),
        top_stalls=tuple(_stalls(row))[:_MOST_STALLS],
        tool="ncu",
    )


def _to_us(unit: str) -> float:
    return _IN_US.get(_LONG_UNITS.get(unit, unit), 1e-3)


def _limiter(row: Mapping[str, str]) -> str | None:
    """Name what allows the fewest blocks on a multiprocessor; the first of several."""
    known = {
        name: value
        for name, metric in _LIMITS.items()
        if (value := number(row.get(metric))) is not None
    }
    return min(known, key=lambda name: known[name], default=None)


def _stalls(row: Mapping[str, str]) -> Iterator[StallShare]:
    """Give why warps waited, the longest first, as shares of the time between two instructions of a warp."""
    cycles = {
        match.group(1): value
        for name, text in row.items()
        if name and (match := _STALL.fullmatch(name)) and (value := number(text)) is not None
    }
    cycles = {name: value for name, value in cycles.items() if not name.endswith("not_issued")}
    whole = number(row.get(_LATENCY)) or sum(cycles.values())
    for name in sorted(cycles, key=lambda each: -cycles[each]):
        if name != _NO_STALL and cycles[name] > 0 and whole:
            yield StallShare(name, cycles[name] / whole)


def _lengths(text: str) -> tuple[int, int, int] | None:
    """Read `(8, 1, 1)`, or `8, 1, 1`."""
    found = [int(word) for word in re.findall(r"\d+", text)]
    return (found[0], found[1], found[2]) if len(found) == 3 else None  # noqa: PLR2004  # x, y, z
