"""What a job hands outputs over in is gone with the job: on a card it is the card's memory."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from flashinfer_bench.bench.outcomes import Passed
from tests.unit.bench.judge.fake_links import FakeShared, evaluate, pair

held: list[weakref.ref[Any]] = []


class Watched(FakeShared):
    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        held.append(weakref.ref(self))


@pytest.fixture(autouse=True)
def no_collector() -> Any:
    held.clear()
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_outputs_memory_is_free_when_a_job_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = evaluate(*pair(), shared=Watched, monkeypatch=monkeypatch)

    assert isinstance(outcome, Passed)
    assert [each() for each in held] == [None, None]
