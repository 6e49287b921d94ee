"""The fork server's wait for processes it has killed."""

from __future__ import annotations

import subprocess
import sys
import time

from flashinfer_bench.bench.worker.server import _wait_for_ends

SLEEPER = [sys.executable, "-c", "import time; time.sleep(60)"]


def test_it_waits_no_longer_than_the_last_one_takes_to_die() -> None:
    sleepers = [subprocess.Popen(SLEEPER) for _ in range(3)]
    for each in sleepers:
        each.kill()
    started_s = time.monotonic()

    _wait_for_ends({each.pid for each in sleepers}, at_most_s=30.0)

    waited_s = time.monotonic() - started_s
    assert [each.poll() for each in sleepers] == [-9, -9, -9]
    assert waited_s < 10


def test_it_gives_up_on_one_that_does_not_die() -> None:
    sleeper = subprocess.Popen(SLEEPER)
    started_s = time.monotonic()

    _wait_for_ends({sleeper.pid}, at_most_s=0.05)

    waited_s = time.monotonic() - started_s
    sleeper.kill()
    sleeper.wait()
    assert 0.05 <= waited_s < 10


def test_processes_that_are_gone_are_not_waited_for() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    started_s = time.monotonic()

    _wait_for_ends({gone.pid}, at_most_s=30.0)

    assert time.monotonic() - started_s < 10
