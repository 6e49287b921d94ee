"""The judge's end of a candidate: answers heard early, late, or never."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from flashinfer_bench.bench.channel import Channel, pair
from flashinfer_bench.bench.judge.link import JobEndedError, Link
from flashinfer_bench.bench.outcomes import Aborted, TimedOut
from flashinfer_bench.bench.protocol import (
    Disconnect,
    Done,
    FromCandidate,
    LookAtProcess,
    OpenBlock,
    ParticipantPlan,
    ProcessObserved,
    Returned,
    ToCandidate,
    ToJudge,
)


@dataclass
class Table:
    """A link, and the other ends of its two channels."""

    link: Link
    candidate: Channel[ToCandidate]
    parent: Channel[LookAtProcess]

    def answer(self, *, after_s: float) -> None:
        request = self.candidate.receive()
        time.sleep(after_s)
        self.candidate.send(Done(request.id))


@pytest.fixture
def table() -> Iterator[Table]:
    ours, theirs = pair()
    to_parent, parents = pair()
    heard: Channel[FromCandidate] = Channel(ours, FromCandidate)
    of_parent: Channel[ToJudge] = Channel(to_parent, ToJudge)
    link = Link("candidate-1", 1, heard, of_parent)
    found = Table(link, Channel(theirs, ToCandidate), Channel(parents, LookAtProcess))
    yield found
    for channel in (heard, of_parent, found.candidate, found.parent):
        channel.close()


def open_job(table: Table, *, limit_s: float) -> None:
    candidate = ParticipantPlan("candidate-1", is_reference=False)
    table.link.open_job(candidate, limit_s=limit_s)


def ended(table: Table) -> object:
    with pytest.raises(JobEndedError) as caught:
        table.link.ask(OpenBlock(table.link.new_id()), Done)
    return caught.value.outcome


@pytest.mark.parametrize("after_s", [0.0, 0.05])
def test_an_answer_is_heard_however_late_within_the_limit(table: Table, after_s: float) -> None:
    open_job(table, limit_s=10.0)
    other = threading.Thread(target=table.answer, kwargs={"after_s": after_s})
    other.start()

    request = OpenBlock(table.link.new_id())
    answer = table.link.ask(request, Done)

    other.join()
    assert answer == Done(request.id)


def test_answers_that_are_there_already_are_heard_in_their_order(table: Table) -> None:
    open_job(table, limit_s=10.0)
    request = OpenBlock(table.link.new_id())
    table.link.tell(request)
    table.candidate.send(Returned(request.id, 5, 1))
    table.candidate.send(Done(request.id))

    assert table.link.hear(request, Returned).elapsed_ns == 5
    assert table.link.hear(request, Done) == Done(request.id)


def test_no_answer_within_the_limit_ends_the_job_in_time(table: Table) -> None:
    open_job(table, limit_s=0.05)
    started_s = time.monotonic()

    outcome = ended(table)

    assert isinstance(outcome, TimedOut)
    assert 0.05 <= time.monotonic() - started_s < 5


def test_the_limit_is_one_for_all_answers_of_a_job(table: Table) -> None:
    open_job(table, limit_s=0.6)
    other = threading.Thread(target=table.answer, kwargs={"after_s": 0.4})
    other.start()
    table.link.ask(OpenBlock(table.link.new_id()), Done)
    other.join()
    started_s = time.monotonic()

    outcome = ended(table)

    assert isinstance(outcome, TimedOut)
    assert time.monotonic() - started_s < 0.4


def test_the_parent_says_that_a_process_is_gone_before_its_channel_does(table: Table) -> None:
    open_job(table, limit_s=10.0)
    table.parent.send(Disconnect(0, "candidate-1"))
    table.candidate.close()

    assert ended(table) == Aborted("candidate-1", "its process ended")


def test_the_parent_is_asked_what_proc_tells_and_a_late_answer_is_passed_over(table: Table) -> None:
    open_job(table, limit_s=10.0)
    asked: list[LookAtProcess] = []

    def answer() -> None:
        request = table.parent.receive()
        asked.append(request)
        table.parent.send(ProcessObserved(request.id + 99, (1,)))
        table.parent.send(ProcessObserved(request.id, (20_000,)))

    other = threading.Thread(target=answer)
    other.start()

    waited_ns = table.link.waited_ns()

    other.join()
    assert waited_ns == 20_000
    assert [(each.pid, each.about) for each in asked] == [(1, "waiting")]


@pytest.mark.parametrize(("told", "unmet_ns"), [((5_000, 6_000), 4_000), ((), None)])
def test_the_parent_is_asked_what_children_used_that_nobody_met(
    table: Table, told: tuple[int, ...], unmet_ns: int | None
) -> None:
    answers = [told, (1_000, 1_000) if told else ()]
    open_job(table, limit_s=10.0)

    def answer() -> None:
        while answers:
            request = table.parent.receive()
            table.parent.send(ProcessObserved(request.id, (), answers.pop()))

    other = threading.Thread(target=answer)
    other.start()

    table.link.cpu.look_for_children()
    found_ns = table.link.cpu.look_for_children().unmet_ns

    other.join()
    assert found_ns == unmet_ns


def test_a_candidate_that_is_gone_ends_the_job_while_the_parent_is_asked(table: Table) -> None:
    open_job(table, limit_s=10.0)
    table.parent.send(Disconnect(0, "candidate-1"))

    with pytest.raises(JobEndedError) as caught:
        table.link.cpu.look_for_children()

    assert caught.value.outcome == Aborted("candidate-1", "its process ended")
