"""`check --integration` on a card, where a call is recorded as a CUDA graph and replayed; and exported operators."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from flashinfer_bench.data import Solution
from tests.commands import call
from tests.flow.kernels import solution, write_dataset

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.gpu

TRITON = """
import torch
import triton
import triton.language as tl


@triton.jit
def add_one(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)


def run(x):
    y = torch.empty_like(x)
    add_one[(triton.cdiv(x.shape[0], 128),)](x, y, x.shape[0], BLOCK=128)
    return y
"""
HONEST = {
    "plain": "def run(x):\n    return x + 1\n",
    "triton": TRITON,
    "torch_compile": "import torch\n\n\n@torch.compile(dynamic=True)\ndef run(x):\n    return x + 1\n",
}
REFUSED = {
    "item": (
        "def run(x):\n    if x[0].item() > 1e9:\n        return x\n    return x + 1\n",
        "capture",
        "",
    ),
    "waits": (
        "import torch\n\n\ndef run(x):\n    y = x + 1\n    torch.cuda.synchronize()\n    return y\n",
        "capture",
        "",
    ),
    "copies_from_host": (
        "import torch\n\n\ndef run(x):\n    return x + torch.tensor([1.0], device=x.device)\n",
        "capture",
        "",
    ),
    "address": (
        (
            "_ANSWERS = {}\n\n\ndef run(x):\n    key = x.data_ptr()\n    if key not in _ANSWERS:\n"
            "        _ANSWERS[key] = x + 1\n    return _ANSWERS[key].clone()\n"
        ),
        "replay",
        "kernel.py:5: `key = x.data_ptr()`: takes an address",
    ),
    "memory_per_size": (
        (
            "import torch\n\n_ONES = {}\n\n\ndef run(x):\n    n = x.shape[0]\n    if n not in _ONES:\n"
            "        _ONES[n] = torch.ones(n, device=x.device)\n    return x + _ONES[n]\n"
        ),
        "dynamic sizes",
        "kernel.py:9: `_ONES[n] = torch.ones(n, device=x.device)`: keeps [300] float32",
    ),
}
USE = """
import importlib, json, sys
import torch
package = importlib.import_module(sys.argv[1])
step = torch.compile(lambda x: package.run(x) + 0, fullgraph=True)
x = torch.randn(200, device="cuda")
torch.testing.assert_close(step(x), x + 1)
graph = torch.cuda.CUDAGraph()
aside = torch.cuda.Stream()
aside.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(aside):
    for _ in range(3):
        step(x)
torch.cuda.current_stream().wait_stream(aside)
with torch.cuda.graph(graph):
    y = step(x)
x.copy_(torch.randn(200, device="cuda"))
graph.replay()
torch.cuda.synchronize()
torch.testing.assert_close(y, x + 1)
print(json.dumps(package.CALLS))
"""
"""Call an exported operator from a compiled function, record that function, and replay it with other contents."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("dataset"), sizes=(100, 200, 300))


def integration(root: Path, kernel: Path, source: str) -> dict[str, tuple[str, list[str]]]:
    kernel.write_text(source)
    asked = ("--definition", "increment", "--local", root, "--device", "cuda:0")
    done = call("check", kernel, *asked, "--integration", "--json")
    assert done.returncode in {0, 1}, done.stderr
    told = json.loads(done.stdout)["integration"]
    return {each["name"]: (each["verdict"], each["evidence"]) for each in told["steps"]}


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_kernel_is_recorded_and_replayed(name: str, root: Path, tmp_path: Path) -> None:
    found = integration(root, tmp_path / "kernel.py", HONEST[name])

    assert {verdict for verdict, _ in found.values()} == {"holds"}, found
    assert {"capture", "replay"} <= set(found)


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_graph_cannot_record_is_refused(name: str, root: Path, tmp_path: Path) -> None:
    source, question, evidence = REFUSED[name]

    found = integration(root, tmp_path / "kernel.py", source)

    verdict, said = found[question]
    assert verdict == "refused", found
    assert said
    assert any(evidence in each for each in said), found


def test_an_exported_triton_kernel_is_compiled_recorded_and_replayed(
    root: Path, tmp_path: Path
) -> None:
    mine = solution(TRITON, name="mine")
    spec = mine.spec.model_copy(update={"language": "triton", "target_hardware": ["cuda"]})
    mine = Solution.model_validate({**mine.model_dump(), "spec": spec.model_dump()})
    folder = write_dataset(tmp_path / "dataset", mine, sizes=(100, 200, 300))
    ran = call("run", "--local", folder, "--device", "cuda:0", "--iterations", "10")
    assert ran.returncode == 0, ran.stderr
    package = tmp_path / "package"

    written = call(
        "export", "solution", "mine", "--as", "torch-op", "--output", package, "--local", folder
    )

    assert written.returncode == 0, written.stderr
    name = next(each.parent.name for each in package.rglob("__init__.py"))

    done = subprocess.run(
        [sys.executable, "-c", USE, name],
        cwd=next(package.rglob("__init__.py")).parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert sum(json.loads(done.stdout.splitlines()[-1]).values()) > 0
