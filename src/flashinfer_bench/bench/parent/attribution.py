"""Whose fault is it? What a job's end means once it is known how it came about."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from flashinfer_bench.bench.outcomes import (
    Crashed,
    DatasetFault,
    NotBuilt,
    OpponentFailed,
    Outcome,
    Passed,
    Skipped,
    Suspect,
    TimedOut,
    Wrong,
)
from flashinfer_bench.bench.plan import is_stand_in
from flashinfer_bench.compile.cache import named_as_written
from flashinfer_bench.tensors.memory import is_about_memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.bench.jobs import Job

ATTEMPTS = 3
"""A job is attempted so often before what looked like a lie each time is held against a solution."""
_ATTEMPTS_WHEN_DISTURBED = 6
"""So often where the machine was disturbed: there noise looks like a lie in one attempt of three or four."""

_NO_GPU_WORDS = (
    "not compiled with CUDA",
    "not linked with support for cuda",
    "no NVIDIA driver",
    "No CUDA GPUs are available",
    "no CUDA-capable device",
)
"""How torch says that there is no GPU."""

_SIGNALS = {
    "Segmentation fault": "SIGSEGV",
    "Aborted": "SIGABRT",
    "Bus error": "SIGBUS",
    "Floating-point exception": "SIGFPE",
    "Floating point exception": "SIGFPE",
    "Illegal instruction": "SIGILL",
}
_FATAL = re.compile(rf"^Fatal Python error: ({'|'.join(_SIGNALS)})$", re.MULTILINE)
_HEAP = re.compile(
    r"^(?:malloc|free\(\)|realloc\(\)|munmap_chunk|corrupted |double free|Fatal glibc error: malloc).*$",
    re.MULTILINE,
)
"""How the C library says that what it notes beside memory was overwritten."""
_HEAP_HINT = "memory beside an array was overwritten (an output, or scratch)"
_LOCK = re.compile(
    r"(?:SemLock|Pool|Queue|Lock|Semaphore|Event|Condition|Barrier|Value|Array)\(.*\n(?:.*\n)?"
    r"PermissionError: \[Errno 13\] Permission denied$",
    re.MULTILINE,
)
"""How Python says that a lock of multiprocessing cannot be made: without the name of a file."""
_LOCK_HINT = (
    "locks, queues and pools of multiprocessing need /dev/shm, which the sandbox does not give: "
    "use concurrent.futures.ThreadPoolExecutor, or --sandbox container"
)
_REQUEST = re.compile(r"you tried to allocate (\d{1,18}) bytes")
_MOST_OF_IT = 0.5
"""Of what was granted: memory that grows by doubling fails when half is in use."""


def reasons_of(suspicions: Sequence[Suspect]) -> str:
    """Say in a line for each, for the log, why a job was attempted again."""
    found = (each for suspect in suspicions for each in suspect.violations)
    return "".join(f"played again because of {v.code}: {v.evidence}\n" for v in found)


def is_confirmed(suspicions: Sequence[Suspect]) -> bool:
    """Tell whether a job looked like a lie often enough; oftener where the machine was disturbed in any attempt."""
    is_disturbed = any(each.is_disturbed for each in suspicions)
    return len(suspicions) >= (_ATTEMPTS_WHEN_DISTURBED if is_disturbed else ATTEMPTS)


def confirmed(suspicions: Sequence[Suspect]) -> Outcome:
    """What looked like a lie in every attempt is one; the last attempt is recorded.

    What only the last attempt shows is noise where something else was seen each time: it is left out.
    """
    last = suspicions[-1]
    each_time = set.intersection(*({v.code for v in each.violations} for each in suspicions))
    repeated = tuple(v for v in last.violations if v.code in each_time)
    wrong = Wrong(
        last.errors,
        f"seen in each of {len(suspicions)} attempts at the job, each in a fresh process",
        repeated or last.violations,
        last.notes,
        log=reasons_of(suspicions) + last.log,
        participant=last.participant,
    )
    return OpponentFailed(wrong) if last.is_opponents else wrong


def with_log(outcome: Outcome, suspicions: Sequence[Suspect]) -> Outcome:
    """Let the log of a job that was attempted more than once say so."""
    if not suspicions or not isinstance(outcome, Passed | Wrong):
        return outcome
    return replace(outcome, log=reasons_of(suspicions) + outcome.log)


def unless_it_had_crashed(timed_out: TimedOut) -> Crashed | TimedOut:
    """Call what met a fatal signal and hung while it printed where by that signal: memory it needs may be destroyed."""
    fatal = _FATAL.search(timed_out.log)
    if fatal is None:
        return timed_out
    explanation = f"its process was ended by {_SIGNALS[fatal[1]]}, and hung while it printed where"
    return Crashed(explanation, timed_out.log, timed_out.participant)


def with_heap_hint(crashed: Crashed) -> Crashed:
    """Say what it most often means that the C library found its lists of free memory overwritten."""
    if not _HEAP.search(crashed.log):
        return crashed
    return replace(crashed, explanation=f"{crashed.explanation}: {_HEAP_HINT}")


def with_lock_hint(outcome: Outcome) -> Outcome:
    """Name what takes the place of multiprocessing's locks, which live in `/dev/shm`."""
    if not isinstance(outcome, Crashed | NotBuilt) or not _LOCK.search(
        outcome.explanation + outcome.log
    ):
        return outcome
    return replace(outcome, explanation=f"{outcome.explanation.rstrip()}\n{_LOCK_HINT}\n")


def unless_it_wants_a_gpu(outcome: Outcome, job: Job, device: str) -> Outcome:
    """Skip what stands in for a GPU's kernel here and whose host code asks for the GPU itself."""
    if not isinstance(outcome, Crashed) or not is_stand_in(job.solution, device.partition(":")[0]):
        return outcome
    lines = [line for line in outcome.explanation.splitlines() if line.strip()]
    said = lines[-1].strip() if lines else ""
    if not any(words in said for words in _NO_GPU_WORDS):
        return outcome
    return Skipped(f"its host code needs a CUDA device: {said}")


def unless_memory_ran_out(outcome: Outcome, granted_bytes: int | None, peak_bytes: int) -> Outcome:
    """Skip what failed for want of memory when it had really used most of what it was granted.

    Anyone can say that memory ran out. So that decides nothing: the kernel's account of what the process had in
    memory at most does. One request that is refused leaves no trace there, and stays the solution's fault.
    """
    if not isinstance(outcome, Crashed) or granted_bytes is None:
        return outcome
    if not is_about_memory(outcome.explanation + outcome.log):
        return outcome
    figures = f"{granted_bytes / 1e9:.1f} GB were granted, it had {peak_bytes / 1e9:.1f} in memory"
    asked = _REQUEST.search(outcome.explanation)
    figures += f" and asked for {int(asked[1]) / 1e9:.1f} more" if asked else ""
    if peak_bytes >= granted_bytes * _MOST_OF_IT:
        return Skipped(f"it does not fit into memory here: {figures}")
    return replace(outcome, explanation=f"{outcome.explanation.rstrip()}\n{figures}\n")


def with_own_names(outcome: Outcome) -> Outcome:
    """Name the solution's files as the solution does, not the copies that were built and run."""
    if isinstance(outcome, OpponentFailed):
        return replace(outcome, outcome=with_own_names(outcome.outcome))
    texts = {name: getattr(outcome, name, "") for name in ("explanation", "log")}
    return replace(
        outcome, **{name: named_as_written(text) for name, text in texts.items() if text}
    )


def attributed_to_dataset(outcome: Outcome) -> Outcome:
    """A reference that cannot be built is the definition's fault."""
    match outcome:
        case NotBuilt(explanation=explanation, log=log):
            return DatasetFault(f"the reference cannot be built: {explanation}\n{log}")
        case _:
            return outcome
