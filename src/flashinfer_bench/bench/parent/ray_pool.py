"""The devices of a Ray cluster as a pool: an actor for each, and one thread here that asks and records.

A device gets its next job by being asked for it, after the trace of the one before is recorded. What a machine that
left had in hand goes to another; only what it answered before is recorded. Nothing else imports ray.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import logging
import secrets
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from flashinfer_bench.bench.parent import node
from flashinfer_bench.bench.parent.builds_ahead import is_built_ahead
from flashinfer_bench.bench.parent.events import Lost, Progress, Started
from flashinfer_bench.bench.parent.pool import FinishedJob
from flashinfer_bench.bench.parent.work import Handed, OpenBatches
from flashinfer_bench.errors import DatasetError, DeviceError, MissingPackageError, WorkerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from flashinfer_bench.bench.config import BenchmarkConfig
    from flashinfer_bench.bench.jobs import Job, Target
    from flashinfer_bench.bench.parent.pool import Batch

_PACKAGE = "flashinfer-bench"
_POLL_S = 0.5
_START_DEADLINE_S = 120.0
_STOP_DEADLINE_S = 5.0
_PART_BYTES = 32 << 20
_AHEAD = 2
"""So many batches are promised to a device beside the one it does, and built on its machine meanwhile."""


@dataclass(eq=False, slots=True)
class _Device:
    """A device of the cluster, and what it was given."""

    name: str
    kind: node.Kind
    machine: str
    actor: Any
    target: Target | None = None
    handed: Handed | None = None
    promised: deque[Handed] = field(default_factory=deque)
    is_lost: bool = False
    arch: str | None = None
    knows_arch: bool = False


class RayPool:
    """The devices of a cluster. Actors start at once, and end with `close`."""

    def __init__(
        self,
        address: str,
        *,
        kind: str,
        config: BenchmarkConfig,
        roots: Sequence[Path],
        best_speedup: Callable[[Job], float | None],
    ) -> None:
        self.key = config.seed if config.seed is not None else secrets.randbits(64)
        self._ray = _connected(address)
        self._config = config.model_dump_json()
        self._roots = tuple(str(root) for root in roots)
        self._best_speedup = best_speedup
        self._asked: dict[Any, _Device] = {}
        self._builds: list[Any] = []
        self._hashes: dict[Path, str] = {}
        self._devices: list[_Device] = []
        try:
            machines = [each for each in self._ray.nodes() if each["Alive"]]
            self._devices = self._begun(self._of_same_version(machines), kind)
            self._describe()
        except BaseException:
            self.close()
            raise

    @property
    def targets(self) -> dict[str, Target]:
        """What each device is, by its name."""
        return {each.name: each.target for each in self._devices if each.target is not None}

    def run(
        self, batches: Sequence[Batch], observe: Callable[[Progress], None]
    ) -> Iterator[FinishedJob]:
        """Run the batches; a device is asked for its next job when the one before is recorded."""
        work, lost = OpenBatches(batches), dict[str, str]()
        is_over = False
        try:
            self._ask_all(work, observe)
            while self._asked:
                ready, _ = self._ray.wait(list(self._asked), timeout=_POLL_S)
                for reference in ready:
                    device = self._asked.pop(reference)
                    answer, is_fault = self._answer_of(reference)
                    if isinstance(answer, node.RemoteEnd):
                        yield self._finished(device, answer)
                        self._proceed(device, work)
                        continue
                    reason = (
                        answer.reason
                        if isinstance(answer, node.Failed)
                        else "its answer cannot be read"
                    )
                    lost[device.name] = reason
                    observe(Lost(device.name, reason, is_fault=is_fault))
                    self._lose(device, work, is_fault=is_fault, reason=reason)
                self._ask_all(work, observe)
            work.require_none_left(lost)
            is_over = True
        finally:
            if not is_over:
                self.close()

    def close(self) -> None:
        """End all work on every machine within seconds."""
        ray = self._ray
        for build in self._builds:
            with contextlib.suppress(Exception):
                ray.cancel(build, force=True)
        actors = [each.actor for each in self._devices]
        with contextlib.suppress(Exception):
            ray.wait(
                [actor.close.remote() for actor in actors],
                num_returns=len(actors),
                timeout=_STOP_DEADLINE_S,
            )
        for actor in actors:
            with contextlib.suppress(Exception):
                ray.kill(actor)
        self._devices, self._builds, self._asked = [], [], {}
        ray.shutdown()

    # ------------------------------------------------------------------ the start

    def _of_same_version(self, machines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Give the machines that answer; those that would measure with other code are refused.

        Ray lists a machine for a moment after it has left.
        """
        ours = importlib.metadata.version(_PACKAGE)
        asked = [
            self._on(each["NodeID"], importlib.metadata.version, num_cpus=0).remote(_PACKAGE)
            for each in machines
        ]
        strangers, there = [], []
        for each, reference in zip(machines, asked, strict=True):
            try:
                theirs = str(self._ray.get(reference, timeout=_START_DEADLINE_S))
            except self._ray.exceptions.RayTaskError:
                theirs = "none"
            except self._ray.exceptions.RayError:
                continue
            there.append(each)
            if theirs != ours:
                strangers.append(f"{each['NodeManagerAddress']} has {theirs}")
        if strangers:
            raise DeviceError(
                f"every machine of the cluster needs {_PACKAGE} {ours}, as here: {', '.join(strangers)}; "
                "install that version there"
            )
        return there

    def _begun(self, machines: Sequence[dict[str, Any]], kind: str) -> list[_Device]:
        """Start an actor for each device: GPUs where there are any, else one CPU a machine."""
        gpus = {each["NodeID"]: int(each["Resources"].get("GPU", 0)) for each in machines}
        takes_gpus = kind == "cuda" or (kind == "auto" and any(gpus.values()))
        devices = []
        for number, each in enumerate(machines):
            where = f"{each['NodeManagerAddress']}#{number}"
            names = [f"cuda:{index}" for index in range(gpus[each["NodeID"]])]
            for name in names if takes_gpus else ["cpu"]:
                of_kind: node.Kind = "cuda" if takes_gpus else "cpu"
                actor = self._on(
                    each["NodeID"],
                    node.RemoteDevice,
                    num_cpus=1,
                    num_gpus=int(takes_gpus),
                    max_concurrency=2,  # `close` is heard while a job runs
                ).remote(of_kind, self._config)
                devices.append(_Device(f"{where}/{name}", of_kind, each["NodeID"], actor))
        if not devices:
            raise DeviceError("no machine of the cluster has a GPU; use --device cpu")
        return devices

    def _describe(self) -> None:
        """Learn what each device is; a run does not begin with fewer than the cluster says."""
        asked = {each.name: each.actor.describe.remote() for each in self._devices}
        for device in self._devices:
            try:
                answer = node.decoded(self._ray.get(asked[device.name], timeout=_START_DEADLINE_S))
            except self._ray.exceptions.GetTimeoutError:
                raise DeviceError(
                    f"{device.name} did not start within {_START_DEADLINE_S:g} s: it may be taken; "
                    "`ray status` says by what"
                ) from None
            except self._ray.exceptions.RayError as error:
                raise DeviceError(f"{device.name} did not start: {_line(error)}") from error
            if not isinstance(answer, node.Described):
                reason = (
                    answer.reason
                    if isinstance(answer, node.Failed)
                    else "its answer cannot be read"
                )
                raise DeviceError(f"{device.name}: {reason}")
            device.target = answer.target

    def _on(self, machine: str, what: Any, **options: Any) -> Any:
        """Place a function or a class on one machine of the cluster."""
        from ray.util.scheduling_strategies import (  # noqa: PLC0415  # an extra
            NodeAffinitySchedulingStrategy,
        )

        place = NodeAffinitySchedulingStrategy(machine, soft=False)
        return self._ray.remote(what).options(scheduling_strategy=place, **options)

    # ------------------------------------------------------------------ work

    def _ask_all(self, work: OpenBatches, observe: Callable[[Progress], None]) -> None:
        """Ask every device that has nothing to do for a job, where there is one."""
        busy = {id(each) for each in self._asked.values()}
        for device in self._devices:
            if device.is_lost or id(device) in busy:
                continue
            if device.handed is None:
                device.handed = self._next_batch(device, work)
                if device.handed is None:
                    continue
                self._begin(device)
            observe(Started(device.name, device.handed.left[0]))
            self._asked[device.actor.next_job.remote()] = device

    def _next_batch(self, device: _Device, work: OpenBatches) -> Handed | None:
        """Take a batch for a device: one promised to it, one of nobody, or one promised to another."""
        if not device.promised:
            taken = work.take(device.target)
            others = (
                each for each in self._devices if each.target == device.target and each.promised
            )
            giver = max(others, key=lambda each: len(each.promised), default=None)
            if taken is None and giver is not None:
                taken = giver.promised.pop()
            if taken is None:
                return None
            device.promised.append(taken)
        handed = device.promised.popleft()
        self._promise(device, work)
        return handed

    def _promise(self, device: _Device, work: OpenBatches) -> None:
        """Promise batches to a device, and have CPU slots of its machine build them."""
        while device.knows_arch and len(device.promised) < _AHEAD:
            handed = work.take(device.target)
            if handed is None:
                return
            device.promised.append(handed)
            if is_built_ahead(handed.left):
                batch = node.carried(handed.left, [{} for _ in handed.left])
                build = self._on(device.machine, node.build_ahead, num_cpus=1, max_retries=0)
                self._builds.append(build.remote(device.kind, self._config, batch, device.arch))

    def _begin(self, device: _Device) -> None:
        """Send a batch, and before it what its machine lacks."""
        assert device.handed is not None
        jobs = tuple(device.handed.left)
        files = [self._files_of(job) for job in jobs]
        with contextlib.suppress(self._ray.exceptions.RayError):  # the next question meets it too
            self._send(device, {path: name for each in files for path, name in each.values()})
            names = [{relative: name for relative, (_, name) in each.items()} for each in files]
            known = [replace(job, best_speedup=self._best_speedup(job)) for job in jobs]
            self._ray.get(device.actor.begin.remote(node.carried(known, names)))

    def _files_of(self, job: Job) -> dict[str, tuple[Path, str]]:
        """Give place and hash of each file of a job; none where one is missing, which the device says."""
        try:
            paths = node.files_of(job, self._roots)
        except DatasetError:
            return {}
        for path in paths.values():
            if path not in self._hashes:
                with path.open("rb") as file:
                    self._hashes[path] = hashlib.file_digest(file, "sha256").hexdigest()
        return {name: (path, self._hashes[path]) for name, path in paths.items()}

    def _send(self, device: _Device, contents: dict[Path, str]) -> None:
        get = self._ray.get
        lacking = set(get(device.actor.lacks.remote(list(contents.values())))) if contents else ()
        for path, name in contents.items():
            if name not in lacking:
                continue
            with path.open("rb") as file:
                while part := file.read(_PART_BYTES):
                    get(device.actor.keep.remote(name, file.tell() - len(part), part))
            get(device.actor.seal.remote(name))

    def _answer_of(self, reference: Any) -> tuple[node.Answer, bool]:
        """Read how a job ended; also whether, where none did, the device is at fault or its machine left."""
        try:
            return node.decoded(self._ray.get(reference)), True
        except self._ray.exceptions.RayTaskError as error:
            raise WorkerError(f"a machine of the cluster failed: {error}") from error
        except self._ray.exceptions.RayError as error:
            return node.Failed(f"its machine left the cluster ({_line(error)})"), False

    def _finished(self, device: _Device, ended: node.RemoteEnd) -> FinishedJob:
        assert device.handed is not None
        device.arch, device.knows_arch = ended.device.arch, True
        return FinishedJob(
            device.handed.left.popleft(),
            ended.outcome,
            ended.device,
            ended.sandbox,
            ended.attempt,
            ended.build_ms,
            device.name,
            ended.packages,
        )

    def _proceed(self, device: _Device, work: OpenBatches) -> None:
        if device.handed is not None and not device.handed.left:
            work.finish(device.handed)
            device.handed = None
            self._builds = (
                self._ray.wait(self._builds, num_returns=len(self._builds), timeout=0)[1]
                if self._builds
                else []
            )

    def _lose(self, device: _Device, work: OpenBatches, *, is_fault: bool, reason: str) -> None:
        """Let others have what a device did not do."""
        assert device.handed is not None
        device.is_lost = True
        if is_fault and work.note_failure(device.handed.left[0]):
            raise WorkerError(reason)
        for handed in (device.handed, *device.promised):
            work.give_back(handed)
        device.handed = None
        device.promised.clear()
        with contextlib.suppress(Exception):
            self._ray.kill(device.actor)


def _connected(address: str) -> Any:
    """Join the cluster; without the extra, or without a cluster, one line says what to do."""
    try:
        import ray  # noqa: PLC0415  # an extra
        from ray._private import worker  # noqa: PLC0415
    except ImportError as error:
        raise MissingPackageError("ray", extra="ray", needed_for="--pool ray") from error
    worker._worker_logs_enabled = (
        False  # it prints on stdout, which is ours; there is no other switch
    )
    try:
        ray.init(
            address=address,
            log_to_driver=False,
            logging_level=logging.ERROR,
            ignore_reinit_error=True,
        )
    except Exception as error:
        remedy = "start one here with `ray start --head`, or name it: --pool ray://HOST:PORT"
        where = "here" if address == "auto" else f"at {address}"
        said = _line(error).partition(". ")[0]
        raise DeviceError(f"there is no Ray cluster {where} ({said}); {remedy}") from error
    return ray


def _line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
