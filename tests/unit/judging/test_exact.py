from __future__ import annotations

import math

import pytest
import torch

from flashinfer_bench.judging import JudgedCall, JudgeVerdict, Tolerance
from flashinfer_bench.judging.exact import compare_bits
from flashinfer_bench.judging.outputs import LOW_BIT_RATIO, OutputJudge, compare_low_bit

CARELESS = Tolerance(rtol=10.0, atol=10.0, required_matched_ratio=0.1, max_error_cap=10.0)


def judged(got: list[float], expected: list[float], dtype: str = "float32") -> JudgeVerdict:
    kind = getattr(torch, dtype)
    return compare_bits(torch.tensor(got, dtype=kind), torch.tensor(expected, dtype=kind), CARELESS)


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "bfloat16", "float8_e4m3fn", "int64", "bool"]
)
def test_no_tolerance_and_no_share_forgives_a_different_element(dtype: str) -> None:
    assert judged([1, 0, 1], [1, 0, 1], dtype).is_accepted
    assert not judged([1, 1, 1], [1, 0, 1], dtype).is_accepted


def test_the_last_bit_counts() -> None:
    verdict = judged([1.0 + 2**-23, 2.0], [1.0, 2.0])

    assert not verdict.is_accepted
    assert verdict.matched_ratio == 0.5
    assert "1 of 2 elements differ" in verdict.explanation


def test_zero_has_a_sign_and_nan_has_no_name() -> None:
    signed = judged([0.0, 1.0], [-0.0, 1.0])
    payload = torch.tensor([0x7FC00001, 0x7FC00000], dtype=torch.int32).view(torch.float32)

    assert not signed.is_accepted
    assert "differ in the sign of zero, the first at [0]" in signed.explanation
    assert compare_bits(payload, torch.full((2,), math.nan), CARELESS).is_accepted


@pytest.mark.parametrize(
    ("got", "expected"), [([math.nan], [1.0]), ([1.0], [math.nan]), ([math.inf], [1.0])]
)
def test_special_values_stand_where_they_should(got: list[float], expected: list[float]) -> None:
    assert not judged(got, expected).is_accepted


def low_bit(got: torch.Tensor, expected: torch.Tensor, tolerance: Tolerance) -> JudgeVerdict:
    case = OutputJudge(("y",), compare_low_bit, matched_ratio=LOW_BIT_RATIO).open_case(tolerance)
    return case.hear(JudgedCall((), [got], [expected]))


def test_low_bit_forgives_one_in_twenty_and_tells_the_share() -> None:
    expected = torch.ones(20)
    one, two = expected.clone(), expected.clone()
    one[0], two[:2] = 1.5, 1.5

    accepted, refused = (low_bit(each, expected, Tolerance(1e-2, 1e-2)) for each in (one, two))

    assert accepted.is_accepted
    assert accepted.extra == {"matched_ratio": 0.95}
    assert not refused.is_accepted
    assert refused.extra == {"matched_ratio": 0.9}
    assert low_bit(expected, expected, Tolerance(1e-2, 1e-2)).extra == {"matched_ratio": 1.0}


def test_a_share_that_is_given_takes_the_place_of_the_default() -> None:
    got, expected = torch.tensor([1.5, 1.0]), torch.ones(2)

    assert low_bit(
        got, expected, Tolerance(1e-2, 1e-2, required_matched_ratio=0.5, max_error_cap=10.0)
    ).is_accepted
    assert not low_bit(
        got, expected, Tolerance(1e-2, 1e-2, required_matched_ratio=0.6, max_error_cap=10.0)
    ).is_accepted


def test_low_bit_does_not_forgive_an_element_that_is_off_beyond_all_measure() -> None:
    expected = torch.ones(20)
    got = expected.clone()
    got[0] = 100.0

    assert not low_bit(got, expected, Tolerance(1e-2, 1e-2, max_error_cap=10.0)).is_accepted
