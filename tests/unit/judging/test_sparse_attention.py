"""Outputs that a kernel may leave out."""

from __future__ import annotations

import torch

from flashinfer_bench.data import Definition
from flashinfer_bench.judging import JudgedCall, Tolerance
from flashinfer_bench.judging.judges import judge_for

OUTPUT, LSE = torch.tensor([1.0, 2.0]), torch.tensor([float("-inf"), 0.5])
ATTENTION = Definition(
    name="dsa_sparse_attention",
    op_type="dsa_paged",
    axes={"n": {"type": "var"}},
    inputs={"q": {"shape": ["n"], "dtype": "float32"}},
    outputs={
        "output": {"shape": ["n"], "dtype": "float32"},
        "lse": {"shape": ["n"], "dtype": "float32"},
    },
    reference="def run(q):\n    return q, q\n",
)


def is_accepted(output: torch.Tensor, lse: torch.Tensor | None) -> bool:
    case = judge_for(ATTENTION).open_case(Tolerance(1e-2, 1e-2))
    return case.hear(JudgedCall([OUTPUT], [output, lse], [OUTPUT, LSE])).is_accepted


def test_the_first_output_alone_is_enough() -> None:
    assert judge_for(ATTENTION).least_outputs == 1
    assert is_accepted(OUTPUT, None)
    assert is_accepted(OUTPUT, LSE)


def test_an_output_that_is_there_must_be_right() -> None:
    assert not is_accepted(OUTPUT, LSE + 1)
    assert not is_accepted(OUTPUT + 1, None)
