"""What could hold a solution on this machine, found by trying it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass

import msgspec

from flashinfer_bench.bench.sandbox import container
from flashinfer_bench.bench.sandbox.enforcement import MEASURES
from flashinfer_bench.bench.sandbox.policy import Missing
from flashinfer_bench.data import settings

_PROBE_TIMEOUT_S = 30


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


def sandbox_levels() -> tuple[SandboxLevel, ...]:
    """Say which levels `--sandbox` can put in force here, and what each lacks."""
    obstacle = container.missing_program()
    reasons = {each.measure: each.reason for each in _missing_measures()}
    measures = tuple(
        SandboxMeasure(name, meaning, reasons.get(name)) for name, meaning in MEASURES.items()
    )
    return (SandboxLevel("process", None, measures), SandboxLevel("container", obstacle, ()))


def _missing_measures() -> tuple[Missing, ...]:
    """Let a process shut itself in as a solution's does."""
    with tempfile.TemporaryDirectory(prefix="flashinfer-bench-") as folder:
        command = [sys.executable, "-P", "-m", "flashinfer_bench.bench.sandbox.probe"]
        environment = settings.environment_copy() | {"TMPDIR": folder}
        try:
            done = subprocess.run(
                command,
                env=environment,
                cwd=folder,
                capture_output=True,
                timeout=_PROBE_TIMEOUT_S,
                check=True,
            )
            return msgspec.json.decode(done.stdout, type=tuple[Missing, ...])
        except (OSError, subprocess.SubprocessError, msgspec.DecodeError) as error:
            return tuple(Missing(name, f"the trial failed: {error}") for name in MEASURES)
