"""Kernels that misbehave, in the real worker: the right status, a helpful log, nothing left behind."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

from flashinfer_bench.bench import Benchmark
from flashinfer_bench.data import Evaluation, Solution
from tests.flow.kernels import HONEST, INCREMENT, dataset, quick, solution
from tests.marks import mostly_full

MISBEHAVIOURS: dict[str, tuple[str, str, str]] = {
    # name: (source, expected status, words its log must hold)
    "segfaults": (
        "import ctypes\ndef run(x):\n    ctypes.string_at(0)\n",
        "RUNTIME_ERROR",
        "SIGSEGV",
    ),
    "raises": (
        "def run(x):\n    raise ValueError('no kernel today')\n",
        "RUNTIME_ERROR",
        "no kernel today",
    ),
    "raises_with_a_lone_surrogate": (
        "def run(x):\n    raise ValueError('odd \\ud800 text')\n",
        "RUNTIME_ERROR",
        "odd ? text",
    ),
    "raises_system_exit": (
        "import sys\ndef run(x):\n    sys.exit(0)\n",
        "RUNTIME_ERROR",
        "SystemExit",
    ),
    "leaves_by_os_exit": (
        "import os\ndef run(x):\n    os._exit(0)\n",
        "RUNTIME_ERROR",
        "exited with code 0",
    ),
    "aborts": ("import os\ndef run(x):\n    os.abort()\n", "RUNTIME_ERROR", "SIGABRT"),
    "returns_nothing": ("def run(x):\n    pass\n", "RUNTIME_ERROR", "not a tensor"),
    "returns_too_few": ("def run(x):\n    return ()\n", "RUNTIME_ERROR", "0 outputs, 1 declared"),
    "returns_too_many": (
        "def run(x):\n    return x + 1, x\n",
        "RUNTIME_ERROR",
        "2 outputs, 1 declared",
    ),
    "output_has_two_addresses": (
        """
import mmap
import os
import torch
others = []
def run(x):
    descriptor = os.memfd_create("both")
    os.ftruncate(descriptor, 4 * len(x))
    one, other = (mmap.mmap(descriptor, 4 * len(x)) for _ in range(2))
    os.close(descriptor)
    others.append(other)
    return torch.add(x, 1, out=torch.frombuffer(one, dtype=x.dtype))
""",
        "INCORRECT_NUMERICAL",
        "the memory of an output has a second address",
    ),
    "wrong_shape": (
        "def run(x):\n    return (x + 1)[:-1]\n",
        "INCORRECT_SHAPE",
        "has shape (999,), not (1000,)",
    ),
    "wrong_dtype": (
        "def run(x):\n    return (x + 1).double()\n",
        "INCORRECT_DTYPE",
        "is float64, not float32",
    ),
    "returns_nan": (
        "def run(x):\n    y = x + 1\n    y[3] = float('nan')\n    return y\n",
        "INCORRECT_NUMERICAL",
        "at [3]: got nan",
    ),
    "is_wrong": (
        "def run(x):\n    return x + 1.5\n",
        "INCORRECT_NUMERICAL",
        "1000 of 1000 elements differ",
    ),
    "returns_its_input": (
        "def run(x):\n    return x\n",
        "INCORRECT_NUMERICAL",
        "overlapping_output",
    ),
    "returns_its_changed_input": (
        "def run(x):\n    return x.add_(1)\n",
        "INCORRECT_NUMERICAL",
        "overlapping_output",
    ),
    "changes_its_input": (
        "def run(x):\n    y = x + 1\n    x.zero_()\n    return y\n",
        "INCORRECT_NUMERICAL",
        "changed_inputs",
    ),
    "returns_a_subclass": (
        """
        import torch
        class Lazy(torch.Tensor):
            pass
        def run(x):
            return (x + 1).as_subclass(Lazy)
        """,
        "INCORRECT_NUMERICAL",
        "tensor_subclass",
    ),
    "closes_every_descriptor": (
        "import os\ndef run(x):\n    os.closerange(3, 4096)\n    return x + 1\n",
        "RUNTIME_ERROR",
        "did the solution close it?",
    ),
    "writes_garbage_on_every_descriptor": (
        """
        import os
        def run(x):
            for name in os.listdir("/proc/self/fd"):
                try:
                    os.write(int(name), b"garbage" * 1000)
                except OSError:
                    pass
            return x + 1
        """,
        "RUNTIME_ERROR",
        "descriptor that is not its own",
    ),
    "works_once_then_repeats_itself": (
        """
        first = []
        def run(x):
            if not first:
                first.append(x + 1)
            return first[0].clone()
        """,
        "INCORRECT_NUMERICAL",
        "failed_audit",
    ),
    "does_not_parse": ("def run(x:\n", "COMPILE_ERROR", "SyntaxError"),
    "crashes_when_imported": (
        "import os\nos.kill(os.getpid(), 11)\ndef run(x):\n    return x\n",
        "COMPILE_ERROR",
        "SIGSEGV",
    ),
    "takes_other_arguments": (
        "def run(x, y, z):\n    return x\n",
        "COMPILE_ERROR",
        "argument",
    ),
}


@pytest.fixture(scope="module")
def benchmark() -> Benchmark:
    with Benchmark(dataset(), quick(), device="cpu") as running:
        yield running


def evaluate(benchmark: Benchmark, candidate: Solution) -> Evaluation:
    (trace,) = benchmark.run_solution(candidate, dump_traces=False)
    return trace.evaluation


@pytest.mark.parametrize("name", MISBEHAVIOURS)
def test_a_misbehaving_kernel_gets_its_status_and_the_next_one_is_unaffected(
    benchmark: Benchmark, name: str
) -> None:
    source, status, words = MISBEHAVIOURS[name]

    found = evaluate(benchmark, solution(source, name=name))
    after = evaluate(benchmark, solution(HONEST, name=f"after_{name}"))

    assert found.status == status, found.log
    assert words in found.log
    assert after.status == "PASSED", after.log


def test_a_crash_is_noticed_at_once(benchmark: Benchmark) -> None:
    source, _, _ = MISBEHAVIOURS["segfaults"]
    evaluate(benchmark, solution(HONEST))  # warm
    started_s = time.monotonic()

    evaluate(benchmark, solution(source))

    assert (
        time.monotonic() - started_s < 5.0
    )  # the time-out is 20 s; ending a process takes a second here


def test_a_hang_ends_at_its_deadline_and_keeps_its_log() -> None:
    hanging = solution("print('before', flush=True)\ndef run(x):\n    while True: pass\n")
    with Benchmark(dataset(), quick(timeout_seconds=1), device="cpu") as benchmark:
        found = evaluate(benchmark, hanging)
        after = evaluate(benchmark, solution(HONEST, name="after"))

    assert found.status == "TIMEOUT"
    assert "did not return within 1 s (--timeout)" in found.log
    assert "before" in found.log
    assert after.status == "PASSED"


def test_a_build_that_hangs_ends_at_its_own_deadline() -> None:
    config = quick(build_timeout_seconds=1)
    with Benchmark(dataset(), config, device="cpu") as benchmark:
        found = evaluate(benchmark, solution("while True: pass\ndef run(x): return x\n"))

    assert found.status == "COMPILE_ERROR"
    assert "longer than 1 s" in found.log


def test_a_hundred_megabytes_of_output_are_captured_and_cut(benchmark: Benchmark) -> None:
    source = """
    import os
    def run(x):
        for _ in range(100):
            os.write(1, b"spam " * 200_000)
        raise RuntimeError("enough")
    """

    found = evaluate(benchmark, solution(source, name="prints"))

    assert found.status == "RUNTIME_ERROR"
    assert "enough" in found.log
    assert "bytes left out" in found.log
    assert len(found.log) < 100_000


@pytest.mark.parametrize("escape", mostly_full(["", "os.setsid()"], "os.setsid()"))
def test_children_do_not_outlive_the_job(escape: str) -> None:
    source = f"""
    import os, time
    calls = []
    def run(x):
        calls.append(1)
        if len(calls) > 5:
            return x + 1
        if os.fork() == 0:
            {escape or "pass"}
            if os.fork() == 0:
                os.write(1, f"left {{os.getpid()}}\\n".encode())
                time.sleep(600)
            os._exit(0)
        os.wait()
        return x + 1
    """

    with Benchmark(dataset(), quick(use_isolated_runner=True), device="cpu") as benchmark:
        found = evaluate(benchmark, solution(source))

    pids = [int(line.split()[1]) for line in found.log.splitlines() if line.startswith("left ")]
    assert pids
    assert not [pid for pid in pids if psutil.pid_exists(pid)]


def test_a_grandchild_that_holds_every_descriptor_does_not_delay_the_report(
    benchmark: Benchmark,
) -> None:
    source = """
    import os, signal, time
    def run(x):
        if os.fork() == 0:
            os.setsid()
            time.sleep(600)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    started_s = time.monotonic()

    found = evaluate(benchmark, solution(source, name="killed"))

    assert found.status == "RUNTIME_ERROR"
    assert "SIGKILL" in found.log
    assert time.monotonic() - started_s < 2.0


def test_nothing_is_left_behind_when_a_benchmark_closes() -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}

    with Benchmark(dataset(), quick(), device="cpu") as benchmark:
        evaluate(benchmark, solution(HONEST))
        during = {child.pid for child in psutil.Process().children(recursive=True)} - before
    time.sleep(0.2)

    assert during
    assert not [pid for pid in during if psutil.pid_exists(pid)]


@pytest.mark.full
def test_a_solution_sees_no_secret_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_TOKEN", "secret")
    source = """
    import os
    def run(x):
        if "MY_API_TOKEN" in os.environ:
            raise RuntimeError("leaked")
        return x + 1
    """
    with Benchmark(dataset(), quick(), device="cpu") as benchmark:
        found = evaluate(benchmark, solution(source))

    assert found.status == "PASSED", found.log


def test_a_torch_module_in_the_working_folder_shadows_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('shadowed')\n")
    monkeypatch.chdir(tmp_path)
    with Benchmark(dataset(), quick(), device="cpu") as benchmark:
        found = evaluate(benchmark, solution(HONEST))

    assert found.status == "PASSED", found.log
    assert Path.cwd() == tmp_path


def test_no_two_calls_of_a_trial_have_the_same_inputs() -> None:
    """One pair of equal calls follows the timing: whether the kernel's bits are repeatable."""
    source = """
    seen = []
    repeats = 0
    def run(x):
        global repeats
        content = bytes(x.numpy().data)
        if content in seen:
            repeats += 1
            if repeats > 1 or content != seen[-1]:
                raise RuntimeError("these inputs were here before")
        seen.append(content)
        return x + 1
    """
    config = quick(iterations=4, num_trials=2, warmup_runs=3)
    with Benchmark(dataset(solution(source)), config, device="cpu") as benchmark:
        (trace,) = benchmark.run_all(dump_traces=False).traces["increment"]

    assert trace.evaluation.status == "PASSED", trace.evaluation.log


SLOW = INCREMENT.model_copy(
    update={"reference": "import time\ndef run(x):\n    time.sleep(0.02)\n    return x + 1\n"}
)
QUICK_IN_WARM_UP = """
    import torch
    calls = [0]
    def run(x):
        calls[0] += 1
        return torch.empty_like(x) if 2 <= calls[0] <= 3 else x + 1
"""


@pytest.mark.full
def test_a_slow_reference_is_not_blamed_for_a_candidate_that_is_quick_in_warm_up() -> None:
    bad, good = solution(QUICK_IN_WARM_UP, name="bad"), solution(HONEST, name="good")
    store = dataset(bad, good, definition=SLOW)

    with Benchmark(store, quick(timeout_seconds=3), device="cpu") as benchmark:
        ended = {
            name: [trace.evaluation.status for trace in benchmark.run_solution(name)]
            for name in ("bad", "good")
        }

    assert ended == {"bad": ["PASSED"], "good": ["PASSED"]}
