"""Calls that a card holds: when the judge lets them begin, and by which seed inputs are written then."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from flashinfer_bench.bench.judge.calls import CallId
from flashinfer_bench.bench.judge.participant import Participant, SpinOrder
from flashinfer_bench.bench.protocol import Go, Spin
from flashinfer_bench.tensors.planned import InputChange
from tests.unit.bench.judge.fake_links import FakeLink, FakeOracle, Machine


class Word:
    """Notes what was said, when, and what the process had been asked last."""

    def __init__(self, link: FakeLink) -> None:
        self.said: list[tuple[int, type, float]] = []
        self._link = link

    def say(self, seed: int) -> None:
        self.said.append((seed, type(self._link.asked[-1]), time.perf_counter()))


@pytest.fixture
def participant() -> Any:
    link = FakeLink("solution", Machine())
    made: Any = Participant(
        1,
        link,
        SimpleNamespace(arrives_late=False),
        FakeOracle(),
        torch.device("cpu"),
        least_outputs=1,
        memory_bytes=1 << 40,
    )
    made.start_word = Word(link)
    return made


@pytest.mark.parametrize("kind", ["timed", "timed_again", "control", "untimed"])
def test_inputs_of_what_is_timed_follow_from_a_seed_said_after_the_order(
    participant: Any, kind: Any
) -> None:
    participant.sample(0, CallId(kind, 3), 2)
    ((seed, asked, _),) = participant.start_word.said
    assert seed == participant.oracle.late_seed(0, CallId(kind, 3).seed_number)
    assert asked is Go


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("batch", {}),
        ("repeated", {"repeat": 0}),
        ("twice", {"repeat": 0}),
        ("unusual", {"family": "zeros"}),
        ("property", {"change": InputChange("scaled", (-1,))}),
    ],
)
def test_inputs_of_batches_and_chosen_ones_stay(
    participant: Any, kind: Any, how: dict[str, Any]
) -> None:
    participant.sample(0, CallId(kind, 1), 1, **how)
    assert [seed for seed, *_ in participant.start_word.said] == [0]


@pytest.mark.parametrize("host_ns", [400_000.0, None])
def test_calls_begin_when_launching_should_be_over(participant: Any, host_ns: float | None) -> None:
    participant.hidden_ns = host_ns
    began = time.perf_counter()
    participant.sample(0, CallId("timed", 1), 1)
    waited_s = participant.start_word.said[0][2] - began
    assert waited_s >= (
        0.0008 if host_ns else 0.0005
    )  # of the 1.15 ms some are slept, which takes none here


def test_the_control_is_held_as_long_as_those_it_is_compared_with(participant: Any) -> None:
    began = time.perf_counter()
    order = SpinOrder(1000, on_all_cores=False, host_ns=4_000_000.0)
    participant.sample(0, CallId("control", 1), 1, spin=order)
    ((_, asked, said),) = participant.start_word.said
    assert asked is Spin
    assert said - began >= 0.0005
    assert participant.link.machine.now_ns >= 5_700_000  # slept


def test_without_a_word_nobody_waits(participant: Any) -> None:
    participant.start_word = None
    assert participant.sample(0, CallId("timed", 1), 1).elapsed_ns > 0
