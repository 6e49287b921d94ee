"""Read a decomposition's folder: its tree, and whether the files are where the tree says."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import msgspec

from flashinfer_bench.decompose.run_as import RunAs
from flashinfer_bench.decompose.verify.rules import found
from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from flashinfer_bench.decompose.verify.findings import Violation

TREE = "decomposition_tree.json"
FOLDERS = ("level_0_kernel", "level_1_fusion", "level_2_layer", "level_3_model")
"""By level."""


class Port(msgspec.Struct, frozen=True):
    """An input or output of a node."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    kind: str = "activation"


class Instance(msgspec.Struct, frozen=True):
    """One place of the model where a node stands."""

    path: str = ""
    scope: str = ""
    operations: tuple[int, ...] | None = None
    bindings: dict[str, str] = {}
    shapes: Any = None


class TreeNode(msgspec.Struct, frozen=True):
    """A piece of the model, in one file."""

    id: str
    level: int
    file: str
    children: tuple[str, ...] = ()
    inputs: tuple[Port, ...] | None = None
    outputs: tuple[Port, ...] | None = None
    instance_count: int | None = None
    instances: tuple[Instance, ...] = ()
    name: str = ""
    reason: str = ""
    opaque: str | None = None
    tags: tuple[str, ...] = ()

    @property
    def is_leaf(self) -> bool:
        """Whether it calls no other."""
        return not self.children


class Original(msgspec.Struct, frozen=True):
    """The file that was decomposed."""

    file: str = "original.py"
    sha256: str | None = None


class Metadata(msgspec.Struct, frozen=True):
    """What the tree says of itself."""

    model: str = ""
    original: Original | None = None
    run_as: RunAs = RunAs()


class Tree(msgspec.Struct, frozen=True):
    """A `decomposition_tree.json`."""

    schema_version: str
    root: str
    nodes: tuple[TreeNode, ...]
    metadata: Metadata = Metadata()


@dataclass(frozen=True)
class DecompositionFolder:
    """A decomposition's folder, read."""

    folder: Path
    tree: Tree
    findings: tuple[Violation, ...] = field(default=())

    @cached_property
    def nodes(self) -> Mapping[str, TreeNode]:
        """Nodes by id."""
        return {node.id: node for node in self.tree.nodes}

    @property
    def root(self) -> TreeNode:
        """The whole model."""
        return self.nodes[self.tree.root]

    @property
    def has_operations(self) -> bool:
        """Whether every leaf says which operations of the captured run it stands for."""
        leaves = [node for node in self.tree.nodes if node.is_leaf]
        return all(
            node.instances and all(each.operations for each in node.instances) for node in leaves
        )

    def steps(self) -> Iterator[tuple[TreeNode, Path]]:
        """Files of steps, with the node each one splits."""
        for folder in sorted((self.folder / "steps").glob("step_*")):
            node = self.nodes.get(folder.name.split("_", 2)[-1])
            for name in ("original.py", "refactored.py") if node is not None else ():
                if node is not None and (folder / name).is_file():
                    yield node, folder / name


def read_layout(folder: Path) -> DecompositionFolder | list[Violation]:
    """Read a folder; without a tree that can be read there are only findings."""
    path = folder / TREE
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder; name the one that holds {TREE}")
    if not path.is_file():
        raise UsageError(f"{folder} holds no {TREE}{_nearby(folder)}")
    try:
        tree = msgspec.json.decode(path.read_bytes(), type=Tree)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return [found("LAY-tree", TREE, str(error))]
    if tree.schema_version != "1":
        said = f"schema_version is {tree.schema_version!r}; this program reads '1'"
        return [found("LAY-tree", TREE, said)]
    layout = DecompositionFolder(folder, tree)
    faults = [*_id_faults(tree), *_child_faults(layout)]
    if faults:
        return faults
    return DecompositionFolder(
        folder, tree, (*_file_faults(layout), *_level_faults(layout), *_strays(layout))
    )


def _nearby(folder: Path) -> str:
    below = sorted(path.parent for path in folder.glob(f"*/{TREE}"))
    return f"; did you mean {below[0]}?" if below else ""


def _id_faults(tree: Tree) -> Iterator[Violation]:
    seen: set[str] = set()
    for node in tree.nodes:
        if node.id in seen:
            yield found("LAY-tree", TREE, f"two nodes have the id {node.id!r}", node=node.id)
        seen.add(node.id)
    if tree.root not in seen:
        yield found("LAY-tree", TREE, f"root names {tree.root!r}, which is no node's id")


def _child_faults(layout: DecompositionFolder) -> Iterator[Violation]:
    for node in layout.tree.nodes:
        for child in dict.fromkeys(node.children):
            if child not in layout.nodes:
                said = f"{node.id} names the child {child!r}, which is no node's id"
                yield found("LAY-child", node.file, said, node=node.id)
            elif node.id in _below(layout, child):
                said = f"{node.id} contains itself, through {child}"
                yield found("LAY-child", node.file, said, node=node.id)
    unreached = layout.nodes.keys() - {layout.tree.root} - _below(layout, layout.tree.root)
    for node_id in sorted(unreached) if layout.tree.root in layout.nodes else ():
        file = layout.nodes[node_id].file
        yield found("LAY-child", file, f"{node_id} is no part of the root", node=node_id)


def _below(layout: DecompositionFolder, start: str) -> set[str]:
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        node = layout.nodes.get(waiting.pop())
        new = set(node.children) - reached if node else set()
        reached |= new
        waiting += new
    return reached | {start}


def _file_faults(layout: DecompositionFolder) -> Iterator[Violation]:
    for node in layout.tree.nodes:
        path = PurePosixPath(node.file)
        if path.is_absolute() or ".." in path.parts:
            said = f"the file of {node.id} lies outside the decomposition"
            yield found("LAY-file", node.file, said, node=node.id)
        elif not (layout.folder / path).is_file():
            yield found("LAY-file", node.file, f"{node.id} has no file here", node=node.id)


def _level_faults(layout: DecompositionFolder) -> Iterator[Violation]:
    for node in layout.tree.nodes:
        yield from _level_faults_of(layout, node)


def _level_faults_of(layout: DecompositionFolder, node: TreeNode) -> Iterator[Violation]:
    if not 0 <= node.level < len(FOLDERS):
        said = f"level {node.level} is none of 0 to {len(FOLDERS) - 1}"
        yield found("LAY-level", node.file, said, node=node.id)
        return
    if PurePosixPath(node.file).parent.name != FOLDERS[node.level]:
        said = f"a node of level {node.level} belongs into {FOLDERS[node.level]}"
        yield found("LAY-level", node.file, said, node=node.id)
    if node.is_leaf != (node.level == 0):
        said = "has no children" if node.is_leaf else "is a kernel but has children"
        yield found(
            "LAY-level", node.file, f"{node.id}, of level {node.level}, {said}", node=node.id
        )
    for child in dict.fromkeys(node.children):
        if layout.nodes[child].level > node.level:
            said = f"its child {child} is of a higher level, {layout.nodes[child].level}"
            yield found("LAY-level", node.file, f"{node.id}: {said}", node=node.id)


def _strays(layout: DecompositionFolder) -> Iterator[Violation]:
    named = {PurePosixPath(node.file) for node in layout.tree.nodes}
    for folder in FOLDERS:
        for path in sorted((layout.folder / folder).glob("**/*.py")):
            file = PurePosixPath(path.relative_to(layout.folder).as_posix())
            if file not in named:
                yield found("LAY-stray", str(file), "no node of the tree has this file")
