"""Runs on a Ray cluster: machines that are simulated, processes that are real."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from flashinfer_bench.data import Trace, TraceSet, Workload, save_jsonl_file
from tests.commands import call
from tests.flow.kernels import HONEST, INCREMENT, solution, write_dataset

SETTINGS = ("--warmup-runs", "1", "--iterations", "4", "--num-trials", "1", "--threads", "1")
NOSY = """
import os, socket

def run(x):
    seen = []
    for folder in ("/tmp/ray", os.environ.get("RAY_TMPDIR", "/tmp/ray"), "/dev/shm"):
        try:
            seen += os.listdir(folder)
        except OSError:
            pass
    try:
        socket.create_connection(("127.0.0.1", {port}), timeout=1)
        seen.append("a connection")
    except OSError:
        pass
    assert not seen, f"seen: {{seen[:3]}}"
    return x + 1
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head with one CPU, which is a machine, too; tests add others."""
    pytest.importorskip("ray", reason="the extra [ray] is not installed")
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "include_dashboard": False}
    started = Cluster(initialize_head=True, head_node_args=head)
    yield started
    started.shutdown()


@contextlib.contextmanager
def running(cluster: Any, root: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A run on the cluster, which tells what happens on stdout."""
    command = [sys.executable, "-m", "flashinfer_bench", "run", "--local", str(root)]
    process = subprocess.Popen(
        [*command, "--pool", "ray", *SETTINGS, "--json", "--progress", "ndjson", *words],
        env=os.environ | {"RAY_ADDRESS": cluster.address},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def events(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    return map(json.loads, process.stdout)


def recorded(root: Path) -> list[tuple[str, str]]:
    traces = TraceSet.from_path(root).traces["increment"]
    return sorted((each.solution, each.workload.uuid) for each in traces)


def write_file_workload(root: Path) -> None:
    """One more workload, whose input lies in a file of the dataset."""
    import numpy as np
    from safetensors.numpy import save_file

    (root / "blobs").mkdir()
    save_file({"x": np.arange(64, dtype=np.float32)}, root / "blobs/x.safetensors")
    stored = {"type": "safetensors", "path": "blobs/x.safetensors", "tensor_key": "x"}
    workload = Workload(axes={"n": 64}, inputs={"x": stored})
    save_jsonl_file(
        [Trace(definition=INCREMENT.name, workload=workload)],
        root / "workloads" / INCREMENT.op_type / "increment.jsonl",
    )


def test_without_the_extra_one_line_names_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    root = write_dataset(tmp_path / "data", solution(HONEST))

    ran = call("run", "--local", root, "--pool", "ray")

    assert (ran.returncode, ran.stdout) == (4, "")
    assert ran.stderr == (
        "error: --pool ray needs ray, which is not installed: pip install 'flashinfer-bench[ray]'\n"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--pool", "slurm"), "no pool 'slurm'; use 'local', 'ray' or 'ray://HOST:PORT'"),
        (("--pool", "ray", "--device", "cuda:1"), "--device is 'auto', 'cpu' or 'cuda', and not"),
    ],
)
def test_what_no_cluster_can_do_is_a_mistake(
    words: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    root = write_dataset(tmp_path / "data", solution(HONEST))

    ran = call("run", "--local", root, *words)

    assert ran.returncode == 2
    assert said in ran.stderr


def test_a_machine_gets_the_files_it_lacks_and_its_candidates_see_nothing_of_ray(
    cluster: Any, tmp_path: Path
) -> None:
    port = int(cluster.address.rpartition(":")[2])
    root = write_dataset(tmp_path / "data", solution(NOSY.format(port=port)))
    write_file_workload(root)

    with running(cluster, root) as process:
        *_, ended = events(process)
        code = process.wait()

    (job,) = ended["run"]["jobs"]
    assert (code, job["status"], job["log"]) == (0, "PASSED", "")
    assert job["axes"] == {"n": 64}
    assert [each["device"] for each in ended["run"]["devices"]] == [job["device"]]


@pytest.mark.full
@pytest.mark.parametrize("way", ["--fail-fast", "Ctrl-C"])
def test_a_stopped_run_leaves_nothing_behind_within_seconds(
    cluster: Any, tmp_path: Path, way: str
) -> None:
    hangs = "import time\ndef run(x):\n    time.sleep(1000)\n"
    source = "def run(x):\n    return x\n" if way == "--fail-fast" else hangs
    root = write_dataset(tmp_path / "data", solution(source), sizes=(10, 20, 30))

    words = ("--timeout", "900") if way == "Ctrl-C" else (way,)
    with running(cluster, root, *words) as process:
        for event in events(process):
            if event["event"] == "started" and way == "Ctrl-C":
                time.sleep(5)
                process.send_signal(signal.SIGINT)
                began_s = time.monotonic()
            if event["event"] == "finished":
                began_s = time.monotonic()
        code = process.wait()

    assert time.monotonic() - began_s < 20
    assert code == (1 if way == "--fail-fast" else 130)
    deadline_s = time.monotonic() + 10
    while workers() and time.monotonic() < deadline_s:
        time.sleep(0.2)
    assert not workers()


def workers() -> list[str]:
    """Processes of ours that a machine of the cluster still has: fork servers and what they forked."""
    lines = (" ".join(each.info["cmdline"] or ()) for each in psutil.process_iter(["cmdline"]))
    return [line for line in lines if "ray::Node" in line]


@pytest.mark.full
def test_a_machine_that_dies_costs_its_job_in_flight_which_another_does(
    cluster: Any, tmp_path: Path
) -> None:
    candidates = [solution(HONEST, name=f"candidate_{index}") for index in range(4)]
    root = write_dataset(tmp_path / "data", *candidates, sizes=(10, 20, 30))
    machines = [cluster.add_node(num_cpus=1) for _ in range(2)]

    with running(cluster, root) as process:
        for event in events(process):
            if event["event"] == "finished" and machines:
                cluster.remove_node(machines.pop(), allow_graceful=False)
                machines.clear()
        code = process.wait()

    assert (code, event["exit_code"], event["counts"]["passed"]) == (0, 0, 12)
    assert len(set(recorded(root))) == len(recorded(root)) == 12
    lost = [each for each in event["run"]["devices"] if each["lost"] is not None]
    assert [each["lost"].partition(" (")[0] for each in lost] == ["its machine left the cluster"]
    assert sum(each["jobs"] for each in event["run"]["devices"]) == 12

    with running(cluster, root, "--resume") as process:
        *_, ended = events(process)
    assert (ended["counts"]["planned"], ended["counts"]["done_before"]) == (0, 12)
