"""`flashinfer-bench doctor`: what this machine can build, run and time."""

from __future__ import annotations

from pathlib import Path

import click

from flashinfer_bench.cli import screen
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.options import json_option, log_level_option
from flashinfer_bench.errors import DeviceError
from flashinfer_bench.report.doctor import doctor_page


@click.command(
    cls=Command,
    examples=["flashinfer-bench doctor", "flashinfer-bench doctor --no-noise --json"],
)
@click.option(
    "--local",
    metavar="PATH",
    help="Dataset folder to look at.  [default: FIB_DATASET_PATH, else the one in the cache]",
)
@click.option(
    "--noise/--no-noise",
    default=True,
    show_default=True,
    help="Time a kernel against itself, which takes most of the time.",
)
@json_option
@log_level_option
def doctor(local: str | None, noise: bool, as_json: bool) -> None:
    """Say what can be built, run and timed here, and what is missing.

    Shows languages with the command that installs what they lack, devices, compilers, folders, the clock, the
    noise floor (a kernel timed against itself), other load, power management, and the measures of a sandbox.
    Changes nothing.

    Exits with 4 when no kernel can be run here.
    """
    from flashinfer_bench.bench.tools.doctor import examine  # noqa: PLC0415  # pydantic

    report = examine(dataset=Path(local) if local else None, measures_noise=noise)
    exit_code = 0 if report.can_run else DeviceError.exit_code
    if as_json:
        screen.show_json({"schema_version": 1, "exit_code": exit_code, "doctor": report})
    else:
        screen.show(doctor_page(report))
    click.get_current_context().exit(exit_code)
