"""Tensors at the borders of leaves that the original does not have bit by bit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.decompose.verify.cover import describe
from flashinfer_bench.decompose.verify.originals import Near, is_near, nearest
from flashinfer_bench.decompose.verify.rules import found

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from flashinfer_bench.decompose.verify.findings import Violation
    from flashinfer_bench.decompose.verify.seen import Seen
    from flashinfer_bench.decompose.verify.sources import Draws
    from flashinfer_bench.decompose.verify.subject import VerifiedModel
    from flashinfer_bench.decompose.verify.values import Fingerprint


def find_near(
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


def strangers(seen: Seen, near: Mapping[Fingerprint, Near]) -> Iterator[Violation]:
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
