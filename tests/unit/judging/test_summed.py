"""The judge `summed`: one bound, the sum of both tolerances."""

from __future__ import annotations

import math

import pytest

from flashinfer_bench.judging.case import Tolerance
from flashinfer_bench.judging.summed import SummedBound

torch = pytest.importorskip("torch", reason="outputs are tensors")
HALF = Tolerance(rtol=0.1, atol=1.0, required_matched_ratio=1.0)


def test_the_bound_is_the_sum_of_both_tolerances() -> None:
    expected = torch.tensor([10.0, 10.0])

    assert SummedBound()(expected + 1.9, expected, HALF).is_accepted
    assert not SummedBound()(expected + 2.1, expected, HALF).is_accepted


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_are_wrong_even_where_both_have_them(value: float) -> None:
    both = torch.tensor([1.0, value])

    assert not SummedBound()(both, both, HALF).is_accepted


def test_minus_infinity_may_be_allowed_where_both_have_it() -> None:
    judge, both = SummedBound(allows_negative_inf=True), torch.tensor([1.0, -math.inf])

    assert judge(both, both, HALF).is_accepted
    assert not judge(torch.tensor([1.0, 2.0]), both, HALF).is_accepted


def test_integers_have_the_tolerance_too() -> None:
    assert SummedBound()(torch.tensor([11]), torch.tensor([10]), HALF).is_accepted


def test_all_zeros_are_wrong_where_the_reference_has_others() -> None:
    zeros = torch.zeros(4)

    assert not SummedBound()(zeros, zeros + 0.5, HALF).is_accepted
    assert SummedBound()(zeros, zeros, HALF).is_accepted


def test_the_cap_is_absolute_and_holds_for_good_elements() -> None:
    expected = torch.full((100,), 100.0)
    got = expected.clone()
    got[0] += 5.0

    assert SummedBound(max_error_cap=5.0)(got, expected, HALF).is_accepted
    assert not SummedBound(max_error_cap=4.9)(got, expected, HALF).is_accepted


def test_one_element_in_a_hundred_is_tolerated_unless_said_otherwise() -> None:
    expected = torch.ones(100)
    got = expected.clone()
    got[0] = 9.0
    plain = Tolerance(rtol=0.01, atol=0.01)

    assert SummedBound()(got, expected, plain).is_accepted
    got[1] = 9.0
    assert not SummedBound()(got, expected, plain).is_accepted
