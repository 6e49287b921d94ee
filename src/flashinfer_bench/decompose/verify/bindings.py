"""Which tensor of the original each input of a node is: what the tree says, and what was seen."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.decompose.verify.rules import found

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from flashinfer_bench.decompose.verify.files import NodeFile
    from flashinfer_bench.decompose.verify.findings import Violation
    from flashinfer_bench.decompose.verify.layout import Instance, TreeNode
    from flashinfer_bench.decompose.verify.originals import OriginalRun

_MOST_NAMED = 4


@dataclass(frozen=True)
class Bound:
    """Inputs of the root; none where they cannot be told."""

    inputs: list[torch.Tensor] | None
    findings: tuple[Violation, ...]


def bound_inputs(root: NodeFile, original: OriginalRun) -> Bound:
    """Give the root what its bindings name, and the model's inputs in order for the rest."""
    node, names = root.node, root.input_names()
    bindings = node.instances[0].bindings if node.instances else {}
    findings = [*_unknown(node, names, bindings, original), *_unmapped(node, bindings, original)]
    free = [name for name in names if name not in bindings]
    if len(free) != len(original.inputs):
        said = (
            f"{len(free)} inputs of the root are bound to no weight ({', '.join(free) or 'none'}); "
            f"the original is given {len(original.inputs)} tensors"
        )
        findings.append(found("BIND-unknown", node.file, said, node=node.id))
        return Bound(None, tuple(findings))
    if any(name in names and bindings[name] not in original.weights for name in bindings):
        return Bound(None, tuple(findings))
    given = dict(zip(free, original.inputs, strict=True))
    return Bound(
        [given[name] if name in given else original.weights[bindings[name]] for name in names],
        tuple(findings),
    )


def _unknown(
    node: TreeNode, names: Sequence[str], bindings: Mapping[str, str], original: OriginalRun
) -> Iterator[Violation]:
    for name, target in bindings.items():
        if name not in names:
            said = f"bindings name the input {name!r}, which forward does not take"
            yield found("BIND-unknown", node.file, said, node=node.id, tensor=name)
        elif target not in original.weights:
            said = f"{name} is bound to {target!r}, which the original does not have"
            yield found("BIND-unknown", node.file, said, node=node.id, tensor=name)


def _unmapped(
    node: TreeNode, bindings: Mapping[str, str], original: OriginalRun
) -> Iterator[Violation]:
    bound = set(bindings.values())
    read = {each for op in original.trace.ops for each in op.ins} | set(original.trace.outputs)
    for value in original.trace.values.values():
        if value.kind in ("input", "inter") or value.id not in read:
            continue
        if not bound & {value.name, *value.aliases}:
            said = f"the original reads {value.name}, and no input of the root is bound to it"
            yield found("BIND-unmapped", node.file, said, node=node.id, tensor=value.name)


def observed(owners: Mapping[int, frozenset[str]], ins: Sequence[Any]) -> dict[int, frozenset[str]]:
    """Say which inputs of a call lie in the memory of a weight, by position."""
    seen = {
        index: owners.get(each.untyped_storage().data_ptr())
        for index, each in enumerate(ins)
        if isinstance(each, torch.Tensor)
    }
    return {index: names for index, names in seen.items() if names}


def owners(original: OriginalRun) -> Mapping[int, frozenset[str]]:
    """Say whose memory begins where."""
    found_at: dict[int, set[str]] = defaultdict(set)
    for name, each in original.weights.items():
        found_at[each.untyped_storage().data_ptr()].add(name)
    return {place: frozenset(names) for place, names in found_at.items()}


def binding_faults(
    node: TreeNode, file: NodeFile, calls: Iterable[Mapping[int, frozenset[str]]]
) -> Iterator[Violation]:
    """Find instances whose bindings are not those of any call."""
    names = file.input_names()
    free = [{names[index]: who for index, who in each.items()} for each in calls]
    for instance in node.instances:
        fitting = next((each for each in free if _fits(instance, each)), None)
        if fitting is not None:
            free.remove(fitting)
        elif instance.bindings:
            yield _differing(node, instance, free)


def _differing(
    node: TreeNode, instance: Instance, free: Sequence[Mapping[str, frozenset[str]]]
) -> Violation:
    """Compare an instance with the call that comes closest to it."""

    def misfits(seen: Mapping[str, frozenset[str]]) -> list[str]:
        return [n for n, target in instance.bindings.items() if target not in seen.get(n, ())]

    closest = min(free, key=lambda each: len(misfits(each)), default={})
    shown = [
        f"{name} = {instance.bindings[name]} (it is {' or '.join(sorted(closest.get(name, ()))) or 'no weight'})"
        for name in misfits(closest)[:_MOST_NAMED]
    ]
    place = f" at {instance.path}" if instance.path else ""
    said = f"no call of {node.id} is given what the instance{place} binds: {', '.join(shown)}"
    return found("BIND-differs", node.file, said, node=node.id, tensor=misfits(closest)[0])


def _fits(instance: Instance, seen: Mapping[str, frozenset[str]]) -> bool:
    return all(target in seen.get(name, ()) for name, target in instance.bindings.items())
