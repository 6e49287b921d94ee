"""Small faults in a decomposition are found; `benchmarks/mutations.py` has the table for all problems."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]
MODEL = """\
import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(24, 48), nn.LayerNorm(48), nn.Linear(48, 24)

    def forward(self, x, gate):
        hidden = F.gelu(self.norm(self.up(x)))
        return torch.relu(self.down(hidden) / (1.5 + hidden.std())) * torch.sigmoid(gate)


def get_inputs():
    return [torch.randn(6, 24), torch.randn(6, 24)]


def get_init_inputs():
    return []
"""


@pytest.fixture(scope="module")
def mutations() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutations", ROOT / "benchmarks/mutations.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutations"] = module
    spec.loader.exec_module(module)
    return module


def test_small_faults_of_each_kind_are_found(mutations: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(MODEL)

    results = list(mutations.mutated(file, tmp_path / "work", 2, 1))

    found = {each.mutant.kind for each in results if each.verdict == "found"}
    assert [each.mutant.what for each in results if each.verdict == "missed"] == []
    assert found == set(mutations.KINDS)


@pytest.mark.full
@pytest.mark.parametrize(("kind", "least"), [("scaled", 9), ("removed", 8), ("swapped", 8)])
def test_every_small_fault_is_found(
    kind: str, least: int, mutations: ModuleType, tmp_path: Path
) -> None:
    file = tmp_path / "model.py"
    file.write_text(MODEL)

    results = list(mutations.mutated(file, tmp_path / "work", 12, 1, (kind,)))

    assert [each.mutant.what for each in results if each.verdict == "missed"] == []
    assert sum(each.verdict == "found" for each in results) >= least


@pytest.mark.full
def test_a_mutant_that_changes_no_bit_is_no_fault(mutations: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(MODEL.replace("torch.relu(", "torch.relu(1.0 * "))

    results = list(mutations.mutated(file, tmp_path / "work", 12, 1, ("removed",)))

    assert "equal" in {each.verdict for each in results}
