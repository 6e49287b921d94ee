"""`new definition --backward`: three definitions of one function, tried as a benchmark would."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.commands import call

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = """\
import torch


def gelu(x):
    return torch.nn.functional.gelu(x)


def example_inputs():
    return torch.randn(4, 16)


def largest(x):
    return x.argmax(-1)
"""


@pytest.mark.full
def test_backward_adds_two_sound_definitions(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "ops.py").write_text(SOURCE)

    made = call(
        *("new", "definition", "--from", "ops.py::gelu", "--backward", "--json"),
        *("--local", "mine", "--device", "cpu"),
        folder=tmp_path,
    )

    assert made.returncode == 0, made.stderr
    names = [each["definition"] for each in json.loads(made.stdout)["new"]["gradients"]]
    assert names == ["gelu_d16_backward", "gelu_d16_forward_backward"]
    assert (tmp_path / "mine/workloads/gelu_backward/gelu_d16_backward.jsonl").exists()


def test_a_function_without_a_gradient_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "ops.py").write_text(SOURCE)

    made = call(
        *("new", "definition", "--from", "ops.py::largest", "--backward"),
        *("--local", "mine", "--device", "cpu"),
        folder=tmp_path,
    )

    assert made.returncode == 2, made.stdout
    assert "no output of 'largest' has a gradient by a float input" in made.stderr
    assert not list(tmp_path.glob("mine/**/*.json"))
