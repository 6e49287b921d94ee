"""Compare a decomposition with its original for one seed: what flows where, and whether it is the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from flashinfer_bench.decompose.verify.bindings import binding_faults, bound_inputs
from flashinfer_bench.decompose.verify.cover import (
    Flow,
    claims_by_values,
    coverage,
    describe,
    kernels_in,
    named_claims,
)
from flashinfer_bench.decompose.verify.originals import (
    Near,
    OriginalRun,
    borders_of,
    is_near,
    nearest,
    run_original,
)
from flashinfer_bench.decompose.verify.recompose import Recomposition, differences
from flashinfer_bench.decompose.verify.rules import found
from flashinfer_bench.decompose.verify.seen import Seen, SeenSizes
from flashinfer_bench.decompose.verify.shadow import Shadow, places
from flashinfer_bench.decompose.verify.sources import Draws
from flashinfer_bench.decompose.verify.values import is_constant, is_finite

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator, Mapping

    from flashinfer_bench.decompose.verify.files import NodeFile
    from flashinfer_bench.decompose.verify.findings import Severity, Verification, Violation
    from flashinfer_bench.decompose.verify.layout import DecompositionFolder
    from flashinfer_bench.decompose.verify.originals import VerifiedModel
    from flashinfer_bench.decompose.verify.values import Fingerprint


def compare(
    verification: Verification,
    layout: DecompositionFolder,
    files: Mapping[str, NodeFile],
    subject: VerifiedModel,
    seed: int,
) -> None:
    """Run the original and the decomposition with the same weights, inputs and draws."""
    draws, root = Draws(seed), files[layout.tree.root]
    if layout.has_operations:
        original = _with_shadow(verification, layout, files, subject, draws)
    else:
        original = run_original(
            subject.source, draws, "cpu", like=subject.plain, moving=subject.is_moved
        )
    bound = bound_inputs(root, original)
    verification.report_all(bound.findings)
    if bound.inputs is None:
        return
    seen = Seen(original)
    run = Recomposition(
        files, draws, seen.observe, verification.report, verification.tolerate, verification.steps
    )
    with draws:
        outs = run.run_root(root, bound.inputs)
    _check_outputs(verification, root, outs, original.outputs)
    if seed == 0:
        _check_calls(verification, layout, files, run.calls, seen)
        if subject.is_sized:
            verification.report_all(seen.sizes.faults(files))
    if original.watched:
        near = _find_near(subject, seen, draws, verification.tolerate)
        verification.report_all(_strangers(seen, near))
    verification.details.setdefault(
        "shadow", f"{len(seen.borders)} kernel calls, recognised by their tensors"
    )
    if verification.coverage is None:
        _check_coverage(verification, layout, subject, seen, is_watched=bool(original.watched))
    calls = sum(run.calls.values())
    verification.details["composition"] = f"{calls} calls, from kernels to the model"


def check_sizes(
    verification: Verification, files: Mapping[str, NodeFile], root: NodeFile, plain: OriginalRun
) -> None:
    """Run the pieces at the original's own sizes on meta, to compare sizes only."""
    bound = bound_inputs(root, plain)
    sizes = SeenSizes()
    run = Recomposition(
        files, Draws(0), sizes.observe, verification.report, verification.tolerate, compares=False
    )
    with torch.device("meta"):
        run.run_root(root, bound.inputs or [])
    verification.report_all(sizes.faults(files))


def _with_shadow(
    verification: Verification,
    layout: DecompositionFolder,
    files: Mapping[str, NodeFile],
    subject: VerifiedModel,
    draws: Draws,
) -> OriginalRun:
    trace = subject.trace
    known = {op.id for op in trace.ops}
    unknown = [each for each in named_claims(layout) if not each.ops <= known]
    for claim in unknown:
        said = f"{claim.node.id} at {claim.path} names operations that the original does not have"
        verification.report(found("LAY-tree", claim.node.file, said, node=claim.node.id))
    standing = [] if unknown else list(places(trace, files, layout.tree.root))
    shadow = Shadow(trace, standing, draws, verification.report, verification.tolerate)
    original = run_original(
        subject.source, draws, "cpu", like=subject.plain, also=shadow, moving=subject.is_moved
    )
    for value, each in borders_of(original):
        shadow.see(value, each, is_safe=True)
    verification.notes += shadow.unfed()
    verification.details["shadow"] = (
        f"{sum(shadow.done.values())} kernels fed the original's own tensors"
    )
    return original


def _check_outputs(
    verification: Verification,
    root: NodeFile,
    outs: tuple[torch.Tensor, ...],
    expected: tuple[torch.Tensor, ...],
) -> None:
    node = root.node
    for fault, tensor in differences(
        outs, expected, lambda apart: verification.tolerate(apart, "the whole")
    ):
        said = f"the pieces together make {fault} compared with the original"
        verification.report(found("COMP-differs", node.file, said, node=node.id, tensor=tensor))
    if not is_finite(outs):
        whose: Severity = "warning" if not is_finite(expected) else "error"
        said = "an output holds NaN or infinity"
        verification.report(found("SEED-finite", node.file, said, severity=whose, node=node.id))
    for index, each in enumerate(outs):
        if is_constant(each):
            same = index < len(expected) and is_constant(expected[index])
            rank: Severity = "warning" if same else "error"
            said = (
                f"output {index} has one value everywhere{', in the original too' if same else ''}"
            )
            verification.report(
                found("SEED-constant", node.file, said, severity=rank, node=node.id)
            )


def _check_calls(
    verification: Verification,
    layout: DecompositionFolder,
    files: Mapping[str, NodeFile],
    calls: Counter[str],
    seen: Seen,
) -> None:
    verification.calls = calls
    for node in layout.tree.nodes:
        if node.id == layout.tree.root:  # what it is given was bound by name
            continue
        listed = {node.instance_count, len(node.instances) or None} - {None, calls[node.id]}
        if listed:
            count = ", ".join(map(str, sorted(filter(None, listed)))) or "0"
            said = f"{node.id} is called {calls[node.id]} times; the tree lists {count} instances"
            verification.report(found("LAY-count", node.file, said, node=node.id))
        if calls[node.id]:
            verification.report_all(binding_faults(node, files[node.id], seen.bindings[node.id]))


def _check_coverage(
    verification: Verification,
    layout: DecompositionFolder,
    subject: VerifiedModel,
    seen: Seen,
    *,
    is_watched: bool,
) -> None:
    """Attribute every operation to a leaf: by the tensors at its borders, and by the tree where it says so."""
    flow = Flow(subject.trace)
    claims, faults = claims_by_values(flow, seen.known, seen.borders)
    counted, findings = coverage(flow, claims, layout.root)
    if is_watched and not _hides_claims(verification):
        verification.report_all((*faults, *(() if faults else findings)))
    if not is_watched:
        verification.notes.append(
            "the original cannot be watched, so kernels were compared by what they make together"
        )
    if layout.has_operations:
        claims = named_claims(layout)
        counted, findings = coverage(flow, claims, layout.root)
        verification.report_all(findings)
    verification.report_all(kernels_in(flow, subject.tree, claims))
    verification.coverage = counted
    verification.details["coverage"] = (
        f"{counted.operations} operations: {counted.in_leaves} in kernels, {counted.plumbing} plumbing, "
        f"{counted.dropped} side effects or dead"
        + (f"; {verification.exported}" if verification.exported else "")
    )


def _hides_claims(verification: Verification) -> bool:
    """Whether a difference was found after which tensors are no longer recognised."""
    return any(each.code == "SHADOW-differs" for each in verification.findings)


def _find_near(
    subject: VerifiedModel, seen: Seen, draws: Draws, tolerate: Callable[[float, str], None]
) -> Mapping[Fingerprint, Near]:
    """Look for the original's value that comes closest to each; what is within tolerance counts as known."""
    if not seen.unknown:
        return {}
    near = nearest(subject.source, draws, seen.unknown, like=subject.plain, moving=subject.is_moved)
    for key, each in near.items():
        if is_near(each, key):
            seen.known.near[key] = each.value
            tolerate(each.error, f"{describe(each.op)} and the kernel that stands for it")
    return near


def _strangers(seen: Seen, near: Mapping[Fingerprint, Near]) -> Iterator[Violation]:
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
