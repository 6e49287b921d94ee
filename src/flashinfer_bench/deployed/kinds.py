"""Which class a solution is of: one with code of its own, or one that only calls libraries.

A figure of the second class says how good the library is, and where it was the library's own call that was to be
beaten, it says nothing at all. It is read off the sources; what a device ran is in the proof of use.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flashinfer_bench.data import Solution

KERNEL, LIBRARY = "kernel", "library"
_LIBRARIES = frozenset(
    "torch flashinfer transformers numpy scipy flash_attn xformers vllm sgl_kernel aiter deep_gemm apex".split()  # noqa: SIM905
)
_PLAIN = frozenset("__future__ math typing functools collections dataclasses".split())  # noqa: SIM905
_MAKES_CODE = frozenset({"torch.compile", "torch.utils.cpp_extension", "torch.jit"})
"""Parts of libraries that make kernels of what they are given."""
_OF_C = re.compile(r"\b(?:at|torch|cublas|cublasLt|cudnn|cblas|mkldnn|dnnl)(?:::|_|[A-Z])\w+")
_LOOP_OR_KERNEL = re.compile(r"\b(?:for|while)\s*\(|__global__")


def kind_of(solution: Solution) -> tuple[str, tuple[str, ...]]:
    """Give the class, and what a solution without code of its own calls.

    Python whose every import is a library's makes no kernel; C++ and CUDA make none without a loop or `__global__`.
    """
    sources = {each.path: each.content for each in solution.sources}
    compiled = [
        text for path, text in sources.items() if not path.endswith((".py", ".toml", ".md"))
    ]
    if compiled:
        if any(_LOOP_OR_KERNEL.search(text) for text in compiled):
            return KERNEL, ()
        called = {each for text in compiled for each in _OF_C.findall(text)}
        return (LIBRARY, tuple(sorted(called))) if called else (KERNEL, ())
    own = {path.removesuffix(".py").replace("/", ".").partition(".")[0] for path in sources}
    names: set[str] = set()
    for path, text in sources.items():
        if path.endswith(".py"):
            try:
                names |= set(_names(ast.parse(text)))
            except SyntaxError:
                return KERNEL, ()
    roots = {name.partition(".")[0] for name in names} - own
    strange = roots - _LIBRARIES - _PLAIN
    makes = any(
        name == each or name.startswith(f"{each}.") for name in names for each in _MAKES_CODE
    )
    if strange or makes or not roots & _LIBRARIES:
        return KERNEL, ()
    return LIBRARY, tuple(sorted(each for each in names if each.partition(".")[0] in _LIBRARIES))


def _names(tree: ast.Module) -> Iterator[str]:
    """Give the full names of all that is imported, and of what is reached through it by attributes."""
    known: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                known[each.asname or each.name.partition(".")[0]] = (
                    each.name if each.asname else each.name.partition(".")[0]
                )
                yield each.name
        elif isinstance(node, ast.ImportFrom):
            for each in node.names:
                known[each.asname or each.name] = f"{node.module or ''}.{each.name}"
                yield f"{node.module or ''}.{each.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = _dotted(node.func)
            first, dot, rest = name.partition(".")
            if first in known:
                yield known[first] + dot + rest


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = _dotted(node.value)
        return f"{inner}.{node.attr}" if inner else ""
    return ""
