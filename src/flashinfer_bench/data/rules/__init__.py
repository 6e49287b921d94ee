"""The dataset linter: one small function per rule, each yields what contradicts its claim."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.data.rules import (
    baseline,
    definition,
    layout,
    profile,
    solution,
    trace,
    workload,
    workload_inputs,
)
from flashinfer_bench.data.rules.finding import Finding, Level, Rule
from flashinfer_bench.data.rules.reading import take
from flashinfer_bench.data.rules.report import (
    CATEGORIES,
    DatasetReport,
    ReportConfig,
    assemble,
    read_report,
)
from flashinfer_bench.data.rules.running import OBSERVATIONS, Observation
from flashinfer_bench.data.wording import did_you_mean
from flashinfer_bench.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from flashinfer_bench.data.rules.snapshot import Snapshot

__all__ = [
    "CATEGORIES",
    "DEFAULT_CHECKS",
    "OBSERVATIONS",
    "RULES",
    "RUNNING_CHECKS",
    "DatasetReport",
    "Finding",
    "Level",
    "Observation",
    "ReportConfig",
    "Rule",
    "assemble",
    "check",
    "read_report",
    "require_checks",
    "select",
    "take",
]

_MODULES = (
    layout, definition, workload, workload_inputs, solution, trace, baseline, profile,
)  # fmt: skip
RULES: tuple[Rule, ...] = tuple(
    each for module in _MODULES for each in vars(module).values() if isinstance(each, Rule)
)
"""Every rule that needs nothing but the files, in the order in which its module defines it."""

RUNNING_CHECKS = ("benchmark", "task")
"""Categories that run references and baselines."""
DEFAULT_CHECKS = tuple(category for category in CATEGORIES if category not in RUNNING_CHECKS)
"""Categories that run nobody's code."""


def check(dataset: Snapshot, checks: Iterable[str] = DEFAULT_CHECKS) -> list[Finding]:
    """Apply every rule of the categories."""
    wanted = set(checks)
    return [finding for each in RULES if each.category in wanted for finding in each.check(dataset)]


def require_checks(checks: Sequence[str]) -> list[str]:
    """Refuse a category that is none; order them as reports do."""
    for name in checks:
        if name not in CATEGORIES:
            hint = did_you_mean(name, CATEGORIES) or f"; there are {', '.join(CATEGORIES)}"
            raise UsageError(f"no check named {name!r}{hint}")
    return [category for category in CATEGORIES if category in checks]


def select(dataset: Snapshot, op_types: Sequence[str], definitions: Sequence[str]) -> list[str]:
    """Name the definitions of these op types, and these; all when neither is given."""
    known_op_types = {each.op_type for each in dataset.definitions.values()}
    for op_type in op_types:
        if op_type not in known_op_types:
            raise UnknownNameError("op type", op_type, known_op_types)
    for name in definitions:
        if name not in dataset.known_definitions:
            raise UnknownNameError("definition", name, dataset.known_definitions)
    if not op_types and not definitions:
        return sorted(dataset.known_definitions)
    of_type = {name for name, each in dataset.definitions.items() if each.op_type in op_types}
    return sorted(of_type | set(definitions))
