"""The process that knows the truth: it makes inputs, runs the reference, compares, and never loads a solution."""

from __future__ import annotations

import os
import platform
import socket
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from flashinfer_bench.bench.channel import Channel
from flashinfer_bench.bench.protocol import (
    Connect,
    Disconnect,
    FromContestant,
    JobResult,
    JobSkipped,
    JudgeFailed,
    LintResult,
    LintTask,
    Open,
    Opened,
    ReferenceFailed,
    RunJob,
    ToJudge,
)
from flashinfer_bench.bench.timing.clocks import calibrate, clock_for
from flashinfer_bench.bench.worker.limits import sleep_no_longer
from flashinfer_bench.bench.worker.link import JobEndedError, Link
from flashinfer_bench.bench.worker.match import Match
from flashinfer_bench.bench.worker.speed import SpeedOfLight
from flashinfer_bench.bench.worker.task_lint import lint
from flashinfer_bench.bench.worker.truth import ReferenceFailedError, Truth
from flashinfer_bench.compile.targets import device_arch
from flashinfer_bench.data import Definition, Workload
from flashinfer_bench.tensors.ceiling_probe import measure
from flashinfer_bench.tensors.ceilings import Remembered
from flashinfer_bench.tensors.conditions import Conditions, CpuConditions, gpu_conditions
from flashinfer_bench.tensors.devices import Device, open_device
from flashinfer_bench.tensors.machine import processors_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flashinfer_bench.bench.timing.wall import Clock

_REMEMBERED_BYTES = 1 << 30


def serve(sock: socket.socket) -> None:
    """Judge jobs until the parent closes the channel."""
    channel: Channel[ToJudge] = Channel(sock, ToJudge)
    request = channel.receive()
    assert isinstance(request, Open)
    sleep_no_longer()
    torch.set_num_threads(request.threads)
    cores = len(processors_for(request.threads, os.sched_getaffinity(0)))
    device = open_device(request.device)
    clock = clock_for(device.torch_device, request.clock, request.cache)
    opened = _opened(request, device, clock)
    del clock  # some can be opened once
    channel.send(opened)
    ceilings = Remembered(lambda: measure(device.torch_device), _ceilings_file(request, device))
    _Bench(channel, device, Path(request.cache_root), ceilings, cores=cores).run()


class _Bench:
    """The judge's state: connected contestants, and the truth about the workloads last judged."""

    def __init__(
        self,
        channel: Channel[ToJudge],
        device: Device,
        cache_root: Path,
        ceilings: Remembered,
        *,
        cores: int,
    ) -> None:
        self._channel = channel
        self._ceilings = ceilings
        self._gpu = gpu_conditions(device.uuid) if device.cuda is not None else None
        self._cores = cores
        self._device = device
        self._cache_root = cache_root
        self._links: dict[str, Link] = {}
        self._truths: dict[tuple[bytes, bytes], Truth] = {}

    def run(self) -> None:
        while True:
            match self._channel.receive():
                case Connect(contestant=name, pid=pid):
                    (descriptor,) = self._channel.take_descriptors()
                    contestant: Channel[FromContestant] = Channel(
                        socket.socket(fileno=descriptor), FromContestant
                    )
                    self._links[name] = Link(name, pid, contestant, self._channel)
                case Disconnect(contestant=name):
                    link = self._links.pop(name, None)  # the parent may say it twice
                    if link is not None:
                        link.close()
                case RunJob() as job:
                    self._channel.send(self._judge(job))
                case LintTask() as task:
                    self._channel.send(self._lint(task))
                case Open():
                    return

    def _judge(self, job: RunJob) -> JobResult:
        try:
            truth = self._truth_about(job)
            links = self._take_links(job)
            speed = SpeedOfLight(
                self._ceilings,
                truth,
                Workload.model_validate_json(job.workload),
                is_cold=job.judgement.is_cold,
            )
            conditions = Conditions(
                self._gpu or _cpu_conditions(links), job.judgement.disturbed_repeats
            )
            match = Match(
                job,
                truth,
                links,
                self._device,
                conditions=conditions,
                speed=speed,
                cores=self._cores,
            )
            return match.play()
        except JobEndedError as ended:
            return self._after_abort(ended.result)
        except ReferenceFailedError as error:
            return ReferenceFailed(job.id, str(error))
        except torch.OutOfMemoryError as error:
            return JobSkipped(job.id, f"the reference does not fit here: {error}")
        except Exception:  # noqa: BLE001  # the boundary: a fault of ours must reach the parent as one
            return JudgeFailed(job.id, traceback.format_exc())

    def _lint(self, task: LintTask) -> LintResult:
        try:
            return lint(task, self._truth_about(task))
        except ReferenceFailedError as error:
            return ReferenceFailed(task.id, str(error))
        except torch.OutOfMemoryError as error:
            return JobSkipped(task.id, f"the reference does not fit here: {error}")
        except Exception:  # noqa: BLE001  # as above
            return JudgeFailed(task.id, traceback.format_exc())

    def _take_links(self, job: RunJob) -> list[Link]:
        links = [self._links[contestant.name] for contestant in job.contestants]
        for link, contestant in zip(links, job.contestants, strict=True):
            link.open_job(job.id, contestant, limit_s=job.judgement.timeout_seconds)
        return links

    def _truth_about(self, job: RunJob | LintTask) -> Truth:
        """Find or make the truth about a workload; it serves every solution that runs on it in turn."""
        subject = (job.definition, job.workload)
        truth = self._truths.pop(subject, None) or self._make_truth(job)
        truth.use_key(job.key)
        self._truths[subject] = truth  # now the youngest
        while len(self._truths) > 1 and self._remembered_bytes() > _REMEMBERED_BYTES:
            self._truths.pop(next(iter(self._truths)))
        return truth

    def _make_truth(self, job: RunJob | LintTask) -> Truth:
        return Truth(
            Definition.model_validate_json(job.definition),
            Workload.model_validate_json(job.workload),
            roots=job.roots,
            device=self._device,
            key=job.key,
            cache_root=self._cache_root,
        )

    def _remembered_bytes(self) -> int:
        return sum(truth.size_bytes for truth in self._truths.values())

    def _after_abort(self, result: JobResult) -> JobResult:
        """A known-good call shows that a killed or crashed kernel left the device usable."""
        probe: Callable[[], object] = torch.ones(8, device=self._device.torch_device).sum
        probe()
        self._device.synchronize()
        return result


def _cpu_conditions(links: Sequence[Link]) -> CpuConditions:
    def own_ns() -> int:
        return time.process_time_ns() + sum(link.cpu.read_ns() for link in links)

    return CpuConditions(own_ns, [link.cpu.pid for link in links])


def _ceilings_file(request: Open, device: Device) -> Path | None:
    """Name a file after machine, device and threads: what is measured holds for these."""
    if request.ceilings_folder is None:
        return None
    name = f"{platform.node()}-{device.uuid}-{request.threads}.json"
    return Path(request.ceilings_folder) / name.replace("/", "_")


def _opened(request: Open, device: Device, clock: Clock) -> Opened:
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
        clock_overhead_ns=max(0.0, calibration["empty_call_ns"]),
        latency_kind=clock.latency_kind,
        is_cold=clock.is_cold,
        arch=device_arch(request.device),
    )
