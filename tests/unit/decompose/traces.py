"""Traces by hand, for tests of what is made of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from flashinfer_bench.decompose.ir import Kind, Node, Op, OpTrace, Ref, Scope, Value

Shape = tuple[int, ...]


@dataclass
class Building:
    """Writes down operations as a capture would; what it returns for a value is a reference to it."""

    model: str = "1_Example"
    values: dict[str, Value] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    scope: tuple[Scope, ...] = (Scope("module", "", "Model", 0),)
    entered: dict[tuple[str, str], int] = field(default_factory=dict)

    def _value(self, shape: Shape, kind: Kind, name: str, dtype: str) -> Ref:
        made = f"v{len(self.values)}"
        self.values[made] = Value(made, shape, dtype, kind, name)
        return Ref(made)

    def input(self, *shape: int, dtype: str = "float32") -> Ref:
        """A value given to forward."""
        made = self._value(shape, "input", f"x{len(self.inputs)}", dtype)
        self.inputs.append(made.id)
        return made

    def param(self, *shape: int) -> Ref:
        """A parameter."""
        return self._value(shape, "param", f"w{len(self.values)}", "float32")

    def buffer(self, *shape: int, dtype: str = "float32") -> Ref:
        """A buffer."""
        return self._value(shape, "buffer", f"b{len(self.values)}", dtype)

    def op(
        self,
        fn: str,
        *args: Any,
        shape: Shape | None = None,
        dtype: str = "float32",
        outs: int = 1,
        is_stochastic: bool = False,
        **kwargs: Any,
    ) -> Ref:
        """An operation; its first output. Without a shape the outputs have that of the first input."""
        name = fn if fn.startswith("torch.") else f"torch.{fn}"
        if shape is None:
            first = next(each for each in args if isinstance(each, Ref))
            shape = self.values[first.id].shape
        made = [self._value(shape, "inter", name, dtype) for _ in range(outs)]
        self.ops.append(
            Op(
                id=len(self.ops),
                fn=name,
                args=args,
                kwargs=kwargs,
                outs=tuple(each.id for each in made),
                scope=self.scope,
                is_stochastic=is_stochastic,
            )
        )
        return made[0]

    def linear(self, x: Ref, width: int) -> Ref:
        """A linear operation, in a module of torch's."""
        shape = self.values[x.id].shape
        with self.module(f"linear{len(self.ops)}", "Linear", is_library=True):
            weight = self.param(width, shape[-1])
            return self.op("torch.nn.functional.linear", x, weight, shape=(*shape[:-1], width))

    @contextmanager
    def module(self, path: str, cls: str, *, is_library: bool = False) -> Iterator[None]:
        """What is written inside ran in a module."""
        yield from self._entered("module", path, cls, is_library)

    @contextmanager
    def function(self, name: str) -> Iterator[None]:
        """What is written inside ran in a function."""
        yield from self._entered("function", name, "model.py", is_library=False)

    def _entered(self, kind: Any, path: str, cls: str, is_library: bool) -> Iterator[None]:
        parents = [each.path for each in self.scope if each.kind == "module" and each.path]
        full = ".".join([*parents[-1:], path]) if kind == "module" else path
        call = self.entered.get((kind, full), 0)
        self.entered[kind, full] = call + 1
        before = self.scope
        self.scope = (*before, Scope(kind, full, cls, call, is_library))
        yield
        self.scope = before

    def trace(self, *outputs: Ref) -> OpTrace:
        """The trace, with what the model returns."""
        return OpTrace(
            model=self.model,
            values=self.values,
            ops=tuple(self.ops),
            inputs=tuple(self.inputs),
            input_structure=list(range(len(self.inputs))),
            outputs=tuple(each.id for each in outputs),
            output_structure=list(range(len(outputs))),
        )


def leaves(tree: Node) -> list[str]:
    """Names of a tree's kernels, in order."""
    return [node.name for node in tree.walk() if node.is_leaf]


def children(node: Node) -> list[tuple[str, str]]:
    """Level and name of what is directly below a node."""
    return [(child.level, child.name) for child in node.children]


def numbers(shape: Shape) -> int:
    """How many elements a shape has."""
    return math.prod(shape)
