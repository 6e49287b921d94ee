from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import nn

from flashinfer_bench.decompose.axes import Probed, probe
from flashinfer_bench.decompose.capture import capture
from flashinfer_bench.decompose.emit.write import probed
from flashinfer_bench.decompose.forms import form
from flashinfer_bench.decompose.ir import Along, OpTrace
from flashinfer_bench.decompose.model_file import ModelObject
from tests.unit.decompose.traces import Building

Shapes = Sequence[tuple[int, ...]]


def _heads(shapes: Shapes) -> OpTrace:
    """A linear layer whose outputs are split into heads."""
    b = Building()
    x = b.input(*shapes[0])
    rows, steps, _ = shapes[0]
    y = b.linear(x, 32)
    return b.trace(b.op("torch.Tensor.view", y, (rows, steps, 4, 8), shape=(rows, steps, 4, 8)))


def _sum_of_two(shapes: Shapes) -> OpTrace:
    b = Building()
    left, right = b.input(*shapes[0]), b.input(*shapes[1])
    return b.trace(b.op("add", left, right))


def _mean_by_hand(shapes: Shapes) -> OpTrace:
    """A sum that is divided by a number made of a length."""
    b = Building()
    x = b.input(*shapes[0])
    total = b.op("sum", x, 0, shape=shapes[0][1:])
    return b.trace(b.op("mul", total, 1.0 / shapes[0][0]))


def _padded(shapes: Shapes) -> OpTrace:
    """One more element than went in."""
    b = Building()
    x = b.input(*shapes[0])
    return b.trace(b.op("pad", x, (1, 0), shape=(shapes[0][0] + 1,)))


def _doubled(shapes: Shapes) -> OpTrace:
    """Twice as many elements as went in."""
    b = Building()
    x = b.input(*shapes[0])
    return b.trace(b.op("cat", [x, x], shape=(2 * shapes[0][0],)))


def _at_most(limit: int, traced: Callable[[Shapes], OpTrace]) -> Callable[[Shapes], OpTrace | None]:
    return lambda shapes: traced(shapes) if shapes[0][1] <= limit else None


def _equally_long(shapes: Shapes) -> OpTrace | None:
    return _sum_of_two(shapes) if shapes[0] == shapes[1] else None


def _only_features(
    width: int, traced: Callable[[Shapes], OpTrace]
) -> Callable[[Shapes], OpTrace | None]:
    return lambda shapes: traced(shapes) if shapes[0][-1] == width else None


def _probed(traced: Callable[[Shapes], OpTrace | None], *shapes: tuple[int, ...]) -> Probed:
    trace = traced(shapes)
    assert trace is not None
    return probe(trace, traced)


def _sizes(found: Probed) -> dict[str, int]:
    return {axis.name: axis.size for axis in found.axes}


def test_sizes_that_change_nothing_but_sizes_are_axes() -> None:
    found = _probed(_only_features(16, _heads), (2, 6, 16))

    assert _sizes(found) == {"batch_size": 2, "seq_len": 6}


def test_equally_long_dimensions_are_lengthened_together() -> None:
    found = _probed(_equally_long, (8, 5), (8, 5))

    assert [axis.places for axis in found.axes] == [((0, 0), (1, 0)), ((0, 1), (1, 1))]


def test_a_length_with_a_limit_is_found_by_shortening() -> None:
    found = _probed(_at_most(8, _only_features(16, _heads)), (2, 8, 16))

    assert _sizes(found) == {"batch_size": 2, "seq_len": 8}


def test_a_model_that_runs_other_operations_at_other_sizes_has_no_such_axis() -> None:
    def by_length(shapes: Shapes) -> OpTrace:
        b = Building()
        x = b.input(*shapes[0])
        for _ in range(shapes[0][0]):
            x = b.op("relu", x)
        return b.trace(x)

    assert _sizes(_probed(by_length, (3, 4))) == {"features": 4}


def test_an_integer_that_follows_an_axis_is_written_along_it() -> None:
    found = _probed(_only_features(16, _heads), (2, 6, 16))

    formed = form(found, [op.id for op in found.trace.ops])

    assert formed.ops[-1].args[1] == (Along(0), Along(1), 4, 8)
    assert formed.shapes[formed.inputs[0]] == (Along(0), Along(1), 16)


def test_a_number_that_is_no_multiple_of_an_axis_keeps_it_constant() -> None:
    found = _probed(_mean_by_hand, (8, 4))

    formed = form(found, [op.id for op in found.trace.ops])

    assert [axis.name for axis in formed.axes] == ["features"]
    assert formed.shapes[formed.inputs[0]] == (8, Along(0))


def test_an_output_that_is_a_multiple_of_an_axis_keeps_it_constant() -> None:
    found = _probed(_doubled, (8,))

    formed = form(found, [op.id for op in found.trace.ops])

    assert formed.axes == ()


def test_an_output_may_be_longer_than_an_axis_by_a_constant_as_a_cache_is() -> None:
    found = _probed(_padded, (8,))

    formed = form(found, [op.id for op in found.trace.ops])

    assert [axis.size for axis in formed.axes] == [8]
    assert formed.shapes[formed.outputs[0]] == (Along(0, offset=1),)


class _Checked(nn.Module):
    """Looks at numbers: at whether all may be seen, and, if told, at how many are positive."""

    def __init__(self, *, selects: bool = False) -> None:
        super().__init__()
        self.linear, self.selects = nn.Linear(8, 8), selects

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        if not mask.all():
            y = y.masked_fill(~mask[:, None], 0.0)
        return y[y > 0] if self.selects else y


@pytest.mark.parametrize(("selects", "found"), [(False, {"batch_size": 4}), (True, {})])
def test_a_model_that_needs_values_is_run_again_with_its_own_repeated(
    selects: bool, found: dict[str, int]
) -> None:
    mask = torch.tensor([True, True, True, False])
    source = ModelObject(_Checked(selects=selects), (torch.randn(4, 8), mask), "checked")
    trace = capture(source).trace

    assert trace.front_end == "real"
    assert _sizes(probed(source, trace)) == found


def test_a_large_model_that_needs_values_is_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[probed.__module__], "_MOST_RERUN_BYTES", 100)
    mask = torch.tensor([True, True, True, False])
    source = ModelObject(_Checked(), (torch.randn(4, 8), mask), "checked")

    assert _sizes(probed(source, capture(source).trace)) == {}
