"""Operations as Python: what is written computes what the trace says."""

from __future__ import annotations

import pytest
import torch

from flashinfer_bench.decompose import names
from flashinfer_bench.decompose.axes import Probed
from flashinfer_bench.decompose.emit.code import function_body
from flashinfer_bench.decompose.forms import form
from flashinfer_bench.decompose.ir import Interface, Named, Op, OpTrace, Ref, Span, Value

ALL = Span(None, None, None)
X, Y = Ref("x"), Ref("y")


def _trace(*ops: Op) -> OpTrace:
    values = {name: Value(name, (4, 4), "float32", "input", name) for name in ("x", "y")}
    for op in ops:
        values |= {out: Value(out, (4, 4), "float32", "inter", "made") for out in op.outs}
    return OpTrace("m", values, ops, ("x", "y"), [0, 1], ops[-1].outs, [0])


def _op(
    fn: str, *args: object, number: int = 0, outs: tuple[str, ...] = ("a",), **kwargs: object
) -> Op:
    structure = tuple(range(len(outs))) if len(outs) > 1 else None
    return Op(number, fn, args, kwargs, outs, (), structure=structure)


def _lines(*ops: Op) -> list[str]:
    trace = _trace(*ops)
    faces = Interface(("x", "y"), trace.outputs)
    return function_body(form(Probed(trace), [op.id for op in ops], faces=faces), ["x", "y"])


def _run(lines: list[str], x: torch.Tensor, y: torch.Tensor) -> object:
    source = "def run(x, y):\n" + "\n".join(f"    {line}" for line in lines)
    scope: dict[str, object] = {"torch": torch, "F": torch.nn.functional}
    exec(source, scope)
    run = scope["run"]
    assert callable(run)
    return run(x, y)


@pytest.mark.parametrize(
    ("op", "line"),
    [
        (_op("torch.add", X, Y), "return x + y"),
        (_op("torch.rsub", X, 1), "return 1 - x"),
        (_op("torch.Tensor.__rpow__", X, -2.0), "return (-2.0) ** x"),
        (_op("torch.Tensor.__rtruediv__", X, 1), "return 1 / x"),
        (_op("torch.add", X, Y, alpha=2), "return torch.add(x, y, alpha=2)"),
        (_op("torch.neg", X), "return -x"),
        (_op("torch.Tensor.view", X, (2, 8)), "return x.view((2, 8))"),
        (_op("torch.Tensor.T.__get__", X), "return x.T"),
        (_op("torch.Tensor.__getitem__", X, (ALL, Span(None, -1, 2))), "return x[:, :-1:2]"),
        (_op("torch.Tensor.__getitem__", X, (Named("ellipsis", "..."), None)), "return x[..., None]"),
        (_op("torch.Tensor.to", X, Named("dtype", "float64")), "return x.to(torch.float64)"),
        (_op("torch.masked_fill", X, X, float("-inf")), 'return torch.masked_fill(x, x, float("-inf"))'),
        (_op("torch.nn.functional.gelu", X, approximate="tanh"), 'return F.gelu(x, approximate="tanh")'),
        (_op("torch.zeros", (4, 4)), "return torch.zeros((4, 4), device=x.device)"),
        (_op("torch.nn.functional.pad", X, (1, 1), value=float("inf")), 'return F.pad(x, (1, 1), value=float("inf"))'),
    ],
)  # fmt: skip
def test_an_operation_is_written_as_a_person_would(op: Op, line: str) -> None:
    assert _lines(op) == [line]


def test_several_outputs_are_unpacked() -> None:
    split = _op("torch.split", X, 2, outs=("a", "b"))

    lines = _lines(split, _op("torch.add", Ref("a"), Ref("b"), number=1, outs=("c",)))

    assert lines == ["split, split_2 = torch.split(x, 2)", "return split + split_2"]


def test_a_copy_that_is_changed_leaves_the_original_alone() -> None:
    written = _op("torch.Tensor.__setitem__", X, (ALL, 0), Y)
    x = torch.zeros(4, 4)

    result = _run(_lines(written), x, torch.ones(4))

    assert isinstance(result, torch.Tensor)
    assert (x.sum().item(), result.sum().item()) == (0.0, 4.0)


def test_operations_in_autocast_share_its_context() -> None:
    first = Op(0, "torch.matmul", (X, Y), {}, ("a",), (), autocast=("cpu", "bfloat16"))
    second = Op(1, "torch.relu", (Ref("a"),), {}, ("b",), (), autocast=("cpu", "bfloat16"))

    lines = _lines(first, second)

    assert lines == [
        "with torch.autocast(x.device.type, dtype=torch.bfloat16):",
        "    matmul = x @ y",
        "    relu = torch.relu(matmul)",
        "return relu",
    ]


def test_long_calls_are_broken_at_their_commas_and_nowhere_in_a_string() -> None:
    equation = "abcdefghijklmnop, qrstuvwxyz" * 4
    lines = _lines(_op("torch.einsum", equation, X, Y))

    assert "".join(line.strip() for line in lines).count(equation) == 1


def test_a_result_never_hides_a_builtin() -> None:
    lines = _lines(_op("torch.sum", X, 0), _op("torch.relu", Ref("a"), number=1, outs=("b",)))

    assert lines == ["sum_1 = torch.sum(x, 0)", "return torch.relu(sum_1)"]


@pytest.mark.parametrize(
    "name", ["torch.add", "torch.rsub", "torch.Tensor.__rtruediv__", "torch.remainder", "torch.eq"]
)
def test_what_is_written_is_what_the_trace_evaluates_to(name: str) -> None:
    op = _op(name, X, 3)
    x = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))

    result = _run(_lines(op), x, x)

    assert isinstance(result, torch.Tensor)
    assert torch.equal(result, names.call(op, {"x": x})[0])
