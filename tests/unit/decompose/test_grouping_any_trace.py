"""Whatever a model does, its tree owns every operation once and can run."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings

from flashinfer_bench.decompose.grouping import check_tree, decompose_trace
from flashinfer_bench.decompose.ir import OpTrace, Ref
from tests.unit.decompose.traces import Building

UNARY = (
    "relu",
    "sigmoid",
    "softmax",
    "cumsum",
    "flip",
    "view",
    "transpose",
    "max_pool2d",
    "tril",
    "unheard_of",
)
BINARY = ("add", "mul", "matmul", "cat", "where_both")
FACTORIES = ("zeros", "arange")


@st.composite
def traces(draw: Any) -> OpTrace:
    """Random graphs in random scopes, with shared values, prologues and buffers."""
    made = Building()
    values: list[Ref] = [made.input(4, 4), made.param(4, 4), made.buffer(4, 4)]

    def fill(depth: int) -> None:
        for _ in range(draw(st.integers(1, 7))):
            match draw(st.sampled_from(["unary", "unary", "binary", "factory", "scope"])):
                case "scope" if depth < 3:
                    name = f"m{draw(st.integers(0, 3))}"
                    is_module = draw(st.booleans())
                    with made.module(name, "Block") if is_module else made.function(name):
                        fill(depth + 1)
                case "binary":
                    pair = draw(st.sampled_from(values)), draw(st.sampled_from(values))
                    values.append(made.op(draw(st.sampled_from(BINARY)), *pair))
                case "factory":
                    values.append(made.op(draw(st.sampled_from(FACTORIES)), shape=(4, 4)))
                case _:
                    one = draw(st.sampled_from(values[-6:]))
                    values.append(made.op(draw(st.sampled_from(UNARY)), one))

    fill(0)
    made.op("add", values[-1], values[-1])
    numbers = st.sampled_from(range(len(made.ops)))
    outputs = draw(st.sets(numbers, min_size=1, max_size=3))
    return made.trace(*(Ref(made.ops[number].outs[0]) for number in sorted(outputs)))


@settings(deadline=None, max_examples=150, derandomize=True)
@given(traces())
def test_every_tree_owns_all_operations_once_and_can_run(trace: OpTrace) -> None:
    tree = decompose_trace(trace)

    assert check_tree(trace, tree) == ()
