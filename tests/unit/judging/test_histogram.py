from __future__ import annotations

import torch

from flashinfer_bench.judging import Tolerance
from flashinfer_bench.judging.elementwise import compare, error_histogram


def test_errors_are_counted_by_powers_of_ten() -> None:
    expected = torch.zeros(20, dtype=torch.float64)
    got = expected.clone()
    got[:4] = torch.tensor([0.05, 0.5, 0.6, 1e6])
    got[4] = float("nan")

    text = error_histogram(got, expected)

    assert text.splitlines() == [
        "  absolute error  elements",
        "            none  ######################## 15",
        "      up to 1e-1  ## 1",
        "       up to 1e0  ### 2",
        "       above 1e4  ## 1",
        "   NaN, infinity  ## 1",
    ]


def test_a_handful_of_elements_needs_no_histogram() -> None:
    assert error_histogram(torch.ones(3), torch.zeros(3)) == ""


def test_a_wrong_output_is_explained_with_indices_and_a_histogram() -> None:
    expected = torch.zeros(4, 8)
    got = expected.clone()
    got[2, 3] = 7.0

    verdict = compare(got, expected, Tolerance(1e-2, 1e-2))

    assert "at [2, 3]: got 7, expected 0" in verdict.explanation
    assert "up to 1e1  # 1" in verdict.explanation


def test_a_right_output_is_not_explained() -> None:
    assert compare(torch.ones(32) + 1e-6, torch.ones(32), Tolerance(1e-2, 1e-2)).explanation == ""
