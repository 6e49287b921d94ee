"""Verdicts on a machine that another process keeps busy: right or undecided, never a confident wrong one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.flow.kernels import HONEST, solution, write_dataset
from tests.marks import mostly_full

TWICE = "def run(x):\n    y = x + 1\n    y = x + 1\n    return y\n"
BURNER = """
import random, time
while True:
    until = time.monotonic() + random.expovariate({rate})
    while time.monotonic() < until:
        pass
    time.sleep(random.expovariate({rate}))
"""
INTERLEAVED = """
import torch

def run(x):
    return torch.stack((x + 1, x), dim=-1)[..., 0]
"""
SETTINGS = ("--definition", "increment", "--device", "cpu", "--threads", "1", "--warmup-runs", "2")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = [solution(HONEST, name="once"), solution(TWICE, name="twice")]
    return write_dataset(tmp_path_factory.mktemp("loaded") / "dataset", *made, sizes=(300_000,))


@pytest.fixture(params=mostly_full([0.005, 0.1], 0.005), ids=["short bursts", "long bursts"])
def load(request: pytest.FixtureRequest) -> Iterator[None]:
    """Keep every processor busy half of the time, in bursts of this mean length in seconds."""
    command = [sys.executable, "-c", BURNER.format(rate=1 / request.param)]
    with ExitStack() as burning:
        for _ in os.sched_getaffinity(0):
            burner = burning.enter_context(subprocess.Popen(command))
            burning.callback(burner.kill)
        yield


def verdict(root: Path, old: str, new: str) -> str:
    command = [sys.executable, "-m", "flashinfer_bench", "ab", old, new, "--local", str(root)]
    done = subprocess.run(
        [*command, *SETTINGS, "--rounds", "8", "--json"],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    (workload,) = json.loads(done.stdout)["ab"]["workloads"]
    return str(workload["verdict"])


@pytest.mark.usefixtures("load")
def test_equal_kernels_are_never_different_however_busy_the_machine(root: Path) -> None:
    assert verdict(root, "once", "once") in {"SAME", "UNDECIDED"}


@pytest.mark.full
@pytest.mark.usefixtures("load")
def test_twice_the_work_is_never_faster_nor_the_same(root: Path) -> None:
    assert verdict(root, "once", "twice") in {"SLOWER", "UNDECIDED"}
    assert verdict(root, "twice", "once") in {"FASTER", "UNDECIDED"}


@pytest.mark.full  # a busy machine again
@pytest.mark.usefixtures("load")
def test_looking_closely_at_outputs_is_no_work_of_the_kernel_however_busy_the_machine(
    tmp_path: Path,
) -> None:
    made = solution(INTERLEAVED, name="interleaved")
    dataset = write_dataset(tmp_path / "dataset", made, sizes=(64, 65, 66, 67))
    command = [sys.executable, "-m", "flashinfer_bench", "run", "--local", str(dataset), "--json"]

    done = subprocess.run(
        [*command, "--device", "cpu", "--threads", "1", "--iterations", "20"],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )

    jobs = json.loads(done.stdout)["run"]["jobs"]
    assert [each["status"] for each in jobs] == ["PASSED"] * 4
    assert not any("hidden_work" in (each.get("log") or "") for each in jobs)


@pytest.mark.full
def test_the_short_blocks_of_ab_time_kernels_and_not_page_faults(root: Path) -> None:
    command = [sys.executable, "-m", "flashinfer_bench"]
    common = ["--local", str(root), "--device", "cpu", "--threads", "1", "--json"]

    run, ab = (
        json.loads(
            subprocess.run([*command, *each, *common], capture_output=True, check=True).stdout
        )
        for each in (["run", "--solutions", "once"], ["ab", "once", "once", "--rounds", "6"])
    )

    (job,), (workload,) = run["run"]["jobs"], ab["ab"]["workloads"]
    assert workload["old_latency_ms"] < 3 * job["latency_ms"]
