"""Which samples are checked: rules over numbers and coins."""

from __future__ import annotations

import random

import pytest

from flashinfer_bench.bench.timing.audits import (
    FAST,
    UsualTime,
    checked_calls,
    fast_check_probability,
    miss_probability,
    secret_place,
)
from flashinfer_bench.bench.timing.turns import block_sizes

DEFAULT = block_sizes(50, blocks=4) * 3
QUICK = block_sizes(12, blocks=5) * 2


def test_the_secret_sample_of_a_block_may_be_any() -> None:
    places = {secret_place(5, random.Random(seed)) for seed in range(200)}

    assert places == set(range(5))


def test_nothing_is_fast_before_a_secret_sample_is_known() -> None:
    assert not UsualTime().is_fast(1.0)


def test_fast_is_what_takes_less_than_secret_samples_do() -> None:
    usual = UsualTime()
    for taken in (90.0, 100.0, 400.0):
        usual.add(taken)

    assert usual.is_fast(100.0 * FAST - 0.1)
    assert not usual.is_fast(100.0 * FAST + 0.1)
    assert 1 / FAST < 1.10


def test_what_is_usual_follows_a_machine_that_drifts() -> None:
    usual = UsualTime()
    for taken in [100.0] * 20 + [50.0] * 12:
        usual.add(taken)

    assert not usual.is_fast(49.0)


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_in_short_blocks_every_fast_sample_is_checked(size: int) -> None:
    assert fast_check_probability(size) == 1.0


@pytest.mark.parametrize("size", [12, 50, 1000])
def test_of_long_blocks_six_fast_samples_are_checked_on_average(size: int) -> None:
    assert size * fast_check_probability(size) == pytest.approx(6.0)


@pytest.mark.parametrize("kept", [3, 12, 15, 40])
def test_who_leaves_out_one_call_in_eleven_of_all_samples_is_caught(kept: int) -> None:
    missed = (10 / 11) ** (kept * checked_calls(64, kept))

    assert missed < 0.01


def test_of_fast_samples_more_calls_are_checked() -> None:
    assert checked_calls(64, 15, is_fast=True) == 2 * checked_calls(64, 15)
    assert checked_calls(3, 15, is_fast=True) == 3


@pytest.mark.parametrize("sizes", [DEFAULT, QUICK, [1] * 10], ids=["default", "quick", "ones"])
def test_the_medians_of_half_the_blocks_do_not_fall_unnoticed(sizes: list[int]) -> None:
    enough = [(size + 1) // 2 for size in sizes]
    half = len(sizes) // 2
    skipped = enough[:half] + [0] * (len(sizes) - half)

    assert miss_probability(sizes, skipped) < 0.01


def test_who_leaves_nothing_out_is_never_accused() -> None:
    assert miss_probability(DEFAULT, [0] * len(DEFAULT)) == 1.0
