from __future__ import annotations

import pytest
import torch

from flashinfer_bench.judging import JudgedCall, JudgeVerdict, Tolerance
from flashinfer_bench.judging.outputs import OutputJudge

COUNT = 2000
FORGIVING = Tolerance(rtol=1e-2, atol=1e-2, required_matched_ratio=0.9, max_error_cap=10.0)


def closed(change: object, *, calls: int = 6, tolerance: Tolerance = FORGIVING) -> JudgeVerdict:
    """Judge calls whose expected outputs are drawn anew, with what `change` makes of them."""
    generator = torch.Generator().manual_seed(0)
    case = OutputJudge(("y",)).open_case(tolerance)
    for number in range(calls):
        expected = torch.randn(COUNT, generator=generator)
        got = expected.clone()
        change(got, number, generator)
        assert case.hear(JudgedCall((), [got], [expected])).is_accepted
    return case.close()


def leaves_out(got: torch.Tensor, number: int, generator: torch.Generator) -> None:
    got[-150:] = 0.0


def puts_the_mean(got: torch.Tensor, number: int, generator: torch.Generator) -> None:
    got[100:250] = got.mean()


def answers_with_other_elements(got: torch.Tensor, number: int, generator: torch.Generator) -> None:
    got[:150] = got[150:300].clone()


def rounds_the_same_ones(got: torch.Tensor, number: int, generator: torch.Generator) -> None:
    got[:150] *= 1.2


def adds_noise_to_the_same_ones(got: torch.Tensor, number: int, generator: torch.Generator) -> None:
    got[:150] += 0.3 * torch.randn(150, generator=generator)


def leaves_out_others_each_time(got: torch.Tensor, number: int, generator: torch.Generator) -> None:
    got[150 * number : 150 * (number + 1)] = 0.0


def is_off_somewhere(got: torch.Tensor, number: int, generator: torch.Generator) -> None:
    places = torch.randperm(COUNT, generator=generator)[:180]
    got[places] += torch.randn(180, generator=generator)


@pytest.mark.parametrize("change", [leaves_out, puts_the_mean, answers_with_other_elements])
def test_elements_left_out_in_every_call_are_not_forgiven(change: object) -> None:
    verdict = closed(change)

    assert not verdict.is_accepted
    assert "output 'y': 1" in verdict.explanation
    assert "wrong in each of 6 calls" in verdict.explanation


@pytest.mark.parametrize(
    "change",
    [
        rounds_the_same_ones,
        adds_noise_to_the_same_ones,
        leaves_out_others_each_time,
        is_off_somewhere,
    ],
)
def test_errors_that_follow_the_truth_or_change_places_are_forgiven(change: object) -> None:
    assert closed(change).is_accepted


def test_small_elements_may_drown_in_the_noise_of_large_ones() -> None:
    case = OutputJudge(("y",)).open_case(FORGIVING)
    generator = torch.Generator().manual_seed(0)
    for _ in range(6):
        expected = torch.randn(COUNT, generator=generator)
        expected[:100] *= 0.05
        got = expected.clone()
        got[:100] += 0.2 * torch.randn(100, generator=generator)
        case.hear(JudgedCall((), [got], [expected]))

    assert case.close().is_accepted


def test_three_calls_prove_nothing() -> None:
    assert closed(leaves_out, calls=3).is_accepted


def test_where_nothing_is_forgiven_nothing_is_remembered() -> None:
    strict = Tolerance(rtol=1e-2, atol=1e-2)

    assert closed(lambda got, number, generator: None, tolerance=strict).is_accepted
