"""Take a PyTorch model apart into layers, fusions and kernels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashinfer_bench.cli import log, screen
from flashinfer_bench.cli.commands import Command, CommandGroup
from flashinfer_bench.cli.options import json_option, log_level_option
from flashinfer_bench.decompose.commands.census import census
from flashinfer_bench.decompose.commands.options import (
    limit_options,
    merge_option,
    overrides_option,
    run_as_options,
    writing_options,
)
from flashinfer_bench.decompose.commands.verify import verify
from flashinfer_bench.decompose.screens import decomposition_page
from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from flashinfer_bench.decompose.process import DecomposeRequest, WorkLimits
    from flashinfer_bench.report.model import ModelWorth


class _WithDefault(CommandGroup):
    """A group whose own arguments go to a command that is not named: `decompose FILE`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Let options that belong to the unnamed command stand in front of the file's name."""
        if args and args[0].startswith("-") and args[0] not in ctx.help_option_names:
            args = [_FILE, *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Take what is no command's name for the file of the unnamed command."""
        is_named = args[0] in self.list_commands(ctx)
        return super().resolve_command(ctx, args if is_named else [_FILE, *args])


_FILE = "file"


@click.group(
    cls=_WithDefault,
    examples=[
        "flashinfer-bench decompose model.py --output out",
        "flashinfer-bench decompose batch --level 3 --start 0 --count 10 --output out",
        "flashinfer-bench decompose verify out/model",
    ],
)
def decompose() -> None:
    """Take a PyTorch model apart into layers, fusions and kernels.

    `decompose MODEL.py` is short for `decompose file MODEL.py`.
    """


decompose.add_command(verify)
decompose.add_command(census)


@decompose.command(
    _FILE,
    cls=Command,
    document={
        "decomposition": "dict[str, Any]",
        "further_phases": "list[dict[str, Any]]",
        "measured": "flashinfer_bench.report.model:list[ModelWorth]",
    },
    examples=[
        "flashinfer-bench decompose examples/kernelbench/level3/13_GPTBlock.py --output out",
        "flashinfer-bench decompose model.py --output out --emit all --measure",
        "flashinfer-bench decompose file model.py --output out --no-verify --json",
        "flashinfer-bench decompose llama.py --output out --phases prefill,decode --merge dataset",
    ],
)
@click.argument("file", metavar="MODEL.py", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Where the folder called like the model goes; an earlier decomposition there is replaced.",
)
@writing_options
@run_as_options
@click.option(
    "--measure",
    "is_measured",
    is_flag=True,
    help="Time the kernels on this machine and say what each is worth.",
)
@overrides_option("Changes to the grouping, by rule or by name")
@merge_option("all phases")
@limit_options(
    memory="What the process that runs the file may take; a model that does not fit is verified on a smaller copy.",
    time="How long that process may take.",
)
@click.option("--device", default="auto", show_default=True, metavar="NAME", help="For --measure.")
@json_option
@log_level_option
def decompose_file(**options: Any) -> None:
    """Take one model's file apart: layers, fusions, kernels, each with a file, a test and a definition.

    MODEL.py defines `class Model(nn.Module)`, `get_inputs()` and `get_init_inputs()`, as in KernelBench. **Its code is
    run**, in a process of its own with a limit on memory and time, and with your rights: take apart only what you
    would run.

    Ends with the tree, the counts, and whether the pieces compute what the model computes. Exits with 1
    if they do not.
    """
    file: Path = options["file"]
    if not file.is_file():
        raise UsageError(f"{file}: no such file")
    if options["output"].is_file():
        raise UsageError(f"{options['output']} is a file; name a folder with --output")
    from flashinfer_bench.decompose.process import WorkLimits  # noqa: PLC0415  # with the command

    limits = WorkLimits(seconds=options["timeout"], memory_bytes=options["memory_limit_bytes"])
    reports: list[dict[str, Any]] = []
    worths: list[ModelWorth] = []
    for request in _requests(file, options):
        reports.append(_taken_apart(request, limits))
        if options["is_measured"]:
            worths += _measured(request.directory / "dataset", options["device"])
    if options["merge"]:
        from flashinfer_bench.decompose.merge import merge  # noqa: PLC0415  # with the command

        with_kernels = [each["directory"] for each in reports if each["definitions"]]
        merge([Path(each) / "dataset" for each in with_kernels], options["merge"])
    _show(reports, worths, as_json=options["as_json"])
    is_wrong = any(report["verified"] == "fail" for report in reports)
    click.get_current_context().exit(1 if is_wrong else 0)


def _requests(file: Path, options: dict[str, Any]) -> Iterator[DecomposeRequest]:
    """Ask for the model, or for each of its phases."""
    from flashinfer_bench.decompose.process import DecomposeRequest  # noqa: PLC0415  # with the command
    from flashinfer_bench.decompose.run_as import RunAs  # noqa: PLC0415  # with the command

    modes = {None: None, True: "eval", False: "train"}
    for phase in options["phases"] or (None,):
        yield DecomposeRequest(
            file=file,
            directory=options["output"] / "_".join(filter(None, (file.stem, phase))),
            emit=options["emit"],
            is_verified=not options["no_verify"],
            overrides=options["overrides"],
            memory_limit_bytes=options["memory_limit_bytes"],
            run_as=RunAs(
                mode=modes[options["is_eval"]],  # type: ignore[arg-type]  # a literal
                dtype=options["dtype"],
                phase=phase,
                cache=options["cache"],
            ),
        )


def _taken_apart(request: DecomposeRequest, limits: WorkLimits) -> dict[str, Any]:
    from flashinfer_bench.decompose.process import WorkTask, run_alone  # noqa: PLC0415  # with the command

    log.inform(f"{request.file}: running its code in a process of its own")
    task = WorkTask(
        "flashinfer_bench.decompose.pipeline:decompose_file", (request,), name=str(request.file)
    )
    found: dict[str, Any] = run_alone(task, limits)
    return found


def _measured(dataset: Path, device: str) -> Sequence[ModelWorth]:
    """Benchmark the eager baselines, and weigh what was measured."""
    from flashinfer_bench.bench import Benchmark, BenchmarkConfig  # noqa: PLC0415  # pydantic
    from flashinfer_bench.cli.datasets import load_dataset  # noqa: PLC0415  # with the command
    from flashinfer_bench.cli.measure.progress import choose_view  # noqa: PLC0415  # with the command
    from flashinfer_bench.cli.measure.running import Collected, measure  # noqa: PLC0415  # with the command
    from flashinfer_bench.cli.report.model import load_profiles, weighed  # noqa: PLC0415

    trace_set = load_dataset([str(dataset)])
    config = BenchmarkConfig.default(warmup_runs=5, iterations=20, num_trials=1)
    benchmark = Benchmark(trace_set, config, device=device)
    plan = benchmark.plan()
    collected = Collected(plan, saves=True)
    measure(benchmark, collected, choose_view(len(plan.jobs), as_json=False))
    for fault in collected.faults.values():
        log.warn(f"{fault.definition}: {fault.explanation}")
    return weighed(trace_set, load_profiles(trace_set, None))


def _show(
    reports: Sequence[dict[str, Any]], worths: Sequence[ModelWorth], *, as_json: bool
) -> None:
    """Show what came of a model; the document lists further phases apart, for readers of one decomposition."""
    from flashinfer_bench.report.model import model_page  # noqa: PLC0415  # with the command

    if as_json:
        first, *others = reports
        document = {"decomposition": first, "further_phases": others, "measured": worths}
        screen.show_json({"schema_version": 1, **document})
    else:
        pages = [block for report in reports for block in decomposition_page(report)]
        screen.show((*pages, *model_page(worths)))
