"""Look a machine over: what it can build, run and time, what is missing, what disturbs."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import itertools
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from flashinfer_bench.bench.parent.children_clock import why_not_counted
from flashinfer_bench.bench.sandbox.isolation import SandboxLevel, sandbox_levels
from flashinfer_bench.bench.timing.wall import WallClock, overhead_ns
from flashinfer_bench.bench.tools.doctor_report import (
    ClockState,
    DeviceState,
    DoctorReport,
    Folder,
    Installation,
    Isolation,
    Language,
    MachineState,
    Process,
    Tool,
)
from flashinfer_bench.bench.tools.noise import (
    DeviceBusyError,
    NoiseFloor,
    noise_in_this_process,
    noise_in_workers,
)
from flashinfer_bench.compile.builder import BUILDERS
from flashinfer_bench.compile.compiler import compiler_command
from flashinfer_bench.compile.cuda import find_toolkit
from flashinfer_bench.data import settings
from flashinfer_bench.errors import TORCH_INSTALL_LINES, BenchError
from flashinfer_bench.tensors import machine, system
from flashinfer_bench.tensors.other_hardware import REFUSALS, amd_gpus
from flashinfer_bench.text.numbers import count_text

_IMPORT_NAME = "flashinfer_bench"
_PACKAGES = ("torch", "triton", "tilelang", "apache-tvm-ffi", "numpy")
_TOOL_TIMEOUT_S = 10
_CUDA_OF_TORCH = re.compile(r"^cuda\b[^=]*=\s*['\"]([\d.]+)['\"]", re.MULTILINE)
_VERSION = re.compile(r"\d+(?:\.\d+)+")
_WITHOUT_CUDA = {
    "cuda": "compiled only: no CUDA device to run on",
    "triton": "interpreted on a CPU: right or wrong, but no times that mean anything",
    "tilelang": "compiled to C on a CPU: right or wrong, but no times that mean anything",
}
_WITHOUT_TORCH = "torch is not installed: pip install 'flashinfer-bench[torch]'"
_LEAST_FREE_BYTES = 1 << 30
_LEAST_SHARED_BYTES = 256 << 20
_LARGE_NOISE = 0.05
_BUSY_SHARE = 0.5
_TICKS = 2000


def examine(*, dataset: Path | None = None, measures_noise: bool = True) -> DoctorReport:
    """Look at everything; takes a few seconds, most of it for the noise floor."""
    state = _machine()  # before anything of ours computes
    devices = _devices()
    has_torch = importlib.util.find_spec("torch") is not None
    has_cuda = any(each.name.startswith("cuda:") for each in devices)
    languages = _languages(has_cuda=has_cuda, has_torch=has_torch)
    found = _noise(has_torch=has_torch) if measures_noise else _Noise(None, None, has_torch)
    can_run = found.can_run and any(each.missing is None for each in languages)
    folders = _folders(dataset)
    levels, children_uncounted = sandbox_levels(), why_not_counted()
    installation = _installation()
    return DoctorReport(
        can_run=can_run,
        languages=languages,
        devices=devices,
        tools=_tools(),
        folders=folders,
        clock=_clock(),
        noise=found.floor,
        noise_failure=found.failure,
        machine=state,
        isolation=Isolation(
            system.can_unshare_user(),
            system.landlock_abi(),
            system.has_seccomp_filters(),
            levels,
            children_uncounted,
        ),
        installation=installation,
        advice=(
            *_advice_on_languages(languages, has_torch=has_torch),
            *_advice_on_devices(devices),
            *_advice_on_folders(folders),
            *_advice_on_timing(state, found),
            *_advice_on_isolation(levels),
            *_advice_on_counters(children_uncounted),
            *_advice_on_installation(installation),
        ),
    )


def _languages(*, has_cuda: bool, has_torch: bool) -> tuple[Language, ...]:
    nothing_runs = None if has_torch else _WITHOUT_TORCH
    return tuple(
        Language(
            str(language),
            binding,
            builder.missing_tool() or nothing_runs,
            None if has_cuda else _WITHOUT_CUDA.get(str(language)),
        )
        for (language, binding), builder in BUILDERS.items()
    )


def _devices() -> tuple[DeviceState, ...]:
    """Name the devices torch could use, and those it could not."""
    found = [DeviceState("cpu", machine.processor_name(), None)]
    remark = None
    if importlib.util.find_spec("torch") is not None and torch_cuda() is None:
        remark = "out of reach: the installed torch is for CPUs only"
    found += [
        DeviceState(f"cuda:{index}", name, remark) for index, name in enumerate(machine.gpu_names())
    ]
    if len(found) == 1:
        found.append(DeviceState("cuda", "none found", None))
    found += [DeviceState("rocm", name, REFUSALS["rocm"]) for name in amd_gpus()]
    if sys.platform == "darwin":
        found.append(DeviceState("metal", "Apple", REFUSALS["metal"]))
    return tuple(found)


def torch_cuda() -> str | None:
    """Read which CUDA torch was built for, without importing it; None for CPUs only."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    try:
        text = (Path(spec.origin).parent / "version.py").read_text(encoding="utf-8")
    except OSError:
        return None
    match = _CUDA_OF_TORCH.search(text)
    return match.group(1) if match else None


def _tools() -> tuple[Tool, ...]:
    tools = [Tool("python", platform.python_version(), sys.executable)]
    for package in _PACKAGES:
        version = _version_of(package)
        place = None
        if package == "torch" and version is not None:
            cuda = torch_cuda()
            place = f"for CUDA {cuda}" if cuda else "for CPUs only"
        tools.append(Tool(package, version, place))
    command = compiler_command()
    tools.append(_program("C++ compiler", command))
    toolkit = find_toolkit()
    tools.append(_program("nvcc", [str(toolkit.nvcc)] if toolkit else None))
    return tuple(tools)


def _program(name: str, command: list[str] | None) -> Tool:
    if command is None:
        return Tool(name, None, None)
    try:
        done = subprocess.run(
            [*command, "--version"],
            capture_output=True,
            text=True,
            timeout=_TOOL_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Tool(name, None, f"{command[0]} does not start: {error}")
    match = _VERSION.search(done.stdout)
    return Tool(name, match.group() if match else "of unknown version", " ".join(command))


def _version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _folders(dataset: Path | None) -> tuple[Folder, ...]:
    folders = {
        "build cache": settings.cache_path(),
        "dataset": dataset or settings.dataset_path(),
        "temporary files": Path(tempfile.gettempdir()),
        "shared memory": Path("/dev/shm"),  # noqa: S108  # looked at, not written
    }
    return tuple(
        Folder(
            purpose,
            str(path),
            path.is_dir(),
            system.why_unwritable(path) is None,
            system.free_bytes(path),
        )
        for purpose, path in folders.items()
    )


def _clock() -> ClockState:
    """Ask the wall clock for its resolution, and see what it does."""
    ticks = [time.perf_counter_ns() for _ in range(_TICKS)]
    steps = {later - earlier for earlier, later in itertools.pairwise(ticks)}
    return ClockState(
        resolution_ns=time.get_clock_info("perf_counter").resolution * 1e9,
        smallest_step_ns=float(min((step for step in steps if step > 0), default=0)),
        overhead_ns=overhead_ns(WallClock()),
    )


def _machine() -> MachineState:
    memory = psutil.virtual_memory()
    load = os.getloadavg()
    return MachineState(
        cores=machine.physical_cores(),
        usable_cpus=len(os.sched_getaffinity(0)),
        cpu_quota=system.cpu_quota(),
        memory_bytes=int(memory.total),
        available_bytes=int(memory.available),
        load=(load[0], load[1], load[2]),
        busiest=tuple(Process(name, used) for name, used in system.busiest_processes()),
        governor=system.governor(),
        has_turbo=system.has_turbo(),
        huge_pages=system.huge_pages(),
    )


@dataclass(frozen=True, slots=True)
class _Noise:
    """The noise floor, and whether a kernel could be run to measure it."""

    floor: NoiseFloor | None
    failure: str | None
    can_run: bool


def _noise(*, has_torch: bool) -> _Noise:
    """Measure where kernels run; where they cannot, in this process, so that there is a figure."""
    if not has_torch:
        return _Noise(noise_in_this_process(), "torch is not installed", can_run=False)
    device = "cuda:0" if machine.gpu_names() and torch_cuda() else "cpu"
    try:
        found = noise_in_workers(device, threads=machine.physical_cores())
        return _Noise(found, None, can_run=True)
    except DeviceBusyError as error:
        return _Noise(noise_in_this_process(), str(error), can_run=True)
    except BenchError as error:
        return _Noise(noise_in_this_process(), str(error), can_run=False)


def _installation() -> Installation:
    names = importlib.metadata.packages_distributions().get(_IMPORT_NAME, [])
    versions = sorted({f"{name} {_version_of(name)}" for name in names})
    own = Path(__file__).parents[2].resolve()
    folders = [Path(entry or ".").resolve() / _IMPORT_NAME for entry in sys.path]
    others = {str(each) for each in folders if (each / "__init__.py").is_file() and each != own}
    return Installation(str(own), tuple(versions), tuple(sorted(others)))


def _advice_on_languages(languages: tuple[Language, ...], *, has_torch: bool) -> list[str]:
    """Give the command for each thing that is missing, once."""
    advice = []
    if not has_torch:
        advice.append(f"to run anything, install torch:\n{TORCH_INSTALL_LINES}")
    missing: dict[str, list[str]] = {}
    for each in languages:
        if each.missing is not None:
            name = each.language if each.binding is None else f"{each.language} ({each.binding})"
            missing.setdefault(each.missing, []).append(name)
    return advice + [f"for {', '.join(names)}: {text}" for text, names in missing.items()]


def _advice_on_devices(devices: tuple[DeviceState, ...]) -> list[str]:
    if any(each.remark for each in devices):
        return ["to use the GPU, install a torch with CUDA: pip install --force-reinstall torch"]
    return []


def _advice_on_folders(folders: tuple[Folder, ...]) -> list[str]:
    advice = []
    for each in folders:
        least = _LEAST_SHARED_BYTES if each.purpose == "shared memory" else _LEAST_FREE_BYTES
        if not each.is_writable and each.purpose == "build cache":
            advice.append(
                f"{each.path} is not writable; set {settings.CACHE_VARIABLE} to another folder"
            )
        elif not each.is_writable and each.purpose == "dataset":
            advice.append(f"{each.path} is not writable; record traces elsewhere: run --output DIR")
        elif not each.is_writable:
            advice.append(f"{each.path} ({each.purpose}) is not writable")
        elif each.free_bytes is not None and each.free_bytes < least:
            advice.append(
                f"{each.path} ({each.purpose}) is nearly full: {each.free_bytes >> 20} MB free"
            )
    return advice


def _advice_on_timing(state: MachineState, found: _Noise) -> list[str]:
    advice = []
    if found.failure is not None and importlib.util.find_spec("torch") is not None:
        advice.append(f"a kernel could not be timed: {found.failure}")
    busy = sum(each.processors for each in state.busiest)
    if busy > _BUSY_SHARE:
        names = ", ".join(each.name for each in state.busiest)
        advice.append(f"other programs compute ({names}): times will be noisy; wait, or stop them")
    if state.governor not in {None, "performance"}:
        advice.append(
            f"the CPU frequency governor is {state.governor!r}; for steady times: "
            "sudo cpupower frequency-set --governor performance"
        )
    if state.cpu_quota is not None and state.cpu_quota < state.cores:
        advice.append(
            f"this container may use {state.cpu_quota:g} of {count_text(state.cores, 'core')}: "
            f"give --threads {max(1, int(state.cpu_quota))}, or it will be throttled"
        )
    if found.floor is not None and found.floor.spread > _LARGE_NOISE:
        advice.append(
            f"samples spread by {found.floor.spread:.0%}: differences below that need many of them"
        )
    return advice


def _advice_on_isolation(levels: tuple[SandboxLevel, ...]) -> list[str]:
    """Run what nobody has read in a container where the process level is not whole."""
    process, container = levels
    missing = [each.name for each in process.measures if each.missing is not None]
    if not missing:
        return []
    instead = (
        "run them with --sandbox container" if container.missing is None else container.missing
    )
    return [
        f"solutions are sandboxed without {', '.join(missing)}; for code you do not trust: {instead}"
    ]


def _advice_on_counters(children_uncounted: str | None) -> list[str]:
    """Say what goes unseen where the kernel gives no counters."""
    if children_uncounted is None:
        return []
    unseen = "on a CPU brief children of a solution can compute unseen"
    remedy = "sudo sysctl kernel.perf_event_paranoid=2, or run as root"
    return [f"the kernel gives no counters ({children_uncounted}): {unseen}; {remedy}"]


def _advice_on_installation(installation: Installation) -> list[str]:
    advice = []
    if len(installation.distributions) > 1:
        names = [each.partition(" ")[0] for each in installation.distributions]
        advice.append(
            f"several packages provide {_IMPORT_NAME}: {', '.join(installation.distributions)}; keep one: "
            f"pip uninstall {' '.join(names)}, then install the one you want"
        )
    if installation.other_copies:
        advice.append(
            f"{_IMPORT_NAME} comes from {installation.imported_from}; "
            f"there are other copies on the path: {', '.join(installation.other_copies)}"
        )
    return advice
