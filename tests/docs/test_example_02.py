"""Example 02's four commands work as its page says, in a copy of the folder."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flashinfer_bench import Trace, TraceSet

pytest.importorskip("torch", reason="the example runs kernels")

EXAMPLE = Path(__file__).parents[2] / "examples" / "02_trace_schema"
LANGUAGES = ("triton", "cuda", "tilelang")
SOLUTIONS = {
    "triton": "rmsnorm_triton_warp_v1",
    "cuda": "rmsnorm_cuda_v1",
    "tilelang": "rmsnorm_tilelang_v1",
}
WORDS = {"triton": "Triton", "cuda": "CUDA", "tilelang": "TileLang"}
DEFINITION = "rmsnorm_d4096"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The example without what an earlier run left in it."""
    return copied(tmp_path)


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the commands of the page print, one after the other."""
    folder = copied(tmp_path_factory.mktemp("page"))
    return [step(folder, *command) for command in commands_of_page()]


def copied(where: Path) -> Path:
    left = shutil.ignore_patterns("dataset", "traces.json", "__pycache__")
    return Path(shutil.copytree(EXAMPLE, where / "example", ignore=left))


def call(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )


def step(folder: Path, *arguments: str) -> str:
    done = call(folder, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def commands_of_page() -> list[list[str]]:
    page = (EXAMPLE / "README.md").read_text()
    return [line.split()[1:] for line in re.findall(r"^\$ (python .*)$", page, re.MULTILINE)]


def installed(language: str) -> bool:
    return language != "cuda" and importlib.util.find_spec(language) is not None


@pytest.mark.full
def test_the_four_commands_of_the_page_end_in_a_line_for_each_language(outputs: list[str]) -> None:
    batches = outputs[-1].split("Benchmark Results (batch=")[1:]

    assert [command[0] for command in commands_of_page()] == [
        "create_definition.py",
        "create_solutions.py",
        "create_workload.py",
        "run_benchmark.py",
    ]
    assert [text.splitlines()[0] for text in batches] == ["1):", "8):", "32):", "128):"]
    for text in batches:
        assert re.search(r"^  Reference: (\d+\.\d+ ms|not timed)", text, re.MULTILINE)
        for language in LANGUAGES:
            assert re.search(
                rf"^  {WORDS[language]}: +(skipped: .|\d+\.\d+ ms +\d+\.\d+x)", text, re.MULTILINE
            ), text


def test_what_is_installed_passes_and_lands_in_the_file(folder: Path) -> None:
    languages = [language for language in LANGUAGES if installed(language)]
    if not languages:
        pytest.skip("neither triton nor tilelang is installed")
    step(folder, "create_workload.py", "--batch-sizes", "3")

    step(folder, "run_benchmark.py", "--output", "traces.json", "--device", "cpu")

    traces = [
        Trace.model_validate(each) for each in json.loads((folder / "traces.json").read_text())
    ]
    ended = {trace.solution: trace.evaluation.status for trace in traces if trace.evaluation}
    assert ended == {SOLUTIONS[language]: "PASSED" for language in languages}
    assert {trace.workload.axes["batch"] for trace in traces} == {3}


def test_each_step_makes_what_the_earlier_ones_would_have_made(folder: Path) -> None:
    assert step(folder, "create_workload.py", "--batch-sizes", "7,1").count("written") == 2
    assert step(folder, "create_solutions.py", "--languages", "cuda").count("written") == 1

    traces = TraceSet.from_path(folder / "dataset")

    assert list(traces.definitions) == [DEFINITION]
    assert [solution.name for solution in traces.solutions[DEFINITION]] == ["rmsnorm_cuda_v1"]
    assert [each.workload.axes for each in traces.workloads[DEFINITION]] == [
        {"batch": 7},
        {"batch": 1},
    ]


def test_a_step_done_twice_changes_nothing_but_what_was_edited(folder: Path) -> None:
    commands = commands_of_page()[:3]
    for command in commands:
        step(folder, *command)
    kernel = folder / "kernels" / "triton_rmsnorm.py"
    kernel.write_text(kernel.read_text() + "# edited\n")

    again = [step(folder, *command) for command in commands]

    written = [line for output in again for line in output.splitlines() if "was there" not in line]
    assert written == ["solution rmsnorm_triton_warp_v1: written"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["create_solutions.py", "--languages", "triton,rust"], "no kernel in 'rust'"),
        (["create_workload.py", "--batch-sizes", "1,x"], "is no list of sizes such as 1,8,32"),
        (["create_workload.py", "--batch-sizes", "0"], "is no list of sizes such as 1,8,32"),
        (["create_definition.py", "--dataset", "README.md"], "error: "),
        (["run_benchmark.py", "--output", "nowhere/traces.json"], "error: "),
    ],
)
def test_a_mistake_is_one_message(folder: Path, arguments: list[str], message: str) -> None:
    done = call(folder, *arguments)

    assert done.returncode != 0
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.full
def test_the_page_shows_what_the_steps_print(outputs: list[str]) -> None:
    page = (EXAMPLE / "README.md").read_text()

    head = outputs[-1].partition("\nBenchmark Results")[0]

    assert head.startswith(f"Definition: {DEFINITION}\nAxes: batch (var), hidden (const: 4096)\n")
    assert [text for text in (*outputs[:-1], head) if text not in page] == []
