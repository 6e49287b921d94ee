"""Honest kernels pass the model's gate, and wrong ones are refused: ten models each, in two dtypes."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from flashinfer_bench.deployed.quality import Reference, compositions
from flashinfer_bench.deployed.results import QualityVerdict
from flashinfer_bench.deployed.served import in_precision

from .models import VOCABULARY, Attend, drawn, plain

ROWS, PROMPT, STEPS, BLOCK = 3, 44, 6, 16
SEEDS = range(10)
DTYPES = (torch.float32, torch.bfloat16)


def _shares(scores: torch.Tensor) -> torch.Tensor:
    wide = scores.float()
    return (wide - wide.amax(-1, keepdim=True)).exp()


def by_blocks(scores: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Honest: sums block by block, from the last to the first, and divides at the end."""
    shares = _shares(scores)
    starts = range(0, shares.shape[-1], BLOCK)
    total: Any = sum(shares[..., at : at + BLOCK].sum(-1) for at in reversed(starts))
    mixed: Any = sum(
        shares[..., at : at + BLOCK] @ values[..., at : at + BLOCK, :].float()
        for at in reversed(starts)
    )
    return (mixed / total[..., None]).to(values.dtype)


def without_last_block(scores: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Wrong: tokens beyond the last whole block are left out."""
    known = scores.isfinite().sum(-1, keepdim=True)
    whole = torch.where(known > BLOCK, known // BLOCK * BLOCK, known)
    late = torch.arange(scores.shape[-1]) >= whole
    return plain(scores.masked_fill(late, -torch.inf), values)


def summed_in_bfloat16(scores: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Wrong: the softmax adds up in bfloat16, one after another."""
    shares = _shares(scores)
    total = torch.zeros(shares.shape[:-1], dtype=torch.bfloat16)
    for each in shares.unbind(-1):
        total = total + each.bfloat16()
    return (shares / total.float()[..., None]).to(values.dtype) @ values


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@functools.cache
def reference(seed: int, dtype: torch.dtype) -> Reference:
    torch.manual_seed(1000 + seed)
    prompts = torch.randint(0, VOCABULARY, (ROWS, PROMPT))
    baseline: Any = drawn(seed, dtype)
    precise = in_precision(baseline, torch.float64 if dtype == torch.float32 else torch.float32)
    return Reference(baseline, precise, prompts, STEPS)


@torch.inference_mode()
def judged(seed: int, dtype: torch.dtype, attend: Attend = plain, shift: int = 0) -> QualityVerdict:
    candidate: Any = drawn(seed, dtype, attend=attend, shift=shift)
    known = reference(seed, dtype)
    return known.judge(known.play(candidate))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_reordered_reduction_passes_ten_times_of_ten(dtype: torch.dtype) -> None:
    verdicts = [judged(seed, dtype, by_blocks) for seed in SEEDS]

    assert [each.why for each in verdicts] == [""] * len(SEEDS)
    errors = [each.candidate.error for each in verdicts]
    own = [each.baseline[0].error for each in verdicts]
    assert errors != own  # it does sum in another order


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("attend", "shift"),
    [(without_last_block, 0), (summed_in_bfloat16, 0), (plain, 1)],
    ids=["last block", "bfloat16 softmax", "positions"],
)
def test_a_wrong_kernel_is_refused_ten_times_of_ten(
    attend: Attend, shift: int, dtype: torch.dtype
) -> None:
    verdicts = [judged(seed, dtype, attend, shift) for seed in SEEDS]

    assert [each.is_accepted for each in verdicts] == [False] * len(SEEDS)
    assert all("logits are off by" in each.why for each in verdicts)


def test_not_a_number_is_refused() -> None:
    verdict = judged(0, torch.float32, lambda scores, values: plain(scores, values) * torch.nan)

    assert not verdict.is_accepted


def test_limits_and_margins_are_recorded() -> None:
    verdict = judged(0, torch.float32)
    limits, shown = verdict.limits, verdict.baseline

    assert verdict.is_accepted
    assert [each.name for each in shown] == ["whole", "alone", "halves", "reversed", "twice"]
    assert limits.error == max(each.error for each in shown) * limits.error_margin
    assert limits.worst_error == max(each.worst_error for each in shown) * limits.worst_margin
    assert limits.flips >= limits.baseline_flips == max(each.flips for each in shown)
    assert shown[0].steps == ROWS * (1 + STEPS)


def test_compositions_hold_each_row() -> None:
    for batches in compositions(5).values():
        assert {row for batch in batches for row in batch} == set(range(5))
    assert compositions(1)["halves"] == [[0]]
