"""What rules can tell from Python source without running it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def functions_of(source: str) -> Mapping[str, ast.FunctionDef] | None:
    """Give the top-level functions of a source by name; None where it does not parse."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return {node.name: node for node in body if isinstance(node, ast.FunctionDef)}


def takes(function: ast.FunctionDef, count: int) -> bool:
    """Tell whether a function can be called with `count` positional arguments."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    required = len(positional) - len(arguments.defaults)
    most = count if arguments.vararg else len(positional)
    has_required_keyword = any(default is None for default in arguments.kw_defaults)
    return required <= count <= most and not has_required_keyword


def parameters(function: ast.FunctionDef) -> Sequence[str]:
    """Name the positional parameters."""
    return [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
