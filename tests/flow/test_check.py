"""`check`, as somebody with a broken kernel meets it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.commands import call
from tests.flow.kernels import write_dataset

LOOP = """\
def spin(x):
    while True:
        x = x + 0


def run(x):
    print("before the loop")
    return spin(x)
"""
RAISES = """\
def run(x):
    if x.shape[0] == 100:
        raise ValueError("not a hundred")
    return x + 1.4
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("dataset"), sizes=(100, 200, 300))


def check(root: Path, kernel: Path, *options: str) -> subprocess.CompletedProcess[str]:
    named = ("--definition", "increment", "--local", root)
    return call("check", kernel, "--device", "cpu", *named, *options)


def written(path: Path, source: str) -> Path:
    path.write_text(source)
    return path


def test_an_endless_loop_shows_where_and_ends_the_check(root: Path, tmp_path: Path) -> None:
    kernel = written(tmp_path / "kernel.py", LOOP)

    done = check(root, kernel, "--timeout", "1s")

    assert done.returncode == 1
    assert (
        "TIMEOUT increment kernel [n=100]: the kernel did not return within 1 s (--timeout)\n"
        in done.stderr
    )
    assert f'  File "{kernel}", line 8, in run\n      return spin(x)\n' in done.stdout
    assert f'  File "{kernel}", line 3, in spin\n      x = x + 0\n' in done.stdout
    assert "  before the loop\n" in done.stdout
    assert done.stdout.endswith(
        "0 of 3 workloads passed; 2 not tried after a time-out (--keep-going tries all)\n"
    )


def test_settings_come_from_options_then_a_file_then_the_quick_ones(
    root: Path, tmp_path: Path
) -> None:
    kernel = written(tmp_path / "kernel.py", RAISES)
    config = written(tmp_path / "config.yaml", "atol: 1.0\niterations: 7\nwarmup_runs: 2\n")

    done = check(root, kernel, "--config", str(config), "--warmup-runs", "1", "--json")
    told: dict[str, Any] = json.loads(done.stdout)["check"]

    assert (told["num_trials"], told["iterations"], told["warmup_runs"]) == (1, 7, 1)
    assert [job["status"] for job in told["jobs"]] == ["RUNTIME_ERROR", "PASSED", "PASSED"]
    assert f'File "{kernel}", line 3, in run' in told["jobs"][0]["log"]
    assert "RUNTIME_ERROR increment kernel [n=100]: ValueError: not a hundred\n" in done.stderr
    assert "PASSED increment kernel [n=300]: " in done.stderr
    assert told["jobs"][0]["log"] in Path(told["log_file"]).read_text()


COUNTS_THREADS = """\
import torch


def run(x):
    raise ValueError(f"{torch.get_num_threads()} threads")
"""


def test_fail_fast_tries_no_more_and_threads_reach_the_kernel(root: Path, tmp_path: Path) -> None:
    kernel = written(tmp_path / "kernel.py", COUNTS_THREADS)

    done = check(root, kernel, "--fail-fast", "--threads", "3")

    assert done.returncode == 1
    assert "ValueError: 3 threads\n" in done.stderr
    assert done.stdout.endswith("0 of 3 workloads passed; 2 not tried (--fail-fast)\n")


OFF = """\
def run(x):
    return x + 1.4 if x.shape[0] == 100 else x * 99
"""


def told(root: Path, kernel: Path, *options: str) -> list[dict[str, Any]]:
    """Check a kernel; give what its document says of each workload."""
    jobs: list[dict[str, Any]] = json.loads(check(root, kernel, *options, "--json").stdout)[
        "check"
    ]["jobs"]
    return jobs


def test_atol_and_seed_reach_the_judge(root: Path, tmp_path: Path) -> None:
    kernel = written(tmp_path / "kernel.py", OFF)
    options = ("--atol", "1", "--seed", "3", "--iterations", "2", "--fail-fast")

    (near, far), (_, again) = (told(root, kernel, *options) for _ in range(2))

    assert [near["status"], far["status"]] == ["PASSED", "INCORRECT_NUMERICAL"]
    assert far["max_absolute_error"] == again["max_absolute_error"] > 1


def test_a_slow_build_is_ended_by_its_option(root: Path, tmp_path: Path) -> None:
    kernel = written(tmp_path / "kernel.py", f"import time\n\ntime.sleep(60)\n{RAISES}")

    (job,) = told(root, kernel, "--build-timeout", "1s", "--fail-fast")

    assert job["status"] == "COMPILE_ERROR"
    assert "1 s (--build-timeout)" in job["log"]


def test_the_line_of_a_failed_build_names_the_users_file(root: Path, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    written(tmp_path / "code" / "k.cpp", "void run_impl(int x) { y = x; }\n")
    options = ("--definition", "increment", "--local", root, "--entry-point", "run")

    done = call("check", "code/k.cpp", "--device", "cpu", *options, folder=tmp_path)

    lines = [line for line in done.stderr.splitlines() if line.startswith("COMPILE_ERROR")]
    assert "does not compile: code/k.cpp:1:" in lines[0]
    assert "does not compile: code/k.cpp:1:" in done.stdout


def test_keep_going_tries_every_workload(root: Path, tmp_path: Path) -> None:
    kernel = written(tmp_path / "kernel.py", LOOP)

    jobs = told(root, kernel, "--timeout", "0.5s", "--keep-going")

    assert [job["status"] for job in jobs] == ["TIMEOUT"] * 3


REFERENCE = """\
import torch


def scale(x, w):
    return x * w


def get_inputs():
    return [torch.randn(8, 16), torch.randn(16)]
"""
MODEL = """\
import torch


class Model(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.n = n

    def forward(self, x):
        return torch.relu(x) * self.n


def get_inputs():
    return [torch.randn(8, 16)]


def get_init_inputs():
    return [3]
"""


def check_files(*arguments: str) -> subprocess.CompletedProcess[str]:
    return call("check", *arguments, "--device", "cpu")


def test_two_files_need_no_dataset(tmp_path: Path) -> None:
    reference = written(tmp_path / "reference.py", REFERENCE)
    helper = "def times(x, w):\n    return w * x\n\n\n"
    source = f"{helper}def scale(x, w):\n    return times(x, w)\n"
    kernel = written(tmp_path / "kernel.py", source)

    done = check_files(str(reference), str(kernel))

    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "1 of 1 workload passed")


@pytest.mark.full
@pytest.mark.parametrize(("factor", "exit_code"), [("self.n", 0), ("2", 1)])
def test_two_files_may_be_a_kernelbench_problem_and_its_candidate(
    tmp_path: Path, factor: str, exit_code: int
) -> None:
    problem = written(tmp_path / "problem.py", MODEL)
    changed = MODEL.replace("class Model", "class ModelNew").replace("* self.n", f"* {factor}")
    candidate = written(tmp_path / "candidate.py", changed)

    done = check_files(str(problem), str(candidate), "--num-trials", "1")

    assert done.returncode == exit_code, done.stderr
    assert f"{1 - exit_code} of 1 candidate correct" in done.stdout


SPINS = REFERENCE.replace("    return x * w\n", "    while True:\n        x = x + 0\n")
MODEL_SPINS = MODEL.replace(
    "return torch.relu(x)", "while True: x = x + 0\n        return torch.relu(x)"
)
SPINS_LATER = SPINS.replace("def scale", "calls = []\n\n\ndef scale").replace(
    "    while True:\n",
    "    calls.append(1)\n    if len(calls) == 1:\n        return x * w\n    while True:\n",
)


@pytest.mark.parametrize(
    ("source", "exit_code", "where"),
    [
        (SPINS, 2, r'\.py", line \d, in scale\n    \S'),
        pytest.param(SPINS_LATER, 3, r"line 1\d, in scale\n", marks=pytest.mark.full),
        pytest.param(MODEL_SPINS, 2, r"line 10, in forward\n", marks=pytest.mark.full),
    ],
    ids=["when it is read", "when it judges", "a KernelBench problem"],
)
def test_a_reference_that_hangs_is_named_and_shows_where(
    tmp_path: Path, source: str, exit_code: int, where: str
) -> None:
    reference = written(tmp_path / "reference.py", source)
    kernel = written(tmp_path / "kernel.py", source.replace("Model(", "ModelNew("))

    done = check_files(str(reference), str(kernel), "--timeout", "2s")

    assert done.returncode == exit_code
    said = done.stdout + done.stderr
    assert re.search(r"the reference\b.* did not return within 2 s \(--timeout\)", said)
    assert "it was here (the last call is the last line):" in said
    assert re.search(where, said)


@pytest.mark.parametrize(
    ("does", "message"),
    [
        ("raise SystemExit(3)", "it ends the process, exit(3); a reference returns its outputs"),
        pytest.param(
            "import os; os.abort()",
            "while 'scale' ran, SIGABRT ended its process",
            marks=pytest.mark.full,
        ),
    ],
)
def test_a_reference_that_ends_its_process_is_the_users_fault(
    tmp_path: Path, does: str, message: str
) -> None:
    reference = written(tmp_path / "reference.py", REFERENCE.replace("return x * w", does))

    done = check_files(str(reference), str(reference))

    assert done.returncode == 2
    assert f"error: {reference}: {message}\n" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.py", "b.py", "c.py"], "give a kernel, or a reference and a kernel, not 3 files"),
        (["a.py", "b.py"], "a.py: no such file"),
        (
            ["a.py", "b.py", "--definition", "x"],
            "two files need no dataset; leave out --definition",
        ),
    ],
)
def test_files_that_cannot_be_are_one_message(arguments: list[str], message: str) -> None:
    done = check_files(*arguments)

    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert message in done.stderr
