"""Which sizes and strides are tried of a definition."""

from __future__ import annotations

import pytest

from flashinfer_bench.bench.tools.edge_cases import edge_suite
from flashinfer_bench.data import Definition, Workload
from flashinfer_bench.errors import UsageError

PAIRS = Definition.model_validate(
    {
        "name": "pairs",
        "op_type": "elementwise",
        "axes": {
            "rows": {"type": "var"},
            "n": {"type": "var"},
            "half": {"type": "expr", "expression": "n // 2"},
        },
        "constraints": ["n % 2 == 0", "n > 0"],
        "inputs": {
            "x": {"shape": ["rows", "n"], "dtype": "float32"},
            "scale": {"shape": ["half"], "dtype": "float32", "role": "static"},
            "eps": {"shape": None, "dtype": "float32"},
        },
        "outputs": {"y": {"shape": ["rows", "n"], "dtype": "float32"}},
        "reference": "def run(x, scale, eps):\n    return x\n",
    }
)
RANDOM = {"type": "random"}
SMALL = Workload(axes={"rows": 1, "n": 8}, inputs={"x": RANDOM, "scale": RANDOM})
LARGE = Workload(axes={"rows": 4096, "n": 4096}, inputs={"x": RANDOM, "scale": RANDOM})


def test_one_axis_at_a_time_leaves_the_smallest_workload() -> None:
    suite = edge_suite(PAIRS, [LARGE, SMALL])

    sizes = [case.workload.axes for case in suite.cases if case.about == "size"]
    assert {"rows": 0, "n": 8} in sizes
    assert {"rows": 129, "n": 8} in sizes
    assert {"rows": 1, "n": 2} in sizes
    assert all(axes["rows"] == 1 or axes["n"] == 8 for axes in sizes)


def test_what_constraints_forbid_is_left_out_by_name() -> None:
    suite = edge_suite(PAIRS, [SMALL])

    assert "n = 17 (one past 16)" in suite.left_out
    assert "n % 2 == 0" in suite.left_out["n = 17 (one past 16)"]
    assert all(not PAIRS.violated_constraints(case.workload.axes) for case in suite.cases)


def test_strides_are_tried_of_each_tensor_where_they_matter() -> None:
    suite = edge_suite(PAIRS, [SMALL])

    assert [case.why for case in suite.cases if case.about == "stride"] == [
        "x padded: shape [7, 8], strides [12, 1]",
        "x transposed: shape [7, 8], strides [1, 7]",
        "scale padded: shape [4], strides [2]",
    ]


def test_the_smallest_of_a_kind_comes_first() -> None:
    counts = [
        case.element_count for case in edge_suite(PAIRS, [SMALL]).cases if case.about == "size"
    ]

    assert counts == sorted(counts)


def test_stored_tensors_cannot_become_edge_cases() -> None:
    stored = {"type": "safetensors", "path": "x.safetensors", "tensor_key": "x"}
    workload = Workload(axes=SMALL.axes, inputs={"x": stored})

    with pytest.raises(UsageError, match="has no workload without stored tensors"):
        edge_suite(PAIRS, [workload])


def test_an_interpreted_kernel_gets_small_cases_and_the_others_are_named() -> None:
    wide = Workload(axes={"rows": 1, "n": 1 << 16}, inputs={"x": RANDOM, "scale": RANDOM})

    whole, small = (edge_suite(PAIRS, [wide], is_interpreted=each) for each in (False, True))

    reason = "its tensors take more than 16 MiB, too much for an interpreter"
    assert small.left_out["rows = 65 (one past 64)"] == reason
    assert "rows = 17 (one past 16)" in [case.why for case in small.cases]
    assert "rows = 257 (one past 256)" in [case.why for case in whole.cases]
