from __future__ import annotations

import pytest

from flashinfer_bench.bench.parent.used_libraries import libraries_of, sets_variables
from flashinfer_bench.data import BuildSpec, Solution, SourceFile, SupportedLanguages

COMPILED = "import torch\n\n\nrun = torch.compile(lambda x: x + 1)\n"


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


def test_what_compiles_needs_the_compiler() -> None:
    found = libraries_of(solution_of(COMPILED), "cpu")

    assert "torch._dynamo" in found
    assert "torch._inductor.compile_fx" in found


def test_an_ordinary_solution_needs_nothing() -> None:
    assert libraries_of(solution_of("def run(x):\n    return x.relu()\n"), "cuda:0") == ()


@pytest.mark.parametrize(("device", "expected"), [("cuda:0", True), ("cpu", False)])
def test_triton_is_imported_where_it_is_not_interpreted(device: str, expected: bool) -> None:
    assert ("triton" in libraries_of(solution_of("import triton", "triton"), device)) == expected


@pytest.mark.parametrize(
    "name", ["TORCHINDUCTOR_MAX_AUTOTUNE", "TORCHDYNAMO_DISABLE", "TORCH_LOGS"]
)
def test_a_solution_that_may_set_a_variable_has_an_interpreter_of_its_own(name: str) -> None:
    solution = solution_of(f'import os\n\nos.environ["{name}"] = "1"\n{COMPILED}')

    assert sets_variables(solution)
    assert libraries_of(solution, "cpu") == ()


def test_macros_of_cpp_are_no_variables() -> None:
    kernel = solution_of("import torch\n\n\nrun = torch.compile(print)\n")
    source = SourceFile(path="kernel.cpp", content="TORCH_CHECK(true);")
    both = kernel.model_copy(update={"sources": [*kernel.sources, source]})

    assert not sets_variables(both)


def test_a_variable_matters_only_to_what_is_imported() -> None:
    assert not sets_variables(solution_of('import os\n\nos.environ["TORCH_LOGS"] = "x"\n'))
