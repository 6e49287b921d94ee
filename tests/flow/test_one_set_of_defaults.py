"""Python and the command line judge alike: the bundled softmax and a kernel that writes zeros."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from click.testing import CliRunner

from flashinfer_bench import Benchmark, BenchmarkConfig, TraceSet
from flashinfer_bench.cli.main import cli

if TYPE_CHECKING:
    from flashinfer_bench.data import Evaluation

BUNDLED = Path(__file__).parents[2] / "examples" / "dataset"
NAME = "softmax_v128256"
ZEROS = {
    "name": "zeros",
    "definition": NAME,
    "author": "me",
    "spec": {
        "language": "python",
        "target_hardware": ["cpu"],
        "entry_point": "main.py::run",
        "destination_passing_style": False,
    },
    "sources": [
        {
            "path": "main.py",
            "content": "import torch\n\ndef run(logits, temperature):\n    return torch.zeros_like(logits)\n",
        }
    ],
}
QUICK = {"iterations": 2, "num_trials": 1, "warmup_runs": 0, "threads": 1, "seed": 3}


def softmax_alone(root: Path) -> Path:
    """The bundled softmax with one workload, and the kernel that writes zeros."""
    for kind in ("definitions", "workloads"):
        shutil.copytree(BUNDLED / kind / "softmax", root / kind / "softmax")
    lines = root / "workloads" / "softmax" / f"{NAME}.jsonl"
    lines.write_text(lines.read_text().splitlines()[0] + "\n")
    folder = root / "solutions" / "me" / "softmax" / NAME
    folder.mkdir(parents=True)
    (folder / "zeros.json").write_text(json.dumps(ZEROS))
    return root


def evaluation_of(root: Path) -> Evaluation:
    (trace,) = TraceSet.from_path(root).traces[NAME]
    assert trace.evaluation is not None
    return trace.evaluation


def test_python_and_command_line_judge_the_bundled_softmax_alike(tmp_path: Path) -> None:
    by_python, by_command = (
        softmax_alone(tmp_path / "python"),
        softmax_alone(tmp_path / "command"),
    )
    options = [f"--{name.replace('_', '-')}={value}" for name, value in QUICK.items()]

    with Benchmark(
        TraceSet.from_path(by_python), BenchmarkConfig(**QUICK), device="cpu"
    ) as running:
        running.run_all()
    done = CliRunner().invoke(cli, ["run", "--local", str(by_command), "--device=cpu", *options])

    assert done.exit_code == 1, done.output
    ours, theirs = evaluation_of(by_python), evaluation_of(by_command)
    assert ours.status == theirs.status == "INCORRECT_NUMERICAL"
    assert ours.provenance is not None
    assert theirs.provenance is not None
    assert ours.provenance.config_hash == theirs.provenance.config_hash
    assert ours.provenance.settings == theirs.provenance.settings
    assert ours.provenance.settings["atol"] == 1e-30
