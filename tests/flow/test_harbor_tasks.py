"""Task folders of Harbor: the workloads stay with the verifier, whose script gives the command line's reward."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from flashinfer_bench.cli.document_schemas import document_schema
from tests.commands import call
from tests.flow.kernels import write_dataset
from tests.flow.test_policy_adapters import KERNELS
from tests.golden.test_document_schemas import faults

SIZES = (1000, 2000, 3000, 4000, 5000)
TOOLS = Path(sys.executable).parent


@pytest.fixture
def task(tmp_path: Path) -> Path:
    root = write_dataset(tmp_path / "ds", sizes=SIZES)
    done = call("export", "harbor", "--local", root, "--device", "cpu", "-o", tmp_path / "tasks")
    assert done.returncode == 0, done.stderr
    return tmp_path / "tasks" / "increment"


def verify(task: Path, **sources: str) -> tuple[subprocess.CompletedProcess[str], Path]:
    """Run the verifier's script on what an agent wrote, as Harbor does but for the folders."""
    work, logs = task / "work", task / "logs"
    work.mkdir(exist_ok=True)
    for suffix, source in sources.items():
        (work / f"kernel.{suffix}").write_text(source)
    done = subprocess.run(
        ["bash", task / "tests" / "test.sh", work, logs],
        env={**os.environ, "PATH": f"{TOOLS}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done, logs / "reward.txt"


def test_only_the_verifier_has_the_workloads_and_it_runs_in_a_container_of_its_own(
    task: Path,
) -> None:
    config = tomllib.loads((task / "task.toml").read_text())
    agents = "\n".join(
        file.read_text() for file in (task / "instruction.md", task / "environment" / "Dockerfile")
    )
    dataset = task / "tests" / "dataset"
    lines = (dataset / "workloads" / "elementwise" / "increment.jsonl").read_text().splitlines()
    uuids = {json.loads(line)["workload"]["uuid"] for line in lines}

    assert config["verifier"]["environment_mode"] == "separate"
    assert config["artifacts"] == ["/app/kernel"]
    assert len(uuids) == 3
    assert json.loads((dataset / "splits.json").read_text())["workloads"] == dict.fromkeys(
        uuids, "train"
    )
    assert not any(uuid in agents for uuid in uuids)


@pytest.mark.parametrize(
    "name",
    ["right", *(pytest.param(each, marks=pytest.mark.full) for each in KERNELS if each != "right")],
)
def test_the_script_writes_the_reward_of_the_command_line(task: Path, name: str) -> None:
    """A right kernel's hangs on its time: the script's own verdict has it. Those of all others are exact."""
    done, reward = verify(task, py=KERNELS[name])

    assert done.returncode == 0, done.stderr
    written = float(reward.read_text())
    (verdict,) = json.loads(reward.with_name("verdict.json").read_text())["verdicts"]
    told = call(
        *("judge", task / "work" / "kernel.py", "--definition", "increment"),
        *("--local", task / "tests" / "dataset", "--device", "cpu", "--json"),
    )
    (expected,) = json.loads(told.stdout)["verdicts"]
    assert written == verdict["reward"]
    assert written == pytest.approx(expected["reward"], abs=0.2 if name == "right" else 0)


def test_without_one_kernel_the_reward_is_0_and_the_log_says_what_was_expected(
    task: Path,
) -> None:
    done, reward = verify(task)

    assert float(reward.read_text()) == 0.0
    assert "expected one file kernel.py, kernel.cpp or kernel.cu" in done.stdout


@pytest.mark.full
def test_without_a_verdict_there_is_no_reward(task: Path) -> None:
    script = task / "tests" / "test.sh"
    script.write_text(script.read_text().replace("--device cpu", "--device cuda:99"))

    done, reward = verify(task, py="def run(x):\n    return x + 1\n")

    assert not reward.exists()
    assert done.returncode != 0
    assert "no verdict (device)" in done.stderr


@pytest.mark.full
def test_the_document_is_what_its_schema_says(tmp_path: Path) -> None:
    root = write_dataset(tmp_path / "ds", sizes=SIZES)

    done = call(
        *("export", "harbor", "--local", root, "--device", "cpu"),
        *("-o", tmp_path / "tasks", "--json"),
    )

    document, schema = json.loads(done.stdout), document_schema("export-harbor")
    assert document["export"] == {"tasks": ["increment"], "workloads": 3}
    assert list(faults(document, schema, schema, "")) == []


def test_a_split_without_workloads_is_a_usage_error_and_leaves_no_folder(tmp_path: Path) -> None:
    root = write_dataset(tmp_path / "ds", sizes=(1000,))

    done = call(
        *("export", "harbor", "--local", root, "--device", "cpu"),
        *("--split", "test", "-o", tmp_path / "tasks"),
    )

    assert done.returncode == 2
    assert "no definition of the split test has workloads" in done.stderr
    assert not (tmp_path / "tasks").exists()
