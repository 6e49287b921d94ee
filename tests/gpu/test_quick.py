"""Callables on CUDA tensors are timed on the device."""

from __future__ import annotations

import pytest
import torch

import flashinfer_bench as fib

pytestmark = pytest.mark.gpu


def test_cuda_tensors_choose_the_devices_clock() -> None:
    x = torch.randn(4096, 4096, device="cuda")

    found = fib.measure(torch.softmax, x, -1, samples=20)

    assert (found.clock, found.latency_kind, found.is_cold) == ("cuda_events", "call", True)
    assert found.calls_per_sample == 1
    assert 0.01 < found.latency_ms < 10


def test_twice_the_work_on_a_card_is_slower() -> None:
    x = torch.randn(4096, 4096, device="cuda")

    found = fib.compare({"once": torch.exp, "twice": lambda t: torch.exp(torch.exp(t))}, [x])

    assert found.verdict("twice") is fib.Verdict.SLOWER


def test_tensors_in_containers_are_found() -> None:
    found = fib.measure(lambda tensors: tensors["x"] + 1, {"x": torch.ones(8, device="cuda")})

    assert found.clock == "cuda_events"
