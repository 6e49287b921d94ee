"""A dataset on disk that tests break in one way at a time."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashinfer_bench.data import rules

NAME = "scaled_rowsum_n256"
DEFINITION = f"definitions/reduce/{NAME}.json"
WORKLOADS = f"workloads/reduce/{NAME}.jsonl"
TRACES = f"traces/alice/reduce/{NAME}.jsonl"
BLOB = f"blob/workloads/reduce/{NAME}/x.safetensors"
ALICE = f"solutions/alice/reduce/{NAME}/alice_rowsum"
PROFILE = "profiles/PyTorch/tiny.json"


def safetensors(tensors: dict[str, tuple[str, list[int], int]]) -> bytes:
    """A file of zeros: element type, shape and size in bytes by key."""
    header: dict[str, Any] = {}
    end = 0
    for key, (dtype, shape, size) in tensors.items():
        header[key] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(end)


@dataclass(frozen=True)
class Dataset:
    """A dataset on disk, with ways to break it."""

    root: Path

    def path(self, relative: str) -> Path:
        return self.root / relative

    def write(self, relative: str, content: str | bytes) -> None:
        path = self.path(relative)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    def read(self, relative: str) -> str:
        return self.path(relative).read_text()

    def edit(self, relative: str, change: Callable[[dict[str, Any]], object]) -> None:
        """Change one JSON document."""
        document = json.loads(self.read(relative))
        change(document)
        self.write(relative, json.dumps(document))

    def edit_line(
        self, relative: str, number: int, change: Callable[[dict[str, Any]], object]
    ) -> None:
        """Change one JSON line, counted from 1."""
        lines = self.read(relative).splitlines()
        document = json.loads(lines[number - 1])
        change(document)
        lines[number - 1] = json.dumps(document)
        self.write(relative, "".join(f"{line}\n" for line in lines))

    def move(self, source: str, target: str) -> None:
        self.path(target).parent.mkdir(parents=True, exist_ok=True)
        self.path(source).rename(self.path(target))

    def lines(self, relative: str) -> list[str]:
        return self.read(relative).splitlines()

    def findings(self) -> list[rules.Finding]:
        return rules.check(rules.take(self.root))

    def codes(self) -> set[str]:
        return {finding.code for finding in self.findings()}

    def content(self) -> dict[str, bytes]:
        """Every file by its path."""
        files = (path for path in sorted(self.root.rglob("*")) if path.is_file())
        return {path.relative_to(self.root).as_posix(): path.read_bytes() for path in files}
