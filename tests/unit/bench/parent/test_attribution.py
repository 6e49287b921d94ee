"""Whether memory ran out is told by the kernel's account, not by who says so."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from msgspec.structs import replace

from flashinfer_bench.bench.outcomes import (
    Crashed,
    Errors,
    JobNote,
    NotBuilt,
    OpponentFailed,
    Skipped,
    Suspect,
    TimedOut,
    Wrong,
)
from flashinfer_bench.bench.parent.attribution import (
    confirmed,
    is_confirmed,
    unless_it_had_crashed,
    unless_memory_ran_out,
    with_heap_hint,
    with_lock_hint,
    with_log,
)
from flashinfer_bench.tensors import memory
from tests.unit.bench.values import passed

GB = 10**9
SAYS = "RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried to allocate 3000000000 bytes."


@pytest.mark.parametrize(
    "said",
    [
        SAYS,
        "MemoryError",
        "its process was ended by SIGABRT\nterminate called after throwing 'std::bad_alloc'",
        "its process was ended by SIGKILL (perhaps out of memory)",
    ],
)
def test_what_had_half_of_its_grant_in_memory_did_not_fit(said: str) -> None:
    assert isinstance(unless_memory_ran_out(Crashed(said, ""), 8 * GB, 4 * GB), Skipped)
    assert isinstance(unless_memory_ran_out(Crashed("", said), 8 * GB, 4 * GB), Skipped)


def test_a_skip_names_what_was_granted_used_and_asked_for() -> None:
    skipped = unless_memory_ran_out(Crashed(SAYS, ""), 8 * GB, 6 * GB)

    assert skipped == Skipped(
        "it does not fit into memory here: 8.0 GB were granted, it had 6.0 in memory and asked for 3.0 more"
    )


def test_who_only_says_so_crashed_and_the_log_has_the_figures() -> None:
    found = unless_memory_ran_out(Crashed(SAYS, "log"), 8 * GB, GB)

    assert isinstance(found, Crashed)
    assert found.explanation.splitlines() == [
        SAYS,
        "8.0 GB were granted, it had 1.0 in memory and asked for 3.0 more",
    ]


def test_other_failures_and_devices_without_a_grant_are_left_alone() -> None:
    other, late = Crashed("IndexError", ""), TimedOut(SAYS, "")

    assert unless_memory_ran_out(other, 8 * GB, 8 * GB) is other
    assert unless_memory_ran_out(late, 8 * GB, 8 * GB) is late
    assert unless_memory_ran_out(Crashed(SAYS, ""), None, 8 * GB) == Crashed(SAYS, "")


def test_the_kernels_account_of_another_process_is_read() -> None:
    code = "import resource, sys; resource.setrlimit(resource.RLIMIT_DATA, (1 << 33, 1 << 33))"
    code += "; filled = b'x' * (64 << 20); print(flush=True); sys.stdin.read()"
    other = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout is not None
    other.stdout.readline()

    limit, peak = memory.granted_bytes(other.pid), memory.peak_bytes(other.pid)
    other.communicate()

    assert limit == 1 << 33
    assert 64 << 20 <= peak < 1 << 30
    assert (memory.granted_bytes(other.pid), memory.peak_bytes(other.pid)) == (None, 0)
    assert memory.peak_bytes(os.getpid()) > 0


def suspect(number: int, *, is_opponents: bool = False) -> Suspect:
    found = (JobNote("implausible", f"too fast by {number}"),)
    return Suspect(
        Errors(0.0, 0.0, 1.0),
        found,
        (),
        log=f"printed {number}\n",
        participant="candidate-1",
        is_opponents=is_opponents,
    )


@pytest.mark.parametrize(("disturbed", "enough"), [((), 3), ((0,), 6), ((2,), 6)])
def test_a_disturbed_machine_needs_more_suspect_attempts(
    disturbed: tuple[int, ...], enough: int
) -> None:
    suspicions = [replace(suspect(n), is_disturbed=n in disturbed) for n in range(10)]

    assert [is_confirmed(suspicions[:n]) for n in (enough - 1, enough)] == [False, True]
    assert not is_confirmed([])


def test_what_was_suspect_in_every_attempt_is_wrong_and_the_log_says_why_each_time() -> None:
    wrong = confirmed([suspect(1), suspect(2), suspect(3)])

    assert isinstance(wrong, Wrong)
    assert wrong.explanation == "seen in each of 3 attempts at the job, each in a fresh process"
    assert [note.evidence for note in wrong.violations] == ["too fast by 3"]
    assert wrong.log.splitlines() == [
        "played again because of implausible: too fast by 1",
        "played again because of implausible: too fast by 2",
        "played again because of implausible: too fast by 3",
        "printed 3",
    ]


def test_what_one_attempt_alone_shows_is_not_held_against_a_solution() -> None:
    once = JobNote("unclaimed_cpu_time", "a processor was busy")
    last = suspect(3)
    noisy = replace(last, violations=(*last.violations, once))

    wrong = confirmed([suspect(1), suspect(2), noisy])
    each_another = confirmed([suspect(1), replace(last, violations=(once,))])

    assert isinstance(wrong, Wrong)
    assert isinstance(each_another, Wrong)
    assert [note.code for note in wrong.violations] == ["implausible"]
    assert each_another.violations == (once,)


def test_what_is_confirmed_of_the_opponent_is_the_opponents_failure() -> None:
    failed = confirmed([suspect(1), suspect(2, is_opponents=True)])

    assert isinstance(failed, OpponentFailed)
    assert isinstance(failed.outcome, Wrong)


def test_who_is_believed_at_a_later_attempt_keeps_the_reasons_in_the_log() -> None:
    again = with_log(passed(log="hello\n"), [suspect(1)])
    crashed = with_log(Crashed("SIGSEGV", "log"), [suspect(1)])

    assert again.log == "played again because of implausible: too fast by 1\nhello\n"
    assert crashed == Crashed("SIGSEGV", "log")


@pytest.mark.parametrize(
    ("said", "signal"),
    [
        ("Segmentation fault", "SIGSEGV"),
        ("Aborted", "SIGABRT"),
        ("Bus error", "SIGBUS"),
        ("Floating point exception", "SIGFPE"),
    ],
)
def test_what_hung_while_it_printed_a_fatal_signal_was_ended_by_that(
    said: str, signal: str
) -> None:
    log = f"hello\nFatal Python error: {said}\n\nCurrent thread 0x1:\n"

    found = unless_it_had_crashed(TimedOut("did not return within 5 s", log, "solution"))

    assert isinstance(found, Crashed)
    assert found.explanation.startswith(f"its process was ended by {signal}, ")
    assert (found.log, found.participant) == (log, "solution")


def test_what_only_did_not_return_timed_out() -> None:
    late = TimedOut("did not return within 5 s", "no Fatal Python error: Aborted here", "solution")

    assert unless_it_had_crashed(late) is late


@pytest.mark.parametrize(
    "said",
    [
        "malloc_consolidate(): invalid chunk size",
        "free(): invalid next size (normal)",
        "double free or corruption (out)",
        "corrupted size vs. prev_size",
        "Fatal glibc error: malloc assertion failure in _int_malloc",
    ],
)
def test_an_overwritten_heap_is_told_from_other_aborts(said: str) -> None:
    found = with_heap_hint(Crashed("its process was ended by SIGABRT", f"x\n{said}\n"))
    other = Crashed("its process was ended by SIGABRT", "terminate called\n")

    assert "memory beside an array was overwritten" in found.explanation
    assert with_heap_hint(other) is other


DENIED = """
    pool = ThreadPool(2)
           ^^^^^^^^^^^^^
PermissionError: [Errno 13] Permission denied
"""


def test_a_lock_that_cannot_be_made_names_what_to_use_instead() -> None:
    during, before = Crashed(DENIED, ""), NotBuilt("it cannot be imported", DENIED)
    file = Crashed(DENIED.replace("denied\n", "denied: 'notes.txt'\n"), "")

    for outcome in (during, before):
        assert "use concurrent.futures.ThreadPoolExecutor" in with_lock_hint(outcome).explanation
    assert with_lock_hint(file) is file
