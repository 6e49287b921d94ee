"""The first day with a dataset of one's own, with the real worker; no JSON is written by hand."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from flashinfer_bench.data import (
    Definition,
    Trace,
    TraceSet,
    Workload,
    save_json_file,
    save_jsonl_file,
)
from tests.commands import call
from tests.marks import mostly_full

OPS = '''\
"""Operations of mine."""
import torch


def rownorm(x, weight, eps=1e-6):
    """Scale rows to length one, then by a weight."""
    rows, width = x.shape
    length = x.float().pow(2).sum(-1, keepdim=True).sqrt() + eps
    output = (x.float() / length * weight).to(x.dtype)
    return output


def example_inputs():
    print("an author's own print")
    for rows in (4, 12):
        yield {"x": torch.randn(rows, 32), "weight": torch.randn(32)}


def take(table, ids):
    return table[ids]


def take_inputs():
    return [(torch.randn(50, 8), torch.randint(0, 50, (n,))) for n in (3, 5)]
'''
RIGHT = """\
import torch


def run(x, weight):
    return torch.nn.functional.normalize(x, dim=-1) * weight
"""


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder with the author's file and an empty dataset."""
    (tmp_path / "my_ops.py").write_text(OPS)
    assert call("init", "mine", folder=tmp_path).returncode == 0
    return tmp_path


def new_definition(desk: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return call(
        *("new", "definition", *arguments, "--local", "mine", "--device", "cpu"), folder=desk
    )


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """A dataset with a definition of the author's function; what was printed and said when it was made."""
    folder = tmp_path_factory.mktemp("desk")
    (folder / "my_ops.py").write_text(OPS)
    call("init", "mine", folder=folder)
    made = new_definition(folder, "--from", "my_ops.py::rownorm")
    assert made.returncode == 0, made.stderr
    return folder, made.stdout, made.stderr


@pytest.fixture
def furnished(first: tuple[Path, str, str], tmp_path: Path) -> Path:
    """A copy of it for one test."""
    return Path(shutil.copytree(first[0], tmp_path, dirs_exist_ok=True))


def test_a_new_definition_of_small_outputs_says_which_tolerance_zeros_do_not_pass(
    desk: Path,
) -> None:
    source = "def tiny(x):\n    return x * 5e-5\n\ndef get_inputs():\n    return [torch.randn(64, 128)]\n"
    (desk / "tiny.py").write_text(f"import torch\n\n{source}")

    made = new_definition(desk, "--from", "tiny.py::tiny")

    assert made.returncode == 0, made.stderr
    assert "warning TSK-05 passes as output 'output': zeros (100% match)" in made.stdout
    assert '"tolerance": {"atol": 1e-07} into each `workload` of tiny_d128.jsonl' in made.stdout


def test_a_new_definition_of_usual_outputs_says_nothing_of_tolerances(
    first: tuple[Path, str, str],
) -> None:
    assert "TSK-05" not in first[1]
    assert "tolerance" not in first[1]


def check(desk: Path, solution: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    quick = ("--device", "cpu", "--iterations", "5", "--warmup-runs", "1", "--local", "mine")
    return call("check", solution, *quick, *arguments, folder=desk)


def statuses(done: subprocess.CompletedProcess[str]) -> list[str]:
    report: dict[str, Any] = json.loads(done.stdout)
    return [job["status"] for job in report["check"]["jobs"]]


def test_from_an_empty_folder_to_a_right_kernel(
    first: tuple[Path, str, str], furnished: Path
) -> None:
    desk, solution = furnished, "mine/solutions/me/rownorm/rownorm_w32/rownorm_w32_python"
    _, printed, said = first

    started = call(
        *("new", "solution", "--definition", "rownorm_w32", "--language", "python"),
        *("--local", "mine"),
        folder=desk,
    )
    wrong = check(desk, solution)
    (desk / solution / "main.py").write_text(RIGHT)
    right = check(desk, solution)
    sound = call("validate", "--local", "mine", "--disable-gpu", folder=desk)

    assert "axes     rows varies (4, 12); width = 32" in printed
    assert "inputs   x: float32 [rows, width]; weight: float32 [width]" in printed
    assert "note: 'eps' is no input: it keeps its default, 1e-06" in printed
    assert "the reference passed on 2 workloads" in printed
    assert "note: rownorm_w32.json has no `description` of " in printed
    assert "DEF-0" not in printed
    assert said == "an author's own print\n"
    assert started.returncode == 0, started.stderr
    assert f"flashinfer-bench check {solution} --local mine" in started.stdout
    assert wrong.returncode == 1
    assert "got 0, expected" in wrong.stdout
    assert right.returncode == 0, right.stdout
    assert "2 of 2 workloads passed" in right.stdout
    assert sound.returncode == 0, sound.stdout


@pytest.mark.full
def test_indices_are_stored_so_that_they_stay_valid(desk: Path) -> None:
    done = new_definition(desk, "--from", "my_ops.py::take", "--inputs", "take_inputs")

    trace_set = TraceSet.from_path(desk / "mine")
    (definition,) = trace_set.definitions.values()
    first = trace_set.workloads[definition.name][0].workload
    assert done.returncode == 0, done.stdout
    assert definition.inputs["ids"].shape == ["batch"]
    assert first.inputs["ids"].type == "safetensors"
    assert trace_set.get_workload_blob_tensor(first.inputs["ids"].path)["ids"].tolist()
    assert "the example's values are stored" in done.stdout
    assert '`"distribution": {"type": "integers", "low": ' in done.stdout


@pytest.mark.full
def test_what_was_made_is_a_document(desk: Path) -> None:
    done = new_definition(desk, "--from", "my_ops.py::rownorm", "--json")

    document = json.loads(done.stdout)
    made = document["new"]
    assert (done.returncode, document["exit_code"]) == (0, 0)
    assert (made["definition"], made["op_type"], made["workloads"]) == ("rownorm_w32", "rownorm", 2)
    assert (desk / made["file"]).is_file()
    assert (desk / made["workload_file"]).is_file()
    assert {each["code"] for each in made["findings"]} >= {"DEF-03", "DEF-04", "DEF-05"}
    assert "'eps' is no input: it keeps its default, 1e-06" in made["notes"]


AUTHORS_FAULTS = {
    "def f(x):\n    return x\n": "broken.py: no example inputs for 'x'; add a function `example_inputs()`",
    "def f(x=1.5):\n    return x\n": "output 0 is a float; a reference returns a tensor",
    "def f(x):\n    return x\ndef example_inputs():\n    return {'y': 1}\n": (
        "example_inputs() does not fit f(x): missing a required argument: 'x'"
    ),
    "def f(x):\n    return x\ndef example_inputs():\n    return {'x': 'abc'}\n": "input 'x' is a str",
    "def f(x):\n    raise KeyError('oh')\ndef example_inputs():\n    return [1]\n": (
        "broken.py:2: KeyError: 'oh'"
    ),
    "import torch\ndef f(x):\n    return x\ndef example_inputs():\n"
    "    return torch.ones(2, dtype=torch.complex64)\n": "input 'x' is complex64; definitions know",
    "def f(x):\n    x.add_(1)\n\nimport torch\ndef example_inputs():\n    return torch.ones(2)\n": (
        "output 0 is a NoneType (a function that works in place must return its result)"
    ),
    "import os\ndef f(x):\n    os._exit(7)\ndef example_inputs():\n    return [1]\n": (
        "running f ended with 7 and no answer"
    ),
}


FAULTS = list(AUTHORS_FAULTS.items())


@pytest.mark.parametrize(("source", "message"), mostly_full(FAULTS, FAULTS[4]), ids=range(8))
def test_an_authors_fault_is_one_message(desk: Path, source: str, message: str) -> None:
    (desk / "broken.py").write_text(source)

    done = new_definition(desk, "--from", "broken.py::f", "--log-level=WARNING")

    assert done.returncode in {2, 4}
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not any((desk / "mine" / "definitions").iterdir())


def test_the_log_of_an_authors_fault_has_no_frame_of_ours(desk: Path) -> None:
    (desk / "broken.py").write_text("def f(x=1):\n    return x / 0\n")

    done = new_definition(desk, "--from", "broken.py::f")

    assert done.stderr.endswith("broken.py:2: ZeroDivisionError: division by zero\n")
    assert 'broken.py", line 2, in f' in done.stderr
    assert "observe.py" not in done.stderr


def test_a_definition_is_not_overwritten(furnished: Path) -> None:
    (file,) = (furnished / "mine" / "definitions").rglob("*.json")
    before = file.read_bytes()
    other = ("--from", "my_ops.py::take", "--inputs", "take_inputs")

    done = new_definition(furnished, "rownorm_w32", *other)

    assert done.returncode == 2
    assert "there is a definition 'rownorm_w32' already" in done.stderr
    assert file.read_bytes() == before


def write_mixed(root: Path) -> None:
    """A definition of three dtypes and two kinds of scalar, small and larger."""
    spec = {"shape": ["n", "k"], "dtype": "float32"}
    definition = Definition.model_validate(
        {
            "name": "mixed",
            "op_type": "mixed",
            "axes": {"n": {"type": "var"}, "k": {"type": "const", "value": 3}},
            "inputs": {
                "x": spec,
                "scale": {"shape": None, "dtype": "float32"},
                "shift": {"shape": None, "dtype": "int64"},
                "flag": {"shape": None, "dtype": "bool"},
            },
            "outputs": {
                "half": spec | {"dtype": "bfloat16"},
                "sign": spec | {"dtype": "bool"},
                "order": spec | {"dtype": "int64"},
            },
            "reference": "def run(x, scale, shift, flag):\n"
            "    return (x * scale).bfloat16(), x > 0, x.argsort(-1) + shift\n",
        }
    )
    scalars = {"scale": {"value": 0.5}, "shift": {"value": 1}, "flag": {"value": True}}
    workloads = [
        Workload.model_validate({"axes": {"n": n}, "inputs": {"x": {}, **scalars}})
        for n in (1, 700)
    ]
    save_json_file(definition, root / "definitions" / "mixed" / "mixed.json")
    lines = [Trace(definition="mixed", workload=workload) for workload in workloads]
    save_jsonl_file(lines, root / "workloads" / "mixed" / "mixed.jsonl")


@pytest.mark.parametrize(
    "language", mostly_full(["python", "cpp", "cuda", "triton", "tilelang"], "python")
)
def test_a_skeleton_of_any_language_builds_runs_and_is_wrong(tmp_path: Path, language: str) -> None:
    """Zeros are wrong, and nothing worse."""
    needs = {"cpp": "g++", "cuda": "nvcc"}.get(language)
    if needs is not None and shutil.which(needs) is None:
        pytest.skip(f"{needs} is not installed")
    if language in {"triton", "tilelang"} and importlib.util.find_spec(language) is None:
        pytest.skip(f"{language} is not installed")
    write_mixed(tmp_path / "mine")
    new = ("new", "solution", "--definition", "mixed", "--language", language, "--local", "mine")
    started = call(*new, folder=tmp_path)

    done = check(tmp_path, f"mine/solutions/me/mixed/mixed/mixed_{language}", "--json")

    assert started.returncode == 0, started.stderr
    if language == "cuda" and not statuses(done):
        assert "no CUDA device" in done.stdout  # it was compiled all the same
    else:
        assert set(statuses(done)) == {"INCORRECT_NUMERICAL"}, done.stdout


def test_validation_runs_references_and_baselines_where_asked(furnished: Path) -> None:
    new = ("new", "solution", "zeros", "--definition", "rownorm_w32", "--language", "python")
    call(*new, "--author", "baseline", "--local", "mine", folder=furnished)

    done = call("validate", "--local", "mine", "--checks", "benchmark", "--json", folder=furnished)
    (part,) = json.loads(done.stdout)["definitions"].values()
    told = {each["code"]: each for each in part["benchmark"]["messages"]}

    assert done.returncode == 1
    assert told["BEN-05"]["level"] == "error"
    assert "baseline 'zeros' ended with INCORRECT_NUMERICAL" in told["BEN-05"]["message"]
    assert told["BEN-06"]["message"] == "the reference passed on 2 workloads"


def test_misspelt_names_of_torch_are_found_without_running_anything(desk: Path) -> None:
    code = "from torch.nn import functional as F\n\n\ndef forward(x):\n    return F.rms_nrm(x)\n"
    spec = {"x": {"shape": [4], "dtype": "float32"}}
    kernel = {"name": "k", "axes": {}, "inputs": spec, "outputs": {"y": spec["x"]}, "code": code}
    profile = {"model": "m", "framework": "PyTorch", "kernels": [{"kernel": kernel, "count": 1}]}
    write_mixed(desk / "mine")
    (file,) = (desk / "mine" / "definitions").rglob("*.json")
    definition = json.loads(file.read_text())
    definition["reference"] = "import torch\n\n\ndef run(a, b, c, d):\n    return torch.rsqr(a)\n"
    file.write_text(json.dumps(definition))
    (desk / "mine" / "profiles").mkdir()
    (desk / "mine" / "profiles" / "m.json").write_text(json.dumps(profile))

    done = call("validate", "--local", "mine", "--json", folder=desk)
    told = json.loads(done.stdout)
    (of_definition,) = told["definitions"]["mixed"]["definition"]["messages"][:1]
    (of_profile,) = told["dataset"]["profile"]["messages"]

    assert done.returncode == 1
    assert (of_definition["code"], of_profile["code"]) == ("DEF-17", "PRO-06")
    assert of_definition["message"] == (
        "line 5 of the reference: there is no 'torch.rsqr'; did you mean 'torch.rsqrt'?"
    )
    assert of_profile["message"] == (
        "line 5 of the code of 'k': there is no 'torch.nn.functional.rms_nrm'; "
        "did you mean 'torch.nn.functional.rms_norm'?"
    )


@pytest.mark.full
def test_functions_with_the_same_inputs_have_workloads_of_their_own(desk: Path) -> None:
    (desk / "two.py").write_text(
        "import torch\n\n\ndef relu(x):\n    return torch.relu(x)\n\n\n"
        "def tanh(x):\n    return torch.tanh(x)\n\n\n"
        "def example_inputs():\n    return [torch.randn(4, 8)]\n"
    )
    new_definition(desk, "--from", "two.py::relu")
    new_definition(desk, "--from", "two.py::tanh")

    done = call("validate", "--local", "mine", folder=desk)

    assert len(TraceSet.from_path(desk / "mine").definitions) == 2
    assert done.returncode == 0, done.stdout
    assert "uuid" not in done.stdout
