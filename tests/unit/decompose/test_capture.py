from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from flashinfer_bench.decompose.capture import capture, probe, same_stream
from flashinfer_bench.decompose.ir import Named, Op, Plain, Ref
from flashinfer_bench.errors import UsageError
from tests.unit.decompose.replay import fns, replay, source_of, traced

X = torch.randn(4, 8, generator=torch.Generator().manual_seed(3))


def test_operators_methods_and_functions_have_one_name() -> None:
    found = traced(lambda m, x: (x + 1, x.add(1), torch.add(x, 1), x.add_(1)), X)

    assert fns(found) == ["add"] * 4


def test_a_trace_holds_shapes_dtypes_and_names_of_weights() -> None:
    trace = traced(lambda m, x: m.linear(x), X).trace

    (op,) = trace.ops
    weight = trace.values[op.ins[1]]
    assert (weight.kind, weight.name, weight.shape) == ("param", "linear.weight", (8, 8))
    assert trace.values[op.outs[0]].shape == (4, 8)


def test_shapes_are_one_tuple_and_casts_name_their_dtype() -> None:
    view, cast = traced(lambda m, x: x.view(2, -1).half(), X).trace.ops

    assert (view.fn, view.args[1]) == ("torch.Tensor.view", (2, -1))
    assert (cast.fn, cast.args[1]) == ("torch.Tensor.to", Named("dtype", "float16"))


def test_tensors_given_by_name_are_given_by_place() -> None:
    def forward(m: Any, x: torch.Tensor) -> Any:
        y = functional.linear(input=x, weight=m.linear.weight, bias=m.linear.bias)
        z = functional.scaled_dot_product_attention(query=y[None], key=y[None], value=y[None])
        return torch.softmax(input=z, dim=-1), y.split(split_size=2, dim=0)

    source = source_of(forward, X)
    captured = capture(source)

    assert all(op.args for op in captured.trace.ops)
    assert captured.trace.ops[0].kwargs == {}
    assert replay(source, captured).are_equal


def test_a_method_that_stands_on_another_argument_than_its_function_is_turned_round() -> None:
    source = source_of(lambda m, x: m.linear(x).where(x > 0, other=x), X)
    captured = capture(source)

    where = captured.trace.ops[-1]
    assert (where.fn, len(where.args), where.kwargs) == ("torch.where", 3, {})
    assert captured.trace.values[where.ins[0]].dtype == "bool"
    assert replay(source, captured).are_equal


def test_an_operator_that_writes_bits_is_the_operation_without_writing() -> None:
    def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
        mask = x > 0
        mask |= x < -1
        return mask & (x != 2)

    source = source_of(forward, X)
    captured = capture(source)

    assert fns(captured) == ["gt", "lt", "bitwise_or", "ne", "bitwise_and"]
    assert replay(source, captured).are_equal


@functools.cache
def _ramp(width: int) -> torch.Tensor:
    return torch.arange(width) * 0.5


class _Remembering(nn.Module):
    @staticmethod
    @functools.lru_cache
    def slope(width: int) -> torch.Tensor:
        return torch.arange(width) * 2.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + _ramp(8) + _ramp(8) + self.slope(8)


def test_what_a_function_has_cached_is_made_anew_in_each_run() -> None:
    source = source_of(_Remembering(), X)

    one, two = (capture(source, device="cpu") for _ in range(2))

    assert fns(one) == ["arange", "mul", "add", "add", "arange", "mul", "add"]
    assert same_stream(one.trace, two.trace) is None


def test_a_tied_weight_is_one_value_with_two_names() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    model[1].weight = model[0].weight

    trace = traced(model, X).trace

    weights = [each for each in trace.values.values() if each.shape == (8, 8)]
    assert [(each.name, each.aliases) for each in weights] == [("0.weight", ("1.weight",))]


def test_tensors_that_were_there_before_are_constants_named_by_where_they_are() -> None:
    found = traced(lambda m, x: x * m.constant + m.constants[0] - m.constants[1]["key"], X)

    constants = [each.name for each in found.trace.values.values() if each.kind == "const"]
    assert constants == ["constant", "constants[0]", "constants[1]['key']"]
    assert set(found.constants) <= set(found.trace.values)


def test_constants_are_numbered_as_they_are_read_on_meta_too() -> None:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        moved = m.constants[0].to(x.device)  # no operation
        return x * m.constant + moved

    source = source_of(forward, X)
    numbered = [
        {each.id: each.name for each in capture(source, device=device).trace.values.values()}
        for device in ("meta", "cpu")
    ]

    assert numbered[0] == numbered[1]
    assert list(numbered[0].values()).index("constant") < list(numbered[0].values()).index(
        "constants[0]"
    )


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def helper(self, x: torch.Tensor) -> torch.Tensor:
        return x.tanh()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.helper(self.inner(x))


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Block()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.block(self.block(x))


def test_scopes_lead_from_the_root_through_modules_and_functions_and_count_calls() -> None:
    ops = traced(Twice(), X).trace.ops

    places = [[(s.kind, s.path, s.call) for s in op.scope] for op in ops]
    assert places == [
        [("module", "", 0), ("module", "block", 0), ("module", "block.inner", 0)],
        [("module", "", 0), ("module", "block", 0), ("function", "Block.helper", 0)],
        [("module", "", 0), ("module", "block", 1), ("module", "block.inner", 1)],
        [("module", "", 0), ("module", "block", 1), ("function", "Block.helper", 1)],
    ]
    assert ops[0].scope[-1].is_library
    assert not ops[0].scope[1].is_library


def test_an_operation_knows_its_line() -> None:
    (op,) = traced(Lined(), X).trace.ops

    name, _, line = op.source.partition(":")
    assert name == "test_capture.py"
    assert int(line) == Lined.forward.__code__.co_firstlineno + 1


class Lined(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin()


def test_what_no_output_needs_is_left_out_and_said() -> None:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        x.exp()
        return x.sin()

    found = traced(forward, X)

    assert fns(found) == ["sin"]
    assert [(each.fn, each.reason) for each in found.trace.dropped] == [("torch.exp", "dead")]


def test_dropout_that_does_nothing_is_elided_and_one_that_draws_is_stochastic() -> None:
    idle = traced(nn.Sequential(nn.Dropout(0.0), nn.Linear(8, 8)), X).trace
    active = traced(nn.Sequential(nn.Dropout(0.5), nn.Linear(8, 8)), X).trace

    assert [op.fn for op in idle.ops] == ["torch.nn.functional.linear"]
    assert [each.reason for each in idle.dropped] == ["elided"]
    assert [op.is_stochastic for op in active.ops] == [True, False]


def test_batch_norm_in_training_is_pure_and_its_statistics_are_side_effects() -> None:
    trace = traced(nn.BatchNorm1d(8), X).trace

    (op,) = trace.ops
    assert op.args[1:3] == (None, None)
    assert op.is_train
    assert {each.reason for each in trace.dropped} == {"side_effect"}
    assert [value.kind for value in trace.values.values()].count("buffer") == 0


def test_a_structure_tells_indices_from_numbers() -> None:
    trace = traced(lambda m, x: {"a": x + 1, "b": [x, None, 3]}, X).trace

    assert trace.output_structure == {"a": 0, "b": [1, Plain(None), Plain(3)]}
    assert trace.outputs == ("v0", "i0")


@dataclass
class Answer:
    hidden: torch.Tensor
    parts: list[torch.Tensor]


def test_a_dataclass_is_returned_by_its_fields() -> None:
    trace = traced(lambda m, x: Answer(x + 1, [x * 2]), X).trace

    assert trace.output_structure == {"hidden": 0, "parts": [1]}


def test_a_forward_that_returns_no_tensor_is_refused() -> None:
    with pytest.raises(UsageError, match="forward returns no tensor but a int"):
        traced(lambda m, x: 3, X)


def test_inputs_may_be_nested_and_hold_numbers() -> None:
    trace = traced(lambda m, xs, k: xs[0] + xs[1]["b"] * k, [X, {"b": X * 2}], 2.5).trace

    assert trace.input_structure == [[0, {"b": 1}], Plain(2.5)]
    assert len(trace.inputs) == 2


def test_a_number_that_hangs_on_values_makes_the_trace_hold_for_it_only() -> None:
    found = traced(lambda m, x: x * 2 if x.sum() > 1e9 else x * 3, X)

    (op,) = found.trace.ops
    assert op.args == (Ref("i0"), 3)
    assert found.trace.front_end == "real"
    assert "test_capture.py" in found.trace.specialisations[0]
    assert "__bool__() gave False" in found.trace.specialisations[0]


def test_a_number_that_hangs_on_nothing_is_known_without_values() -> None:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        return x * int(torch.arange(4).sum()) if bool(torch.ones(3).bool().all()) else x

    found = traced(forward, X)

    assert found.trace.front_end == "meta"
    assert found.trace.specialisations == ()
    assert found.trace.ops[-1].args == (Ref("i0"), 6)


def test_a_selection_by_values_is_a_specialisation_with_its_size() -> None:
    found = traced(lambda m, x: x[x > 0], X)

    assert found.trace.front_end == "real"
    assert found.trace.specialisations[0].endswith(
        f"how much __getitem__() selects depends on values: {int((X > 0).sum())} in this run"
    )


def test_attention_is_opened_into_its_pieces() -> None:
    model = nn.MultiheadAttention(8, 2, batch_first=True).eval()

    class Attends(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = model

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.attention(x, x, x, need_weights=False)[0]

    found = traced(Attends(), X[None])

    assert fns(found).count("nn.functional.linear") == 2
    assert "nn.functional.scaled_dot_product_attention" in fns(found)


def test_autocast_is_noted_with_each_operation() -> None:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = m.linear(x)
        return y + 1

    inside, outside = traced(forward, X).trace.ops

    assert (inside.autocast, outside.autocast) == (("cpu", "bfloat16"), None)


def test_a_run_with_values_gives_the_same_operations_and_shows_every_tensor() -> None:
    source = source_of(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), X[None])
    seen: dict[int, tuple[torch.Tensor, ...]] = {}

    def watch(op: Op, outs: tuple[torch.Tensor, ...], ins: Any) -> None:
        assert set(ins) == set(op.ins)
        seen[op.id] = outs

    without = capture(source).trace
    with_values = capture(source, device="cpu", watch=watch).trace

    assert same_stream(without, with_values, numbers=True) is None
    assert set(seen) >= {op.id for op in without.ops}
    assert all(not each.is_meta for outs in seen.values() for each in outs)


def test_watching_shows_inputs_as_they_were_before_a_write() -> None:
    before = {}

    def watch(op: Op, outs: Any, ins: Any) -> None:
        before.update({op.fn: {name: each.clone() for name, each in ins.items()}})

    capture(source_of(lambda m, x: (x * 2).add_(1), X), device="cpu", watch=watch)

    assert torch.equal(before["torch.add"]["v0"], X * 2)


def test_streams_part_at_the_first_other_operation() -> None:
    one = traced(lambda m, x: x.sin().cos(), X).trace
    other = traced(lambda m, x: x.sin().tan(), X).trace

    assert "operation 1 (torch.cos" in (same_stream(one, other) or "")


def test_probing_records_with_other_sizes() -> None:
    source = source_of(lambda m, x: m.linear(x).view(x.shape[0], 2, 4), X)

    trace = probe(source, {0: (10, 8)})

    assert trace.values[trace.outputs[0]].shape == (10, 2, 4)
    assert same_stream(trace, capture(source).trace) is None


RECURRENT = [
    nn.LSTM(8, 6, 2),
    nn.LSTM(8, 6, batch_first=True, bidirectional=True),
    nn.LSTM(8, 6, proj_size=3, batch_first=True),
    nn.GRU(8, 6, 2, batch_first=True),
    nn.RNN(8, 6, nonlinearity="relu"),
]


@pytest.mark.parametrize("model", RECURRENT, ids=repr)
def test_a_recurrent_network_is_one_operation_of_the_right_shapes(model: nn.Module) -> None:
    source = source_of(model, X[None].expand(3, 4, 8).contiguous())
    captured = capture(source)

    working = [op.fn for op in captured.trace.ops if "zeros" not in op.fn]
    assert len(working) == 1
    both = replay(source, captured)
    assert both.are_equal
    assert [tuple(each.shape) for each in both.original] == [
        captured.trace.values[value].shape for value in captured.trace.outputs
    ]


MODELS = [
    nn.Transformer(8, 2, 1, 1, 16, batch_first=True, dropout=0.0),
    nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2).eval(),
]


def test_transformers_of_the_library_replay_to_the_bit() -> None:
    whole = source_of(MODELS[0], X[None], X[None, :3])
    encoder = source_of(MODELS[1], X[None])

    found = [replay(each, capture(each)).are_equal for each in (whole, encoder)]

    assert found == [True, True]
    assert capture(whole).trace.front_end == "meta"


def test_random_numbers_replay_with_the_same_seed() -> None:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        noise = torch.empty(4, 8).normal_() + torch.rand_like(x)
        return functional.dropout(x + noise, 0.5) + torch.bernoulli(torch.sigmoid(x))

    source = source_of(forward, X)
    captured = capture(source)

    assert sum(op.is_stochastic for op in captured.trace.ops) == 4
    assert replay(source, captured).are_equal


def test_all_operators_replay_to_the_bit() -> None:
    def forward(m: Any, x: torch.Tensor) -> Any:
        b = x > 0
        return (
            (1 - x, 1 / x, 2**x, 7 // (x + 10), 7 % (x + 10), -x, abs(x), x**2, x @ x.T),
            (torch.ones(4) @ x, ~b, b & (x < 1), b | (x < 1), b ^ (x < 1), x != 0, x // 2, x % 2),
            (
                x.half(),
                x.double(),
                x.int(),
                x.type_as(x.half()),
                x.mT,
                x.T,
                x.t(),
                x[..., None, 1:],
            ),
            (x.max(1), x.sort(), x.topk(2), torch.std_mean(x), torch.chunk(x, 2), x.unbind()),
            (sum(row * i for i, row in enumerate(x)), x * math.inf, torch.full((3,), 2.5)),
        )

    source = source_of(forward, X)
    captured = capture(source)

    assert captured.trace.front_end == "meta"
    assert replay(source, captured).are_equal


def test_a_size_that_is_a_tensor_is_asked_for_and_stands_as_a_number() -> None:
    found = traced(lambda m, x: x.reshape(torch.tensor(2) * 2, -1), X)

    (op,) = found.trace.ops
    assert (op.fn, op.args[1]) == ("torch.reshape", (4, -1))
