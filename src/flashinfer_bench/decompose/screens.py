"""What came of taking a model apart, and what a verification found, as pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flashinfer_bench.text.numbers import count_text, duration_text, percent_text
from flashinfer_bench.text.tables import Block, Column, Page, heading, paragraph, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from flashinfer_bench.decompose.verify.findings import VerifyReport, Violation


_COLUMNS = (Column("level"), Column("different", is_number=True), Column("in all", is_number=True))
_SHOWN = 10


def decomposition_page(report: Mapping[str, Any]) -> Page:
    """Show the tree, the counts, what was verified, and where the files are."""
    return tuple(_blocks(report))


def _blocks(report: Mapping[str, Any]) -> Iterator[Block]:
    yield heading(f"{report['model']}: {report['classified']}")
    yield paragraph(*report["tree"])
    yield heading("Counts")
    yield table(
        _COLUMNS,
        [
            (level, f"{each['nodes']:,}", f"{each['instances']:,}")
            for level, each in report["counts"].items()
            if each["nodes"]
        ],
    )
    yield heading("Verification")
    yield paragraph(*_verification(report))
    yield heading("Files")
    yield paragraph(*_files(report))


def _verification(report: Mapping[str, Any]) -> Iterator[str]:
    operations = count_text(report["operations"], "operation")
    accounted = f"{percent_text(report['coverage'])} of {operations} accounted for"
    match report["verified"]:
        case "pass":
            yield accounted
            yield f"passed: {report['equality']} at every level"
            yield from _weak(report)
        case "fail":
            errors = [each for each in report["findings"] if each["severity"] == "error"]
            yield accounted
            yield f"FAILED: {count_text(len(errors), 'finding')}"
            yield from (_finding(each) for each in errors[:_SHOWN])
            if len(errors) > _SHOWN:
                yield f"  and {len(errors) - _SHOWN} more: `flashinfer-bench decompose verify`"
            yield from _weak(report)
        case _:
            yield f"{operations}, not verified: {report['not_verified_because']}"
    if report["shrunk"]:
        yield f"verified on a smaller copy, for want of memory: {report['shrunk']}"
    yield from _remarks("depends on this run", report["specialisations"])
    yield from _remarks("note", report["notes"])


def _weak(report: Mapping[str, Any]) -> Iterator[str]:
    """Say what was executed, and name the workloads on which a wrong kernel passes."""
    yield report["executed"]
    weak = [each for each in report["findings"] if each["code"] == "FILE-weak"]
    yield from (_finding(each) for each in weak[:_SHOWN])
    if len(weak) > _SHOWN:
        yield f"  and {len(weak) - _SHOWN} more: `flashinfer-bench decompose verify`"


def _finding(finding: Mapping[str, Any]) -> str:
    return f"  {finding['file']}: {finding['code']}: {finding['message']}"


def _remarks(what: str, remarks: Sequence[str]) -> Iterator[str]:
    yield from (f"{what}: {each}" for each in remarks[:_SHOWN])
    if len(remarks) > _SHOWN:
        yield f"{what}: and {len(remarks) - _SHOWN} more, in decomposition_tree.json"


def _files(report: Mapping[str, Any]) -> Iterator[str]:
    directory = report["directory"]
    yield f"{count_text(len(report['files']), 'file')} in {directory}"
    for name, why in report["left_out"][:_SHOWN]:
        yield f"no definition for {name}: {why}"
    if report["definitions"]:
        definitions = count_text(len(report["definitions"]), "definition")
        yield f"{definitions} in {directory}/dataset; next:"
        yield f"  flashinfer-bench run --local {directory}/dataset"
        yield f"  flashinfer-bench report model --local {directory}/dataset"


_VERIFICATION_COLUMNS = (Column("rung"), Column("verdict"), Column("what was looked at"))


def verify_page(report: VerifyReport) -> Page:
    """Show the rungs, then what was found, then one line that sums up."""
    blocks: list[Block] = [heading(f"{report.model}: {report.folder}")]
    blocks.append(
        table(
            _VERIFICATION_COLUMNS, [(each.name, each.verdict, each.detail) for each in report.rungs]
        )
    )
    for title, severity in (("Errors", "error"), ("Warnings", "warning")):
        found = [each for each in report.findings if each.severity == severity]
        if found:
            blocks += [
                heading(title),
                paragraph(*(line for each in found for line in _lines(each))),
            ]
    if report.notes:
        blocks += [heading("Notes"), paragraph(*report.notes)]
    return (*blocks, heading("Verdict"), paragraph(*_summary(report)))


def _lines(finding: Violation) -> Iterator[str]:
    place = finding.file if finding.line is None else f"{finding.file}:{finding.line}"
    yield f"{place}: {finding.code}: {finding.message}"
    yield f"    {finding.remedy}"


def _summary(report: VerifyReport) -> Iterator[str]:
    errors = sum(each.severity == "error" for each in report.findings)
    verdict = "PASS" if report.passed else f"FAIL: {count_text(errors, 'error')}"
    yield (
        f"{verdict} ({count_text(report.nodes, 'node')}, {count_text(report.leaf_calls, 'kernel call')}, "
        f"{count_text(report.seeds, 'seed')}, in {duration_text(report.elapsed_s)})"
    )
    if report.coverage is not None:
        held = report.coverage
        yield (
            f"{percent_text(held.share)} of {count_text(held.operations, 'operation')} accounted for: "
            f"{held.in_leaves} in kernels, {held.plumbing} plumbing, {held.dropped} side effects or dead"
        )
    if report.equality:
        yield f"outputs {report.equality}"
    if report.shrunk is not None:
        yield f"shrunk: {report.shrunk}"
