"""Whether anybody can be judged on an unusual draw: known from one job to the next, and doubted before it accuses."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch

from flashinfer_bench.bench.worker.truth import Truth, UnusualDraw
from flashinfer_bench.data import Definition, Workload
from flashinfer_bench.judging import Tolerance
from flashinfer_bench.judging.judges import judge_for
from flashinfer_bench.tensors.devices import open_device

ROW = {"shape": ["n"], "dtype": "float32"}
SHARP_BELOW_ZERO = """
import torch

def run(x):
    return torch.where(x[0] > 0, x, torch.sin(x * 1e6))
"""
WIDE_RUNS = """
import torch

def run(x):
    if x.dtype is torch.float64:
        counted.append(1)
    return x + 1

counted = []
"""
AT = (0, -2)


def truth_about(source: str, folder: Path) -> Truth:
    definition = Definition(
        name="subject",
        op_type="op",
        axes={"n": {"type": "var"}},
        inputs={"x": ROW},
        outputs={"y": ROW},
        reference=source,
    )
    workload = Workload(axes={"n": 64}, inputs={"x": {"type": "random"}})
    return Truth(
        definition, workload, roots=(), device=open_device("cpu"), key=0, cache_root=folder
    )


def draw(truth: Truth) -> UnusualDraw | str:
    judge = judge_for(truth.definition, {})
    return truth.unusual("large", judge, Tolerance(1e-2, 1e-2), at=AT)


def doubt(truth: Truth, found: UnusualDraw) -> str | None:
    return truth.doubt(found, judge_for(truth.definition, {}), Tolerance(1e-2, 1e-2))


def take_key(truth: Truth, *, positive: bool) -> None:
    """Take a key whose draw begins above zero, or below."""
    for key in itertools.count(1):
        truth.use_key(key)
        first = truth.inputs_of(*AT, family="large")[0][0][0]
        if bool(first > 0) == positive:
            return


def test_a_reference_that_is_fit_once_is_not_run_in_float64_again(tmp_path: Path) -> None:
    truth = truth_about(WIDE_RUNS, tmp_path)
    counted = truth._reference.__globals__["counted"]  # type: ignore[attr-defined]
    first = draw(truth)
    before = len(counted)

    truth.use_key(1)
    second = draw(truth)

    assert isinstance(first, UnusualDraw)
    assert isinstance(second, UnusualDraw)
    assert (first.is_proven, second.is_proven) == (True, False)
    assert len(counted) == before > 0
    assert not torch.equal(first.expected[0], second.expected[0])


@pytest.mark.parametrize("positive", [True, False])
def test_a_draw_is_doubted_before_it_is_held_against_a_solution(
    tmp_path: Path, positive: bool
) -> None:
    truth = truth_about(SHARP_BELOW_ZERO, tmp_path)
    take_key(truth, positive=True)
    assert isinstance(draw(truth), UnusualDraw)

    take_key(truth, positive=positive)
    found = draw(truth)
    assert isinstance(found, UnusualDraw)
    doubted = doubt(truth, found)

    assert (doubted is None) == positive
    assert isinstance(draw(truth), UnusualDraw) == positive
