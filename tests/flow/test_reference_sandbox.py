"""References that try to get out: whoever wrote a dataset gets no more than whoever wrote a solution."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from flashinfer_bench.bench import Benchmark
from flashinfer_bench.bench.outcomes import DatasetFault, Outcome, Passed
from flashinfer_bench.bench.tools.task_linter import Task, TaskLinted, Unsound, look_at
from flashinfer_bench.data import Definition, Trace, TraceSet, Workload
from flashinfer_bench.errors import DeviceError
from tests import warm
from tests.flow.kernels import HONEST, INCREMENT, quick, solution, write_dataset
from tests.flow.test_sandbox import TRIES, change_server, needs_all
from tests.marks import mostly_full

TRIED = {
    "a file in the home folder": "open({secret!r}).read()",
    "another file of the dataset": "open({definition!r}).read()",
    "the dataset's folder": "os.listdir({root!r})",
    "the build cache": "os.listdir({cache!r})",
    "a forged ceiling": "open({ceiling!r}, 'w').write('fast')",
    "a file in /tmp": "open('/tmp/{mark}', 'w')",
    "a file in the dataset": "open({root!r} + '/{mark}', 'w')",
    "a server on this machine": "socket.create_connection(('127.0.0.1', {port}), 2)",
    "a signal to the parent": "os.kill({parent}, signal.SIGURG)",
    "a signal to the fork server": "os.kill(os.getppid(), 0)",
    "the parent by ptrace": "checked(libc.ptrace(16, {parent}, 0, 0))",
    "a token of the environment": "os.environ['SECRET_TOKEN']",
    "the parent's environment": "open('/proc/{parent}/environ').read()",
    "the parent's command line": "open('/proc/{parent}/cmdline').read()",
    "which processes there are": "os.listdir('/proc')",
}
FILE_INPUT = {"type": "safetensors", "path": "blobs/x.safetensors", "tensor_key": "x"}


def defined(reference: str) -> Definition:
    return INCREMENT.model_copy(update={"reference": reference})


def stored(root: Path, definition: Definition, inputs: object) -> TraceSet:
    """A dataset in a folder, with another reference or other inputs."""
    write_dataset(root, solution(HONEST))
    workload = Workload(axes={"n": 1000}, inputs={"x": inputs})
    known = TraceSet.from_path(root)
    known.definitions["increment"] = definition
    known.workloads["increment"] = [Trace(definition="increment", workload=workload)]
    return known


def run_once(dataset: TraceSet, **settings: object) -> Outcome:
    with Benchmark(dataset, quick(**settings), device="cpu") as benchmark:
        (step,) = benchmark.run(benchmark.plan(), dump_traces=False)
    return step.outcome


@needs_all
@pytest.mark.parametrize("how", ["run", "validate"])
def test_a_reference_reaches_nothing_outside(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it tried comes back in the message of the error it raises in the end."""
    monkeypatch.setenv("SECRET_TOKEN", "secret")
    cache = tmp_path / "cache"
    monkeypatch.setenv("FIB_CACHE_PATH", str(cache))
    (cache / "ceilings").mkdir(parents=True)
    root = tmp_path / "dataset"
    secret = Path.home() / f".flashinfer-bench-test-{os.getpid()}"
    mark = f"left_by_a_reference_{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as server:
        places: dict[str, object] = {
            "secret": str(secret),
            "definition": str(root / "definitions/elementwise/increment.json"),
            "root": str(root),
            "cache": str(cache),
            "ceiling": str(cache / "ceilings" / "forged.json"),
            "mark": mark,
            "port": server.getsockname()[1],
            "parent": os.getpid(),
        }
        tries = {name: code.format(**places) for name, code in TRIED.items()}
        source = TRIES.format(tries=json.dumps(tries))
        source = source.replace("return x + 1", "raise ValueError(json.dumps(found))")
        source = source.replace('print("tried", json.dumps([name, ', "found[name] = ((")
        source = source.replace("tries.pop(name))]), flush=True)", "tries.pop(name))))")
        source = source.replace("def run(x):", "def run(x):\n    found = {}")
        dataset = stored(root, defined(source), {"type": "random"})
        secret.write_text("secret")
        try:
            said = said_by(how, dataset)
        finally:
            secret.unlink()

    text = said[said.index("{", said.index("ValueError")) :]
    found = json.JSONDecoder().raw_decode(text)[0]
    assert found.keys() == TRIED.keys()
    assert [name for name, what in found.items() if not what.startswith("refused ")] == []
    assert not Path("/tmp", mark).exists()  # where it tried to write
    assert not (root / mark).exists()


def said_by(how: str, dataset: TraceSet) -> str:
    if how == "run":
        found = run_once(dataset, profile_baseline=False, audit=False)
        assert isinstance(found, DatasetFault)
        return found.explanation
    task = Task(dataset.definitions["increment"], dataset.workloads["increment"][0].workload)
    ((_, seen),) = look_at([task], dataset.roots, quick(), device="cpu")
    assert isinstance(seen, Unsound)
    return seen.explanation


def save_blob(root: Path, content: torch.Tensor) -> None:
    (root / "blobs").mkdir(parents=True)
    save_file({"x": content, "other": torch.ones(7)}, root / "blobs" / "x.safetensors")


@needs_all
def test_inputs_from_files_reach_the_reference_and_the_solution(tmp_path: Path) -> None:
    content = torch.arange(1000, dtype=torch.float32)
    save_blob(tmp_path, content)
    reference = "def run(x):\n    assert float(x.sum()) == 499500.0\n    return x + 1\n"
    dataset = stored(tmp_path, defined(reference), FILE_INPUT)

    outcome = run_once(dataset)
    task = Task(dataset.definitions["increment"], dataset.workloads["increment"][0].workload)
    ((_, seen),) = look_at([task], dataset.roots, quick(), device="cpu")

    assert isinstance(outcome, Passed), outcome
    assert isinstance(seen, TaskLinted)


@pytest.mark.full
def test_a_file_that_is_not_as_declared_is_the_datasets_fault(tmp_path: Path) -> None:
    save_blob(tmp_path, torch.ones(3))
    dataset = stored(tmp_path, INCREMENT, FILE_INPUT)

    outcome = run_once(dataset)
    task = Task(INCREMENT, dataset.workloads["increment"][0].workload)
    ((_, seen),) = look_at([task], dataset.roots, quick(), device="cpu")

    said = "tensor 'x' is float32 (3,); input 'x' must be float32 (1000,)"
    assert isinstance(outcome, DatasetFault)
    assert said in outcome.explanation
    assert isinstance(seen, Unsound)
    assert said in seen.explanation


ENDS = {
    "it exits": "import os\ndef run(x):\n    os._exit(3)\n",
    "it closes the judge's channel": "import os, time\ndef run(x):\n    os.close(3)\n    time.sleep(60)\n",
    "it writes to the judge's channel": (
        "import os, time\ndef run(x):\n    os.write(3, b'\\x04\\0\\0\\0spam')\n    time.sleep(60)\n"
    ),
}


@pytest.mark.parametrize("how", mostly_full(ENDS, "it exits"))
def test_a_reference_that_breaks_the_judge_is_the_datasets_fault(how: str, tmp_path: Path) -> None:
    dataset = stored(tmp_path, defined(ENDS[how]), {"type": "random"})

    found = run_once(dataset, profile_baseline=False, audit=False)

    assert isinstance(found, DatasetFault), found


@pytest.mark.full
def test_ceilings_are_measured_before_a_reference_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIB_CACHE_PATH", str(tmp_path / "cache"))
    reference = (
        "import flashinfer_bench.bench.judge.service as judge\n"
        "def forged(device):\n    raise RuntimeError('a forged measurement')\n"
        "judge.measure = forged\n"
        "def run(x):\n    return x + 1\n"
    )
    dataset = stored(tmp_path / "dataset", defined(reference), {"type": "random"})

    outcome = run_once(dataset, profile_baseline=False, audit=False)
    (file,) = (tmp_path / "cache" / "ceilings").iterdir()

    assert isinstance(outcome, Passed), outcome
    assert json.loads(file.read_text())["ceilings"]["memory_bytes_per_s"] > 1e8


@pytest.mark.full
@needs_all
def test_a_swarm_of_the_reference_ends_the_judge_and_is_the_datasets_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_server(monkeypatch, "limits.MOST_PROCESSES = 100")
    reference = (
        "import os, time\ndef run(x):\n    for _ in range(300):\n        if os.fork() == 0:\n"
        "            time.sleep(60)\n            os._exit(0)\n    time.sleep(5)\n    return x + 1\n"
    )
    dataset = stored(tmp_path, defined(reference), {"type": "random"})

    found = run_once(dataset, profile_baseline=False, audit=False)

    assert isinstance(found, DatasetFault), found


@needs_all
def test_where_something_is_missing_a_required_sandbox_runs_no_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_server(monkeypatch, "seccomp.is_known_machine = lambda: False")
    dataset = stored(tmp_path, INCREMENT, {"type": "random"})
    task = Task(INCREMENT, dataset.workloads["increment"][0].workload)

    with pytest.raises(DeviceError, match=r"a sandbox is required.*network: no filter is written"):
        run_once(dataset, sandbox="required")
    with pytest.raises(DeviceError, match=r"a sandbox is required.*network: no filter is written"):
        list(look_at([task], dataset.roots, quick(sandbox="required"), device="cpu"))
    ((_, seen),) = look_at([task], dataset.roots, quick(), device="cpu")

    assert isinstance(seen, TaskLinted)


@pytest.mark.full
def test_the_judge_is_held_more_loosely_where_honest_work_needs_it(tmp_path: Path) -> None:
    dataset = stored(tmp_path, INCREMENT, {"type": "random"})
    with Benchmark(dataset, quick(), device="cpu") as benchmark:
        benchmark.run_solution(solution(HONEST), dump_traces=False)
        workers = sorted(warm.newest_server().children(), key=lambda each: each.create_time())
        limits = [each.rlimit(2) for each in workers]  # private memory
        order = [int(Path(f"/proc/{each.pid}/oom_score_adj").read_text()) for each in workers]

    assert limits[0] == (-1, -1)
    assert order == [500, *[1000] * (len(workers) - 1)]
