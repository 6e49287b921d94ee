"""KernelBench problems as definitions: the reference is the model, its weights are inputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from flashinfer_bench.cli.main import cli
from flashinfer_bench.data import Definition, TraceSet, Workload
from flashinfer_bench.data.workload import RandomInput, SafetensorsInput

torch = pytest.importorskip("torch", reason="running a problem needs torch")

NET = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Linear(width, 128)
        self.norm = nn.BatchNorm1d(128)

    def forward(self, x):
        return FORWARD


def get_inputs():
    return [torch.randn(64, 256)]


def get_init_inputs():
    return [256]
"""
PLAIN = "torch.relu(self.norm(self.first(x)))"
RANDOM = "torch.dropout(self.norm(self.first(x)), 0.5, True)"
KERNEL = """\
import torch


def run(x0, p_first_weight, p_first_bias, p_norm_weight, p_norm_bias, mean, var, count):
    h = x0 @ p_first_weight.T + p_first_bias
    h = (h - h.mean(0)) / torch.sqrt(h.var(0, unbiased=False) + 1e-5)
    return torch.relu(h * p_norm_weight + p_norm_bias) + OFF
"""


@pytest.fixture
def problems(tmp_path: Path) -> Path:
    folder = tmp_path / "library" / "level1"
    folder.mkdir(parents=True)
    (folder / "1_Net.py").write_text(NET.replace("FORWARD", PLAIN))
    return folder.parent


def bring(problems: Path, output: Path) -> Result:
    arguments = ["import", "kernelbench", str(problems), "--output", str(output), "--json"]
    return CliRunner().invoke(cli, arguments)


def brought(problems: Path, output: Path) -> tuple[Definition, Workload, TraceSet]:
    assert bring(problems, output).exit_code == 0
    dataset = TraceSet.from_path(output)
    (name,) = dataset.definitions
    return dataset.definitions[name], dataset.workloads[name][0].workload, dataset


def made(definition: Definition, workload: Workload, dataset: TraceSet) -> list[Any]:
    """Make tensors for the inputs: the stored ones, and any others of their shape."""
    tensors = []
    shapes = definition.get_input_shapes({})
    for shape, (name, source) in zip(shapes, workload.inputs.items(), strict=True):
        if isinstance(source, SafetensorsInput):
            tensors.append(dataset.get_workload_blob_tensor(source.path)[name])
        else:
            tensors.append(torch.randn(shape))
    return tensors


def test_the_reference_is_the_model_with_the_weights_it_is_given(
    problems: Path, tmp_path: Path
) -> None:
    definition, workload, dataset = brought(problems, tmp_path / "out")
    inputs = made(definition, workload, dataset)
    file: dict[str, Any] = {}
    exec(compile(NET.replace("FORWARD", PLAIN), "net", "exec"), file)
    model = file["Model"](*file["get_init_inputs"]())
    names = [name.removeprefix("p_") for name in definition.inputs]
    state = {
        path: inputs[names.index(path.replace(".", "_"))].clone() for path in model.state_dict()
    }
    model.load_state_dict(state)
    reference: dict[str, Any] = {}
    exec(definition.reference, reference)
    before = [each.clone() for each in inputs]

    found = reference["run"](*inputs)

    assert torch.equal(found, model(inputs[0]))
    assert all(torch.equal(now, then) for now, then in zip(inputs, before, strict=True))


def test_weights_are_static_inputs_drawn_anew_where_a_distribution_gives_them(
    problems: Path, tmp_path: Path
) -> None:
    definition, workload, dataset = brought(problems, tmp_path / "out")

    roles = {name: spec.role for name, spec in definition.inputs.items()}
    stored = workload.inputs["p_norm_weight"]
    assert roles["p_first_weight"] == "static"
    assert roles["x0"] != "static"
    assert isinstance(workload.inputs["p_first_weight"], RandomInput)
    assert isinstance(stored, SafetensorsInput)
    ones = dataset.get_workload_blob_tensor(stored.path)["p_norm_weight"]
    assert torch.equal(ones, torch.ones(128))


@pytest.mark.parametrize(("off", "code"), [("0", 0), ("0.5", 1)])
def test_a_kernel_is_judged_by_what_was_imported(
    problems: Path, tmp_path: Path, off: str, code: int
) -> None:
    definition, _, _ = brought(problems, tmp_path / "out")
    kernel = tmp_path / "kernel.py"
    kernel.write_text(KERNEL.replace("OFF", off))
    named = ["--definition", definition.name, "--local", str(tmp_path / "out")]

    done = CliRunner().invoke(cli, ["check", str(kernel), *named, "--device", "cpu"])

    assert done.exit_code == code, done.output


def test_what_cannot_be_a_definition_is_named_and_left_out(problems: Path, tmp_path: Path) -> None:
    (problems / "level1" / "2_Random.py").write_text(NET.replace("FORWARD", RANDOM))
    (problems / "level1" / "3_Broken.py").write_text(NET.replace("FORWARD", "x + missing"))

    done = bring(problems, tmp_path / "out")

    document = json.loads(done.stdout)
    reasons = {Path(name).stem: reason for name, reason in document["left_out"].items()}
    assert document["definitions"] == ["level1_1_Net"]
    assert "draws random numbers" in reasons["2_Random"]
    assert "missing" in reasons["3_Broken"]
    assert list(TraceSet.from_path(tmp_path / "out").definitions) == ["level1_1_Net"]


def test_nothing_is_written_where_no_problem_can_be_one(tmp_path: Path) -> None:
    (tmp_path / "2_Random.py").write_text(NET.replace("FORWARD", RANDOM))

    done = bring(tmp_path / "2_Random.py", tmp_path / "out")

    assert done.exit_code == 2
    assert "draws random numbers" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2_Random.py"]


def test_a_folder_without_problems_is_a_clear_error(tmp_path: Path) -> None:
    done = bring(tmp_path, tmp_path / "out")

    assert done.exit_code == 2
    assert "holds no problems" in done.stderr


def test_a_path_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    done = bring(tmp_path / "19_Relu.py", tmp_path / "out")

    assert done.exit_code == 2
    assert done.stderr == f"error: {tmp_path / '19_Relu.py'}: no such file or folder\n"


def test_of_many_reasons_the_first_are_shown(tmp_path: Path) -> None:
    for number in range(1, 8):
        (tmp_path / f"{number}_Broken.py").write_text("class Model(:\n")

    done = bring(tmp_path, tmp_path / "out")

    assert done.exit_code == 2
    assert done.stderr.count("invalid syntax") == 5
    assert done.stderr.endswith("  and 2 more\n")


def test_two_problems_of_one_name_are_not_mixed_up(problems: Path, tmp_path: Path) -> None:
    other = problems / "more" / "level1"
    other.mkdir(parents=True)
    (other / "1_Net.py").write_text(NET.replace("FORWARD", PLAIN))

    document = json.loads(bring(problems, tmp_path / "out").stdout)

    assert document["definitions"] == ["level1_1_Net"]
    assert [reason.endswith("has the same name") for reason in document["left_out"].values()] == [
        True
    ]


def test_problems_with_the_same_inputs_have_workloads_of_their_own(
    problems: Path, tmp_path: Path
) -> None:
    other = NET.replace("FORWARD", "torch.tanh(self.norm(self.first(x)))")
    (problems / "level1" / "2_Net.py").write_text(other)
    bring(problems, tmp_path / "out")

    done = CliRunner().invoke(cli, ["validate", "--local", str(tmp_path / "out")])

    assert len(TraceSet.from_path(tmp_path / "out").definitions) == 2
    assert done.exit_code == 0, done.stdout
    assert "uuid" not in done.stdout


def test_weights_whose_names_as_inputs_are_one_are_refused(tmp_path: Path) -> None:
    twice = "self.norm_weight = nn.Parameter(torch.ones(1))\n        self.norm ="
    text = NET.replace("FORWARD", PLAIN).replace("self.norm =", twice)
    (tmp_path / "net.py").write_text(text)

    done = bring(tmp_path / "net.py", tmp_path / "out")

    assert done.exit_code == 2
    assert "several weights of the model would be the input 'p_norm_weight'" in done.stderr
