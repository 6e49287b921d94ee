"""How candidates for KernelBench's problems did, as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.report.jobs import INTERPRETED, INTERPRETED_LEGEND
from flashinfer_bench.report.logs import log_lines
from flashinfer_bench.report.run import fault_blocks, skipped_blocks
from flashinfer_bench.text.numbers import (
    count_text,
    error_text,
    latency_text,
    percent_text,
    speedup_text,
)
from flashinfer_bench.text.tables import Block, Column, Page, heading, paragraph, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.kernelbench.results import BaselineReport, EvalReport, SampleReport

_COLUMNS = (
    Column("problem"),
    Column("sample", is_number=True),
    Column("compiled"),
    Column("correct"),
    Column("latency", is_number=True),
    Column("abs error", is_number=True),
    Column("rel error", is_number=True),
    Column("violations"),
    Column("notes"),
)


def eval_page(report: EvalReport) -> Page:
    """Show one line per candidate, how often they are right and fast, and the logs of those that are not."""
    names = list(dict.fromkeys(share.baseline for share in report.fast_p))
    right = sum(sample.correctness for sample in report.samples)
    total = count_text(len(report.samples), "candidate")
    blocks = [heading(f"{right} of {total} correct, on {report.hardware}")]
    columns = (*_COLUMNS[:5], *(Column(f"against {name} (95%)", is_number=True) for name in names))
    rows = [(*_head(each), *_speedups(each, names), *_tail(each)) for each in report.samples]
    if rows:
        blocks.append(table((*columns, *_COLUMNS[5:]), rows))
    blocks.append(paragraph("", *_remarks(report)))
    blocks += _baseline_blocks(report.baselines, report.log_file)
    blocks += _score_blocks(report, names)
    for sample in report.samples:
        if not sample.correctness:
            blocks.append(heading(f"{sample.problem}, sample {sample.sample_id}: {sample.status}"))
            blocks.append(paragraph(*log_lines(sample.log, whole=report.log_file)))
    return (*blocks, *skipped_blocks(report.skipped), *fault_blocks(report.faults))


def _head(sample: SampleReport) -> tuple[str, ...]:
    latency = latency_text(sample.latency_ms, sample.latency_interval_ms)
    return (
        sample.problem,
        str(sample.sample_id),
        _yes(sample.compiled),
        _yes(sample.correctness),
        INTERPRETED if sample.interpreted else latency,
    )


def _speedups(sample: SampleReport, names: Sequence[str]) -> tuple[str, ...]:
    found = [sample.speedups.get(name) for name in names]
    return tuple(
        speedup_text(each.speedup, each.speedup_interval) if each else "-" for each in found
    )


def _tail(sample: SampleReport) -> tuple[str, ...]:
    return (
        error_text(sample.max_absolute_error),
        error_text(sample.max_relative_error),
        ", ".join(sample.violations),
        ", ".join(sample.notes),
    )


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "no"


def _remarks(report: EvalReport) -> list[str]:
    lines = []
    for each in report.problems:
        lines.append(
            f"{each.problem}: an element is wrong if it is off by more than {each.atol:.2g} and by more "
            f"than {each.rtol:.2g} of what it should be"
        )
        if each.scaled_inputs:
            names = ", ".join(each.scaled_inputs)
            lines.append(
                f"{each.problem}: {names} hold what get_inputs made, scaled anew for every call"
            )
        if each.fixed_inputs:
            names = ", ".join(each.fixed_inputs)
            lines.append(
                f"{each.problem}: {names} hold what get_inputs made, the same in every call"
            )
        if each.is_same_in_every_call:
            lines.append(
                f"{each.problem}: WARNING: no input changes from call to call; who remembers an answer "
                "is not found out"
            )
        if each.is_random:
            lines.append(
                f"{each.problem}: forward draws random numbers; it is seeded before each call"
            )
    if any(sample.interpreted for sample in report.samples):
        lines.append(INTERPRETED_LEGEND)
    return lines


def _baseline_blocks(baselines: Sequence[BaselineReport], log_file: str | None) -> list[Block]:
    if not baselines:
        return []
    columns = (Column("problem"), Column("baseline"), Column("latency", is_number=True), Column(""))
    rows = [
        (
            each.problem,
            each.name,
            latency_text(each.latency_ms, each.latency_interval_ms),
            "" if each.status == "PASSED" else each.status,
        )
        for each in baselines
    ]
    blocks = [heading("Baselines"), table(columns, rows)]
    for each in baselines:
        if each.status != "PASSED" and each.log:
            blocks.append(
                paragraph("", f"{each.problem}, {each.name}:", *log_lines(each.log, whole=log_file))
            )
    return blocks


def _score_blocks(report: EvalReport, names: Sequence[str]) -> list[Block]:
    if not report.samples:
        return []
    columns = [Column("fast_p: correct, and speedup > p")]
    columns += [Column(f"p = {p:g}", is_number=True) for p in _thresholds(report)]
    rows = []
    for name in names:
        shares = [each for each in report.fast_p if each.baseline == name]
        rows.append((f"against {name}", *(percent_text(each.share) for each in shares)))
        rows.append(("  beyond the interval too", *(percent_text(each.surely) for each in shares)))
    lines = [f"pass@{k}: {percent_text(share)}" for k, share in report.pass_at_k.items()]
    return [heading("Scores"), *([table(columns, rows)] if rows else []), paragraph("", *lines)]


def _thresholds(report: EvalReport) -> list[float]:
    return list(dict.fromkeys(each.threshold for each in report.fast_p))
