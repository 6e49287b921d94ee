"""What the user's FlashInfer compiled before, a solution loads and does not compile again."""

from __future__ import annotations

import importlib.metadata
from typing import TYPE_CHECKING

import pytest

from flashinfer_bench import Benchmark
from flashinfer_bench.data import EvaluationStatus
from tests.flow.kernels import dataset, quick, solution

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("flashinfer", reason="flashinfer-python==0.6.8 is not installed")

LOADS = """
import os
import pathlib

os.environ["FLASHINFER_CUDA_ARCH_LIST"] = "9.0a"  # no device is asked
import flashinfer.jit.env as places
from flashinfer.jit.norm import gen_norm_module

KEPT = gen_norm_module()
ASIDE = gen_norm_module.__globals__["gen_jit_spec"]("not_compiled_yet", [])


def can_write(path):
    try:
        path.write_text("mine")
    except OSError:
        return False
    return True


def run(x):
    found = KEPT.is_aot and KEPT.aot_path.read_text() == "compiled before" and not ASIDE.is_aot
    own = str(places.FLASHINFER_WORKSPACE_DIR).startswith(str(pathlib.Path.home()))
    return x + (1 if found and own and not can_write(KEPT.aot_path) else 2)
"""


@pytest.mark.parametrize("level", ["process", "container"])
def test_a_solution_loads_kernels_that_were_compiled_before(
    level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = importlib.metadata.version("flashinfer-python")
    cache = tmp_path / "home" / ".cache" / "flashinfer" / version
    kernel = cache / "90a" / "cached_ops" / "norm" / "norm.so"
    kernel.parent.mkdir(parents=True)
    kernel.write_text("compiled before")
    monkeypatch.setenv("FLASHINFER_WORKSPACE_BASE", str(tmp_path / "home"))
    traces = dataset(solution(LOADS))

    done = Benchmark(traces, quick(sandbox=level), device="cpu").run_all()

    (trace,) = done.traces["increment"]
    assert trace.evaluation is not None
    assert trace.evaluation.status is EvaluationStatus.PASSED, trace.evaluation.log
    assert kernel.read_text() == "compiled before"
