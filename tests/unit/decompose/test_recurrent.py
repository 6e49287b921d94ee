"""Recurrent networks on meta: what they return by shape, without running step after step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from flashinfer_bench.decompose import decompose
from flashinfer_bench.decompose.capture.recurrent import RecurrentByShape
from flashinfer_bench.decompose.verify.parent_operations import Watcher


class _Counting(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


def _network(kind: Any, *, is_batch_first: bool, is_bidirectional: bool) -> nn.Module:
    return kind(
        3,
        5,
        num_layers=2,
        batch_first=is_batch_first,
        bidirectional=is_bidirectional,
        device="meta",
    )


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("is_batch_first", [False, True])
@pytest.mark.parametrize("is_bidirectional", [False, True])
def test_by_shape_they_return_what_they_do_step_by_step(
    kind: Any, *, is_batch_first: bool, is_bidirectional: bool
) -> None:
    network = _network(kind, is_batch_first=is_batch_first, is_bidirectional=is_bidirectional)
    x = torch.empty(4, 6, 3, device="meta")

    expected = torch.utils._pytree.tree_leaves(network(x))
    with RecurrentByShape():
        got = torch.utils._pytree.tree_leaves(network(x))

    assert [(each.shape, each.dtype) for each in got] == [
        (each.shape, each.dtype) for each in expected
    ]


def test_by_shape_a_thousand_steps_are_as_few_operations_as_one() -> None:
    network = _network(nn.LSTM, is_batch_first=True, is_bidirectional=False)
    counts = []

    for steps in (1, 1000):
        with RecurrentByShape(), _Counting() as counting:
            network(torch.empty(2, steps, 3, device="meta"))
        counts.append(counting.count)

    assert counts[0] == counts[1]


def test_with_values_they_run_as_they_are() -> None:
    network, x = nn.GRU(3, 5), torch.randn(4, 2, 3)

    with RecurrentByShape():
        got, _ = network(x)

    assert torch.equal(got, network(x)[0])


def test_a_parent_that_runs_one_itself_is_seen_on_meta(tmp_path: Path) -> None:
    network = _network(nn.LSTM, is_batch_first=True, is_bidirectional=False)
    watcher, x = Watcher(tmp_path / "parent.py"), torch.empty(2, 7, 3, device="meta")
    watcher.give([x])

    with watcher.watching():
        network(x)

    assert "lstm" in [each.name for each in watcher.work]


def test_a_recurrent_model_is_verified(tmp_path: Path) -> None:
    model = nn.LSTM(3, 5, num_layers=2, batch_first=True)
    found = decompose(model, (torch.randn(2, 9, 3),), name="lstm")
    found.write(tmp_path / "out")

    assert found.verify(tmp_path / "out").passed
