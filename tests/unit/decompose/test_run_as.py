"""A model is read in a mode, a dtype and a phase; the folder keeps what was asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from flashinfer_bench.decompose.model_errors import ModelFileError
from flashinfer_bench.decompose.model_file import load_model_file
from flashinfer_bench.decompose.pipeline import take_apart
from flashinfer_bench.decompose.run_as import RunAs
from flashinfer_bench.decompose.serving import is_of_transformers
from flashinfer_bench.decompose.verify import verify_directory

CACHED = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.kv = nn.Linear(8, 8), nn.Linear(8, 16)
        self.drop = nn.Dropout(0.5)

    def forward(self, x, k_cache=None, v_cache=None):
        key, value = self.kv(x).chunk(2, dim=-1)
        if k_cache is not None:
            key, value = torch.cat([k_cache, key], dim=-2), torch.cat([v_cache, value], dim=-2)
        scores = self.q(x) @ key.transpose(-1, -2)
        return self.drop(scores.softmax(-1) @ value), key, value


def get_inputs():
    return [torch.randn(2, 5, 8)]


def get_decode_inputs():
    return [torch.randn(2, 1, 8), torch.randn(2, 5, 8), torch.randn(2, 5, 8)]


def get_init_inputs():
    return []
"""


@pytest.fixture
def cached(tmp_path: Path) -> Path:
    file = tmp_path / "cached.py"
    file.write_text(CACHED)
    return file


@pytest.mark.parametrize(("mode", "training"), [("eval", False), ("train", True), (None, True)])
def test_a_model_is_read_in_the_mode_that_is_asked_for(
    cached: Path, mode: str | None, *, training: bool
) -> None:
    model = load_model_file(cached, run_as=RunAs(mode=mode)).build("meta", 0)  # type: ignore[arg-type]

    assert all(each.training == training for each in model.modules())


def test_a_dtype_is_the_constructors_and_the_inputs(cached: Path) -> None:
    source = load_model_file(cached, run_as=RunAs(dtype="bfloat16"))

    tensors = [*source.build("cpu", 0).parameters(), *source.inputs("cpu", 0)]

    assert {each.dtype for each in tensors} == {torch.bfloat16}
    assert torch.get_default_dtype() == torch.float32


def test_a_phase_has_inputs_of_its_own_and_its_lengths_are_axes(
    cached: Path, tmp_path: Path
) -> None:
    source = load_model_file(cached, run_as=RunAs(mode="eval", phase="decode"))
    found = take_apart(source)
    found.write(tmp_path / "out")

    tree = json.loads((tmp_path / "out/decomposition_tree.json").read_text())
    root = next(each for each in tree["nodes"] if each["id"] == tree["root"])

    assert tree["metadata"]["model"] == "cached_decode"
    assert tree["metadata"]["axes"] == {"batch_size": 2, "kv_len": 5}
    assert tree["metadata"]["run_as"] == {"mode": "eval", "phase": "decode", "cache": "dynamic"}
    assert root["axes"] == {"batch_size": 2, "kv_len": 5}
    assert verify_directory(tmp_path / "out").passed
    assert verify_directory(tmp_path / "out", model=cached).passed


def test_a_phase_of_a_model_without_a_known_cache_says_what_to_define(cached: Path) -> None:
    source = load_model_file(cached, run_as=RunAs(phase="prefill"))

    with pytest.raises(ModelFileError, match=r"define get_prefill_inputs\(\)"):
        source.build("meta", 0)


def test_a_model_of_transformers_is_known_by_its_base() -> None:
    base = type("PreTrainedModel", (nn.Module,), {"__module__": "transformers.modeling_utils"})
    own = type("PreTrainedModel", (nn.Module,), {})

    assert is_of_transformers(nn.Sequential(base()))
    assert not is_of_transformers(nn.Sequential(own()))
