"""The process that knows what is right: it makes inputs, runs the reference, compares, and never loads a solution.

The reference is somebody's code as well: the process was shut in before it read its first message, and what it needs
of files and of other processes comes from the parent.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from flashinfer_bench.bench.channel import Channel
from flashinfer_bench.bench.choices import is_cold_on
from flashinfer_bench.bench.judge.evaluation import JobEvaluation
from flashinfer_bench.bench.judge.link import JobEndedError, Link
from flashinfer_bench.bench.judge.oracle import Oracle, ReferenceFailedError
from flashinfer_bench.bench.judge.rank_inputs import RankInputs
from flashinfer_bench.bench.judge.ranked_evaluation import RankedEvaluation
from flashinfer_bench.bench.judge.task_lint import lint
from flashinfer_bench.bench.judge.workload_roofline import WorkloadRoofline
from flashinfer_bench.bench.outcomes import DatasetFault, Skipped
from flashinfer_bench.bench.protocol import (
    CeilingsLearned,
    Connect,
    Disconnect,
    FromCandidate,
    JobAnswer,
    JobEnded,
    JudgeFailed,
    LearnCeilings,
    LintAnswer,
    LintTask,
    Open,
    Opened,
    ProcessObserved,
    RunJob,
    ToJudge,
    TrialBegins,
)
from flashinfer_bench.bench.sandbox import linked_packages
from flashinfer_bench.bench.sandbox.limits import sleep_no_longer
from flashinfer_bench.bench.timing.clocks import calibrate, clock_for, let_go, version_without_hold
from flashinfer_bench.bench.timing.evicting import EvictorByThreads
from flashinfer_bench.bench.timing.hold import late_rewriter
from flashinfer_bench.compile.targets import device_arch
from flashinfer_bench.data import Definition, Workload
from flashinfer_bench.tensors.ceiling_probe import measure
from flashinfer_bench.tensors.ceilings import Remembered
from flashinfer_bench.tensors.conditions import Conditions, CpuConditions, gpu_conditions
from flashinfer_bench.tensors.devices import Device, lock_names, open_device
from flashinfer_bench.tensors.energy import EnergyCounter, gpu_energy, package_energy
from flashinfer_bench.tensors.machine import last_level_cache_bytes, processors_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from flashinfer_bench.bench.outcomes import Decision
    from flashinfer_bench.bench.timing.hold import LateRewriter
    from flashinfer_bench.bench.timing.wall import Clock
    from flashinfer_bench.tensors.ceilings import Ceilings

_REMEMBERED_BYTES = 1 << 30


def serve(sock: socket.socket) -> None:
    """Judge jobs until the parent closes the channel."""
    channel: Channel[ToJudge] = Channel(sock, ToJudge)
    request = channel.receive()
    assert isinstance(request, Open)
    sleep_no_longer()
    torch.set_num_threads(request.threads)
    processors = processors_for(request.threads, os.sched_getaffinity(0))
    device = open_device(request.device)
    clock = clock_for(device.torch_device, request.clock, request.cache)
    rewriter = None if clock.hold is None else late_rewriter(device.torch_device)
    if rewriter is None:
        let_go(clock)
    opened = _opened(request, device, clock, rewrites_late=rewriter is not None)
    del clock  # some can be opened once
    channel.send(opened)
    is_cold = device.torch_device.type == "cpu" and opened.is_cold
    evict = EvictorByThreads(last_level_cache_bytes(), processors) if is_cold else None
    cache_root, cores = Path(request.cache_root), len(processors)
    _Bench(channel, device, cache_root, cores=cores, rewriter=rewriter, evict=evict).run()


class _Bench:
    """The judge's state: connected candidates, and the oracles of the workloads last judged."""

    def __init__(
        self,
        channel: Channel[ToJudge],
        device: Device,
        cache_root: Path,
        *,
        cores: int,
        rewriter: LateRewriter | None,
        evict: EvictorByThreads | None,
    ) -> None:
        self._rewriter, self._evict = rewriter, evict
        self._channel = channel
        self._ceilings = Remembered(self._measure)
        self._gpu = gpu_conditions(device.uuid) if device.cuda is not None else None
        self._cores = cores
        self._device = device
        self._cache_root = cache_root
        self._links: dict[str, Link] = {}
        self._oracles: dict[tuple[bytes, bytes], Oracle] = {}

    def run(self) -> None:
        while True:
            match self._channel.receive():
                case Connect(participant=name, pid=pid):
                    (descriptor,) = self._channel.take_descriptors()
                    candidate: Channel[FromCandidate] = Channel(
                        socket.socket(fileno=descriptor), FromCandidate
                    )
                    self._links[name] = Link(name, pid, candidate, self._channel)
                case Disconnect(participant=name):
                    link = self._links.pop(name, None)  # the parent may say it twice
                    if link is not None:
                        link.close()
                case LearnCeilings(id=id_, known=known):
                    self._channel.send(CeilingsLearned(id_, self._learned(known)))
                case RunJob() as job:
                    with self._files() as files:
                        answer = self._judge(job, files)
                    self._channel.send(answer)
                    if isinstance(answer, JobEnded) and isinstance(answer.outcome, DatasetFault):
                        self._require_usable_device()
                case LintTask() as task:
                    with self._files() as files:
                        self._channel.send(self._lint(task, files))
                case ProcessObserved():  # for a job that ended while it was asked for
                    pass
                case Open():
                    return

    def _energy_counter(self) -> EnergyCounter | str:
        if self._device.cuda is not None:
            return gpu_energy(self._device.uuid)
        return package_energy()

    def _measure(self) -> Ceilings:
        return measure(self._device.torch_device)

    def _learned(self, known: Ceilings | None) -> Ceilings | None:
        """Take what is known, or measure; what a reference could have changed is not written down."""
        self._ceilings = Remembered(self._measure, known)
        try:
            return self._ceilings.get()
        except torch.OutOfMemoryError:  # measuring takes a gigabyte on a card
            return None

    @contextlib.contextmanager
    def _files(self) -> Iterator[list[int]]:
        """Give the descriptors that came with a message; they are closed at the end."""
        descriptors = self._channel.take_descriptors()
        try:
            yield descriptors
        finally:
            for each in descriptors:
                os.close(each)

    def _judge(self, job: RunJob, files: Sequence[int]) -> JobAnswer:
        """Decide a job; whatever ended it, the device must still be usable."""
        try:
            return JobEnded(job.id, self._decide(job, files))
        except JobEndedError as ended:
            self._require_usable_device()
            return JobEnded(job.id, ended.outcome)
        except ReferenceFailedError as error:
            return JobEnded(job.id, DatasetFault(str(error)))
        except torch.OutOfMemoryError as error:
            return JobEnded(job.id, Skipped(f"the reference does not fit here: {error}"))
        except Exception as error:  # noqa: BLE001  # the boundary: a fault of ours must reach the parent as one
            return JudgeFailed(job.id, linked_packages.failure_text(error))

    def _decide(self, job: RunJob, files: Sequence[int]) -> Decision:
        definition = Definition.model_validate_json(job.definition)
        if definition.world_size is not None:
            return self._decide_ranks(job, definition, files)
        oracle = self._oracle_for(job, files)
        oracle.limit_s = job.judgement.timeout_seconds
        links = self._take_links(job, oracle.remedy)
        roofline = WorkloadRoofline(
            self._ceilings,
            oracle,
            Workload.model_validate_json(job.workload),
            is_cold=job.judgement.is_cold,
        )
        conditions = Conditions(
            self._gpu or _cpu_conditions(links), job.judgement.disturbed_repeats
        )
        evaluation = JobEvaluation(
            job,
            oracle,
            links,
            self._device,
            files=files,
            conditions=conditions,
            roofline=roofline,
            cores=self._cores,
            counter=self._energy_counter(),
            evict=self._evict,
            tell=lambda trial, trials: self._channel.send(TrialBegins(job.id, trial, trials)),
        )
        return evaluation.run()

    def _decide_ranks(self, job: RunJob, definition: Definition, files: Sequence[int]) -> Decision:
        links = self._take_links(job, "")
        workload = Workload.model_validate_json(job.workload)
        stored = files[0] if files else None
        evaluation = RankedEvaluation(
            job,
            definition,
            RankInputs(definition, workload, key=job.key, files=stored, device=self._device),
            links,
            self._device,
            files=files,
            conditions=Conditions(
                self._gpu or _cpu_conditions(links), job.judgement.disturbed_repeats
            ),
            tell=lambda trial, trials: self._channel.send(TrialBegins(job.id, trial, trials)),
        )
        return evaluation.run()

    def _lint(self, task: LintTask, files: Sequence[int]) -> LintAnswer:
        if Definition.model_validate_json(task.definition).world_size is not None:
            return JobEnded(task.id, Skipped("it has several ranks, and one process is looked at"))
        try:
            return lint(task, self._oracle_for(task, files))
        except ReferenceFailedError as error:
            return JobEnded(task.id, DatasetFault(str(error)))
        except torch.OutOfMemoryError as error:
            return JobEnded(task.id, Skipped(f"the reference does not fit here: {error}"))
        except Exception as error:  # noqa: BLE001  # as above
            return JudgeFailed(task.id, linked_packages.failure_text(error))

    def _take_links(self, job: RunJob, remedy: str) -> list[Link]:
        links = [self._links[each.name] for each in job.participants]
        for link, participant in zip(links, job.participants, strict=True):
            limit_s = job.judgement.timeout_seconds
            link.open_job(participant, limit_s=limit_s, remedy=remedy)
        return links

    def _oracle_for(self, job: RunJob | LintTask, files: Sequence[int]) -> Oracle:
        """Find or make the oracle of a workload; it serves every solution that runs on it in turn."""
        subject = (job.definition, job.workload)
        oracle = self._oracles.pop(subject, None) or self._make_oracle(job, files)
        oracle.use_key(job.key)
        self._oracles[subject] = oracle  # now the youngest
        while len(self._oracles) > 1 and self._remembered_bytes() > _REMEMBERED_BYTES:
            self._oracles.pop(next(iter(self._oracles)))
        return oracle

    def _make_oracle(self, job: RunJob | LintTask, files: Sequence[int]) -> Oracle:
        return Oracle(
            Definition.model_validate_json(job.definition),
            Workload.model_validate_json(job.workload),
            files=files[0] if files else None,
            device=self._device,
            key=job.key,
            cache_root=self._cache_root,
            rewriter=self._rewriter,
        )

    def _remembered_bytes(self) -> int:
        return sum(oracle.size_bytes for oracle in self._oracles.values())

    def _require_usable_device(self) -> None:
        """Make a known-good call: a reference that indexes out of range on a card spoils it for this process."""
        probe: Callable[[], object] = torch.ones(8, device=self._device.torch_device).sum
        probe()
        self._device.synchronize()


def _cpu_conditions(links: Sequence[Link]) -> CpuConditions:
    def own_ns() -> int:
        return time.process_time_ns() + sum(link.cpu.read_ns() for link in links)

    return CpuConditions(own_ns, lambda: sum(link.waited_ns() for link in links))


def _opened(request: Open, device: Device, clock: Clock, *, rewrites_late: bool) -> Opened:
    calibration = calibrate(clock, device.torch_device)
    libs = {"torch": str(torch.__version__)}
    if device.cuda is not None:
        libs["cuda"] = device.cuda
    return Opened(
        request.id,
        hardware=device.hardware,
        lock_name=device.lock_name,
        uuid=device.uuid,
        driver=device.driver,
        cuda=device.cuda,
        libs=libs,
        calibration=calibration,
        clock=clock.name,
        clock_version=clock.version,
        clock_version_of_ranks=version_without_hold(clock),
        clock_overhead_ns=max(0.0, calibration["empty_call_ns"]),
        latency_kind=clock.latency_kind,
        is_cold=is_cold_on(device.torch_device.type, request.cache),
        arch=device_arch(request.device),
        lock_names=lock_names() if device.cuda is not None else {},
        rewrites_late=rewrites_late,
    )
