"""`check --integration`: whether a kernel goes into compiled models, asked in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from flashinfer_bench.errors import UsageError
from flashinfer_bench.report.integration import IntegrationReport, IntegrationStep

if TYPE_CHECKING:
    from collections.abc import Callable

    from flashinfer_bench.data import Solution, TraceSet

_LIMIT_S = 600
_MODULE = "flashinfer_bench.apply.integrating"


def ask(
    trace_set: TraceSet,
    solution: Solution,
    *,
    kernel: str,
    device: str,
    compiler: str,
    retell: Callable[[str], str],
) -> IntegrationReport:
    """Ask all questions about a solution; `retell` names the user's files in what is said."""
    if trace_set.root is None:
        raise UsageError("--integration reads workloads from a folder: name it with --local")
    if not trace_set.workloads.get(solution.definition):
        raise UsageError(f"{solution.definition} has no workloads to run on")
    asked = {
        "root": str(trace_set.root),
        "solution": solution.model_dump_json(),
        "device": device,
        "compiler": compiler,
    }
    with tempfile.TemporaryDirectory(prefix="flashinfer-bench-check-") as folder:
        subject = Path(folder) / "subject.json"
        subject.write_text(json.dumps(asked), encoding="utf-8")
        steps = _steps(subject)
    told = tuple(
        IntegrationStep(
            each["name"], each["verdict"], tuple(retell(line) for line in each["evidence"])
        )
        for each in steps
    )
    accepted = all(step.verdict != "refused" for step in told)
    return IntegrationReport(kernel, solution.definition, device, compiler, accepted, told)


def _steps(subject: Path) -> list[dict[str, str]]:
    """Run the questions; what ends their process is the kernel's fault."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", _MODULE, str(subject)],
            capture_output=True,
            text=True,
            check=False,
            timeout=_LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        return [_ended(f"no answer within {_LIMIT_S} s")]
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        return [_ended(lines[-1] if lines else f"ended with status {done.returncode}")]
    steps: list[dict[str, str]] = json.loads(done.stdout.splitlines()[-1])
    return steps


def _ended(why: str) -> dict[str, str]:
    return {"name": "answers", "verdict": "refused", "evidence": [why]}  # type: ignore[dict-item]
