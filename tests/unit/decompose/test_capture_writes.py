from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from flashinfer_bench.decompose.capture import capture
from tests.unit.decompose.replay import fns, replay, source_of, traced

X = torch.randn(4, 8, generator=torch.Generator().manual_seed(3))


def _chain(m: Any, x: Any) -> Any:
    y = m.linear(x)
    y.add_(1)
    y += x
    y.relu_()
    functional.relu(y, inplace=True)
    y.masked_fill_(y > 1, 0.5)
    return y.clamp_(0, 0.3)


def _fills(m: Any, x: Any) -> Any:
    y, z, w = torch.empty_like(x), torch.empty(4, 8), torch.empty(4, 8)
    y.fill_(3)
    z.zero_()
    w.copy_(x)
    return y + z + w * torch.empty(4, 8).copy_(x[0])


def _other_dtypes(m: Any, x: Any) -> Any:
    y = x.half() * 2
    y += x
    z = torch.zeros(4, 8, dtype=torch.float64)
    z.copy_(x)
    i = torch.arange(8) * 2
    i += 1
    return y, z, i


def _out(m: Any, x: Any) -> Any:
    y, z = torch.empty(4, 8), torch.empty(4, 8, dtype=torch.float64)
    torch.add(x, 1, out=y)
    torch.mul(x, 2, out=z)
    return y, z


def _items(m: Any, x: Any) -> Any:
    y = m.linear(x)
    y[0] = 1
    y[:, 2] = x[:, 3]
    y[y > 1] = 0
    y[torch.tensor([0, 1]), 1:3] = 7.0
    y[..., -1] += 2
    return y


def _through_views(m: Any, x: Any) -> Any:
    y = m.linear(x)
    y[:, 0].mul_(2)
    y.view(-1)[::3].add_(1)
    y.t()[0].zero_()
    y.transpose(0, 1)[2:4] = 5
    return y * 1


def _views_made_before(m: Any, x: Any) -> Any:
    y = m.linear(x)
    a, b = y[:2], y.view(2, 16)
    y.mul_(3)
    c = a + 1
    b.add_(1)
    return a, c, y.sum(), b.sum()


def _pieces(m: Any, x: Any) -> Any:
    y = m.linear(x)
    a, b = y.chunk(2, -1)
    a.mul_(2)
    b.copy_(a)
    _, d, _, _ = y.unbind(0)
    d.add_(9)
    y.split([1, 3])[0].zero_()
    return y


def _step_by_step(m: Any, x: Any) -> Any:
    out, state = torch.empty(4, 8), torch.zeros(8)
    for t in range(4):
        state = torch.tanh(x[t] + state)
        out[t] = state
    for t in range(4):
        out[t, :4].copy_(state[:4] * t)
    return out


def _overlapping(m: Any, x: Any) -> Any:
    y = m.linear(x)
    a, b = y[:, :5], y[:, 3:]
    a.add_(1)
    b.mul_(2)
    a.sub_(3)
    return a, b, y


def _deep(m: Any, x: Any) -> Any:
    y = m.linear(x).view(2, 2, 8)
    y[0][1][2:5] = 1
    y[1, :, ::2][0].add_(2)
    y.flatten(0, 1)[3] = 0
    y.select(2, 0).zero_()
    return y.sum(0)


def _with_gaps(m: Any, x: Any) -> Any:
    y = m.linear(x).t()
    y[0].mul_(2)
    y.narrow(0, 1, 2).add_(1)
    y.permute(1, 0)[1].sub_(1)
    y.unsqueeze(0).add_(1)
    return y + 0


def _reshaped_in_place(m: Any, x: Any) -> Any:
    y = m.linear(x)
    y.unsqueeze_(0)
    y.squeeze_(0)
    y.t_()
    y.transpose_(0, 1)
    return y * 2


def _diagonals(m: Any, x: Any) -> Any:
    y = m.linear(x)[:, :4].contiguous()
    torch.diagonal(y).fill_(1)
    y.diagonal().add_(2)
    return y


def _detached(m: Any, x: Any) -> Any:
    y = m.linear(x)
    y.detach().add_(1)
    y.data.mul_(2)
    return y


def _complex(m: Any, x: Any) -> Any:
    z = torch.fft.fft(x)
    torch.view_as_real(z).mul_(2)
    return z.real * 1


def _the_input(m: Any, x: Any) -> Any:
    x.mul_(2)
    return x + 1, x


def _buffers(m: Any, x: Any) -> Any:
    m.buffer.add_(x)
    m.buffer[0] = 1
    y = m.buffer + x
    m.buffer.mul_(0.5)
    return y


WRITES: list[Callable[..., Any]] = [
    _chain, _fills, _other_dtypes, _out, _items, _through_views, _views_made_before, _pieces, _step_by_step,
    _overlapping, _deep, _with_gaps, _reshaped_in_place, _diagonals, _detached, _complex, _the_input, _buffers,
]  # fmt: skip


@pytest.mark.parametrize("forward", WRITES, ids=lambda each: each.__name__.strip("_"))
def test_writing_in_place_becomes_pure_and_replays_to_the_bit(forward: Callable[..., Any]) -> None:
    source = source_of(forward, X)
    captured = capture(source)

    both = replay(source, captured)

    assert captured.trace.front_end == "meta"
    assert both.are_equal


@pytest.mark.parametrize("forward", WRITES, ids=lambda each: each.__name__.strip("_"))
def test_no_operation_of_a_trace_writes_what_it_is_given(forward: Callable[..., Any]) -> None:
    source = source_of(forward, X)
    trace = capture(source).trace

    made = [out for op in trace.ops for out in op.outs]

    assert len(made) == len(set(made))


def test_a_function_is_preferred_to_a_copy_that_is_written_into() -> None:
    found = traced(lambda m, x: (x * 2).add_(1).relu_().masked_fill_(x > 0, 1.0), X)

    assert fns(found) == ["mul", "add", "relu", "gt", "masked_fill"]


def test_a_write_of_another_dtype_stays_a_copy_that_is_written_into() -> None:
    found = traced(lambda m, x: (x.half() * 2).add_(x), X)

    assert fns(found)[-1] == "Tensor.add_"


def test_what_is_empty_is_zero_in_a_trace() -> None:
    found = traced(
        lambda m, x: torch.empty(4, 8).index_fill_(0, torch.tensor([0, 1, 2, 3]), 1.0) + x, X
    )

    assert fns(found)[0] == "zeros"


def test_a_copy_over_a_whole_tensor_is_no_operation() -> None:
    found = traced(lambda m, x: torch.empty(4, 8).copy_(x.sin()).cos(), X)

    assert fns(found) == ["sin", "cos"]


def test_a_write_to_a_buffer_that_no_output_needs_is_a_side_effect() -> None:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        m.buffer.add_(x.exp())
        return x.sin()

    found = traced(forward, X)

    assert fns(found) == ["sin"]
    assert [(each.fn, each.reason, each.detail) for each in found.trace.dropped] == [
        ("torch.exp", "side_effect", ""),
        ("torch.add", "side_effect", "writes buffer"),
    ]


def test_running_statistics_that_are_read_after_training_are_not_guessed() -> None:
    class Reads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(x) + self.norm.running_mean

    found = traced(Reads(), X)

    assert found.trace.front_end == "export"
    assert "running statistics are read after they were updated" in found.trace.notes[0]
