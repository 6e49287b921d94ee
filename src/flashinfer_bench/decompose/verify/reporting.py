"""What the stages of a verification found, as one report."""

from __future__ import annotations

import time
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING

from flashinfer_bench.decompose.verify.findings import Rung, StageResult, VerifyReport, Violation
from flashinfer_bench.decompose.verify.rules import RULES, RUNGS, SEEDS, found

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flashinfer_bench.decompose.verify.findings import VerifyRequest
    from flashinfer_bench.decompose.verify.layout import DecompositionFolder


def report_of(
    request: VerifyRequest, layout: DecompositionFolder | None, result: StageResult, started: float
) -> VerifyReport:
    """Sum up: what each stage says, then whether all of them hold."""
    allows = request.allow_opaque or request.overrides is not None
    findings = _ranked(
        (*result.findings, *_inexact(request, result)), allows_opaque=allows or result.allows_opaque
    )
    failed = {RULES[each.code].rung for each in findings if each.severity == "error"}
    rungs = tuple(
        Rung(
            name,
            "fail" if name in failed else "pass" if name in result.details else "not run",
            result.details.get(name, ""),
        )
        for name in RUNGS
    )
    worst, worst_at = max(result.tolerated, key=itemgetter(0), default=(0.0, ""))
    equality = f"within tolerance (at most {worst:.1e}: {worst_at})" if worst else "bit-equal"
    leaves = {node.id for node in layout.tree.nodes if node.is_leaf} if layout else set()
    return VerifyReport(
        model=(layout.tree.metadata.model or layout.tree.root) if layout else "",
        folder=str(request.folder),
        passed=all(each.verdict == "pass" for each in rungs),
        rungs=rungs,
        findings=findings,
        seeds=request.seeds,
        equality=equality if SEEDS in result.details and not failed else "",
        coverage=result.coverage,
        nodes=len(layout.nodes) if layout else 0,
        leaf_calls=sum(count for name, count in result.calls.items() if name in leaves),
        shrunk=result.shrunk,
        notes=tuple(dict.fromkeys(result.notes)),
        elapsed_s=time.monotonic() - started,
        executed=result.executed,
    )


def _inexact(request: VerifyRequest, result: StageResult) -> Iterable[Violation]:
    """Find what is only within tolerance, where every bit must be equal."""
    for apart, place in result.tolerated if request.exact else ():
        said = f"{place}: within tolerance ({apart:.1e}), and not equal in every bit"
        yield found("COMP-differs", str(request.folder), said)


def _ranked(findings: Iterable[Violation], *, allows_opaque: bool) -> tuple[Violation, ...]:
    """Keep each finding once; a leaf that was kept whole is an error unless it was request for."""
    errors = () if allows_opaque else ("GRAPH-kernel",)
    return tuple(
        dict.fromkeys(
            replace(each, severity="error") if each.code in errors else each for each in findings
        )
    )
