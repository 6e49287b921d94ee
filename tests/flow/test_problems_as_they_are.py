"""What a problem may say beyond shapes and a reference, judged by the real processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flashinfer_bench.bench import Benchmark
from flashinfer_bench.bench.outcomes import DatasetFault
from flashinfer_bench.data import (
    Definition,
    Trace,
    TraceSet,
    Workload,
    save_json_file,
    save_jsonl_file,
)
from tests.commands import call
from tests.flow.kernels import dataset, quick, solution, write_dataset


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("dataset"), sizes=(100,))


def folder_with(path: Path, build: str, source: str, file: str = "main.py") -> Path:
    """Write a solution's folder."""
    path.mkdir()
    (path / file).write_text(source)
    toml = '[solution]\nname = "mine"\ndefinition = "increment"\nauthor = "me"\n[build]\n'
    toml += f'entry_point = "{file}::run"\ntarget_hardware = ["cpu"]\ndestination_passing_style = false\n'
    (path / "solution.toml").write_text(toml + build)
    return path


def check(root: Path, kernel: Path, *options: str) -> Any:
    return call("check", kernel, "--device", "cpu", "--local", root, *options)


def test_a_missing_dependency_skips_a_solution_before_any_of_its_code_runs(
    root: Path, tmp_path: Path
) -> None:
    mark = tmp_path / "ran"
    source = f"open({str(mark)!r}, 'w')\nraise SystemExit(3)\n\ndef run(x): return x\n"
    build = 'language = "python"\ndependencies = ["numpy>=999", "no-such-package"]\n'
    kernel = folder_with(tmp_path / "mine", build, source)

    done = check(root, kernel, "--json", "--sandbox", "off")

    (skipped,) = json.loads(done.stdout)["check"]["skipped"]
    assert "needs numpy>=999, and " in skipped["reason"]
    assert "pip install 'numpy>=999' 'no-such-package'" in skipped["reason"]
    assert not mark.exists()


def test_a_refused_build_option_is_one_line_that_names_it(root: Path, tmp_path: Path) -> None:
    build = 'language = "cpp"\ncompile_options = {cflags = ["-fplugin=mine.so"]}\n'
    kernel = folder_with(tmp_path / "mine", build, "", "main.cpp")

    done = check(root, kernel)

    assert done.returncode == 3
    assert "'-fplugin=mine.so' is not allowed: it runs other programs" in done.stderr


DOUBLE = Definition.model_validate(
    {
        "name": "double",
        "op_type": "elementwise",
        "axes": {"rows": {"type": "var"}, "n": {"type": "const", "value": 16}},
        "inputs": {"x": {"shape": ["rows", "n"], "dtype": "float32"}},
        "outputs": {"y": {"shape": ["rows", "n"], "dtype": "float32"}},
        "reference": "def run(x):\n    return x * 2\n",
        "properties": [
            {"type": "permutation", "axis": "rows"},
            {"type": "split", "axis": "rows"},
            {"type": "scaling", "inputs": ["x"]},
        ],
    }
)
REMEMBERS = """\
seen = {{}}

def run(x):
    key = {key}
    if key not in seen:
        seen[key] = x * 2
    return seen[key].clone()
"""
KERNELS = {
    "honest": "def run(x):\n    return x * 2\n",
    "permutation of rows": REMEMBERS.format(key="round(float(x.double().sum()), 9)"),
    "split of rows": REMEMBERS.format(key="tuple(x[:4].flatten().tolist())"),
    "scaling of x": "def run(x):\n    return x.clamp(max=1.0) * 2\n",
}
UNIFORM = {"type": "random", "distribution": {"type": "uniform"}}


def rows_of(definition: Definition, **kernels: str) -> TraceSet:
    """A dataset with one workload of 32 rows."""
    made = [solution(text, name=name, definition="double") for name, text in kernels.items()]
    held = dataset(*made, definition=definition)
    workload = Workload(axes={"rows": 32}, inputs={"x": UNIFORM})
    held.workloads["double"] = [Trace(definition="double", workload=workload)]
    return held


def run(held: TraceSet, **settings: Any) -> dict[str, Any]:
    """Run a dataset in memory; give each solution's evaluation by its name, or how else its job ended."""
    with Benchmark(held, quick(**settings), device="cpu") as benchmark:
        steps = list(benchmark.run(benchmark.plan(), dump_traces=False))
    return {
        step.job.solution.name: step.outcome if step.trace is None else step.trace.evaluation
        for step in steps
    }


@pytest.fixture(scope="module")
def with_properties() -> dict[str, Any]:
    return run(rows_of(DOUBLE, **KERNELS))


@pytest.mark.parametrize("broken", [name for name in KERNELS if name != "honest"])
def test_a_broken_property_fails_a_kernel_that_is_right_otherwise(
    with_properties: dict[str, Any], broken: str
) -> None:
    found = with_properties[broken]

    (violation,) = found.correctness.extra["violations"]
    assert found.status == "INCORRECT_NUMERICAL"
    assert violation["code"] == "broken_property"
    assert violation["evidence"].startswith(f"{broken}: ")


def test_a_kernel_that_has_the_properties_passes(with_properties: dict[str, Any]) -> None:
    assert with_properties["honest"].status == "PASSED"


def test_without_the_declaration_those_kernels_pass() -> None:
    silent = DOUBLE.model_copy(update={"properties": []})

    found = run(rows_of(silent, **KERNELS))

    assert {each.status for each in found.values()} == {"PASSED"}


def test_a_property_that_the_reference_lacks_is_the_datasets_fault() -> None:
    odd = DOUBLE.model_copy(update={"reference": "def run(x):\n    return x * 2 + 1\n"})
    held = rows_of(odd, honest="def run(x):\n    return x * 2 + 1\n")

    fault = run(held)["honest"]

    assert isinstance(fault, DatasetFault)
    assert "the reference does not have the declared property, scaling of x" in fault.explanation


DRAWS = """\
import os, torch

def run(x):
    return x * (2 + 1e-6 * os.urandom(1)[0])
"""


def test_bitwise_repeatability_is_a_figure_and_no_failure() -> None:
    silent = DOUBLE.model_copy(update={"properties": []})

    found = run(rows_of(silent, honest=KERNELS["honest"], wavers=DRAWS))

    assert {each.status for each in found.values()} == {"PASSED"}
    assert found["honest"].correctness.bitwise_repeatable is True
    assert found["wavers"].correctness.bitwise_repeatable is False


GATHER = Definition.model_validate(
    {
        "name": "double",
        "op_type": "elementwise",
        "axes": {"rows": {"type": "var"}, "n": {"type": "const", "value": 16}},
        "inputs": {
            "x": {"shape": ["rows", "n"], "dtype": "float32"},
            "picked": {"shape": ["rows"], "dtype": "int64"},
            "factor": {"shape": None, "dtype": "float32"},
        },
        "outputs": {"y": {"shape": ["rows", "n"], "dtype": "float32"}},
        "reference": """\
import torch

def make(axes_and_scalars, device):
    rows, n = axes_and_scalars["rows"], axes_and_scalars["n"]
    x = torch.randn(rows, n, device=device)
    return {"x": x, "picked": torch.randperm(rows, device=device), "unused": 3}

def run(x, picked, factor):
    if rows_repeat(picked):
        raise ValueError("not a permutation")
    return x[picked] * factor

def rows_repeat(picked):
    return len(set(picked.tolist())) != len(picked)
""",
        "custom_inputs_entrypoint": "make",
    }
)
PICKS = "def run(x, picked, factor):\n    return x[picked] * factor\n"
IGNORES = "def run(x, picked, factor):\n    return x * factor\n"
CUSTOM = {"type": "custom"}


def generated(reference: str | None = None, rows: int = 32, **kernels: str) -> TraceSet:
    """A dataset whose inputs come from its own function."""
    definition = GATHER if reference is None else GATHER.model_copy(update={"reference": reference})
    held = rows_of(definition, **kernels)
    factor = {"type": "scalar", "value": 2.0}
    inputs = {"x": CUSTOM, "picked": CUSTOM, "factor": factor}
    workload = Workload(axes={"rows": rows}, inputs=inputs)
    held.workloads["double"] = [Trace(definition="double", workload=workload)]
    return held


@pytest.mark.parametrize("rows", [0, 1, 32])
def test_inputs_come_from_the_definitions_own_function_at_all_sizes(rows: int) -> None:
    found = run(generated(rows=rows, picks=PICKS))

    assert found["picks"].status == "PASSED"
    assert [note.code for note in found["picks"].task_notes] == ["empty_axis"] * (rows == 0)


def test_a_kernel_that_is_wrong_on_generated_inputs_is_found() -> None:
    assert run(generated(ignores=IGNORES))["ignores"].status == "INCORRECT_NUMERICAL"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("return {'x': torch.randn(rows, n)}", "does not make 'picked'"),
        ("return {'x': torch.randn(n), 'picked': torch.arange(rows)}", "makes 'x' float32 [16], where float32 [32,"),
        ("return {'x': torch.randn(rows, n).double(), 'picked': torch.arange(rows)}", "makes 'x' float64"),
        ("return {'x': torch.full((rows, n), float('nan')), 'picked': torch.arange(rows)}", "not finite"),
        ("return [torch.randn(rows, n)]", "gives a list, not inputs by name"),
        ("raise ValueError('no inputs today')", "ValueError: no inputs today"),
        ("open('/proc/1/environ').read()", "Permission"),
        ("import os; return {'x': torch.randn(rows, n), 'picked': torch.tensor([*os.urandom(rows)])}", "same seed"),
    ],
)  # fmt: skip
def test_a_function_that_makes_wrong_inputs_is_the_datasets_fault(body: str, says: str) -> None:
    start = GATHER.reference.index("    x = torch.randn")
    end = GATHER.reference.index("def run(")
    reference = f"{GATHER.reference[:start]}    {body}\n\n{GATHER.reference[end:]}"

    fault = run(generated(reference, picks=PICKS))["picks"]

    assert isinstance(fault, DatasetFault)
    assert "the definition's function for inputs" in fault.explanation
    assert says in fault.explanation


def test_a_custom_input_without_a_function_is_the_datasets_fault() -> None:
    silent = GATHER.model_copy(update={"custom_inputs_entrypoint": None})
    held = generated(picks=PICKS)
    held.definitions["double"] = silent

    fault = run(held)["picks"]

    assert isinstance(fault, DatasetFault)
    assert "names no function that makes inputs (custom_inputs_entrypoint)" in fault.explanation


def test_the_same_seed_generates_the_same_inputs() -> None:
    off = "def run(x, picked, factor):\n    return x * 0 + 100\n"

    first, again, other = (run(generated(off=off), seed=seed)["off"] for seed in (3, 3, 4))

    errors = [each.correctness.max_absolute_error for each in (first, again, other)]
    assert errors[0] == errors[1] != errors[2]


PRIMES = "{2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 127, 257, 1021}"
WRONG_FOR = {
    "n == 0": ("n = 0 (empty)", "if n == 0: raise IndexError('no elements')"),
    "n == 1": ("n = 1 (one)", "if n == 1: return x * 0"),
    "a prime": ("n = 2 (smallest prime)", f"if n in {PRIMES}: return x * 0"),
    "past a tile of 128": ("n = 129 (one past 128)", "if n % 128 == 1 and n > 1: return x * 0"),
    "above 1024": ("n = 1025 (one past 1024)", "if n > 1024: return x * 0"),
}


@pytest.fixture(scope="module")
def edges(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    def tried(source: str, *options: str) -> Any:
        kernel = tmp_path_factory.mktemp("kernel") / "kernel.py"
        kernel.write_text(source)
        return check(root, kernel, "--definition", "increment", "--edges", *options)

    return tried


@pytest.mark.parametrize("wrong", [*WRONG_FOR])
def test_the_smallest_failing_size_is_named(edges: Any, wrong: str) -> None:
    case, line = WRONG_FOR[wrong]
    source = f"def run(x):\n    n = len(x)\n    {line}\n    return x + 1\n"

    done = edges(source, "--json")

    report = json.loads(done.stdout)["edges"]
    assert done.returncode == 1
    assert report["smallest_failing_size"]["case"] == case
    assert report["smallest_failing_stride"] is None


IGNORES_STRIDES = """\
def run(x):
    flat = x.as_strided((len(x),), (1,))
    return flat + 1
"""


def test_a_kernel_that_ignores_strides_is_named_with_shape_and_stride(edges: Any) -> None:
    done = edges(IGNORES_STRIDES)

    assert done.returncode == 1
    assert "Smallest failing stride: x padded: shape [100], strides [2]\n" in done.stdout
    assert "15 of 16 cases passed (15 sizes, 1 stride)\n" in done.stdout


def test_an_honest_kernel_passes_all_edge_cases(edges: Any) -> None:
    done = edges("def run(x):\n    return x + 1\n")

    assert done.returncode == 0
    assert done.stdout.endswith("16 of 16 cases passed (15 sizes, 1 stride)\n")


def test_a_generator_is_kept_on_the_way_to_sol_execbench(tmp_path: Path) -> None:
    held = generated(picks=PICKS)
    number = {"factor": {"type": "custom"}}
    (trace,) = held.workloads["double"]
    workload = trace.workload.model_copy(update={"inputs": {**trace.workload.inputs, **number}})
    root = tmp_path / "dataset"
    save_json_file(GATHER, root / "definitions/elementwise/double.json")
    line = Trace(definition="double", workload=Workload.model_validate(workload.to_dict()))
    save_jsonl_file([line], root / "workloads/elementwise/double.jsonl")

    done = call("export", "sol-execbench", "--local", root, "--output", tmp_path / "sol")

    (file,) = (tmp_path / "sol").rglob("definition.json")
    written = json.loads((file.parent / "workload.jsonl").read_text())
    assert done.returncode == 0, done.stderr
    assert json.loads(file.read_text())["custom_inputs_entrypoint"] == "make"
    assert {name: each["type"] for name, each in written["inputs"].items()} == {
        "x": "custom",
        "picked": "custom",
        "factor": "custom",
    }
