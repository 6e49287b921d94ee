"""One device's workers at work: a judge, the reference's contestant, and one candidate at a time."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import time
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from flashinfer_bench.bench import build_copies
from flashinfer_bench.bench.attempts import Attempt
from flashinfer_bench.bench.blame import (
    PLAYS,
    Suspect,
    blamed_on_dataset,
    unless_it_wants_a_gpu,
    unless_memory_ran_out,
    with_log,
)
from flashinfer_bench.bench.channel import ChannelClosed, ChannelGarbled, ChannelTimeout
from flashinfer_bench.bench.confinement import Confinement, Held, of_judge, require_all
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
from flashinfer_bench.bench.protocol import (
    Build,
    BuildFailed,
    Built,
    BuiltElsewhere,
    CeilingsLearned,
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
    LearnCeilings,
    LookAtProcess,
    Open,
    Opened,
    ProcessSeen,
    Raised,
    ReferenceFailed,
    RunJob,
)
from flashinfer_bench.bench.worker import container
from flashinfer_bench.bench.worker.confined import FAILED
from flashinfer_bench.bench.worker.processes import descendants_of, waited_ns
from flashinfer_bench.compile.cache import require_writable, unwritable
from flashinfer_bench.compile.reference import reference_solution
from flashinfer_bench.errors import DatasetError, DeviceError, WorkerError
from flashinfer_bench.tensors import ceilings
from flashinfer_bench.tensors.files import shared_files
from flashinfer_bench.tensors.planned import InputPlan, plan_inputs, plan_outputs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from flashinfer_bench.bench.attempts import Keys
    from flashinfer_bench.bench.build_copies import BuildCopy
    from flashinfer_bench.bench.config import BenchmarkConfig
    from flashinfer_bench.bench.confinement import Level
    from flashinfer_bench.bench.plan import Job
    from flashinfer_bench.bench.protocol import Phase
    from flashinfer_bench.data import Solution

_OPEN_DEADLINE_S = 120.0
_END_NOTICE_S = 2.0
_LOOK_S = 0.001
_JUDGE_GRACE_S = 120.0
_REHEARSED: Mapping[str, Any] = MappingProxyType(
    {
        "warmup_runs": 2,
        "iterations": 1,
        "num_trials": 1,
        "until_interval": None,
        "time_budget_seconds": None,
    }
)
"""Settings of a rehearsal: a few calls, of which nothing is recorded."""


@dataclass
class _Seat:
    """A contestant the judge is connected to."""

    name: str
    worker: Worker
    subject: str
    takes_outputs: bool
    phases: tuple[Phase, ...]
    solution: Solution
    builds: BuildCopy | None = None
    """Its own copy of what is kept of its builds; the reference's lie in its temporary folder."""


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
        keys: Keys,
        roots: tuple[str, ...],
        cache_root: Path,
        config: BenchmarkConfig,
    ) -> None:
        self._launcher = launcher
        self._device = device
        self._threads = threads
        self._keys = keys
        self.attempt = Attempt()
        self._rehearsals = build_copies.Rehearsals(cache_root)
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
        self._ceilings_file = cache_root
        self._knows_ceilings = False
        self._own_arch: str | None = None

    def open(self) -> Opened:
        """Start the judge and return what it found out about the device."""
        require_writable(self._cache_root)
        if self._level == "container":
            obstacle = container.missing_program()
            if obstacle is not None:
                raise DeviceError(f"no container for solutions: {obstacle}")
        confinement = of_judge(self._level, self._device, self._hidden())
        self._judge = self._launcher.spawn(
            "judge", FromJudge, is_trusted=True, confinement=confinement
        )
        self._note_what_holds(self._judge, is_trusted=True)
        scratch = str(self._judge.scratch)  # the reference's source stays out of the shared cache
        request = Open(
            self._launcher.new_id(),
            self._device,
            self._threads,
            scratch,
            clock=self._config.clock,
            cache=self._config.cache,
        )
        opened = self._ask_judge(request)
        assert isinstance(opened, Opened)
        self._ceilings_file = ceilings.file_of(
            self._cache_root / "ceilings", opened.uuid, self._threads
        )
        self._knows_ceilings = False
        self._own_arch = opened.arch
        return opened

    def _have_ceilings(self) -> None:
        """Tell a new judge how fast the device is, or have it measure: before a reference can touch the figures."""
        if self._knows_ceilings:
            return
        known = ceilings.read(self._ceilings_file)
        learned = self._ask_judge(LearnCeilings(self._launcher.new_id(), known))
        assert isinstance(learned, CeilingsLearned)
        if known is None and learned.ceilings is not None:
            ceilings.write(self._ceilings_file, learned.ceilings)
        self._knows_ceilings = True

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
        self.attempt = Attempt(number=0)
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
        self._have_ceilings()
        candidate = self._candidate_for(job)
        self.attempt = self._keys.next(
            job, number=self.attempt.number + 1, can_keep_notes=self._can_keep_notes
        )
        if isinstance(candidate, _Refused):
            return candidate.outcome
        rival = self._rival_for(job)
        if isinstance(rival, _Refused):
            return RivalFailed(rival.outcome)
        reference = self._reference_for(job)
        if isinstance(reference, _Refused):
            return reference.outcome
        return self._play(job, _Seats(candidate, rival, reference), key=self.attempt.key)

    @property
    def _can_keep_notes(self) -> bool:
        """Whether a candidate could write where a later one reads."""
        return self._level == "off" or any(each.measure == "files" for each in self.held.missing)

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
        if is_trusted:
            return self._seat_in(None, solution, job)
        if self._rehearsals.is_due(solution, job.workload.uuid):
            self._rehearse(solution, job)
        return self._seat_in(self._copy_builds(solution), solution, job)

    def _copy_builds(self, solution: Solution) -> BuildCopy:
        try:
            return build_copies.take(self._cache_root, solution)
        except OSError as error:
            raise unwritable(self._cache_root, error) from error

    def _rehearse(self, solution: Solution, job: Job) -> None:
        """Let a solution that compiles at its first calls do so on inputs of no other use, and keep what it made."""
        candidate = self._seat_in(self._copy_builds(solution), solution, job)
        if isinstance(candidate, _Refused):
            return
        key = secrets.randbits(64)
        try:
            self._play(job, _Seats(candidate, None, None), key=key, is_rehearsal=True)
        finally:
            self._end(candidate, keeps_builds=True)
        self._rehearsals.note(solution, job.workload.uuid)

    def _seat_in(self, builds: BuildCopy | None, solution: Solution, job: Job) -> _Seat | _Refused:
        """Start a contestant in its own copy of the builds; the reference, which is trusted, has none."""
        is_trusted = builds is None
        worker = self._launcher.spawn(
            "contestant",
            FromContestant,
            is_trusted=is_trusted,
            confinement=self._confinement(builds),
        )
        self._note_what_holds(worker, is_trusted=is_trusted)
        request = Build(
            self._launcher.new_id(),
            solution=solution.model_dump_json().encode(),
            signature=job.definition.signature().model_dump_json().encode(),
            device=self._device,
            threads=self._threads,
            cache_root=str(worker.scratch if builds is None else builds.root),
            scratch=str(worker.scratch),
            clock=self._config.clock,
            cache=self._config.cache,
            arch=self._config.arch,
            arguments=() if self._config.arch is None else _arguments(solution, job),
        )
        answer = self._build(worker, request, solution)
        if builds is not None:
            self._keep(builds)
        if not isinstance(answer, Built):
            self._launcher.kill(worker)
            if builds is not None:
                builds.discard()
            if isinstance(answer, NotBuilt):
                require_writable(self._cache_root)  # a disk may be full by now
            return _Refused(answer)
        name = f"{'reference' if is_trusted else 'candidate'}-{worker.pid}"
        judge = self._require_judge()
        connect = Connect(self._launcher.new_id(), name, worker.computing_pid)
        judge.channel.send(connect, [worker.channel.fileno()])
        takes_outputs = solution.spec.destination_passing_style
        phases = _phases(solution)
        return _Seat(name, worker, _subject(solution), takes_outputs, phases, solution, builds)

    def _keep(self, builds: BuildCopy) -> None:
        try:
            builds.keep()
        except OSError as error:
            raise unwritable(self._cache_root, error) from error

    def _confinement(self, builds: BuildCopy | None) -> Confinement:
        """Hold both sides alike: what shuts a process in must not tell in its times."""
        return Confinement(
            self._level,
            self._device,
            build_folder="" if builds is None else str(builds.folder),
            hidden=self._hidden(),
        )

    def _hidden(self) -> tuple[str, ...]:
        return (*self._roots, str(self._cache_root))

    def _note_what_holds(self, worker: Worker, *, is_trusted: bool) -> None:
        if not is_trusted:
            self.held = Held(self._level, worker.missing)
        if self._config.sandbox == "required":
            require_all(worker.missing)

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

    def _end(self, seat: _Seat | _Refused | None, *, keeps_builds: bool = False) -> None:
        if not isinstance(seat, _Seat):
            return
        if self._judge is not None:
            with contextlib.suppress(ChannelClosed):  # a judge that is gone needs no telling
                self._judge.channel.send(Disconnect(self._launcher.new_id(), seat.name))
        self._launcher.kill(seat.worker)
        if seat.builds is None:
            return
        if keeps_builds:
            self._keep(seat.builds)
        elif seat.builds.has_grown():
            self._rehearsals.note(seat.solution)
        seat.builds.discard()

    # ------------------------------------------------------------------ one job

    def _play(
        self, job: Job, seats: _Seats, *, key: int, is_rehearsal: bool = False
    ) -> Outcome | Suspect:
        """Have the judge play a job on the inputs of a key."""
        try:
            files = shared_files(plan_inputs(job.definition, job.workload), self._roots)
        except DatasetError as error:
            return DatasetFault(str(error))
        has_files = files is not None
        request = self._request(job, seats, key, has_files=has_files, is_rehearsal=is_rehearsal)
        limit_s = max(2, len(list(seats))) * self._config.timeout_seconds + _JUDGE_GRACE_S
        try:
            self._require_judge().channel.send(request, [] if files is None else [files])
            result = self._await_result(list(seats), time.monotonic() + limit_s)
        except ChannelTimeout:
            self._restart_judge()
            return DatasetFault(f"the reference did not return within {limit_s:g} s")
        except ChannelGarbled as error:
            self._restart_judge()
            return DatasetFault(f"while the reference ran, the judge's channel broke: {error}")
        except (WorkerDied, ChannelClosed):
            return self._after_judge_died()
        finally:
            if files is not None:
                os.close(files)
        rival = seats.rival
        is_rivals = rival is not None and getattr(result, "contestant", "") == rival.name
        if isinstance(result, JobSuspect):
            seat = rival if rival is not None and is_rivals else seats.candidate
            return Suspect(result, seat.worker.log.take(), is_rivals)
        if rival is not None and is_rivals:
            return RivalFailed(self._outcome(result, rival))
        return unless_it_wants_a_gpu(self._outcome(result, seats.candidate), job, self._device)

    def _request(
        self, job: Job, seats: _Seats, key: int, *, has_files: bool, is_rehearsal: bool
    ) -> RunJob:
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
        config = job.config.model_copy(update=_REHEARSED) if is_rehearsal else job.config
        return RunJob(
            self._launcher.new_id(),
            definition=job.definition.model_dump_json().encode(),
            workload=job.workload.model_dump_json().encode(),
            has_files=has_files,
            contestants=tuple(contestants),
            settings=config.model_dump_json().encode(),
            judgement=Judgement(
                timeout_seconds=self._config.timeout_seconds,
                is_audited=self._config.audit and not is_rehearsal,
                is_cold=config.is_cold_on(self._device.partition(":")[0]),
                is_told_late=config.clock == "cupti",
                prepares_twice=self.attempt.number > 1,
                disturbed_repeats=self._config.disturbed_repeats,
                calls_per_sample=job.calls_per_sample,
            ),
            key=key,
            coin=_coin(key),
        )

    def _await_result(self, seats: list[_Seat], deadline_s: float) -> JobResult:
        """Wait for the judge; tell it at once when a contestant's process ends."""
        watched = {seat.worker.pid: seat for seat in seats}
        visible = {seat.worker.computing_pid for seat in seats}
        judge = self._require_judge()
        while True:
            workers = [judge, *(seat.worker for seat in watched.values())]
            try:
                answer: FromJudge = self._launcher.receive(
                    judge.channel, deadline_s=deadline_s, watching=workers
                )
            except WorkerDied as death:
                if death.worker is judge:
                    raise
                seat = watched.pop(death.worker.pid)
                judge.channel.send(Disconnect(self._launcher.new_id(), seat.name))
                continue
            if time.monotonic() > deadline_s:  # asking on and on is no answer
                raise ChannelTimeout
            if isinstance(answer, LookAtProcess):
                numbers = _numbers(answer) if answer.pid in visible else ()
                judge.channel.send(ProcessSeen(answer.id, numbers))
                continue
            if isinstance(answer, Opened | CeilingsLearned):
                raise ChannelGarbled(f"a job was answered with {type(answer).__name__}")
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
                worker = candidate.worker
                return unless_memory_ran_out(
                    Crashed(explanation, log.take()), worker.granted_bytes, worker.most_bytes()
                )
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
                self.end_candidate()  # on such inputs it may have ended, or hang
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
        worker = candidate.worker
        crashed = Crashed(explanation, worker.log.take())
        granted_bytes, peak_bytes = worker.granted_bytes, worker.most_bytes()
        self.end_candidate()
        return unless_memory_ran_out(crashed, granted_bytes, peak_bytes)

    # ------------------------------------------------------------------ the judge

    def _require_judge(self) -> Worker:
        if self._judge is None:
            self.open()
        assert self._judge is not None
        return self._judge

    def _ask_judge(self, request: Open | LearnCeilings) -> FromJudge:
        """Ask a judge in which no reference has run yet."""
        assert self._judge is not None
        try:
            self._judge.channel.send(request)
            answer: FromJudge = self._launcher.receive(
                self._judge.channel,
                deadline_s=time.monotonic() + _OPEN_DEADLINE_S,
                watching=[self._judge],
            )
        except (WorkerDied, ChannelClosed, ChannelTimeout) as error:
            said = self._judge.log.take().strip()
            raise WorkerError(
                f"the judge did not start on {self._device}: {said or error}"
            ) from error
        return answer

    def _after_judge_died(self) -> Outcome:
        """Nothing but the reference ends a judge by a signal, or by a code that is not ours."""
        judge = self._require_judge()
        self._launcher.wait_for_end(judge, seconds=_END_NOTICE_S)
        ending, said = judge.ending, judge.log.take()
        code = None if judge.status is None else os.waitstatus_to_exitcode(judge.status)
        self._restart_judge()
        if code == FAILED:
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


def _numbers(asked: LookAtProcess) -> tuple[int, ...]:
    """Look at a contestant for the judge."""
    if asked.about == "waiting":
        return (waited_ns(asked.pid),)
    return tuple(descendants_of(asked.pid))


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
