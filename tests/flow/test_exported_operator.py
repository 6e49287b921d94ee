"""`export solution --as torch-op`: a package that another program installs, compiles with, and calls."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flashinfer_bench.data import TraceSet
from tests.commands import call
from tests.marks import mostly_full
from tests.unit.apply.datasets import trace

BUNDLED = Path(__file__).parents[2] / "examples" / "dataset"
DEFINITIONS = sorted(each.stem for each in (BUNDLED / "definitions").rglob("*.json"))
GRADIENTS = {"rmsnorm_h4096_backward", "rmsnorm_h4096_forward_backward"}
PROGRAM = """
import sys
import torch
import fib_{name} as package
assert "flashinfer_bench" not in sys.modules


def step(*inputs):
    answer = package.run(*inputs)
    return answer + 0 if isinstance(answer, torch.Tensor) else tuple(each + 0 for each in answer)


for rows in ({rows}, {rows} + 1):
    inputs = {inputs}
    with torch.no_grad():
        torch.compiler.reset()
        got, expected = torch.compile(step, backend="inductor", fullgraph=True)(*inputs), package.run(*inputs)
    torch.testing.assert_close(got, expected)
print(dict(sorted(package.CALLS.items())))
"""
CLOSED_FORM = """\
import torch


def run(hidden_states, weight, grad_output):
    x, grad = hidden_states.float(), grad_output.float()
    inverse_rms = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
    normalised, scaled = x * inverse_rms, grad * weight.float()
    mean = (scaled * normalised).mean(-1, keepdim=True)
    grad_x = inverse_rms * (scaled - normalised * mean)
    return grad_x.bfloat16(), (grad * normalised).sum(0).bfloat16()
"""
ROWS = "torch.randn(rows, 4096).bfloat16()"


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """The bundled dataset, whose PyTorch solutions are the best at their first workloads."""
    root = tmp_path / "dataset"
    shutil.copytree(BUNDLED, root, ignore=shutil.ignore_patterns("traces"))
    found = TraceSet.from_path(root)
    found.add_traces(
        [
            trace(each, dict(workload.workload.axes), of=name)
            for name, solutions in found.solutions.items()
            for each in solutions
            if each.name.endswith("_pytorch")
            for workload in found.workloads[name]
        ]
    )
    return root


def export(dataset: Path, solution: str, output: Path) -> subprocess.CompletedProcess[str]:
    words = ("--as", "torch-op", "--output", output, "--local", dataset)
    return call("export", "solution", solution, *words)


@pytest.mark.parametrize("name", mostly_full(sorted({*DEFINITIONS} - GRADIENTS), "rmsnorm_h4096"))
def test_every_bundled_definitions_solution_in_python_passes_torchs_check(
    name: str, dataset: Path, tmp_path: Path
) -> None:
    done = export(dataset, f"{name}_pytorch", tmp_path / "out")

    assert done.returncode == 0, done.stderr
    assert f"{name}_pytorch as torch-op: " in done.stdout
    package = tmp_path / "out" / "src" / f"fib_{name}"
    assert sorted(each.name for each in package.iterdir()) == [
        "__init__.py",
        "kernel.py",
        "original.py",
    ]


def test_an_installed_operator_answers_by_size_in_a_compiled_function(
    dataset: Path, tmp_path: Path
) -> None:
    name = "fused_add_rmsnorm_h4096"
    rows = min(
        each.workload.axes["batch_size"] for each in TraceSet.from_path(dataset).workloads[name]
    )
    words = ("--as", "torch-op", "--output", tmp_path / "out", "--local", dataset, "--json")
    written = json.loads(call("export", "solution", f"{name}_pytorch", *words).stdout)
    assert (written["solution"], written["definition"]) == (f"{name}_pytorch", name)
    install = ("-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target")
    place = tmp_path / "site"
    subprocess.run([sys.executable, *install, place, tmp_path / "out"], check=True)
    inputs = f"({ROWS}, {ROWS}, torch.randn(4096).bfloat16())"

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(name=name, rows=rows, inputs=inputs)],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "{'kernel': 2, 'original': 2}"


def test_what_cannot_be_an_operator_is_refused_with_the_reason(
    dataset: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"

    for solution, why in {
        "rmsnorm_h4096_cuda": "is in cuda: only python, triton, tilelang and cpp with tvm-ffi",
        "rmsnorm_h4096_baseline": "is the best at no size of rmsnorm_h4096",
        "rmsnorm_h4096_pytorc": "did you mean 'rmsnorm_h4096_pytorch'",
    }.items():
        done = export(dataset, solution, out)
        assert done.returncode == 2, solution
        assert why in done.stderr
    assert not out.exists()


@pytest.mark.parametrize("name", sorted(GRADIENTS))
def test_gradients_by_autograd_are_refused_in_one_line(
    name: str, dataset: Path, tmp_path: Path
) -> None:
    for solution, why in {
        f"{name}_pytorch": f"{name} cannot be an operator: its reference",
        f"{name}_baseline": f"{name}_baseline runs torch.autograd",
    }.items():
        done = export(dataset, solution, tmp_path / "out")

        assert done.returncode == 2
        assert why in done.stderr
        assert "in closed form" in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_gradients_with_a_reference_in_closed_form_are_exported(
    dataset: Path, tmp_path: Path
) -> None:
    name = "rmsnorm_h4096_backward"
    file = next((dataset / "definitions").rglob(f"{name}.json"))
    definition = json.loads(file.read_text()) | {"reference": CLOSED_FORM}
    file.write_text(json.dumps(definition))

    done = export(dataset, f"{name}_pytorch", tmp_path / "out")

    assert done.returncode == 0, done.stderr


def test_an_operator_that_torch_refuses_is_not_written(dataset: Path, tmp_path: Path) -> None:
    source = next((dataset / "solutions").rglob("rmsnorm_h4096_pytorch/main.py"))
    root = TraceSet.from_path(dataset)
    wrong = (
        source.read_text()
        + "\n\n_run = run\n\n\ndef run(*inputs):\n    return _run(*inputs).float()\n"
    )
    source.write_text(wrong)
    root.add_traces([trace("rmsnorm_h4096_pytorch", {"batch_size": 1}, of="rmsnorm_h4096")])

    done = export(dataset, "rmsnorm_h4096_pytorch", tmp_path / "out")

    assert done.returncode == 2
    assert "torch refuses it as an operator" in done.stderr
    assert not (tmp_path / "out").exists()
