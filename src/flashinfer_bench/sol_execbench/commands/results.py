"""What was taken of SOL-ExecBench's format or written in it, and what was left out."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from flashinfer_bench.cli import log, screen
from flashinfer_bench.cli.dataset.importing import nothing_left
from flashinfer_bench.cli.options import new_folder_option
from flashinfer_bench.text.numbers import count_text
from flashinfer_bench.text.tables import heading

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from flashinfer_bench.sol_execbench.folder_import import ImportSummary
    from flashinfer_bench.sol_execbench.reading import LeftOutThere
    from flashinfer_bench.sol_execbench.writing import ExportSummary

output_option = new_folder_option("The folder to write: new or empty.")


def require_something(result: ImportSummary | ExportSummary) -> None:
    """Refuse where nothing is left to write."""
    if result.definitions:
        return
    lines = _lines(result.left_out) or ["there are no definitions"]
    raise nothing_left("no problem is left", lines)


def show(what: str, output: Path, result: ImportSummary | ExportSummary, *, as_json: bool) -> None:
    """Say what was written, and name what was left out."""
    for line in _lines(result.left_out):
        log.warn(line)
    if as_json:
        screen.show_json({"schema_version": 1, "output": str(output), what: result})
        return
    counts = [
        count_text(len(result.definitions), "definition"),
        count_text(result.workloads, "workload"),
        count_text(len(result.solutions), "solution"),
    ]
    if result.traces:
        counts.append(count_text(result.traces, "trace"))
    screen.show((heading(f"{', '.join(counts)} in {output}"),))


def _lines(left_out: Sequence[LeftOutThere]) -> list[str]:
    """Name what was left out; workloads, or results, of a problem that share a reason are one line."""
    counts = Counter((each.problem, each.kind, _without_place(each)) for each in left_out)
    lines = []
    for each in left_out:
        count = counts.pop((each.problem, each.kind, _without_place(each)), 0)
        if count > 1:
            lines.append(
                f"{each.problem}: {count} {each.kind}s were left out; the first: {each.reason}"
            )
        elif count == 1:
            name = "" if each.kind == "problem" else f", {each.kind} {each.name},"
            lines.append(f"{each.problem}{name} was left out: {each.reason}")
    return lines


def _without_place(left: LeftOutThere) -> str:
    """Give the reason without file, line and column."""
    if left.kind not in {"workload", "trace"}:
        return left.name
    return left.reason.partition(": ")[2] or left.reason
