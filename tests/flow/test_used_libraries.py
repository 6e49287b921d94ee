"""What a solution will import at its first call is there before it runs, and changes nothing for others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from flashinfer_bench.bench import Benchmark
from tests.flow.kernels import dataset, quick, solution

if TYPE_CHECKING:
    from pathlib import Path

GRADIENT = """
import sys
print("found", "torch.fx.experimental.symbolic_shapes" in sys.modules, flush=True)
import torch

def run(x):
    with torch.enable_grad():
        y = x.detach().requires_grad_()
        return torch.autograd.grad([(y * y).sum() / 2], [y], [torch.tensor(1.0)])[0] + 1
"""
WITH_A_VARIABLE = """
import os
import sys
print("found", "torch._dynamo" in sys.modules, "triton" in sys.modules, flush=True)
os.environ["TORCHINDUCTOR_MAX_AUTOTUNE"] = "1"
import torch
import torch._inductor.config
print("autotunes", torch._inductor.config.max_autotune, flush=True)

run = torch.compile(lambda x: x + 1, backend="eager")
"""
COMPILED = """
import torch

@torch.compile
def run(x):
    return x + 1
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIB_CACHE_PATH", str(tmp_path / "cache"))


def logs(**sources: str) -> list[str]:
    """Run solutions one after the other on one fork server, and give what they printed."""
    store = dataset(*(solution(source, name=name) for name, source in sources.items()))
    printed = []
    with Benchmark(store, quick(), device="cpu") as running:
        for name in sources:
            (trace,) = running.run_solution(name, dump_traces=False)
            assert trace.evaluation.status == "PASSED", trace.evaluation.log
            printed.append(trace.evaluation.log)
    return printed


def test_what_a_gradient_needs_is_imported_before_it_runs() -> None:
    (said,) = logs(gradient=GRADIENT)

    assert "found True" in said


def test_a_variable_that_a_solution_sets_counts_whoever_ran_before() -> None:
    _, said = logs(gradient=GRADIENT, own=WITH_A_VARIABLE)

    assert "found False False" in said
    assert "autotunes True" in said


@pytest.mark.full
def test_a_compiled_solution_passes_whoever_ran_before() -> None:
    assert len(logs(gradient=GRADIENT, compiled=COMPILED)) == 2
