"""What a dataset holds, as pages: the tables of `list`, and one thing of `show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flashinfer_bench.data.wording import axes_text, sizes_text, where_specialised
from flashinfer_bench.report.beside import beside_facts, beside_latency
from flashinfer_bench.report.failures import is_by_error
from flashinfer_bench.report.generation import generation_facts
from flashinfer_bench.report.holdings import (
    ShownDefinition,
    ShownSolution,
    ShownTensor,
    ShownTrace,
    ShownWorkload,
    shape_text,
)
from flashinfer_bench.text.numbers import (
    NOTHING,
    count_text,
    latency_text,
    percent_text,
    size_text,
    speedup_text,
)
from flashinfer_bench.text.tables import Block, Page, RowColumn, heading, paragraph, rows_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flashinfer_bench.data import Performance
    from flashinfer_bench.data.rows import TraceRow
    from flashinfer_bench.report.holdings import (
        HeldSolution,
        Holdings,
        ListedDefinition,
        ListedWorkload,
        Shown,
    )


def holdings_page(found: Holdings) -> Page:
    """Show a table for each kind that was asked for."""
    blocks: list[Block] = []
    for kind, columns in (
        ("definitions", _DEFINITIONS),
        ("solutions", _SOLUTIONS),
        ("workloads", _WORKLOADS),
        ("traces", _TRACES),
    ):
        lines: tuple[Any, ...] | None = getattr(found, kind)
        if lines is None:
            continue
        blocks.append(heading(count_text(len(lines), kind.removesuffix("s"))))
        if lines:
            blocks.append(rows_table(columns, lines))
    return tuple(blocks)


def shown_page(shown: Shown) -> Page:
    """Show one thing of a dataset."""
    match shown:
        case ShownDefinition():
            return _definition_page(shown)
        case ShownSolution():
            return _solution_page(shown)
        case ShownWorkload():
            return _workload_page(shown)
        case ShownTrace():
            return _trace_page(shown.trace)


def _axes_in_short(line: ListedDefinition) -> str:
    """Name variable axes, and give the lengths of the others."""
    lengths = {name: text.removeprefix("const: ") for name, text in line.axes.items()}
    return ", ".join(name if text == "var" else f"{name}={text}" for name, text in lengths.items())


def _facts(facts: Mapping[str, str | None]) -> Block:
    """Lay out what is known, a line each."""
    said = {name: value for name, value in facts.items() if value}
    width = max(map(len, said))
    return paragraph(*(f"{name:<{width}}  {value}" for name, value in said.items()))


def _source_blocks(title: str, content: str) -> list[Block]:
    return [heading(title), paragraph(*content.expandtabs(4).splitlines())]


def _table_blocks(
    noun: str, columns: Sequence[RowColumn[Any]], lines: Sequence[Any]
) -> list[Block]:
    if not lines:
        return [heading(f"No {noun}s")]
    return [heading(count_text(len(lines), noun)), rows_table(columns, lines)]


def _definition_page(shown: ShownDefinition) -> Page:
    axes = ", ".join(f"{name} ({text})" for name, text in shown.axes.items())
    return (
        heading(f"Definition: {shown.name}"),
        _facts(
            {
                "op type": shown.op_type,
                "about": shown.description,
                "world size": f"{shown.world_size} ranks, a device each"
                if shown.world_size
                else None,
                "axes": axes or "none",
                "holds": "; ".join(shown.constraints),
                "hash": shown.hash,
                "traces": str(shown.traces),
            }
        ),
        heading("Inputs"),
        rows_table(_TENSORS, shown.inputs),
        heading("Outputs"),
        rows_table(_TENSORS, shown.outputs),
        *_table_blocks("workload", _WORKLOADS[1:], shown.workloads),
        *_table_blocks("solution", (_SOLUTIONS[0], *_SOLUTIONS[2:]), shown.solutions),
        *_source_blocks("Reference", shown.reference),
    )


def _solution_page(shown: ShownSolution) -> Page:
    style = {"into": "writes into the outputs it is given", "returns": "returns its outputs"}
    return (
        heading(f"Solution: {shown.name}"),
        _facts(
            {
                "definition": shown.definition,
                "about": shown.description,
                "author": shown.author,
                "licence": shown.license,
                "language": f"{shown.language}, for {', '.join(shown.target_hardware)}",
                "entry point": f"{shown.entry_point}, {style[shown.calling_style]}",
                "needs": ", ".join(shown.dependencies),
                "hash": shown.hash,
                "near-duplicates": ", ".join(
                    f"{name} ({percent_text(similarity)})"
                    for name, similarity in shown.near_duplicates.items()
                ),
                **generation_facts(shown.generated),
            }
        ),
        *_table_blocks("trace", _TRACES[2:], shown.traces),
        *(block for each in shown.sources for block in _source_blocks(each.path, each.content)),
    )


def _workload_page(shown: ShownWorkload) -> Page:
    return (
        heading(f"Workload: {shown.uuid}"),
        _facts(
            {
                "definition": shown.definition,
                "axes": axes_text(shown.axes),
                "size class": shown.size_class,
            }
        ),
        heading("Inputs"),
        rows_table(_TENSORS, shown.inputs),
        heading("Outputs"),
        rows_table(_TENSORS, shown.outputs),
        *_table_blocks("trace", (_TRACES[1], *_TRACES[3:]), shown.traces),
    )


def _trace_page(trace: Mapping[str, Any]) -> Page:
    evaluation = trace["evaluation"]
    correctness = evaluation.get("correctness") or {}
    broken = (correctness.get("extra") or {}).get("violations") or ()
    is_error = not correctness or is_by_error(evaluation["status"], evaluation["log"], broken)
    beside = "" if is_error else " (not why it failed: the log says that)"
    performance = evaluation.get("performance") or {}
    provenance = evaluation.get("provenance") or {}
    blocks = [
        heading(f"Trace: {provenance.get('trace_id', 'without an id')}"),
        _facts(
            {
                "definition": trace["definition"],
                "solution": trace["solution"],
                "workload": f"{trace['workload']['uuid']} ({axes_text(trace['workload']['axes'])})",
                "status": evaluation["status"],
                "hardware": evaluation["environment"]["hardware"],
                "recorded": evaluation["timestamp"],
                **_ranks_facts(performance.get("ranks")),
                "latency": latency_text(performance.get("latency_ms")),
                "reference": latency_text(performance.get("reference_latency_ms")),
                "speedup": speedup_text(
                    performance.get("speedup_factor"), performance.get("speedup_interval")
                ),
                **beside_facts(beside_latency(_performance_of(performance))),
                **_unseen_facts(evaluation.get("unseen")),
                "peak memory": size_text(performance.get("peak_memory_bytes")),
                "build": latency_text(performance.get("build_ms")),
                "abs error": f"{correctness.get('max_absolute_error', NOTHING)}{beside}",
                "rel error": f"{correctness.get('max_relative_error', NOTHING)}{beside}",
            }
        ),
    ]
    if evaluation["log"]:
        blocks += _source_blocks("Log", evaluation["log"])
    return tuple(blocks)


def _ranks_facts(found: Mapping[str, Any] | None) -> dict[str, str]:
    """Say how many ranks there were, and what was not looked at for that."""
    if found is None:
        return {}
    unchecked = ", ".join(found.get("unchecked", ())).replace("_", " ")
    return {
        "ranks": f"{found['world_size']} over {found['backend']}, the slowest one's time",
        "not looked at": unchecked,
    }


def _unseen_facts(found: Mapping[str, Any] | None) -> dict[str, str]:
    """Say how a solution did on configurations that it had not seen, a line each."""
    if found is None:
        return {}
    from flashinfer_bench.data import UnseenInfo  # noqa: PLC0415  # pydantic

    unseen = UnseenInfo.model_validate(found)
    facts = {"unseen sizes": unseen.missing or "", "specialised": where_specialised(unseen) or ""}
    for number, each in enumerate(unseen.configurations, start=1):
        speedup = speedup_text(each.speedup_factor, each.speedup_interval)
        expected = (
            f"at least {each.predicted_speedup / 2:.3g}x expected" if each.predicted_speedup else ""
        )
        said = (each.verdict.replace("_", " "), speedup.strip("-"), expected, each.evidence)
        facts[f"unseen {number}"] = f"{axes_text(each.workload.axes)}: " + ", ".join(
            filter(None, said)
        )
    return facts


def _performance_of(found: Mapping[str, Any]) -> Performance | None:
    from flashinfer_bench.data import Performance  # noqa: PLC0415  # pydantic

    return Performance.model_validate(found) if found else None


_SHORT_ID = 12


def _observed_text(observed: Mapping[str, float] | None) -> str:
    """Say what floats were like that were not kept."""
    if observed is None:
        return ""
    figures = {name: f"{observed[name]:.3g}" for name in ("mean", "std", "largest")}
    figures["zeros"] = percent_text(observed["zeros"])
    return ", ".join(f"{name} {figure}" for name, figure in figures.items())


_TENSORS: tuple[RowColumn[ShownTensor], ...] = (
    RowColumn("name", lambda each: each.name),
    RowColumn("shape", lambda each: shape_text(each.shape)),
    RowColumn("dtype", lambda each: each.dtype),
    RowColumn(
        "size",
        lambda each: "" if each.size_bytes is None else size_text(each.size_bytes),
        is_number=True,
    ),
    RowColumn("from", lambda each: each.source or ""),
    RowColumn("observed", lambda each: _observed_text(each.observed)),
    RowColumn("about", lambda each: each.description or ""),
)
_DEFINITIONS: tuple[RowColumn[ListedDefinition], ...] = (
    RowColumn("definition", lambda each: each.name),
    RowColumn("op type", lambda each: each.op_type),
    RowColumn("axes", _axes_in_short),
    RowColumn("workloads", lambda each: str(each.workloads), is_number=True),
    RowColumn("solutions", lambda each: str(each.solutions), is_number=True),
    RowColumn("traces", lambda each: str(each.traces), is_number=True),
)
_SOLUTIONS: tuple[RowColumn[HeldSolution], ...] = (
    RowColumn("solution", lambda each: each.name),
    RowColumn("definition", lambda each: each.definition),
    RowColumn("author", lambda each: each.author),
    RowColumn("language", lambda each: each.language),
    RowColumn("for", lambda each: ", ".join(each.target_hardware)),
    RowColumn("files", lambda each: str(each.files), is_number=True),
    RowColumn("size", lambda each: size_text(each.size_bytes), is_number=True),
    RowColumn("traces", lambda each: str(each.traces), is_number=True),
)
_WORKLOADS: tuple[RowColumn[ListedWorkload], ...] = (
    RowColumn("definition", lambda each: each.definition),
    RowColumn("workload", lambda each: each.uuid),
    RowColumn("axes", lambda each: sizes_text(each.axes)),
    RowColumn("class", lambda each: each.size_class or ""),
    RowColumn("tensors", lambda each: size_text(each.size_bytes), is_number=True),
    RowColumn("traces", lambda each: str(each.traces), is_number=True),
)
_TRACES: tuple[RowColumn[TraceRow], ...] = (
    RowColumn("definition", lambda row: row.definition),
    RowColumn("solution", lambda row: row.solution),
    RowColumn("axes", lambda row: sizes_text(row.axes)),
    RowColumn("status", lambda row: row.status),
    RowColumn(
        "latency",
        lambda row: NOTHING if row.interpreted else latency_text(row.latency_ms),
        is_number=True,
    ),
    RowColumn(
        "speedup",
        lambda row: NOTHING if row.interpreted else speedup_text(row.speedup),
        is_number=True,
    ),
    RowColumn(
        "peak memory",
        lambda row: size_text(row.peak_memory_bytes) if row.peak_memory_bytes else "",
        is_number=True,
    ),
    RowColumn(
        "build", lambda row: latency_text(row.build_ms) if row.build_ms else "", is_number=True
    ),
    RowColumn("hardware", lambda row: row.hardware),
    RowColumn("recorded", lambda row: row.timestamp),
    RowColumn("trace", lambda row: (row.trace_id or "")[:_SHORT_ID]),
    RowColumn("specialised", lambda row: row.specialised or ""),
)
