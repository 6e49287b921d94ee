"""Libraries that a solution will import are there before it runs; one that sets their variables has them to itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from flashinfer_bench.bench import Benchmark
from tests.flow.kernels import dataset, quick, solution

if TYPE_CHECKING:
    from pathlib import Path

FIRST = "import sys\n\nprint('found', {module!r} in sys.modules, flush=True)\n"
GRADIENT = FIRST.format(module="torch.fx.experimental.symbolic_shapes") + (
    "import torch\n\n\n"
    "def run(x):\n"
    "    with torch.enable_grad():\n"
    "        y = x.detach().requires_grad_()\n"
    "        return torch.autograd.grad([(y * y).sum() / 2], [y], [torch.tensor(1.0)])[0] + 1\n"
)
COMPILED = FIRST.format(module="torch._dynamo") + (
    "import torch\n\n\nrun = torch.compile(lambda x: x + 1, backend='eager')\n"
)
WITH_ITS_OWN = (
    COMPILED.replace(
        "import torch\n", "import os\n\nos.environ['TORCH_COMPILE_DISABLE'] = '1'\nimport torch\n"
    )
    + "import torch._dynamo.config\n\nprint('disabled', torch._dynamo.config.disable, flush=True)\n"
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIB_CACHE_PATH", str(tmp_path / "cache"))


def logs(*names: str) -> list[str]:
    """Run solutions one after the other on one fork server, and give what they printed."""
    sources = {"gradient": GRADIENT, "compiled": COMPILED, "with_its_own": WITH_ITS_OWN}
    store = dataset(*(solution(sources[name], name=name) for name in names))
    printed = []
    with Benchmark(store, quick(), device="cpu") as running:
        for name in names:
            (trace,) = running.run_solution(name, dump_traces=False)
            assert trace.evaluation.status == "PASSED", trace.evaluation.log
            printed.append(trace.evaluation.log)
    return printed


@pytest.mark.parametrize("name", ["gradient", "compiled"])
def test_what_a_solution_will_need_is_imported_before_it_runs(name: str) -> None:
    (said,) = logs(name)

    assert "found True" in said


def test_variables_that_a_solution_sets_count_although_others_have_imported_what_reads_them() -> (
    None
):
    _, said = logs("compiled", "with_its_own")

    assert "found False" in said
    assert "disabled True" in said
