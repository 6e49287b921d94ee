"""What the commands that make, check and describe datasets say."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flashinfer_bench.cli.main import cli

HERE = Path(__file__).parent
PACKED = "runs/solutions/cpp/rmsnorm/rmsnorm_h4096/rmsnorm_h4096_cpp"
VALIDATE = ["validate", "--local", "dataset", "--disable-gpu"]
NEW = ["new", "solution", "mine", "--definition", "gemm_n8", "--local", "dataset"]
COMMANDS = {
    "validate.txt": (0, VALIDATE),
    "validate.json": (0, [*VALIDATE, "--definitions", "gemm_n8", "--json"]),
    "schema-workload.json": (0, ["schema", "workload"]),
    "init.txt": (0, ["init", "empty"]),
    "new-solution.txt": (0, [*NEW, "--language", "python"]),
    "pack.json": (0, ["pack", PACKED, "--output", "-"]),
    "pack.txt": (0, ["pack", PACKED, "--output", "packed.json"]),
    "unpack.txt": (0, ["unpack", "rmsnorm_h4096_cpp", "mine", "--local", "runs"]),
    "import-flashinfer-trace.json": (
        0,
        ["import", "flashinfer-trace", "runs", "--output", "mine", "--json"],
    ),
    "export-flashinfer-trace.json": (
        0,
        ["export", "flashinfer-trace", "--local", "runs", "--output", "other", "--json"],
    ),
    "export-parquet.txt": (
        0,
        ["export", "parquet", "--local", "runs", "--output", "traces.parquet"],
    ),
}


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], Result]:
    """Run a command beside copies of the recorded datasets."""
    for name in ("dataset", "runs"):
        shutil.copytree(HERE / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return lambda arguments: CliRunner().invoke(cli, arguments)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_says_what_it_said(
    name: str, say: Callable[[list[str]], Result], compare: Callable[[str, str], None]
) -> None:
    exit_code, arguments = COMMANDS[name]

    said = say(arguments)

    assert said.exit_code == exit_code, said.output
    compare(name, said.stdout)


def test_a_report_of_a_validation_becomes_the_same_text(
    say: Callable[[list[str]], Result], compare: Callable[[str, str], None], tmp_path: Path
) -> None:
    say([*VALIDATE, "--outputs", "json", "--output-folder", "reports"])
    (report,) = (tmp_path / "reports").glob("*.json")

    compare("validate.txt", say(["validate-render", str(report)]).stdout)
    compare("validate-render.json", say(["validate-render", str(report), "--json"]).stdout)
