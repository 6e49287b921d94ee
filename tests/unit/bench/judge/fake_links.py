"""Candidates made of plain numbers: a link to one costs no process, and time passes only as told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import torch

from flashinfer_bench.bench.config import ResolvedEvalConfig
from flashinfer_bench.bench.judge import checking, evaluation
from flashinfer_bench.bench.judge.cpu_clock import Children
from flashinfer_bench.bench.judge.link import JobEndedError
from flashinfer_bench.bench.judge.monitor import SILENCE_S
from flashinfer_bench.bench.judge.participant import SETTLING_S
from flashinfer_bench.bench.outcomes import Decision
from flashinfer_bench.bench.protocol import (
    Committed,
    Done,
    Finished,
    Go,
    GraphsRecorded,
    Inspect,
    Inspected,
    Judgement,
    Keep,
    Kept,
    ParticipantPlan,
    Prepare,
    QuickChecked,
    RecordGraphs,
    Repeat,
    Repeated,
    Returned,
    RunJob,
    Spin,
)
from flashinfer_bench.data import Workload
from flashinfer_bench.tensors.conditions import Conditions, Undisturbed
from flashinfer_bench.tensors.outputs import fingerprint
from flashinfer_bench.tensors.planned import plan_inputs, plan_outputs
from tests.flow.kernels import INCREMENT

RIGHT = torch.arange(4.0)
WRONG = RIGHT + 100.0
INPUTS = [torch.ones(4)]
_SEED_OF_CALL_0 = 1 << 50
_BATCHES = range(-1_999_999, -999_999)
_FIRST_SAMPLES = 4


@dataclass(frozen=True)
class Numbers:
    """What one process takes, in nanoseconds: for a sample, or for each of its calls."""

    call_ns: int = 10_000
    claimed_ns: int | None = None
    """What it says a call takes; the truth when not given."""
    waking_ns: int = 50_000
    preparing_ns: int = 100_000
    committing_ns: int = 40_000
    preparing_cpu_ns: int = 80_000
    preparing_cpu_per_call_ns: int = 0
    running_cpu_ns: int = 30_000
    """Besides the calls."""
    pause_cpu_ns: int = 5_000
    silence_cpu_ns: int = 0
    born_ns: int = 0
    """Processor time of children that a block leaves behind."""
    unmet_ns: int = 0
    """Processor time of children that came and went in a block; 0: nobody counts it."""
    background_ns: int = 0
    """Processor time while others are timed, a block, besides a tenth of a core."""

    def more(self, **extra: int) -> Numbers:
        """The same with something added."""
        return replace(self, **{name: getattr(self, name) + by for name, by in extra.items()})


HONEST = Numbers()


@dataclass
class Machine:
    """One clock for all."""

    now_ns: int = 0


class FakeCpu:
    """Processor time of a process that is made of numbers."""

    def __init__(self, machine: Machine, numbers: Numbers) -> None:
        self.used_ns = 0
        self._machine, self._numbers = machine, numbers
        self._idle_since_ns: int | None = None

    def busy(self) -> None:
        """From here on it has work of its own."""
        self._idle_since_ns = None

    def look_for_children(self) -> Children:
        is_idle, self._idle_since_ns = self._idle_since_ns is not None, self._machine.now_ns
        return Children(self._numbers.born_ns, None if is_idle else self._numbers.unmet_ns or None)

    def read_ns(self) -> int:
        since = self._idle_since_ns
        waited_ns = 0 if since is None else self._machine.now_ns - since
        background_ns = waited_ns // 10 + self._numbers.background_ns if waited_ns else 0
        return self.used_ns + (background_ns if self._numbers.background_ns else 0)


@dataclass
class FakeLink:
    """Answers like a process that takes as long as its numbers say; `of_batches` where those differ."""

    name: str
    machine: Machine
    numbers: Numbers = HONEST
    of_batches: Numbers | None = None
    at_first: Numbers | None = None
    """For its first four samples: the one that opens the trial, and warm-up calls."""
    is_reference: bool = False
    is_timed: bool = True
    takes_outputs: bool = False
    phases: tuple[Any, ...] = ()
    raises_at: int | None = None
    """How many samples it answers before the job ends for it."""
    ending: Decision | None = None
    spin_noise_ns: Callable[[int], int] = lambda _: 0
    """By how much later the answer to its n-th spin is heard."""
    ring: int | None = None
    """In how many buffers its outputs lie by turns; None: each in its own."""
    unrecordable: str | None = None
    """Why its calls cannot be recorded as graphs."""
    call_host_ns: int | None = None
    """How long a call keeps the host, where that is not what is timed."""
    asked: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cpu = FakeCpu(self.machine, self.numbers)
        self._now = self.numbers
        self._count = self._samples = self._spins = self._next_id = 0

    def now_ns(self) -> int:
        return self.machine.now_ns

    def sleep(self, seconds: float) -> None:
        self.machine.now_ns += round(seconds * 1e9)
        is_silence = seconds in (SETTLING_S, SILENCE_S)
        self.cpu.used_ns += self.numbers.silence_cpu_ns if is_silence else self.numbers.pause_cpu_ns

    def new_id(self) -> int:
        self._next_id += 1
        return self._next_id

    def ask(self, request: Any, expected: type, descriptors: Sequence[int] = ()) -> Any:
        self.tell(request, descriptors)
        return self.hear(request, expected)

    def tell(self, request: Any, descriptors: Sequence[int] = ()) -> None:
        self.asked.append(request)
        if isinstance(request, Prepare):
            self.cpu.busy()
            is_batch = request.seed - _SEED_OF_CALL_0 in _BATCHES
            self._now = self.of_batches if is_batch and self.of_batches else self.numbers
            if self.at_first is not None and self._samples < _FIRST_SAMPLES:
                self._now = self.at_first
            self._count = request.count

    def hear(self, request: Any, expected: type) -> Any:
        match request:
            case Prepare():
                self._end_if_told()
                return self._prepared(request)
            case Go() | Spin():
                return self._ran(request, expected)
            case Inspect():
                return Inspected(
                    request.id, None, shares_buffers=self.overwritten > 0, strided_elements=0
                )
            case RecordGraphs():
                return GraphsRecorded(request.id, self.unrecordable)
            case Repeat():
                return Repeated(
                    request.id, request.duration_ns, request.duration_ns // self.numbers.call_ns
                )
            case Keep():
                return Kept(request.id, fingerprint(INPUTS), 1 << 20)
            case _:
                return Done(request.id)

    @property
    def overwritten(self) -> int:
        """How many of a sample's outputs do not survive it."""
        return 0 if self.ring is None else max(0, self._count - self.ring)

    def _end_if_told(self) -> None:
        self._samples += 1
        if self.raises_at is not None and self._samples > self.raises_at:
            assert self.ending is not None
            raise JobEndedError(self.ending)

    def _prepared(self, request: Prepare) -> Done:
        now = self._now
        self.machine.now_ns += now.preparing_ns
        self.cpu.used_ns += now.preparing_cpu_ns + self._count * now.preparing_cpu_per_call_ns
        return Done(request.id)

    def _ran(self, request: Go | Spin, expected: type) -> Any:
        now, is_spin = self._now, isinstance(request, Spin)
        taken_ns = request.duration_ns if is_spin else self._count * now.call_ns
        if expected is Finished:
            return Finished(request.id)
        if expected is Returned:
            self._spins += is_spin
            late_ns = self.spin_noise_ns(self._spins) if is_spin else 0
            self.machine.now_ns += now.waking_ns + taken_ns + late_ns
            self.cpu.used_ns += taken_ns + now.running_cpu_ns
            is_honest = is_spin or now.claimed_ns is None
            claimed_ns = taken_ns if is_honest else self._count * now.claimed_ns
            host_ns = None if self.call_host_ns is None else self._count * self.call_host_ns
            return Returned(request.id, claimed_ns, self._count, host_ns)
        if expected is Committed:
            self.machine.now_ns += now.committing_ns
            return Committed(request.id, None)
        return QuickChecked(request.id, is_clear=self.overwritten == 0)


class FakeOracle:
    """Every call gets the same inputs, and has the same right answer; seeds tell calls apart."""

    def __init__(self) -> None:
        workload = Workload(axes={"n": 4}, inputs={"x": {"type": "random"}})
        self.definition = INCREMENT
        self.axes = dict(workload.axes)
        self.sound_properties = set[object]()
        self.inputs = plan_inputs(INCREMENT, workload)
        self.outputs = plan_outputs(INCREMENT, workload)
        self.task_notes = _Known()
        self.legal: list[tuple[int, int, int]] = []

    def trial_seed(self, trial: int) -> int:
        return trial

    def call_seed(self, trial: int, call: int) -> int:
        return _SEED_OF_CALL_0 + call

    def late_seed(self, trial: int, call: int) -> int:
        return 1

    def inputs_of(self, trial: int, call: int, count: int = 1, **_: Any) -> list[list[Any]]:
        return [INPUTS] * count

    def expected_of_first(self, trial: int) -> list[torch.Tensor]:
        return [RIGHT]

    def run(self, arguments: Sequence[Any], *, seed: int = 0) -> list[torch.Tensor]:
        return [RIGHT]

    def require_sound(self, *_: Any) -> None:
        pass

    def require_legal(self, trial: int, call: int, count: int) -> None:
        self.legal.append((trial, call, count))

    generated_bytes = 0
    rewrites_late = False

    def generated_memory(self) -> None:
        return None

    def precision(self, *_: Any) -> None:
        return None

    def unusual(self, *_: Any, **__: Any) -> str:
        return "not in this test"


class _Known(dict[Any, tuple[Any, ...]]):
    def __contains__(self, _: object) -> bool:
        return True

    def __missing__(self, _: object) -> tuple[Any, ...]:
        return ()


class FakeShared:
    """Outputs that are right, but for the reads that are named."""

    wrong_reads: frozenset[int] = frozenset()
    arrives_late = False

    def __init__(self, *_: Any, **__: Any) -> None:
        self._reads = 0

    def read(self, slot: int, device: Any) -> list[torch.Tensor]:
        self._reads += 1
        return [WRONG if self._reads in self.wrong_reads else RIGHT]


@dataclass(frozen=True)
class Rules:
    """What the judge is told of a job: its settings, and the rest."""

    settings: ResolvedEvalConfig
    judgement: Judgement


def quick_rules(**changes: Any) -> Rules:
    """The rules of a quick job: ten blocks of one sample."""
    rules: dict[str, Any] = {
        "warmup_runs": 2,
        "iterations": 10,
        "num_trials": 1,
        "max_error_cap": 10.0,
        "timeout_seconds": 60.0,
        "is_audited": True,
    } | changes
    told = {name: rules.pop(name) for name in Judgement.__struct_fields__ if name in rules}
    return Rules(ResolvedEvalConfig(**rules), Judgement(**told))


@dataclass
class Roofline:
    """Knows no limits, unless told what to say to every time."""

    said: str | None = None

    def share(self, latency_ns: float) -> None:
        return None

    def disbelief(self, latency_ns: float) -> str | None:
        return self.said


def evaluate(
    *links: FakeLink,
    rules: Rules | None = None,
    device: str = "cpu",
    cores: int = 1,
    oracle: FakeOracle | None = None,
    roofline: Roofline | None = None,
    conditions: Conditions | None = None,
    shared: type[FakeShared] = FakeShared,
    counter: Any = "no counter in this test",
    evict: Any = None,
    monkeypatch: Any,
) -> Decision:
    """Run one job of these participants."""
    monkeypatch.setattr(evaluation, "SharedOutputs", shared)
    monkeypatch.setattr(checking, "diagnosis_of", lambda *_: None)  # causes need a real reference
    plans = tuple(ParticipantPlan(each.name, is_reference=each.is_reference) for each in links)
    rules = rules or quick_rules()
    settings = rules.settings.model_dump_json().encode()
    job = RunJob(1, b"", b"", False, plans, settings, rules.judgement, key=1, coin=7)
    hardware: Any = SimpleNamespace(
        torch_device=SimpleNamespace(type=device),
        available_bytes=lambda: 1 << 40,
        total_bytes=lambda: 1 << 40,
    )
    around: Any = links, oracle or FakeOracle(), roofline or Roofline()
    made = evaluation.JobEvaluation(
        job,
        around[1],
        around[0],
        hardware,
        files=(),
        conditions=conditions or Conditions(Undisturbed(), 0),
        roofline=around[2],
        cores=cores,
        counter=counter,
        evict=evict,
    )
    try:
        return made.run()
    except JobEndedError as ended:
        return ended.outcome


def pair(
    numbers: Numbers = HONEST, *, of_batches: Numbers | None = None, reference: Numbers = HONEST
) -> tuple[FakeLink, FakeLink]:
    """A reference and a candidate on one machine."""
    machine = Machine()
    return (
        FakeLink("reference-1", machine, reference, is_reference=True),
        FakeLink("candidate-2", machine, numbers, of_batches),
    )
