"""Pieces of sentences that rules share, and what can be told from Python source without running it."""

from __future__ import annotations

import ast
import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_NEAR = 0.6


def did_you_mean(name: str, known: Iterable[str], *, cutoff: float = _NEAR) -> str:
    """Suggest the nearest known name, or nothing.

    >>> did_you_mean("gem_n8", ["gemm_n8", "rmsnorm_h8"])
    "; did you mean 'gemm_n8'?"
    """
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f"; did you mean {near[0]!r}?" if near else ""


def listed(names: Iterable[str], *, most: int = 8) -> str:
    """Name things in a sentence, in their order; many are cut short.

    >>> listed(["b", "a"])
    "'b', 'a'"
    """
    everything = [repr(name) for name in names]
    more = f" and {len(everything) - most} more" if len(everything) > most else ""
    return ", ".join(everything[:most]) + more


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
