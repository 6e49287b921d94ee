"""Compare a decomposition with its original for one seed: what flows where, and whether it is the same."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch

from flashinfer_bench.decompose.capture.recurrent import RecurrentByShape
from flashinfer_bench.decompose.verify.bindings import binding_faults, bound_inputs
from flashinfer_bench.decompose.verify.constants import constant_faults
from flashinfer_bench.decompose.verify.cover import (
    Flow,
    claims_by_values,
    coverage,
    describe,
    kernels_in,
    named_claims,
)
from flashinfer_bench.decompose.verify.findings import StageResult, joined
from flashinfer_bench.decompose.verify.originals import (
    Near,
    OriginalRun,
    borders_of,
    is_near,
    nearest,
    run_original,
)
from flashinfer_bench.decompose.verify.recompose import (
    Recomposition,
    StoppedError,
    differences,
)
from flashinfer_bench.decompose.verify.rules import COMPOSITION, SHADOW, found
from flashinfer_bench.decompose.verify.seen import Seen, SeenSizes
from flashinfer_bench.decompose.verify.shadow import Shadow, places
from flashinfer_bench.decompose.verify.sources import Draws
from flashinfer_bench.decompose.verify.values import is_constant, is_finite

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Iterator, Mapping

    from flashinfer_bench.decompose.verify.cover import Claim
    from flashinfer_bench.decompose.verify.files import LoadedDecomposition, NodeFile
    from flashinfer_bench.decompose.verify.findings import Severity, Violation
    from flashinfer_bench.decompose.verify.originals import VerifiedModel
    from flashinfer_bench.decompose.verify.values import Fingerprint


def compare(
    pieces: LoadedDecomposition, subject: VerifiedModel, seed: int, *, is_first: bool
) -> StageResult:
    """Run the original and the decomposition with the same weights, inputs and draws.

    `is_first`: operations are counted once, with the first seed that runs to the end.
    """
    root, draws = pieces.root, Draws(seed)
    original, shadowed = _shadowed(pieces, subject, draws)
    bound = bound_inputs(root, original)
    before = joined(shadowed, StageResult(bound.findings))
    if bound.inputs is None:
        return before
    seen = Seen(original)
    run = Recomposition(pieces.files, draws, seen.observe, pieces.steps)
    try:
        with draws:
            outs = run.run_root(root, bound.inputs)
    except StoppedError:
        return joined(before, _result_of(run), StageResult(stopped_on="values"))
    results = [before, _result_of(run), _check_outputs(root, outs, original.outputs)]
    if seed == 0:
        sizes = seen.sizes.faults(pieces.files) if subject.is_sized else ()
        faults = (*_call_faults(pieces, run.calls, seen), *sizes)
        results.append(StageResult(faults, calls=run.calls))
    if original.watched:
        results.append(_check_kernels(subject, seen, draws))
    if is_first:
        findings = joined(*results).findings
        results.append(_check_coverage(pieces, subject, seen, findings))
    calls = f"{sum(run.calls.values())} calls, from kernels to the model"
    return joined(*results, StageResult(details={COMPOSITION: calls}))


def check_sizes(pieces: LoadedDecomposition, plain: OriginalRun) -> StageResult:
    """Run the pieces at the original's own sizes on meta, to compare sizes only."""
    bound = bound_inputs(pieces.root, plain)
    if bound.inputs is None:  # `compare` says why
        return StageResult()
    sizes = SeenSizes()
    run = Recomposition(pieces.files, Draws(0), sizes.observe, compares=False)
    try:
        with torch.device("meta"), RecurrentByShape():
            run.run_root(pieces.root, bound.inputs)
    except StoppedError:
        return joined(_result_of(run), StageResult(stopped_on="meta"))
    return joined(_result_of(run), StageResult(tuple(sizes.faults(pieces.files))))


def _result_of(run: Recomposition) -> StageResult:
    return StageResult(tuple(run.findings), tolerated=tuple(run.tolerated))


def _shadowed(
    pieces: LoadedDecomposition, subject: VerifiedModel, draws: Draws
) -> tuple[OriginalRun, StageResult]:
    """Run the original; where the tree names operations, each kernel beside it."""
    layout, trace = pieces.layout, subject.trace
    original = partial(
        run_original, subject.source, draws, "cpu", like=subject.plain, moving=subject.is_moved
    )
    if not layout.has_operations:
        return original(), StageResult()
    known = {op.id for op in trace.ops}
    unknown = [each for each in named_claims(layout) if not each.ops <= known]
    findings = [_unknown_operations(each) for each in unknown]
    standing = [] if unknown else list(places(trace, pieces.files, layout.tree.root))
    shadow = Shadow(trace, standing, draws)
    run = original(also=shadow)
    for value, each in borders_of(run):
        shadow.see(value, each, is_safe=True)
    fed = f"{sum(shadow.done.values())} kernels fed the original's own tensors"
    return run, StageResult(
        (*findings, *shadow.findings),
        tuple(shadow.unfed()),
        {SHADOW: fed},
        tuple(shadow.tolerated),
    )


def _unknown_operations(claim: Claim) -> Violation:
    node = claim.node
    said = f"{node.id} at {claim.path} names operations that the original does not have"
    return found("LAY-tree", node.file, said, node=node.id)


def _check_outputs(
    root: NodeFile, outs: tuple[torch.Tensor, ...], expected: tuple[torch.Tensor, ...]
) -> StageResult:
    node = root.node
    findings: list[Violation] = []
    tolerated: list[tuple[float, str]] = []
    for fault, tensor in differences(
        outs, expected, lambda apart: tolerated.append((apart, "the whole"))
    ):
        said = f"the pieces together make {fault} compared with the original"
        findings.append(found("COMP-differs", node.file, said, node=node.id, tensor=tensor))
    if not is_finite(outs):
        whose: Severity = "warning" if not is_finite(expected) else "error"
        said = "an output holds NaN or infinity"
        findings.append(found("SEED-finite", node.file, said, severity=whose, node=node.id))
    for index, each in enumerate(outs):
        if is_constant(each):
            same = index < len(expected) and is_constant(expected[index])
            rank: Severity = "warning" if same else "error"
            said = (
                f"output {index} has one value everywhere{', in the original too' if same else ''}"
            )
            findings.append(found("SEED-constant", node.file, said, severity=rank, node=node.id))
    return StageResult(tuple(findings), tolerated=tuple(tolerated))


def _call_faults(
    pieces: LoadedDecomposition, calls: Counter[str], seen: Seen
) -> Iterator[Violation]:
    for node in pieces.layout.tree.nodes:
        if node.id == pieces.layout.tree.root:  # what it is given was bound by name
            continue
        listed = {node.instance_count, len(node.instances) or None} - {None, calls[node.id]}
        if listed:
            count = ", ".join(map(str, sorted(filter(None, listed)))) or "0"
            said = f"{node.id} is called {calls[node.id]} times; the tree lists {count} instances"
            yield found("LAY-count", node.file, said, node=node.id)
        if calls[node.id]:
            yield from binding_faults(node, pieces.files[node.id], seen.bindings[node.id])


def _check_coverage(
    pieces: LoadedDecomposition, subject: VerifiedModel, seen: Seen, before: Iterable[Violation]
) -> StageResult:
    """Attribute every operation to a leaf: by the tensors at its borders, and by the tree where it says so."""
    layout, flow = pieces.layout, Flow(subject.trace, subject.tree)
    claims, faults = claims_by_values(flow, seen.known, seen.borders)
    counted, missed = coverage(flow, claims, layout.root)
    findings: list[Violation] = []
    notes: tuple[str, ...] = ()
    if not seen.original.watched:
        said = "the original cannot be watched, so kernels were compared by what they make together"
        notes = (said,)
    elif not any(each.code == "SHADOW-differs" for each in before):  # it hides what is recognised
        findings = faults or missed
    details = {SHADOW: f"{len(seen.borders)} kernel calls, recognised by their tensors"}
    if layout.has_operations:
        claims, details = named_claims(layout), {}
        counted, missed = coverage(flow, claims, layout.root)
        findings = [*findings, *missed]
    kernels = kernels_in(flow, subject.tree, claims)
    constants = constant_faults(pieces, flow, claims)
    return StageResult((*findings, *kernels, *constants), notes, details, coverage=counted)


def _check_kernels(subject: VerifiedModel, seen: Seen, draws: Draws) -> StageResult:
    """Look for the original's value that comes closest to each; what is within tolerance counts as known."""
    near: Mapping[Fingerprint, Near] = {}
    if seen.unknown:
        near = nearest(
            subject.source, draws, seen.unknown, like=subject.plain, moving=subject.is_moved
        )
    close = {key: each for key, each in near.items() if is_near(each, key)}
    seen.known.near.update((key, each.value) for key, each in close.items())
    return StageResult(
        tuple(_strangers(seen, near)),
        tolerated=tuple(
            (each.error, f"{describe(each.op)} and the kernel that stands for it")
            for each in close.values()
        ),
    )


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
