"""One device's workers at work: a judge, the reference's contestant, and one candidate at a time."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.bench.blame import (
    PLAYS,
    Suspect,
    blamed_on_dataset,
    unless_it_wants_a_gpu,
    with_log,
)
from flashinfer_bench.bench.channel import ChannelClosed, ChannelGarbled, ChannelTimeout
from flashinfer_bench.bench.confinement import Confinement, Held
from flashinfer_bench.bench.launcher import Launcher, Worker, WorkerDied
from flashinfer_bench.bench.obstacles import is_for_another_device, missing_toolchain
from flashinfer_bench.bench.outcomes import (
    Crashed,
    DatasetFault,
    Misshapen,
    NotBuilt,
    Outcome,
    Passed,
    RivalFailed,
    Skipped,
    TimedOut,
    Wrong,
)
from flashinfer_bench.bench.plan import key_of
from flashinfer_bench.bench.protocol import (
    Build,
    BuildFailed,
    Built,
    BuiltElsewhere,
    Connect,
    Contestant,
    Disconnect,
    FromContestant,
    FromJudge,
    JobAborted,
    JobDecided,
    JobMisshapen,
    JobPassed,
    JobRaised,
    JobResult,
    JobSkipped,
    JobSuspect,
    JobTimedOut,
    JobWrong,
    JudgeFailed,
    Judgement,
    Open,
    Opened,
    Raised,
    ReferenceFailed,
    RunJob,
)
from flashinfer_bench.bench.worker import container
from flashinfer_bench.compile.cache import require_writable, solution_folder
from flashinfer_bench.compile.reference import reference_solution
from flashinfer_bench.errors import DatasetError, DeviceError, WorkerError
from flashinfer_bench.tensors.planned import InputPlan, plan_inputs, plan_outputs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from flashinfer_bench.bench.config import BenchmarkConfig
    from flashinfer_bench.bench.confinement import Level
    from flashinfer_bench.bench.plan import Job
    from flashinfer_bench.bench.protocol import Phase
    from flashinfer_bench.data import Solution

_OPEN_DEADLINE_S = 120.0
_END_NOTICE_S = 2.0
_LOOK_S = 0.001
_JUDGE_GRACE_S = 120.0


@dataclass
class _Seat:
    """A contestant the judge is connected to."""

    name: str
    worker: Worker
    subject: str
    takes_outputs: bool
    phases: tuple[Phase, ...]


@dataclass(frozen=True)
class _Seats:
    """Who takes part in a job."""

    candidate: _Seat
    rival: _Seat | None
    reference: _Seat | None

    def __iter__(self) -> Iterator[_Seat]:
        """In the order in which the first block is timed."""
        return (seat for seat in (self.reference, self.candidate, self.rival) if seat is not None)


@dataclass(frozen=True)
class _Refused:
    """A build that failed; the same for every workload of the solution."""

    outcome: Outcome


class Session:
    """Runs jobs on one device. One thread owns it."""

    def __init__(
        self,
        launcher: Launcher,
        *,
        device: str,
        threads: int,
        key: int,
        roots: tuple[str, ...],
        cache_root: Path,
        config: BenchmarkConfig,
    ) -> None:
        self._launcher = launcher
        self._device = device
        self._threads = threads
        self._key = key
        self._roots = roots
        self._cache_root = cache_root
        self._config = config
        self._level: Level = "process" if config.sandbox == "required" else config.sandbox
        self.held = Held(self._level)
        self._judge: Worker | None = None
        self._reference: _Seat | _Refused | None = None
        self._reference_subject = ""
        self._candidate: _Seat | _Refused | None = None
        self._candidate_subject = ""
        self._rival: _Seat | _Refused | None = None
        self._has_lost_a_trusted_one = False
        self._own_arch: str | None = None

    def open(self) -> Opened:
        """Start the judge and return what it found out about the device."""
        require_writable(self._cache_root)
        if self._level == "container":
            obstacle = container.missing_program()
            if obstacle is not None:
                raise DeviceError(f"no container for solutions: {obstacle}")
        self._judge = self._launcher.spawn("judge", FromJudge, is_trusted=True)
        scratch = str(self._judge.scratch)  # the reference's source stays out of the shared cache
        request = Open(
            self._launcher.new_id(),
            self._device,
            self._threads,
            scratch,
            clock=self._config.clock,
            cache=self._config.cache,
            ceilings_folder=str(self._cache_root / "ceilings"),
        )
        self._judge.channel.send(request)
        try:
            opened = self._hear_judge(_OPEN_DEADLINE_S)
        except (WorkerDied, ChannelClosed, ChannelTimeout) as error:
            said = self._judge.log.take().strip()
            raise WorkerError(
                f"the judge did not start on {self._device}: {said or error}"
            ) from error
        assert isinstance(opened, Opened)
        self._own_arch = opened.arch
        return opened

    def run(self, job: Job) -> Outcome:
        """Run one job; workers that it broke are replaced before the next one."""
        try:
            job.definition.require_workload(job.workload)
        except DatasetError as error:
            return DatasetFault(str(error))
        judge = self._require_judge()
        self._launcher.wait_for_end(judge, seconds=_LOOK_S)
        if judge.status is not None:  # not this job's doing: the pool starts us anew
            raise WorkerError(f"between two jobs, {judge.ending} (the judge)")
        outcome = self._play_until_believed(job)
        if self._config.use_isolated_runner:
            self.end_candidate()
        return outcome

    def _play_until_believed(self, job: Job) -> Outcome:
        """Play a job anew, in fresh processes, while what is claimed does not fit what was seen.

        Noise that looks like a lie does not look so three times; a lie that is not told again is gone.
        """
        said = ""
        for _ in range(PLAYS):
            outcome = self._seat_and_play(job)
            if not isinstance(outcome, Suspect):
                return with_log(outcome, said)
            said += outcome.reasons
            self.end_candidate()
        assert isinstance(outcome, Suspect)
        return outcome.convicted(said)

    def _seat_and_play(self, job: Job) -> Outcome | Suspect:
        """Play a job; again, in fresh processes, before a dead judge or reference is the dataset's fault."""
        self._has_lost_a_trusted_one = False
        outcome = self._seat_and_play_once(job)
        if self._has_lost_a_trusted_one:
            self.end_candidate()
            outcome = self._seat_and_play_once(job)
        return outcome

    def _seat_and_play_once(self, job: Job) -> Outcome | Suspect:
        candidate = self._candidate_for(job)
        if isinstance(candidate, _Refused):
            return candidate.outcome
        rival = self._rival_for(job)
        if isinstance(rival, _Refused):
            return RivalFailed(rival.outcome)
        reference = self._reference_for(job)
        if isinstance(reference, _Refused):
            return reference.outcome
        return self._play(job, _Seats(candidate, rival, reference))

    def end_candidate(self) -> None:
        """Kill the candidate and whatever it left running; the next job starts a fresh one."""
        self._end(self._candidate)
        self._end(self._rival)
        self._candidate, self._candidate_subject = None, ""
        self._rival = None

    # ------------------------------------------------------------------ contestants

    def _candidate_for(self, job: Job) -> _Seat | _Refused:
        if self._candidate_subject != _subject(job.solution) or self._candidate is None:
            self.end_candidate()
            self._candidate = self._seat(job.solution, job, is_trusted=False)
            self._candidate_subject = _subject(job.solution)
        return self._candidate

    def _rival_for(self, job: Job) -> _Seat | _Refused | None:
        """Seat the second solution of a job of two; it lives as long as the first."""
        if job.rival is None:
            self._end(self._rival)
            self._rival = None
        elif not isinstance(self._rival, _Seat) or self._rival.subject != _subject(job.rival):
            self._end(self._rival)
            self._rival = self._seat(job.rival, job, is_trusted=False)
        return self._rival

    def _reference_for(self, job: Job) -> _Seat | _Refused | None:
        if not (job.config.profile_baseline or self._config.audit):
            return None
        if self._reference_subject != job.definition.to_json() or self._reference is None:
            self._end(self._reference)
            solution = reference_solution(job.definition)
            seat = self._seat(solution, job, is_trusted=True)
            if isinstance(seat, _Refused):
                seat = _Refused(blamed_on_dataset(seat.outcome))
            self._reference, self._reference_subject = seat, job.definition.to_json()
        return self._reference

    def _seat(self, solution: Solution, job: Job, *, is_trusted: bool) -> _Seat | _Refused:
        """Start a contestant, have it build, and hand its channel to the judge."""
        confinement = self._confinement(solution, is_trusted=is_trusted)
        worker = self._launcher.spawn(
            "contestant", FromContestant, is_trusted=is_trusted, confinement=confinement
        )
        self._note_what_holds(worker, is_trusted=is_trusted)
        request = Build(
            self._launcher.new_id(),
            solution=solution.model_dump_json().encode(),
            signature=job.definition.signature().model_dump_json().encode(),
            device=self._device,
            threads=self._threads,
            cache_root=str(worker.scratch if is_trusted else self._cache_root),
            scratch=str(worker.scratch),
            clock=self._config.clock,
            cache=self._config.cache,
            arch=self._config.arch,
            arguments=() if self._config.arch is None else _arguments(solution, job),
        )
        answer = self._build(worker, request, solution)
        if not isinstance(answer, Built):
            self._launcher.kill(worker)
            if isinstance(answer, NotBuilt):
                require_writable(self._cache_root)  # a disk may be full by now
            return _Refused(answer)
        name = f"{'reference' if is_trusted else 'candidate'}-{worker.pid}"
        judge = self._require_judge()
        connect = Connect(self._launcher.new_id(), name, worker.computing_pid)
        judge.channel.send(connect, [worker.channel.fileno()])
        takes_outputs = solution.spec.destination_passing_style
        return _Seat(name, worker, _subject(solution), takes_outputs, _phases(solution))

    def _confinement(self, solution: Solution, *, is_trusted: bool) -> Confinement:
        """Hold both sides alike: what shuts a process in must not tell in its times."""
        own = solution_folder(self._cache_root, solution)
        return Confinement(
            self._level,
            self._device,
            build_folder="" if is_trusted else str(own),
            hidden=(*self._roots, str(self._cache_root)),
        )

    def _note_what_holds(self, worker: Worker, *, is_trusted: bool) -> None:
        if not is_trusted:
            self.held = Held(self._level, worker.missing)
        if self._config.sandbox == "required" and worker.missing:
            reasons = "; ".join(f"{each.measure}: {each.reason}" for each in worker.missing)
            raise DeviceError(
                f"a sandbox is required, and not all of it can be put in force here: {reasons}. "
                "`flashinfer-bench doctor` says what is missing"
            )

    def _build(self, worker: Worker, request: Build, solution: Solution) -> Built | Outcome:
        limit_s = self._config.build_timeout_seconds
        try:
            worker.channel.send(request)
            answer = self._launcher.receive(
                worker.channel, deadline_s=time.monotonic() + limit_s, watching=[worker]
            )
        except ChannelTimeout:
            worker.log.drain()
            return NotBuilt(f"the build took longer than {limit_s:g} s", worker.log.take())
        except ChannelGarbled as error:
            return NotBuilt(f"the build broke its answer channel: {error}", worker.log.take())
        except (WorkerDied, ChannelClosed):
            self._launcher.wait_for_end(worker, seconds=_END_NOTICE_S)
            return NotBuilt(f"while building, {worker.ending}", worker.log.take())
        match answer:
            case Built() if answer.id == request.id:
                return answer
            case BuiltElsewhere(absence=absence):
                if is_for_another_device(solution, arch=request.arch, own_arch=self._own_arch):
                    return Skipped(absence)
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

    def _end(self, seat: _Seat | _Refused | None) -> None:
        if not isinstance(seat, _Seat):
            return
        if self._judge is not None:
            with contextlib.suppress(ChannelClosed):  # a judge that is gone needs no telling
                self._judge.channel.send(Disconnect(self._launcher.new_id(), seat.name))
        self._launcher.kill(seat.worker)

    # ------------------------------------------------------------------ one job

    def _play(self, job: Job, seats: _Seats) -> Outcome | Suspect:
        request = self._request(job, seats)
        limit_s = max(2, len(list(seats))) * self._config.timeout_seconds + _JUDGE_GRACE_S
        try:
            self._require_judge().channel.send(request)
            result = self._await_result(list(seats), time.monotonic() + limit_s)
        except ChannelTimeout:
            self._restart_judge()
            return DatasetFault(f"the reference did not return within {limit_s:g} s")
        except (WorkerDied, ChannelClosed):
            return self._after_judge_died()
        rival = seats.rival
        is_rivals = rival is not None and getattr(result, "contestant", "") == rival.name
        if isinstance(result, JobSuspect):
            seat = rival if rival is not None and is_rivals else seats.candidate
            return Suspect(result, seat.worker.log.take(), is_rivals)
        if rival is not None and is_rivals:
            return RivalFailed(self._outcome(result, rival))
        return unless_it_wants_a_gpu(self._outcome(result, seats.candidate), job, self._device)

    def _request(self, job: Job, seats: _Seats) -> RunJob:
        contestants = [
            Contestant(
                seat.name,
                is_reference=seat is seats.reference,
                is_timed=seat is not seats.reference or job.config.profile_baseline,
                takes_outputs=seat.takes_outputs,
                phases=seat.phases,
            )
            for seat in seats
        ]
        config, key = job.config, key_of(job, self._key)
        return RunJob(
            self._launcher.new_id(),
            definition=job.definition.model_dump_json().encode(),
            workload=job.workload.model_dump_json().encode(),
            roots=self._roots,
            contestants=tuple(contestants),
            judgement=Judgement(
                warmup_runs=config.warmup_runs,
                iterations=config.iterations,
                num_trials=config.num_trials,
                rtol=config.rtol,
                atol=config.atol,
                required_matched_ratio=config.required_matched_ratio,
                max_error_cap=config.max_error_cap,
                max_precision_ratio=config.max_precision_ratio,
                timeout_seconds=self._config.timeout_seconds,
                is_audited=self._config.audit,
                is_cold=config.is_cold_on(self._device.partition(":")[0]),
                is_told_late=config.clock == "cupti",
                disturbed_repeats=self._config.disturbed_repeats,
                calls_per_sample=job.calls_per_sample,
                until_interval=config.until_interval,
                time_budget_seconds=config.time_budget_seconds,
                extra=config.extra,
            ),
            key=key,
            coin=_coin(key),
        )

    def _await_result(self, seats: list[_Seat], deadline_s: float) -> JobResult:
        """Wait for the judge; tell it at once when a contestant's process ends."""
        watched = {seat.worker.pid: seat for seat in seats}
        judge = self._require_judge()
        while True:
            workers = [judge, *(seat.worker for seat in watched.values())]
            try:
                answer: Opened | JobResult = self._launcher.receive(
                    judge.channel, deadline_s=deadline_s, watching=workers
                )
            except WorkerDied as death:
                if death.worker is judge:
                    raise
                seat = watched.pop(death.worker.pid)
                judge.channel.send(Disconnect(self._launcher.new_id(), seat.name))
                continue
            if isinstance(answer, Opened):
                raise WorkerError("the judge answered a job with its introduction")
            return answer

    def _outcome(self, result: JobDecided, candidate: _Seat) -> Outcome:
        log = candidate.worker.log
        log.drain()
        match result:
            case JobPassed():
                return Passed(result, log.take())
            case JobWrong():
                return Wrong(result, log.take())
            case JobMisshapen():
                return Misshapen(result, log.take())
            case JobRaised(explanation=explanation):
                return Crashed(explanation, log.take())
            case JobTimedOut(explanation=explanation):
                text = log.take()
                self.end_candidate()
                return TimedOut(explanation, text)
            case JobAborted(contestant=name, explanation=explanation):
                return self._after_abort(name, explanation, candidate)
            case JobSkipped(reason=reason):
                return Skipped(reason)
            case ReferenceFailed(explanation=explanation):
                self._drop_reference()
                return DatasetFault(explanation)
            case JudgeFailed(text=text):
                raise WorkerError(f"the judge failed:\n{text}")

    def _after_abort(self, name: str, explanation: str, candidate: _Seat) -> Outcome:
        """A contestant's process ended, or its channel broke."""
        if name != candidate.name:
            seat = self._reference
            ending = explanation
            if isinstance(seat, _Seat):
                self._launcher.wait_for_end(seat.worker, seconds=_END_NOTICE_S)
                ending = f"{seat.worker.ending}\n{seat.worker.log.take()}"
            self._drop_reference()
            self._has_lost_a_trusted_one = True
            return DatasetFault(f"while the reference was timed, {ending}")
        self._launcher.wait_for_end(candidate.worker, seconds=_END_NOTICE_S)
        if candidate.worker.status is not None:
            explanation = candidate.worker.ending
        text = candidate.worker.log.take()
        self.end_candidate()
        return Crashed(explanation, text)

    # ------------------------------------------------------------------ the judge

    def _require_judge(self) -> Worker:
        if self._judge is None:
            self.open()
        assert self._judge is not None
        return self._judge

    def _hear_judge(self, seconds: float) -> Opened | JobResult:
        assert self._judge is not None
        channel = self._judge.channel
        answer: Opened | JobResult = self._launcher.receive(
            channel, deadline_s=time.monotonic() + seconds, watching=[self._judge]
        )
        return answer

    def _after_judge_died(self) -> Outcome:
        """The judge runs the reference and nothing else that could end it by a signal."""
        judge = self._require_judge()
        self._launcher.wait_for_end(judge, seconds=_END_NOTICE_S)
        ending, said = judge.ending, judge.log.take()
        is_signal = judge.status is not None and judge.status & 0x7F != 0
        self._restart_judge()
        if not is_signal:
            raise WorkerError(f"the judge ended unexpectedly: {ending}\n{said}")
        self._has_lost_a_trusted_one = True
        return DatasetFault(f"while the reference ran, {ending}\n{said}")

    def _restart_judge(self) -> None:
        """Start over: contestants belong to the judge that was connected to them."""
        if self._judge is not None:
            self._launcher.kill(self._judge)
        self._judge = None
        self.end_candidate()
        self._drop_reference()
        self.open()

    def _drop_reference(self) -> None:
        self._end(self._reference)
        self._reference, self._reference_subject = None, ""


def _subject(solution: Solution) -> str:
    """What a process serves: this code under this name."""
    return f"{solution.name} {solution.hash()}"


def _coin(key: int) -> int:
    """Derive what decides which timed calls are checked: secret while the job runs, replayable after."""
    digest = hmac.digest(key.to_bytes(8, "little"), b"coin", hashlib.sha256)
    return int.from_bytes(digest[:8], "little") >> 1


def _phases(solution: Solution) -> tuple[Phase, ...]:
    """Name the phases that a solution has, in the order in which they run."""
    named: dict[Phase, str | None] = {"prepare": solution.spec.prepare, "plan": solution.spec.plan}
    return tuple(phase for phase, symbol in named.items() if symbol)


def _arguments(solution: Solution, job: Job) -> tuple[InputPlan, ...]:
    """Describe a call of the solution; nothing where the workload is at fault, which shows later."""
    try:
        inputs = plan_inputs(job.definition, job.workload)
    except DatasetError:
        return ()
    outputs = plan_outputs(job.definition, job.workload)
    into = outputs if solution.spec.destination_passing_style else ()
    return (*inputs, *(InputPlan(plan, "draw") for plan in into))
