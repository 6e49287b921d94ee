"""Whether anybody can be judged on an unusual draw, asked before it is held against a solution."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from flashinfer_bench.bench.judge.truth import Truth, UnusualDraw
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


def truth_about(source: str, folder: Path) -> tuple[Truth, Judge]:
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
    truth = Truth(definition, workload, files=None, device=device, key=0, cache_root=folder)
    return truth, judge_for(definition, {})


def drawn(truth: Truth, judge: Judge) -> UnusualDraw:
    draw = truth.unusual("large", judge, TOLERANCE, at=AT)
    assert isinstance(draw, UnusualDraw)
    return draw


def test_the_reference_runs_in_float64_only_when_a_draw_is_doubted(tmp_path: Path) -> None:
    truth, judge = truth_about(STEADY, tmp_path)
    widths = truth._reference.__globals__["widths"]  # type: ignore[attr-defined]

    draw = drawn(truth, judge)
    before = list(map(str, widths))
    doubt = truth.doubt(draw, judge, TOLERANCE)

    assert before == ["torch.float32"]
    assert list(map(str, widths[1:])) == ["torch.float64", "torch.float64"]
    assert doubt is None
    assert drawn(truth, judge) is draw


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
    truth, judge = truth_about(source, tmp_path)
    doubt = truth.doubt(drawn(truth, judge), judge, TOLERANCE)

    truth.use_key(1)
    later = truth.unusual("large", judge, TOLERANCE, at=AT)

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
    truth, _ = truth_about(f"import torch\n\ndef run(x):\n    raise {error}\n", tmp_path)

    with pytest.raises(torch.OutOfMemoryError):
        truth.run(truth.inputs_of(0, 0)[0])
