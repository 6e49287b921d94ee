"""How every attack and look-alike ended, as a value and as a page."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.report.numbers import count_text, duration_text
from flashinfer_bench.report.tables import Block, Column, Page, heading, paragraph, table

if TYPE_CHECKING:
    from collections.abc import Sequence

_COLUMNS = (
    Column("attack"),
    Column("family"),
    Column("expected"),
    Column("got"),
    Column("ok"),
    Column("evidence"),
)
_WIDEST_EVIDENCE = 88


@dataclass(frozen=True, slots=True)
class AttackRow:
    """How one attack or look-alike ended on this machine."""

    name: str
    title: str
    family: str
    expected: tuple[str, ...]
    got: str
    """Status and codes; empty where it did not run."""
    evidence: str
    as_documented: bool | None
    """Whether it ended as the docs say; None where it did not run."""
    is_stopped: bool | None
    """Whether a hostile one won nothing; None for look-alikes and for what did not run."""
    not_run_because: str | None
    elapsed_s: float

    @property
    def is_hostile(self) -> bool:
        """Whether it is an attack."""
        return self.family != "honest"


@dataclass(frozen=True, slots=True)
class AttackReport:
    """The whole suite on one machine."""

    device: str
    hardware: str
    torch: str
    sandbox: str
    date: str
    """UTC, ISO 8601."""
    rows: tuple[AttackRow, ...]
    leftovers: tuple[str, ...]
    """What was still there when all jobs had ended."""
    elapsed_s: float

    @property
    def surprises(self) -> tuple[AttackRow, ...]:
        """What did not end as documented."""
        return tuple(row for row in self.rows if row.as_documented is False)

    @property
    def is_as_documented(self) -> bool:
        """Whether everything ended as documented, and nothing was left behind."""
        return not self.surprises and not self.leftovers


def attacks_page(report: AttackReport) -> Page:
    """Show every row by family, then what did not run, then one line that sums up."""
    ran = [row for row in report.rows if row.not_run_because is None]
    blocks: list[Block] = []
    for title, hostile in (("Attacks", True), ("Honest look-alikes", False)):
        rows = [row for row in ran if row.is_hostile is hostile]
        if rows:
            blocks += [heading(title), table(_COLUMNS, [_cells(row) for row in rows])]
    blocks += _not_run_blocks(report.rows)
    if report.leftovers:
        blocks += [heading("Left behind"), paragraph(*report.leftovers)]
    return (*blocks, heading("Summary"), paragraph(*_summary(report)))


def attack_line(row: AttackRow) -> str:
    """Say in one line how one of them ended, for those who watch.

    >>> row = AttackRow("noop", "", "wrong", ("RUNTIME_ERROR",), "RUNTIME_ERROR", "", True, True, None, 0.2)
    >>> attack_line(row)
    'ok   noop: RUNTIME_ERROR'
    """
    if row.not_run_because is not None:
        return f"--   {row.name}: not run here, {row.not_run_because}"
    mark = "ok  " if row.as_documented else "FAIL"
    wanted = "" if row.as_documented else f", expected {_expected(row)}"
    return f"{mark} {row.name}: {row.got}{wanted}"


def _cells(row: AttackRow) -> Sequence[str]:
    evidence = row.evidence if row.is_hostile or not row.as_documented else ""
    if len(evidence) > _WIDEST_EVIDENCE:
        evidence = evidence[: _WIDEST_EVIDENCE - 1] + "…"
    mark = "yes" if row.as_documented else "NO"
    return (row.name, row.family, _expected(row), row.got, mark, evidence)


def _expected(row: AttackRow) -> str:
    return " or ".join(row.expected)


def _not_run_blocks(rows: Sequence[AttackRow]) -> list[Block]:
    left_out = [row for row in rows if row.not_run_because is not None]
    if not left_out:
        return []
    columns = (Column("attack"), Column("family"), Column("why not"))
    cells = [(row.name, row.family, row.not_run_because or "") for row in left_out]
    return [heading("Not run here"), table(columns, cells)]


def _summary(report: AttackReport) -> Sequence[str]:
    hostile = [row for row in report.rows if row.is_hostile and row.not_run_because is None]
    honest = [row for row in report.rows if not row.is_hostile and row.not_run_because is None]
    stopped = Counter(row.is_stopped for row in hostile)
    passed = sum(bool(row.as_documented) for row in honest)
    left_out = sum(row.not_run_because is not None for row in report.rows)
    attacks = f"{stopped[True]} of {count_text(len(hostile), 'attack')} stopped"
    honesty = f"{passed} of {count_text(len(honest), 'look-alike')} passed"
    place = f"on {report.device} ({report.hardware}), sandbox {report.sandbox}"
    return (
        f"{attacks}, {honesty}, {left_out} not run here",
        f"{count_text(len(report.surprises), 'row')} not as documented",
        f"{place}, in {duration_text(report.elapsed_s)}",
    )
