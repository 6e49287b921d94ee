"""What a validation found, as a document that other tools read."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from flashinfer_bench.data.entity import Entity, is_none
from flashinfer_bench.data.opening import read_bytes
from flashinfer_bench.data.parsing import TextPlace, UnknownKeys, parse
from flashinfer_bench.data.rules.finding import CATEGORY_BY_PREFIX, Finding, Level

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

Status = Literal["ok", "warning", "error"]
_STATUS_BY_LEVEL: dict[Level, Status] = {
    Level.INFO: "ok",
    Level.WARNING: "warning",
    Level.ERROR: "error",
}
_WORST_FIRST: tuple[Status, ...] = ("error", "warning", "ok")
CATEGORIES = tuple(CATEGORY_BY_PREFIX.values())


class ReportMessage(Entity):
    """One finding."""

    level: Level
    """How grave it is."""
    message: str
    """What was found."""
    code: str | None = Field(None, exclude_if=is_none)
    """The rule that found it."""
    path: str | None = Field(None, exclude_if=is_none)
    """File, relative to the dataset's root."""
    line: int | None = Field(None, exclude_if=is_none)
    """Line in the file."""
    remedy: str | None = Field(None, exclude_if=is_none)
    """What to do."""


class CategoryReport(Entity):
    """The findings of one category."""

    status: Status
    """The worst level among them; notes are fine."""
    messages: list[ReportMessage]
    """The findings, gravest first."""


class ReportPart(Entity):
    """The findings about one definition, or about the dataset as a whole; null was not checked."""

    status: Status
    """The worst of all categories."""
    layout: CategoryReport | None = None
    """Whether files lie where they should."""
    definition: CategoryReport | None = None
    """Whether the definition is sound."""
    workload: CategoryReport | None = None
    """Whether workloads fit it."""
    solution: CategoryReport | None = None
    """Whether solutions fit it."""
    trace: CategoryReport | None = None
    """Whether traces fit both."""
    baseline: CategoryReport | None = None
    """Whether there is something to rank against."""
    profile: CategoryReport | None = Field(None, exclude_if=is_none)
    """Whether model profiles are sound."""
    benchmark: CategoryReport | None = None
    """Whether reference and baseline run."""
    task: CategoryReport | None = Field(None, exclude_if=is_none)
    """Whether the task is sound, and hard to fake."""


class ReportConfig(Entity):
    """What was asked for."""

    dataset: str
    """The dataset's root."""
    checks: list[str]
    """The categories."""
    disable_gpu: bool
    """Whether whatever runs code was left out."""
    op_types: list[str]
    """Op types to look at; empty with `definitions` empty: all."""
    definitions: list[str]
    """Definitions to look at."""


class DatasetReport(Entity):
    """What a validation found."""

    schema_version: int = 1
    """Version of this document's keys; they are only ever added."""
    config: ReportConfig
    """What was asked for."""
    definitions: dict[str, ReportPart]
    """The findings by definition."""
    dataset: ReportPart | None = Field(None, exclude_if=is_none)
    """The findings that belong to no definition; absent where only some were asked for."""
    repairs: list[str] = Field(default_factory=list, exclude_if=lambda repairs: not repairs)
    """What `--fix` did."""

    @property
    def parts(self) -> list[ReportPart]:
        """All parts."""
        return [*self.definitions.values(), *([self.dataset] if self.dataset else [])]

    def count(self) -> dict[Level, int]:
        """Count the findings by level."""
        counts = Counter(message.level for part in self.parts for message in messages_of(part))
        return {level: counts[level] for level in reversed(Level)}

    @property
    def status(self) -> Status:
        """The worst of all parts."""
        return _worst(part.status for part in self.parts)

    def is_good(self, *, strict: bool = False) -> bool:
        """Tell whether there are no errors; when strict, no warnings either."""
        return self.status == "ok" or (self.status == "warning" and not strict)


def messages_of(part: ReportPart) -> list[ReportMessage]:
    """Give a part's findings in the order of the categories."""
    found: list[ReportMessage] = []
    for category in CATEGORIES:
        report: CategoryReport | None = getattr(part, category)
        found += report.messages if report else []
    return found


def assemble(
    config: ReportConfig,
    names: Iterable[str],
    findings: Sequence[Finding],
    repairs: Sequence[str] = (),
) -> DatasetReport:
    """Sort findings into the parts of the definitions named; the dataset's own where all are."""
    by_definition: dict[str | None, list[Finding]] = {name: [] for name in sorted(names)}
    has_scope = bool(config.op_types or config.definitions)
    if not has_scope:
        by_definition[None] = []
    for finding in findings:
        home = finding.definition if finding.definition in by_definition else None
        if home in by_definition and (home is not None or not has_scope):
            by_definition[home].append(finding)
    parts = {name: _part(config, found) for name, found in by_definition.items()}
    dataset = parts.pop(None, None)
    return DatasetReport(
        config=config,
        definitions={name: part for name, part in parts.items() if name is not None},
        dataset=dataset,
        repairs=list(repairs),
    )


def read_report(path: Path | str) -> DatasetReport:
    """Read a report, of this program or of another that writes the same keys."""
    return parse(DatasetReport, read_bytes(path), TextPlace(path), unknown=UnknownKeys())


def _part(config: ReportConfig, findings: Sequence[Finding]) -> ReportPart:
    reports = {
        category: _category(each for each in findings if each.category == category)
        for category in CATEGORIES
        if category in config.checks
    }
    return ReportPart(status=_worst(report.status for report in reports.values()), **reports)


def _category(findings: Iterable[Finding]) -> CategoryReport:
    ordered = sorted(findings, key=_place_in_list)
    return CategoryReport(
        status=_worst(_STATUS_BY_LEVEL[finding.level] for finding in ordered),
        messages=[_message(finding) for finding in ordered],
    )


def _place_in_list(finding: Finding) -> tuple[int, str, int, str]:
    return (-list(Level).index(finding.level), finding.path, finding.line or 0, finding.code)


def _message(finding: Finding) -> ReportMessage:
    return ReportMessage(
        level=finding.level,
        message=finding.message,
        code=finding.code,
        path=finding.path or None,
        line=finding.line,
        remedy=finding.remedy or None,
    )


def _worst(statuses: Iterable[Status]) -> Status:
    found = set(statuses)
    return next(status for status in (*_WORST_FIRST, "ok") if status in found or status == "ok")
