"""Judge known kernels on this machine, and say where a verdict differs from what it must be."""

from __future__ import annotations

import click

from flashinfer_bench.cli import screen
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.options import json_option, log_level_option
from flashinfer_bench.errors import DeviceError
from flashinfer_bench.rl.screens import self_check_page


@click.command(
    "self-check",
    cls=Command,
    document={
        "device": "str",
        "is_as_expected": "bool",
        "kernels": "flashinfer_bench.rl.self_check:list[CheckedKernel]",
    },
    examples=[
        "flashinfer-bench agents self-check",
        "flashinfer-bench agents self-check --device cuda:0 --json",
    ],
)
@click.option("--device", default="auto", show_default=True, metavar="NAME", help="cpu, or cuda:0.")
@json_option
@log_level_option
def self_check(device: str, as_json: bool) -> None:
    """Judge known kernels on this machine, and say where a verdict differs from what it must be.

    They are right, wrong, not building, cheating and slow. Run it in the image and on the device that judges for a
    loop, before the loop starts. A kernel in C++ or CUDA is skipped where its compiler is missing.

    Exits with 4 where a verdict differs.
    """
    from flashinfer_bench.rl.contract import KernelJudge  # noqa: PLC0415  # pydantic
    from flashinfer_bench.rl.known_kernels import known_tasks  # noqa: PLC0415
    from flashinfer_bench.rl.self_check import self_check as check  # noqa: PLC0415

    with KernelJudge(known_tasks(), device=device) as judging:
        checked = check(judging)
        kind = judging.device_kind()
    is_fine = all(each.is_as_expected for each in checked)
    exit_code = 0 if is_fine else DeviceError.exit_code
    if as_json:
        document = {"device": kind, "is_as_expected": is_fine, "kernels": checked}
        screen.show_json({"schema_version": 1, **document}, exit_code)
    else:
        screen.show(self_check_page(checked))
    click.get_current_context().exit(exit_code)
