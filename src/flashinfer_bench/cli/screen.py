"""Pages and JSON documents on stdout."""

from __future__ import annotations

import json
import math
import shutil
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
import msgspec

from flashinfer_bench.data import settings
from flashinfer_bench.text.tables import fitted, in_ascii, page_text

if TYPE_CHECKING:
    from flashinfer_bench.text.tables import Block, Page


_WIDTH = 100
_SHOWN = f"{__name__}.shown"
_LEAST_WIDTH, _MOST_WIDTH = 60, 160


def show(page: Page) -> None:
    """Print a page; a terminal gets it as wide as it is, with bold headings where it may show colours."""
    if is_terminal():
        page = fitted(page, shutil.get_terminal_size().columns)
    styled = tuple(_bold(block) if block.kind == "heading" else block for block in page)
    text = page_text(styled)
    click.echo(in_ascii(text) if is_plain(text) else text, color=allows_color())


def show_json(document: object, exit_code: int = 0) -> None:
    """Print one JSON document; numbers that JSON lacks are the strings NaN, Infinity, -Infinity.

    A document with a `schema_version` says the exit code, too.
    """
    plain = json_ready(msgspec.to_builtins(document, str_keys=True))
    if isinstance(plain, dict) and "schema_version" in plain:
        head = {"schema_version": plain["schema_version"], "exit_code": exit_code}
        plain = head | plain
    _has_shown().append(True)
    click.echo(_encodable(plain, indent=2))


def show_json_line(event: dict[str, object]) -> None:
    """Print one JSON object in one line, and let whoever reads it have it now; `ended` is the document."""
    plain = json_ready(msgspec.to_builtins(event, str_keys=True))
    if event["event"] == "ended":
        _has_shown().append(True)
    click.echo(_encodable(plain))
    sys.stdout.flush()


def has_shown_json() -> bool:
    """Whether this command has printed its document."""
    return bool(_has_shown())


def _has_shown() -> list[bool]:
    context = click.get_current_context(silent=True)
    shown: list[bool] = [] if context is None else context.meta.setdefault(_SHOWN, [])
    return shown


def _encodable(plain: object, indent: int | None = None) -> str:
    text = json.dumps(plain, indent=indent, ensure_ascii=False, allow_nan=False)
    return text if _takes(text) else json.dumps(plain, indent=indent, allow_nan=False)


def width() -> int:
    """How wide charts are drawn: as a terminal, within reason."""
    if not is_terminal():
        return _WIDTH
    return min(_MOST_WIDTH, max(_LEAST_WIDTH, shutil.get_terminal_size().columns))


def is_plain(text: str = "█") -> bool:
    """Whether stdout is to be written to in ASCII: it cannot take a text, or is a terminal of the C locale."""
    return not _takes(text) or (is_terminal() and settings.is_locale_plain())


def allows_color() -> bool | None:
    """False where colours are refused; None leaves it to whether stdout is a terminal."""
    return False if settings.is_color_refused() else None


def is_terminal() -> bool:
    """Whether a person looks at stdout."""
    return sys.stdout.isatty()


def has_live_stderr() -> bool:
    """Whether lines on stderr can be drawn over."""
    return sys.stderr.isatty()


def _takes(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _bold(block: Block) -> Block:
    return replace(block, text=click.style(block.text, bold=True))


def json_ready(value: Any) -> Any:
    """Write numbers that JSON lacks as strings."""
    match value:
        case float() if not math.isfinite(value):
            return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
        case dict():
            return {key: json_ready(each) for key, each in value.items()}
        case list() | tuple():
            return [json_ready(each) for each in value]
        case _:
            return value
