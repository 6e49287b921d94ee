"""A file of the author's becomes the text of a reference, and tells the names it uses; nothing is run."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

EXAMPLE_FUNCTIONS = ("example_inputs", "get_inputs")
"""Functions that give example inputs, in the order they are looked for."""

_HELPERS = frozenset({*EXAMPLE_FUNCTIONS, "get_init_inputs"})


@dataclass(frozen=True, slots=True)
class AuthorsFile:
    """A file with a function to become a reference."""

    path: Path
    text: str
    tree: ast.Module
    function: str


def read_authors_file(path: Path, function: str | None) -> AuthorsFile:
    """Read a file and find the function; raise `UsageError` for what cannot become a reference."""
    try:
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except (SyntaxError, ValueError) as error:
        line, said = getattr(error, "lineno", None), getattr(error, "msg", error)
        raise UsageError(f"{path}{f':{line}' if line else ''}: does not parse: {said}") from None
    found = AuthorsFile(path, text, tree, function or _only_function(path, tree))
    _require_function(found)
    _require_no_neighbours(found)
    return found


def reference_text(file: AuthorsFile, arguments: Sequence[str]) -> str:
    """Give the file's source with a `run` that takes these arguments.

    Functions and classes that are not needed are left out, and so is what runs as a script.
    """
    lines = file.text.splitlines(keepends=True)
    for first, last in sorted(_left_out(file), reverse=True):
        del lines[first - 1 : last]
    text = "".join(lines).rstrip() + "\n"
    if file.function == "run":
        return text
    if "run" in _needed(file):
        raise UsageError(
            f"{file.path} has another `run`, which is what a reference is called; rename that one"
        )
    takes = ", ".join(arguments)
    parameters = [each.arg for each in (*_arguments(file).posonlyargs, *_arguments(file).args)]
    is_positional = list(arguments) == parameters[: len(arguments)]
    gives = takes if is_positional else ", ".join(f"{name}={name}" for name in arguments)
    return f"{text}\n\ndef run({takes}):\n    return {file.function}({gives})\n"


def shape_hints(file: AuthorsFile) -> dict[str, list[str]]:
    """Read axis names off lines like `batch, hidden = x.shape` in the function."""
    hints: dict[str, list[str]] = {}
    for node in ast.walk(_function(file)):
        match node:
            case ast.Assign(
                targets=[ast.Tuple(elts=elements)],
                value=ast.Attribute(value=ast.Name(id=tensor), attr="shape")
                | ast.Call(
                    func=ast.Attribute(value=ast.Name(id=tensor), attr="size"), args=[], keywords=[]
                ),
            ) if all(isinstance(element, ast.Name) for element in elements):
                names = [element.id for element in elements if isinstance(element, ast.Name)]
                hints.setdefault(tensor, ["_" if name.startswith("_") else name for name in names])
            case _:
                pass
    return hints


def returned_names(file: AuthorsFile) -> list[str] | None:
    """Name the outputs as every `return` of the function does; None where they do not."""
    returns = {
        ast.dump(node.value): node.value
        for node in ast.walk(_function(file))
        if isinstance(node, ast.Return) and node.value is not None
    }
    if len(returns) != 1:
        return None
    (value,) = returns.values()
    elements = value.elts if isinstance(value, ast.Tuple) else [value]
    names = [element.id for element in elements if isinstance(element, ast.Name)]
    return names if len(names) == len(elements) else None


def _only_function(path: Path, tree: ast.Module) -> str:
    names = [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and not node.name.startswith("_")
        and node.name not in _HELPERS
    ]
    if "run" in names or len(names) == 1:
        return "run" if "run" in names else names[0]
    there = f"there are {', '.join(names)}" if names else "it has none"
    raise UsageError(f"name a function of {path} with --from {path}::FUNCTION; {there}")


def _require_function(file: AuthorsFile) -> None:
    kinds = {getattr(node, "name", None): node for node in file.tree.body}
    match kinds.get(file.function):
        case ast.FunctionDef():
            return
        case ast.ClassDef():
            fault = "is a class; write a function that calls it"
        case ast.AsyncFunctionDef():
            fault = "is an async function; a reference is called like any other"
        case _:
            names = [each.name for each in file.tree.body if isinstance(each, ast.FunctionDef)]
            fault = f"is not a function of this file; there are {', '.join(names) or 'none'}"
    raise UsageError(f"{file.path}: {file.function!r} {fault}")


def _require_no_neighbours(file: AuthorsFile) -> None:
    """Refuse imports of files beside this one: a reference is one text."""
    for node in ast.walk(file.tree):
        names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
        is_relative = isinstance(node, ast.ImportFrom) and node.level > 0
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        for name in (each.partition(".")[0] for each in names):
            beside = (file.path.with_name(f"{name}.py"), file.path.with_name(name) / "__init__.py")
            if is_relative or (name and any(path.is_file() for path in beside)):
                raise UsageError(
                    f"{file.path}:{getattr(node, 'lineno', 1)}: imports {name or 'a neighbour'!r}, a file "
                    "beside it; a reference is one text: copy what it needs into this file"
                )


def _function(file: AuthorsFile) -> ast.FunctionDef:
    return next(
        node
        for node in file.tree.body
        if isinstance(node, ast.FunctionDef) and node.name == file.function
    )


def _arguments(file: AuthorsFile) -> ast.arguments:
    return _function(file).args


def _left_out(file: AuthorsFile) -> list[tuple[int, int]]:
    """Give first and last lines of what a reference does not need."""
    lines = file.text.splitlines()
    needed = _needed(file)
    ranges: list[tuple[int, int]] = []
    for node in file.tree.body:
        if _is_script(node) or (_defined(node) is not None and _defined(node) not in needed):
            first = min([node.lineno, *(each.lineno for each in _decorators(node))])
            while first > 1 and not lines[first - 2].strip():  # nothing but space before it
                first -= 1
            ranges.append((first, node.end_lineno or node.lineno))
    return ranges


def _needed(file: AuthorsFile) -> set[str]:
    """Name the functions and classes that the function needs, or that importing the file does."""
    uses = {name: _names(node) for node in file.tree.body if (name := _defined(node)) is not None}
    waiting = {file.function}
    for node in file.tree.body:
        if _defined(node) is None and not _is_script(node):
            waiting |= _names(node)
    needed: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting |= uses.get(name, set())
    return needed


def _defined(node: ast.stmt) -> str | None:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case _:
            return None


def _decorators(node: ast.stmt) -> list[ast.expr]:
    return list(getattr(node, "decorator_list", []))


def _is_script(node: ast.stmt) -> bool:
    match node:
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
            return True
        case _:
            return False


def _names(node: ast.stmt) -> set[str]:
    """Name everything that a statement mentions."""
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
