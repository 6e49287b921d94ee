from __future__ import annotations

import pytest

from flashinfer_bench.bench.parent.used_libraries import libraries_of
from flashinfer_bench.data import BuildSpec, Solution, SourceFile, SupportedLanguages


def solution_of(source: str, language: str = "python") -> Solution:
    spec = BuildSpec(
        language=SupportedLanguages(language), target_hardware=["cpu"], entry_point="main.py::run"
    )
    sources = [SourceFile(path="main.py", content=source)]
    return Solution(name="s", definition="d", author="me", spec=spec, sources=sources)


@pytest.mark.parametrize(
    "line", ["torch.autograd.grad(y, x, g)", "y.backward(g)", "class F(torch.autograd.Function):"]
)
def test_gradients_need_symbolic_shapes(line: str) -> None:
    assert libraries_of(solution_of(line), "cpu") == ("torch.fx.experimental.symbolic_shapes",)


@pytest.mark.parametrize(
    "source", ["def run(x):\n    return x.relu()\n", "run = torch.compile(lambda x: x + 1)\n"]
)
def test_others_need_nothing(source: str) -> None:
    assert libraries_of(solution_of(source), "cuda:0") == ()


@pytest.mark.parametrize(("device", "expected"), [("cuda:0", True), ("cpu", False)])
def test_triton_is_imported_where_it_is_not_interpreted(device: str, expected: bool) -> None:
    assert ("triton" in libraries_of(solution_of("import triton", "triton"), device)) == expected
