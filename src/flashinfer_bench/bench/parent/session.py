"""One device's workers at work: a judge, the reference's process, and one candidate at a time.

One long file: starts, deadlines, deaths and new attempts of a device's processes change the same few values.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import time
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from flashinfer_bench.bench.attempts import Attempt
from flashinfer_bench.bench.channel import ChannelClosed, ChannelGarbled, ChannelTimeout
from flashinfer_bench.bench.config import WITHOUT_STOPPING_RULES
from flashinfer_bench.bench.outcomes import (
    Aborted,
    Crashed,
    DatasetFault,
    Decision,
    JobNote,
    Misshapen,
    NotBuilt,
    OpponentFailed,
    Outcome,
    Passed,
    Skipped,
    Suspect,
    TimedOut,
    Wrong,
)
from flashinfer_bench.bench.parent.attribution import (
    attributed_to_dataset,
    confirmed,
    is_confirmed,
    unless_it_had_crashed,
    unless_it_wants_a_gpu,
    unless_memory_ran_out,
    with_heap_hint,
    with_lock_hint,
    with_log,
    with_own_names,
)
from flashinfer_bench.bench.parent.candidates import (
    END_NOTICE_S,
    CandidateProcess,
    Candidates,
    Slot,
    subject_of,
)
from flashinfer_bench.bench.parent.clock_lock import ClockLock
from flashinfer_bench.bench.parent.launcher import Launcher, Worker, WorkerDied
from flashinfer_bench.bench.parent.obstacles import missing_dependency
from flashinfer_bench.bench.parent.ranked_participants import RankedParticipants
from flashinfer_bench.bench.parent.stacks import sources_of, where_it_was
from flashinfer_bench.bench.parent.weak_tasks import WeakTasks
from flashinfer_bench.bench.protocol import (
    CeilingsLearned,
    Disconnect,
    FromJudge,
    JobEnded,
    JudgeFailed,
    Judgement,
    LearnCeilings,
    LookAtProcess,
    Open,
    Opened,
    ParticipantPlan,
    ProcessObserved,
    RunJob,
    TrialBegins,
)
from flashinfer_bench.bench.sandbox import container
from flashinfer_bench.bench.sandbox.policy import Sandbox, of_judge
from flashinfer_bench.bench.several_ranks import why_not_here
from flashinfer_bench.bench.worker.processes import descendants_of, waited_ns
from flashinfer_bench.bench.worker.startup import FAILED
from flashinfer_bench.compile.architectures import DEFAULT_ARCH
from flashinfer_bench.compile.cache import require_writable
from flashinfer_bench.compile.sources import reference_solution
from flashinfer_bench.data import SafetensorsInput
from flashinfer_bench.errors import DatasetError, DeviceError, WorkerError
from flashinfer_bench.tensors import ceilings
from flashinfer_bench.tensors.files import shared_files
from flashinfer_bench.tensors.planned import plan_inputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from flashinfer_bench.bench.attempts import Keys
    from flashinfer_bench.bench.config import BenchmarkConfig
    from flashinfer_bench.bench.jobs import Job
    from flashinfer_bench.bench.parent.builds_ahead import KnownFailure
    from flashinfer_bench.bench.parent.events import Stage
    from flashinfer_bench.data import Definition, Solution

_OPEN_DEADLINE_S = 120.0
_LOOK_S = 0.001
_JUDGE_GRACE_S = 120.0
_REHEARSED: Mapping[str, Any] = MappingProxyType(
    {
        "warmup_runs": 2,
        "iterations": 1,
        "num_trials": 1,
        **WITHOUT_STOPPING_RULES,
    }
)
"""Settings of a rehearsal: a few calls, of which nothing is recorded."""


@dataclass(frozen=True)
class _Participants:
    """The processes that take part in a job."""

    candidate: CandidateProcess
    opponent: CandidateProcess | None
    reference: CandidateProcess | None

    def __iter__(self) -> Iterator[CandidateProcess]:
        """In the order in which the first block is timed."""
        every = (self.reference, self.candidate, self.opponent)
        return (process for process in every if process is not None)


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
        known_failure: Callable[[Solution, str | None], KnownFailure | None],
        best_speedup: Callable[[Job], float | None],
        peers: Sequence[str] = (),
    ) -> None:
        self._launcher = launcher
        self._device = device
        self._rank_devices = (device, *peers)
        """Where ranks of a job may run: its own device first."""
        self._threads = threads
        self._keys = keys
        self._known_failure = known_failure
        self._best_speedup = best_speedup
        self.attempt = Attempt()
        self.tell: Callable[[Stage, int, int], None] = lambda *_: None
        """Told how far a job is: a stage, and of `trial` which one of how many."""
        self._roots = roots
        self._cache_root = cache_root
        self._config = config
        self._candidates = Candidates(
            launcher,
            device=device,
            threads=threads,
            roots=roots,
            cache_root=cache_root,
            config=config,
        )
        self._judge: Worker | None = None
        self._candidate, self._opponent, self._reference = (Slot(self._end) for _ in range(3))
        self._has_lost_a_trusted_one = False
        self._ceilings_file = cache_root
        self._knows_ceilings = False
        self._weak_tasks: WeakTasks | None = None
        self._clock_lock: ClockLock | None = None
        self._own_arch: str | None = None
        self._compiled: set[str] = set()

    @property
    def sandbox(self) -> Sandbox:
        """What was in force for the candidate."""
        return self._candidates.sandbox

    def devices_of(self, job: Job) -> tuple[str, ...]:
        """Name the devices a job needs: as many as it has ranks, or as many of them as there are."""
        count = job.definition.world_size or 1
        if self._device == "cpu":
            return (self._device,) * count
        return self._rank_devices[:count]

    def build_ms(self, solution: Solution) -> float | None:
        """Say how long a solution took to build; None where it was not built."""
        return self._candidates.build_ms.get(subject_of(solution))

    def open(self) -> Opened:
        """Start the judge and return what it found out about the device."""
        require_writable(self._cache_root)
        level = self._candidates.level
        if level == "container":
            obstacle = container.missing_program()
            if obstacle is not None:
                raise DeviceError(f"no container for solutions: {obstacle}")
        policy = of_judge(level, self._device, self._candidates.hidden)
        self._judge = self._launcher.spawn("judge", FromJudge, is_trusted=True, policy=policy)
        self._candidates.note_sandbox(self._judge, is_trusted=True)
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
        self._weak_tasks = WeakTasks(self._cache_root, opened)
        self._own_arch = opened.arch
        if self._config.lock_clocks and opened.cuda is not None:
            self._clock_lock = self._clock_lock or ClockLock(opened.uuid)
            locked_mhz = self._clock_lock.clock_mhz
            opened = msgspec.structs.replace(opened, locked_clock_mhz=locked_mhz)
        return opened

    def close(self) -> None:
        """Give back what outlives workers: the card's clocks."""
        if self._clock_lock is not None:
            self._clock_lock.release()
            self._clock_lock = None

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
        outcome = with_lock_hint(with_own_names(self._attempt_until_believed(job)))
        if self._config.use_isolated_runner:
            self.end_candidate()
        return outcome

    def _attempt_until_believed(self, job: Job) -> Outcome:
        """Attempt a job anew, in fresh processes, while what is claimed does not fit what was seen.

        Noise that looks like a lie does not look so each time; a lie that is not told again is gone.
        """
        suspicions: list[Suspect] = []
        while not is_confirmed(suspicions):
            outcome = self._attempt(job)
            if not isinstance(outcome, Suspect):
                return with_log(outcome, suspicions)
            suspicions.append(outcome)
            self.end_candidate()
        return confirmed(suspicions)

    def _attempt(self, job: Job) -> Outcome | Suspect:
        """Run a job; again, in fresh processes, before a dead judge or reference is the dataset's fault."""
        self._has_lost_a_trusted_one = False
        outcome = self._attempt_once(job)
        if self._has_lost_a_trusted_one:
            self.end_candidate()
            outcome = self._attempt_once(job)
        return outcome

    def _attempt_once(self, job: Job) -> Outcome | Suspect:
        self._have_ceilings()
        if job.definition.world_size is not None:
            return self._attempt_ranks(job)
        candidate = self._candidate_for(job)
        self.attempt = self._keys.next(
            job, number=self.attempt.number + 1, can_keep_notes=self._can_keep_notes
        )
        if not isinstance(candidate, CandidateProcess):
            return candidate
        self.tell("built", 0, 0)
        opponent = self._opponent_for(job)
        if not isinstance(opponent, CandidateProcess | None):
            return OpponentFailed(opponent)
        reference = self._reference_for(job)
        if not isinstance(reference, CandidateProcess | None):
            return reference
        participants = _Participants(candidate, opponent, reference)
        return self._judged(job, participants, key=self.attempt.key)

    def _attempt_ranks(self, job: Job) -> Outcome | Suspect:
        """Run a job of several ranks in fresh processes, which end with it: they know each other only."""
        why = why_not_here(
            job,
            kind=self._device.partition(":")[0],
            device_count=len(self._rank_devices),
            sandbox=self._candidates.level,
        )
        lack = Skipped(why) if why is not None else self._obstacle(job.solution, job)
        if lack is not None:
            return lack
        self.end_candidate()
        self._reference.drop()
        judge = self._require_judge()
        ranks = RankedParticipants(
            self._launcher, self._candidates, judge, is_there=lambda: self._judge is judge
        )
        try:
            ended = ranks.start(job, self.devices_of(job))
            number = self.attempt.number + 1
            self.attempt = self._keys.next(job, number=number, can_keep_notes=self._can_keep_notes)
            if ended is not None:
                return ended
            self.tell("built", 0, 0)
            request = self._request(job, ranks.plans(job), self.attempt.key, is_rehearsal=False)
            found = ranks.completed(self._decided(job, list(ranks), request))
            self._has_lost_a_trusted_one |= ranks.has_lost_a_trusted_one
            return found
        finally:
            ranks.end()

    @property
    def _can_keep_notes(self) -> bool:
        """Whether a candidate could write where a later one reads."""
        is_open = any(each.measure == "files" for each in self.sandbox.missing)
        return self._candidates.level == "off" or is_open

    def end_candidate(self) -> None:
        """Kill the candidate, and its opponent, and whatever they left running; the next job starts fresh ones."""
        self._candidate.drop()
        self._opponent.drop()

    # ------------------------------------------------------------------ processes

    def _candidate_for(self, job: Job) -> CandidateProcess | Outcome:
        subject = subject_of(job.solution)
        if not self._candidate.serves(subject):
            self.end_candidate()  # its opponent too
        return self._candidate.get(subject, lambda: self._start(job.solution, job))

    def _opponent_for(self, job: Job) -> CandidateProcess | Outcome | None:
        """Start the second solution of a job of two; it lives as long as the first."""
        opponent = job.opponent
        if opponent is None:
            self._opponent.drop()
            return None
        return self._opponent.get(subject_of(opponent), lambda: self._start(opponent, job))

    def _reference_for(self, job: Job) -> CandidateProcess | Outcome | None:
        if not (job.config.profile_baseline or self._config.audit):
            return None
        return self._reference.get(job.definition.to_json(), lambda: self._start_reference(job))

    def _start_reference(self, job: Job) -> CandidateProcess | Outcome:
        started = self._start_process(reference_solution(job.definition), job, is_trusted=True)
        return started if isinstance(started, CandidateProcess) else attributed_to_dataset(started)

    def _start(self, solution: Solution, job: Job) -> CandidateProcess | Outcome:
        """Start a solution's process, after a rehearsal where it is due; not of what is known not to build.

        What it depends on is looked for first: none of its code runs where something is missing.
        """
        obstacle = self._obstacle(solution, job)
        if obstacle is not None:
            return obstacle
        if self._candidates.rehearsals.is_due(solution, job.workload.uuid):
            self._rehearse(solution, job)
        return self._start_process(solution, job, is_trusted=False)

    def _obstacle(self, solution: Solution, job: Job) -> Outcome | None:
        """Say how a job ends whose solution is known not to build, or lacks something here."""
        failure = self._known_failure(solution, self._config.arch or self._own_arch)
        if failure is not None:
            self._candidates.sandbox = failure.sandbox
            return failure.outcome
        lack = missing_dependency(solution)
        if lack is not None:
            return Skipped(lack)
        return self._refused_by_triton(solution, job)

    def _refused_by_triton(self, solution: Solution, job: Job) -> NotBuilt | None:
        """Compile what will be interpreted: the interpreter takes code that the compiler refuses.

        Once for each solution, in a process of its own. Where nothing can be compiled, nobody is blamed.
        """
        is_interpreted = solution.spec.language == "triton" and self._config.arch is None
        if (
            not is_interpreted
            or self._own_arch is not None
            or subject_of(solution) in self._compiled
        ):
            return None
        built = self._start_process(solution, job, is_trusted=False, arch=DEFAULT_ARCH)
        if isinstance(built, CandidateProcess):
            self._end(built)
        if isinstance(built, NotBuilt):
            return built
        self._compiled.add(subject_of(solution))
        return None

    def _rehearse(self, solution: Solution, job: Job) -> None:
        """Let a solution that compiles at its first calls do so on inputs of no other use, and keep what it made."""
        candidate = self._start_process(solution, job, is_trusted=False)
        if not isinstance(candidate, CandidateProcess):
            return
        alone, key = _Participants(candidate, None, None), secrets.randbits(64)
        try:
            self._judged(job, alone, key=key, is_rehearsal=True)
        finally:
            self._candidates.end(candidate, self._judge, keeps_builds=True)
        self._candidates.rehearsals.note(solution, job.workload.uuid)

    def _start_process(
        self, solution: Solution, job: Job, *, is_trusted: bool, arch: str | None = None
    ) -> CandidateProcess | Outcome:
        return self._candidates.start(
            solution,
            job,
            self._require_judge(),
            is_trusted=is_trusted,
            own_arch=self._own_arch,
            arch=arch or self._config.arch,
        )

    def _end(self, process: CandidateProcess) -> None:
        self._candidates.end(process, self._judge)

    # ------------------------------------------------------------------ one job

    def _judged(
        self,
        job: Job,
        participants: _Participants,
        *,
        key: int,
        is_rehearsal: bool = False,
    ) -> Outcome | Suspect:
        """Have the judge run a job on the inputs of a key."""
        plans = [
            ParticipantPlan(
                each.name,
                is_reference=each is participants.reference,
                is_timed=each is not participants.reference or job.config.profile_baseline,
                takes_outputs=each.takes_outputs,
                phases=each.phases,
            )
            for each in participants
        ]
        request = self._request(job, plans, key, is_rehearsal=is_rehearsal)
        decision = self._decided(job, list(participants), request, tells=not is_rehearsal)
        opponent = participants.opponent
        if opponent is not None and getattr(decision, "participant", "") == opponent.name:
            found = self._completed(decision, opponent)
            if isinstance(found, Suspect):
                return msgspec.structs.replace(found, is_opponents=True)
            return OpponentFailed(found)
        found = self._completed(decision, participants.candidate)
        if isinstance(found, Suspect):
            return found
        if job.config.launch == "graph" and isinstance(found, Crashed | Skipped):
            self.end_candidate()  # a recording that broke off leaves torch's allocator as it was in it
            self._reference.drop()
        rules = request.judgement
        has_files = _has_file_inputs(job)
        is_new = rules.is_audited and rules.task_notes is None and not has_files
        if isinstance(found, Passed) and is_new:
            self._note_weakness(job, found)
        return unless_it_wants_a_gpu(found, job, self._device)

    def _decided(
        self,
        job: Job,
        participants: list[CandidateProcess],
        request: RunJob,
        *,
        tells: bool = True,
    ) -> Decision:
        """Hand the judge a job, with the contents of files, and wait for what it decides."""
        try:
            files = shared_files(plan_inputs(job.definition, job.workload), self._roots)
        except DatasetError as error:
            return DatasetFault(str(error))
        request = msgspec.structs.replace(request, has_files=files is not None)
        limit_s = max(2, len(participants)) * self._config.timeout_seconds + _JUDGE_GRACE_S
        try:
            self._require_judge().channel.send(request, [] if files is None else [files])
            return self._await_decision(participants, time.monotonic() + limit_s, tells=tells)
        except ChannelTimeout:
            where = self._where_judge_was(job.definition)
            self._restart_judge()
            return DatasetFault(f"the reference did not return within {limit_s:g} s{where}")
        except ChannelGarbled as error:
            self._restart_judge()
            return DatasetFault(f"while the reference ran, the judge's channel broke: {error}")
        except (WorkerDied, ChannelClosed):
            return self._after_judge_died()
        finally:
            if files is not None:
                os.close(files)

    def _known_weakness(self, job: Job) -> tuple[JobNote, ...] | None:
        return None if self._weak_tasks is None else self._weak_tasks.known(job)

    def _note_weakness(self, job: Job, found: Passed) -> None:
        if self._weak_tasks is not None and found.task_notes is not None:
            self._weak_tasks.note(job, found.task_notes)

    def _request(
        self,
        job: Job,
        plans: Sequence[ParticipantPlan],
        key: int,
        *,
        is_rehearsal: bool,
    ) -> RunJob:
        config = job.config.model_copy(update=_REHEARSED) if is_rehearsal else job.config
        return RunJob(
            self._launcher.new_id(),
            definition=job.definition.model_dump_json().encode(),
            workload=job.workload.model_dump_json().encode(),
            has_files=False,  # known when they are opened
            participants=tuple(plans),
            settings=config.model_dump_json().encode(),
            judgement=Judgement(
                timeout_seconds=self._config.timeout_seconds,
                is_audited=self._config.audit and not is_rehearsal,
                is_cold=config.is_cold_on(self._device.partition(":")[0]),
                is_hot_too=config.cache == "both" and not is_rehearsal,
                is_told_late=config.clock == "cupti",
                prepares_twice=self.attempt.number > 1,
                disturbed_repeats=self._config.disturbed_repeats,
                calls_per_sample=job.calls_per_sample,
                best_speedup=None if is_rehearsal else self._best_speedup(job),
                task_notes=None if _has_file_inputs(job) else self._known_weakness(job),
            ),
            key=key,
            coin=_coin(key),
        )

    def _await_decision(
        self, participants: list[CandidateProcess], deadline_s: float, *, tells: bool
    ) -> Decision:
        """Wait for the judge; tell it at once when a candidate's process ends."""
        watched = {each.worker.pid: each for each in participants}
        visible = {each.worker.computing_pid: each.worker for each in participants}
        judge = self._require_judge()
        while True:
            workers = [judge, *(each.worker for each in watched.values())]
            try:
                answer: FromJudge = self._launcher.receive(
                    judge.channel, deadline_s=deadline_s, watching=workers
                )
            except WorkerDied as death:
                if death.worker is judge:
                    raise
                gone = watched.pop(death.worker.pid)
                judge.channel.send(Disconnect(self._launcher.new_id(), gone.name))
                continue
            if time.monotonic() > deadline_s:  # asking on and on is no answer
                raise ChannelTimeout
            match answer:
                case LookAtProcess():
                    seen = visible.get(answer.pid)
                    judge.channel.send(_observed(answer, seen))
                case TrialBegins(trial=trial, trials=trials):
                    if tells and trial == 0:
                        self.tell("checked", 0, 0)
                    if tells:
                        self.tell("trial", trial + 1, trials)
                case JobEnded(outcome=decision):
                    return decision
                case JudgeFailed(text=text):
                    raise WorkerError(f"the judge failed: {text}")
                case Opened() | CeilingsLearned():
                    raise ChannelGarbled(f"a job was answered with {type(answer).__name__}")

    def _completed(self, decision: Decision, process: CandidateProcess) -> Outcome | Suspect:
        """Add to what the judge decided what only the parent knows: the log, and how a process ended."""
        if isinstance(decision, DatasetFault):
            self._reference.drop()
            self.end_candidate()  # on such inputs it may have ended, or hang
            return decision
        worker = process.worker
        worker.log.drain()
        match decision:
            case Passed() | Wrong() | Misshapen() | Suspect():
                return msgspec.structs.replace(decision, log=worker.log.take())
            case Crashed():
                crashed = msgspec.structs.replace(decision, log=worker.log.take())
                return unless_memory_ran_out(crashed, worker.granted_bytes, worker.most_bytes())
            case TimedOut():
                text = worker.log.take()
                stack = self._launcher.stack_of(worker)
                where = where_it_was(stack, sources_of(process.solution))
                self.end_candidate()
                explanation = f"{decision.explanation}{where}"
                return unless_it_had_crashed(
                    msgspec.structs.replace(decision, explanation=explanation, log=text)
                )
            case Aborted():
                return self._after_abort(decision, process)
            case Skipped():
                return decision

    def _after_abort(self, aborted: Aborted, process: CandidateProcess) -> Outcome:
        """A participant's process ended, or its channel broke."""
        if aborted.participant != process.name:
            return self._after_reference_died(aborted)
        worker = process.worker
        self._launcher.wait_for_end(worker, seconds=END_NOTICE_S)
        explanation = aborted.explanation if worker.status is None else worker.ending
        crashed = with_heap_hint(Crashed(explanation, worker.log.take()))
        granted_bytes, peak_bytes = worker.granted_bytes, worker.most_bytes()
        self.end_candidate()
        return unless_memory_ran_out(crashed, granted_bytes, peak_bytes)

    def _after_reference_died(self, aborted: Aborted) -> DatasetFault:
        reference, ending = self._reference.process, aborted.explanation
        if reference is not None:
            self._launcher.wait_for_end(reference.worker, seconds=END_NOTICE_S)
            ending = f"{reference.worker.ending}\n{reference.worker.log.take()}"
        self._reference.drop()
        self._has_lost_a_trusted_one = True
        return DatasetFault(f"while the reference was timed, {ending}")

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

    def _after_judge_died(self) -> DatasetFault:
        """Nothing but the reference ends a judge by a signal, or by a code that is not ours."""
        judge = self._require_judge()
        self._launcher.wait_for_end(judge, seconds=END_NOTICE_S)
        ending, said = judge.ending, judge.log.take()
        code = None if judge.status is None else os.waitstatus_to_exitcode(judge.status)
        self._restart_judge()
        if code == FAILED:
            raise WorkerError(f"the judge ended unexpectedly: {ending}\n{said}")
        self._has_lost_a_trusted_one = True
        return DatasetFault(f"while the reference ran, {ending}\n{said}")

    def _where_judge_was(self, definition: Definition) -> str:
        judge = self._require_judge()
        judge.log.take()
        sources = sources_of(reference_solution(definition))
        return where_it_was(self._launcher.stack_of(judge), sources)

    def _restart_judge(self) -> None:
        """Start over: candidates belong to the judge that was connected to them."""
        if self._judge is not None:
            self._launcher.kill(self._judge)
        self._judge = None
        self.end_candidate()
        self._reference.drop()
        self.open()


def _has_file_inputs(job: Job) -> bool:
    """Tell whether an input of a job comes from a file."""
    named = job.definition.inputs.keys() & job.workload.inputs.keys()
    return any(isinstance(job.workload.inputs[name], SafetensorsInput) for name in named)


def _observed(asked: LookAtProcess, worker: Worker | None) -> ProcessObserved:
    """Look at a candidate of this job for the judge."""
    if worker is None:
        return ProcessObserved(asked.id, ())
    if asked.about == "waiting":
        return ProcessObserved(asked.id, (waited_ns(asked.pid),))
    used_ns = () if worker.children is None else worker.children.read_ns()
    return ProcessObserved(asked.id, tuple(descendants_of(asked.pid)), used_ns)


def _coin(key: int) -> int:
    """Derive what decides which timed calls are checked: secret while the job runs, replayable after."""
    digest = hmac.digest(key.to_bytes(8, "little"), b"coin", hashlib.sha256)
    return int.from_bytes(digest[:8], "little") >> 1
