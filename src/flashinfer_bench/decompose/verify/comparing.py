"""Compare a decomposition with its original for one seed: what flows where, and whether it is the same."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flashinfer_bench.decompose.capture import same_stream
from flashinfer_bench.decompose.verify.bindings import binding_faults, bound_inputs
from flashinfer_bench.decompose.verify.cover import (
    Claim,
    Flow,
    claims_by_values,
    coverage,
    describe,
    kernels_in,
)
from flashinfer_bench.decompose.verify.originals import (
    Near,
    OriginalRun,
    is_near,
    nearest,
    run_original,
)
from flashinfer_bench.decompose.verify.recompose import Recomposition, differences
from flashinfer_bench.decompose.verify.rules import found
from flashinfer_bench.decompose.verify.seen import Seen
from flashinfer_bench.decompose.verify.shadow import Shadow, places
from flashinfer_bench.decompose.verify.sources import Draws
from flashinfer_bench.decompose.verify.values import Mark, is_constant, is_finite

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator, Mapping, Sequence

    import torch

    from flashinfer_bench.decompose.ir import Node, Trace
    from flashinfer_bench.decompose.model_file import ModelSource
    from flashinfer_bench.decompose.verify.files import NodeFile
    from flashinfer_bench.decompose.verify.layout import Layout
    from flashinfer_bench.decompose.verify.progress import Ladder
    from flashinfer_bench.report.decompose_verify import Finding, Severity


@dataclass(frozen=True)
class Subject:
    """The original, and how it is taken apart by rule."""

    source: ModelSource
    trace: Trace
    tree: Node
    is_moved: bool = True
    """Whether weights are moved away from their defaults."""
    is_sized: bool = True
    """Whether the run has the sizes of the one that was captured; they may depend on data."""


def on_path(subject: Subject, seed: int) -> Subject | None:
    """Keep to weights with which a model that decides by its data does what it did when it was captured."""
    if subject.trace.front_end == "meta" and not subject.trace.specialisations:
        return subject
    for moved in (True, False):
        run = run_original(subject.source, Draws(seed), "cpu", marking=False, moving=moved)
        if same_stream(run.trace, subject.trace, numbers=True) is None:
            return replace(
                subject, is_moved=moved, is_sized=_sizes(run.trace) == _sizes(subject.trace)
            )
    return None


def _sizes(trace: Trace) -> list[tuple[int, ...]]:
    return [trace.values[out].shape for op in trace.ops for out in op.outs]


def compare(
    ladder: Ladder, layout: Layout, files: Mapping[str, NodeFile], subject: Subject, seed: int
) -> None:
    """Run the original and the decomposition with the same weights, inputs and draws."""
    draws, root = Draws(seed), files[layout.tree.root]
    if layout.has_operations:
        original = _with_shadow(ladder, layout, files, subject, draws)
    else:
        original = run_original(subject.source, draws, "cpu", moving=subject.is_moved)
    bound = bound_inputs(root, original)
    ladder.report_all(bound.findings)
    if bound.inputs is None:
        return
    seen = Seen(original, marking=not layout.has_operations)
    run = Recomposition(files, draws, seen.observe, ladder.report)
    with draws:
        outs = run.run_root(root, bound.inputs)
    ladder.tolerate(run.worst)
    _check_outputs(ladder, root, outs, original.outputs)
    if seed == 0:
        _check_calls(ladder, layout, files, run.calls, seen)
        if subject.is_sized:
            ladder.report_all(seen.size_faults(files))
    if not layout.has_operations:
        _check_borders(ladder, layout, subject, seen, draws)
    elif seed == 0:
        _check_claims(ladder, layout, subject, _named_claims(layout))
    calls = sum(run.calls.values())
    ladder.details["composition"] = f"{calls} calls, from kernels to the model"


def _with_shadow(
    ladder: Ladder,
    layout: Layout,
    files: Mapping[str, NodeFile],
    subject: Subject,
    draws: Draws,
) -> OriginalRun:
    trace = subject.trace
    known = {op.id for op in trace.ops}
    unknown = [each for each in _named_claims(layout) if not each.ops <= known]
    for claim in unknown:
        said = f"{claim.node.id} at {claim.path} names operations that the original does not have"
        ladder.report(found("LAY-tree", claim.node.file, said, node=claim.node.id))
    standing = [] if unknown else list(places(trace, files, layout.tree.root))
    shadow = Shadow(standing, draws, ladder.report, ladder.tolerate)
    original = run_original(
        subject.source, draws, "cpu", also=shadow, marking=False, moving=subject.is_moved
    )
    for value, each in _borders_of(trace, original):
        shadow.see(value, each, is_safe=True)
    ladder.notes += shadow.unfed()
    ladder.details["shadow"] = f"{sum(shadow.done.values())} kernels fed the original's own tensors"
    return original


def _borders_of(trace: Trace, original: OriginalRun) -> Iterator[tuple[str, torch.Tensor]]:
    yield from zip(trace.inputs, original.inputs, strict=False)
    yield from zip(trace.outputs, original.outputs, strict=False)
    for value in trace.values.values():
        if value.name in original.weights and value.kind not in ("input", "inter"):
            yield value.id, original.weights[value.name]


def _named_claims(layout: Layout) -> list[Claim]:
    return [
        Claim(node, each.path, frozenset(each.operations or ()))
        for node in layout.tree.nodes
        if node.is_leaf
        for each in node.instances
    ]


def _check_outputs(
    ladder: Ladder,
    root: NodeFile,
    outs: tuple[torch.Tensor, ...],
    expected: tuple[torch.Tensor, ...],
) -> None:
    node = root.node
    for fault, tensor in differences(outs, expected, ladder.tolerate):
        said = f"the pieces together make {fault} compared with the original"
        ladder.report(found("COMP-differs", node.file, said, node=node.id, tensor=tensor))
    if not is_finite(outs):
        whose: Severity = "warning" if not is_finite(expected) else "error"
        said = "an output holds NaN or infinity"
        ladder.report(found("SEED-finite", node.file, said, severity=whose, node=node.id))
    for index, each in enumerate(outs):
        if is_constant(each):
            same = index < len(expected) and is_constant(expected[index])
            rank: Severity = "warning" if same else "error"
            said = (
                f"output {index} has one value everywhere{', in the original too' if same else ''}"
            )
            ladder.report(found("SEED-constant", node.file, said, severity=rank, node=node.id))


def _check_calls(
    ladder: Ladder,
    layout: Layout,
    files: Mapping[str, NodeFile],
    calls: Counter[str],
    seen: Seen,
) -> None:
    ladder.calls = calls
    for node in layout.tree.nodes:
        if node.id == layout.tree.root:  # what it is given was bound by name
            continue
        listed = {node.instance_count, len(node.instances) or None} - {None, calls[node.id]}
        if listed:
            count = ", ".join(map(str, sorted(filter(None, listed)))) or "0"
            said = f"{node.id} is called {calls[node.id]} times; the tree lists {count} instances"
            ladder.report(found("LAY-count", node.file, said, node=node.id))
        if calls[node.id]:
            ladder.report_all(binding_faults(node, files[node.id], seen.bindings[node.id]))


def _check_borders(
    ladder: Ladder,
    layout: Layout,
    subject: Subject,
    seen: Seen,
    draws: Draws,
) -> None:
    near: Mapping[Mark, Near] = {}
    if seen.unknown:
        near = nearest(subject.source, draws, seen.unknown, moving=subject.is_moved)
    for key, each in near.items():
        if is_near(each, key):
            seen.known.near[key] = each.value
            ladder.tolerate(each.error)
    ladder.report_all(_strangers(seen, near))
    ladder.details["shadow"] = f"{len(seen.borders)} kernel calls, recognised by their tensors"
    if draws.seed == 0:
        claims, findings = claims_by_values(Flow(subject.trace), seen.known, seen.borders)
        if not _hides_claims(ladder):
            ladder.report_all(findings)
        _check_claims(ladder, layout, subject, claims)


def _strangers(seen: Seen, near: Mapping[Mark, Near]) -> Iterator[Finding]:
    """Find leaves that get the original's tensors and make others."""
    for border in seen.borders:
        if not all(seen.known.values(each) for _, each in border.ins):
            continue
        for index, each in enumerate(border.outs):
            if seen.known.values(each):
                continue
            close = near.get(each)
            hint = f"; closest is {describe(close.op)}, {close.error:.1e} apart" if close else ""
            said = f"output {index} of {border.node.id} at {border.path} is no tensor of the original{hint}"
            node = border.node
            yield found("SHADOW-differs", node.file, said, node=node.id, tensor=str(index))


def _check_claims(
    ladder: Ladder, layout: Layout, subject: Subject, claims: Sequence[Claim]
) -> None:
    flow = Flow(subject.trace)
    counted, findings = coverage(flow, claims, layout.root)
    ladder.coverage = counted
    if layout.has_operations or not _hides_claims(ladder):
        ladder.report_all(findings)
    ladder.report_all(kernels_in(flow, subject.tree, claims))
    ladder.details["coverage"] = (
        f"{counted.operations} operations: {counted.in_leaves} in kernels, {counted.plumbing} plumbing, "
        f"{counted.dropped} side effects or dead"
    )


def _hides_claims(ladder: Ladder) -> bool:
    """Whether a difference was found after which tensors are no longer recognised."""
    return any(each.code in ("SHADOW-differs", "COVER-input") for each in ladder.findings)
