"""Places for processes that outlive a job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flashinfer_bench.bench.outcomes import NotBuilt
from flashinfer_bench.bench.parent.candidates import CandidateProcess, Slot
from flashinfer_bench.errors import WorkerError
from tests.flow.kernels import HONEST, solution

ANY: Any = Path()


class House:
    """Starts processes, and remembers who was started and who ended."""

    def __init__(self) -> None:
        self.diary: list[str] = []
        self.slot = Slot(lambda process: self.diary.append(f"end {process.name}"))

    def start(self, name: str) -> CandidateProcess:
        self.diary.append(f"start {name}")
        return CandidateProcess(name, ANY, False, (), solution(HONEST))

    def get(self, subject: str) -> object:
        return self.slot.get(subject, lambda: self.start(subject))


def test_a_process_serves_every_job_on_its_subject() -> None:
    house = House()

    first = house.get("a")

    assert house.get("a") is first
    assert house.slot.process is first
    assert (house.slot.serves("a"), house.slot.serves("b")) == (True, False)
    assert house.diary == ["start a"]


def test_another_subject_ends_it_before_the_next_one_starts() -> None:
    house = House()

    house.get("a")
    house.get("b")

    assert house.diary == ["start a", "end a", "start b"]


def test_what_was_dropped_is_started_anew() -> None:
    house = House()

    house.get("a")
    house.slot.drop()
    house.slot.drop()

    assert house.slot.process is None
    assert not house.slot.serves("a")
    house.get("a")
    assert house.diary == ["start a", "end a", "start a"]


def test_a_build_that_failed_is_not_tried_again_for_the_same_subject() -> None:
    house, failed = House(), NotBuilt("SyntaxError", "log")
    built: list[int] = []

    def fails() -> NotBuilt:
        built.append(1)
        return failed

    assert house.slot.get("a", fails) is failed
    assert house.slot.get("a", fails) is failed
    assert (built, house.slot.process) == ([1], None)
    house.get("b")
    assert house.diary == ["start b"]


def test_a_start_that_raises_leaves_the_place_empty() -> None:
    house = House()
    house.get("a")

    def raises() -> CandidateProcess:
        raise WorkerError("no more processes")

    with pytest.raises(WorkerError):
        house.slot.get("b", raises)

    assert house.slot.process is None
    assert house.diary == ["start a", "end a"]
    house.get("a")
    assert house.diary[2:] == ["start a"]
