"""What a profiler of NVIDIA is given to run, run without one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from flashinfer_bench.data import Workload
from tests.flow.kernels import HONEST, INCREMENT, solution

pytest.importorskip("torch", reason="it runs a solution")


@pytest.mark.parametrize(("source", "code"), [(HONEST, 0), ("def run(x:\n", 1)])
def test_it_builds_and_calls_a_solution(tmp_path: Path, source: str, code: int) -> None:
    workload = Workload(axes={"n": 4}, inputs={"x": {"type": "random"}})
    files = {"definition": INCREMENT, "solution": solution(source), "workload": workload}
    for name, entity in files.items():
        (tmp_path / f"{name}.json").write_text(entity.to_json())
    words = ["-m", "flashinfer_bench.agents._solution_runner", "--data-dir", str(tmp_path)]

    done = subprocess.run(
        [sys.executable, *words, "--device", "cpu"], capture_output=True, text=True, check=False
    )

    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr.partition("error:")[0]
