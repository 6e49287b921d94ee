"""Trees of real models: every file of the problem set, and modules of torch's own."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="capture runs the model")
from torch import nn  # noqa: E402

from flashinfer_bench.decompose.capture import capture  # noqa: E402
from flashinfer_bench.decompose.grouping import check_tree, decompose_trace  # noqa: E402
from flashinfer_bench.decompose.ir import Node, OpTrace  # noqa: E402
from flashinfer_bench.decompose.model_file import ModelObject, load_model_file  # noqa: E402

PROBLEMS = Path(__file__).parents[3] / "examples" / "kernelbench"
FILES = sorted(path for path in PROBLEMS.glob("level*/*.py") if "class Model" in path.read_text())


@cache
def _tree(path: Path) -> tuple[OpTrace, Node]:
    trace = capture(load_model_file(path)).trace
    return trace, decompose_trace(trace)


def _leaves(node: Node) -> list[str]:
    return [each.name for each in node.walk() if each.is_leaf]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_problem_has_a_tree_that_holds(path: Path) -> None:
    trace, tree = _tree(path)

    assert check_tree(trace, tree) == ()
    assert all(node.reason and node.name.isidentifier() for node in tree.walk())


def test_problems_of_one_operation_are_one_kernel() -> None:
    files = [path for path in FILES if path.parent.name == "level1"]
    several = [path.stem for path in files if not _tree(path)[1].is_leaf]

    assert len(files) >= 30
    assert len(several) <= len(files) * 0.05


def test_problems_of_a_few_operations_are_mostly_fusions_and_networks_mostly_models() -> None:
    def share(level: str, wanted: set[str]) -> float:
        found = [_tree(path)[1].level for path in FILES if path.parent.name == level]
        return sum(each in wanted for each in found) / len(found)

    assert share("level2", {"fusion"}) > 0.7
    assert share("level3", {"layer", "model"}) > 0.8


def _of_module(module: nn.Module, *inputs: Any) -> tuple[OpTrace, Node]:
    trace = capture(ModelObject(module, list(inputs), "model")).trace
    return trace, decompose_trace(trace)


def test_an_encoder_of_torchs_is_equal_layers_of_attention_and_chains() -> None:
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    trace, tree = _of_module(nn.TransformerEncoder(layer, 2).eval(), torch.randn(2, 5, 32))

    first = tree.children[0]

    assert check_tree(trace, tree) == ()
    assert [child.name for child in tree.children] == ["TransformerEncoderLayer"] * 2
    assert [child.name for child in first.children] == [
        "multihead_attention", "add_layer_norm", "linear_relu", "linear", "add_layer_norm",
    ]  # fmt: skip


def test_attention_that_also_returns_its_weights_has_its_core_in_one_fusion() -> None:
    x = torch.randn(5, 2, 32)
    trace, tree = _of_module(nn.MultiheadAttention(32, 4), x, x, x)

    core = next(child for child in tree.children if child.name == "attention")

    assert check_tree(trace, tree) == ()
    assert _leaves(core) == ["bmm", "softmax", "bmm"]


def test_a_recurrent_module_is_one_kernel() -> None:
    _, tree = _of_module(nn.GRU(8, 16, 2, bidirectional=True), torch.randn(5, 2, 8))

    assert (tree.level, tree.name) == ("kernel", "gru")


def test_dropout_in_training_is_a_stochastic_kernel_of_its_chain() -> None:
    module = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Dropout(0.5))
    _, tree = _of_module(module, torch.randn(2, 8))

    assert [node.name for node in tree.walk() if "stochastic" in node.tags] == ["model", "dropout"]


_DIGEST = """
import hashlib, sys
from pathlib import Path
from flashinfer_bench.decompose.capture import capture
from flashinfer_bench.decompose.grouping import decompose_trace
from flashinfer_bench.decompose.model_file import load_model_file
for name in sys.argv[1:]:
    print(hashlib.sha256(repr(decompose_trace(capture(load_model_file(Path(name))).trace)).encode()).hexdigest())
"""


@pytest.mark.full  # test_decompose_files has it of what is written
def test_trees_do_not_depend_on_the_hash_seed() -> None:
    chosen = FILES[::9]

    def digests(seed: str) -> str:
        command = [sys.executable, "-W", "ignore", "-c", _DIGEST, *map(str, chosen)]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        ).stdout

    here = "".join(
        f"{hashlib.sha256(repr(_tree(each)[1]).encode()).hexdigest()}\n" for each in chosen
    )

    assert digests("1") == digests("2") == here
