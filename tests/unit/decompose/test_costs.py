from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flashinfer_bench.decompose.costs import Cost, edges, flops, launches_cost, node_cost
from flashinfer_bench.decompose.grouping import decompose_trace
from flashinfer_bench.decompose.ir import OpTrace
from tests.unit.decompose.traces import Building

LINEAR, CONV = "torch.nn.functional.linear", "torch.nn.functional.conv2d"
TRANSPOSED = "torch.nn.functional.conv_transpose2d"


@pytest.mark.parametrize(
    ("fn", "shapes", "out", "expected"),
    [
        (LINEAR, [(4, 8), (16, 8)], (4, 16), 2 * 4 * 8 * 16),
        (LINEAR, [(4, 8), (16, 8), (16,)], (4, 16), 2 * 4 * 8 * 16 + 4 * 16),
        ("bmm", [(2, 4, 8), (2, 8, 3)], (2, 4, 3), 2 * 2 * 4 * 8 * 3),
        ("addmm", [(3,), (4, 8), (8, 3)], (4, 3), 2 * 4 * 8 * 3),
        ("tensordot", [(4, 8), (8, 3)], (4, 3), 2 * 4 * 8 * 3),
        (CONV, [(2, 3, 8, 8), (5, 3, 3, 3)], (2, 5, 6, 6), 2 * (2 * 5 * 6 * 6) * 27),
        (CONV, [(2, 6, 8, 8), (6, 1, 3, 3)], (2, 6, 6, 6), 2 * (2 * 6 * 6 * 6) * 9),
        (TRANSPOSED, [(2, 3, 4, 4), (3, 5, 2, 2)], (2, 5, 8, 8), 2 * (2 * 3 * 16) * 5 * 4),
        ("relu", [(4, 8)], (4, 8), 32),
        ("softmax", [(4, 8)], (4, 8), 5 * 32),
        ("sum", [(4, 8)], (4,), 32),
        ("torch.Tensor.view", [(4, 8)], (32,), 0),
        ("torch.nn.functional.embedding", [(4,), (100, 8)], (4, 8), 0),
    ],
)
def test_arithmetic_is_counted_by_the_shapes(
    fn: str, shapes: list[tuple[int, ...]], out: tuple[int, ...], expected: int
) -> None:
    made = Building()
    result = made.op(fn, *(made.input(*shape) for shape in shapes), shape=out)

    assert flops(made.trace(result), made.ops[0]) == expected


@pytest.mark.parametrize(
    ("equation", "shapes", "out", "expected"),
    [
        ("bij,bjk->bik", [(2, 4, 8), (2, 8, 3)], (2, 4, 3), 2 * 2 * 4 * 8 * 3),
        ("...ij,jk->...ik", [(2, 5, 4, 8), (8, 3)], (2, 5, 4, 3), 2 * 2 * 5 * 4 * 8 * 3),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)], (2, 5), 2 * (2 * 3 * 4 + 2 * 4 * 5)),
        ("bi,bij,bj->b", [(6, 7), (6, 7, 8), (6, 8)], (6,), 2 * (6 * 7 * 8 + 6 * 8)),
    ],
)
def test_an_einsum_costs_the_indices_of_two_operands_at_a_time(
    equation: str, shapes: list[tuple[int, ...]], out: tuple[int, ...], expected: int
) -> None:
    made = Building()
    result = made.op("einsum", equation, *(made.input(*shape) for shape in shapes), shape=out)

    assert flops(made.trace(result), made.ops[0]) == expected


def test_attention_costs_both_products_and_the_softmax() -> None:
    made = Building()
    q, k = made.input(2, 4, 6, 8), made.input(2, 4, 10, 8)
    fn = "torch.nn.functional.scaled_dot_product_attention"
    out = made.op(fn, q, k, k, shape=(2, 4, 6, 8))

    scores = 2 * 4 * 6 * 10
    assert flops(made.trace(out), made.ops[0]) == scores * (2 * 8 + 5 + 2 * 8)


def test_a_recurrent_layer_costs_its_matrices_once_for_each_step() -> None:
    made = Building()
    x, hidden = made.input(5, 3, 8), made.input(1, 3, 4)
    weights: Any = [made.param(16, 8), made.param(16, 4), made.param(16), made.param(16)]
    out = made.op("lstm", x, (hidden, hidden), weights, True, 1, shape=(5, 3, 4))

    assert flops(made.trace(out), made.ops[0]) == 2 * 5 * 3 * (16 * 8 + 16 * 4)


def _cost(trace: OpTrace) -> Cost:
    return node_cost(trace, decompose_trace(trace))


def test_traffic_is_each_input_and_output_once() -> None:
    made = Building()
    x = made.input(4, 8, dtype="float16")
    out = made.op("mul", x, x, dtype="float16")

    cost = _cost(made.trace(out))

    assert (cost.read_bytes, cost.written_bytes, cost.intensity) == (64, 64, 32 / 128)


def test_an_expanded_tensor_is_read_without_its_repeats() -> None:
    made = Building()
    x = made.input(4, 8)
    made.values[x.id] = replace(made.values[x.id], strides=(0, 1))

    assert _cost(made.trace(made.op("relu", x))).read_bytes == 8 * 4


def test_of_a_table_only_the_rows_looked_up_are_read() -> None:
    made = Building()
    indices, table = made.input(4, dtype="int64"), made.param(1000, 8)
    out = made.op("torch.nn.functional.embedding", indices, table, shape=(4, 8))

    cost = _cost(made.trace(out))

    assert cost.read_bytes == 4 * 8 + 4 * 8 * 4


def test_fusing_saves_what_lies_between_the_kernels() -> None:
    made = Building()
    x = made.linear(made.input(4, 8), 8)
    wide = made.op("torch.Tensor.view", x, (8, 4), shape=(8, 4))
    trace = made.trace(made.op("relu", wide))
    tree = decompose_trace(trace)

    (edge,) = edges(trace, tree)

    assert (edge.source, edge.targets) == ("kernel:linear", ("kernel:relu",))
    assert edge.saved_bytes == 2 * 4 * 8 * 4
    saved = launches_cost(trace, tree).bytes_moved - node_cost(trace, tree).bytes_moved
    assert edge.saved_bytes == saved


def test_what_is_returned_is_written_all_the_same() -> None:
    made = Building()
    x = made.linear(made.input(4, 8), 8)
    trace = made.trace(x, made.op("relu", x))

    (edge,) = edges(trace, decompose_trace(trace))

    assert edge.saved_bytes == 4 * 8 * 4
