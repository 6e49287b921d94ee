"""The source of a problem or a candidate: its file, and the modules beside it that it imports."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from flashinfer_bench.data.opening import require_regular
from flashinfer_bench.errors import DatasetError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_MOST_FILES = 200


def local_sources(path: Path) -> dict[str, str]:
    """Read a file and the modules beside it that it imports, by their place relative to it."""
    folder = path.parent
    found = {path.name: read_source(path)}
    waiting = [path.name]
    while waiting:
        for name in _imported(found[waiting.pop()]):
            for file in _files_of_module(folder, name):
                relative = str(file.relative_to(folder))
                if relative not in found and len(found) < _MOST_FILES:
                    found[relative] = read_source(file)
                    waiting.append(relative)
    return found


def read_source(path: Path) -> str:
    """Read Python source."""
    try:
        require_regular(path)
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(f"no file {path}") from None
    except (DatasetError, OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read as Python source: {error}") from None


def _imported(text: str) -> set[str]:
    """Name the modules that a file imports, as far as it parses."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return set()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module)
    return {name.partition(".")[0] for name in names}


def _files_of_module(folder: Path, name: str) -> Iterable[Path]:
    file = folder / f"{name}.py"
    if file.is_file():
        return [file]
    package = folder / name
    return sorted(package.rglob("*.py")) if (package / "__init__.py").is_file() else []
