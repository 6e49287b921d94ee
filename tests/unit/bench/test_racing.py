"""What `--racing` takes for the same conditions."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="clocks time tensors' devices")

from flashinfer_bench.bench.choices import LATENCY_KINDS
from flashinfer_bench.bench.timing.clocks import CudaEvents
from flashinfer_bench.bench.timing.cupti import Cupti
from flashinfer_bench.bench.timing.wall import WallClock


def test_the_kinds_of_latency_are_those_of_the_clocks() -> None:
    clocks = (WallClock, CudaEvents, Cupti)

    assert {each.name: each.latency_kind for each in clocks} == LATENCY_KINDS
