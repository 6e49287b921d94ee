"""Run every known attack on this machine, and show how each one ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from flashinfer_bench.attacks.screen import attack_line, attacks_page
from flashinfer_bench.cli import log, screen
from flashinfer_bench.cli.commands import Command, ManyOption
from flashinfer_bench.cli.options import json_option, log_level_option
from flashinfer_bench.cli.setting_options import setting_options

if TYPE_CHECKING:
    from flashinfer_bench.attacks.results import AttackRow

_FAMILIES = (
    *("replay", "clock", "theft", "wrong", "plays", "twins", "workloads", "rounds", "allowances"),
    "honest",
)
_POSITIVE = click.IntRange(min=1)


@click.command(
    "attack-test",
    cls=Command,
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
    help="Leave out what takes long: compiling with torch.compile, and large tables.",
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

    Exits with 1 when one did not end as documented.
    """
    from flashinfer_bench.attacks.running import Setting, run_suite  # noqa: PLC0415  # pydantic
    from flashinfer_bench.attacks.suite import entries  # noqa: PLC0415

    chosen = entries(only=only, families=families, with_slow=not no_slow)
    setting = Setting(device=device, repeats=repeat, overrides=settings)

    def show(row: AttackRow) -> None:
        log.inform(attack_line(row))

    report = run_suite(chosen, setting, show)
    exit_code = 0 if report.is_as_documented else 1
    if as_json:
        screen.show_json({"schema_version": 1, "exit_code": exit_code, "attack_test": report})
    else:
        screen.show(attacks_page(report))
    ctx.exit(exit_code)
