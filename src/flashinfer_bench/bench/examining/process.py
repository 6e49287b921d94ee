"""One solution in processes of its own, for tools to look at: shut in, fed and killed as when it is timed.

A tool sees what the judge would see: the same build, inputs of the same kind from a key of their own, warm calls first.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from filelock import Timeout

from flashinfer_bench.bench import seeds
from flashinfer_bench.bench.attempts import Keys
from flashinfer_bench.bench.channel import ChannelClosed, ChannelGarbled, ChannelTimeout
from flashinfer_bench.bench.parent.candidates import (
    END_NOTICE_S,
    Candidates,
    Tooling,
    arguments_of,
)
from flashinfer_bench.bench.parent.device_locks import PROCESSOR, device_lock
from flashinfer_bench.bench.parent.events import Waiting
from flashinfer_bench.bench.parent.holders import (
    holder_text,
    ourselves,
    read_holder,
    write_holder,
)
from flashinfer_bench.bench.parent.launcher import Cancelled, Launcher, WorkerDied
from flashinfer_bench.bench.parent.pool import hardware_of
from flashinfer_bench.bench.parent.session import Session
from flashinfer_bench.bench.protocol import (
    BuildFailed,
    BuildTold,
    Built,
    BuiltElsewhere,
    Examine,
    Examined,
    FromExamined,
    OpenWorkload,
    Raised,
    TellBuild,
)
from flashinfer_bench.bench.several_ranks import require_one_rank
from flashinfer_bench.compile.cache import require_writable
from flashinfer_bench.data import Solution, settings
from flashinfer_bench.data.opening import read_bytes
from flashinfer_bench.data.solution import CompileOptions
from flashinfer_bench.errors import BenchError, BuildError, DatasetError
from flashinfer_bench.tensors import machine
from flashinfer_bench.tensors.files import shared_files
from flashinfer_bench.tensors.fixed_memory import fixed_memory
from flashinfer_bench.tensors.planned import plan_inputs, plan_outputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from flashinfer_bench.bench.config import BenchmarkConfig
    from flashinfer_bench.bench.parent.candidates import PendingBuild
    from flashinfer_bench.bench.parent.events import Progress
    from flashinfer_bench.bench.parent.launcher import Worker
    from flashinfer_bench.bench.protocol import Message, Phase
    from flashinfer_bench.data import Definition, Workload

_ALIGNMENT_BYTES = 64
_LARGEST_REPORT_BYTES = 1 << 30
_LOCK_POLL_S = 0.05
_GOODBYE_S = 60.0
"""So long a tool may take to write its report when the program has ended."""


class ExaminationError(BenchError):
    """A tool could not look: the solution, or the tool, ended before it said anything. `log` is what was printed."""

    def __init__(self, message: str, *, log: str = "") -> None:
        self.log = log
        super().__init__(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminedJob:
    """What is looked at: one solution on one workload, on one device."""

    definition: Definition
    solution: Solution
    workload: Workload
    device: str
    roots: tuple[str, ...]
    config: BenchmarkConfig

    @property
    def kind(self) -> str:
        """`cpu` or `cuda`."""
        return self.device.partition(":")[0]

    @property
    def phases(self) -> tuple[Phase, ...]:
        """What the solution has run once before its calls."""
        spec = self.solution.spec
        named: dict[Phase, str | None] = {"prepare": spec.prepare, "plan": spec.plan}
        return tuple(phase for phase, symbol in named.items() if symbol)


@dataclass(slots=True)
class Examiner:
    """Starts processes of one subject on a device that is held."""

    subject: ExaminedJob
    launcher: Launcher
    candidates: Candidates
    hardware: str
    own_arch: str | None
    _key: int = 0
    _sandbox_missing: dict[str, str] = field(default_factory=dict)

    @property
    def sandbox(self) -> str:
        """What was in force around every process so far, as traces name it."""
        level = self.candidates.level
        return "partial" if self._sandbox_missing and level != "off" else level

    @property
    def sandbox_missing(self) -> tuple[str, ...]:
        """The measures that were not in force around one of them, with the reason."""
        if self.candidates.level == "off":
            return ()
        return tuple(f"{name}: {reason}" for name, reason in self._sandbox_missing.items())

    @contextlib.contextmanager
    def started(
        self,
        solution: Solution | None = None,
        *,
        tooling: Tooling | None = None,
        only_compiles: bool = False,
        arch: str | None = None,
    ) -> Iterator[ExaminedProcess]:
        """Build a solution in a process, the subject's own where none is given; it ends with the block.

        Raises `BuildError` where it does not build.
        """
        asked = tooling or Tooling()
        solution = solution or self.subject.solution
        pending = self.candidates.begin(
            solution,
            self.subject.definition,
            arch=arch,
            arguments=arguments_of(solution, self.subject.definition, self.subject.workload),
            only_compiles=only_compiles,
            tooling=asked,
        )
        for each in pending.worker.missing:
            self._sandbox_missing.setdefault(each.measure, each.reason)
        process = ExaminedProcess(self, pending, time.monotonic())
        try:
            process.await_build()
            yield process
        finally:
            self.candidates.drop(pending)

    def open_workload(self) -> OpenWorkload:
        """Say what is called with what, as the judge would."""
        subject = self.subject
        definition, workload = subject.definition, subject.workload
        return OpenWorkload(
            self.launcher.new_id(),
            inputs=plan_inputs(definition, workload),
            outputs=plan_outputs(definition, workload),
            returned=len(definition.outputs),
            slot_count=1,
            has_files=self._has_files,
            has_output_buffers=subject.solution.spec.destination_passing_style,
            least_outputs=len(definition.outputs),
        )

    @property
    def _has_files(self) -> bool:
        plans = plan_inputs(self.subject.definition, self.subject.workload)
        return any(plan.source == "file" for plan in plans)

    def pools_seed(self) -> int:
        """Seed of what stays the same in all calls."""
        return seeds.pools_seed(self._key, self._name, 0)

    def call_seeds(self, count: int) -> tuple[int, ...]:
        """Seeds of so many calls."""
        return tuple(seeds.call_seed(self._key, self._name, 0, call) for call in range(count))

    @property
    def _name(self) -> str:
        return seeds.subject_of(self.subject.definition.name, self.subject.workload.uuid)

    @contextlib.contextmanager
    def descriptors(self) -> Iterator[list[int]]:
        """Open what goes with a workload: memory for outputs, and the content of files."""
        subject = self.subject
        with contextlib.ExitStack() as stack:
            memory = fixed_memory("outputs", _output_bytes(subject))
            stack.callback(os.close, memory)
            plans = plan_inputs(subject.definition, subject.workload)
            files = shared_files(plans, subject.roots)
            if files is not None:
                stack.callback(os.close, files)
            yield [memory] if files is None else [memory, files]


@dataclass(slots=True)
class ExaminedProcess:
    """A process with a built solution, that does what it is asked."""

    examiner: Examiner
    pending: PendingBuild
    _began_s: float
    absence: str | None = None
    """Why what was built cannot be called here."""

    @property
    def worker(self) -> Worker:
        """The process, or the tool around it."""
        return self.pending.worker

    @property
    def scratch(self) -> Path:
        """Where tools write; gone when the block ends."""
        return self.pending.worker.scratch

    def await_build(self) -> None:
        """Hear what came of the build."""
        answer = self._receive(self.pending.deadline_s, "--build-timeout", "the build")
        match answer:
            case Built():
                return
            case BuiltElsewhere(absence=absence):
                self.absence = absence
            case BuildFailed(message=message, log=log):
                raise BuildError(message, log=log)
            case Raised(text=text):
                raise BuildError(text.strip().splitlines()[-1], log=text)
            case _:
                raise BuildError("the build answered with something else")

    def examine(self, by: str, *, warm_calls: int) -> Examined:
        """Have it called, the last time under a tool. Raises `ExaminationError` where the solution raises or ends."""
        examiner = self.examiner
        request = Examine(
            examiner.launcher.new_id(),
            examiner.open_workload(),
            examiner.pools_seed(),
            examiner.call_seeds(warm_calls + 1),
            examiner.subject.phases,
            by,  # type: ignore[arg-type]  # one of the literals
        )
        with examiner.descriptors() as descriptors:
            answer = self._ask(request, descriptors, "the call")
        assert isinstance(answer, Examined)
        return answer

    def tell_build(self, *, counts_instructions: bool = False) -> BuildTold:
        """Have it say what compilers said, and what stands in the code of kernels."""
        request = TellBuild(self.examiner.launcher.new_id(), counts_instructions)
        answer = self._ask(request, (), "reading the build")
        assert isinstance(answer, BuildTold)
        return answer

    def become(self, request: Message) -> None:
        """Have it turn into another program, and wait for the end of that."""
        with self.examiner.descriptors() as descriptors, contextlib.suppress(ChannelClosed):
            self.worker.channel.send(request, descriptors)
            self._await_end(self._deadline_s())

    def finish(self) -> None:
        """Let the program end, and its tool write what it has to say."""
        self.worker.channel.close()
        self._await_end(min(self._deadline_s(), time.monotonic() + _GOODBYE_S))

    def read(self, name: str) -> bytes | None:
        """Read a file that a tool has written; None where there is none."""
        try:
            return read_bytes(self.scratch / name, _LARGEST_REPORT_BYTES)
        except (OSError, DatasetError):
            return None

    def said(self) -> str:
        """Take what was printed until now."""
        self.worker.log.drain()
        return self.worker.log.take()

    def _deadline_s(self) -> float:
        return time.monotonic() + self.examiner.subject.config.timeout_seconds

    def _ask(self, request: Message, descriptors: Sequence[int], what: str) -> FromExamined:
        try:
            self.worker.channel.send(request, list(descriptors))
        except ChannelClosed:
            self.examiner.launcher.wait_for_end(self.worker, seconds=END_NOTICE_S)
            raise ExaminationError(
                f"before {what}, {self.worker.ending}", log=self.said()
            ) from None
        answer = self._receive(self._deadline_s(), "--timeout", what)
        if isinstance(answer, Raised):
            last = answer.text.strip().splitlines()[-1] if answer.text.strip() else "it failed"
            raise ExaminationError(f"{what} raised {last}", log=answer.text + self.said())
        return answer

    def _receive(self, deadline_s: float, option: str, what: str) -> FromExamined:
        launcher, worker = self.examiner.launcher, self.worker
        try:
            answer: FromExamined = launcher.receive(
                worker.channel, deadline_s=deadline_s, watching=[worker]
            )
        except ChannelTimeout:
            raise ExaminationError(f"{what} took too long ({option})", log=self.said()) from None
        except ChannelGarbled as error:
            raise ExaminationError(f"{what} broke its channel: {error}", log=self.said()) from None
        except (WorkerDied, ChannelClosed):
            launcher.wait_for_end(worker, seconds=END_NOTICE_S)
            raise ExaminationError(f"in {what}, {worker.ending}", log=self.said()) from None
        return answer

    def _await_end(self, deadline_s: float) -> None:
        launcher, worker = self.examiner.launcher, self.worker
        launcher.wait_for_end(worker, seconds=max(0.0, deadline_s - time.monotonic()))
        if worker.status is None:
            raise ExaminationError("the tool did not end in time (--timeout)", log=self.said())


@contextlib.contextmanager
def examiner_of(
    subject: ExaminedJob,
    *,
    observe: Callable[[Progress], None] = lambda _: None,
    stop: int | None = None,
) -> Iterator[Examiner]:
    """Hold the device, start a fork server, and end all of it with the block.

    When the descriptor `stop` can be read, everything ends and `Cancelled` is raised.
    """
    require_one_rank(subject.definition, "a tool")
    config, threads = subject.config, subject.config.threads or machine.physical_cores()
    cache_root = settings.cache_path()
    require_writable(cache_root)
    with contextlib.ExitStack() as stack:
        if stop is None:
            stop, writer = os.pipe2(os.O_CLOEXEC)
            stack.callback(os.close, writer)
            stack.callback(os.close, stop)
        launcher = Launcher(environment=settings.environment_copy(), threads=threads, stop=stop)
        stack.callback(launcher.close)
        launcher.start()
        common: dict[str, Any] = {
            "device": subject.device,
            "threads": threads,
            "roots": subject.roots,
            "cache_root": cache_root,
            "config": config,
        }
        lock_name, hardware, own_arch = PROCESSOR, hardware_of(subject.device), None
        if subject.kind != "cpu":
            key = Keys(0, is_seed=False)
            session = Session(
                launcher,
                keys=key,
                known_failure=lambda *_: None,
                best_speedup=lambda _: None,
                **common,
            )
            opened = session.open()
            lock_name, hardware, own_arch = opened.lock_name, opened.hardware, opened.arch
        candidates = Candidates(launcher, **common)
        stack.callback(candidates.discard_copies)
        stack.enter_context(_held(lock_name, subject.device, observe, stop))
        key_bits = secrets.randbits(64) if config.seed is None else config.seed
        yield Examiner(subject, launcher, candidates, hardware, own_arch, key_bits)


@contextlib.contextmanager
def _held(name: str, device: str, observe: Callable[[Progress], None], stop: int) -> Iterator[None]:
    """Hold the machine-wide lock of a device, so that nothing is timed on it meanwhile."""
    lock, has_told = device_lock(name), False
    while True:
        try:
            lock.acquire(timeout=0)
            break
        except Timeout:
            if not has_told:
                observe(Waiting(device, holder_text(read_holder(name))))
                has_told = True
            if select.select([stop], [], [], _LOCK_POLL_S)[0]:
                raise Cancelled from None
    write_holder(name, ourselves(time.time()))
    try:
        yield
    finally:
        lock.release()


def with_flags(
    solution: Solution,
    *,
    compiler: Sequence[str] = (),
    nvcc: Sequence[str] = (),
    linker: Sequence[str] = (),
) -> Solution:
    """Give the same code with more flags for its compilers: another build, under the same name."""
    own = solution.spec.compile_options
    more = CompileOptions.model_construct(  # ours: some are none that a solution may name
        cflags=[*(own.cflags if own else ()), *compiler],
        cuda_cflags=[*(own.cuda_cflags if own else ()), *nvcc],
        ld_flags=[*(own.ld_flags if own else ()), *linker],
    )
    spec = solution.spec.model_copy(update={"compile_options": more})
    same = {name: getattr(solution, name) for name in type(solution).model_fields}
    return Solution(**same | {"spec": spec})  # made anew: a copy would keep the other's hash


def _output_bytes(subject: ExaminedJob) -> int:
    """Bytes of one call's outputs, each aligned, as `SharedOutputs` lays them out."""
    plans = plan_outputs(subject.definition, subject.workload)
    sizes = (-(-plan.size_bytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES for plan in plans)
    return max(1, sum(sizes))
