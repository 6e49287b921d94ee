"""`check`, as somebody with a broken kernel meets it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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
    command = [sys.executable, "-m", "flashinfer_bench", "check", str(kernel), "--device", "cpu"]
    command += ["--definition", "increment", "--local", str(root), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


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


def test_fail_fast_tries_no_more(root: Path, tmp_path: Path) -> None:
    kernel = written(tmp_path / "kernel.py", RAISES)

    done = check(root, kernel, "--fail-fast", "--seed", "3", "--atol", "1", "--threads", "1")

    assert done.returncode == 1
    assert done.stdout.endswith("0 of 3 workloads passed; 2 not tried (--fail-fast)\n")
