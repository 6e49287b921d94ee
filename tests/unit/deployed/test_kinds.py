"""What only calls libraries is told from what has code of its own."""

from __future__ import annotations

import pytest

from flashinfer_bench.data import Solution
from flashinfer_bench.deployed.kinds import KERNEL, LIBRARY, kind_of

TRITON = """\
import torch
import triton
import triton.language as tl

@triton.jit
def kernel(x, BLOCK: tl.constexpr):
    pass

def run(x):
    return x
"""
LOOP = "void run(TensorView x) { for (int i = 0; i < 4; ++i) { at::neg(x); } }"


def solution(source: str, path: str = "main.py", language: str = "python") -> Solution:
    return Solution.model_validate(
        {
            "name": "it",
            "definition": "silu",
            "author": "tester",
            "spec": {
                "language": language,
                "target_hardware": ["cpu"],
                "entry_point": f"{path}::run",
            },
            "sources": [{"path": path, "content": source}],
        }
    )


@pytest.mark.parametrize(
    ("source", "called"),
    [
        ("from torch.nn.functional import silu as run", "torch.nn.functional.silu"),
        ("import torch\n\ndef run(x):\n    return torch.sigmoid(x) * x\n", "torch.sigmoid"),
        ("import flashinfer\n\ndef run(x, w):\n    return flashinfer.rmsnorm(x, w)\n", "flashinfer.rmsnorm"),
        ("import torch.nn.functional as F\n\ndef run(x):\n    return F.silu(x)\n", "torch.nn.functional.silu"),
    ],
)  # fmt: skip
def test_a_librarys_call_is_a_class_of_its_own(source: str, called: str) -> None:
    kind, libraries = kind_of(solution(source))

    assert kind == LIBRARY
    assert called in libraries


def test_c_without_a_loop_that_calls_torch_is_of_that_class() -> None:
    found = kind_of(solution("void run(x) { at::silu_out(x); }", "main.cpp", "cpp"))

    assert found == (LIBRARY, ("at::silu_out",))


@pytest.mark.parametrize(
    ("source", "path", "language"),
    [
        (TRITON, "main.py", "triton"),
        (LOOP, "main.cpp", "cpp"),
        ("__global__ void k() {}\nvoid run() {}", "main.cu", "cuda"),
        ("import torch\n\nrun = torch.compile(lambda x: x * 2)\n", "main.py", "python"),
        ("import numba\nimport torch\n\ndef run(x):\n    return x\n", "main.py", "python"),
    ],
)
def test_code_of_its_own_is_a_kernel(source: str, path: str, language: str) -> None:
    assert kind_of(solution(source, path, language)) == (KERNEL, ())
