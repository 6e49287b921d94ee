"""What `submit` and `contest submit` are told of a kernel's file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

Decorated = TypeVar("Decorated", bound="Callable[..., Any]")


def submitted_options(command: Decorated) -> Decorated:
    """Add what is said of a kernel's file: `--definition`, `--name`, `--language`, `--entry-point`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_OPTIONS = (
    click.option("--definition", metavar="NAME", help="What a kernel file implements."),
    click.option(
        "--name", metavar="NAME", help="What the solution is called.  [default: the file's]"
    ),
    click.option(
        "--language",
        type=click.Choice(["python", "triton", "cpp", "cuda", "tilelang"]),
        help="Language of a kernel file.  [default: by its suffix]",
    ),
    click.option(
        "--entry-point",
        metavar="FUNCTION",
        help="Function to call in it.  [default: run, or the only one]",
    ),
)
