"""Processor time of another process, read from outside."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from flashinfer_bench.bench.judge.cpu_clock import CpuClock
from flashinfer_bench.bench.worker.processes import descendants_of

BUSY = "while True: pass"
IDLE = "import time; print(flush=True); time.sleep(60)"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BUSY!r}])"


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()


def start(processes: list[subprocess.Popen[bytes]], script: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    processes.append(process)
    return process


def clock_of(pid: int) -> CpuClock:
    return CpuClock(pid, lambda: (descendants_of(pid), ()))


def used_in(clock: CpuClock, seconds: float) -> float:
    before_ns = clock.read_ns()
    time.sleep(seconds)
    return (clock.read_ns() - before_ns) / 1e9


def used_by_children(clock: CpuClock) -> int:
    return sum(seen.used_ns for each, seen in clock._seen.items() if each != clock._own)


def test_a_busy_process_uses_time(started: list[subprocess.Popen[bytes]]) -> None:
    assert used_in(clock_of(start(started, BUSY).pid), 0.3) > 0.02


def test_a_sleeping_one_uses_none(started: list[subprocess.Popen[bytes]]) -> None:
    process = start(started, IDLE)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(0.05)

    assert used_in(clock_of(process.pid), 0.3) < 0.005


def test_children_count_once_they_were_looked_for(started: list[subprocess.Popen[bytes]]) -> None:
    clock = clock_of(start(started, PARENT).pid)
    deadline = time.monotonic() + 10
    is_seen = False
    try:
        while not is_seen and time.monotonic() < deadline:
            clock.look_for_children()
            is_seen = used_in(clock, 0.2) > 0.02 and len(clock._seen) > 1
    finally:
        subprocess.run(["pkill", "-KILL", "-P", str(started[0].pid)], check=False)

    assert is_seen


def test_a_child_that_ends_does_not_take_its_time_with_it() -> None:
    script = f"import time\nuntil = time.time() + 0.3\nwhile time.time() < until: pass\n{IDLE}"
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    clock = CpuClock(os.getpid(), lambda: ([child.pid], ()))
    clock.look_for_children()
    before_ns = clock.read_ns()

    child.kill()
    child.wait()
    time.sleep(0.05)
    ended_ns = clock.read_ns()
    clock.look_for_children()

    assert ended_ns - before_ns >= 50_000_000  # taken to have been busy since it was last seen
    assert clock.read_ns() >= ended_ns


def test_of_what_is_counted_that_of_children_that_were_met_is_taken_off(
    started: list[subprocess.Popen[bytes]],
) -> None:
    spins = "import time\nwhile time.process_time() < 0.2: pass\n" + IDLE
    child = start(started, spins)
    counted = [(0, 1_000)]
    clock = CpuClock(os.getpid(), lambda: ([child.pid], counted[-1]))
    clock.look_for_children()
    before_ns = used_by_children(clock)
    assert child.stdout is not None
    child.stdout.readline()
    clock.read_ns()
    met_ns = used_by_children(clock) - before_ns
    child.kill()
    child.wait()

    counted.append((2 * met_ns + 1_000, 2 * met_ns + 9_000))  # at least, at most
    assert clock.look_for_children().unmet_ns == pytest.approx(0.9 * met_ns, abs=2)


def test_what_was_met_is_nobody_unmet(started: list[subprocess.Popen[bytes]]) -> None:
    child = start(started, BUSY)
    counted = [(0, 1_000)]
    clock = CpuClock(os.getpid(), lambda: ([child.pid], counted[-1]))
    clock.look_for_children()
    before_ns = used_by_children(clock)
    until_s = time.monotonic() + 30  # on a busy machine a child waits for its turn
    while used_by_children(clock) == before_ns and time.monotonic() < until_s:
        time.sleep(0.1)
        clock.read_ns()

    met_ns = used_by_children(clock) - before_ns
    counted.append((met_ns, met_ns))

    assert met_ns > 0
    assert clock.look_for_children().unmet_ns == 0


def test_nobody_is_unmet_where_nobody_counts() -> None:
    clock = clock_of(os.getpid())
    clock.look_for_children()

    assert clock.look_for_children().unmet_ns is None


def test_a_process_that_ended_counts_no_more() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    clock = clock_of(process.pid)
    process.wait()

    assert clock.read_ns() == 0
