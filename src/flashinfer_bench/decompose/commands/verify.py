"""Verify that a decomposition is the model it was made from."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashinfer_bench.cli import log, screen
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.options import json_option, log_level_option
from flashinfer_bench.decompose.commands.options import limit_options, overrides_option
from flashinfer_bench.errors import BenchError, DeviceError, UsageError
from flashinfer_bench.text.numbers import duration_text

if TYPE_CHECKING:
    from flashinfer_bench.decompose.verify.findings import VerifyReport

_JOB = "flashinfer_bench.decompose.verify:verify_directory"
_ESTIMATE = "flashinfer_bench.decompose.verify.estimate:estimated_seconds"
_ESTIMATE_S = 60.0
_LONG_S = 30.0


@click.command(
    cls=Command,
    document={"verification": "flashinfer_bench.decompose.verify.findings:VerifyReport"},
    examples=[
        "flashinfer-bench decompose verify out/gpt_block",
        "flashinfer-bench decompose verify out/gpt_block --seeds 4 --json",
        "flashinfer-bench decompose verify by_hand --model gpt_block.py",
        "flashinfer-bench decompose verify out/gpt_block --quick",
    ],
)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--model",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The original's file; without it `original.py` in DIR.",
)
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    help="How many draws of weights and inputs are compared.",
)
@click.option(
    "--quick",
    is_flag=True,
    help="Compare on a smaller copy that runs the same operations, without files' own tests and wrong kernels.",
)
@click.option("--exact", is_flag=True, help="What is equal only within a tolerance is an error.")
@limit_options(
    memory="What the process that runs the files may take; a model that does not fit is verified on a smaller copy.",
    time="How long that process may take.",
)
@click.option(
    "--allow-opaque",
    is_flag=True,
    help="Leaves of several kernels that say why they are kept whole are warnings.",
)
@overrides_option(
    "Changes to the grouping that were asked for: a kernel is what they say, and --allow-opaque holds"
)
@json_option
@log_level_option
def verify(
    directory: Path,
    *,
    timeout: float,
    overrides: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Verify that a decomposition is the model it was made from.

    DIR holds `decomposition_tree.json`, the files it names and `original.py`, written by this program or by
    hand; or a folder for each level, with files of one model each, as agents publish them
    (docs/decompose-layout.md). **Their code is run**, in a process of its own with limits.

    Exits with 0 when everything holds, with 1 when something does not, with 2 when it cannot be judged.
    """
    from flashinfer_bench.decompose.grouping import load_overrides  # noqa: PLC0415  # with the command

    try:
        options["overrides"] = load_overrides(overrides) if overrides else None
        if not options["quick"]:
            _tell_how_long(directory, options)
        report = _verified(directory, options, seconds=timeout)
    except DeviceError:
        raise
    except BenchError as error:
        raise UsageError(str(error)) from error
    if as_json:
        document = {"schema_version": 1, "exit_code": report.exit_code, "verification": report}
        screen.show_json(document)
    else:
        from flashinfer_bench.decompose.screens import verify_page  # noqa: PLC0415

        screen.show(verify_page(report))
    click.get_current_context().exit(report.exit_code)


def _tell_how_long(directory: Path, options: dict[str, Any]) -> None:
    """Say how long a verification takes, if that is long."""
    from flashinfer_bench.decompose.process import WorkLimits, WorkTask, run_alone  # noqa: PLC0415

    task = WorkTask(_ESTIMATE, (directory, options["model"]), name=str(directory))
    limits = WorkLimits(seconds=_ESTIMATE_S, memory_bytes=options["memory_limit_bytes"])
    with contextlib.suppress(BenchError):  # the verification says what is wrong
        whole, quick = run_alone(task, limits)
        if whole >= _LONG_S:
            log.inform(
                f"{directory}: about {duration_text(whole)}; --quick takes about {duration_text(quick)}"
            )


def _verified(directory: Path, options: dict[str, Any], *, seconds: float) -> VerifyReport:
    import msgspec  # noqa: PLC0415  # with the command

    from flashinfer_bench.decompose.process import WorkLimits, WorkTask, run_alone  # noqa: PLC0415
    from flashinfer_bench.decompose.verify.findings import VerifyReport  # noqa: PLC0415

    task = WorkTask(_JOB, (directory,), options, name=str(directory))
    limits = WorkLimits(seconds=seconds, memory_bytes=options["memory_limit_bytes"])
    found = run_alone(task, limits)
    return msgspec.convert(msgspec.to_builtins(found), VerifyReport)
