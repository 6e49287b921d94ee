"""Options that several commands share."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from flashinfer_bench.cli import log
from flashinfer_bench.cli.commands import ManyOption
from flashinfer_bench.cli.datasets import pulled_folder
from flashinfer_bench.compile.architectures import require_arch
from flashinfer_bench.data.hub import FLASHINFER_TRACE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

Decorated = TypeVar("Decorated", bound="Callable[..., Any]")


def local_option(command: Decorated) -> Decorated:
    """Add `--local`."""
    return click.option(
        "--local",
        multiple=True,
        metavar="PATH",
        help="Dataset folder; give it several times to see several as one. "
        "Without it: FIB_DATASET_PATH, else ~/.cache/flashinfer_bench/dataset.",
    )(command)


def dataset_options(command: Decorated) -> Decorated:
    """Add `--local` and `--hub`; the command is given one list of folders."""

    @functools.wraps(command)
    def with_folders(*args: Any, local: tuple[str, ...], hub: str | None, **others: Any) -> Any:
        pulled = () if hub is None else (pulled_folder(hub),)
        return command(*args, local=(*local, *pulled), **others)

    hub_option = click.option(
        "--hub",
        is_flag=False,
        flag_value=FLASHINFER_TRACE,
        metavar="[ORG/NAME[@REV]]",
        help=f"Dataset of the Hugging Face hub, brought up to date first; alone: {FLASHINFER_TRACE}.",
    )
    return cast("Decorated", local_option(hub_option(with_folders)))


def new_folder_option(help_text: str) -> Callable[[Decorated], Decorated]:
    """Make the required `--output` of commands that write a folder whole."""
    return click.option(
        "--output",
        required=True,
        metavar="DIR",
        type=click.Path(path_type=Path, file_okay=False),
        help=help_text,
    )


def json_option(command: Decorated) -> Decorated:
    """Add `--json`."""
    return click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON document instead of text."
    )(command)


def arch_option(command: Decorated) -> Decorated:
    """Add `--arch`."""
    return click.option(
        "--arch",
        metavar="SM",
        callback=lambda _, __, arch: None if arch is None else require_arch(arch),
        help="GPU architecture to compile CUDA and Triton for, such as sm_90; what is not for this "
        "device is compiled and not run.  [default: the device's own; sm_90 without a GPU]",
    )(command)


def log_level_option(command: Decorated) -> Decorated:
    """Add `--log-level`."""
    return click.option(
        "--log-level",
        type=click.Choice(log.LEVELS, case_sensitive=False),
        default="INFO",
        show_default=True,
        is_eager=True,
        expose_value=False,
        callback=lambda ctx, _, level: log.configure(ctx, level),
        help="What goes to stderr; DEBUG adds tracebacks, WARNING leaves out progress.",
    )(command)


def clock_options(command: Decorated) -> Decorated:
    """Add `--clock` and `--cache`; what is not given is left to the settings."""
    options = (
        click.option(
            "--clock",
            type=click.Choice(["auto", "events", "cupti", "wall"]),
            help="events: what a caller on a busy stream pays; cupti: kernel activity, needs cupti-python; wall: "
            "what a caller waits.  [default: events on cuda, wall on cpu]",
        ),
        click.option(
            "--cache",
            type=click.Choice(["auto", "cold", "hot"]),
            help="cold: evict the last-level cache before each sample; hot: do not.  "
            "[default: cold on cuda, hot on cpu]",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def sampling_options(
    *, warmup_runs: int | None = None, iterations: int | None = None, num_trials: int | None = None
) -> Callable[[Decorated], Decorated]:
    """Make `--warmup-runs`, `--iterations` and `--num-trials`; what has no default here is left to the settings."""

    def counting(name: str, least: int, default: int | None, words: str, below: int) -> Any:
        is_set = default is not None
        return click.option(
            name,
            type=click.IntRange(min=least),
            default=default,
            show_default=is_set,
            help=words if is_set else f"{words}  [default: {below}]",
        )

    def with_counts(command: Decorated) -> Decorated:
        options = (
            counting(
                "--warmup-runs", 0, warmup_runs, "Untimed calls at the start of each trial.", 10
            ),
            counting("--iterations", 1, iterations, "Timed samples per trial.", 50),
            counting("--num-trials", 1, num_trials, "Fresh sets of inputs.", 3),
        )
        for option in reversed(options):
            command = option(command)
        return command

    return with_counts


def sandbox_option(command: Decorated) -> Decorated:
    """Add `--sandbox`."""
    return click.option(
        "--sandbox",
        type=click.Choice(["process", "container", "required", "off"]),
        help="How solutions are sandboxed (docs/sandbox.md). `required`: `process`, or do not run.  [default: process]",
    )(command)


def warn_missing_measures(measures: Collection[str]) -> None:
    """Say what of the sandbox was asked for and was not in force."""
    if measures:
        log.warn(
            f"the sandbox was partial, without: {', '.join(sorted(measures))}; `flashinfer-bench doctor` says "
            "why, and `--sandbox required` does not run then"
        )


def workload_class_option(command: Decorated) -> Decorated:
    """Add `--workload-class`."""
    return click.option(
        "--workload-class",
        type=click.Choice(["small", "full", "all"]),
        help="Workloads to run by size: small ones for a CPU, full ones as a serving GPU sees them; those "
        "without a class always run.  [default: small on cpu, full on cuda, all with --workloads]",
    )(command)


def kernel_options(command: Decorated) -> Decorated:
    """Add what says where a kernel file belongs, how it is read, and what it runs on."""
    options = (
        click.option("--definition", metavar="NAME", help="What a kernel file implements."),
        local_option,
        click.option(
            "--device", default="auto", show_default=True, metavar="NAME", help="cpu, or cuda:0."
        ),
        click.option(
            "--language",
            type=click.Choice(["python", "triton", "cpp", "cuda", "tilelang"]),
            help="Language of a kernel file.  [default: by its suffix]",
        ),
        click.option(
            "--entry-point",
            metavar="FUNCTION",
            help="Function to call in it.  [default: run, or the only public or exported one]",
        ),
        click.option(
            "--workloads",
            cls=ManyOption,
            metavar="UUID...",
            help="Workloads to run on, names or globs.  [default: all]",
        ),
        workload_class_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


def mix_hardware_option(command: Decorated) -> Decorated:
    """Add `--mix-hardware`."""
    return click.option(
        "--mix-hardware",
        is_flag=True,
        help="Throw traces of different hardware together; their times do not compare.",
    )(command)


def include_weak_option(command: Decorated) -> Decorated:
    """Add `--include-weak`."""
    return click.option(
        "--include-weak",
        is_flag=True,
        help="Count workloads that traces call weak: less than the work may pass there.",
    )(command)


class _Share(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions
    """A share of one, written as 0.02 or 2%."""

    name = "share"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read the share."""
        text = str(value).strip()
        try:
            share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            self.fail(f"{value!r} is no share such as 2% or 0.02", param, ctx)
        if not 0 <= share < 1:
            self.fail(f"{value!r} does not lie between 0 and 100%", param, ctx)
        return share


class _Seconds(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions
    """A length of time, written as 2, 2s or 500ms."""

    name = "seconds"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read it in seconds."""
        text = str(value).strip()
        unit_s = 1e-3 if text.endswith("ms") else 1.0
        try:
            seconds = float(text.removesuffix("s").removesuffix("m")) * unit_s
        except ValueError:
            self.fail(f"{value!r} is no time such as 2, 2s or 500ms", param, ctx)
        if not 0 < seconds < math.inf:
            self.fail(f"{value!r} is not longer than nothing", param, ctx)
        return seconds


SHARE = _Share()
SECONDS = _Seconds()


def stopping_options(
    what: str,
) -> tuple[Callable[[Decorated], Decorated], Callable[[Decorated], Decorated]]:
    """Make `--until-interval` and `--time-budget`; both given, whichever comes first ends it."""
    return (
        click.option(
            "--until-interval",
            type=SHARE,
            metavar="SHARE",
            help=f"Go on until {what} is no wider than this, such as 1%.",
        ),
        click.option(
            "--time-budget",
            "time_budget_seconds",
            type=SECONDS,
            metavar="SECONDS",
            help="Stop timing a workload after so long, such as 2s, however many samples there are.",
        ),
    )


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Keep what the user set; the rest is left to the layers below.

    >>> given({"seed": 0, "label": None, "definitions": (), "strict": False})
    {'seed': 0}
    """
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if value is not None and value is not False and value != ()
    }
