"""Calls held on a card until the judge says go on: what they are given then, and when they begin."""

from __future__ import annotations

import sys
import time
from typing import Any

import pytest
import torch

from flashinfer_bench.bench.timing.clocks import CudaEvents
from flashinfer_bench.bench.timing.device_work import Sweep
from flashinfer_bench.bench.timing.hold import Hold, StartWord, late_rewriter, place_table
from flashinfer_bench.data.distributions import Boolean, Integers, Uniform
from flashinfer_bench.tensors import late_inputs
from flashinfer_bench.tensors.dtypes import torch_dtype
from flashinfer_bench.tensors.input_generation import draw
from flashinfer_bench.tensors.planned import InputPlan, TensorPlan, usual

pytestmark = pytest.mark.gpu
CUDA = torch.device("cuda:0")
SEED = 0x1234_5678_9ABC_DEF1


KINDS: dict[str, tuple[str, Any]] = {
    "signs of doubles": ("float64", None),
    "signs": ("float32", None),
    "signs of halves": ("float16", None),
    "signs of bfloat16": ("bfloat16", None),
    "signs of bytes": ("float8_e4m3fn", None),
    "neighbours": ("float32", Uniform(low=-1.0, high=1.0)),
    "neighbours of bfloat16": ("bfloat16", Uniform(low=0.0, high=2.0)),
    "long integers": ("int64", Integers(low=-5, high=1 << 40)),
    "integers": ("int32", Integers(low=3, high=1000)),
    "short integers": ("int16", Integers(low=-1024, high=1024)),
    "bytes": ("int8", Integers(low=-128, high=128)),
    "coins": ("bool", Boolean()),
}


def planned(*shape: int, kind: str = "signs") -> InputPlan:
    dtype, distribution = KINDS[kind]
    return InputPlan(TensorPlan("x", shape, dtype), "window", distribution=distribution)


def made(plan: InputPlan) -> torch.Tensor:
    drawn = usual(plan.tensor.dtype) if plan.distribution is None else plan.distribution
    generator = torch.Generator(CUDA).manual_seed(1)
    return draw(drawn, plan.tensor.shape, torch_dtype(plan.tensor.dtype), generator)


@pytest.fixture
def word() -> StartWord:
    return StartWord()


@pytest.fixture
def hold(word: StartWord) -> Hold:
    hold = Hold(CUDA)
    hold.open(word.descriptor)
    hold.get_ready(None)
    return hold


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(16,), (64, 67), (4096, 1031), (4099, 8192)], ids=str)
def test_the_kernel_writes_what_torch_writes(shape: tuple[int, ...], kind: str) -> None:
    plans = [planned(*shape, kind=kind), planned(128)]
    sets = [[made(plan) for plan in plans] for _ in range(3)]
    by_torch = [[each.clone() for each in arguments] for arguments in sets]
    late_inputs.rewrite(plans, by_torch, SEED)
    rewriter = late_rewriter(CUDA)
    assert rewriter is not None
    assert not torch.equal(sets[0][0].view(torch.uint8), by_torch[0][0].view(torch.uint8))
    for _ in range(3):  # twice written is as it was
        rewriter(plans, sets, SEED)
    for arguments, expected in zip(sets, by_torch, strict=True):
        for got, right in zip(arguments, expected, strict=True):
            assert torch.equal(got.view(torch.uint8), right.view(torch.uint8))


def test_what_is_launched_waits_for_the_word(hold: Hold, word: StartWord) -> None:
    plan, x = planned(1024), torch.randn(1024, device=CUDA)
    right = x + 0
    late_inputs.rewrite([plan], [[right]], SEED)
    hold.get_ready(place_table([plan], [[x]], CUDA))
    hold.launch(None)
    behind, out = torch.cuda.Event(), x + 0
    behind.record()
    time.sleep(0.02)
    assert not behind.query()
    word.say(SEED)
    torch.cuda.synchronize()
    assert torch.equal(out, right)


def test_it_holds_for_a_least_time_whatever_was_said(hold: Hold, word: StartWord) -> None:
    word.say(0)
    began = time.perf_counter()
    hold.launch(None, least_ns=20_000_000)
    torch.cuda.synchronize()
    assert time.perf_counter() - began >= 0.019


def test_nothing_runs_beside_it(hold: Hold, word: StartWord) -> None:
    other, beside, x = torch.cuda.Stream(), torch.cuda.Event(), torch.ones(8, device=CUDA)
    with torch.cuda.stream(other):
        x.sum()  # loads its kernel, which waits for the card
    torch.cuda.synchronize()
    hold.launch(None)
    with torch.cuda.stream(other):
        x.sum()
        beside.record()
    time.sleep(0.02)
    assert not beside.query()
    word.say(0)
    torch.cuda.synchronize()


def test_a_held_call_is_timed_as_one_behind_a_spin(word: StartWord) -> None:
    """Cold caches, and neither the wait nor the sweep counts."""
    x = torch.randn(16 << 20, device=CUDA)
    spun, held = CudaEvents(CUDA), CudaEvents(CUDA)
    assert held.hold is not None
    held.hold.open(word.descriptor)
    word.say(0)  # it holds for its least time, which is the spin's
    samples: dict[CudaEvents, list[int]] = {spun: [], held: []}
    torch.sin(x)  # loads its kernel, which waits for the card
    for number in range(60):
        for clock, taken in samples.items():
            torch.cuda.synchronize()
            elapsed_ns, _ = clock.time_ns(torch.sin, [(x,)])
            if number >= 10:
                taken.append(elapsed_ns)
    medians = {clock: sorted(taken)[len(taken) // 2] for clock, taken in samples.items()}
    sys.stderr.write(f"spin {medians[spun]} ns, hold {medians[held]} ns\n")
    assert medians[held] == pytest.approx(medians[spun], rel=0.03)


@pytest.mark.parametrize("seed", [0, SEED], ids=["as drawn", "rewritten"])
def test_caches_are_cold_behind_it(hold: Hold, word: StartWord, seed: int) -> None:
    """Each call reads what was written last."""
    x, sweep = torch.randn(1 << 20, device=CUDA), Sweep(CUDA)
    x.sum()
    places, event = place_table([planned(1 << 20)], [[x]], CUDA), torch.cuda.Event
    taken_ms: dict[bool, list[float]] = {True: [], False: []}
    for number in range(40):
        is_cold = bool(number % 2)
        x.add_(1)
        torch.cuda.synchronize()
        hold.get_ready(places)
        hold.launch(sweep.prepared() if is_cold else None)
        started, ended = event(enable_timing=True), event(enable_timing=True)
        started.record()
        x.sum()
        ended.record()
        word.say(seed)
        torch.cuda.synchronize()
        taken_ms[is_cold].append(started.elapsed_time(ended))
    hot, cold = (sorted(taken_ms[is_cold])[10] for is_cold in (False, True))
    sys.stderr.write(f"hot {hot * 1e3:.2f} us, cold {cold * 1e3:.2f} us\n")
    assert cold > 1.05 * hot


def test_a_sample_of_fewer_calls_takes_the_first_of_the_table(word: StartWord) -> None:
    plan, sets = planned(64, 67), [[torch.randn(64, 67, device=CUDA)] for _ in range(5)]
    before = [[each.clone() for each in arguments] for arguments in sets]
    late_inputs.rewrite([plan], before[:2], SEED)
    hold, places = Hold(CUDA), place_table([plan], sets, CUDA)
    assert places is not None
    hold.open(word.descriptor)
    hold.get_ready(places[: len(places) // 5 * 2])
    word.say(SEED)
    hold.launch(None)
    torch.cuda.synchronize()
    for (got,), (right,) in zip(sets, before, strict=True):
        assert torch.equal(got, right)


@pytest.mark.parametrize(
    ("shape", "count"), [((1 << 24,), 1), ((1 << 22,), 16), ((1 << 28,), 1)], ids=str
)
def test_how_long_it_takes_to_rewrite(word: StartWord, shape: tuple[int, ...], count: int) -> None:
    plan, sets = planned(*shape), [[torch.randn(shape, device=CUDA)] for _ in range(count)]
    hold, places = Hold(CUDA), place_table([plan], sets, CUDA)
    assert places is not None
    hold.open(word.descriptor)
    event: Any = torch.cuda.Event
    taken_ms: dict[int, list[float]] = {0: [], SEED: []}
    for _ in range(20):
        for seed, taken in taken_ms.items():
            hold.get_ready(places)
            word.say(seed)
            torch.cuda.synchronize()
            started, ended = event(enable_timing=True), event(enable_timing=True)
            started.record()
            hold.launch(None)
            ended.record()
            torch.cuda.synchronize()
            taken.append(started.elapsed_time(ended))
    idle_ms, full_ms = (sorted(taken)[10] for taken in taken_ms.values())
    sys.stderr.write(f"{count} x {4 * shape[0] >> 20} MiB: {1e3 * (full_ms - idle_ms):.0f} us\n")
    assert full_ms - idle_ms < 2
