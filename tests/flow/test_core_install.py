"""A core installation: no torch, and one clear message where torch is needed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
DATASET = REPOSITORY / "examples" / "dataset"
PROBLEMS = REPOSITORY / "examples" / "kernelbench"


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the core and nothing else; the folder of its commands."""
    folder = tmp_path_factory.mktemp("core")
    environment = [sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")]
    subprocess.run(environment, check=True)
    commands = folder / "venv" / "bin"
    installing = [*pip(commands), "install", "--quiet", "-c", "constraints.txt"]
    done = subprocess.run(
        [*installing, "."], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    if done.returncode != 0 and "No matching distribution" in done.stderr + done.stdout:
        pytest.skip("no package index can be reached")
    assert done.returncode == 0, done.stderr
    return commands


def pip(core: Path) -> list[str]:
    """Our own pip at work in that environment: to install one there would take as long again."""
    return [sys.executable, "-m", "pip", "--python", str(core / "python")]


def call(core: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(core / "flashinfer-bench"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_core_pulls_no_torch(core: Path) -> None:
    listed = subprocess.run(
        [*pip(core), "list", "--format=freeze"], capture_output=True, text=True, check=True
    )

    names = {line.partition("==")[0].lower() for line in listed.stdout.splitlines()}

    assert "pydantic" in names
    assert not names & {"torch", "numpy", "triton", "apache-tvm-ffi"}


def test_reading_commands_work_without_torch(core: Path, tmp_path: Path) -> None:
    assert call(core, "--help").returncode == 0
    assert call(core, "run", "--local", str(DATASET), "--dry-run").returncode == 0
    assert call(core, "report", "summary", "--local", str(DATASET)).returncode == 0
    pages = str(tmp_path / "site")
    assert call(core, "report", "html", pages, "--local", str(DATASET)).returncode == 0
    assert (tmp_path / "site" / "index.html").is_file()


def test_running_without_torch_prints_the_lines_to_type(core: Path, tmp_path: Path) -> None:
    done = call(core, "run", "--local", str(DATASET), "--output", str(tmp_path), "--device", "cpu")

    assert done.returncode == 4
    assert "pip install torch --index-url https://download.pytorch.org/whl/cpu" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ["decompose", "model.py", "--output", "out"],
        ["decompose", "batch", "--dataset", str(PROBLEMS), "--level", "1", "--output", "out"],
        ["decompose", "verify", "."],
        ["kernelbench", "eval", "model.py", "model.py"],
        ["import", "kernelbench", "model.py", "--output", "out"],
        ["attack-test", "--only", "replay_by_shape"],
        ["validate", "--local", str(DATASET), "--run"],
    ],
    ids=" ".join,
)
def test_whatever_runs_code_says_the_same_without_torch(
    core: Path, tmp_path: Path, command: list[str]
) -> None:
    (tmp_path / "model.py").write_text("import torch\n")
    command = [str(core / "flashinfer-bench"), *command]

    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 4, done.stderr
    assert "needs torch, which is not installed\n  CPU only:  pip install torch" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_doctor_says_what_is_missing_without_torch(core: Path) -> None:
    done = call(core, "doctor", "--json")
    told = json.loads(done.stdout)["doctor"]

    assert done.returncode == 4, done.stderr
    assert told["can_run"] is False
    assert any("pip install torch" in advice for advice in told["advice"])
    assert told["noise"]["where"] == "this process"
    missing = {each["language"] for each in told["languages"] if each["missing"]}
    assert missing == {"python", "cpp", "triton", "tilelang", "cuda"}


def test_plain_callables_are_measured_without_torch(core: Path) -> None:
    code = "import flashinfer_bench as fib; print(fib.measure(sum, [1, 2, 3]).clock)"

    done = subprocess.run(
        [str(core / "python"), "-c", code], capture_output=True, text=True, check=False
    )

    assert done.stdout == "wall\n", done.stderr
