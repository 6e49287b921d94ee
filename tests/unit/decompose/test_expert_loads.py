"""A piece of a mixture of experts has three workloads: as in the model's run, balanced, and the worst."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from flashinfer_bench.data import TraceSet
from flashinfer_bench.data.distributions import ExpertRouting
from flashinfer_bench.data.profile import KernelReference, Profile
from flashinfer_bench.decompose import decompose
from flashinfer_bench.decompose.emit.expert_loads import other_ends, routing


class _Experts(nn.Module):
    def forward(self, x: torch.Tensor, chosen: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        hot = nn.functional.one_hot(chosen, 4).to(x.dtype)
        return x * (hot * weights.unsqueeze(-1)).sum((1, 2)).unsqueeze(-1)


class _Mixture(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.router, self.experts = nn.Linear(8, 4), _Experts()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = self.router(x).topk(2, dim=-1)
        return self.experts(x, chosen, weights)


def test_an_experts_piece_has_three_workloads_and_the_profile_names_the_recorded(
    tmp_path: Path,
) -> None:
    found = decompose(_Mixture(), (torch.randn(6, 8),), name="mixture")
    found.write(tmp_path / "out")
    dataset = TraceSet.from_path(tmp_path / "out" / "dataset")

    three = {name: each for name, each in dataset.workloads.items() if len(each) > 1}
    ((name, traces),) = three.items()
    inputs = [trace.workload.inputs for trace in traces]
    loads = [
        each.distribution.load
        for given in inputs
        for each in given.values()
        if isinstance(getattr(each, "distribution", None), ExpertRouting)
    ]

    assert len(loads) == 3
    assert loads[0] is not None
    assert sum(loads[0]) == pytest.approx(1)
    assert loads[1:] == [None, [0.416667, 0.416667, 0.083333, 0.083333]]
    profile = Profile.load(tmp_path / "out/dataset/profiles/PyTorch/mixture.json")
    (used,) = [
        use.kernel
        for use in profile.kernels
        if isinstance(use.kernel, KernelReference) and use.kernel.definition == name
    ]
    assert used.workload == traces[0].workload.uuid


def test_rows_that_hold_an_expert_twice_are_no_routing() -> None:
    assert routing(torch.tensor([[0, 1], [2, 2]]), 4) is None
    assert routing(torch.tensor([[0, 1], [2, 0]]), 4) == ExpertRouting(
        experts=4, load=[0.5, 0.25, 0.25, 0.0]
    )


def test_other_ends_divide_as_many_rows() -> None:
    ends = torch.tensor([1, 4, 4, 10], dtype=torch.int32)

    assert other_ends(ends, "balanced").tolist() == [2, 5, 7, 10]
    assert other_ends(ends, "worst").tolist() == [7, 8, 9, 10]
