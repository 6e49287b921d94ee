"""What the harness notices of changes to itself."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import torch

from flashinfer_bench.bench.timing import wall
from flashinfer_bench.bench.worker import contestant
from flashinfer_bench.bench.worker.seal import Seal
from flashinfer_bench.tensors import outputs


def replaced() -> int:
    return 0


class Clock(wall.WallClock):
    pass


def test_an_untouched_harness_is_whole() -> None:
    assert Seal().damage() is None


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (time, "perf_counter_ns"),
        (wall, "_now_ns"),
        (wall.WallClock, "time_ns"),
        (outputs.SharedOutputs, "write"),
        (contestant._Harness, "prepare"),
        (torch, "empty"),
        (torch.cuda, "synchronize"),
    ],
)
def test_a_replaced_name_is_told(owner: object, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seal = Seal()

    monkeypatch.setattr(owner, name, replaced)

    assert f".{name} was replaced" in (seal.damage() or "")


def test_replaced_code_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    seal = Seal()

    monkeypatch.setattr(wall.overhead_ns, "__code__", replaced.__code__)

    assert seal.damage() == "the code of overhead_ns was replaced"


def test_an_attribute_that_hides_a_method_is_told() -> None:
    seal, clock = Seal(), Clock()
    seal.watch([clock])
    assert seal.damage() is None

    hiding: Callable[..., object] = replaced
    clock.time_ns = hiding  # type: ignore[assignment,method-assign]

    assert seal.damage() == "an attribute 'time_ns' hides a method of the harness"
