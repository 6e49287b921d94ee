"""A class name says what it is in the whole package: no two modules define the same one."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "flashinfer_bench"
KERNELS = ("attacks/hostile/", "attacks/honest/", "attacks/victims/")


def modules_by_class() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        module = path.relative_to(SOURCE).as_posix()
        if module.startswith(KERNELS):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for name in {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}:
            found[name].append(module)
    return found


def test_no_class_name_is_defined_in_two_modules() -> None:
    doubles = {name: where for name, where in modules_by_class().items() if len(where) > 1}

    assert doubles == {}
