from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from flashinfer_bench.decompose.capture import capture, export_counts
from flashinfer_bench.decompose.capture.exported import exported_trace
from flashinfer_bench.errors import UsageError
from tests.unit.decompose.replay import replay, source_of

X = torch.randn(4, 8, generator=torch.Generator().manual_seed(3))


def _data_dependent(m: Any, x: Any) -> Any:
    return m.linear(x) if x.mean() > 100 else x[x > 0]


def _vectorised(m: Any, x: Any) -> Any:
    return torch.vmap(lambda row: row * row.sum())(m.linear(x))


def _checked_and_vectorised(m: Any, x: Any) -> Any:
    torch._check((x > 9).sum().item() == 0)
    return _vectorised(m, x)


def _cast_to_its_own_type(m: Any, x: Any) -> Any:
    return m.linear.to(x.dtype)(x)


def _several_at_once(m: Any, x: Any) -> Any:
    parts = [x * 2, x * 3]
    torch._foreach_add_(parts, 1.0)
    return parts


def _through_numpy(m: Any, x: Any) -> Any:
    return x * torch.from_numpy(np.arange(8, dtype=np.float32))


def _given_other_memory(m: Any, x: Any) -> Any:
    y = x * 2
    y.data = x * 3
    return y


@pytest.mark.parametrize(
    ("forward", "front_end"),
    [
        (_data_dependent, "real"),
        (_vectorised, "export"),
        (_checked_and_vectorised, "export"),
        (_several_at_once, "export"),
        (_through_numpy, "export"),
    ],
)
def test_the_next_rung_is_taken_and_says_why(forward: Callable[..., Any], front_end: str) -> None:
    source = source_of(forward, X)

    captured = capture(source)

    assert captured.trace.front_end == front_end
    assert len(captured.trace.notes) == 1
    assert replay(source, captured).are_equal


def test_a_cast_that_changes_nothing_gives_no_other_memory() -> None:
    source = source_of(_cast_to_its_own_type, X)

    captured = capture(source)

    assert captured.trace.front_end == "meta"
    assert replay(source, captured).are_equal


@pytest.mark.parametrize(
    ("bound", "front_end", "asked"),
    [(lambda _: torch.tensor(3), "meta", 0), (lambda x: (x > 9).sum() + 3, "real", 1)],
)
def test_a_tensor_that_bounds_a_slice_is_asked_for_its_number(
    bound: Callable[..., Any], front_end: str, asked: int
) -> None:
    source = source_of(lambda m, x: m.linear(x)[: bound(x), 1:], X)

    captured = capture(source)

    assert captured.trace.front_end == front_end
    assert sum("__index__() gave 3" in each for each in captured.trace.specialisations) == asked
    (cut,) = (each for each in captured.trace.ops if each.fn.endswith("getitem__"))
    assert len(cut.ins) == 1
    assert replay(source, captured).are_equal


def test_a_number_of_the_data_in_an_operation_is_no_check() -> None:
    source = source_of(lambda m, x: _vectorised(m, x) * (x > 0).sum().item(), X)

    assert capture(source).trace.front_end == "opaque"


def _own_generator(m: Any, x: Any) -> Any:
    return x + torch.rand(4, 8, generator=torch.Generator(device=x.device).manual_seed(3))


@pytest.mark.parametrize("forward", [_given_other_memory, _own_generator])
def test_what_hangs_on_hidden_state_is_not_guessed(forward: Callable[..., Any]) -> None:
    trace = capture(source_of(forward, X)).trace

    assert trace.front_end == "opaque"
    assert len(trace.notes) == 1


def test_what_cannot_be_recorded_at_all_is_one_piece() -> None:
    source = source_of(lambda m, x: torch.sparse.mm(x.to_sparse(), m.linear(x).t()), X)

    trace = capture(source).trace

    (op,) = trace.ops
    assert (trace.front_end, op.fn) == ("opaque", "opaque")
    assert [trace.values[each].shape for each in trace.outputs] == [(4, 4)]
    assert {trace.values[each].name for each in op.ins} >= {"linear.weight", "linear.bias"}
    assert len(trace.notes) == 2


def test_a_forward_that_raises_is_the_models_fault() -> None:
    source = source_of(lambda m, x: x @ x, X)

    with pytest.raises(
        UsageError, match=r"forward raised RuntimeError.*shapes cannot be multiplied"
    ):
        capture(source)


def test_export_gives_a_trace_of_its_own_that_replays_to_the_bit() -> None:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        y = m.linear(x)
        y[:, 0].mul_(2)
        return torch.softmax(y.view(4, 2, 4), -1).transpose(1, 2)

    source = source_of(forward, X)
    model, inputs = source.build("meta", 0), source.inputs("meta", 0)

    by_export = exported_trace("example", model, inputs)

    captured = capture(source)
    both = replay(source, type(captured)(by_export, model, inputs))
    assert both.are_equal
    assert by_export.ops[0].fn == "torch.nn.functional.linear"


def test_export_names_a_tied_weight_by_the_first_of_its_names() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    model[1].weight = model[0].weight

    trace = exported_trace("tied", model, [X])

    weights = [each for each in trace.values.values() if each.shape == (8, 8)]
    assert {(each.name, each.aliases) for each in weights} == {("0.weight", ("1.weight",))}


def test_export_counts_operations_by_their_names() -> None:
    counts = export_counts(source_of(lambda m, x: torch.relu(m.linear(m.linear(x))), X))

    assert counts is not None
    assert (counts["linear"], counts["relu"]) == (2, 1)


def test_what_export_cannot_do_is_not_counted() -> None:
    assert export_counts(source_of(_data_dependent, X)) is None


SCRIPT = """
import sys
from flashinfer_bench.decompose.capture import capture
from flashinfer_bench.decompose.model_file import load_model_file
sys.stdout.write(repr(capture(load_model_file(sys.argv[1])).trace))
"""
MODEL = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm = nn.BatchNorm1d(5)
        self.tables = {name: torch.ones(8) for name in {'a', 'b', 'c'}}
    def forward(self, x):
        y, _ = self.attention(x, x, x)
        return {'y': self.norm(y + self.tables['b']), 'x': x}
def get_inputs():
    return [torch.randn(2, 5, 8)]
"""


@pytest.mark.full  # test_decompose_files has it of what is written
def test_a_trace_is_the_same_in_every_process(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)

    def told(seed: str) -> str:
        command = [sys.executable, "-c", SCRIPT, str(tmp_path / "model.py")]
        env = {**os.environ, "PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1"}
        return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout

    first, second = told("1"), told("2")

    assert first == second
