"""What a worker's device can do, and whether it can do what is asked."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from typing import TYPE_CHECKING

import psutil

from flashinfer_bench import __version__
from flashinfer_bench.bench.jobs import Target
from flashinfer_bench.bench.parent.pool import hardware_of
from flashinfer_bench.bench.plan import skip_reason
from flashinfer_bench.bench.sandbox.isolation import sandbox_levels
from flashinfer_bench.compile.builder import BUILDERS
from flashinfer_bench.errors import MissingPackageError
from flashinfer_bench.serve.messages import Capability
from flashinfer_bench.serve.refusals import RefusedError
from flashinfer_bench.tensors import machine

if TYPE_CHECKING:
    from flashinfer_bench.bench.config import BenchmarkConfig
    from flashinfer_bench.data import Solution

ANY, EACH = "any", "each"
VERSION = str(__version__)
"""Of this flashinfer-bench."""


def require_torch() -> None:
    """Refuse to work where nothing can run."""
    if importlib.util.find_spec("torch") is None:
        raise MissingPackageError("torch", extra="torch", needed_for="a worker")


def capability_of(device: str, threads: int | None) -> Capability:
    """Look at a device of this machine, without starting anything; `MissingPackageError` where nothing can run."""
    require_torch()
    return Capability(
        device=device,
        kind="cpu" if device == "cpu" else "cuda",
        hardware=hardware_of(device),
        threads=threads or machine.physical_cores(),
        memory_bytes=psutil.virtual_memory().total,
        languages=sorted(
            {language for (language, _), each in BUILDERS.items() if not each.missing_tool()}
        ),
        libs=machine.package_versions(),
        sandbox=", ".join(level.name for level in sandbox_levels() if not level.missing),
        version=VERSION,
    )


def target_of(capability: Capability, config: BenchmarkConfig) -> Target:
    """Say what kind of device jobs run on there, as a plan asks."""
    return Target(
        capability.kind,
        capability.hardware,
        config.threads or capability.threads,
        arch=config.arch,
    )


def why_not(
    solution: Solution, hardware: str | None, capability: Capability, config: BenchmarkConfig
) -> str | None:
    """Say why a worker cannot run a solution; None where it can."""
    if hardware is not None and hardware.casefold() != capability.hardware.casefold():
        return f"{hardware!r} is asked for, and this is {capability.hardware!r}"
    language = solution.spec.language.value
    if language not in capability.languages:
        return f"{language} cannot be built on {capability.hardware}"
    target = target_of(capability, config)
    return skip_reason(solution, target, is_strict=config.strict_hardware)


def requirement_of(solution: Solution, hardware: str | None) -> str:
    """Hash what decides which workers can run a solution: equal ones need looking at once."""
    content = [
        hardware,
        solution.spec.language.value,
        sorted(solution.spec.target_hardware),
        any(source.path.endswith(".cu") for source in solution.sources),
    ]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]


def device_name(machine: str, device: str) -> str:
    """Name a device among those of all machines."""
    return f"{machine}/{device}"


def require_version(version: str) -> None:
    """Refuse a worker of another major version: it may judge otherwise."""
    if version.partition(".")[0] != VERSION.partition(".")[0]:
        raise RefusedError(
            409,
            f"this worker is of version {version[:40]!r} and the server of {VERSION}: install the same one",
        )
