"""The judge's end of a candidate: one request, one answer with the same id, within a time budget."""

from __future__ import annotations

import math
import select
import time
from typing import TYPE_CHECKING, TypeVar

from flashinfer_bench.bench.channel import Channel, ChannelClosed, ChannelGarbled, ChannelTimeout
from flashinfer_bench.bench.judge.cpu_clock import CpuClock
from flashinfer_bench.bench.outcomes import Aborted, Crashed, DatasetFault, Decision, TimedOut
from flashinfer_bench.bench.protocol import (
    Disconnect,
    FromCandidate,
    Go,
    LookAtProcess,
    ParticipantPlan,
    ProcessObserved,
    Raised,
    RunPhase,
    ToCandidate,
    ToJudge,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.bench.protocol import About, Phase

Answer = TypeVar("Answer", bound=FromCandidate)
_MOST_OF_IT = 0.5
"""Of its time: a call that took so much of it has not returned; else all calls together took too long."""


class JobEndedError(Exception):
    """The job is decided; nothing more needs to be measured."""

    def __init__(self, outcome: Decision) -> None:
        super().__init__(type(outcome).__name__)
        self.outcome = outcome


class Link:
    """Talks to one candidate and watches the parent, who knows first when a process dies."""

    def __init__(
        self, name: str, pid: int, channel: Channel[FromCandidate], parent: Channel[ToJudge]
    ) -> None:
        self.name = name
        self.now_ns = time.perf_counter_ns
        self.sleep = time.sleep
        self.cpu = CpuClock(pid, self._look_for_children)
        self.is_reference, self.is_timed, self.takes_outputs = False, True, False
        self.phases: tuple[Phase, ...] = ()
        self._channel = channel
        self._parent = parent
        self._pid = pid
        self._poll = select.poll()
        self._poll.register(parent, select.POLLIN)  # first: it knows why a channel closed
        self._poll.register(channel, select.POLLIN)
        self._next_id = 1
        self._budget_s = 0.0
        self._limit_s = 0.0
        self._remedy = ""

    def open_job(self, participant: ParticipantPlan, *, limit_s: float, remedy: str = "") -> None:
        """Start a new time budget: the seconds this candidate may keep us waiting in one job.

        `remedy`: what to do about a reference that raises.
        """
        self._remedy = remedy
        self.is_reference = participant.is_reference
        self.is_timed, self.takes_outputs = participant.is_timed, participant.takes_outputs
        self.phases = participant.phases
        self._budget_s = self._limit_s = limit_s

    @property
    def has_time_to_spare(self) -> bool:
        """Whether more than half of the seconds that this candidate has in a job are left."""
        return 2 * self._budget_s > self._limit_s

    def ask(
        self, request: ToCandidate, expected: type[Answer], descriptors: Sequence[int] = ()
    ) -> Answer:
        """Send a request and return its answer, or end the job."""
        self.tell(request, descriptors)
        return self.hear(request, expected)

    def tell(self, request: ToCandidate, descriptors: Sequence[int] = ()) -> None:
        """Send a request whose answer is heard later, or end the job."""
        try:
            self._channel.send(request, descriptors)
        except ChannelClosed:
            self._wait_for_parent()
            raise JobEndedError(self._aborted("its channel closed")) from None

    def hear(self, request: ToCandidate, expected: type[Answer]) -> Answer:
        """Return the next answer to a request, or end the job.

        The judge sleeps until it comes. Staying awake would be quicker, and wrong: the kernel adds processor time up
        when a process goes to sleep, and a judge that hears at once would read what was used before.
        """
        try:
            answer = self._channel.pending() or self._receive()
        except ChannelTimeout:
            raise JobEndedError(self._timed_out(request)) from None
        except ChannelClosed:
            self._wait_for_parent()
            raise JobEndedError(self._aborted("its channel closed")) from None
        except ChannelGarbled as error:
            explanation = (
                f"what came on its channel is no answer: {error}; either it says what cannot be, or "
                "something wrote to a descriptor that is not its own"
            )
            raise JobEndedError(self._aborted(explanation)) from None
        if isinstance(answer, Raised):
            raise JobEndedError(self._raised(answer))
        if not isinstance(answer, expected) or answer.id != request.id:
            explanation = f"it answered {type(request).__name__} {request.id} with {answer!r:.200}"
            raise JobEndedError(self._aborted(explanation))
        return answer

    def new_id(self) -> int:
        """Return an id that no earlier request of this candidate had."""
        self._next_id += 1
        return self._next_id

    def waited_ns(self) -> int:
        """Say how long the threads of this candidate were ready to run and did not."""
        return sum(self._look("waiting").numbers)

    def close(self) -> None:
        """Close our end."""
        self._channel.close()

    def _receive(self) -> FromCandidate:
        """Wait for a message; what that takes is taken from the budget."""
        started_ns = time.perf_counter_ns()
        deadline_ns = started_ns + round(self._budget_s * 1e9)
        answer = None
        while answer is None:
            now_ns = time.perf_counter_ns()
            if now_ns >= deadline_ns:
                raise ChannelTimeout
            for descriptor, _ in self._poll.poll(math.ceil((deadline_ns - now_ns) / 1e6)):
                if descriptor == self._parent.fileno():
                    self._hear_parent()
                else:
                    self._channel.fill()
                    answer = self._channel.pending()
        self._budget_s -= (time.perf_counter_ns() - started_ns) / 1e9
        return answer

    def _look_for_children(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        told = self._look("children")
        return told.numbers, told.used_ns

    def _look(self, about: About) -> ProcessObserved:
        """Have the parent look at this candidate's process: /proc is out of the judge's reach."""
        request = LookAtProcess(self.new_id(), self._pid, about)
        self._parent.send(request)
        while (told := self._hear_parent()) is None or told.id != request.id:
            pass
        return told

    def _hear_parent(self) -> ProcessObserved | None:
        """While a job runs the parent answers, or says that a candidate is gone."""
        self._parent.fill()
        told = None
        while (message := self._parent.pending()) is not None:
            if isinstance(message, Disconnect):
                explanation = "its process ended"
                raise JobEndedError(Aborted(message.participant, explanation))
            if isinstance(message, ProcessObserved):
                told = message
        return told

    def _wait_for_parent(self) -> None:
        """A closed channel is nearly always a dead process; let the parent say so first."""
        poll = select.poll()
        poll.register(self._parent, select.POLLIN)
        if poll.poll(1000):
            self._hear_parent()

    @staticmethod
    def hear_all(
        links: Sequence[Link], requests: Sequence[ToCandidate], expected: type[Answer]
    ) -> list[Answer]:
        """Return the answer of each, in order of the links; whoever fails first ends the job for all."""
        answers: dict[int, Answer] = {}
        while len(answers) < len(links):
            silent = [number for number in range(len(links)) if number not in answers]
            said = [number for number in silent if links[number]._channel.has_pending()]
            if not said:
                first = links[silent[0]]
                started_ns = first.now_ns()
                said = _readable(links, silent)
                spent_s = (first.now_ns() - started_ns) / 1e9
                for number in silent:
                    links[number]._budget_s -= spent_s
                if first._budget_s <= 0:
                    raise JobEndedError(first._timed_out(requests[silent[0]]))
            for number in said:
                answers[number] = links[number].hear(requests[number], expected)
        return [answers[number] for number in range(len(links))]

    def _timed_out(self, request: ToCandidate) -> Decision:
        limit = f"{self._limit_s:g} s (--timeout)"
        if self.is_reference:
            return DatasetFault(f"timing the reference took longer than {limit}")
        match request:
            case Go():
                what = "the kernel"
            case RunPhase(phase=phase):
                what = f"the solution's {phase!r} function"
            case _:
                what = "the solution's process"
        if self._budget_s > _MOST_OF_IT * self._limit_s:
            return TimedOut(f"{what} did not return within {limit}", participant=self.name)
        explanation = (
            f"the kernel's calls took longer than {limit} together; "
            f"the last one had not returned after {self._budget_s:.2g} s"
        )
        return TimedOut(explanation, participant=self.name)

    def _raised(self, answer: Raised) -> Decision:
        if self.is_reference:
            return DatasetFault(f"timing the reference:\n{answer.text}{self._remedy}")
        return Crashed(answer.text, participant=self.name)

    def _aborted(self, explanation: str) -> Decision:
        return Aborted(self.name, explanation)


def _readable(links: Sequence[Link], silent: Sequence[int]) -> list[int]:
    """Wait until one of the silent links can be read, or the parent has spoken, or their time is over."""
    first = links[silent[0]]
    poll = select.poll()
    poll.register(first._parent, select.POLLIN)
    numbers = {links[number]._channel.fileno(): number for number in silent}
    for descriptor in numbers:
        poll.register(descriptor, select.POLLIN)
    ready = [descriptor for descriptor, _ in poll.poll(max(0.0, first._budget_s) * 1e3)]
    if first._parent.fileno() in ready:
        first._hear_parent()
    return [numbers[descriptor] for descriptor in ready if descriptor in numbers]
