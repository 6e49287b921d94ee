"""SOL-ExecBench's problems, as they were described: brought here strictly, judged by their tolerances, and back."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from flashinfer_bench.cli.main import cli
from flashinfer_bench.data import TraceSet
from flashinfer_bench.data.distributions import FloatForm
from flashinfer_bench.data.workload import SafetensorsInput
from tests.marks import mostly_full

torch = pytest.importorskip("torch", reason="custom inputs are tensors")

REFERENCE = """\
import torch


def make(axes, device):
    return {"index": torch.randint(0, axes["m"], (axes["n"],), device=device)}


def run(table, index, alpha):
    return table[index] * alpha
"""
DEFINITION: dict[str, Any] = {
    "name": "gather",
    "description": "Rows of a table.",
    "hf_id": "org/model",
    "axes": {
        "n": {"type": "var", "description": "rows taken"},
        "m": {"type": "const", "value": 8},
        "twice": {"type": "expr", "expression": "2 * n"},
    },
    "inputs": {
        "table": {"shape": ["m"], "dtype": "float32", "description": "what is taken from"},
        "index": {"shape": ["n"], "dtype": "int64"},
        "alpha": {"shape": None, "dtype": "float32"},
    },
    "outputs": {"out": {"shape": ["n"], "dtype": "float32"}},
    "custom_inputs_entrypoint": "make",
}
WORKLOAD: dict[str, Any] = {
    "uuid": "w5",
    "axes": {"n": 5},
    "inputs": {
        "table": {"type": "random"},
        "index": {"type": "custom"},
        "alpha": {"type": "scalar", "value": 0.5},
    },
    "tolerance": {
        "max_atol": 1e-6,
        "max_rtol": 1e-3,
        "required_matched_ratio": 1.0,
        "max_error_cap": 2.5,
        "allow_negative_inf": True,
    },
}
SOLUTION: dict[str, Any] = {
    "name": "gather_torch",
    "definition": "gather",
    "author": "somebody",
    "description": "as the reference does",
    "spec": {
        "languages": ["pytorch"],
        "target_hardware": ["LOCAL"],
        "entry_point": "main.py::run",
        "dependencies": ["torch"],
        "destination_passing_style": False,
        "compile_options": None,
    },
    "sources": [
        {"path": "main.py", "content": "def run(t, i, a):\n    return t[i] * a * 1.0001\n"}
    ],
}


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    folder = tmp_path / "problems" / "L1" / "gather"
    folder.mkdir(parents=True)
    put(folder / "definition.json", DEFINITION)
    (folder / "reference.py").write_text(REFERENCE)
    put(folder / "workload.jsonl", WORKLOAD)
    put(folder / "solution.json", SOLUTION)
    return folder


def put(file: Path, content: object) -> None:
    file.write_text(f"{json.dumps(content)}\n")


def changed(content: dict[str, Any], place: str, value: object) -> dict[str, Any]:
    """Copy with another value at a dotted place."""
    copied = copy.deepcopy(content)
    here: Any = copied
    *above, last = place.split(".")
    for part in above:
        here = here[part]
    here[last] = value
    return copied


def call(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(each) for each in arguments])


def bring(problem: Path, output: Path) -> Result:
    return call("import", "sol-execbench", problem.parents[1], "--output", output, "--json")


def index_of(dataset: Path) -> Any:
    trace_set = TraceSet.from_path(dataset)
    (trace,) = trace_set.workloads["gather"]
    source = trace.workload.inputs["index"]
    assert isinstance(source, SafetensorsInput)
    return trace_set.get_workload_blob_tensor(source.path)[source.tensor_key]


def test_a_problem_becomes_a_definition_with_workloads_and_solutions(
    problem: Path, tmp_path: Path
) -> None:
    done = bring(problem, tmp_path / "out")

    dataset = TraceSet.from_path(tmp_path / "out")
    definition = dataset.definitions["gather"]
    (trace,) = dataset.workloads["gather"]
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["import"]["left_out"] == []
    assert definition.reference == REFERENCE
    assert definition.tags == ["source:sol-execbench/L1/gather", "hf_id:org/model"]
    assert definition.resolve_axes({"n": 5}) == {"n": 5, "m": 8, "twice": 10}
    assert trace.workload.uuid == "w5"
    assert trace.workload.tolerance.to_dict() == {
        "rtol": 1e-3,
        "atol": 1e-6,
        "required_matched_ratio": 1.0,
        "max_error_cap": 2.5,
        "allow_negative_inf": True,
    }
    assert definition.judge == "summed"
    assert dataset.get_solution("gather_torch").spec.language == "python"


def test_custom_inputs_are_made_once_from_a_recorded_seed(problem: Path, tmp_path: Path) -> None:
    bring(problem, tmp_path / "out")
    bring(problem, tmp_path / "again")

    index = index_of(tmp_path / "out")
    (file,) = (tmp_path / "out" / "blob").rglob("*.safetensors")
    torch.manual_seed(42)
    assert torch.equal(index, torch.randint(0, 8, (5,)))
    assert torch.equal(index, index_of(tmp_path / "again"))
    assert file.name == "custom_seed42_w5.safetensors"


CUSTOM_ONLY = {"index": {"type": "custom"}}
WITH_A_CONSTANT = REFERENCE.replace(", alpha", "").replace(" * alpha", " * 0.5")
DRAWN_ANEW = {
    **DEFINITION,
    "inputs": {name: DEFINITION["inputs"][name] for name in ("table", "index")},
}


@pytest.fixture
def kept(problem: Path, tmp_path: Path) -> Path:
    """A dataset of a problem whose workload lists custom inputs only, with its function."""
    put(problem / "definition.json", DRAWN_ANEW)
    (problem / "reference.py").write_text(WITH_A_CONSTANT)
    put(problem / "workload.jsonl", {**WORKLOAD, "inputs": CUSTOM_ONLY})
    source = {"path": "main.py", "content": "def run(t, i):\n    return t[i] * 0.5\n"}
    put(problem / "solution.json", {**SOLUTION, "sources": [source]})
    output = tmp_path / "kept"
    done = call(
        "import", "sol-execbench", problem.parents[1], "--keep-generators", "--output", output
    )
    assert done.exit_code == 0, done.output
    return output


def test_a_kept_function_makes_inputs_anew_in_each_run_and_nothing_is_stored(kept: Path) -> None:
    quick = ("--iterations", 2, "--num-trials", 1, "--warmup-runs", 0)

    done = call("run", "--local", kept, "--device", "cpu", *quick)

    held = TraceSet.from_path(kept)
    (trace,) = held.traces["gather"]
    assert done.exit_code == 0, done.output
    assert held.definitions["gather"].custom_inputs_entrypoint == "make"
    assert held.workloads["gather"][0].workload.inputs["index"].type == "custom"
    assert trace.evaluation.status == "PASSED"
    assert list(kept.rglob("*.safetensors")) == []


def test_a_kept_function_is_written_back_as_it_was(kept: Path, tmp_path: Path) -> None:
    done = call("export", "sol-execbench", "--local", kept, "--output", tmp_path / "sol")

    back = tmp_path / "sol" / "L1" / "gather"
    definition = json.loads((back / "definition.json").read_text())
    workload = json.loads((back / "workload.jsonl").read_text())
    assert done.exit_code == 0, done.stderr
    assert definition["custom_inputs_entrypoint"] == "make"
    assert definition["reference"] == WITH_A_CONSTANT
    assert workload["inputs"] == CUSTOM_ONLY
    assert workload["uuid"] == "w5"


@pytest.mark.parametrize(
    ("max_rtol", "status"),
    mostly_full([(1e-3, "PASSED"), (1e-6, "INCORRECT_NUMERICAL")], (1e-6, "INCORRECT_NUMERICAL")),
)
def test_an_answer_is_judged_by_the_tolerance_of_its_workload(
    problem: Path, tmp_path: Path, max_rtol: float, status: str
) -> None:
    put(problem / "workload.jsonl", changed(WORKLOAD, "tolerance.max_rtol", max_rtol))
    bring(problem, tmp_path / "out")
    quick = ("--iterations", 2, "--num-trials", 1, "--warmup-runs", 0, "--exit-zero")

    call("run", "--local", tmp_path / "out", "--device", "cpu", *quick)

    (trace,) = TraceSet.from_path(tmp_path / "out").traces["gather"]
    assert trace.evaluation.status == status


def test_what_was_brought_is_written_back_as_it_was(problem: Path, tmp_path: Path) -> None:
    bring(problem, tmp_path / "out")

    done = call(
        "export", "sol-execbench", "--local", tmp_path / "out", "--output", tmp_path / "sol"
    )

    back = tmp_path / "sol" / "L1" / "gather"
    definition = json.loads((back / "definition.json").read_text())
    workload = json.loads((back / "workload.jsonl").read_text())
    solution = json.loads((back / "solutions" / "gather_torch.json").read_text())
    stored = {
        "type": "safetensors",
        "path": "L1/gather/custom_seed42_w5.safetensors",
        "tensor_key": "index",
    }
    assert done.exit_code == 0, done.stderr
    assert definition == {
        **{key: each for key, each in DEFINITION.items() if key != "custom_inputs_entrypoint"},
        "reference": REFERENCE,
    }
    assert (back / "reference.py").read_text() == REFERENCE
    assert workload == changed(WORKLOAD, "inputs.index", stored)
    assert changed(solution, "spec.compile_options", None) == SOLUTION


def test_a_dataset_that_was_brought_survives_there_and_back(problem: Path, tmp_path: Path) -> None:
    bring(problem, tmp_path / "out")
    call("export", "sol-execbench", "--local", tmp_path / "out", "--output", tmp_path / "sol")

    call("import", "sol-execbench", tmp_path / "sol", "--output", tmp_path / "back")

    assert (
        TraceSet.from_path(tmp_path / "back").to_dict()
        == TraceSet.from_path(tmp_path / "out").to_dict()
    )
    assert torch.equal(index_of(tmp_path / "back"), index_of(tmp_path / "out"))


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ("axes.twice.expression", "ceil(n)", "'ceil(n)' is not arithmetic over axes"),
        ("inputs.table.dtype", "uint8", "not 'uint8'"),
        ("inputs.table.shape", ["k"], "unknown axis 'k'"),
        ("reference", "def run():\n    pass\n", "the reference is run(), the inputs are table"),
        ("custom_inputs_entrypoint", "other", "the reference has no function 'other'"),
        ("custom_inputs_entrypoint", None, "has no custom_inputs_entrypoint"),
    ],
)
def test_what_is_not_known_of_a_problem_is_refused_by_name(
    problem: Path, tmp_path: Path, place: str, value: object, words: str
) -> None:
    put(problem / "definition.json", changed(DEFINITION, place, value))

    done = bring(problem, tmp_path / "out")

    assert done.exit_code == 2
    assert "nothing was written: no problem is left" in done.stderr
    assert words in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ("inputs.table", {"type": "zeros"}, "unknown type 'zeros'"),
        ("axes", {}, "no value for variable axis 'n'"),
        ("tolerance.max_atol", -1, "max_atol"),
        ("tolerance.required_matched_ratio", None, "required_matched_ratio"),
        ("uuid", "../w", "cannot be a file or folder name"),
    ],
)
def test_what_is_not_known_of_a_workload_leaves_out_that_workload(
    problem: Path, tmp_path: Path, place: str, value: object, words: str
) -> None:
    other = changed(changed(WORKLOAD, "uuid", "w6"), place, value)
    with (problem / "workload.jsonl").open("a") as file:
        file.write(json.dumps(other))

    done = bring(problem, tmp_path / "out")

    (left,) = json.loads(done.stdout)["import"]["left_out"]
    assert words in left["reason"]
    assert [
        each.workload.uuid for each in TraceSet.from_path(tmp_path / "out").workloads["gather"]
    ] == ["w5"]


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ("spec.languages", ["mojo"], "'mojo' is not known (pytorch, triton, cuda_cpp"),
        ("spec.languages", ["triton", "cuda_cpp"], "compiled code and Python do not mix"),
        ("spec.languages", ["cuda_cpp"], "'main.py' is no file in cuda_cpp"),
        ("sources", [], "sources"),
        ("spec.entry_point", "run", "'run' is no file in pytorch"),
        ("spec.destination_passing_style", None, "destination_passing_style"),
    ],
)
def test_a_solution_that_would_run_otherwise_here_is_left_out(
    problem: Path, tmp_path: Path, place: str, value: object, words: str
) -> None:
    put(problem / "solution.json", changed(SOLUTION, place, value))

    done = bring(problem, tmp_path / "out")

    (left,) = json.loads(done.stdout)["import"]["left_out"]
    assert (left["kind"], left["problem"]) == ("solution", "L1/gather")
    assert words in left["reason"]
    assert TraceSet.from_path(tmp_path / "out").get_solution("gather_torch") is None


@pytest.mark.parametrize(
    ("languages", "dsl", "count"),
    [
        (["triton"], None, 0),
        (["pytorch", "triton"], None, 0),
        (["cute_dsl"], "cute", 0),
        (["cutile"], "cutile", 1),
        (["cudnn_frontend"], "cudnn_frontend", 1),
    ],
)
def test_languages_that_nothing_was_tried_with_are_brought_and_named(
    problem: Path, tmp_path: Path, languages: list[str], dsl: str | None, count: int
) -> None:
    put(problem / "solution.json", changed(SOLUTION, "spec.languages", languages))

    done = bring(problem, tmp_path / "out")

    solution = TraceSet.from_path(tmp_path / "out").get_solution("gather_torch")
    assert solution is not None
    assert solution.spec.dsl == dsl
    assert len(json.loads(done.stdout)["import"]["notes"]) == count
    assert done.stderr.count("which nothing here was tried with") == count


def test_a_number_that_a_function_makes_may_be_a_tensor_without_axes(
    problem: Path, tmp_path: Path
) -> None:
    source = REFERENCE.replace('return {"index"', 'return {"alpha": torch.tensor(0.25), "index"')
    (problem / "reference.py").write_text(source)
    put(problem / "workload.jsonl", changed(WORKLOAD, "inputs.alpha", {"type": "custom"}))

    done = bring(problem, tmp_path / "out")

    (trace,) = TraceSet.from_path(tmp_path / "out").workloads["gather"]
    assert json.loads(done.stdout)["import"]["left_out"] == []
    assert trace.workload.inputs["alpha"].to_dict() == {"type": "scalar", "value": 0.25}


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ("torch.zeros(5)", "gives a Tensor, not inputs by name"),
        ("{}", "does not make 'index'"),
        ("{'index': torch.zeros(5)}", "float32 [5], where int64 [5] is declared"),
        ("{'index': torch.zeros(4, dtype=torch.int64)}", "int64 [4], where int64 [5]"),
        ("{'index': [0]}", "a list, not a tensor"),
        ("axes['height']", "KeyError"),
        ("__import__('os')._exit(7)", "exit code 7"),
        ("__import__('sys').exit(3)", "exit(3)"),
    ],
)
def test_what_a_problems_function_does_is_its_own_fault_and_no_other_problems(
    problem: Path, tmp_path: Path, returned: str, words: str
) -> None:
    source = REFERENCE.replace(
        '{"index": torch.randint(0, axes["m"], (axes["n"],), device=device)}', returned
    )
    assert source != REFERENCE
    other = problem.with_name("other")
    other.mkdir()
    put(other / "definition.json", changed(DEFINITION, "name", "other"))
    put(other / "workload.jsonl", WORKLOAD)
    (other / "reference.py").write_text(source)

    done = bring(problem, tmp_path / "out")

    left = json.loads(done.stdout)["import"]["left_out"]
    assert [(each["problem"], each["kind"]) for each in left] == [
        ("L1/other", "workload"),
        ("L1/other", "problem"),
    ]
    assert words in left[0]["reason"]
    assert list(TraceSet.from_path(tmp_path / "out").definitions) == ["gather"]


def stored_beside(problem: Path) -> None:
    save(problem / "t.safetensors", torch.arange(8.0))


def stored_at_the_root(problem: Path) -> None:
    save(problem.parents[1] / "t.safetensors", torch.arange(8.0))


def stored_too_short(problem: Path) -> None:
    save(problem / "t.safetensors", torch.arange(7.0))


def stored_as_a_pointer(problem: Path) -> None:
    (problem / "t.safetensors").write_text("version https://git-lfs.github.com/spec/v1\n")


def save(file: Path, tensor: Any) -> None:
    from safetensors.torch import save_file

    save_file({"table": tensor}, file)


@pytest.mark.parametrize("place", [stored_beside, stored_at_the_root])
def test_stored_inputs_are_found_beside_the_problem_or_at_the_root(
    problem: Path, tmp_path: Path, place: Callable[[Path], None]
) -> None:
    place(problem)
    source = {"type": "safetensors", "path": "t.safetensors", "tensor_key": "table"}
    put(problem / "workload.jsonl", changed(WORKLOAD, "inputs.table", source))

    done = bring(problem, tmp_path / "out")

    dataset = TraceSet.from_path(tmp_path / "out")
    (trace,) = dataset.workloads["gather"]
    stored = dataset.get_workload_blob_tensor(trace.workload.inputs["table"].path)["table"]
    assert torch.equal(stored, torch.arange(8.0))
    assert json.loads(done.stdout)["import"]["left_out"] == []


@pytest.mark.parametrize(
    ("place", "path", "words"),
    [
        (stored_too_short, "t.safetensors", "float32 [7], where float32 [8] is declared"),
        (stored_as_a_pointer, "t.safetensors", "git lfs pull"),
        (stored_beside, "other.safetensors", "name the folder of stored tensors with --trace-dir"),
        (stored_beside, "../../../t.safetensors", "leaves the dataset"),
        (stored_beside, "definition.json", "no header"),
    ],
)
def test_a_stored_input_that_is_not_clear_is_refused(
    problem: Path, tmp_path: Path, place: Callable[[Path], None], path: str, words: str
) -> None:
    place(problem)
    source = {"type": "safetensors", "path": path, "tensor_key": "table"}
    put(problem / "workload.jsonl", changed(WORKLOAD, "inputs.table", source))

    done = bring(problem, tmp_path / "out")

    assert done.exit_code == 2
    assert words in done.stderr


def test_many_workloads_with_one_fault_are_one_line(problem: Path, tmp_path: Path) -> None:
    faulty = changed(WORKLOAD, "tolerance.max_error_cap", -2.0)
    lines = [WORKLOAD, *(changed(faulty, "uuid", f"w{n}") for n in range(20, 40))]
    (problem / "workload.jsonl").write_text("\n".join(map(json.dumps, lines)))

    done = call("import", "sol-execbench", problem, "--output", tmp_path / "out")

    assert done.exit_code == 0
    (line,) = done.stderr.splitlines()
    assert line.startswith("warning: L1/gather: 20 workloads were left out; the first: ")


def test_nothing_is_written_into_what_is_read(problem: Path, tmp_path: Path) -> None:
    bring(problem, tmp_path / "out")

    inside = bring(problem, problem / "out")
    back = call(
        "export", "sol-execbench", "--local", tmp_path / "out", "--output", tmp_path / "out" / "x"
    )

    assert (inside.exit_code, back.exit_code) == (2, 2)
    assert "name a folder outside" in inside.stderr
    assert "name a folder outside" in back.stderr


@pytest.mark.parametrize("key", ["hf_id", "op_type", "description", "custom_inputs_entrypoint"])
def test_an_empty_text_is_none(problem: Path, tmp_path: Path, key: str) -> None:
    """The published FlashInfer-Bench problems have an empty `hf_id`."""
    workload = changed(WORKLOAD, "inputs.index", {"type": "random"})
    put(problem / "definition.json", changed(DEFINITION, key, ""))
    put(problem / "workload.jsonl", workload)

    done = bring(problem, tmp_path / "out")

    assert json.loads(done.stdout)["import"]["left_out"] == [], done.stderr


def test_files_that_nobody_described_are_named(problem: Path, tmp_path: Path) -> None:
    (problem / "notes.txt").write_text("x")
    (problem / "kernel.py").write_text("x = 1")

    done = bring(problem, tmp_path / "out")

    (left,) = json.loads(done.stdout)["import"]["left_out"]
    assert (left["kind"], left["name"]) == ("file", "notes.txt")


@pytest.mark.parametrize(
    ("file", "change", "words"),
    [
        ("definition", {"judge": "exact"}, "its judge, exact, has no form there"),
        ("workload", {"type": "random", "distribution": {"type": "uniform"}}, "has a distribution"),
    ],
)
def test_what_has_no_form_there_is_left_out_and_named(
    problem: Path, tmp_path: Path, file: str, change: dict[str, Any], words: str
) -> None:
    bring(problem, tmp_path / "out")
    (path,) = (tmp_path / "out" / f"{file}s").rglob("gather.json*")
    content = json.loads(path.read_text())
    if file == "definition":
        content |= change
    else:
        content["workload"]["inputs"]["table"] = change
    put(path, content)

    done = call(
        "export", "sol-execbench", "--local", tmp_path / "out", "--output", tmp_path / "sol"
    )

    assert done.exit_code == 2
    assert words in done.stderr


def brought(problem: Path, tmp_path: Path) -> tuple[TraceSet, dict[str, Any]]:
    done = bring(problem, tmp_path / "out")
    assert done.exit_code == 0, done.stderr
    return TraceSet.from_path(tmp_path / "out"), json.loads(done.stdout)["import"]


def test_what_may_be_left_out_has_the_defaults_of_their_loader(
    problem: Path, tmp_path: Path
) -> None:
    definition = changed(DEFINITION, "inputs.table.shape", ["8"])
    definition["axes"] |= {"n": {}, "m": {"value": 8}, "twice": {"expression": "2 * n"}}
    put(problem / "definition.json", definition | {"op_type": "gather", "constraints": ["n > 0"]})
    (problem / "kernel.py").write_text("x = 1")
    workload = {"uuid": "w5", "axes": {"n": 5}, "inputs": {"index": {"type": "custom"}}, "seed": 1}
    put(problem / "workload.jsonl", workload | {"tolerance": {"max_atol": 0}})
    spec = {"languages": [], "target_hardware": ["B200"], "entry_point": "main.py::run"}
    put(problem / "solution.json", changed(SOLUTION, "spec", spec) | {"definition": "other"})

    dataset, said = brought(problem, tmp_path)

    (trace,) = dataset.workloads["gather"]
    assert said["left_out"] == []
    assert trace.workload.tolerance.to_dict() == {
        "rtol": 0.01,
        "atol": 1e-30,
        "required_matched_ratio": 0.99,
    }
    assert {name: each.type for name, each in trace.workload.inputs.items()} == {
        "table": "random",
        "index": "safetensors",
        "alpha": "random",
    }
    assert dataset.definitions["gather"].get_input_shapes({"n": 5}) == [[8], [5], None]
    assert dataset.get_solution("gather_torch").spec.destination_passing_style
    assert dataset.get_solution("gather_torch").definition == "gather"


def test_random_inputs_are_drawn_as_their_names_say(problem: Path, tmp_path: Path) -> None:
    names = {"norm_weight": "float32", "x_rstd": "float64", "table": "float32"}
    inputs = {name: {"shape": ["m"], "dtype": dtype} for name, dtype in names.items()}
    definition = changed(DEFINITION, "inputs", inputs | {"index": DEFINITION["inputs"]["index"]})
    drawn = {name: {"type": "random"} for name in names}
    reference = REFERENCE.replace("table, index, alpha", "norm_weight, x_rstd, table, index")
    (problem / "reference.py").write_text(reference)
    put(problem / "definition.json", definition)
    put(
        problem / "workload.jsonl",
        changed(WORKLOAD, "inputs", drawn | {"index": {"type": "custom"}}),
    )

    dataset, _ = brought(problem, tmp_path)

    (trace,) = dataset.workloads["gather"]
    assert {name: trace.workload.inputs[name].distribution for name in names} == {
        "norm_weight": FloatForm(form="ones"),
        "x_rstd": FloatForm(form="positive"),
        "table": None,
    }


def test_a_constant_that_a_workload_changes_is_the_workloads(problem: Path, tmp_path: Path) -> None:
    lines = [WORKLOAD, changed(changed(WORKLOAD, "uuid", "w6"), "axes.m", 9)]
    (problem / "workload.jsonl").write_text("\n".join(map(json.dumps, lines)))

    dataset, _ = brought(problem, tmp_path)

    assert [each.workload.axes["m"] for each in dataset.workloads["gather"]] == [8, 9]


def test_stored_inputs_lie_below_the_trace_dir(problem: Path, tmp_path: Path) -> None:
    folder = tmp_path / "traces" / "blob"
    folder.mkdir(parents=True)
    save(folder / "t.safetensors", torch.arange(8.0))
    path = "data/flashinfer-trace/blob/t.safetensors"
    source = {"type": "safetensors", "path": path, "tensor_key": "table"}
    put(problem / "workload.jsonl", changed(WORKLOAD, "inputs.table", source))
    arguments = ("import", "sol-execbench", problem, "--output", tmp_path / "out")

    without = call(*arguments)
    done = call(*arguments, "--trace-dir", tmp_path / "traces")

    assert (without.exit_code, done.exit_code) == (2, 0)


def test_compiled_code_keeps_its_options(problem: Path, tmp_path: Path) -> None:
    spec = {
        "languages": ["cutlass", "cuda_cpp"],
        "target_hardware": ["B200"],
        "entry_point": "main.cu::run",
        "compile_options": {"cuda_cflags": ["-O2"]},
    }
    solution = changed(SOLUTION, "spec", spec)
    solution["sources"] = [{"path": "main.cu"}]
    put(problem / "solution.json", solution)
    (problem / "main.cu").write_text("// a kernel\n")

    dataset, _ = brought(problem, tmp_path)
    call("export", "sol-execbench", "--local", tmp_path / "out", "--output", tmp_path / "sol")

    (made,) = dataset.solutions["gather"]
    (back,) = (tmp_path / "sol").rglob("solutions/*.json")
    options = {"cflags": [], "cuda_cflags": ["-O2"], "ld_flags": ["-lcuda"]}
    assert (made.spec.language, made.spec.binding) == ("cuda", "torch")
    assert made.sources[0].content == "// a kernel\n"
    assert json.loads(back.read_text())["spec"]["compile_options"] == options


def _row(**update: str) -> dict[str, Any]:
    """Give the problem as a row of the hub's table."""
    row: dict[str, Any] = {key: DEFINITION[key] for key in ("name", "description", "hf_id")}
    row |= {key: json.dumps(DEFINITION[key]) for key in ("axes", "inputs", "outputs")}
    row |= {"reference": REFERENCE, "custom_inputs_entrypoint": "make"}
    return row | {"workloads": json.dumps([WORKLOAD])} | update


def test_a_row_ends_where_its_line_does(problem: Path, tmp_path: Path) -> None:
    """Not at a separator of Unicode within a text, which JSON need not escape."""
    rows = tmp_path / "L1.jsonl"
    rows.write_text(json.dumps(_row(description="one\u2028two\x85"), ensure_ascii=False) + "\n")

    done = call("import", "sol-execbench", rows, "--output", tmp_path / "out")

    assert done.exit_code == 0, done.stderr
    dataset = TraceSet.from_path(tmp_path / "out")
    assert "one\u2028two" in (dataset.definitions["gather"].description or "")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("L1.jsonl", b"\xff\xfe", "not JSON: "),
        ("L1.json", b"[" * 100_000, "not JSON: "),
        ("L1.parquet", b"PAR1 and no more", "not Parquet: "),
        ("L1.jsonl", b"7\n", "row 1: should be an object, not 7"),
        (
            "L1.jsonl",
            f"{json.dumps(_row())}\n".encode() * 2,
            "row 2: another row is called 'gather'",
        ),
    ],
    ids=["bytes", "brackets", "parquet", "number", "twice"],
)
def test_rows_that_are_no_table_are_the_users_mistake(
    tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    rows = tmp_path / name
    rows.write_bytes(content)

    done = call("import", "sol-execbench", rows, "--output", tmp_path / "out")

    assert done.exit_code == 2, done.stderr
    assert done.stderr.startswith(f"error: {rows}: {said}")
    assert not (tmp_path / "out").exists()


def test_rows_of_the_hubs_table_are_problems(problem: Path, tmp_path: Path) -> None:
    rows = tmp_path / "L1.jsonl"
    put(rows, _row())

    done = call("import", "sol-execbench", rows, "--output", tmp_path / "out")

    assert done.exit_code == 0, done.stderr
    dataset = TraceSet.from_path(tmp_path / "out")
    assert dataset.definitions["gather"].tags[0] == "source:sol-execbench/L1/gather"


def test_problems_of_one_name_in_two_groups_are_told_apart(problem: Path, tmp_path: Path) -> None:
    shutil.copytree(problem, problem.parents[1] / "L2" / "gather")

    dataset, _ = brought(problem, tmp_path)

    assert set(dataset.definitions) == {"gather", "gather_L2"}


def test_rows_in_parquet_are_problems(problem: Path, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.Table.from_pylist([_row()])
    parquet.write_table(table, tmp_path / "Quant.parquet")

    done = call("import", "sol-execbench", tmp_path / "Quant.parquet", "--output", tmp_path / "out")

    assert done.exit_code == 0, done.stderr
    dataset = TraceSet.from_path(tmp_path / "out")
    assert dataset.definitions["gather"].tags[0] == "source:sol-execbench/Quant/gather"


def test_random_four_bit_inputs_are_brought_and_run(problem: Path, tmp_path: Path) -> None:
    packed = {"shape": ["n", "128"], "dtype": "float4_e2m1fn_x2"}
    source = "import torch\n\n\ndef run(x):\n    return x.view(torch.uint8).float()\n"
    definition = changed(DEFINITION, "inputs", {"x": packed})
    definition = changed(definition, "outputs", {"out": {"shape": ["n", "64"], "dtype": "float32"}})
    put(
        problem / "definition.json",
        definition | {"reference": source, "custom_inputs_entrypoint": None},
    )
    put(problem / "workload.jsonl", changed(WORKLOAD, "inputs", {}))
    sources = [{"path": "main.py", "content": source}]
    put(problem / "solution.json", SOLUTION | {"sources": sources})
    bring(problem, tmp_path / "out")
    quick = ("--iterations", 2, "--num-trials", 1, "--warmup-runs", 0)

    done = call("run", "--local", tmp_path / "out", "--device", "cpu", *quick)

    assert done.exit_code == 0, done.output


FOUR_BITS = """\
import torch


def make(axes, device):
    packed = torch.arange(axes["half"] * axes["n"], dtype=torch.uint8, device=device)
    return {"x": packed.view(axes["n"], axes["half"]).view(torch.float4_e2m1fn_x2)}


def run(x):
    return x.view(torch.uint8).float()
"""


def test_four_bit_inputs_that_a_function_makes_count_pairs_there_and_elements_here(
    problem: Path, tmp_path: Path
) -> None:
    axes = {
        "n": {"type": "var"},
        "k": {"type": "const", "value": 6},
        "half": {"type": "expr", "expression": "k // 2"},
    }
    definition = {
        "name": "wide",
        "axes": axes,
        "inputs": {"x": {"shape": ["n", "half"], "dtype": "float4_e2m1"}},
        "outputs": {"out": {"shape": ["n", "half"], "dtype": "float32"}},
        "custom_inputs_entrypoint": "make",
        "reference": FOUR_BITS,
    }
    put(problem / "definition.json", definition)
    custom = {"uuid": "w", "axes": {"n": 2}, "inputs": {"x": {"type": "custom"}}}
    put(problem / "workload.jsonl", custom)
    (problem / "solution.json").unlink()

    done = bring(problem, tmp_path / "out")

    assert done.exit_code == 0, done.stderr
    brought = TraceSet.from_path(tmp_path / "out").definitions["wide"]
    assert list(map(list, brought.get_input_shapes({"n": 2}))) == [[2, 6]]
    checked = call("validate", "--local", tmp_path / "out", "--checks", "workload")
    assert "0 errors" in checked.stdout
    call("export", "sol-execbench", "--local", tmp_path / "out", "--output", tmp_path / "sol")
    back = json.loads((tmp_path / "sol" / "L1" / "gather" / "definition.json").read_text())
    assert back["inputs"] == definition["inputs"]
    assert back["axes"] == axes
    call("import", "sol-execbench", tmp_path / "sol", "--output", tmp_path / "again")
    again = TraceSet.from_path(tmp_path / "again").to_dict()
    assert again == TraceSet.from_path(tmp_path / "out").to_dict()


def test_a_number_that_every_workload_passes_for_a_tensor_is_a_scalar(
    problem: Path, tmp_path: Path
) -> None:
    put(
        problem / "workload.jsonl",
        changed(WORKLOAD, "inputs.table", {"type": "scalar", "value": 2}),
    )

    dataset, _ = brought(problem, tmp_path)

    assert dataset.definitions["gather"].inputs["table"].shape is None


def test_a_number_that_only_some_workloads_pass_for_a_tensor_leaves_them_out(
    problem: Path, tmp_path: Path
) -> None:
    some = changed(WORKLOAD, "inputs.table", {"type": "scalar", "value": 2}) | {"uuid": "w6"}
    lines = [json.dumps(each) for each in (WORKLOAD, some)]
    (problem / "workload.jsonl").write_text("\n".join(lines))

    done = bring(problem, tmp_path / "out")

    assert "input 'table' is a tensor: here it cannot be passed as a number" in done.stderr


def test_a_reference_that_writes_into_an_input_writes_into_a_copy(
    problem: Path, tmp_path: Path
) -> None:
    start = REFERENCE.partition("def run")[0]
    source = (
        f"{start}def run(table, index, alpha):\n    table.mul_(alpha)\n    return table[index]\n"
    )
    put(problem / "definition.json", DEFINITION | {"reference": source})

    dataset, _ = brought(problem, tmp_path)
    call("export", "sol-execbench", "--local", tmp_path / "out", "--output", tmp_path / "sol")
    call("import", "sol-execbench", tmp_path / "sol", "--output", tmp_path / "back")

    made = dataset.definitions["gather"].reference
    names: dict[str, Any] = {}
    exec(made, names)  # as the judge does
    table, index = torch.ones(8), torch.tensor([3])
    assert names["run"](table, index, 2.0).item() == 2.0
    assert torch.equal(table, torch.ones(8))
    assert TraceSet.from_path(tmp_path / "back").definitions["gather"].reference == made


def test_uuids_that_two_problems_share_are_told_apart(problem: Path, tmp_path: Path) -> None:
    other = problem.parent / "other"
    shutil.copytree(problem, other)
    put(other / "definition.json", DEFINITION | {"name": "other"})
    (other / "solution.json").unlink()

    dataset, _ = brought(problem, tmp_path)

    uuids = [each.workload.uuid for group in dataset.workloads.values() for each in group]
    assert sorted(uuids) == ["other-w5", "w5"]


def test_settings_are_said_as_options(problem: Path, tmp_path: Path) -> None:
    put(problem / "config.json", {"iterations": 20, "seed": 7, "benchmark_reference": False})

    done = bring(problem, tmp_path / "out")

    assert "a run follows it with --iterations 20 --seed 7 --no-profile-baseline" in done.stderr


def test_settings_with_unknown_keys_are_named(problem: Path, tmp_path: Path) -> None:
    put(problem / "config.json", {"iteration": 20})

    done = bring(problem, tmp_path / "out")

    assert done.exit_code == 0
    assert "iteration" in done.stderr


def test_a_reference_that_returns_outputs_by_name_returns_them_in_order(
    problem: Path, tmp_path: Path
) -> None:
    source = REFERENCE.replace(
        "    return table[index] * alpha\n",
        "    def other():\n        return {}\n\n"
        '    return {"more": other(), "second": table.sum(), "out": table[index] * alpha}\n',
    )
    outputs = DEFINITION["outputs"] | {"second": {"shape": [], "dtype": "float32"}}
    put(problem / "definition.json", changed(DEFINITION, "outputs", outputs))
    (problem / "reference.py").write_text(source)

    bring(problem, tmp_path / "out")

    definition = TraceSet.from_path(tmp_path / "out").definitions["gather"]
    module: dict[str, Any] = {}
    exec(definition.reference, module)
    out, second = module["run"](torch.arange(8.0), torch.tensor([1, 2]), 0.5)
    assert definition.reference.startswith(source.rstrip())
    assert torch.equal(out, torch.tensor([0.5, 1.0]))
    assert second == 28
