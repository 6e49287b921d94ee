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
_LEAST_WIDTH, _MOST_WIDTH = 60, 160


def show(page: Page) -> None:
    """Print a page; a terminal gets it as wide as it is, with bold headings where it may show colours."""
    if is_terminal():
        page = fitted(page, shutil.get_terminal_size().columns)
    styled = tuple(_bold(block) if block.kind == "heading" else block for block in page)
    text = page_text(styled)
    click.echo(in_ascii(text) if is_plain(text) else text, color=allows_color())


def show_json(document: object) -> None:
    """Print one JSON document; numbers that JSON lacks are the strings NaN, Infinity, -Infinity."""
    plain = _json_ready(msgspec.to_builtins(document, str_keys=True))
    text = json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False)
    if not _takes(text):
        text = json.dumps(plain, indent=2, allow_nan=False)
    click.echo(text)


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


def _json_ready(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
        case dict():
            return {key: _json_ready(each) for key, each in value.items()}
        case list() | tuple():
            return [_json_ready(each) for each in value]
        case _:
            return value
