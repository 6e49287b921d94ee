"""What a validation found, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.data.files import write_whole
from flashinfer_bench.data.rules.report import CATEGORIES, messages_of, read_report
from flashinfer_bench.text.numbers import count_text
from flashinfer_bench.text.tables import Block, Page, heading, page_text, paragraph, printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from flashinfer_bench.data.rules.report import DatasetReport, ReportMessage, ReportPart

_MOST_OF_A_CODE = 10


def validation_page(report: DatasetReport) -> Page:
    """Show totals, then what was found about the dataset and about each definition."""
    blocks: list[Block] = [heading(f"{report.config.dataset}: {report.status}")]
    blocks.append(paragraph(*_totals(report)))
    if report.repairs:
        blocks += [heading("Repaired"), paragraph(*map(printable, report.repairs))]
    if report.dataset is not None and messages_of(report.dataset):
        blocks += _part_blocks("The dataset as a whole", report.dataset)
    blocks += _definition_blocks(report)
    silent = [name for name, part in report.definitions.items() if not messages_of(part)]
    if silent:
        blocks += [heading("Nothing to say about"), paragraph(", ".join(map(printable, silent)))]
    return tuple(blocks)


def render_text_report(report: DatasetReport) -> str:
    """Write a report as text."""
    return page_text(validation_page(report)) + "\n"


def render_report(report_json: Path | str, output: Path | None = None) -> str:
    """Read a report's JSON and write it as text again, to a file too where one is given.

    Raises `FileNotFoundError` where there is no such report, `DatasetError` for what is none.
    """
    text = render_text_report(read_report(report_json))
    if output is not None:
        write_whole(output, text.encode())
    return text


def _totals(report: DatasetReport) -> list[str]:
    counts = [count_text(count, _NOUNS[level.value]) for level, count in report.count().items()]
    config = report.config
    lines = [
        f"{count_text(len(report.definitions), 'definition')}; {', '.join(counts)}",
        f"checked: {', '.join(config.checks)}",
    ]
    chosen = [*(f"op type {each}" for each in config.op_types), *config.definitions]
    return [*lines, f"only: {', '.join(chosen)}"] if chosen else lines


def _definition_blocks(report: DatasetReport) -> list[Block]:
    """Show each definition's findings; those of which the same is said are named together."""
    names_by_text: dict[tuple[Block, ...], list[str]] = {}
    for name, part in sorted(report.definitions.items()):
        if messages_of(part):
            names_by_text.setdefault(tuple(_part_blocks("", part)), []).append(printable(name))
    return [
        block
        for (title, *text), names in names_by_text.items()
        for block in (heading(f"{', '.join(names)}{title.text}"), *text)
    ]


_NOUNS = {"error": "error", "warning": "warning", "info": "note"}


def _part_blocks(title: str, part: ReportPart) -> list[Block]:
    blocks = [heading(f"{title}: {part.status}")]
    for category in CATEGORIES:
        report = getattr(part, category)
        if report is not None and report.messages:
            blocks.append(paragraph(category, *_lines(report.messages)))
    return blocks


def _lines(messages: Sequence[ReportMessage]) -> list[str]:
    """Write messages; of one code only so many, and its remedy once."""
    by_code: dict[str | None, list[ReportMessage]] = {}
    for message in messages:
        by_code.setdefault(message.code, []).append(message)
    lines: list[str] = []
    for code, group in by_code.items():
        shown = group if code is None else group[:_MOST_OF_A_CODE]
        lines += [f"  {_sentence(message)}" for message in shown]
        if len(group) > len(shown):
            lines.append(f"  … and {len(group) - len(shown)} more of {code}")
        remedies = dict.fromkeys(message.remedy for message in shown if message.remedy)
        lines += [f"    → {printable(remedy)}" for remedy in remedies]
    return lines


def _sentence(message: ReportMessage) -> str:
    level = _NOUNS[message.level.value]
    code = f" {message.code}" if message.code else ""
    line = f":{message.line}" if message.line is not None else ""
    place = f" {printable(message.path)}{line}:" if message.path else ""
    return f"{level}{code}{place} {printable(message.message)}"
