"""Options that the commands of `decompose` share: what is written, where, what is grouped otherwise, limits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click

from flashinfer_bench.decompose.run_as import DTYPES, PHASES, CacheKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from flashinfer_bench.decompose.run_as import Phase

Decorated = TypeVar("Decorated", bound="Callable[..., Any]")

_GIB = 1 << 30
_SHARE_OF_FREE_MEMORY = 0.75


def writing_options(command: Decorated) -> Decorated:
    """Add `--emit` and `--no-verify`."""
    emit = click.option(
        "--emit",
        type=click.Choice(["kernels", "fusions", "layers", "all"]),
        default="kernels",
        show_default=True,
        help="Up to which level pieces become definitions of the dataset.",
    )
    return emit(click.option("--no-verify", is_flag=True, help="Write without verifying.")(command))


def run_as_options(command: Decorated) -> Decorated:
    """Add `--eval/--train`, `--dtype`, `--phases` and `--cache`."""
    mode = click.option(
        "--eval/--train",
        "is_eval",
        default=None,
        help="Mode in which the model is read.  [default: as it is constructed; models of transformers: --eval]",
    )
    dtype = click.option(
        "--dtype",
        type=click.Choice(DTYPES),
        help="Default dtype of the constructor, and of inputs that are float32.",
    )
    phases = click.option(
        "--phases",
        metavar="NAMES",
        callback=lambda _, __, names: _phases(names),
        help="Take steps of generating text apart, each into a folder of its own: prefill, decode, or both "
        "with a comma between.",
    )
    cache = click.option(
        "--cache",
        type=click.Choice(get_args(CacheKind)),
        default="dynamic",
        show_default=True,
        help="For --phases: which cache of transformers.",
    )
    return mode(dtype(phases(cache(command))))


def _phases(names: str | None) -> tuple[Phase, ...]:
    wanted = [] if names is None else [each.strip() for each in names.split(",")]
    unknown = [each for each in wanted if each not in PHASES]
    if unknown:
        raise click.BadParameter(f"no phase {unknown[0]!r}: choose of {', '.join(PHASES)}")
    return tuple(each for each in PHASES if each in wanted)


def merge_option(whose: str) -> Callable[[Decorated], Decorated]:
    """Make `--merge`."""
    return click.option(
        "--merge",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DATASET",
        help=f"Collect the kernels of {whose} in one dataset, equal ones once, with counts by model.",
    )


def overrides_option(what: str) -> Callable[[Decorated], Decorated]:
    """Make `--overrides`."""
    return click.option(
        "--overrides",
        metavar="FILE",
        type=click.Path(path_type=Path, dir_okay=False, exists=True),
        help=f"{what} (docs/decompose-overrides.md).",
    )


def limit_options(*, memory: str, time: str) -> Callable[[Decorated], Decorated]:
    """Make `--memory-limit`, which the command is given as `memory_limit_bytes`, and `--timeout`."""

    def with_limits(command: Decorated) -> Decorated:
        memory_limit = click.option(
            "--memory-limit",
            "memory_limit_bytes",
            metavar="GIB",
            type=click.FloatRange(min=0.25),
            callback=lambda _, __, gib: _free_share() if gib is None else round(gib * _GIB),
            help=f"{memory}  [default: 3/4 of what is free]",
        )
        timeout = click.option(
            "--timeout",
            metavar="SECONDS",
            type=click.FloatRange(min=1),
            default=600.0,
            show_default=True,
            help=time,
        )
        return memory_limit(timeout(command))

    return with_limits


def _free_share() -> int:
    import psutil  # noqa: PLC0415  # with the command

    return int(psutil.virtual_memory().available * _SHARE_OF_FREE_MEMORY)
