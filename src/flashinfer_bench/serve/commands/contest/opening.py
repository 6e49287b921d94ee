"""Serve a contest: teams enter solutions, and see how they stand."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from flashinfer_bench.cli import log, screen
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.options import json_option, log_level_option
from flashinfer_bench.serve.commands.serving import chosen_devices, listening_options


@click.command(
    "open",
    cls=Command,
    document={"url": "str", "contest": "str"},
    examples=[
        "flashinfer-bench contest open spring",
        "flashinfer-bench contest open spring --host 0.0.0.0 --no-worker",
    ],
)
@click.argument("folder", metavar="FOLDER")
@listening_options
@json_option
@log_level_option
def open_(  # noqa: PLR0917  # click passes options by name
    folder: str,
    host: str,
    port: int,
    device: str,
    no_worker: bool,
    grace: float,
    lease: float,
    as_json: bool,
) -> None:
    """Serve a contest: teams enter solutions, and see how they stand.

    A team sees how its entries ended and their scores: no workload, no seed, nothing that a solution printed. It may
    end and begin anew at any time.
    """
    from flashinfer_bench.bench import BenchmarkConfig  # noqa: PLC0415  # pydantic
    from flashinfer_bench.data import TraceSet  # noqa: PLC0415
    from flashinfer_bench.serve.contest.contest import Contest  # noqa: PLC0415
    from flashinfer_bench.serve.contest.rules import ContestFolder  # noqa: PLC0415
    from flashinfer_bench.serve.running import ServerOptions, log_as_json, serve  # noqa: PLC0415

    place = ContestFolder(Path(folder))
    rules = place.rules()
    options = ServerOptions(
        store=str(place.store),
        host=host,
        port=port,
        devices=chosen_devices(device, is_none=no_worker),
        grace_s=grace,
        lease_s=lease,
    )

    def ready(url: str) -> None:
        if as_json:
            screen.show_json({"schema_version": 1, "url": url, "contest": rules.name})
            sys.stdout.flush()
            return
        click.echo(f"the contest {rules.name} is at {url}")

    if as_json:
        log_as_json()
    from flashinfer_bench.serve.contest.routes import add_contest  # noqa: PLC0415  # needs the extra

    serve(
        TraceSet.from_path(place.dataset),
        BenchmarkConfig.model_validate(rules.settings),
        options,
        ready,
        lambda app, service: add_contest(app, Contest(rules, service)),
    )
    log.inform("ended; what waits goes on when it is opened again")
