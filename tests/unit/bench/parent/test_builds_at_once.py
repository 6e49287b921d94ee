from __future__ import annotations

import os
from types import SimpleNamespace

import psutil
import pytest

from flashinfer_bench.bench.parent.builds_ahead import builds_at_once


@pytest.mark.parametrize(
    ("cores", "gib", "gpus", "expected"),
    [(16, 128, 0, 16), (16, 128, 1, 14), (16, 8, 1, 4), (2, 128, 2, 1), (4, 1, 0, 1)],
)
def test_builds_leave_room_for_gpus_and_fit_into_memory(
    monkeypatch: pytest.MonkeyPatch, cores: int, gib: int, gpus: int, expected: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    monkeypatch.setattr(
        psutil, "virtual_memory", lambda: SimpleNamespace(available=gib << 30), raising=True
    )

    assert builds_at_once(gpus) == expected
