"""The sources that `new solution` starts with, in each language."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flashinfer_bench.cli.dataset.skeletons import Skeleton, skeleton_for
from flashinfer_bench.data import Definition, DType

PLAIN = {
    "name": "scaled_rmsnorm_h8",
    "op_type": "rmsnorm",
    "description": "Scale rows to a root mean square of one.",
    "axes": {"batch": {}, "hidden": {"type": "const", "value": 8}},
    "inputs": {
        "x": {"shape": ["batch", "hidden"], "dtype": "bfloat16", "description": "The rows."},
        "weight": {"shape": ["hidden"], "dtype": "bfloat16"},
        "eps": {"shape": None, "dtype": "float32"},
    },
    "outputs": {"y": {"shape": ["batch", "hidden"], "dtype": "bfloat16"}},
    "reference": "def run(x, weight, eps):\n    return x\n",
}
ODD = {
    "name": "odd",
    "op_type": "odd",
    "description": 'Says """ and \\ and\nmore.',
    "axes": {"n": {}, "two_n": {"expression": "2 * n"}},
    "inputs": {
        "class": {"shape": ["n"], "dtype": "float32"},
        "template": {"shape": None, "dtype": "int64"},
        "a-b": {"shape": None, "dtype": "bool"},
    },
    "outputs": {f"out_{dtype}": {"shape": ["n", "two_n"], "dtype": dtype} for dtype in DType},
    "reference": "def run(a, b, c):\n    return a\n",
}
WITHOUT_TENSORS = {
    "name": "count_up",
    "op_type": "count",
    "axes": {"n": {"type": "const", "value": 4}},
    "inputs": {"first": {"shape": None, "dtype": "int32"}},
    "outputs": {"y": {"shape": ["n"], "dtype": "int32"}, "last": {"shape": [], "dtype": "int32"}},
    "reference": "def run(first):\n    return first, first\n",
}
DEFINITIONS = (
    PLAIN,
    ODD,
    ODD | {"name": "unknown_length", "axes": {"n": {}, "two_n": {}}},
    WITHOUT_TENSORS,
)


def described(skeleton: Skeleton) -> str:
    how = [skeleton.path, ", ".join(skeleton.target_hardware), ", ".join(skeleton.dependencies)]
    how += ["into" if skeleton.is_into else "returns", str(skeleton.binding)]
    return f"===== {'; '.join(how)}\n{skeleton.text}"


@pytest.mark.parametrize("language", ["python", "triton", "tilelang", "cpp", "cuda"])
def test_a_skeleton_is_what_it_was(language: str, compare: Callable[[str, str], None]) -> None:
    definitions = map(Definition.model_validate, DEFINITIONS)

    compare(
        f"skeletons-{language}.txt",
        "".join(described(skeleton_for(each, language)) for each in definitions),
    )
