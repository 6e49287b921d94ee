"""Where a submission is to run: its workloads, the devices that can, and what is known of it already."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.bench.plan import Selection, jobs_for
from flashinfer_bench.data.wording import listed
from flashinfer_bench.serve.capabilities import (
    ANY,
    EACH,
    VERSION,
    requirement_of,
    target_of,
    why_not,
)
from flashinfer_bench.serve.messages import Capability
from flashinfer_bench.serve.queued import KnownResult, NewBatch
from flashinfer_bench.serve.refusals import RefusedError, shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from flashinfer_bench.bench.config import BenchmarkConfig
    from flashinfer_bench.bench.jobs import Target
    from flashinfer_bench.data import Definition, Solution, TraceSet, Workload
    from flashinfer_bench.serve import messages
    from flashinfer_bench.serve.queue import Queue


@dataclass(frozen=True, slots=True)
class KnownWorker:
    """A worker that was here at some time."""

    capability: Capability
    is_there: bool


class Places:
    """Chooses workloads and hardware for submissions, and finds their known results."""

    def __init__(self, queue: Queue, trace_set: TraceSet, config: BenchmarkConfig) -> None:
        self._queue = queue
        self._trace_set = trace_set
        self._config = config

    def chosen(
        self, definition: Definition, submission: messages.Submission
    ) -> tuple[list[Workload], str | None]:
        """Choose workloads, in the dataset's order; or say why there are none."""
        uuids = submission.workload_uuids
        known = {
            each.workload.uuid: each.workload
            for each in self._trace_set.workloads.get(definition.name, [])
        }
        if not known:
            return [], f"No workloads found for definition {definition.name!r}"
        unknown = [uuid for uuid in uuids or () if uuid not in known]
        if unknown:
            return [], (
                f"No workloads found for definition {definition.name!r} with the uuid "
                f"{listed(map(shortened, unknown))}"
            )
        wanted = set(uuids or self._of_class(known.values(), submission))
        return [each for uuid, each in known.items() if uuid in wanted], None

    def _of_class(
        self, workloads: Iterable[Workload], submission: messages.Submission
    ) -> list[str]:
        """Name the workloads of the run's class: that of workers which can run it, where the operator names none."""
        workloads = list(workloads)
        selection = Selection.of(self._config)
        fitting = self._fitting(submission, self.known_workers())
        targets = [target_of(each, self._config) for each in fitting]
        classes = {selection.workload_class_on(target) for target in targets} or {"all"}
        wanted = [w.uuid for w in workloads if any(w.is_of_class(each) for each in classes)]
        return wanted or [each.uuid for each in workloads]

    def known_workers(self) -> list[KnownWorker]:
        """Give the workers that were ever here and are trusted."""
        return [
            KnownWorker(Capability.model_validate_json(row["capability"]), row["is_there"])
            for row in self._queue.workers()
            if not row["quarantined"]
        ]

    def batches(
        self,
        submission: messages.Submission,
        definition: Definition,
        workloads: Sequence[Workload],
        tenant: str,
    ) -> tuple[NewBatch, ...]:
        """Make a batch for each hardware that is to run it, with what is known of it already."""
        solution, hardware = submission.solution, submission.hardware
        known = self.known_workers()
        named = _named_hardware(submission)
        fitting = self._fitting(submission, known)
        if known and not fitting:
            reasons = {why_not(solution, named, each.capability, self._config) for each in known}
            raise RefusedError(
                400, f"no worker can ever run this: {'; '.join(sorted(filter(None, reasons)))}"
            )
        if hardware != EACH or not fitting:
            places: list[str | None] = [named]
        else:
            places = list(dict.fromkeys(each.hardware for each in fitting))
        return tuple(
            NewBatch(
                place,
                requirement_of(solution, place),
                ()
                if submission.fresh
                else self._results(solution, definition, workloads, tenant, place, fitting),
            )
            for place in places
        )

    def _fitting(
        self, submission: messages.Submission, known: Iterable[KnownWorker]
    ) -> list[Capability]:
        """Give the workers that can run a submission, now or another time."""
        named = _named_hardware(submission)
        return [
            each.capability
            for each in known
            if why_not(submission.solution, named, each.capability, self._config) is None
        ]

    def _results(  # noqa: PLR0917  # all that a result depends on
        self,
        solution: Solution,
        definition: Definition,
        workloads: Sequence[Workload],
        tenant: str,
        place: str | None,
        fitting: Sequence[Capability],
    ) -> tuple[KnownResult, ...]:
        """Find results for all workloads on one hardware; nothing where one is missing."""
        for capability in fitting:
            if place not in {None, capability.hardware}:
                continue
            keys = self.cache_keys(solution, definition, workloads, tenant, capability)
            found = self._queue.known(keys.values())
            if all(key in found for key in keys.values()):
                return tuple(
                    KnownResult(uuid, found[key]["hardware"], found[key]["trace"], key)
                    for uuid, key in keys.items()
                )
        return ()

    def cache_keys(
        self,
        solution: Solution,
        definition: Definition,
        workloads: Sequence[Workload],
        tenant: str,
        capability: Capability,
    ) -> dict[str, str]:
        """Hash, by workload, all that a result depends on; a tenant's results answer that tenant alone."""
        target: Target = target_of(capability, self._config)
        jobs = jobs_for(definition, solution, workloads, self._config, target)
        shared = (
            *(tenant, solution.hash(), definition.hash()),
            *(capability.hardware, json.dumps(capability.libs, sort_keys=True)),
            capability.version,
        )
        return {
            job.workload.uuid: _hash(*shared, job.config_hash, job.workload.to_json())
            for job in jobs
        }


def _named_hardware(submission: messages.Submission) -> str | None:
    return None if submission.hardware in {ANY, EACH} else submission.hardware


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join((*parts, VERSION)).encode()).hexdigest()
