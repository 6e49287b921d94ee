"""What `report merge`, `report model`, `export` and `import` say about recorded traces."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flashinfer_bench.cli.main import cli

HERE = Path(__file__).parent
NAME = "rmsnorm_h4096"
PROFILE = {
    "model": "tiny",
    "framework": "PyTorch",
    "kernels": [
        {"kernel": {"definition": NAME, "axes": {"batch_size": 1}}, "count": 64},
        {"kernel": {"definition": NAME, "axes": {"batch_size": 32}}, "count": 2},
        {"kernel": {"definition": "rope_d128", "axes": {}}, "count": 32},
    ],
}
COLUMNS = ["--columns", "definition", "solution", "status", "latency_ms", "speedup"]
MODEL = ["report", "model", "--profile", "tiny.json", "--local", "runs"]
MERGE = ["report", "merge", "dataset", "runs", "--output", "merged"]
SOL_EXPORT = ["export", "sol-execbench", "--local", "dataset", "--output", "sol-problems"]
SOL_IMPORT = ["import", "sol-execbench", "sol", "--output", "mine"]
DOUBLE = {
    "name": "double",
    "axes": {"n": {"type": "var"}},
    "inputs": {"x": {"shape": ["n"], "dtype": "float32"}},
    "outputs": {"y": {"shape": ["n"], "dtype": "float32"}},
    "reference": "def run(x):\n    return 2 * x\n",
}
TOLERANCE = {"max_atol": 1e-5, "max_rtol": 1e-3, "required_matched_ratio": 1.0}
WORKLOAD = {"uuid": "w1", "axes": {"n": 8}, "inputs": {"x": {"type": "random"}}}
COMMANDS = {
    "merge.txt": (0, MERGE),
    "merge.json": (0, [*MERGE, "--json"]),
    "merge-conflict.txt": (2, ["report", "merge", "runs", "changed", "--output", "merged"]),
    "merge-keep-first.txt": (
        0,
        ["report", "merge", "runs", "changed", "--output", "merged", "--on-conflict", "keep-first"],
    ),
    "model.txt": (0, MODEL),
    "model.json": (0, [*MODEL, "--json"]),
    "export.csv": (0, ["export", "csv", "--local", "runs", *COLUMNS]),
    "export.md": (0, ["export", "markdown", "--local", "dataset"]),
    "export.json": (0, ["export", "csv", "--local", "runs", "--json", *COLUMNS]),
    "export-flashinfer-trace.txt": (
        0,
        ["export", "flashinfer-trace", "--local", "runs", "--output", "other"],
    ),
    "import-flashinfer-trace.txt": (
        0,
        ["import", "flashinfer-trace", "runs", "--output", "mine"],
    ),
    "export-sol-execbench.txt": (0, SOL_EXPORT),
    "export-sol-execbench.json": (0, [*SOL_EXPORT, "--json"]),
    "import-sol-execbench.txt": (0, SOL_IMPORT),
    "import-sol-execbench.json": (0, [*SOL_IMPORT, "--json"]),
    "import-sol-execbench-unknown.txt": (
        2,
        ["import", "sol-execbench", "sol/L2", "--output", "mine"],
    ),
}


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], Result]:
    """Run a command beside copies of the recorded datasets, one of them with another definition."""
    for name in ("dataset", "runs"):
        shutil.copytree(HERE / name, tmp_path / name)
    shutil.copytree(HERE / "runs", tmp_path / "changed")
    (definition,) = (tmp_path / "changed").glob(f"definitions/*/{NAME}.json")
    changed = json.loads(definition.read_text()) | {"description": "In other words."}
    definition.write_text(json.dumps(changed))
    (tmp_path / "tiny.json").write_text(json.dumps(PROFILE))
    sol_problem(tmp_path / "sol" / "L1" / "double", {})
    sol_problem(tmp_path / "sol" / "L2" / "triple", {"name": "triple", "axes": 3})
    monkeypatch.chdir(tmp_path)
    return lambda arguments: CliRunner().invoke(cli, arguments)


def sol_problem(folder: Path, more: dict[str, object]) -> None:
    """Write a problem with one workload that can be kept, and one that cannot."""
    folder.mkdir(parents=True)
    (folder / "definition.json").write_text(json.dumps(DOUBLE | more))
    capped = {"uuid": "w2", "tolerance": {**TOLERANCE, "max_error_cap": 2.0}}
    lines = [WORKLOAD | {"tolerance": TOLERANCE}, WORKLOAD | capped]
    (folder / "workload.jsonl").write_text("\n".join(map(json.dumps, lines)))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_says_what_it_said(
    name: str, say: Callable[[list[str]], Result], compare: Callable[[str, str], None]
) -> None:
    exit_code, arguments = COMMANDS[name]

    said = say(arguments)

    assert said.exit_code == exit_code, said.output
    compare(name, said.output if exit_code else said.stdout)
