"""Inputs of pieces are drawn such that operations further on are defined, and vary."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

import flashinfer_bench as fib
from flashinfer_bench.data.distributions import Normal, Uniform
from flashinfer_bench.decompose.emit.legal import legal_input
from flashinfer_bench.decompose.emit.testing import constant_outputs
from flashinfer_bench.decompose.ir import Ref
from flashinfer_bench.decompose.verify.values import error, mark
from tests.unit.decompose.traces import Building


class Step(nn.Module):
    """A function of tensors as a model."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *given: torch.Tensor) -> torch.Tensor:
        return self.function(*given)


class FrozenNorm(nn.Module):
    """Normalises by statistics that no library's operation reads."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("running_mean", torch.zeros(64))
        self.register_buffer("running_var", torch.ones(64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(8):
            x = functional.relu((x - self.running_mean) * (self.running_var + 1e-5).rsqrt())
        return x


class OnlyExpert(nn.Module):
    """Gives each token the best of its experts, with all of the weight."""

    def __init__(self, experts: int = 4) -> None:
        super().__init__()
        self.router = nn.Linear(8, experts, bias=False)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        weight, chosen = route(self.router(x))
        return weight * x, chosen


def route(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    weight, chosen = logits.softmax(-1).topk(1, -1)
    return weight / weight.sum(-1, keepdim=True), chosen


class MaskedImages(nn.Module):
    """Puts rows that come from elsewhere where a mask is true."""

    def forward(self, x: torch.Tensor, rows: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        return x.masked_scatter(there.unsqueeze(-1), rows) * 2


class Languages(nn.Module):
    """Fills what belongs to a language."""

    def forward(self, x: torch.Tensor, language: torch.Tensor) -> torch.Tensor:
        filled = torch.zeros_like(x)
        filled[language == 0] = x[language == 0] * 2
        return filled


def _passes(model: nn.Module, given: tuple[torch.Tensor, ...], folder: Path) -> list[str]:
    found = fib.decompose(model.eval(), given, name="step")
    found.write(folder)
    report = found.verify(folder, seeds=1)
    return [f"{each.code} {each.message}" for each in report.findings if each.severity == "error"]


@pytest.mark.parametrize(
    ("function", "at"),
    [
        (lambda x: (x + 1e-5).sqrt(), 4.0),
        (lambda x: (1 - torch.exp(2 * x)).sqrt(), -4.0),
        (lambda x: (-x / 4 - 1).log(), -8.0),
        (lambda x: (x - 3.0).rsqrt(), 4.0),
    ],
)
def test_numbers_are_such_that_what_is_made_of_them_is_defined(
    function: Callable[..., torch.Tensor], at: float, tmp_path: Path
) -> None:
    assert _passes(Step(function), (torch.full((4, 8), at),), tmp_path / "out") == []


def test_factors_are_small_enough_for_the_angle_between_them(tmp_path: Path) -> None:
    unit = functional.normalize(torch.randn(2, 8, 16), dim=-1)
    model = Step(lambda q, k: torch.acos(torch.matmul(q, k.transpose(-1, -2))) / 3.0)

    assert _passes(model, (unit, 0.5 * unit.flip(1)), tmp_path / "out") == []


def test_an_interval_is_led_back_through_what_is_done_with_a_number() -> None:
    b = Building()
    x = b.input(4, 8)
    trace = b.trace(b.op("sqrt", b.op("rsub", b.op("exp", b.op("mul", x, 2.0)), 1.0)))

    drawn = legal_input(trace, x.id, {op.id for op in trace.ops}).distribution

    assert isinstance(drawn, Uniform)
    assert drawn.high < 0
    assert torch.tensor(2 * drawn.high).exp() <= 0.5 + 1e-3


def test_numbers_beside_one_that_stands_for_padding_are_as_large() -> None:
    b = Building()
    x = b.input(4, 8)
    trace = b.trace(b.op("sub", x, 1123581321.0))

    drawn = legal_input(trace, x.id, {op.id for op in trace.ops}).distribution

    assert drawn == Normal(mean=0.0, std=1123581321.0)


def test_statistics_of_a_norm_that_is_written_out_are_no_weights(tmp_path: Path) -> None:
    assert _passes(FrozenNorm(), (torch.randn(2, 64),), tmp_path / "out") == []


@pytest.mark.parametrize("experts", [1, 4])
def test_the_weight_of_the_only_expert_is_known_to_be_one(experts: int, tmp_path: Path) -> None:
    assert _passes(OnlyExpert(experts), (torch.randn(16, 8),), tmp_path / "out") == []


def test_a_share_that_is_not_all_is_not_called_constant() -> None:
    b = Building()

    def share(weights: Ref, total: tuple[int, ...]) -> Ref:
        return b.op("div", weights, b.op("sum", weights, -1, keepdim=True, shape=total))

    of_two = share(b.op("softmax", b.input(4, 2), -1), (4, 1))
    of_any_sign = share(b.input(4, 1), (4, 1))
    trace = b.trace(of_two, of_any_sign)

    assert constant_outputs(trace, trace.ops, trace.outputs) == []


def test_probabilities_that_were_picked_out_are_no_rows_of_them() -> None:
    b = Building()
    rows = b.op("softmax", b.input(4, 8), -1)
    picked = b.op("gather", rows, -1, b.input(4, 1, dtype="int64"), shape=(4, 1))
    out = b.op("masked_fill", picked, b.input(4, 1, dtype="bool"), 0.0)
    trace = b.trace(out)

    drawn = legal_input(trace, picked.id, {trace.ops[-1].id}).distribution

    assert drawn == Uniform(low=0.0, high=1.0)


def test_a_mask_has_as_many_places_as_there_are_rows_for_them(tmp_path: Path) -> None:
    there = torch.zeros(2, 16, dtype=torch.bool)  # this run has none

    given = (torch.randn(2, 16, 8), torch.randn(6, 8), there)
    assert _passes(MaskedImages(), given, tmp_path / "out") == []


def test_what_is_filled_by_a_mask_has_as_many_rows_as_the_run_had(tmp_path: Path) -> None:
    given = (torch.randn(8, 4), torch.zeros(8, dtype=torch.int64))

    assert _passes(Languages(), given, tmp_path / "out") == []


def clipped(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    x = x * scale
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x * (1e3 / (norm + 1e-6)).clamp(max=1.0)


def test_steps_that_leave_numbers_as_they_are_have_their_kernels(tmp_path: Path) -> None:
    model = Step(lambda x, y, tau: clipped(x, y) * tau)

    given = (torch.randn(4, 8), torch.randn(4, 8), torch.ones(4, 1))
    assert _passes(model, given, tmp_path / "out") == []


def test_a_tensor_that_gives_its_shape_alone_is_no_input(tmp_path: Path) -> None:
    model = Step(lambda x, y: torch.sigmoid((x * 2.0).view_as(y) + 1.0) * y.sin())

    assert _passes(model, (torch.randn(4, 8), torch.randn(4, 2, 4)), tmp_path / "out") == []


def test_numbers_that_are_to_be_conjugated_have_a_mark() -> None:
    number = torch.randn(4, dtype=torch.complex64)

    assert mark(number.conj()) == mark(number.conj().resolve_conj())
    assert error(number.conj(), number.conj().resolve_conj()) == 0
