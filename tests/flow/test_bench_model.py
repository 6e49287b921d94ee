"""A whole model with a dataset's solutions against itself: measured, checked, and proof that they were used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flashinfer_bench.data import Definition, save_json_file
from flashinfer_bench.data.layout import Layout
from tests.commands import call
from tests.unit.apply.datasets import solution, trace

MODEL = """\
import torch
from torch import nn

import flashinfer_bench as fib


@fib.apply("double_relu")
def double_relu(x):
    return torch.relu(x) * 2


class Model(nn.Module):
    vocab_size = 32

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(32, 16)
        self.head = nn.Linear(16, 32)

    def begin(self, rows, room):
        self.seen = torch.zeros(rows, 16, dtype=self.head.weight.dtype)

    def prefill(self, tokens):
        self.seen.copy_(self.embedding(tokens).sum(1))
        return self.head(double_relu(self.seen))

    def decode(self, tokens, position):
        self.seen.add_(self.embedding(tokens[:, 0]))
        return self.head(double_relu(self.seen))
"""
RELU = "import torch\n\n\ndef run(x):\n    return torch.relu(x) * 2\n"
QUICK = ("--rows", "2", "--prompt", "4", "--steps", "3", "--threads", "1", "--device", "cpu")
QUICK += ("--rounds", "1", "--blocks", "6", "--sample-time", "2ms")
ROWS = {"rows": 2}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch")
    path = tmp_path_factory.mktemp("model") / "relu_model.py"
    path.write_text(MODEL)
    return path


def written(folder: Path, **sources: str) -> Path:
    """A dataset on disk: each solution passed on two rows; the first is the fastest."""
    shape = {"shape": ["rows", "width"], "dtype": "float32"}
    definition = Definition.model_validate(
        {
            "name": "double_relu",
            "op_type": "relu",
            "axes": {"rows": {"type": "var"}, "width": {"type": "const", "value": 16}},
            "inputs": {"x": shape},
            "outputs": {"y": shape},
            "reference": RELU.replace("* 2", "* 2.0"),
        }
    )
    layout = Layout(folder)
    save_json_file(definition, layout.definition_file(definition))
    for at, (name, source) in enumerate(sources.items()):
        made = solution(name, source, of="double_relu")
        save_json_file(made, layout.solution_file(made, definition.op_type))
        line = trace(name, ROWS, 4.0 - at, of="double_relu").to_json()
        traces = layout.trace_file("tester", definition)
        traces.parent.mkdir(parents=True, exist_ok=True)
        with traces.open("a") as file:
            file.write(f"{line}\n")
    return folder


def measured(model: Path, dataset: Path, *more: str) -> tuple[int, dict[str, Any], str]:
    done = call("bench-model", model, "--with", dataset, *QUICK, *more, "--json")
    assert done.stdout, done.stderr
    document = json.loads(done.stdout)
    assert document["exit_code"] == done.returncode
    return done.returncode, document["model"], done.stdout


def test_a_right_one_is_measured_and_named_with_what_it_calls(model: Path, tmp_path: Path) -> None:
    dataset = written(tmp_path / "dataset", right=RELU)

    code, report, said = measured(model, dataset, "--modes", "eager", "graphs", "compiled-graphs")

    assert code == 0
    eager, graphs, both = report["modes"]
    assert (both["mode"], both["status"], both["why"]) == (
        "compiled-graphs",
        "skipped",
        graphs["why"],
    )
    assert (graphs["status"], graphs["why"]) == (
        "skipped",
        "CUDA graphs need a CUDA device; this is cpu",
    )
    assert (eager["status"], eager["why"], eager["quality"]["is_accepted"]) == ("passed", "", True)
    (use,) = eager["use"]["solutions"]
    assert (use["solution"], use["kind"], use["calls_libraries"]) == (
        "right",
        "library",
        ["torch", "torch.relu"],
    )
    assert use["answered"] == {"prefill": 1, "decode": 1}
    for phase, tokens in zip(eager["phases"], (8, 2), strict=True):
        old_ms = phase["old_step_ms"]["value"]
        assert phase["old_tokens_per_s"]["value"] == pytest.approx(1e3 * tokens / old_ms)
        # the trace saves 0.75 ms a call, which is more than this model's whole step takes
        assert phase["predicted"] is None or phase["predicted"] > 1
        assert phase["interval"][0] <= phase["ratio"] <= phase["interval"][1]
    assert eager["old_memory_mib"]["value"] > 0

    result = tmp_path / "result.json"
    result.write_text(said)
    scored = call("report", "score", result, "--json")
    assert scored.returncode == 0, scored.stderr
    assert json.loads(scored.stdout)["score"]["measured"] == 1.0


def test_a_wrong_one_is_another_model_and_counts_one(model: Path, tmp_path: Path) -> None:
    dataset = written(tmp_path / "dataset", wrong=RELU.replace("* 2", "* 2.001"))

    code, report, said = measured(model, dataset, "--modes", "eager")

    (eager,) = report["modes"]
    assert (code, eager["status"], eager["phases"]) == (1, "failed", [])
    assert eager["why"].startswith("it is another model: logits are off by")
    result = tmp_path / "result.json"
    result.write_text(said)
    page = call("report", "score", result)
    assert page.stdout.startswith("deployed: 1")
    assert "none: a model failed" in page.stdout


def test_one_that_answers_nothing_is_an_error(model: Path, tmp_path: Path) -> None:
    dataset = written(tmp_path / "dataset", right=RELU, slower=RELU + "\n")

    code, report, _ = measured(model, dataset, "--modes", "eager", "--solutions", "right", "slower")

    (eager,) = report["modes"]
    assert (code, eager["status"]) == (1, "failed")
    assert eager["why"] == (
        "slower answered none of the calls of double_relu (answered by right, which is faster)"
    )


def test_one_for_other_sizes_is_an_error_that_says_so(model: Path, tmp_path: Path) -> None:
    dataset = written(tmp_path / "dataset", right=RELU)

    code, report, _ = measured(model, dataset, "--modes", "eager", "--rows", "3")

    (eager,) = report["modes"]
    assert (code, eager["status"]) == (1, "failed")
    assert eager["why"] == (
        "right answered none of the calls of double_relu (rows=3: not measured)"
    )


@pytest.mark.full
def test_compiled_code_calls_it_without_a_break(model: Path, tmp_path: Path) -> None:
    dataset = written(tmp_path / "dataset", right=RELU)

    code, report, _ = measured(model, dataset, "--modes", "compiled")

    (compiled,) = report["modes"]
    assert (code, compiled["status"]) == (0, "passed"), compiled["why"]
    assert (compiled["graph_breaks"], compiled["recompiles"]) == (0, 0)
    assert compiled["use"]["solutions"][0]["answered"] == {"prefill": 1, "decode": 1}


def test_a_file_that_is_no_model_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "empty.py"
    path.write_text("x = 1\n")
    dataset = written(tmp_path / "dataset", right=RELU)

    done = call("bench-model", path, "--with", dataset, *QUICK)

    assert done.returncode == 2
    assert "has no class Model: a model's file has a class Model" in done.stderr
