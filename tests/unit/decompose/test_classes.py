from __future__ import annotations

from typing import Any

import pytest

from flashinfer_bench.decompose.classes import CLASSES, NAMES, TABLE, classify, key
from flashinfer_bench.decompose.ir import Named, Ref, Span
from tests.unit.decompose.traces import Building


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        ("torch.nn.functional.conv2d", "HEAVY"),
        ("torch.ops.aten.addmm.default", "HEAVY"),
        ("torch.nn.functional.layer_norm", "NORM"),
        ("torch.softmax", "NORM"),
        ("torch.nn.functional.max_pool2d", "POOL"),
        ("torch.logsumexp", "RED"),
        ("torch.nn.functional.cross_entropy", "RED"),
        ("torch.nn.functional.embedding", "MOVE"),
        ("torch.Tensor.__setitem__", "MOVE"),
        ("torch.nn.functional.unfold", "MOVE"),
        ("torch.Tensor.unfold", "VIEW"),
        ("torch.Tensor.view", "VIEW"),
        ("torch.Tensor.T.__get__", "VIEW"),
        ("torch.arange", "GEN"),
        ("torch.Tensor.__radd__", "EW"),
        ("torch.Tensor.clamp_", "EW"),
    ],
)
def test_an_operation_has_the_class_of_its_name_however_it_is_written(
    fn: str, expected: str
) -> None:
    made = Building()
    out = made.op(fn, made.input(2, 3))

    assert classify(made.trace(out), made.ops[0]) == expected


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (Span(0, 2, None), "VIEW"),
        ((Named("ellipsis", "..."), None, 3), "VIEW"),
        ([0, 2], "MOVE"),
        ((Span(None, None, None), Ref("v1")), "MOVE"),
    ],
)
def test_an_index_moves_data_only_where_it_gathers(index: Any, expected: str) -> None:
    made = Building()
    x, _ = made.input(4, 4), made.input(2, dtype="int64")
    out = made.op("torch.Tensor.__getitem__", x, index, shape=(2, 4))

    assert classify(made.trace(out), made.ops[0]) == expected


def test_max_of_two_tensors_is_elementwise_and_max_of_one_is_a_reduction() -> None:
    made = Building()
    x = made.input(4, 4)
    larger, largest = made.op("max", x, x), made.op("max", x, 1, shape=(4,), outs=2)

    trace = made.trace(larger, largest)

    assert [classify(trace, op) for op in trace.ops] == ["EW", "RED"]


def test_a_cast_to_the_dtype_it_has_is_plumbing() -> None:
    made = Building()
    x = made.input(4)
    same = made.op("torch.Tensor.to", x)
    other = made.op("torch.Tensor.to", x, dtype="float16")

    trace = made.trace(same, other)

    assert [classify(trace, op) for op in trace.ops] == ["VIEW", "CAST"]


def test_an_einsum_that_sums_nothing_is_elementwise() -> None:
    made = Building()
    x, y = made.input(4), made.input(5)
    outer = made.op("einsum", "i,j->ij", x, y, shape=(4, 5))
    product = made.op("einsum", "ij,j->i", outer, y, shape=(4,))

    trace = made.trace(product)

    assert [classify(trace, op) for op in trace.ops] == ["EW", "HEAVY"]


def test_an_unknown_operation_is_elementwise_if_its_shape_is_the_broadcast_of_its_inputs() -> None:
    made = Building()
    x, row = made.input(4, 3), made.input(3)
    wide = made.op("mystery", x, row)
    narrow = made.op("mystery", x, row, shape=(4,))

    trace = made.trace(wide, narrow)

    assert [classify(trace, op) for op in trace.ops] == ["EW", "OPAQUE"]


def test_random_operations_are_random_whatever_their_name() -> None:
    made = Building()
    drawn = made.op("torch.nn.functional.dropout", made.input(3), is_stochastic=True)

    assert classify(made.trace(drawn), made.ops[0]) == "RNG"


def test_every_name_has_one_class() -> None:
    names = [name for each in NAMES.values() for name in each.split()]

    assert sorted(names) == sorted(TABLE)
    assert set(NAMES) == set(CLASSES) - {"OPAQUE"}


def test_names_of_one_operation_are_one_key() -> None:
    written = ("torch.Tensor.__truediv__", "torch.true_divide", "torch.Tensor.div_", "torch.div")

    assert {key(fn) for fn in written} == {"div"}
