"""How tasks are weak, as far as it is known on this machine: each is looked at once, not once a command.

What is found follows from the task, the strictness and the device, and from nothing of a solution. A file speaks of one
task, so a reference that lies about its own task lies about no other. Contents of files may change under a task, so
what has such inputs is looked at in each run.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from typing import TYPE_CHECKING

import msgspec

from flashinfer_bench.bench.outcomes import JobNote
from flashinfer_bench.bench.weakness import RULES

if TYPE_CHECKING:
    from pathlib import Path

    from flashinfer_bench.bench.jobs import Job
    from flashinfer_bench.bench.protocol import Opened

_DECIDING = ("rtol", "atol", "required_matched_ratio", "max_error_cap", "extra")
"""Settings that decide what passes."""


class WeakTasks:
    """What is known of tasks on one device."""

    def __init__(self, cache_root: Path, device: Opened) -> None:
        self._folder = cache_root / "weak_tasks"
        self._device = f"{device.hardware} {sorted(device.libs.items())}"

    def known(self, job: Job) -> tuple[JobNote, ...] | None:
        """Say how the task of a job is weak, as it was found before; None where nobody has looked."""
        try:
            return msgspec.json.decode(self._file(job).read_bytes(), type=tuple[JobNote, ...])
        except (OSError, msgspec.MsgspecError):
            return None

    def note(self, job: Job, found: tuple[JobNote, ...]) -> None:
        """Write down what was found, where there is a place for it; losing it costs another look."""
        file = self._file(job)
        with contextlib.suppress(OSError):
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft = file.with_suffix(f".{secrets.token_hex(4)}")
            draft.write_bytes(msgspec.json.encode(found))
            draft.replace(file)

    def _file(self, job: Job) -> Path:
        settings = job.config.model_dump_json(include=set(_DECIDING))
        task = job.definition.to_json(), job.workload.to_json()
        parts = (RULES, self._device, *task, settings)
        digest = hashlib.sha256("\0".join(parts).encode())
        return self._folder / f"{digest.hexdigest()}.json"
