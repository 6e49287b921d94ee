"""Options that several commands share."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from flashinfer_bench.cli import log
from flashinfer_bench.cli.datasets import pulled_folder
from flashinfer_bench.data.exchange.hub import FLASHINFER_TRACE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

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
        "-o",
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


def log_level_option(command: Decorated) -> Decorated:
    """Add `--log-level`, and `-v`."""
    verbose = click.option(
        "-v",
        "--verbose",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=lambda ctx, _, is_given: log.configure(ctx, "DEBUG") if is_given else None,
        help="Same as --log-level DEBUG.",
    )
    return click.option(
        "--log-level",
        type=click.Choice(log.LEVELS, case_sensitive=False),
        default="INFO",
        show_default=True,
        is_eager=True,
        expose_value=False,
        callback=lambda ctx, _, level: log.configure(ctx, "DEBUG" if log.is_debug(ctx) else level),
        help="What goes to stderr; DEBUG adds tracebacks, WARNING leaves out progress.",
    )(verbose(command))


def warn_missing_measures(measures: Collection[str]) -> None:
    """Say what of the sandbox was asked for and was not in force."""
    if measures:
        log.warn(
            f"the sandbox was partial, without: {', '.join(sorted(measures))}; `flashinfer-bench doctor` says "
            "why, and `--sandbox required` does not run then"
        )


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
            help="Function to call in it.  [default: run, the only public or exported one, or the definition's]",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def basis_option(*, auto: str) -> Callable[[Decorated], Decorated]:
    """Add `--by`: what two measurements are compared by; `auto` says how that is chosen."""
    return click.option(
        "--by",
        type=click.Choice(["auto", "speedup", "latency"]),
        default="auto",
        show_default=True,
        help="speedup: divide speedups over the reference, so that what the machine did cancels; latency: divide "
        f"latencies; auto: {auto}",
    )


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
            self.fail(f"{value!r} must be more than 0 s, and finite", param, ctx)
        return seconds


SHARE = _Share()
SECONDS = _Seconds()
