"""Every judge accepts the reference itself, NaN and infinity included, and refuses it with one element changed."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch", reason="judges compare tensors")

from flashinfer_bench.judging import JUDGES, Judge, Tolerance  # noqa: E402  # needs torch

FLOATS = ["float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
EXACT = ["int64", "int32", "int16", "int8", "bool"]
SPECIALS = [math.nan, math.inf, -math.inf, 0.0, -0.0]
STRICT = Tolerance()


@pytest.fixture(params=sorted(JUDGES))
def judge(request: pytest.FixtureRequest) -> Judge:
    return JUDGES[request.param]


def reference(dtype: str) -> torch.Tensor:
    """Plain values and, where the dtype has them, NaN and both infinities."""
    values = torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]).to(getattr(torch, dtype))
    specials = torch.tensor([SPECIALS, SPECIALS]).to(values.dtype)
    return torch.cat([values, specials], dim=1) if dtype in FLOATS else values


@pytest.mark.parametrize("dtype", FLOATS + EXACT)
def test_it_accepts_the_reference_itself(judge: Judge, dtype: str) -> None:
    verdict = judge(reference(dtype), reference(dtype), STRICT)

    assert verdict.is_accepted
    assert (verdict.max_absolute, verdict.max_relative, verdict.matched_ratio) == (0.0, 0.0, 1.0)
    assert verdict.explanation == ""


@pytest.mark.parametrize("dtype", FLOATS + EXACT)
@pytest.mark.parametrize("index", [(0, 0), (1, 2)])
def test_it_refuses_one_element_changed(judge: Judge, dtype: str, index: tuple[int, int]) -> None:
    changed = reference(dtype)
    changed[index] = (~reference("bool")[index]).to(changed.dtype)  # 0 for 1 and 1 for 0

    verdict = judge(changed, reference(dtype), STRICT)

    assert not verdict.is_accepted
    assert verdict.matched_ratio < 1.0
    assert str(list(index)) in verdict.explanation


@pytest.mark.parametrize("special", SPECIALS[:3])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_it_refuses_a_special_value_in_place_of_a_number(
    judge: Judge, dtype: str, special: float
) -> None:
    changed = reference(dtype)
    changed[0, 0] = special

    assert not judge(changed, reference(dtype), STRICT).is_accepted


@pytest.mark.parametrize("column", [3, 4, 5])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_it_refuses_a_number_in_place_of_a_special_value(
    judge: Judge, dtype: str, column: int
) -> None:
    changed = reference(dtype)
    changed[1, column] = 1.0

    assert not judge(changed, reference(dtype), STRICT).is_accepted


def test_it_refuses_the_poison_of_an_output_that_was_never_written(judge: Judge) -> None:
    expected = torch.zeros(4)

    assert not judge(torch.full((4,), math.nan), expected, STRICT).is_accepted


def test_it_accepts_outputs_without_elements(judge: Judge) -> None:
    assert judge(torch.empty(0, 3), torch.empty(0, 3), STRICT).is_accepted


def test_it_changes_neither_side(judge: Judge) -> None:
    got, expected = reference("float32"), reference("float32")
    got[0, 0] = 5.0
    before = [got.view(torch.int32).clone(), expected.view(torch.int32).clone()]

    judge(got, expected, STRICT)

    assert torch.equal(got.view(torch.int32), before[0])
    assert torch.equal(expected.view(torch.int32), before[1])
