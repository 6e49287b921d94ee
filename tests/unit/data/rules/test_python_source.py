from __future__ import annotations

import pytest

from flashinfer_bench.data.rules.python_source import torch_names


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import torch\ntorch.relu(x)\n", [("torch.relu", 2)]),
        ("import torch as t\nt.nn.Linear\n", [("torch.nn.Linear", 2)]),
        ("from torch import nn\nnn.functional.relu(x)\n", [("torch.nn.functional.relu", 2)]),
        ("from torch.nn import functional as F\nF.gelu\n", [("torch.nn.functional.gelu", 2)]),
        ("import torch.nn.functional\ntorch.softmax\ntorch.softmax\n", [("torch.softmax", 2)]),
        ("import torch\ndef f(torch):\n    return torch.nonsense\n", []),
        ("import torch\ntorch = x\ntorch.nonsense\n", []),
        ("import torchvision\ntorchvision.ops\n", []),
        ("import torch\nx.torch.nonsense\n", []),
        ("def f(:\n", []),
    ],
)
def test_names_of_torch_are_read_off_a_source(source: str, names: list[tuple[str, int]]) -> None:
    assert [(name.dotted, name.line) for name in torch_names(source)] == names
