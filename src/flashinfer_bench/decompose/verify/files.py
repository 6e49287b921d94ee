"""A node's file, loaded: its model, its inputs, what it declares."""

from __future__ import annotations

import importlib.util
import inspect
import itertools
import linecache
import sys
import traceback
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten

from flashinfer_bench.decompose.model_errors import is_full
from flashinfer_bench.decompose.verify.findings import Violation
from flashinfer_bench.decompose.verify.rules import found

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import ModuleType

    from flashinfer_bench.decompose.verify.layout import DecompositionFolder, TreeNode

_LOADS = itertools.count()
_NEEDED = ("Model", "get_inputs", "get_init_inputs", "get_expected_output_shape")

T = TypeVar("T")


@dataclass(frozen=True)
class NodeFile:
    """A node of the tree with its file, ready to run."""

    node: TreeNode
    path: Path
    module: ModuleType
    label: str
    """Path from the decomposition's folder."""

    def build(self) -> nn.Module:
        """Make a fresh model."""
        given = self.module.get_init_inputs()
        model: nn.Module = self.module.Model(*given)
        return model

    def inputs(self, device: str) -> list[Any]:
        """Make the file's own inputs."""
        if device != "meta":
            return self._drawn(device)
        return [_as_large(each) if isinstance(each, torch.Tensor) else each for each in self._sizes]

    @cached_property
    def _sizes(self) -> list[Any]:
        """The file's own inputs on meta, which many rules ask for."""
        return self._drawn("meta")

    def _drawn(self, device: str) -> list[Any]:
        try:
            with torch.device(device), _AnyGenerator() if device == "meta" else nullcontext():
                given = list(self.module.get_inputs())
        except (RuntimeError, NotImplementedError):  # it reads numbers, which meta has none of
            given = list(self.module.get_inputs())
        return [each.to(device) if isinstance(each, torch.Tensor) else each for each in given]

    def declared(self) -> list[list[int]]:
        """Give the shapes that the file says its outputs have."""
        return [list(shape) for shape in self.module.get_expected_output_shape()]

    @cached_property
    def signature(self) -> inspect.Signature:
        """What forward takes, the model itself first."""
        return inspect.signature(self.module.Model.forward)

    def input_names(self) -> list[str]:
        """Name the parameters of forward."""
        return list(self.signature.parameters)[1:]


def _as_large(tensor: torch.Tensor) -> torch.Tensor:
    """Make another tensor on meta that is laid out as one."""
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


class _AnyGenerator(TorchFunctionMode):
    """Leaves out generators, which belong to one device."""

    def __torch_function__(
        self,
        func: Any,
        types: Any,  # torch's signature
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        return func(*args, **{k: v for k, v in (kwargs or {}).items() if k != "generator"})


@dataclass(frozen=True)
class LoadedDecomposition:
    """A decomposition's folder with its files, imported."""

    layout: DecompositionFolder
    files: Mapping[str, NodeFile]
    """By node."""
    steps: Mapping[str, Sequence[NodeFile]]
    """By node, further files that claim to compute what it computes."""

    @property
    def root(self) -> NodeFile:
        """The whole model's file."""
        return self.files[self.layout.tree.root]


def load_files(layout: DecompositionFolder) -> tuple[dict[str, NodeFile], list[Violation]]:
    """Import every node's file; those that fail are findings."""
    loaded: dict[str, NodeFile] = {}
    findings: list[Violation] = []
    for node in layout.tree.nodes:
        match load(node, layout.folder / node.file):
            case NodeFile() as file:
                loaded[node.id] = file
            case Violation() as finding:
                findings.append(finding)
    return loaded, findings


def load(node: TreeNode, path: Path, *, label: str | None = None) -> NodeFile | Violation:
    """Import a file as a node's."""
    label = label or node.file
    module = attempt(lambda: _imported(path), path, label, "LAY-file", node.id)
    if isinstance(module, Violation):
        return module
    lacking = [name for name in _NEEDED if not callable(getattr(module, name, None))]
    if lacking:
        return found("FILE-names", label, f"it defines no {', '.join(lacking)}", node=node.id)
    return NodeFile(node, path, module, label)


def _imported(path: Path) -> ModuleType:
    name = f"_verified_{next(_LOADS)}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    linecache.checkcache(str(path))
    spec.loader.exec_module(module)
    return module


def attempt(
    call: Callable[[], T], path: Path, file: str, code: str, node: str | None
) -> T | Violation:
    """Call into a given file; what it raises is a finding at the line that raised it."""
    try:
        return call()
    except MemoryError:
        raise
    except (Exception, SystemExit) as error:  # the file's code may raise anything
        if is_full(error):
            raise
        return raised(error, path, file, code, node)


def raised(error: BaseException, path: Path, file: str, code: str, node: str | None) -> Violation:
    """Say what a file raised, and where."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == str(path)
    ]
    line = lines[-1] if lines else getattr(error, "lineno", None)
    said = " ".join(str(error).split())[:400]
    return found(code, file, f"{type(error).__name__}: {said}", node=node, line=line)


def tensors(value: Any) -> tuple[torch.Tensor, ...]:
    """Give the tensors of an output in order, however they are nested."""
    return tuple(each for each in tree_flatten(value)[0] if isinstance(each, torch.Tensor))


def held_tensors(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Name every tensor that a module or one below it holds, registered or not."""
    yield from model.named_parameters()
    yield from model.named_buffers()
    for name, module in model.named_modules():
        for attribute, value in vars(module).items():
            if not attribute.startswith("_"):
                for each in tensors(value):
                    yield (f"{name}.{attribute}" if name else attribute), each


def versions(values: Sequence[Any]) -> list[int | None]:
    """Count the writes each tensor has seen."""
    return [each._version if isinstance(each, torch.Tensor) else None for each in values]
