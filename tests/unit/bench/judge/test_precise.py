"""The reference in float64 means what it meant, only without rounding."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="references compute with tensors")

from flashinfer_bench.bench.judge.precise import (  # noqa: E402  # needs torch
    nudged,
    precision,
    run_in_double,
    size_in_double,
)

X = torch.randn(50, 8, generator=torch.Generator().manual_seed(1))


def exact(reference: Callable[..., Any], *arguments: Any) -> list[Any] | None:
    produced = reference(*arguments)
    native = list(produced) if isinstance(produced, tuple) else [produced]
    return run_in_double(reference, arguments, native)


@pytest.mark.parametrize(
    "reference",
    [
        torch.exp,
        lambda x: torch.exp(x.float()).to(torch.bfloat16),
        lambda x: torch.exp(x.to(torch.float16).to(dtype=torch.float32)),
        lambda x: torch.exp(x.bfloat16().half()),
        lambda x: torch.exp(x.type(torch.float32)) + torch.zeros(8, dtype=torch.float32),
        lambda x: torch.exp(x) * torch.ones(8),
        lambda x: torch.exp(x.to(torch.ones(1, dtype=torch.bfloat16))),
        lambda x: torch.empty_like(x).copy_(torch.exp(x)),
    ],
    ids=["plain", "cast", "to", "narrow", "type", "default dtype", "to a tensor", "like"],
)
def test_every_cast_the_reference_asks_for_is_wide(reference: Callable[..., Any]) -> None:
    found = exact(reference, X)

    assert found is not None
    assert found[0].dtype is torch.float64
    assert float((found[0] - X.double().exp()).abs().max()) < 1e-12


def test_several_outputs_and_integers_come_along() -> None:
    found = exact(lambda x: (x.mean(-1), x.argmax(-1)), X)

    assert found is not None
    assert [each.dtype for each in found] == [torch.float64, torch.int64]


def test_rounding_to_eight_bits_is_part_of_what_is_meant() -> None:
    found = exact(lambda x: x.to(torch.float8_e4m3fn).to(torch.float32) * 2, X)

    assert found is not None
    assert torch.equal(found[0], X.to(torch.float8_e4m3fn).double() * 2)


def test_packed_bytes_are_read_as_they_are() -> None:
    packed = torch.tensor([1.5, -2.0]).view(torch.uint8)

    found = exact(lambda x, p: x[:, :2] * p.view(torch.float32), X, packed)

    assert found is not None
    assert torch.equal(found[0], X[:, :2].double() * torch.tensor([1.5, -2.0]).double())


@pytest.mark.parametrize(
    "reference",
    [
        lambda x: x.view(torch.int32).float(),
        lambda x: torch.tensor(x.detach().numpy().astype("float32")),
        lambda x: x > 0,
        lambda x: x.double().float() if x.dtype is torch.float32 else x[0],
        lambda x: x if x.dtype is torch.float32 else 1 / 0,
    ],
    ids=["looks at bits", "leaves torch", "no float", "another shape", "raises"],
)
def test_what_cannot_be_run_so_gives_nothing(reference: Callable[..., Any]) -> None:
    assert exact(reference, X) is None


def test_settings_are_as_before() -> None:
    exact(lambda x: 1 / 0 if x.dtype is torch.float64 else x, X)

    assert torch.get_default_dtype() is torch.float32
    assert torch.zeros(1, dtype=torch.float16).dtype is torch.float16


def test_a_reference_that_draws_numbers_draws_the_same_each_time() -> None:
    first, second = (exact(lambda x: x + torch.rand(8), X) for _ in range(2))

    assert first is not None
    assert second is not None
    assert torch.equal(first[0], second[0])


def test_arguments_are_not_changed() -> None:
    before = X.clone()
    exact(lambda x: x.clone().add_(1).mul_(2), X)

    assert torch.equal(X, before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_nudged_floats_are_off_in_their_last_bit_and_nothing_else_is(dtype: torch.dtype) -> None:
    x = X.to(dtype)
    relative = (nudged(x) - x.double()).abs() / x.double().abs()

    assert nudged(3) == 3
    assert torch.equal(nudged(torch.arange(3)), torch.arange(3))
    assert torch.equal(nudged(x), nudged(x))
    assert 0 < float(relative.max()) <= torch.finfo(dtype).eps / 4


def pair(got: Any, wide: Any, number: int = 0) -> tuple[int, Any, Any]:
    return number, got, wide


def test_the_ratio_is_of_root_mean_square_errors_against_the_exact_values() -> None:
    wide = torch.full((4,), 2.0, dtype=torch.float64)

    found = precision([pair(wide.float() + 0.04, wide)], [pair(wide.float() + 0.01, wide)])

    assert found is not None
    assert found["solution_rms_error"] == pytest.approx(0.04, rel=1e-4)
    assert found["reference_rms_error"] == pytest.approx(0.01, rel=1e-4)
    assert found["ratio"] == pytest.approx(4.0, rel=1e-3)


def test_of_several_outputs_the_worst_is_told() -> None:
    wide = torch.ones(4, dtype=torch.float64)
    native = [pair(wide.float() + 0.01, wide), pair(wide.float() + 0.01, wide)]
    ours = [pair(wide.float() + 0.01, wide), pair(wide.float() + 0.03, wide)]

    found = precision(ours, native)

    assert found is not None
    assert found["ratio"] == pytest.approx(3.0, rel=1e-3)


def test_rounding_is_no_fault_where_the_reference_is_exact_by_chance() -> None:
    wide = torch.linspace(1, 2, 1000, dtype=torch.float64)
    narrow = wide.bfloat16()

    found = precision([pair(narrow, wide)], [pair(wide, wide)])

    assert found is not None
    assert found["ratio"] < 2


def test_an_error_where_all_is_zero_is_infinitely_larger() -> None:
    zero = torch.zeros(4, dtype=torch.float64)

    wrong = precision([pair(zero.float() + 1e-3, zero)], [pair(zero.float(), zero)])
    right = precision([pair(zero.float(), zero)], [pair(zero.float(), zero)])

    assert wrong is not None
    assert right is not None
    assert (wrong["ratio"], right["ratio"]) == (math.inf, 1.0)


def test_without_numbers_there_is_nothing_to_tell() -> None:
    assert precision([], []) is None


def test_the_size_counts_floats_as_eight_bytes() -> None:
    arguments = [torch.zeros(10, dtype=torch.bfloat16), torch.zeros(10, dtype=torch.int32), 1.0]

    assert size_in_double(arguments) == 80 + 40
