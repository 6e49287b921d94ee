"""Run every known attack on this machine, and show how each one ends."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from flashinfer_bench.cli import log, screen
from flashinfer_bench.cli.boundary import fault_of
from flashinfer_bench.cli.commands import Command, ManyOption
from flashinfer_bench.cli.options import json_option, log_level_option
from flashinfer_bench.cli.setting_options import setting_options
from flashinfer_bench.text.numbers import count_text, duration_text
from flashinfer_bench.text.tables import Block, Column, Page, heading, paragraph, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.attacks.results import AttackReport, AttackRow


_FAMILIES = (
    *("replay", "clock", "theft", "wrong", "plays", "twins", "workloads", "rounds", "allowances"),
    "honest",
)
_POSITIVE = click.IntRange(min=1)


@click.command(
    "attack-test",
    cls=Command,
    document={"attack_test": "flashinfer_bench.attacks.results:AttackReport"},
    examples=[
        "flashinfer-bench attack-test",
        "flashinfer-bench attack-test --family clock theft --json",
        "flashinfer-bench attack-test --only 'replay_*' --device cuda:0",
        "flashinfer-bench attack-test --family honest --repeat 20",
    ],
)
@click.option(
    "--device",
    default="auto",
    show_default=True,
    metavar="NAME",
    help="cpu, or cuda:0; what needs another kind of device is listed and not run.",
)
@click.option(
    "--only", cls=ManyOption, metavar="GLOB...", help="Attacks and look-alikes to run, by name."
)
@click.option(
    "--family",
    "families",
    cls=ManyOption,
    type=click.Choice(_FAMILIES),
    help="Families to run; `honest` are the look-alikes.  [default: all]",
)
@setting_options("sandbox", "threads", helps={"threads": "CPU threads of every worker."})
@click.option(
    "--repeat",
    type=_POSITIVE,
    default=1,
    show_default=True,
    help="Runs of each look-alike on each of two sizes; one that is flagged once has failed.",
)
@click.option(
    "--no-slow",
    is_flag=True,
    help="Leave out what takes long: compiling with torch.compile, large tables, cold caches.",
)
@json_option
@log_level_option
@click.pass_context
def attack_test(  # noqa: PLR0917  # click passes options by name
    ctx: click.Context,
    device: str,
    only: tuple[str, ...],
    families: tuple[str, ...],
    settings: dict[str, Any],
    repeat: int,
    no_slow: bool,
    as_json: bool,
) -> None:
    """Run every known attack on this machine, and show how each one ends.

    The attacks are small hostile solutions, one per idea. They run through the same engine as any other
    solution, on a temporary dataset and with quick settings, and so do honest look-alikes: an attack on one
    size, a look-alike on two sizes in one process. Nothing is recorded. docs/attacks.md says how each attack
    works and what stops it.

    Exits with 1 when one did not end as documented. Once interrupted, it shows
    those that had ended.
    """
    from flashinfer_bench.attacks.running import Setting, run_suite  # noqa: PLC0415  # pydantic
    from flashinfer_bench.attacks.suite import entries  # noqa: PLC0415

    chosen = entries(only=only, families=families, with_slow=not no_slow)
    setting = Setting(device=device, repeats=repeat, overrides=settings)

    def show(row: AttackRow) -> None:
        log.inform(attack_line(row))

    report = run_suite(chosen, setting, show)
    stopped = None if report.is_complete else KeyboardInterrupt()
    fault = None if stopped is None else fault_of(stopped)
    exit_code = (0 if report.is_as_documented else 1) if fault is None else fault.exit_code
    if as_json:
        error = {} if fault is None else {"error": fault}
        screen.show_json({"attack_test": report, "schema_version": 1, **error}, exit_code)
    elif report.rows:
        screen.show(attacks_page(report))
    if stopped is not None:
        raise stopped
    ctx.exit(exit_code)


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
