"""What a rule is, and what it finds."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from flashinfer_bench.data.rules.snapshot import Snapshot


class Level(enum.StrEnum):
    """How grave a finding is."""

    INFO = "info"
    """Worth knowing; nothing needs to be done."""
    WARNING = "warning"
    """It works here, but something is likely to be wrong."""
    ERROR = "error"
    """It does not work, or not as written."""


CATEGORY_BY_PREFIX = {
    "LAY": "layout",
    "DEF": "definition",
    "WKL": "workload",
    "SOL": "solution",
    "TRC": "trace",
    "BAS": "baseline",
    "PRO": "profile",
    "BEN": "benchmark",
    "TSK": "task",
}
"""What a code's first letters stand for, in the order of a report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that a rule found, with the place and what to do."""

    code: str
    level: Level
    message: str
    remedy: str = ""
    path: str = ""
    """Relative to the dataset's root."""
    line: int | None = None
    definition: str | None = None
    """The definition it belongs to; None for what concerns the dataset as a whole."""

    @property
    def category(self) -> str:
        """The category its code belongs to."""
        return CATEGORY_BY_PREFIX[self.code.partition("-")[0]]


@dataclass(frozen=True, slots=True)
class RuleFault:
    """What a rule's function yields; level and remedy only where they differ from the rule's."""

    message: str
    path: str = ""
    line: int | None = None
    definition: str | None = None
    level: Level | None = None
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """Something that holds for a good dataset."""

    code: str
    level: Level
    claim: str
    remedy: str
    look: Callable[[Snapshot], Iterable[RuleFault]]

    @property
    def category(self) -> str:
        """The category its code belongs to."""
        return CATEGORY_BY_PREFIX[self.code.partition("-")[0]]

    def check(self, dataset: Snapshot) -> Iterator[Finding]:
        """Yield what contradicts the claim."""
        for fault in self.look(dataset):
            yield Finding(
                code=self.code,
                level=fault.level or self.level,
                message=fault.message,
                remedy=self.remedy if fault.remedy is None else fault.remedy,
                path=printable(fault.path),
                line=fault.line,
                definition=fault.definition,
            )


def rule(
    code: str, level: Level, remedy: str
) -> Callable[[Callable[[Snapshot], Iterable[RuleFault]]], Rule]:
    """Turn a function into a rule; its docstring is the claim."""

    def made(look: Callable[[Snapshot], Iterable[RuleFault]]) -> Rule:
        return Rule(code, level, (look.__doc__ or "").strip(), remedy, look)

    return made


def printable(path: str) -> str:
    """Write a path whose bytes are no text so that it can be shown and stored."""
    return path.encode("utf-8", "backslashreplace").decode()
