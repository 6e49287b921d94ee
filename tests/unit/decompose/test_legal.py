from __future__ import annotations

import pytest

from flashinfer_bench.data.distributions import Integers, Normal, Uniform
from flashinfer_bench.decompose.emit.legal import LegalInput, legal_input
from flashinfer_bench.decompose.emit.testing import constant_outputs
from flashinfer_bench.decompose.ir import Named, Ref, Span
from tests.unit.decompose.traces import Building


def _drawn(b: Building, given: Ref, out: Ref) -> LegalInput:
    trace = b.trace(out)
    return legal_input(trace, given.id, {op.id for op in trace.ops})


def test_numbers_of_rows_stay_below_the_rows_of_their_table() -> None:
    b = Building()
    tokens = b.input(2, 5, dtype="int64")

    out = b.op("torch.nn.functional.embedding", tokens, b.param(300, 8), shape=(2, 5, 8))

    assert _drawn(b, tokens, out) == LegalInput(Integers(high=300))


def test_numbers_of_rows_in_a_float_tensor_stay_below_the_rows_of_their_table() -> None:
    b = Building()
    patches = b.input(2, 5, 8)
    row = b.op("select", patches, 2, 0, shape=(2, 5))
    number = b.op("torch.Tensor.to", row, Named("dtype", "int64"), dtype="int64")

    out = b.op("torch.nn.functional.embedding", number, b.param(300, 8), shape=(2, 5, 8))

    assert _drawn(b, patches, out) == LegalInput(Uniform(low=0.0, high=300.0))


def test_positions_stay_below_the_length_they_point_along() -> None:
    b = Building()
    index = b.input(4, 3, dtype="int64")

    out = b.op("gather", b.input(4, 70), 1, index, shape=(4, 3))

    assert _drawn(b, index, out) == LegalInput(Integers(high=70))


def test_classes_stay_below_their_number() -> None:
    b = Building()
    target = b.input(16, dtype="int64")

    out = b.op("torch.nn.functional.cross_entropy", b.input(16, 10), target, shape=())

    assert _drawn(b, target, out) == LegalInput(Integers(high=10))


def test_an_index_in_brackets_is_seen_through_views_and_beside_slices() -> None:
    b = Building()
    table = b.input(6, 40, 2)
    index = b.input(3, dtype="int64")
    flat = b.op("reshape", index, (3,))

    out = b.op("torch.Tensor.__getitem__", table, (Span(None, None, None), flat), shape=(6, 3, 2))

    assert _drawn(b, index, out) == LegalInput(Integers(high=40))


@pytest.mark.parametrize("hidden", [True, False])
def test_a_mask_leaves_something_of_every_row(hidden: bool) -> None:
    b = Building()
    scores, mask = b.input(4, 4), b.input(4, 4, dtype="bool")
    minus_infinity = float("-inf")

    out = (
        b.op("masked_fill", scores, mask, minus_infinity)
        if hidden
        else b.op("where", mask, scores, minus_infinity, shape=(4, 4))
    )

    assert _drawn(b, mask, out).first is not hidden


@pytest.mark.parametrize("dtype", ["bool", "int64"])
def test_what_is_picked_by_a_mask_is_as_many_as_were_seen(dtype: str) -> None:
    b = Building()
    mask = b.input(16, dtype=dtype)

    out = b.op("nonzero", mask, shape=(5, 1), dtype="int64")

    assert _drawn(b, mask, out).count == 5


def test_logarithms_and_variances_are_given_positive_numbers() -> None:
    b = Building()
    x = b.input(8)

    assert _drawn(b, x, b.op("log", x)).distribution == Uniform(low=0.5, high=1.5)


def test_weights_of_norms_are_away_from_one_and_biases_from_zero() -> None:
    b = Building()
    weight, bias = b.param(8), b.param(8)
    norm = b.op("torch.nn.functional.layer_norm", b.input(2, 8), (8,), weight, bias)

    drawn = [_drawn(b, each, norm) for each in (weight, bias)]

    assert [each.distribution for each in drawn] == [Normal(mean=1.0, std=0.2)] * 2


def test_an_output_that_follows_from_factories_alone_is_known_to_be_constant() -> None:
    b = Building()

    out = b.op("mul", b.op("arange", shape=(8,)), 2)
    trace = b.trace(out, b.op("add", b.input(8), out))

    assert constant_outputs(trace, trace.ops, trace.outputs) == [0]


def test_an_output_that_has_nothing_to_vary_is_known_to_be_constant() -> None:
    b = Building()

    alone = b.op("softmax", b.input(4, 1), -1)
    product = b.op(
        "torch.nn.functional.linear", b.op("zeros", shape=(2, 8)), b.param(3, 8), shape=(2, 3)
    )
    trace = b.trace(alone, product)

    assert constant_outputs(trace, trace.ops, trace.outputs) == [0, 1]


def test_one_bin_that_holds_all_numbers_is_known_to_be_constant() -> None:
    b = Building()

    all_of_them = b.op("histc", b.input(8), bins=1, min=0, max=0, shape=(1,))
    some = b.op("histc", b.input(8), bins=1, min=0, max=1, shape=(1,))
    trace = b.trace(all_of_them, some)

    assert constant_outputs(trace, trace.ops, trace.outputs) == [0]


def test_an_output_that_is_clamped_to_a_point_is_known_to_be_constant() -> None:
    b = Building()

    out = b.op("clamp", b.op("clamp", b.input(8), max=0.0), min=0.0, max=1.0)
    trace = b.trace(out)

    assert constant_outputs(trace, trace.ops, trace.outputs) == [0]


def test_an_output_that_can_vary_is_not_called_constant() -> None:
    b = Building()

    trace = b.trace(b.op("relu", b.op("add", b.input(8), 1.0)))

    assert constant_outputs(trace, trace.ops, trace.outputs) == []
