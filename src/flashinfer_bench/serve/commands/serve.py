"""Serve a dataset: others submit solutions and get traces."""

from __future__ import annotations

import sys
from typing import Any

import click

from flashinfer_bench.cli import log, screen
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.datasets import load_dataset, require_writable_place
from flashinfer_bench.cli.options import dataset_options, json_option, log_level_option
from flashinfer_bench.cli.setting_options import setting_options, settings_about
from flashinfer_bench.serve.commands.serving import (
    chosen_devices,
    chosen_settings,
    listening_options,
    sandbox_help,
)


@click.command(
    cls=Command,
    document={"url": "str", "store": "str"},
    examples=[
        "flashinfer-bench serve --local examples/dataset",
        "flashinfer-bench serve --local dataset --output traces --port 9000 --device cuda:0,cuda:1",
        "flashinfer-bench serve --local dataset --host 0.0.0.0 --no-worker",
    ],
)
@dataset_options
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    help="Traces and submitted solutions go there.  [default: into the dataset]",
)
@click.option(
    "--store",
    metavar="FILE|DSN",
    help="Tasks and tokens lie there: an SQLite file, or postgresql://….  [default: a file for each dataset in the "
    "cache folder]",
)
@listening_options
@setting_options("workload_class")
@click.option("--config", metavar="YAML", help="Settings in a file; options override it.")
@setting_options(
    *settings_about("measured", "judged", "run", without="racing"), helps=sandbox_help()
)
@json_option
@log_level_option
def serve(  # noqa: PLR0917  # click passes options by name
    local: tuple[str, ...],
    output: str | None,
    host: str,
    port: int,
    store: str | None,
    device: str,
    no_worker: bool,
    grace: float,
    lease: float,
    config: str | None,
    settings: dict[str, Any],
    as_json: bool,
) -> None:
    """Serve a dataset: others submit solutions and get traces.

    Starts a worker of its own, and takes those of other machines (`worker`). A task is on disk before its id
    is told: whatever ends the server, the next one goes on. The settings of all evaluations are those given
    here. Needs fastapi and uvicorn: pip install 'flashinfer-bench[service]'.

    On this machine's own address no token is needed until the first is made with `tokens add`. With --json the
    document comes once requests are answered, and lines on stderr are JSON objects with the task's id.
    """
    from flashinfer_bench.serve.running import (  # noqa: PLC0415
        ServerOptions,
        default_store,
        log_as_json,
    )
    from flashinfer_bench.serve.running import serve as run_server  # noqa: PLC0415

    devices = chosen_devices(device, is_none=no_worker)
    trace_set = load_dataset(local, output=output)
    require_writable_place([trace_set.output] if trace_set.output else trace_set.roots)
    options = ServerOptions(
        store=store or default_store(trace_set),
        host=host,
        port=port,
        devices=devices,
        grace_s=grace,
        lease_s=lease,
    )
    chosen = chosen_settings(config, settings)

    def ready(url: str) -> None:
        if as_json:
            screen.show_json({"schema_version": 1, "url": url, "store": options.store})
            sys.stdout.flush()
            return
        click.echo(f"serving {', '.join(map(str, trace_set.roots))} at {url}")
        click.echo(f"submit   flashinfer-bench submit kernel.py --server {url} --definition NAME")
        log.inform(f"tasks and tokens: {options.store}; Ctrl-C ends it")

    if as_json:
        log_as_json()
    run_server(trace_set, chosen, options, ready)
    log.inform("ended; what waits goes on with the next server")
