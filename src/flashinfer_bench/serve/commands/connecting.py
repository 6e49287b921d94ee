"""Which server a command speaks to, and with which token."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

Decorated = TypeVar("Decorated", bound="Callable[..., Any]")
FROM_STDIN = "-"
IS_TOLD_BY_STDIN = f"{__name__}.is_told_by_stdin"


def server_options(command: Decorated) -> Decorated:
    """Add `--server` and `--token-file`; the command is given the token itself."""

    @functools.wraps(command)
    def with_token(*args: Any, token_file: str | None, **others: Any) -> Any:
        click.get_current_context().meta[IS_TOLD_BY_STDIN] = token_file == FROM_STDIN
        return command(*args, token=None if token_file is None else _token(token_file), **others)

    server = click.option(
        "--server",
        metavar="URL",
        default="http://127.0.0.1:8000",
        show_default=True,
        help="The server's address.",
    )
    token = click.option(
        "--token-file",
        metavar="FILE",
        help="A file that holds the token; - reads it from stdin. A solution sees neither the file nor the token.",
    )
    return cast("Decorated", server(token(with_token)))


def _token(file: str) -> str:
    try:
        text = (
            sys.stdin.buffer.readline().decode()
            if file == FROM_STDIN
            else Path(file).read_text(encoding="utf-8")
        )
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read --token-file {file}: {getattr(error, 'strerror', None) or 'it is no text'}"
        ) from error
    words = text.split()
    if len(words) != 1 or not words[0].isascii():
        raise UsageError(f"--token-file {file} must hold one token and nothing else")
    return words[0]
