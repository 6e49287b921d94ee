"""The given file beside what was made of it, and the helper modules it imports from its folder."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from flashinfer_bench.decompose.model_file import ModelFile, ModelSource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def original_of(source: ModelSource) -> bytes | None:
    """Give the bytes of the model's file; none where the model was no file."""
    return source.path.read_bytes() if isinstance(source, ModelFile) else None


def copies(source: ModelSource) -> Iterator[tuple[str, bytes]]:
    """Yield the file as `original.py`, and the helpers under their own names."""
    if not isinstance(source, ModelFile):
        return
    yield "original.py", source.path.read_bytes()
    for helper in sorted(_helpers(source.path)):
        yield helper.relative_to(source.path.parent).as_posix(), helper.read_bytes()


def _helpers(file: Path) -> set[Path]:
    """Find the modules beside a file that it imports, and that those import."""
    found: set[Path] = set()
    waiting = [file]
    while waiting:
        for name in _imported(waiting.pop()):
            path = file.parent / f"{name}.py"
            if path.is_file() and path != file and path not in found:
                found.add(path)
                waiting.append(path)
    return found


def _imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name.replace(".", "/") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.replace(".", "/")
