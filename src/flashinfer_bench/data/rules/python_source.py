"""Which names of torch a source uses, told without running it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class TorchName:
    """A dotted name below `torch`, and the line of the source that uses it."""

    dotted: str
    line: int


def torch_names(source: str) -> list[TorchName]:
    r"""List the names of torch that a source uses, each once; none where it does not parse.

    >>> torch_names("import torch.nn.functional as F\nF.relu_(x)")
    [TorchName(dotted='torch.nn.functional.relu_', line=2)]
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    nodes = list(ast.walk(tree))
    aliases = {local: dotted for node in nodes for local, dotted in _imported(node)}
    for rebound in _rebound(nodes):
        aliases.pop(rebound, None)
    inner = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    first: dict[str, int] = {}
    for node in nodes:
        dotted = _dotted(node, aliases) if id(node) not in inner else None
        if dotted is not None and isinstance(node, ast.expr):
            first[dotted] = min(node.lineno, first.get(dotted, node.lineno))
    return [TorchName(dotted, line) for dotted, line in sorted(first.items(), key=lambda it: it[1])]


def _imported(node: ast.AST) -> list[tuple[str, str]]:
    """Give what an import of torch, or from it, binds."""
    match node:
        case ast.Import(names=names):
            return [
                (each.asname, each.name) if each.asname else ("torch", "torch")
                for each in names
                if each.name.partition(".")[0] == "torch"
            ]
        case ast.ImportFrom(module=str(module), level=0, names=names) if (
            module.partition(".")[0] == "torch"
        ):
            return [
                (each.asname or each.name, f"{module}.{each.name}")
                for each in names
                if each.name != "*"
            ]
        case _:
            return []


def _rebound(nodes: list[ast.AST]) -> set[str]:
    """Name what is bound to something else somewhere: parameters, assignments."""
    assigned = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return assigned | {node.arg for node in nodes if isinstance(node, ast.arg)}


def _dotted(node: ast.AST, aliases: dict[str, str]) -> str | None:
    match node:
        case ast.Name(id=name):
            return aliases.get(name)
        case ast.Attribute(value=value, attr=attribute):
            parent = _dotted(value, aliases)
            return None if parent is None else f"{parent}.{attribute}"
        case _:
            return None


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
