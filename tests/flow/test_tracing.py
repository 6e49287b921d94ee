"""Tracing in processes of its own: ends of every kind, forks, and programs run by `flashinfer-bench trace`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from flashinfer_bench.data import Definition, Profile, TraceSet, save_json_file
from flashinfer_bench.data.layout import Layout
from tests.marks import mostly_full

DOUBLE = {
    "name": "double_d4",
    "op_type": "double",
    "axes": {"rows": {"type": "var"}, "d": {"type": "const", "value": 4}},
    "inputs": {
        "x": {"shape": ["rows", "d"], "dtype": "float32"},
        "times": {"shape": None, "dtype": "int32"},
    },
    "outputs": {"y": {"shape": ["rows", "d"], "dtype": "float32"}},
    "reference": "def run(x, times):\n    return x * times\n",
}
PRELUDE = """
import os, signal, sys, time
import torch
import flashinfer_bench as fib
from flashinfer_bench.intercept import CHAIN

def double(rows, times=2):
    return CHAIN.call("double_d4", (torch.ones(rows, 4), times), {}, lambda x, times: x * times)

DUMP = fib.TracingConfig("dump_all")
"""


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    root = tmp_path / "dataset"
    definition = Definition.model_validate(DOUBLE)
    save_json_file(definition, Layout(root).definition_file(definition))
    return root


def environment(dataset: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "FIB_DATASET_PATH": str(dataset), "OMP_NUM_THREADS": "1", **more}


def program(dataset: Path, code: str, **more: str) -> subprocess.Popen[str]:
    """Start a program that has imported torch and knows `double`."""
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + code],
        env=environment(dataset, **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def rows(dataset: Path) -> list[int]:
    """Sizes of the workloads on disk, each with its tensors."""
    loaded = TraceSet.from_path(dataset)
    found = loaded.workloads.get("double_d4", [])
    for trace in found:
        source = trace.workload.inputs["x"]
        if source.type == "safetensors":
            assert (
                loaded.get_workload_blob_tensor(source.path)["x"].shape[0]
                == (trace.workload.axes["rows"])
            )
    return sorted(trace.workload.axes["rows"] for trace in found)


@pytest.mark.full
def test_an_ordinary_end_flushes(dataset: Path) -> None:
    done = program(dataset, "fib.enable_tracing(None, DUMP)\nfor n in (1, 2, 3): double(n)")

    said = done.communicate(timeout=60)

    assert done.returncode == 0, said
    assert rows(dataset) == [1, 2, 3]


@pytest.mark.full  # another end of a program; `make test` plays a signal, a fork and a full disk
def test_an_exception_that_ends_the_program_flushes(dataset: Path) -> None:
    done = program(dataset, "fib.enable_tracing(None, DUMP)\ndouble(1)\nraise ValueError('end')")

    _, stderr = done.communicate(timeout=60)

    assert done.returncode == 1
    assert "ValueError: end" in stderr
    assert rows(dataset) == [1]


@pytest.mark.parametrize("number", mostly_full([signal.SIGTERM, signal.SIGINT], signal.SIGTERM))
def test_a_signal_that_ends_the_program_flushes_and_still_ends_it(
    dataset: Path, number: signal.Signals
) -> None:
    code = """
fib.enable_tracing(None, DUMP)
for n in range(1, 40): double(n)
print("ready", flush=True)
while True: time.sleep(0.01)
"""
    running = program(dataset, code)
    assert running.stdout is not None
    assert running.stdout.readline() == "ready\n"

    running.send_signal(number)
    _, stderr = running.communicate(timeout=60)

    assert running.returncode == -number, stderr
    assert ("KeyboardInterrupt" in stderr) is (number is signal.SIGINT)
    assert rows(dataset) == [*range(1, 40)]


@pytest.mark.full  # another end of a program; `make test` plays a signal, a fork and a full disk
def test_the_programs_own_handler_runs_after_the_flush_and_is_back_after_the_stop(
    dataset: Path,
) -> None:
    code = """
def handler(*_):
    print("own handler", flush=True)
signal.signal(signal.SIGTERM, handler)
with fib.enable_tracing(None, DUMP):
    double(1)
    os.kill(os.getpid(), signal.SIGTERM)
    print(len(open(os.environ["FIB_DATASET_PATH"] + "/workloads/double/double_d4.jsonl").readlines()))
print(signal.getsignal(signal.SIGTERM) is handler)
"""
    done = program(dataset, code)

    stdout, stderr = done.communicate(timeout=60)

    assert stdout.split("\n")[:3] == ["own handler", "1", "True"], stderr


@pytest.mark.full  # another end of a program; `make test` plays a signal, a fork and a full disk
def test_what_was_flushed_survives_a_kill_in_the_middle_of_the_next_flush(dataset: Path) -> None:
    code = """
runtime = fib.enable_tracing(None, DUMP)
n = 0
while True:
    n += 1
    double(n)
    if n % 5 == 0:
        runtime.flush()
        print(n, flush=True)
"""
    running = program(dataset, code)
    assert running.stdout is not None
    flushed = [int(running.stdout.readline()) for _ in range(4)]
    time.sleep(0.05)

    running.kill()
    rest, _ = running.communicate(timeout=60)

    last = max([*flushed, *(int(line) for line in rest.split())])
    assert set(range(1, last + 1)) <= set(rows(dataset))


@pytest.mark.parametrize("kind", mostly_full(["os.fork", "multiprocessing"], "os.fork"))
def test_a_forked_child_flushes_its_own_calls(dataset: Path, kind: str) -> None:
    code = f"""
import multiprocessing
runtime = fib.enable_tracing(None, DUMP)
double(1)
if {kind == "os.fork"}:
    child = os.fork()
    if not child:
        double(2)
        sys.exit(0)
    os.waitpid(child, 0)
else:
    child = multiprocessing.get_context("fork").Process(target=double, args=(2,))
    child.start()
    child.join()
double(3)
"""
    done = program(dataset, code)

    said = done.communicate(timeout=60)

    assert done.returncode == 0, said
    assert rows(dataset) == [1, 2, 3]


RUNTIMES = """
from flashinfer_bench.data import TraceSet
from flashinfer_bench.tracing import TracingRuntime
a, b, c = (TracingRuntime(TraceSet.from_path(), DUMP, adapters=()) for _ in "abc")

def forked():
    child = os.fork()
    if not child:
        double(2)
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


ORDERS = (
    "a.start(); b.start(); a.start(); forked()",
    "a.start(); a.start(); forked()",
    "a.start(); b.start(); a.start(); b.start(); forked(); forked(); b.stop(); a.stop(); forked()",
    "a.start(); b.start(); a.start(); a.stop(); forked(); b.stop(); forked()",
    "a.start(); b.start(); a.start(); a.stop(); b.stop(); a.stop(); forked(); a.start(); forked()",
    "a.start(); forked(); b.start(); forked(); a.start(); forked(); a.stop(); forked()",
)


@pytest.mark.parametrize("steps", mostly_full(ORDERS, ORDERS[4]))
def test_a_program_forks_whatever_was_started_in_which_order(dataset: Path, steps: str) -> None:
    done = program(dataset, f"{RUNTIMES}{steps}\ndouble(1)\n")

    try:
        said = done.communicate(timeout=60)
    finally:
        done.kill()

    assert done.returncode == 0, said
    assert rows(dataset) == [1, 2]


@pytest.mark.full  # another end of a program; `make test` plays a signal, a fork and a full disk
def test_a_program_forks_while_another_thread_starts_and_stops(dataset: Path) -> None:
    code = f"""{RUNTIMES}
import threading
a.start()
is_over = threading.Event()

def restart():
    while not is_over.is_set():
        b.start()
        b.stop()

thread = threading.Thread(target=restart, daemon=True)
thread.start()
for _ in range(30):
    child = os.fork()
    if not child:
        c.start()
        c.stop()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
is_over.set()
thread.join()
"""
    done = program(dataset, code)

    try:
        said = done.communicate(timeout=60)
    finally:
        done.kill()

    assert done.returncode == 0, said


@pytest.mark.parametrize(
    ("value", "recorded"), mostly_full([("1", [4]), ("true", []), ("0", [])], ("1", [4]), ("0", []))
)
def test_the_environment_switches_tracing_on(
    dataset: Path, value: str, recorded: list[int]
) -> None:
    done = program(dataset, "double(4)", FIB_ENABLE_TRACING=value)

    said = done.communicate(timeout=60)

    assert done.returncode == 0, said
    assert rows(dataset) == recorded


def test_a_full_disk_ends_no_program(dataset: Path) -> None:
    (dataset / "workloads").write_text("no folder")
    code = "fib.enable_tracing(None, DUMP)\nprint(float(double(1).sum()))\nfib.disable_tracing()\nprint('on')"
    done = program(dataset, code)

    stdout, stderr = done.communicate(timeout=60)

    assert (done.returncode, stdout) == (0, "8.0\non\n")
    assert "traced workloads were lost" in stderr


# `flashinfer-bench trace`

KERNELS = """
def double(x, times):
    return x * times
"""
SCRIPT = """
import sys
import torch
import kernels

for rows in map(int, sys.argv[1:]):
    print(rows, float(kernels.double(torch.ones(rows, 4), 3).sum()))
sys.exit(7 if len(sys.argv) > 3 else 0)
"""
ADAPTERS = """
from flashinfer_bench.intercept import Call, register_adapter
register_adapter("kernels:double", lambda x, times: Call((x, times), frozenset({"double"})))
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A program that knows nothing of us, beside the functions it calls."""
    (tmp_path / "kernels.py").write_text(KERNELS)
    (tmp_path / "adapters.py").write_text(ADAPTERS)
    path = tmp_path / "multiply.py"
    path.write_text(SCRIPT)
    return path


def trace(dataset: Path, *arguments: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    command: Sequence[str] = [
        sys.executable,
        "-m",
        "flashinfer_bench",
        "trace",
        *map(str, arguments),
    ]
    return subprocess.run(
        command,
        env=environment(dataset, **more),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_program_is_traced_as_it_is(dataset: Path, script: Path) -> None:
    adapters = script.with_name("adapters.py")

    done = trace(
        dataset, "--adapters", adapters, "--dump", "x", "--", sys.executable, script, "2", "2", "5"
    )

    assert done.returncode == 7, done.stderr  # the program's own
    assert done.stdout == "2 24.0\n2 24.0\n5 60.0\n"
    assert "2 workloads written" in done.stderr
    assert rows(dataset) == [2, 5]
    profile = Profile.load(dataset / "profiles" / "PyTorch" / "multiply.json")
    assert [(use.kernel.axes, use.count) for use in profile.kernels] == [
        ({"rows": 2}, 2),
        ({"rows": 5}, 1),
    ]


def test_a_broken_dataset_is_refused_before_the_program_starts(dataset: Path) -> None:
    (dataset / "definitions" / "double" / "broken.json").write_text("{")

    done = trace(dataset, "--", sys.executable, "-c", "print('started')")

    assert (done.returncode, done.stdout) == (3, "")
    assert "broken.json" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.full  # another end of a program; `make test` plays a signal, a fork and a full disk
def test_what_was_traced_as_json_and_the_programs_output_on_stderr(
    dataset: Path, script: Path
) -> None:
    options = ("--json", "--model", "tiny", "--filter", "keep_first_k", "--k", "1")
    adapters = script.with_name("adapters.py")

    done = trace(dataset, *options, "--adapters", adapters, "--", sys.executable, script, "2", "5")

    said: dict[str, Any] = json.loads(done.stdout)["trace"]
    assert done.returncode == 0
    assert "5 60.0" in done.stderr
    assert said["workloads"] == {"double_d4": 1}
    assert [use["count"] for use in said["uses"]] == [1, 1]
    assert said["profile"] == str(dataset.resolve() / "profiles" / "PyTorch" / "tiny.json")


def test_processes_a_program_starts_are_traced_and_added_up(dataset: Path, script: Path) -> None:
    parent = script.with_name("parent.py")
    parent.write_text(
        "import subprocess, sys\n"
        f"for rows in '23': subprocess.run([sys.executable, {str(script)!r}, '9', rows], check=True)\n"
    )
    adapters = script.with_name("adapters.py")

    done = trace(dataset, "--json", "--adapters", adapters, "--", sys.executable, parent)

    said = json.loads(done.stdout)["trace"]
    assert said["processes"] == 2  # the parent has no torch
    counts = {use["axes"]["rows"]: use["count"] for use in said["uses"]}
    assert counts == {9: 2, 2: 1, 3: 1}
    assert rows(dataset) == [2, 3, 9]


def test_another_sitecustomize_still_runs(dataset: Path, script: Path, tmp_path: Path) -> None:
    other = tmp_path / "site"
    other.mkdir()
    (other / "sitecustomize.py").write_text("print('customised')")

    done = trace(dataset, "--", sys.executable, "-c", "print('done')", PYTHONPATH=str(other))

    assert done.stdout.endswith("customised\ndone\n")  # the command itself prints it too
    assert "no Python process of it imported torch" in done.stderr


@pytest.mark.full
def test_calls_without_a_definition_are_named(dataset: Path, script: Path) -> None:
    adapters = script.with_name("adapters.py")
    adapters.write_text(
        ADAPTERS.replace('{"double"})', "{\"double\"}), names=('double_d9',)").replace(
            "Call((x, times)", "Call((x.half(), times)"
        )
    )

    done = trace(dataset, "--adapters", adapters, "--", sys.executable, script, "2")

    assert "the dataset has no definition they fit: double_d9 × 1" in done.stderr
    assert rows(dataset) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--", "no-such-program"], "there is no program 'no-such-program'"),
        (["--", "multiply.py"], "did you mean `python multiply.py`"),
        (["--k", "2", "--", "true"], "--k counts for a --filter"),
        (["--filter", "keep_frist", "--", "true"], "did you mean 'keep_first'"),
        (["--local", "/nowhere", "--", "true"], "--local /nowhere: no such folder"),
        ([], "Missing argument 'PROGRAM...'"),
    ],
)
def test_a_users_mistake_is_one_line_with_the_remedy(
    dataset: Path, arguments: list[str], message: str
) -> None:
    done = trace(dataset, *arguments)

    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.full
def test_an_adapter_file_that_fails_leaves_the_program_running_and_says_so(
    dataset: Path, script: Path
) -> None:
    adapters = script.with_name("adapters.py")
    adapters.write_text("import nothing_of_this_name")

    done = trace(dataset, "--adapters", adapters, "--", sys.executable, script, "2")

    assert done.stdout == "2 24.0\n"
    assert done.returncode == 2
    assert "ModuleNotFoundError: No module named 'nothing_of_this_name'" in done.stderr


def test_ending_the_command_ends_the_program_and_keeps_what_it_traced(
    dataset: Path, script: Path
) -> None:
    script.write_text(
        "import sys, time, torch, kernels\n"
        "kernels.double(torch.ones(6, 4), 3)\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)\n"
    )
    command = [sys.executable, "-m", "flashinfer_bench", "trace", "--adapters"]
    running = subprocess.Popen(
        [*command, str(script.with_name("adapters.py")), "--", sys.executable, str(script)],
        env=environment(dataset),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "ready\n"

    running.terminate()
    _, stderr = running.communicate(timeout=60)

    assert running.returncode == 128 + signal.SIGTERM
    assert "1 workload written" in stderr
    assert rows(dataset) == [6]
