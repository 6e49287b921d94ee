"""What the suite of attacks shows: a line for each as it ends, and a page."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from flashinfer_bench.text.numbers import count_text, duration_text
from flashinfer_bench.text.tables import Block, Column, Page, heading, paragraph, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.attacks.results import AttackReport, AttackRow

_COLUMNS = (
    Column("attack"),
    Column("family"),
    Column("expected"),
    Column("got"),
    Column("ok"),
    Column("evidence"),
)
_WIDEST_EVIDENCE = 88


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

    >>> from flashinfer_bench.attacks.results import AttackRow
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
