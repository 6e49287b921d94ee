"""Measures how fast a device reads, copies and multiplies."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.tensors.ceilings import Ceilings
from flashinfer_bench.tensors.machine import last_level_cache_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

_REPEATS = {"cpu": 50, "cuda": 5}  # a card that multiplies for long is throttled afterwards
_BUDGET_S = 0.04
_MATRIX_SIZE = {"cpu": 512, "cuda": 8192}
_DTYPES = {
    "cpu": ("float32", "float64", "bfloat16"),
    "cuda": ("float32", "float64", "bfloat16", "float16"),
}
_LARGEST_BUFFER_BYTES = {"cpu": 128 << 20, "cuda": 1 << 30}
_HOT_BYTES = 1 << 20


def measure(device: torch.device) -> Ceilings:
    """Measure with the threads torch has been given; a third of a second, with nothing else on the device."""
    kind = "cuda" if device.type == "cuda" else "cpu"
    cache_bytes = _cache_bytes(device)
    size = min(8 * cache_bytes, _LARGEST_BUFFER_BYTES[kind])
    source = torch.ones(size // 8, dtype=torch.int64, device=device)
    memory = _bytes_per_s(source, device)
    hot = _bytes_per_s(source[: _HOT_BYTES // 8], device)
    del source
    flops = {name: _flops_per_s(device, getattr(torch, name)) for name in _DTYPES[kind]}
    if kind == "cuda":
        torch.cuda.empty_cache()  # others will want it
    return Ceilings(memory, max(memory, hot), cache_bytes, flops)


def _cache_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).L2_cache_size)
    return last_level_cache_bytes()


def _bytes_per_s(source: torch.Tensor, device: torch.device) -> float:
    """Read all of it, or copy one half into the other: as many bytes either way."""
    size = source.numel() * source.element_size()
    half = source.numel() // 2
    read_s = _shortest_s(source.sum, device)
    copied_s = _shortest_s(lambda: source[half:].copy_(source[:half]), device)
    return size / min(read_s, copied_s)


def _flops_per_s(device: torch.device, dtype: torch.dtype) -> float:
    size = _MATRIX_SIZE["cuda" if device.type == "cuda" else "cpu"]
    left = torch.randn(size, size, device=device).to(dtype)
    product = torch.empty_like(left)
    return 2 * size**3 / _shortest_s(lambda: torch.mm(left, left, out=product), device)


def _shortest_s(call: Callable[[], object], device: torch.device) -> float:
    """Time a call several times, until the budget is spent; the first one warms up."""
    call()
    found: list[float] = []
    until_s = time.perf_counter() + _BUDGET_S
    repeats = _REPEATS["cuda" if device.type == "cuda" else "cpu"]
    while len(found) < repeats and (not found or time.perf_counter() < until_s):
        found.append(_time_s(call, device))
    return min(found)


def _time_s(call: Callable[[], object], device: torch.device) -> float:
    if device.type != "cuda":
        started_s = time.perf_counter()
        call()
        return time.perf_counter() - started_s
    event: Any = torch.cuda.Event  # untyped in torch
    started, ended = event(enable_timing=True), event(enable_timing=True)
    torch.cuda.synchronize(device)
    started.record()
    call()
    ended.record()
    torch.cuda.synchronize(device)
    return float(started.elapsed_time(ended)) / 1e3
