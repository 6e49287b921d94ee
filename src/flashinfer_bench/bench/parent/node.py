"""One device of another machine: batches come as bytes, each job's end goes back before the next begins.

Nothing here knows how the bytes travel. A machine keeps the files of workloads under the hash of their content.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import threading
from typing import TYPE_CHECKING, Literal

import msgspec

from flashinfer_bench.bench.attempts import Attempt
from flashinfer_bench.bench.config import BenchmarkConfig, ResolvedEvalConfig
from flashinfer_bench.bench.jobs import Job, Target
from flashinfer_bench.bench.outcomes import Outcome
from flashinfer_bench.bench.parent.builds_ahead import BuildsAhead
from flashinfer_bench.bench.parent.launcher import remove_tree
from flashinfer_bench.bench.parent.pool import LocalPool, hardware_of
from flashinfer_bench.bench.protocol import Opened
from flashinfer_bench.bench.sandbox.policy import Sandbox
from flashinfer_bench.data import Definition, Solution, Workload, settings
from flashinfer_bench.data.opening import path_inside
from flashinfer_bench.errors import DeviceError, WorkerError
from flashinfer_bench.tensors import machine
from flashinfer_bench.tensors.files import local_file
from flashinfer_bench.tensors.planned import plan_inputs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from flashinfer_bench.bench.parent.pool import FinishedJob

Kind = Literal["cpu", "cuda"]
_FIRST = {"cpu": "cpu", "cuda": "cuda:0"}
"""What a process sees as its device: who places it hides the other cards."""


class CarriedJob(msgspec.Struct, frozen=True):
    """A job on its way to another machine."""

    definition: bytes
    solution: bytes
    workload: bytes
    settings: bytes
    config_hash: str
    files: dict[str, str]
    """The files of its workload: their hashes, by their names in the dataset."""
    is_unseen: bool = False
    best_speedup: float | None = None


class Described(msgspec.Struct, frozen=True, tag=True):
    """What a device is."""

    target: Target


class RemoteEnd(msgspec.Struct, frozen=True, tag=True):
    """How a job ended, and what of the machine its trace names."""

    outcome: Outcome
    device: Opened
    sandbox: Sandbox
    attempt: Attempt
    build_ms: float | None
    packages: dict[str, str]


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The device cannot do its jobs."""

    reason: str


Answer = Described | RemoteEnd | Failed
_DECODER: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)
_BATCHES: msgspec.msgpack.Decoder[list[CarriedJob]] = msgspec.msgpack.Decoder(list[CarriedJob])


def decoded(answer: bytes) -> Answer:
    """Read what a device answered."""
    return _DECODER.decode(answer)


def carried(jobs: Sequence[Job], files: Sequence[dict[str, str]]) -> bytes:
    """Write a batch as a device reads it; `files` are those of each job."""
    return msgspec.msgpack.encode(
        [
            CarriedJob(
                job.definition.to_json().encode(),
                job.solution.to_json().encode(),
                job.workload.model_dump_json().encode(),
                job.config.model_dump_json().encode(),
                job.config_hash,
                of_job,
                job.is_unseen,
                job.best_speedup,
            )
            for job, of_job in zip(jobs, files, strict=True)
        ]
    )


def files_of(job: Job, roots: Sequence[str]) -> dict[str, Path]:
    """Find the files that hold inputs of a job, by their names in the dataset."""
    plans = plan_inputs(job.definition, job.workload)
    return {plan.path: local_file(plan.path, roots) for plan in plans if plan.source == "file"}


class RemoteDevice:
    """A device of this machine, with a pool of its own. `close` may be called while a job runs."""

    def __init__(self, kind: Kind, config: str) -> None:
        if kind == "cuda":
            settings.count_gpus_by_bus()
        self._kind = kind
        self._config = BenchmarkConfig.model_validate_json(config)
        self._threads = self._config.threads or machine.physical_cores()
        self._store = CarriedFiles(settings.cache_path() / "carried")
        self._pool: LocalPool | None = None
        self._ended: Iterator[FinishedJob] = iter(())

    def describe(self) -> bytes:
        """Say what this device is."""
        try:
            hardware = hardware_of(_FIRST[self._kind])
        except ValueError as error:
            return msgspec.msgpack.encode(Failed(str(error)))
        target = Target(self._kind, hardware, self._threads, arch=self._config.arch)
        return msgspec.msgpack.encode(Described(target))

    def lacks(self, names: Sequence[str]) -> list[str]:
        """Name the contents that are not here, by their hashes."""
        return [name for name in names if not self._store.has(name)]

    def keep(self, name: str, begin: int, part: bytes) -> None:
        """Keep a part of a content."""
        self._store.write(name, begin, part)

    def seal(self, name: str) -> None:
        """Take a content for complete, when its hash says so."""
        self._store.seal(name)

    def begin(self, batch: bytes) -> None:
        """Begin a batch; `next_job` gives how its jobs ended."""
        jobs = [self._read(each) for each in _BATCHES.decode(batch)]
        self._pool = self._pool or LocalPool(
            (_FIRST[self._kind],),
            config=self._config,
            roots=(self._store.tree,),
            threads=self._threads,
        )
        self._ended = self._pool.run([jobs], lambda _: None)

    def next_job(self) -> bytes:
        """Give how the next job ended; the one after it begins with the next call."""
        try:
            finished = next(self._ended, None)
        except (WorkerError, DeviceError) as error:
            return msgspec.msgpack.encode(Failed(str(error)))
        if finished is None:
            return msgspec.msgpack.encode(Failed("it was stopped"))
        return msgspec.msgpack.encode(
            RemoteEnd(
                finished.outcome,
                finished.device,
                finished.sandbox,
                finished.attempt,
                finished.build_ms,
                machine.package_versions(),
            )
        )

    def close(self) -> None:
        """End all work within a second or two."""
        if self._pool is not None:
            self._pool.close()
        self._store.close()

    def _read(self, job: CarriedJob) -> Job:
        self._store.link(job.files)
        return _job(job)


def build_ahead(kind: Kind, config: str, batch: bytes, arch: str | None) -> None:
    """Compile what a batch needs into this machine's cache; what fails is found by the device again."""
    jobs = [_job(each) for each in _BATCHES.decode(batch)]
    known = BenchmarkConfig.model_validate_json(config)
    builds = BuildsAhead(
        [jobs],
        devices=(_FIRST[kind],),
        threads=known.threads or machine.physical_cores(),
        roots=(),
        cache_root=settings.cache_path(),
        config=known,
        observe=lambda _: None,
    )
    try:
        if builds.concerns(jobs):
            builds.wait_for(jobs, known.arch or arch, threading.Event())
    finally:
        builds.close()


def _job(carried_job: CarriedJob) -> Job:
    return Job(
        Definition.model_validate_json(carried_job.definition),
        Solution.model_validate_json(carried_job.solution),
        Workload.model_validate_json(carried_job.workload),
        ResolvedEvalConfig.model_validate_json(carried_job.settings),
        carried_job.config_hash,
        is_unseen=carried_job.is_unseen,
        best_speedup=carried_job.best_speedup,
    )


class CarriedFiles:
    """Contents under their hashes, for all devices of a machine; each sees them by name in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._contents = folder / "contents"
        self._token = secrets.token_hex(8)
        self.tree = folder / "trees" / self._token
        for each in (self._contents, self.tree):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)

    def has(self, name: str) -> bool:
        """Tell whether a content is here."""
        return (self._contents / name).exists()

    def write(self, name: str, begin: int, part: bytes) -> None:
        """Write a part of a content that is on its way."""
        descriptor = os.open(self._part(name), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(descriptor, part, begin)
        finally:
            os.close(descriptor)

    def seal(self, name: str) -> None:
        """Keep a content whose hash is its name; any other is dropped."""
        part = self._part(name)
        with part.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != name:
            part.unlink()
            raise WorkerError(f"a file arrived with the hash {found}, not {name}")
        part.replace(self._contents / name)

    def link(self, files: dict[str, str]) -> None:
        """Show contents under names of a dataset."""
        for relative, name in files.items():
            path = path_inside(self.tree, relative)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            os.link(self._contents / name, path)

    def close(self) -> None:
        """Remove the folder of names, and parts that never became whole."""
        for each in self._contents.glob(f"*.{self._token}"):
            each.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            remove_tree(self.tree)

    def _part(self, name: str) -> Path:
        return self._contents / f"{name}.{self._token}"
