"""Pages of this wing: a model measured with other kernels, and the score of many."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.text.numbers import NOTHING, count_text, percent_text, rounded, speedup_text
from flashinfer_bench.text.tables import Block, Page, RowColumn, heading, paragraph, rows_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flashinfer_bench.deployed.results import (
        Figure,
        ModelReport,
        ModeResult,
        ModeUse,
        PhaseResult,
        QualityVerdict,
    )
    from flashinfer_bench.deployed.scores import DeployedScore, ModelScore

_SHOWN = 8


def model_report_page(report: ModelReport) -> Page:
    """Show each mode: times, what the model computes, who answered."""
    return tuple(_blocks(report))


def _blocks(report: ModelReport) -> Iterator[Block]:
    yield heading(f"{report.model} with {report.candidate} on {report.hardware}")
    threads = f", {count_text(report.threads, 'thread')}" if report.threads else ""
    clock = ", processor time" if report.clock == "cpu" else ""
    yield paragraph(
        f"{report.dtype}, batch of {report.rows}, prompt of {count_text(report.prompt, 'token')}, "
        f"{count_text(report.steps, 'token')} after it{threads}{clock}; against {report.baseline}",
        f"{count_text(report.rounds, 'round')} of fresh processes, each {count_text(report.blocks, 'sample')} "
        f"of both in turns; differences up to {100 * report.threshold:.3g}% are treated as equal",
    )
    for mode in report.modes:
        yield from _mode_blocks(mode)


def _mode_blocks(mode: ModeResult) -> Iterator[Block]:
    yield heading(f"{mode.mode}: {mode.status}")
    if mode.why:
        yield paragraph(mode.why)
    if mode.phases:
        yield rows_table(_COLUMNS, mode.phases)
        yield paragraph(*_facts(mode))
    if mode.quality is not None:
        yield paragraph(*_quality_lines(mode.quality))
    if mode.use is not None:
        yield paragraph(*_use_lines(mode.use))


def _facts(mode: ModeResult) -> Iterator[str]:
    if mode.old_memory_mib and mode.new_memory_mib:
        old, new = _figure(mode.old_memory_mib), _figure(mode.new_memory_mib)
        yield f"memory {old} -> {new} MiB"
    if mode.graph_breaks is not None:
        yield f"{count_text(mode.graph_breaks, 'graph break')}, {mode.recompiles} graphs after the warm-up"


def _quality_lines(quality: QualityVerdict) -> Iterator[str]:
    found, limits = quality.candidate, quality.limits
    yield f"what it computes: {'right' if quality.is_accepted else 'another model'}"
    yield (
        f"  error of logits {found.error:.2e}, at most {limits.error:.2e} "
        f"(the baseline's largest × {limits.error_margin:g}); of the worst step {found.worst_error:.2e}, "
        f"at most {limits.worst_error:.2e} (× {limits.worst_margin:g})"
    )
    yield (
        f"  {found.flips} of {found.steps} steps choose another token, at most {limits.flips} "
        f"(the baseline's {limits.baseline_flips}, and chance)"
    )


def _use_lines(use: ModeUse) -> Iterator[str]:
    for each in use.solutions:
        counts = ", ".join(f"{count} in {phase}" for phase, count in each.answered.items())
        kind = f" [only calls {', '.join(each.calls_libraries[:3])}]" * (each.kind == "library")
        yield f"answered  {each.definition}  {each.solution}{kind}: {counts}"
    for phase, found in use.phases.items():
        left = [f"{call} × {count}" for call, count in found.left.items()]
        for line in left[:_SHOWN]:
            yield f"left      in {phase}: {line}"
        if len(left) > _SHOWN:
            yield f"left      in {phase}: {len(left) - _SHOWN} more"
        if found.device_kernels:
            shown = ", ".join(found.device_kernels[:_SHOWN])
            yield f"on the device in {phase}, and not in the baseline: {shown}"
    for line in use.left_compiled[:_SHOWN]:
        yield f"left      in compiled code: {line}"


def _figure(figure: Figure) -> str:
    text = rounded(figure.value, figure.interval)
    if figure.interval is None:
        return text
    low, high = (rounded(each, figure.interval) for each in figure.interval)
    return f"{text} [{low}, {high}]"


_COLUMNS: tuple[RowColumn[PhaseResult], ...] = (
    RowColumn("phase", lambda row: row.phase),
    RowColumn("old ms", lambda row: _figure(row.old_step_ms), is_number=True),
    RowColumn("new ms", lambda row: _figure(row.new_step_ms), is_number=True),
    RowColumn("old tokens/s", lambda row: _figure(row.old_tokens_per_s), is_number=True),
    RowColumn("new tokens/s", lambda row: _figure(row.new_tokens_per_s), is_number=True),
    RowColumn(
        "new is [95%]",
        lambda row: speedup_text(row.ratio, row.interval, knows_processes=True),
        is_number=True,
    ),
    RowColumn(
        "predicted",
        lambda row: NOTHING if row.predicted is None else speedup_text(row.predicted),
        is_number=True,
    ),
    RowColumn("verdict", lambda row: row.verdict),
)


def score_page(score: DeployedScore) -> Page:
    """Show the headline, then every model."""
    value = speedup_text(score.value, score.interval, knows_processes=True)
    shipped = (
        "none: a model failed"
        if score.as_shipped is None
        else speedup_text(score.as_shipped, score.as_shipped_interval, knows_processes=True)
    )
    return (
        heading(f"deployed: {value} on {', '.join(score.hardware)}"),
        paragraph(
            f"as shipped, without the model's own code where it is faster: {shipped}",
            f"faster in {percent_text(score.coverage)} of the device's time as declared, "
            f"measured in {percent_text(score.measured)}; the rest counts 1",
            "  ".join(f"{name} {speedup_text(each)}" for name, each in score.families.items()),
        ),
        rows_table(_MODEL_COLUMNS, score.models),
    )


_MODEL_COLUMNS: tuple[RowColumn[ModelScore], ...] = (
    RowColumn("family", lambda row: row.family),
    RowColumn("model", lambda row: row.model),
    RowColumn("share", lambda row: percent_text(row.share), is_number=True),
    RowColumn("prefill", lambda row: speedup_text(row.phases["prefill"]), is_number=True),
    RowColumn("decode", lambda row: speedup_text(row.phases["decode"]), is_number=True),
    RowColumn(
        "deployed [95%]",
        lambda row: speedup_text(row.speedup, row.interval, knows_processes=True),
        is_number=True,
    ),
    RowColumn(
        "as shipped [95%]",
        lambda row: (
            NOTHING
            if row.as_shipped is None
            else speedup_text(row.as_shipped, row.as_shipped_interval, knows_processes=True)
        ),
        is_number=True,
    ),
    RowColumn("why 1", lambda row: row.why),
)
