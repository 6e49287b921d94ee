"""Whether anybody can be judged on an unusual draw, asked before it is held against a solution."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from flashinfer_bench.bench.judge.oracle import Oracle, ReferenceFailedError, UnusualDraw
from flashinfer_bench.data import Definition, Workload
from flashinfer_bench.judging import Judge, Tolerance
from flashinfer_bench.judging.judges import judge_for
from flashinfer_bench.tensors.devices import open_device

ROW = {"shape": ["n"], "dtype": "float32"}
STEADY = """
import torch

widths = []

def run(x):
    widths.append(x.dtype)
    return x + 1
"""
SHARP = """
import torch

def run(x):
    return torch.sin(x * 1e6)
"""
HALVED = """
import torch

def run(x):
    return x.half().view(torch.int16).float()
"""
AT = (0, -2)
TOLERANCE = Tolerance(1e-2, 1e-2)


def oracle_for(source: str, folder: Path) -> tuple[Oracle, Judge]:
    definition = Definition(
        name="subject",
        op_type="op",
        axes={"n": {"type": "var"}},
        inputs={"x": ROW},
        outputs={"y": ROW},
        reference=source,
    )
    workload = Workload(axes={"n": 64}, inputs={"x": {"type": "random"}})
    device = open_device("cpu")
    oracle = Oracle(definition, workload, files=None, device=device, key=0, cache_root=folder)
    return oracle, judge_for(definition, {})


def test_a_call_of_the_reference_ends_in_time_and_says_where_it_was(tmp_path: Path) -> None:
    source = "def run(x):\n    while True:\n        x = x + 0\n"
    oracle, _ = oracle_for(source, tmp_path)
    oracle.limit_s = 0.3

    with pytest.raises(ReferenceFailedError) as caught:
        oracle.expected_of_first(0)

    first, second, *where = str(caught.value).splitlines()
    assert first == "the reference did not return within 0.3 s (--timeout)"
    assert second == "it was here (the last call is the last line):"
    assert len([line for line in where if line.startswith("  File ")]) == 1
    assert "in run" in where[0]


def drawn(oracle: Oracle, judge: Judge) -> UnusualDraw:
    draw = oracle.unusual("large", judge, TOLERANCE, at=AT)
    assert isinstance(draw, UnusualDraw)
    return draw


def test_the_reference_runs_in_float64_only_when_a_draw_is_doubted(tmp_path: Path) -> None:
    oracle, judge = oracle_for(STEADY, tmp_path)
    widths = oracle._reference.__globals__["widths"]  # type: ignore[attr-defined]

    draw = drawn(oracle, judge)
    before = list(map(str, widths))
    doubt = oracle.doubt(draw, judge, TOLERANCE)

    assert before == ["torch.float32"]
    assert list(map(str, widths[1:])) == ["torch.float64", "torch.float64"]
    assert doubt is None
    assert drawn(oracle, judge) is draw


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (SHARP, "the reference is too far from its own float64 run"),
        (HALVED, "the reference does not run in float64"),
    ],
)
def test_where_nobody_can_be_judged_is_remembered_for_other_keys(
    tmp_path: Path, source: str, reason: str
) -> None:
    oracle, judge = oracle_for(source, tmp_path)
    doubt = oracle.doubt(drawn(oracle, judge), judge, TOLERANCE)

    oracle.use_key(1)
    later = oracle.unusual("large", judge, TOLERANCE, at=AT)

    assert doubt == reason
    assert later == reason


@pytest.mark.parametrize(
    "error",
    [
        "MemoryError()",
        'RuntimeError("DefaultCPUAllocator: can\'t allocate memory")',
        "RuntimeError('[enforce fail] DefaultCPUAllocator: not enough memory')",
        "torch.OutOfMemoryError('CUDA out of memory')",
    ],
)
def test_a_reference_that_does_not_fit_is_nobodys_fault(tmp_path: Path, error: str) -> None:
    oracle, _ = oracle_for(f"import torch\n\ndef run(x):\n    raise {error}\n", tmp_path)

    with pytest.raises(torch.OutOfMemoryError):
        oracle.run(oracle.inputs_of(0, 0)[0])
