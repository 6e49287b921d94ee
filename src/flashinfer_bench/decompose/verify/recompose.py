"""Run a decomposition from its root down to its leaves, each parent through its children's own files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from flashinfer_bench.decompose.model_errors import is_full
from flashinfer_bench.decompose.verify.files import NodeFile, raised, tensors, versions
from flashinfer_bench.decompose.verify.rules import found
from flashinfer_bench.decompose.verify.values import error, is_same, tolerance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.decompose.verify.findings import Violation
    from flashinfer_bench.decompose.verify.layout import TreeNode
    from flashinfer_bench.decompose.verify.sources import Draws


_Outs = tuple[torch.Tensor, ...]
_OnCall = Callable[["Child", tuple[Any, ...]], Any]


class Child(nn.Module):
    """Stands where a parent holds a child."""

    def __init__(self, file: NodeFile, copy: nn.Module, on_call: _OnCall) -> None:
        super().__init__()
        self.file = file
        self._held = (copy, on_call)  # in a tuple, so that it is no submodule

    @property
    def copy(self) -> nn.Module:
        """The parent's own copy of the child."""
        return self._held[0]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the child with its inputs in the order of its file."""
        bound = self.file.signature.bind(None, *args, **kwargs)
        bound.apply_defaults()
        return self._held[1](self, tuple(bound.arguments.values())[1:])


def with_children(
    parent: NodeFile, model: nn.Module, files: Mapping[str, NodeFile], on_call: _OnCall
) -> nn.Module:
    """Replace what a fresh parent holds by its children's own files."""
    for name, copy in list(model.named_children()):
        if name in parent.node.children and name in files:
            setattr(model, name, Child(files[name], copy, on_call))
    return model


def foreign_children(parent: NodeFile, model: nn.Module, label: str) -> Iterator[Violation]:
    """Find modules in a parent that are no children of its node."""
    node = parent.node
    for name, held in model.named_children():
        if name not in node.children:
            said = (
                f"{node.id} holds {name!r}, a {type(held).__name__}, which is none of its children"
            )
            yield found("GRAPH-child", label, said, node=node.id)
    for name in dict.fromkeys(node.children):
        if not isinstance(getattr(model, name, None), nn.Module):
            said = f"{node.id} has no attribute called like its child {name}"
            yield found("GRAPH-child", label, said, node=node.id)


def _outputs_of(value: Any) -> _Outs:
    """Give a node's outputs in order."""
    return tensors(value)


@dataclass(frozen=True)
class NodeCall:
    """One call of a node, seen while the root ran."""

    node: TreeNode
    path: str
    """Calls from the root: `block:1/linear_32x96:0`."""
    ins: tuple[Any, ...]
    outs: _Outs
    names: tuple[str, ...]
    """Of the inputs."""


class StoppedError(Exception):
    """A node cannot be run, so nothing above it can."""


@dataclass
class Recomposition:
    """Runs nodes through their children, and keeps what does not fit together."""

    files: Mapping[str, NodeFile]
    draws: Draws
    observe: Callable[[NodeCall], None]
    steps: Mapping[str, Sequence[NodeFile]] = field(default_factory=dict)
    """Further files that claim to compute what a node computes."""
    compares: bool = True
    """Off on `meta`, where there are no values."""
    findings: list[Violation] = field(default_factory=list)
    tolerated: list[tuple[float, str]] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    _models: dict[str, nn.Module] = field(default_factory=dict)
    _compared: set[tuple[str, str]] = field(default_factory=set)

    def run_root(self, root: NodeFile, inputs: Sequence[Any]) -> _Outs:
        """Run the whole through the files below it; a leaf that is the root runs itself."""
        with torch.no_grad(), self.draws.counting(0):
            self._check_steps(root, inputs)
            if root.node.is_leaf:
                outs = self._own(root, inputs)
                self.observe(
                    NodeCall(root.node, "", tuple(inputs), outs, tuple(root.input_names()))
                )
                return outs
            return self._composed(root, inputs, "")

    def _composed(self, parent: NodeFile, inputs: Sequence[Any], path: str) -> _Outs:
        counts: Counter[str] = Counter()

        def on_call(child: Child, args: tuple[Any, ...]) -> Any:
            name = child.file.node.id
            number = counts[name]
            counts[name] += 1
            return self._child_call(parent, child, args, f"{path}/{name}:{number}".lstrip("/"))

        model = with_children(parent, parent.build(), self.files, on_call)
        return tensors(self._guarded(parent, lambda: model(*inputs)))

    def _child_call(self, parent: NodeFile, child: Child, args: tuple[Any, ...], path: str) -> Any:
        file, start = child.file, self.draws.ordinal
        self.calls[file.node.id] += 1
        before = versions(args)
        given = self._guarded(file, lambda: self._model(file)(*args))
        outs, end = tensors(given), self.draws.ordinal
        self._check_writes(file, args, before)
        if self.compares and (parent.node.id, file.node.id) not in self._compared:
            self._compared.add((parent.node.id, file.node.id))
            self._check_copy(parent, child, args, outs, start)
            self._check_steps(file, args, outs, start)
        if not file.node.is_leaf:
            self.draws.ordinal = start
            composed = self._composed(file, args, path)
            self._check_same("COMP-differs", file, composed, outs, f"at {path}, children make")
        self.draws.ordinal = end
        self.observe(NodeCall(file.node, path, args, outs, tuple(file.input_names())))
        return given

    def _own(self, file: NodeFile, inputs: Sequence[Any]) -> _Outs:
        self.calls[file.node.id] += 1
        before = versions(inputs)
        outs = tensors(self._guarded(file, lambda: self._model(file)(*inputs)))
        self._check_writes(file, inputs, before)
        return outs

    def _model(self, file: NodeFile) -> nn.Module:
        if file.node.id not in self._models:
            self._models[file.node.id] = file.build()
        return self._models[file.node.id]

    def _guarded(self, file: NodeFile, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except (StoppedError, MemoryError):
            raise
        except Exception as fault:  # the file's code may raise anything
            if is_full(fault):
                raise
            self.findings.append(raised(fault, file.path, file.label, "FILE-fails", file.node.id))
            raise StoppedError from None

    def _check_writes(
        self, file: NodeFile, args: Sequence[Any], before: Sequence[int | None]
    ) -> None:
        names = file.input_names()
        for name, old, new in zip(names, before, versions(args), strict=False):
            if old != new:
                said = f"{file.node.id} writes into its input {name}"
                self.findings.append(
                    found("FILE-writes", file.node.file, said, node=file.node.id, tensor=name)
                )

    def _check_copy(
        self, parent: NodeFile, child: Child, args: tuple[Any, ...], outs: _Outs, start: int
    ) -> None:
        self.draws.ordinal = start
        copied = tensors(self._guarded(parent, lambda: child.copy(*args)))
        said = f"{parent.node.id} holds a {child.file.node.id} that makes"
        self._check_same("COMP-copy", parent, copied, outs, said)

    def _check_steps(
        self, file: NodeFile, args: Sequence[Any], expected: _Outs | None = None, start: int = 0
    ) -> None:
        """Compare a node's steps with what its file makes, once."""
        for step in self.steps.get(file.node.id, ()) if self.compares else ():
            if (step.label, "step") in self._compared:
                continue
            self._compared.add((step.label, "step"))
            if expected is None:
                self.draws.ordinal = start
                expected = tensors(self._guarded(file, lambda: self._model(file)(*args)))
            self.draws.ordinal = start
            got = tensors(self._guarded(step, lambda step=step: step.build()(*args)))  # type: ignore[misc]
            code = "FILE-step" if step.label.endswith(".py") else "FILE-definition"
            self._check_same(code, step, got, expected, f"it is no {file.node.id}: it makes")
        self.draws.ordinal = start

    def _check_same(
        self, code: str, file: NodeFile, got: _Outs, expected: _Outs, said: str
    ) -> None:
        if not self.compares:
            return
        for fault, tensor in differences(
            got, expected, lambda apart: self.tolerated.append((apart, said))
        ):
            self.findings.append(
                found(code, file.label, f"{said} {fault}", node=file.node.id, tensor=tensor)
            )


def differences(
    got: _Outs, expected: _Outs, tolerate: Callable[[float], None]
) -> Iterator[tuple[str, str]]:
    """Say which outputs are apart, and how; what is within tolerance is told to `tolerate`."""
    if len(got) != len(expected):
        yield f"{len(got)} outputs instead of {len(expected)}", "outputs"
        return
    for index, (left, right) in enumerate(zip(got, expected, strict=True)):
        fault = difference(left, right, tolerate)
        if fault:
            yield f"{fault} in output {index}", str(index)


def difference(
    got: torch.Tensor, expected: torch.Tensor, tolerate: Callable[[float], None]
) -> str | None:
    """Say how two tensors are apart; nothing where they are equal or as good as that."""
    if got.dtype != expected.dtype:
        return f"{got.dtype} instead of {expected.dtype}"
    if got.shape != expected.shape:
        return f"shape {list(got.shape)} instead of {list(expected.shape)}"
    if is_same(got, expected):
        return None
    apart = error(got, expected)
    if apart <= tolerance(got.dtype):
        tolerate(apart)
        return None
    return f"a relative error of {apart:.1e}, above {tolerance(got.dtype):.0e},"
