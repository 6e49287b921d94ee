"""Apply in code that `torch.compile` compiles: calls are operators in one graph, and what is left is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from torch import nn

import flashinfer_bench as fib
from flashinfer_bench.apply import ApplyConfig, ApplyRuntime, apply
from flashinfer_bench.data import TraceSet, save_json_file
from flashinfer_bench.data.layout import Layout
from flashinfer_bench.intercept import register_module
from flashinfer_bench.intercept.registry import ADAPTERS
from tests.marks import mostly_full
from tests.unit.apply.datasets import dataset, definition, marked, trace
from tests.unit.apply.test_flashinfer import (
    FUSED,
    KV,
    D,
    H,
    decode_case,
    decode_runtime,
    flashinfer,
)
from tests.unit.apply.test_torch_functional import GEMM, SILU, X, runtime

__all__ = ["flashinfer"]
BACKENDS = mostly_full(["eager", "inductor"], "inductor")


@pytest.fixture(autouse=True)
def _without_older_graphs() -> Iterator[None]:
    torch.compiler.reset()
    with torch.no_grad():
        yield


@apply("add")
def add(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    return A.add(B)


def around(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    return add(A * 1, B=B).relu() + 1


def sevens() -> ApplyRuntime:
    return ApplyRuntime(dataset([marked("sevens", 7)], [trace("sevens", {"M": 2})]))


def ones(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ones(rows, 4), torch.ones(rows, 4)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_decorated_function_is_answered_in_one_graph_at_any_size(backend: str) -> None:
    compiled = torch.compile(around, backend=backend, fullgraph=True)

    with sevens() as running:
        got = [float(compiled(*ones(rows))[0, 0]) for rows in (2, 3, 5, 2)]
    after = float(compiled(*ones(2))[0, 0])

    assert got == [8.0, 3.0, 3.0, 8.0]
    assert after == 3.0
    assert running.stats().hits == 2
    assert running.stats().misses_by_definition == {
        "add": {"M=3: not measured": 1, "M=5: not measured": 1}
    }


def test_dynamic_sizes_are_compiled_once() -> None:
    graphs: list[Any] = []

    def backend(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(around, backend=backend, fullgraph=True, dynamic=True)
    with sevens():
        for rows in (2, 3, 5, 8):
            compiled(*ones(rows))

    assert len(graphs) == 1


def test_a_function_whose_definition_is_not_there_is_compiled_as_it_is() -> None:
    other = apply("nowhere")(lambda A, B: A + B)
    graphs: list[str] = []

    def backend(graph: Any, _: Any) -> Any:
        graphs.append(graph.code)
        return graph.forward

    with sevens():
        torch.compile(other, backend=backend, fullgraph=True)(*ones(2))

    assert "l_args_0_ + l_args_1_" in graphs[0]


def test_what_is_compiled_is_traced_and_counted_at_each_size(tmp_path: Path) -> None:
    described = definition()
    save_json_file(described, Layout(tmp_path).definition_file(described))
    compiled = torch.compile(around, backend="aot_eager", fullgraph=True)

    with (
        fib.profile_model("model", dataset_path=tmp_path) as profiled,
        fib.enable_tracing(tmp_path, fib.TracingConfig(filter_policy="keep_first_k_by_axes")),
    ):
        for rows in (2, 3, 5, 2):
            compiled(*ones(rows))

    found = TraceSet.from_path(tmp_path).workloads["add"]
    assert [each.workload.axes["M"] for each in found] == [2, 3, 5]
    assert [use.count for use in profiled.profile.kernels] == [2, 1, 1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_layer_is_answered_after_one_call_was_compared(backend: str) -> None:
    layer, running = nn.Linear(8, 4, bias=False), runtime(GEMM, {"M": 6})
    expected = layer(X)

    with running:
        compiled = torch.compile(layer, backend=backend, fullgraph=True)
        answers = [compiled(X) for _ in range(3)]

    assert [not torch.equal(each, expected) for each in answers] == [False, True, True]
    assert running.stats().quarantined == {}


def test_a_function_in_place_writes_in_compiled_code_too() -> None:
    running = runtime(SILU, {"M": 6})

    def steps(x: torch.Tensor) -> torch.Tensor:
        y = x * 1
        return F.silu(y, inplace=True) + y

    expected = steps(X)
    with running:
        compiled = torch.compile(steps, backend="aot_eager", fullgraph=True)
        answers = [compiled(X) for _ in range(3)]

    assert running.stats().hits == 2
    torch.testing.assert_close(answers[2], expected, rtol=2e-3, atol=1e-5)
    assert not torch.equal(answers[2], expected)


def test_what_keeps_its_original_is_named() -> None:
    class Doubled(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.silu(x) * 2

    register_module(Doubled, lambda *_: None, op_types=["silu"])
    target = f"{Doubled.__module__}:{Doubled.__qualname__}.forward"
    layer, running = nn.Linear(9, 4, bias=False), runtime(GEMM, {"M": 6})
    try:
        with running:
            torch.compile(layer, backend="eager", fullgraph=True)(torch.ones(6, 9))
            with torch.enable_grad():
                needs = torch.ones(6, 8, requires_grad=True)
                found = torch.compile(lambda x: F.linear(x, torch.ones(4, 8)), backend="eager")
                found(needs).sum().backward()
    finally:
        ADAPTERS.discard(target)

    assert running.stats().hits == 0
    assert list(running.stats().left_compiled) == [
        "gemm_n4_k9: it does not fit gemm_n4_k8: n8 of A is 9, not 8",
        "torch.nn.functional:linear: compiled, and a gradient is needed",
    ]
    assert "left in compiled code  gemm_n4_k9" in str(running.stats())
    assert needs.grad is not None


@pytest.mark.parametrize("backend", BACKENDS)
def test_flashinfers_functions_are_one_graph_whatever_they_do_inside(
    flashinfer: Any,
    monkeypatch: pytest.MonkeyPatch,
    backend: str,
) -> None:
    real = flashinfer.norm.rmsnorm

    def breaks(
        *args: Any, **kwargs: Any
    ) -> Any:  # as the library, which builds its kernels when called
        torch._dynamo.graph_break()
        return real(*args, **kwargs)

    monkeypatch.setattr(flashinfer.norm, "rmsnorm", breaks)
    x, residual, weight = torch.randn(6, 8), torch.randn(6, 8), torch.randn(8)

    def steps(x: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x, residual = x * 1, residual * 1
        flashinfer.norm.fused_add_rmsnorm(x, residual, weight, eps=1e-6)
        out = torch.empty_like(x)
        flashinfer.norm.rmsnorm(x, weight, out=out)
        return x, residual, out, flashinfer.norm.rmsnorm(out, weight)

    expected = steps(x, residual)
    only = runtime(FUSED, {"M": 6}, answer="tuple(each * 1.001 for each in reference(*inputs))")
    with ApplyRuntime(only.trace_set, adapters=ADAPTERS) as running:
        compiled = torch.compile(steps, backend=backend, fullgraph=True)
        for _ in range(3):
            got = compiled(x, residual)

    for ours, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=5e-3, atol=1e-5)
    assert running.stats().hits == 2


def test_flashinfers_wrappers_run_in_one_graph_planned_outside_of_it(
    flashinfer: Any,
) -> None:
    wrapper, plan, cache = decode_case(flashinfer, "NHD", 1)
    q = torch.randn(2, H, D)
    out, lse = torch.empty(2, H, D), torch.empty(2, H)

    def step(q: torch.Tensor) -> tuple[torch.Tensor, ...]:
        wrapper.run(q * 1, cache, out=out, lse=lse, return_lse=True)
        return wrapper.run(q * 1, cache) + 0, *wrapper.run_return_lse(q * 1, cache)

    plan()
    expected = step(q)
    with decode_runtime() as running:
        plan()
        compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
        for _ in range(2):
            plan()
            got = compiled(q)

    assert (KV, running.stats().quarantined) == (2, {})
    for ours, theirs in zip((*got, out, lse), (*expected, expected[1], expected[2]), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=5e-3, atol=1e-5)
    assert running.stats().hits == 5


def test_a_solution_that_is_compiled_calls_what_it_calls() -> None:
    source = (
        "import torch\nimport torch.nn.functional as F\n\n"
        "inner = torch.compile(lambda A, B: F.linear(A, B) * 1.001, backend='eager', fullgraph=True)\n\n"
        "def run(A, B):\n    return inner(A, B)\n"
    )
    from tests.unit.apply.datasets import solution

    traces = [trace("inner", {"M": 6}, of=GEMM.name)]
    inner = solution("inner", source, of=GEMM.name)
    weight = torch.randn(4, 8)
    with ApplyRuntime(dataset([inner], traces, [GEMM]), ApplyConfig()) as running:
        for _ in range(3):
            F.linear(X, weight)

    assert running.stats().hits == 2
    assert running.stats().quarantined == {}
