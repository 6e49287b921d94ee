"""A published decomposition as a tree of this program's own, from where its files were found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.decompose.verify.layout import (
    TREE,
    DecompositionFolder,
    Instance,
    Metadata,
    Tree,
    TreeNode,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from flashinfer_bench.decompose.verify.published.components import Component
    from flashinfer_bench.decompose.verify.published.placing import FilePlace


def own_tree(
    folder: Path, model: str, components: Sequence[Component], places: Sequence[FilePlace]
) -> DecompositionFolder:
    """Write what was found in a folder as a tree of this program's own."""
    within = containment(components, places)
    ops: dict[str, list[Instance]] = {each.label: [] for each in components}
    for place in places:
        path = f"{place.component.label}:{len(ops[place.component.label])}"
        instance = Instance(path=path, operations=tuple(sorted(place.claimed)))
        ops[place.component.label].append(instance)
    nodes = tuple(
        TreeNode(
            id=each.label,
            level=each.level,
            file=each.label,
            children=tuple(within[each.label]),
            instances=tuple(ops[each.label]),
        )
        for each in components
    )
    whole = max(places, key=lambda each: (len(each.claimed), each.component.level), default=None)
    root = whole.component.label if whole else nodes[-1].id if nodes else ""
    nodes = nodes or (TreeNode(id="", level=0, file=TREE),)
    tree = Tree("1", root, nodes, Metadata(model=model))
    return DecompositionFolder(folder, tree)


def containment(
    components: Sequence[Component], places: Sequence[FilePlace]
) -> dict[str, dict[str, None]]:
    """By file, the files that stand within it, without those that stand within one of these."""
    within: dict[str, dict[str, None]] = {each.label: {} for each in components}
    for outer in places:
        inner = [
            each
            for each in places
            if each.component.level < outer.component.level and each.claimed <= outer.claimed
        ]
        for each in sorted(inner, key=lambda one: min(one.claimed)):
            if not any(
                between is not each
                and each.component.level < between.component.level
                and each.claimed <= between.claimed
                for between in inner
            ):
                within[outer.component.label][each.component.label] = None
    return within
