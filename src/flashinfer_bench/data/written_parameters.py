"""Which of its parameters a reference writes into, told without running it."""

from __future__ import annotations

import ast


def written_parameters(source: str) -> frozenset[int]:
    r"""Give the positions of the parameters of `run` that it assigns into, or calls in-place methods on.

    >>> sorted(written_parameters("def run(x, buffer):\n    buffer[0] = x\n    return x"))
    [1]
    """
    runs = [
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and node.name == "run"
    ]
    if not runs:
        return frozenset()
    run = runs[-1]
    names = {_written_name(node) for node in ast.walk(run)}
    parameters = [each.arg for each in (*run.args.posonlyargs, *run.args.args)]
    return frozenset(number for number, name in enumerate(parameters) if name in names)


def _written_name(node: ast.AST) -> str | None:
    """Name what a node writes into: `x[...] = y`, `x[...] += y`, `x.copy_(y)`, `x[...].copy_(y)`."""
    match node:
        case ast.Subscript(value=base, ctx=ast.Store()):
            return _base_name(base)
        case ast.Call(func=ast.Attribute(value=base, attr=method)) if method.endswith(
            "_"
        ) and not method.startswith("_"):
            return _base_name(base)
        case _:
            return None


def _base_name(node: ast.expr) -> str | None:
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None
