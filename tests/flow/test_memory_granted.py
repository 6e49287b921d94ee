"""What does not fit into the memory that is granted is skipped; who only says so is not."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.flow.kernels import solution, write_dataset

GRANTED = 3 << 30
GROWS = """
import torch
def run(x):
    parts = [torch.ones(1 << 26) for _ in range(40)]  # 256 MiB each
    return x + parts[0][0]
"""
GROWS_AND_DIES = """
import os, signal, torch
def run(x):
    parts = [torch.ones(1 << 26) for _ in range(8)]
    os.kill(os.getpid(), signal.SIGKILL)
"""
SAYS_SO = """
def run(x):
    raise MemoryError("can't allocate memory: you tried to allocate 99999999999 bytes")
"""
RESERVES_AND_SAYS_SO = """
import mmap
def run(x):
    mmap.mmap(-1, 200 << 30, prot=0)
    raise MemoryError
"""
DIES = "import os, signal\ndef run(x):\n    os.kill(os.getpid(), signal.SIGKILL)\n"
ASKS_AT_ONCE = "import torch\ndef run(x):\n    return torch.empty(1 << 43)[: x.numel()]\n"
GROWS_AND_FAILS = """
import torch
def run(x):
    parts = [torch.ones(1 << 26) for _ in range(8)]
    return parts[9]
"""
SOURCES = {
    "grows": GROWS,
    "grows_and_dies": GROWS_AND_DIES,
    "says_so": SAYS_SO,
    "reserves_and_says_so": RESERVES_AND_SAYS_SO,
    "dies": DIES,
    "asks_at_once": ASKS_AT_ONCE,
    "grows_and_fails": GROWS_AND_FAILS,
}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A run of all of them under a limit that this machine can fill."""
    made = [solution(source, name=name) for name, source in SOURCES.items()]
    root = write_dataset(tmp_path_factory.mktemp("memory") / "dataset", *made)
    code = f"import resource, sys; resource.setrlimit(resource.RLIMIT_DATA, ({GRANTED}, {GRANTED}))"
    code += "; from flashinfer_bench.cli.main import cli; cli(sys.argv[1:])"
    arguments = [
        "run",
        "--local",
        str(root),
        "--device",
        "cpu",
        "--num-trials",
        "1",
        "--threads",
        "1",
    ]
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            code,
            *arguments,
            "--warmup-runs",
            "1",
            "--iterations",
            "2",
            "--json",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["run"]
    return found


@pytest.mark.parametrize("name", ["grows", "grows_and_dies"])
def test_what_had_used_most_of_its_memory_is_skipped_with_the_figures(
    report: dict[str, Any], name: str
) -> None:
    (skipped,) = [each for each in report["skipped"] if each["solution"] == name]

    assert "does not fit into memory here: 3.2 GB were granted" in skipped["reason"]
    assert (name == "grows") == ("asked for 0.3 more" in skipped["reason"])


@pytest.mark.parametrize(
    "name", ["says_so", "reserves_and_says_so", "dies", "asks_at_once", "grows_and_fails"]
)
def test_saying_so_is_not_enough(report: dict[str, Any], name: str) -> None:
    (job,) = [each for each in report["jobs"] if each["solution"] == name]

    assert job["status"] == "RUNTIME_ERROR"
