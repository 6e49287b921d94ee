"""Decompositions as agents publish them, made from a table of pieces: files of one model, a tree in three forms."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

LEVELS = ("kernel", "fusion", "layer", "model")
FOLDERS = tuple(f"level_{number}_{name}" for number, name in enumerate(LEVELS))

ORIGINAL = """\
import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3)
        self.hidden = nn.Linear(75, 16)
        self.norm = nn.LayerNorm(16)
        self.out = nn.Linear(16, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv(x)), 2)
        x = F.relu(self.hidden(x.view(x.shape[0], -1)))
        return torch.softmax(self.out(self.norm(x)), dim=1)


def get_inputs():
    return [torch.rand(4, 1, 12, 12)]


def get_init_inputs():
    return [5]
"""

FILE = '''\
"""
Component: {name}
Source: data/net.py
Abstraction Level: {level}
Parent: {parent}
Operations: [{forward}]
Input Shapes: [{shape}]
Output Shapes: [{made}]
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
{imports}

class Model(nn.Module):
    def __init__(self):
        super().__init__()
{held}

    def forward(self, x):
        return {forward}


def get_inputs():
    return [torch.randn({shape})]


def get_init_inputs():
    return []


def get_expected_output_shape():
    return [{made}]


def run_tests():
    try:
        model = Model(*get_init_inputs())
        model.eval()
        with torch.no_grad():
            output = model(*get_inputs())
        assert tuple(output.shape) == tuple(get_expected_output_shape()[0]), f"shape {{tuple(output.shape)}}"
        print("PASS")
        return True
    except Exception as e:
        print(f"FAIL: {{e}}")
        return False


if __name__ == "__main__":
    import sys
    sys.exit(0 if run_tests() else 1)
'''


@dataclass(frozen=True)
class PublishedPiece:
    """One file of a published decomposition."""

    name: str
    level: int
    shape: tuple[int, ...]
    made: tuple[int, ...]
    forward: str
    held: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """The path from the decomposition's folder."""
        return f"{FOLDERS[self.level]}/{self.name}.py"


def kernel(
    name: str, shape: tuple[int, ...], made: tuple[int, ...], forward: str, *held: str
) -> PublishedPiece:
    return PublishedPiece(name, 0, shape, made, forward, held)


KERNELS = (
    kernel(
        "conv2d_1x3", (4, 1, 12, 12), (4, 3, 10, 10), "self.conv(x)", "self.conv = nn.Conv2d(1, 3, 3)"
    ),
    kernel("relu", (4, 3, 10, 10), (4, 3, 10, 10), "self.act(x)", "self.act = nn.ReLU(inplace=True)"),
    kernel("max_pool2d", (4, 3, 10, 10), (4, 3, 5, 5), "F.max_pool2d(x, 2)"),
    kernel("flatten", (4, 3, 5, 5), (4, 75), "torch.flatten(x, 1)"),
    kernel("linear_75x16", (4, 75), (4, 16), "self.fc(x)", "self.fc = nn.Linear(75, 16)"),
    kernel("relu_2", (4, 16), (4, 16), "F.relu(x)"),
    kernel("layer_norm_16", (4, 16), (4, 16), "self.ln(x)", "self.ln = nn.LayerNorm(16)"),
    kernel("linear_16x5", (4, 16), (4, 5), "self.fc(x)", "self.fc = nn.Linear(16, 5)"),
    kernel("softmax", (4, 5), (4, 5), "torch.softmax(x, dim=1)"),
)  # fmt: skip
PARENTS = (
    PublishedPiece(
        "conv_relu", 1, (4, 1, 12, 12), (4, 3, 10, 10), "F.relu(self.c(x))",
        ("self.c = nn.Conv2d(1, 3, 3)",), ("conv2d_1x3", "relu"),
    ),
    PublishedPiece(
        "flatten_linear_relu", 1, (4, 3, 5, 5), (4, 16), "F.relu(self.fc(x.flatten(1)))",
        ("self.fc = nn.Linear(75, 16)",), ("flatten", "linear_75x16", "relu_2"),
    ),
    PublishedPiece(
        "features", 2, (4, 1, 12, 12), (4, 3, 5, 5), "self.block(x)",
        ("self.block = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2))",),
        ("conv_relu", "max_pool2d"),
    ),
    PublishedPiece(
        "head", 2, (4, 3, 5, 5), (4, 5),
        "torch.softmax(self.last(self.ln(F.relu(self.first(x.reshape(4, 75))))), dim=1)",
        ("self.first = nn.Linear(75, 16)", "self.ln = nn.LayerNorm(16)", "self.last = nn.Linear(16, 5)"),
        ("flatten_linear_relu", "layer_norm_16", "linear_16x5", "softmax"),
    ),
    PublishedPiece(
        "net", 3, (4, 1, 12, 12), (4, 5),
        "torch.softmax(self.d(self.c(F.relu(self.b(F.max_pool2d(F.relu(self.a(x)), 2).view(4, -1))))), dim=1)",
        ("self.a = nn.Conv2d(1, 3, 3)", "self.b = nn.Linear(75, 16)", "self.c = nn.LayerNorm(16)",
         "self.d = nn.Linear(16, 5)"),
        ("features", "head"),
    ),
)  # fmt: skip
PIECES = (*KERNELS, *PARENTS)
IMPORTING = {
    "conv_relu": "self.relu(self.conv2d_1x3(x))",
    "features": "self.max_pool2d(self.conv_relu(x))",
}
"""Parents that import their children and call them, by what they return."""


def importing(piece: PublishedPiece) -> PublishedPiece:
    """Write a parent as calls of its children's files."""
    if piece.name not in IMPORTING:
        return piece
    level = {each.name: each for each in PIECES}
    return replace(
        piece,
        forward=IMPORTING[piece.name],
        imports=tuple(f"from {level[c].file[:-3].replace('/', '.')} import Model as {c}" for c in piece.children),
        held=tuple(f"self.{child} = {child}()" for child in piece.children),
    )  # fmt: skip


def changed(name: str, **changes: Any) -> tuple[PublishedPiece, ...]:
    """Give the pieces with one of them changed."""
    return tuple(replace(each, **changes) if each.name == name else each for each in PIECES)


def without(*names: str) -> tuple[PublishedPiece, ...]:
    """Give the pieces without some."""
    return tuple(each for each in PIECES if each.name not in names)


def write(folder: Path, pieces: Iterable[PublishedPiece], tree: Any = None) -> Path:
    """Write files and a tree, with the original where docstrings say it is, above the folder."""
    (folder.parent / "data").mkdir(parents=True, exist_ok=True)
    (folder.parent / "data/net.py").write_text(ORIGINAL)
    (folder / "verification").mkdir(parents=True)
    for piece in pieces:
        path = folder / piece.file
        path.parent.mkdir(exist_ok=True)
        parents = [each.name for each in PIECES if piece.name in each.children]
        path.write_text(
            FILE.format(
                name=piece.name,
                level=LEVELS[piece.level],
                parent=parents[0] if parents else "None",
                shape=", ".join(map(str, piece.shape)),
                made=str(piece.made),
                forward=piece.forward,
                held="\n".join(f"        {line}" for line in piece.held or ("pass",)),
                imports="\n".join(piece.imports),
            )
        )
    if tree is not None:
        text = tree if isinstance(tree, str) else json.dumps(tree)
        (folder / "decomposition_tree.json").write_text(text)
    return folder


def by_path(pieces: Iterable[PublishedPiece] = PIECES) -> dict[str, Any]:
    """Write a tree keyed by path."""
    files = {each.name: each.file for each in PIECES}
    return {
        "model_name": "net",
        "source": "data/net.py",
        "tree": {
            each.file: {
                "level": each.level,
                "type": LEVELS[each.level],
                "description": each.forward,
                "input_shapes": {"x": list(each.shape)},
                "output_shapes": [list(each.made)],
                "children": [files[child] for child in each.children],
            }
            for each in reversed(list(pieces))
        },
    }


def nested(name: str = "net") -> dict[str, Any]:
    """Write a tree nested from its root."""
    piece = next(each for each in PIECES if each.name == name)
    return {
        "id": piece.name,
        "level": piece.level,
        "type": LEVELS[piece.level],
        "file": piece.file,
        "children": [nested(child) for child in piece.children],
    }


def by_id(pieces: Iterable[PublishedPiece] = PIECES) -> dict[str, Any]:
    """Write a tree with metadata and nodes keyed by id."""
    return {
        "metadata": {"source_file": "data/net.py", "model_name": "net", "verification_status": "PASSED"},
        "nodes": {
            f"node_{each.name}": {
                "id": f"node_{each.name}",
                "name": each.name.title(),
                "level": LEVELS[each.level],
                "path": each.file,
                "children": [f"node_{child}" for child in each.children],
                "input_shapes": {"x": list(each.shape)},
                "output_shapes": {"output": list(each.made)},
            }
            for each in reversed(list(pieces))
        },
    }  # fmt: skip


FORMS = {"by path": by_path(), "nested": {"root": nested()}, "by id": by_id()}
