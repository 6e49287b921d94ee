"""How long a verification takes, from what one run of the original computes and moves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from flashinfer_bench.decompose.capture import capture
from flashinfer_bench.decompose.costs import trace_cost
from flashinfer_bench.decompose.model_file import load_model_file

if TYPE_CHECKING:
    from pathlib import Path

_RUNS = 40.0
"""How often all operations run: in the original, in files of four levels, twice scaled, in tests, with two seeds."""
_FLOPS_EACH_S = 20e9
_BYTES_EACH_S = 4e9
"""One thread of a laptop's CPU."""
_OPERATION_S = 0.02
"""What each operation takes whatever its size, in all of these runs."""
_WEIGHTS = 4.0
_BASE_S = 2.0


def estimated_seconds(directory: Path, model: Path | None = None) -> tuple[float, float]:
    """Estimate how long a whole verification takes, and a quick one."""
    trace = capture(load_model_file(model or directory / "original.py")).trace
    cost = trace_cost(trace)
    weights = sum(
        4 * math.prod(each.shape)
        for each in trace.values.values()
        if each.kind not in ("input", "inter")
    )
    fixed = _BASE_S + _OPERATION_S * len(trace.ops) + _WEIGHTS * weights / _BYTES_EACH_S
    once = cost.flops / _FLOPS_EACH_S + cost.bytes_moved / _BYTES_EACH_S
    return fixed + _RUNS * once, fixed
