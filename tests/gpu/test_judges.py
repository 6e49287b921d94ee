"""Judges look at tensors where they are: the same verdicts on a card as on a CPU."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch

from flashinfer_bench.data import Definition
from flashinfer_bench.judging import JudgedCall, JudgeVerdict, Tolerance
from flashinfer_bench.judging.judges import judge_for
from tests.unit.judging.test_sampling import defined, rows
from tests.unit.judging.test_top_k import INDICES, SCORES, VALUES
from tests.unit.judging.test_top_k import defined as top_k_defined

pytestmark = pytest.mark.gpu


def on_card(values: list[Any]) -> list[Any]:
    return [value.cuda() if isinstance(value, torch.Tensor) else value for value in values]


def heard(
    definition: Definition, inputs: list[Any], got: list[Any], expected: list[Any]
) -> JudgeVerdict:
    case = judge_for(definition).open_case(Tolerance(1e-2, 1e-2))
    return case.hear(JudgedCall(inputs, got, expected)).merged(case.close())


@pytest.mark.parametrize("indices", [[1, 2, 3], [5, 1, 3], [1, 2, 4], [1, 2, 2]])
def test_a_choice_is_judged_alike(indices: list[int]) -> None:
    chosen = torch.tensor([indices])
    inputs, got = [torch.zeros(6), SCORES], [SCORES.gather(-1, chosen), chosen]

    here = heard(top_k_defined(), inputs, got, [VALUES, INDICES])
    there = heard(top_k_defined(), on_card(inputs), on_card(got), on_card([VALUES, INDICES]))

    assert there == here


@pytest.mark.parametrize("limits", [{}, {"top_k": 40}, {"top_p": 0.8}, {"top_k": 40, "top_p": 0.8}])
def test_draws_are_judged_alike(limits: dict[str, float]) -> None:
    probs = rows(6, 3000)
    kept = probs.topk(30).indices if limits else None
    weights = probs if kept is None else torch.zeros_like(probs).scatter_(-1, kept, probs)
    draws = torch.multinomial(weights, 200, replacement=True)
    inputs = [probs, *limits.values()]
    returned = [[draws[:, call].clone()] for call in range(200)]
    judge = judge_for(defined("probs", *limits))

    here = judge.open_case(Tolerance(1e-2, 1e-2)).hear_repeats(inputs, returned)
    there = judge.open_case(Tolerance(1e-2, 1e-2)).hear_repeats(
        on_card(inputs), [on_card(each) for each in returned]
    )

    assert there.is_accepted == here.is_accepted
    assert there.explanation.split(",")[0] == here.explanation.split(",")[0]


def test_a_large_vocabulary_takes_no_time_on_a_card() -> None:
    probs = rows(64, 200_000).cuda()
    judge = judge_for(defined("probs"))
    draws = torch.multinomial(probs, 100, replacement=True)
    returned = [[draws[:, call].clone()] for call in range(100)]
    judge.open_case(Tolerance(1e-2, 1e-2)).hear_repeats([probs], returned)
    started_s = time.perf_counter()

    verdict = judge.open_case(Tolerance(1e-2, 1e-2)).hear_repeats([probs], returned)

    assert verdict.is_accepted
    assert time.perf_counter() - started_s < 5
