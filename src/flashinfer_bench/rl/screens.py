"""Verdicts and self-checks as pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.text.tables import heading, paragraph

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.rl.self_check import CheckedKernel
    from flashinfer_bench.rl.verdicts import KernelVerdict
    from flashinfer_bench.text.tables import Block, Page


def verdicts_page(files: Sequence[str], verdicts: Sequence[KernelVerdict]) -> Page:
    """Show for each file its reward, what it was made of, what it cost, and the feedback."""
    blocks: list[Block] = []
    for file, each in zip(files, verdicts, strict=True):
        blocks += [heading(_headline(file, each)), paragraph(*_lines(each), "")]
    return tuple(blocks)


def self_check_page(checked: Sequence[CheckedKernel]) -> Page:
    """Show for each known kernel whether its verdict is what it must be."""
    failed = sum(not each.is_as_expected for each in checked)
    blocks: list[Block] = []
    for each in checked:
        blocks += [heading(f"{each.kernel}: {_outcome(each)}"), paragraph(*_told(each), "")]
    last = f"{failed} of {len(checked)} known kernels got another verdict: no verdict of this machine can be trusted"
    return (*blocks, paragraph(last if failed else "every verdict is as it must be"))


def _outcome(checked: CheckedKernel) -> str:
    if checked.is_skipped:
        return "skipped"
    return "as expected" if checked.is_as_expected else "NOT AS EXPECTED"


def _told(checked: CheckedKernel) -> list[str]:
    if checked.is_as_expected:
        return [checked.found]
    return [
        f"expected {checked.expected}",
        f"found {checked.found}",
        *checked.feedback.splitlines(),
    ]


def _headline(file: str, verdict: KernelVerdict) -> str:
    if verdict.reward is None:
        return f"{file}: no verdict"
    again = " (judged before)" if verdict.is_duplicate else ""
    return f"{file}: reward {verdict.reward:.3f}{again}"


def _lines(verdict: KernelVerdict) -> list[str]:
    cost = verdict.cost
    paid = f"{cost.device_seconds:.2g} device seconds, {cost.builds} builds or loads"
    if verdict.no_verdict is not None:
        return [f"{verdict.cause}: {verdict.no_verdict}", paid]
    facts = [
        "built" if verdict.built else "not built",
        f"{verdict.right_share or 0:.0%} of {verdict.total} workloads right",
        "audited" if verdict.audited else "not audited",
    ]
    if verdict.speedup_lower is not None:
        facts.append(f"at least {verdict.speedup_lower:.3g}x")
    if verdict.sol_fraction is not None:
        facts.append(f"{verdict.sol_fraction:.0%} of the roofline")
    return [", ".join(facts), paid, *verdict.feedback.splitlines()]
