"""Who started whom, from made-up and real entries of /proc."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from flashinfer_bench.bench.worker.processes import children_of, descendants_of, waited_ns

CHAIN = 3_000


def entry(proc: Path, pid: int, *children: int) -> None:
    thread = proc / str(pid) / "task" / str(pid)
    thread.mkdir(parents=True)
    (thread / "children").write_text(" ".join(map(str, children)))


def test_a_chain_longer_than_python_nests_calls_is_followed_to_its_end(tmp_path: Path) -> None:
    assert sys.getrecursionlimit() < CHAIN
    for pid in range(1, CHAIN):
        entry(tmp_path, pid, pid + 1)

    assert descendants_of(1, proc=tmp_path) == set(range(2, CHAIN + 1))


def test_what_is_left_out_hides_what_is_below_it(tmp_path: Path) -> None:
    entry(tmp_path, 1, 2, 3)
    entry(tmp_path, 2, 4)

    assert descendants_of(1, without=frozenset({2}), proc=tmp_path) == {3}


def test_a_process_that_is_gone_has_nobody_below_it(tmp_path: Path) -> None:
    assert children_of(1, proc=tmp_path) == set()


def test_waiting_is_summed_up_over_threads(tmp_path: Path) -> None:
    for thread, waited in ((7, 1_000), (8, 20)):
        folder = tmp_path / "7" / "task" / str(thread)
        folder.mkdir(parents=True)
        (folder / "schedstat").write_text(f"123 {waited} 4\n")

    assert waited_ns(7, proc=tmp_path) == 1_020


def test_a_process_that_is_gone_waits_for_nothing(tmp_path: Path) -> None:
    assert waited_ns(7, proc=tmp_path) == 0


def test_the_real_kernel_names_a_child() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        found = children_of(os.getpid())
        child.kill()

    assert child.pid in found
