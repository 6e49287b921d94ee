"""The files of a published decomposition, loaded, each with what its model does."""

from __future__ import annotations

import ast
import contextlib
import io
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from flashinfer_bench.decompose.capture import capture
from flashinfer_bench.decompose.model_file import ModelFile, load_model_file
from flashinfer_bench.decompose.verify.cover import Flow
from flashinfer_bench.decompose.verify.files import NodeFile, attempt
from flashinfer_bench.decompose.verify.findings import Violation
from flashinfer_bench.decompose.verify.layout import FOLDERS, TreeNode
from flashinfer_bench.decompose.verify.rules import found

if TYPE_CHECKING:
    from flashinfer_bench.decompose.ir import OpTrace

_CAPTURED = ("meta", "real")
"""Ways of capturing that see single operations."""
_SOURCE = re.compile(r"^\s*Source:\s*(\S+\.py)\s*$", re.MULTILINE)
_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True, eq=False)
class Component:
    """A file of a published decomposition: its model, and what that does."""

    file: NodeFile
    source: ModelFile
    flow: Flow

    @property
    def label(self) -> str:
        """The file, from the decomposition's folder."""
        return self.file.label

    @property
    def level(self) -> int:
        """The number of its level."""
        return self.file.node.level

    @property
    def trace(self) -> OpTrace:
        """What its model does on its own inputs."""
        return self.flow.trace

    @property
    def work(self) -> list[int]:
        """Operations that compute something, in order."""
        return sorted(self.flow.work)


def piece_files(folder: Path) -> list[Path]:
    """Find the files of all levels, those that are counted (`relu`, `relu_2`, `relu_10`) in their order."""
    found_at = [path for level in FOLDERS for path in (folder / level).glob("*.py")]
    own = [path for path in found_at if path.name != "__init__.py"]
    return sorted(own, key=lambda path: (path.parent.name, _counted(path.stem)))


def _counted(stem: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in _DIGITS.split(stem)]


def stated_source(path: Path) -> str | None:
    """Read the `Source:` of a file's docstring."""
    with contextlib.suppress(OSError, SyntaxError, UnicodeDecodeError):
        said = _SOURCE.search(ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "")
        return said[1] if said else None
    return None


def load_component(folder: Path, path: Path) -> Component | Violation:
    """Load a file, and follow what its model does on its own inputs."""
    label = path.relative_to(folder).as_posix()
    node = TreeNode(id=path.stem, level=FOLDERS.index(path.parent.name), file=label)

    def loaded() -> ModelFile:
        with _imports_of(folder), contextlib.redirect_stdout(io.StringIO()):
            return load_model_file(path)

    source = attempt(loaded, path, label, "LAY-file", node.id)
    if isinstance(source, Violation):
        return source

    def followed() -> OpTrace:
        with _imports_of(folder), contextlib.redirect_stdout(io.StringIO()):
            return capture(source).trace

    trace = attempt(followed, path, label, "FILE-fails", node.id)
    if isinstance(trace, Violation):
        return trace
    if trace.front_end not in _CAPTURED:
        said = f"its operations cannot be followed: {'; '.join(trace.notes)}"
        return found("FILE-fails", label, said, node=node.id)
    return Component(NodeFile(node, path, source.module, label), source, Flow(trace))


@contextlib.contextmanager
def _imports_of(folder: Path) -> Iterator[None]:
    """Let files import each other by name; nobody else sees what they import."""
    before, paths = set(sys.modules), list(sys.path)
    sys.path[:0] = [str(folder), *(str(folder / level) for level in FOLDERS)]
    try:
        yield
    finally:
        sys.path[:] = paths
        for name in set(sys.modules) - before:
            if _lies_in(folder, getattr(sys.modules[name], "__file__", None)):
                del sys.modules[name]


def _lies_in(folder: Path, file: Any) -> bool:
    return isinstance(file, str) and Path(file).resolve().is_relative_to(folder.resolve())


def check_component(component: Component) -> Iterator[Violation]:
    """Look at one file by itself: the shapes that it declares, and the children that it imports."""
    yield from _shape_faults(component)
    yield from _uncalled(component)


def _shape_faults(component: Component) -> Iterator[Violation]:
    file, trace = component.file, component.trace
    declare = getattr(file.module, "get_expected_output_shape", None)
    if not callable(declare):
        said = "it defines no get_expected_output_shape"
        yield found("FILE-names", file.label, said, node=file.node.id)
        return
    declared = attempt(declare, file.path, file.label, "FILE-shape", file.node.id)
    if isinstance(declared, Violation):
        yield declared
        return
    got = [list(trace.values[out].shape) for out in trace.outputs]
    said_shapes = _as_shapes(declared)
    if said_shapes is not None and said_shapes != got:
        said = f"outputs have the shapes {got}; get_expected_output_shape() says {said_shapes}"
        yield found("FILE-shape", file.label, said, node=file.node.id)


def _as_shapes(declared: Any) -> list[list[int]] | None:
    """Read one shape, or several in a list; a mapping by name in its order."""
    if isinstance(declared, Mapping):
        declared = list(declared.values())
    if isinstance(declared, torch.Size) or (
        isinstance(declared, list | tuple) and all(type(each) is int for each in declared)
    ):
        return [list(declared)]
    if isinstance(declared, list | tuple) and all(
        isinstance(each, list | tuple) for each in declared
    ):
        return [list(each) for each in declared]
    return None


def _uncalled(component: Component) -> Iterator[Violation]:
    """Find files of the decomposition that a file imports and whose models its own never calls."""
    file = component.file
    imported = {
        Path(home): value
        for value in vars(file.module).values()
        if isinstance(value, type) and (home := _home(value)) and Path(home) != file.path.resolve()
    }
    if not imported:
        return
    called: set[Path] = set()

    def note(module: nn.Module, *_: Any) -> None:
        if home := _home(type(module)):
            called.add(Path(home))

    def ran() -> None:
        model = component.source.build("meta", 0)
        for each in model.modules():
            each.register_forward_pre_hook(note)
        with torch.device("meta"), torch.no_grad():
            model(*component.source.inputs("meta", 0))

    if component.trace.front_end == "meta":
        attempt(ran, file.path, file.label, "FILE-fails", file.node.id)
        for path in sorted(set(imported) - called):
            if path.parent.name in FOLDERS:
                said = f"it imports {path.parent.name}/{path.name}, and never calls it"
                yield found("GRAPH-uncalled", file.label, said, node=file.node.id)


def _home(kind: type) -> str | None:
    """Find the file of a model's class, whatever its module is called by now."""
    forward = vars(kind).get("forward")
    if not isinstance(forward, FunctionType) or not issubclass(kind, nn.Module):
        return None
    home = forward.__globals__.get("__file__")
    return str(Path(home).resolve()) if isinstance(home, str) else None
