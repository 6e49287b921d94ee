"""Changes of a call's inputs: the same in every process, and never none at all."""

from __future__ import annotations

import pytest
import torch

from flashinfer_bench.tensors.input_changes import apply_change, permuted, spliced
from flashinfer_bench.tensors.planned import InputChange


@pytest.mark.parametrize("length", [2, 3, 17])
@pytest.mark.parametrize("seed", range(4))
def test_a_permutation_moves_something_and_loses_nothing(length: int, seed: int) -> None:
    rows = torch.arange(length * 2).view(length, 2)

    moved = permuted(rows, 0, seed)

    assert not torch.equal(moved, rows)
    assert torch.equal(moved.sort(dim=0).values, rows)
    assert torch.equal(moved, permuted(rows, 0, seed))


def test_narrow_floats_are_moved_as_they_are() -> None:
    rows, other = (
        torch.tensor(each).to(torch.float8_e4m3fn) for each in ([0.0, 1, 2, 3], [3.0, 2, 1, 0])
    )

    joined = spliced(rows, other, 0)

    assert joined.dtype == torch.float8_e4m3fn
    assert joined.float().tolist() == [0.0, 1.0, 1.0, 0.0]


def test_only_the_named_inputs_are_changed() -> None:
    x, weight = torch.ones(2), torch.ones(2)

    apply_change(InputChange("scaled", (0, -1)), [x, weight], [])

    assert (x.tolist(), weight.tolist()) == ([2.0, 2.0], [1.0, 1.0])
