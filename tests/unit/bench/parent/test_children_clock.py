"""Children that are gone before anybody looks: their processor time is counted where the kernel allows it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from flashinfer_bench.bench.judge.cpu_clock import CpuClock
from flashinfer_bench.bench.parent import children_clock
from flashinfer_bench.bench.parent.children_clock import open_children_clock, why_not_counted
from flashinfer_bench.bench.worker.processes import descendants_of
from tests.flow.kernels import wait_for

COMPILER = shutil.which("cc")
CHILDREN, EACH_NS = 50, 2_000_000
BRIEF = """
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
static long used(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec * 1000000000L + t.tv_nsec;
}
int main(void) {
  char c;
  struct sigaction nobody_waits;
  memset(&nobody_waits, 0, sizeof nobody_waits);
  nobody_waits.sa_handler = SIG_IGN;
  nobody_waits.sa_flags = SA_NOCLDWAIT;
  sigaction(SIGCHLD, &nobody_waits, 0);
  prctl(PR_TASK_PERF_EVENTS_DISABLE);
  while (read(0, &c, 1) == 1) {
    if (c == 's')  /* spin alone */
      for (long start = used(CLOCK_PROCESS_CPUTIME_ID); used(CLOCK_PROCESS_CPUTIME_ID) - start < CHILDREN * EACH;);
    else
      for (int i = 0; i < CHILDREN; ++i)
        if (vfork() == 0) {
          for (long start = used(CLOCK_THREAD_CPUTIME_ID); used(CLOCK_THREAD_CPUTIME_ID) - start < EACH;);
          _exit(0);
        }
    write(1, "x", 1);
  }
  return 0;
}
"""
needs_counters = pytest.mark.skipif(
    COMPILER is None or why_not_counted() is not None, reason="needs cc, and counters"
)


@pytest.fixture
def brief(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Starts children that nobody meets when it reads `c`, and computes itself when it reads `s`."""
    source, program = tmp_path / "brief.c", tmp_path / "brief"
    source.write_text(BRIEF)
    assert COMPILER is not None
    numbers = [f"-DCHILDREN={CHILDREN}", f"-DEACH={EACH_NS}L"]
    subprocess.run([COMPILER, *numbers, "-o", program, source], check=True)
    process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    yield process
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        assert stream is not None
        stream.close()


def ask(process: subprocess.Popen[bytes], for_what: bytes) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(for_what)
    assert process.stdout.read(1) == b"x"


@needs_counters
def test_children_that_nobody_met_are_counted_and_no_clock_of_a_process_shows_them(
    brief: subprocess.Popen[bytes],
) -> None:
    counter = open_children_clock(brief.pid)
    assert counter is not None
    clock = CpuClock(brief.pid, lambda: (descendants_of(brief.pid), counter.read_ns()))
    clock.look_for_children()
    before_ns = clock.read_ns()

    ask(brief, b"c")
    wait_for(lambda: not descendants_of(brief.pid))  # its last ones may still be ending

    wanted_ns = 0.9 * CHILDREN * EACH_NS
    children = clock.look_for_children()
    assert children.unmet_ns > wanted_ns
    assert clock.read_ns() - before_ns < wanted_ns
    assert children.born_ns == 0
    counter.close()


@needs_counters
def test_what_a_process_computes_itself_is_no_child_s(brief: subprocess.Popen[bytes]) -> None:
    counter = open_children_clock(brief.pid)
    assert counter is not None

    ask(brief, b"s")

    least_ns, most_ns = counter.read_ns()
    assert least_ns == 0
    assert most_ns < EACH_NS / 10  # it goes to sleep while it is read
    counter.close()


@needs_counters
def test_counters_are_nobody_else_s_and_go_with_the_clock() -> None:
    counter = open_children_clock(os.getpid())
    assert counter is not None
    descriptors = (*counter.all_started, *counter.only_threads)

    assert not any(map(os.get_inheritable, descriptors))
    counter.close()
    for each in descriptors:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(each)


def test_where_the_kernel_refuses_nothing_is_counted_and_nothing_stays_open() -> None:
    opened: list[int] = []

    def refuse_the_second(thread: int, only_threads: bool) -> int:
        if opened:
            raise PermissionError(13, "Permission denied")
        opened.append(os.open(os.devnull, os.O_RDONLY))
        return opened[0]

    assert open_children_clock(os.getpid(), refuse_the_second) is None
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0])


def test_a_process_that_is_gone_is_not_counted() -> None:
    process = subprocess.Popen(["true"])
    process.wait()

    assert open_children_clock(process.pid) is None


def test_why_nothing_is_counted_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children_clock.seccomp, "is_known_machine", lambda: False)

    assert why_not_counted() == "Function not implemented"
