"""Names people use: of operations, modules, functions and chains; and identifiers of nodes, the same in every run."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from flashinfer_bench.decompose.classes import key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from flashinfer_bench.decompose.grouping.facts import Frame
    from flashinfer_bench.decompose.ir import Node, Op, Scope


_KERNELS: Mapping[str, str] = {
    "getitem": "gather",
    "setitem": "scatter",
    "index_put": "scatter",
    "rsub": "sub",
    "to": "cast",
    "type": "cast",
    "type_as": "cast",
    "float": "cast",
    "double": "cast",
    "half": "cast",
    "bfloat16": "cast",
    "int": "cast",
    "long": "cast",
    "short": "cast",
    "bool": "cast",
    "char": "cast",
    "byte": "cast",
    "_to_copy": "cast",
    "convert_element_type": "cast",
    "rnn_tanh": "rnn",
    "rnn_relu": "rnn",
    "multi_head_attention_forward": "multi_head_attention",
    "amax": "max",
    "amin": "min",
    "concat": "cat",
    "multiply": "mul",
}
_SPELLINGS: Mapping[str, str] = {
    "PReLU": "Prelu",
    "ReLU": "Relu",
    "SiLU": "Silu",
    "GELU": "Gelu",
    "GeLU": "Gelu",
    "SwiGLU": "Swiglu",
    "GeGLU": "Geglu",
    "ReGLU": "Reglu",
    "RoPE": "Rope",
    "RoPe": "Rope",
}
CONTAINERS = frozenset({"Sequential", "ModuleList", "ModuleDict"})
"""Torch's modules that only hold others: what they are called says nothing."""
_METHODS = frozenset({"update"})
"""Methods whose names say little without their class's: `DynamicCache.update`."""
MAX_WORDS = 5


def kernel_name(op: Op) -> str:
    """Name a kernel of one operation.

    >>> from flashinfer_bench.decompose.ir import Op
    >>> kernel_name(Op(0, "torch.Tensor.__rtruediv__", (), {}, (), ()))
    'div'
    """
    name = key(op.fn)
    return identifier(_KERNELS.get(name, name).lstrip("_"))


def snake(name: str) -> str:
    """Turn a class's name into a kernel's.

    >>> snake("RMSNorm"), snake("NewGELU"), snake("SwiGLU"), snake("apply_rotary_emb"), snake("Conv2dBlock")
    ('rms_norm', 'new_gelu', 'swiglu', 'apply_rotary_emb', 'conv2d_block')
    """
    for spelled, plain in _SPELLINGS.items():
        name = name.replace(spelled, plain)
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    return identifier(name.lower())


def identifier(name: str) -> str:
    """Make a name one that Python takes."""
    name = re.sub(r"\W+", "_", name)
    name = re.sub(r"_{2,}", "_", name).strip("_") or "unnamed"
    return f"n{name}" if name[0].isdigit() else name


def model_name(stem: str) -> str:
    """Name the root by its file, the ordinal in front left out.

    >>> model_name("44_MiniGPTBlock"), model_name("gpt_oss"), model_name("36_RMSNorm_")
    ('MiniGPTBlock', 'gpt_oss', 'RMSNorm')
    """
    return identifier(re.sub(r"^\d+[_\-. ]+", "", stem) or stem)


def scope_name(scope: Scope) -> str | None:
    """What a module or function is called by people; none if its name says nothing."""
    if scope.kind == "function":
        *owners, name = scope.path.split(".")
        if name in _METHODS and owners:
            name = f"{snake(owners[-1])}_{name}"
        return None if scope.path.startswith("<") else name.strip("_")
    if not (scope.is_library and scope.cls in CONTAINERS):
        return scope.cls
    words = [word for word in scope.path.split(".") if not word.isdigit()]
    return words[-1] if words else None


def small_name(frame: Frame, kernels: Iterable[str]) -> str:
    """Name a kernel or fusion that is a frame: by its class, else by what is in it."""
    name = scope_name(frame[-1]) if frame else None
    is_container = bool(frame) and frame[-1].is_library and frame[-1].cls in CONTAINERS
    return joined(kernels) if name is None or is_container else snake(name)


def large_name(frame: Frame, model: str) -> str:
    """Name a layer: by its class, or its place when the class is a container of torch's."""
    for scope in reversed(frame):
        name = scope_name(scope)
        if name is not None:
            return identifier(name)
    return model_name(model)


def joined(kernels: Iterable[str]) -> str:
    """Name a chain by its kernels, neighbours of one name once.

    >>> joined(["conv2d", "batch_norm", "relu"]), joined(["linear", "mish", "mish"])
    ('conv2d_batch_norm_relu', 'linear_mish_mish')
    """
    words = list(kernels)
    extra = len(words) - MAX_WORDS
    if extra > 0:
        words = [*words[:MAX_WORDS], f"and_{extra}_more"]
    return identifier("_".join(words))


def identified(root: Node) -> Node:
    """Give the root and all below it their ids."""
    return _below(replace(root, id="root"), "")


def _below(node: Node, prefix: str) -> Node:
    seen: Counter[str] = Counter()
    children = []
    for child in node.children:
        step = f"{child.level}:{_label(node, child)}"
        seen[step] += 1
        again = f"~{seen[step]}" if seen[step] > 1 else ""
        path = f"{prefix}{step}{again}"
        children.append(_below(replace(child, id=path), f"{path}/"))
    return replace(node, children=tuple(children))


def _label(parent: Node, child: Node) -> str:
    """Where a child is, if it is a module of its own below the parent's, else what it is called."""
    if child.is_leaf or child.scope in ("", parent.scope):
        return child.name
    return child.scope.removeprefix(f"{parent.scope}." if parent.scope else "")
