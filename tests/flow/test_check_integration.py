"""`check --integration`: honest kernels go into compiled code, four kinds do not, and the line is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from flashinfer_bench.apply.integrating import IntegrationQuestion, IntegrationSubject, steps_of
from flashinfer_bench.cli.measure.kernel_files import Hints, solution_from
from flashinfer_bench.data import TraceSet
from tests.commands import call
from tests.flow.kernels import write_dataset
from tests.marks import mostly_full

HONEST = {
    "plain": "def run(x):\n    return x + 1\n",
    "into": "def run(x, y):\n    y.copy_(x)\n    y += 1\n",
    "constant": (  # one table, made by the first call and used by all
        "import torch\n\n_ONE = []\n\n\ndef run(x):\n    if not _ONE:\n        _ONE.append(torch.ones(()))\n"
        "    return x + _ONE[0]\n"
    ),
    "branches_on_size": "def run(x):\n    return x + 1 if x.shape[0] < 150 else x.add(1)\n",
    "own_operator": (
        "import torch\n\n\n@torch.library.custom_op('tests::plus_one', mutates_args=())\n"
        "def plus_one(x: torch.Tensor) -> torch.Tensor:\n    return x + 1\n\n\n"
        "@plus_one.register_fake\ndef _(x):\n    return torch.empty_like(x)\n\n\n"
        "def run(x):\n    return plus_one(x)\n"
    ),
}
REFUSED = {
    "item": (
        "def run(x):\n    if x[0].item() > 1e9:\n        return x\n    return x + 1\n",
        "full graph",
        "kernel.py:2: `if x[0].item() > 1e9:`: .item() reads a value on the host",
    ),
    "tolist": (
        "def run(x):\n    return x + len(x.tolist()) / x.shape[0]\n",
        "full graph",
        "kernel.py:2: `return x + len(x.tolist()) / x.shape[0]`: .tolist() reads a value on the host",
    ),
    "mask": (
        "def run(x):\n    x[x > 1e9].sum()\n    return x + 1\n",
        "full graph",
        "kernel.py:2: `x[x > 1e9].sum()`: reads a mask, whose size the values tell",
    ),
    "memory_per_size": (
        (
            "import torch\n\n_ONES = {}\n\n\ndef run(x):\n    n = x.shape[0]\n    if n not in _ONES:\n"
            "        _ONES[n] = torch.ones(n)\n    return x + _ONES[n]\n"
        ),
        "dynamic sizes",
        "kernel.py:9: `_ONES[n] = torch.ones(n)`: keeps [300] float32",
    ),
    "memory_that_grows": (
        (
            "import torch\n\n_ONES = [torch.ones(1)]\n\n\ndef run(x):\n    n = x.shape[0]\n"
            "    if n > _ONES[0].shape[0]:\n        _ONES[0] = torch.ones(n)\n    return x + _ONES[0][:n]\n"
        ),
        "dynamic sizes",
        "kernel.py:9: `_ONES[0] = torch.ones(n)`: keeps [300] float32",
    ),
    "address": (
        (
            "_ANSWERS = {}\n\n\ndef run(x):\n    key = x.data_ptr()\n    if key not in _ANSWERS:\n"
            "        _ANSWERS[key] = x + 1\n    return _ANSWERS[key].clone()\n"
        ),
        "replay",
        "kernel.py:5: `key = x.data_ptr()`: takes an address",
    ),
    "first_inputs": (
        "_FIRST = {}\n\n\ndef run(x):\n    return _FIRST.setdefault(x.shape[0], x) + 1\n",
        "replay",
        "other contents in the same memory: output 'y': ",
    ),
    "output_again": (
        (
            "import torch\n\n_OUT = torch.empty(300)\n\n\ndef run(x):\n    out = _OUT[: x.shape[0]]\n"
            "    return torch.add(x, 1, out=out)\n"
        ),
        "replay",
        "outputs lie in memory that is used again",
    ),
    "wrong_fake": (
        (
            "import torch\n\n\n@torch.library.custom_op('tests::half', mutates_args=())\n"
            "def half(x: torch.Tensor) -> torch.Tensor:\n    return x + 1\n\n\n"
            "@half.register_fake\ndef _(x):\n    return x.new_empty(x.shape[0] // 2)\n\n\n"
            "def run(x):\n    return half(x)\n"
        ),
        "operator",
        (
            "kernel.py:15: `return half(x)`: the operator tests::half gives float32[100] on cpu, "
            "its fake implementation says float32[50] on cpu"
        ),
    ),
    "no_fake": (
        (
            "import torch\n\n\n@torch.library.custom_op('tests::without', mutates_args=())\n"
            "def without(x: torch.Tensor) -> torch.Tensor:\n    return x + 1\n\n\n"
            "def run(x):\n    return without(x)\n"
        ),
        "operator",
        "kernel.py:10: `return without(x)`: the operator tests::without has no fake implementation that works",
    ),
    "strides": (
        "def run(x):\n    return (x + 1).repeat_interleave(2)[::2]\n",
        "operator",
        "n=100: y is float32[100] on cpu with strides [2], its fake from the definition float32[100] on cpu",
    ),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("dataset"), sizes=(100, 200, 300))


def steps(
    root: Path, kernel: Path, source: str, compiler: str = "aot_eager"
) -> dict[str, IntegrationQuestion]:
    kernel.write_text(source)
    trace_set = TraceSet.from_path(root)
    solution = solution_from(kernel, trace_set.definitions["increment"], Hints())
    subject = IntegrationSubject(trace_set, solution, "cpu", compiler)
    with torch.no_grad():
        return {step.name: step for step in steps_of(subject)}


@pytest.mark.parametrize("name", mostly_full(HONEST, "branches_on_size", "own_operator"))
def test_an_honest_kernel_is_accepted(name: str, root: Path, tmp_path: Path) -> None:
    found = steps(root, tmp_path / "kernel.py", HONEST[name])

    assert {each.name: each.verdict for each in found.values()} == {
        "answers": "holds",
        "operator": "holds",
        "full graph": "holds",
        "dynamic sizes": "holds",
        "capture": "not tried",
        "replay": "holds",
    }, found
    assert found["capture"].evidence == ["CUDA graphs need a CUDA device"]


@pytest.mark.parametrize("name", mostly_full(REFUSED, *(REFUSED.keys() - {"tolist", "no_fake"})))
def test_what_breaks_compiled_code_is_refused_with_its_line(
    name: str, root: Path, tmp_path: Path
) -> None:
    source, question, evidence = REFUSED[name]

    found = steps(root, tmp_path / "kernel.py", source)

    assert found[question].verdict == "refused", found
    assert any(evidence in each for each in found[question].evidence), found[question]


@pytest.mark.full
@pytest.mark.parametrize("name", HONEST)
def test_an_honest_kernel_is_accepted_by_inductor(name: str, root: Path, tmp_path: Path) -> None:
    found = steps(root, tmp_path / "kernel.py", HONEST[name], "inductor")

    assert "refused" not in {each.verdict for each in found.values()}, found


def test_the_command_names_the_users_file_and_ends_with_one(root: Path, tmp_path: Path) -> None:
    kernel = tmp_path / "mine.py"
    kernel.write_text(REFUSED["item"][0])
    asked = ("--definition", "increment", "--local", root, "--device", "cpu")
    words = ("check", kernel, *asked, "--integration", "--compiler", "aot_eager")

    shown, document = call(*words), call(*words, "--json")

    assert (shown.returncode, document.returncode) == (1, 1)
    assert f"full graph: {kernel}:2: `if x[0].item() > 1e9:`" in shown.stdout
    assert "REFUSED for compiled code" in shown.stdout
    told = json.loads(document.stdout)["integration"]
    assert told["accepted"] is False
    assert [each["name"] for each in told["steps"] if each["verdict"] == "refused"] == [
        "full graph"
    ]
