"""docs/tracing.md does what it says: its programs run, and print what stands below them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from flashinfer_bench.data import Definition, TraceSet, save_json_file
from flashinfer_bench.data.layout import Layout
from flashinfer_bench.tracing import PolicyRegistry, TracingConfig
from tests.marks import mostly_full

PAGE = (Path(__file__).parents[2] / "docs" / "tracing.md").read_text()
PROGRAM = re.compile(r"<!-- run -->\n```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)
FILE = re.compile(r"<!-- file: (\S+) -->\n```python\n(.*?)```", re.DOTALL)
SCALE = {
    "name": "scale_d4",
    "op_type": "scale",
    "axes": {"rows": {"type": "var"}, "d": {"type": "const", "value": 4}},
    "inputs": {
        "x": {"shape": ["rows", "d"], "dtype": "float32"},
        "factors": {"shape": ["rows"], "dtype": "float32"},
    },
    "outputs": {"y": {"shape": ["rows", "d"], "dtype": "float32"}},
    "reference": "def run(x, factors):\n    return x * factors.unsqueeze(1)\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the page's dataset."""
    pytest.importorskip("torch")
    definition = Definition.model_validate(SCALE)
    save_json_file(definition, Layout(tmp_path / "my_dataset").definition_file(definition))
    return tmp_path


def ran(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


@pytest.mark.parametrize("at", mostly_full(range(len(PROGRAM.findall(PAGE))), 0))
def test_each_program_prints_what_the_page_says(folder: Path, at: int) -> None:
    code, expected = PROGRAM.findall(PAGE)[at]

    done = ran(folder, sys.executable, "-c", code)

    assert done.stdout == expected, done.stderr


def test_the_adapter_of_the_page_reads_a_function_that_knows_nothing_of_it(folder: Path) -> None:
    for name, text in FILE.findall(PAGE):
        (folder / name).write_text(text)
    (folder / "layers.py").write_text(
        "def scale_rows(x, factors):\n    return x * factors.unsqueeze(1)\n"
    )
    (folder / "generate.py").write_text(
        "import torch\nimport layers\nlayers.scale_rows(torch.ones(5, 4), torch.ones(5))\n"
    )
    command = [sys.executable, "-m", "flashinfer_bench", "trace", "--local", "my_dataset"]

    done = ran(folder, *command, "--adapters", "adapters.py", "--", sys.executable, "generate.py")

    assert "1 workload written" in done.stderr
    (line,) = TraceSet.from_path(folder / "my_dataset").workloads["scale_d4"]
    assert line.workload.axes == {"rows": 5}


def test_the_page_names_every_policy_and_the_defaults() -> None:
    for name in (
        *PolicyRegistry.list_filter_policies(),
        *PolicyRegistry.list_input_dump_policies(),
    ):
        if not name.startswith("example_"):
            assert f"`{name}`" in PAGE
    assert f"`{TracingConfig().filter_policy}` (default)" in PAGE
    assert f"`{TracingConfig().input_dump_policy}` (default)" in PAGE
