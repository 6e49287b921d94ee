"""Which samples are kept where outputs are large."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from flashinfer_bench.bench.judge.auditing import BlockAudit
from flashinfer_bench.bench.judge.calls import CallId
from flashinfer_bench.bench.judge.participant import KeptSample
from flashinfer_bench.tensors.planned import TensorPlan


def kept(number: int, *, is_recorded: bool) -> KeptSample:
    call = CallId("timed", number)
    return KeptSample(0, call, 1, (0,), [[]], (-1, b""), is_recorded=is_recorded)


@pytest.mark.parametrize(("gibibytes", "most"), [(0.1, 8), (0.4, 1), (3, 1)])
def test_one_fast_sample_is_kept_however_large_outputs_are(gibibytes: float, most: int) -> None:
    plans = (TensorPlan("y", (int(gibibytes * (1 << 30)),), "int8"),)
    participant: Any = SimpleNamespace(oracle=SimpleNamespace(outputs=plans))
    auditing: Any = None
    audit = BlockAudit(auditing, participant, 0, 25, CallId("timed", 1), None)
    audit.kept.append(kept(1, is_recorded=True))

    fast = 0
    while audit._has_room():
        fast += 1
        audit.kept.append(kept(1 + fast, is_recorded=False))

    assert fast == most
