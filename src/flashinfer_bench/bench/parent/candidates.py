"""Processes that run one callable each: started in a sandbox, built, connected to the judge, and ended."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from flashinfer_bench.bench.channel import ChannelClosed, ChannelGarbled, ChannelTimeout
from flashinfer_bench.bench.outcomes import NotBuilt, Outcome, Skipped
from flashinfer_bench.bench.parent import build_copies, used_libraries
from flashinfer_bench.bench.parent.launcher import WorkerDied
from flashinfer_bench.bench.parent.obstacles import is_for_another_device, missing_toolchain
from flashinfer_bench.bench.parent.stacks import sources_of, where_it_was
from flashinfer_bench.bench.protocol import (
    Build,
    BuildFailed,
    Built,
    BuiltElsewhere,
    Connect,
    Disconnect,
    FromCandidate,
    FromExamined,
    Raised,
)
from flashinfer_bench.bench.sandbox.policy import Sandbox, SandboxPolicy, require_all
from flashinfer_bench.bench.several_ranks import backend_of
from flashinfer_bench.compile.cache import require_writable, unwritable
from flashinfer_bench.errors import DatasetError, WorkerError
from flashinfer_bench.tensors.planned import InputPlan, plan_inputs, plan_returned

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from flashinfer_bench.bench.config import BenchmarkConfig
    from flashinfer_bench.bench.jobs import Job
    from flashinfer_bench.bench.parent.build_copies import BuildCopy
    from flashinfer_bench.bench.parent.launcher import Launcher, Worker
    from flashinfer_bench.bench.protocol import Phase, Wrapping
    from flashinfer_bench.bench.sandbox.policy import Level, Missing
    from flashinfer_bench.data import Definition, Solution, Workload

END_NOTICE_S = 2.0
"""So long it may take until the fork server says that a process ended whose channel is closed."""


@dataclass(frozen=True, slots=True)
class CandidateProcess:
    """A process that runs one callable; the judge is connected to it."""

    name: str
    worker: Worker
    takes_outputs: bool
    phases: tuple[Phase, ...]
    solution: Solution
    builds: BuildCopy | None = None
    """Its own copy of what is kept of its builds; the reference's lie in its temporary folder."""


@dataclass(frozen=True, slots=True)
class PendingBuild:
    """A process that builds."""

    worker: Worker
    request: Build
    solution: Solution
    builds: BuildCopy | None
    began_s: float
    deadline_s: float


@dataclass(frozen=True, slots=True)
class Tooling:
    """How a process is started for a tool to look at it."""

    wrapping: Wrapping | None = None
    """The program that starts it; a fork of the server where there is none."""
    lifted: tuple[Missing, ...] = ()
    opens_device_first: bool = False


class Slot:
    """A place for one process that outlives a job, or for the outcome of a build that failed.

    Either is kept for every job on the same subject; another subject ends it.
    """

    def __init__(self, end: Callable[[CandidateProcess], None]) -> None:
        self._end = end
        self._subject: str | None = None
        self._content: CandidateProcess | Outcome | None = None

    @property
    def process(self) -> CandidateProcess | None:
        """The process, where there is one."""
        return self._content if isinstance(self._content, CandidateProcess) else None

    def serves(self, subject: str) -> bool:
        """Tell whether it is known what comes of this subject."""
        return self._subject == subject

    def get(
        self, subject: str, start: Callable[[], CandidateProcess | Outcome]
    ) -> CandidateProcess | Outcome:
        """Give what serves a subject, and start it if nothing does."""
        if self._content is None or not self.serves(subject):
            self.drop()
            self._content = start()
            self._subject = subject
        return self._content

    def drop(self) -> None:
        """End the process, and forget a build that failed."""
        process, self._content, self._subject = self.process, None, None
        if process is not None:
            self._end(process)


class Candidates:
    """Starts and ends candidate processes on one device."""

    def __init__(
        self,
        launcher: Launcher,
        *,
        device: str,
        threads: int,
        roots: tuple[str, ...],
        cache_root: Path,
        config: BenchmarkConfig,
    ) -> None:
        self._launcher = launcher
        self._device = device
        self._threads = threads
        self._cache_root = cache_root
        self._config = config
        self.level: Level = "process" if config.sandbox == "required" else config.sandbox
        self.hidden = (*roots, str(cache_root))
        """What no process of somebody's code may read."""
        self.sandbox = Sandbox(self.level)
        """What was in force for the last candidate that was started."""
        self._copies: list[BuildCopy] = []
        self.build_ms: dict[str, float] = {}
        """How long each subject took to build: the longest time seen."""
        self.rehearsals = build_copies.Rehearsals(cache_root)

    def start(
        self,
        solution: Solution,
        job: Job,
        judge: Worker,
        *,
        is_trusted: bool,
        own_arch: str | None,
        arch: str | None,
    ) -> CandidateProcess | NotBuilt | Skipped:
        """Start a process in its own copy of the builds; the reference, which is trusted, has none.

        `arch`: what GPU code is compiled for, where that is not the device's own.
        """
        arguments = () if arch is None else arguments_of(solution, job.definition, job.workload)
        pending = self.begin(
            solution, job.definition, is_trusted=is_trusted, arch=arch, arguments=arguments
        )
        answer = self.finish(pending, own_arch)
        return self._connect(pending, judge, is_trusted) if isinstance(answer, Built) else answer

    def start_ranks(
        self,
        solution: Solution,
        job: Job,
        judge: Worker,
        *,
        is_trusted: bool,
        devices: Sequence[str],
    ) -> list[CandidateProcess] | NotBuilt | Skipped:
        """Start a process for each rank, on these devices; all build side by side.

        Each rank of a solution has a copy of its builds. What one of them says of a build ends all, and names it.
        """
        copies = [None if is_trusted else self._copy_builds(solution) for _ in devices]
        policies = [
            self._policy(copy, device=device) for copy, device in zip(copies, devices, strict=True)
        ]
        try:
            workers = self._launcher.spawn_ranks(
                FromCandidate,
                is_trusted=is_trusted,
                policies=policies,
                backend=backend_of(self._device),
            )
        except WorkerError:
            for copied in filter(None, copies):
                self._discard(copied)
            raise
        pending: list[PendingBuild] = []
        for rank, (worker, copy) in enumerate(zip(workers, copies, strict=True)):
            self.note_sandbox(worker, is_trusted=is_trusted)
            request = self._build_request(
                worker, copy, solution, job.definition, device=devices[rank]
            )
            threads = max(1, self._threads // len(devices))
            own = {"rank": rank, "ranks": len(devices), "threads": threads}
            request = msgspec.structs.replace(request, **own)
            pending.append(self._begun(worker, request, solution, copy))
        return self._connected_ranks(pending, judge, is_trusted=is_trusted)

    def _connected_ranks(
        self, pending: Sequence[PendingBuild], judge: Worker, *, is_trusted: bool
    ) -> list[CandidateProcess] | NotBuilt | Skipped:
        """Await all builds; where one did not succeed, its rank is named, and no process is left."""
        built: list[CandidateProcess] = []
        for rank, each in enumerate(pending):
            answer = self.finish(each, None)
            if not isinstance(answer, Built):
                for process in built:
                    self.end(process, judge)
                for other in pending[rank + 1 :]:
                    self.drop(other)
                if isinstance(answer, NotBuilt):
                    named = f"rank {rank}: {answer.explanation}"
                    return msgspec.structs.replace(answer, explanation=named)
                return answer
            built.append(self._connect(each, judge, is_trusted))
        return built

    def _connect(self, pending: PendingBuild, judge: Worker, is_trusted: bool) -> CandidateProcess:
        worker, solution = pending.worker, pending.solution
        name = f"{'reference' if is_trusted else 'candidate'}-{worker.pid}"
        connect = Connect(self._launcher.new_id(), name, worker.computing_pid)
        judge.channel.send(connect, [worker.channel.fileno()])
        takes_outputs, phases = solution.spec.destination_passing_style, _phases(solution)
        return CandidateProcess(name, worker, takes_outputs, phases, solution, pending.builds)

    def begin(
        self,
        solution: Solution,
        definition: Definition,
        *,
        is_trusted: bool = False,
        arch: str | None,
        arguments: tuple[InputPlan, ...] = (),
        only_compiles: bool = False,
        tooling: Tooling | None = None,
    ) -> PendingBuild:
        """Start a process and have it build; its deadline runs from now on. With `tooling`, for a tool to look at."""
        builds = None if is_trusted else self._copy_builds(solution)
        policy = self._policy(builds, tooling)
        worker = self._launcher.spawn(
            "examined" if tooling else "candidate",
            FromExamined if tooling else FromCandidate,
            is_trusted=is_trusted,
            policy=policy,
            wrapping=tooling.wrapping if tooling else None,
            libraries=used_libraries.libraries_of(solution, self._device),
        )
        self.note_sandbox(worker, is_trusted=is_trusted)
        request = self._build_request(worker, builds, solution, definition, device=self._device)
        request = msgspec.structs.replace(
            request, arch=arch, arguments=arguments, only_compiles=only_compiles
        )
        return self._begun(worker, request, solution, builds)

    def _policy(
        self, builds: BuildCopy | None, tooling: Tooling | None = None, *, device: str | None = None
    ) -> SandboxPolicy:
        """Say what shuts a process in: alike for all, because that must not tell in its times."""
        return SandboxPolicy(
            self.level,
            device or self._device,
            build_folder="" if builds is None else str(builds.folder),
            hidden=self.hidden,
            lifted=tooling.lifted if tooling else (),
            opens_device_first=tooling is not None and tooling.opens_device_first,
        )

    def _build_request(
        self,
        worker: Worker,
        builds: BuildCopy | None,
        solution: Solution,
        definition: Definition,
        *,
        device: str,
    ) -> Build:
        return Build(
            self._launcher.new_id(),
            solution=solution.model_dump_json().encode(),
            signature=definition.signature().model_dump_json().encode(),
            device=device,
            threads=self._threads,
            cache_root=str(worker.scratch if builds is None else builds.root),
            scratch=str(worker.scratch),
            clock=self._config.clock,
            cache=self._config.cache,
        )

    def _begun(
        self, worker: Worker, request: Build, solution: Solution, builds: BuildCopy | None
    ) -> PendingBuild:
        with contextlib.suppress(ChannelClosed):  # whoever awaits its answer finds it dead
            worker.channel.send(request)
        began_s = time.monotonic()
        deadline_s = began_s + self._config.build_timeout_seconds
        return PendingBuild(worker, request, solution, builds, began_s, deadline_s)

    def finish(self, pending: PendingBuild, own_arch: str | None) -> Built | NotBuilt | Skipped:
        """Await what comes of a build, and keep what it made; a process that did not build is gone."""
        answer = self._answer(pending, own_arch)
        took_ms, subject = 1e3 * (time.monotonic() - pending.began_s), subject_of(pending.solution)
        self.build_ms[subject] = max(took_ms, self.build_ms.get(subject, 0.0))
        if pending.builds is not None:
            self._keep(pending.builds)
        if not isinstance(answer, Built):
            self.drop(pending)
            if isinstance(answer, NotBuilt):
                require_writable(self._cache_root)  # a disk may be full by now
        return answer

    def drop(self, pending: PendingBuild) -> None:
        """Kill a process that builds, or has built, and throw its copy away."""
        self._launcher.kill(pending.worker)
        if pending.builds is not None:
            self._discard(pending.builds)

    def discard_copies(self) -> None:
        """Throw away the copies that are left; every process is gone."""
        for copy in list(self._copies):
            self._discard(copy)

    def end(
        self, process: CandidateProcess, judge: Worker | None, *, keeps_builds: bool = False
    ) -> None:
        """Kill a process and whatever it left running; the judge, if there is one, hears of it."""
        if judge is not None:
            with contextlib.suppress(ChannelClosed):  # a judge that is gone needs no telling
                judge.channel.send(Disconnect(self._launcher.new_id(), process.name))
        self._launcher.kill(process.worker)
        if process.builds is None:
            return
        if keeps_builds:
            self._keep(process.builds)
        elif process.builds.has_grown():
            self.rehearsals.note(process.solution)
        self._discard(process.builds)

    def note_sandbox(self, worker: Worker, *, is_trusted: bool) -> None:
        """Note what is in force for a candidate, and refuse less than all of it where all is required."""
        if not is_trusted:
            self.sandbox = Sandbox(self.level, worker.missing)
        if self._config.sandbox == "required":
            require_all(worker.missing)

    def _copy_builds(self, solution: Solution) -> BuildCopy:
        try:
            copy = build_copies.take(self._cache_root, solution)
        except OSError as error:
            raise unwritable(self._cache_root, error) from error
        self._copies.append(copy)
        return copy

    def _discard(self, copy: BuildCopy) -> None:
        self._copies.remove(copy)
        copy.discard()

    def _keep(self, builds: BuildCopy) -> None:
        try:
            builds.keep()
        except OSError as error:
            raise unwritable(self._cache_root, error) from error

    def _answer(self, pending: PendingBuild, own_arch: str | None) -> Built | NotBuilt | Skipped:
        worker, request, solution = pending.worker, pending.request, pending.solution
        limit_s = self._config.build_timeout_seconds
        try:
            answer = self._launcher.receive(
                worker.channel, deadline_s=pending.deadline_s, watching=[worker]
            )
        except ChannelTimeout:
            worker.log.drain()
            said = worker.log.take()
            stack = self._launcher.stack_of(worker)
            where = where_it_was(stack, sources_of(solution))
            explanation = f"the build took longer than {limit_s:g} s (--build-timeout){where}"
            return NotBuilt(explanation, said)
        except ChannelGarbled as error:
            return NotBuilt(f"the build broke its answer channel: {error}", worker.log.take())
        except (WorkerDied, ChannelClosed):
            self._launcher.wait_for_end(worker, seconds=END_NOTICE_S)
            return NotBuilt(f"while building, {worker.ending}", worker.log.take())
        match answer:
            case Built() if answer.id == request.id:
                return answer
            case BuiltElsewhere(absence=absence):
                if is_for_another_device(solution, arch=request.arch, own_arch=own_arch):
                    return Skipped(absence, is_compiled=True)
                said = f"the build says that it is for another device, and it is not: {absence}"
                return NotBuilt(said, worker.log.take())
            case BuildFailed(message=message, log=log, is_toolchain_missing=is_missing):
                lack = missing_toolchain(solution, arch=request.arch) if is_missing else None
                if lack is not None:
                    return Skipped(lack)
                return NotBuilt(message, log + worker.log.take())
            case Raised(text=text):
                return NotBuilt(text, worker.log.take())
            case _:
                return NotBuilt("the build answered with something else", worker.log.take())


def subject_of(solution: Solution) -> str:
    """What a process serves: this code under this name."""
    return f"{solution.name} {solution.hash()}"


def _phases(solution: Solution) -> tuple[Phase, ...]:
    """Name the phases that a solution has, in the order in which they run."""
    named: dict[Phase, str | None] = {"prepare": solution.spec.prepare, "plan": solution.spec.plan}
    return tuple(phase for phase, symbol in named.items() if symbol)


def arguments_of(
    solution: Solution, definition: Definition, workload: Workload
) -> tuple[InputPlan, ...]:
    """Describe a call of the solution; nothing where the workload is at fault, which shows later."""
    try:
        inputs = plan_inputs(definition, workload)
    except DatasetError:
        return ()
    outputs = plan_returned(definition, workload)
    into = outputs if solution.spec.destination_passing_style else ()
    return (*inputs, *(InputPlan(plan, "draw") for plan in into))
