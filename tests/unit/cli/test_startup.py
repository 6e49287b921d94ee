"""What a command loads, asked in a fresh process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

DATASET = Path(__file__).parents[2] / "golden" / "dataset"
LOADED = (
    "import sys\n"
    "from flashinfer_bench.cli.main import cli\n"
    "cli({arguments!r}, standalone_mode=False)\n"
    "print('loaded', *sorted({packages!r} & sys.modules.keys()), file=sys.stderr)\n"
)


def _loaded(arguments: list[str], packages: set[str]) -> str:
    program = LOADED.format(arguments=arguments, packages=packages)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stderr.strip()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["run", "--help"],
        ["report", "best", "--help"],
        ["check", "--help"],
        ["decompose", "--help"],
        ["import", "--help"],
        ["kernelbench", "--help"],
        ["attack-test", "--help"],
    ],
)
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    heavy = {"torch", "pydantic", "rich", "yaml", "numpy", "psutil"}

    assert _loaded(arguments, heavy) == "loaded"


@pytest.mark.parametrize("report", ["summary", "best"])
def test_reports_load_neither_torch_nor_what_draws(report: str) -> None:
    arguments = ["report", report, "--local", str(DATASET)]

    assert _loaded(arguments, {"torch", "numpy", "rich", "yaml"}) == "loaded"


def test_planning_a_run_loads_no_torch() -> None:
    arguments = ["run", "--dry-run", "--device", "cpu", "--local", str(DATASET)]

    assert _loaded(arguments, {"torch", "numpy", "rich"}) == "loaded"


def test_the_module_is_the_command() -> None:
    command = [sys.executable, "-m", "flashinfer_bench", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert done.stdout.startswith("flashinfer-bench ")


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["import", "--help"]])
def test_help_loads_no_wing(arguments: list[str]) -> None:
    packages = {"attacks", "decompose", "kernelbench", "sol_execbench"}

    assert _loaded(arguments, {f"flashinfer_bench.{name}" for name in packages}) == "loaded"
