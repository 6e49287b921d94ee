"""Pages and JSON documents on stdout."""

from __future__ import annotations

import json
import math
import sys
from typing import TYPE_CHECKING, Any

import click
import msgspec

from flashinfer_bench.data import settings
from flashinfer_bench.report.tables import Block, page_text

if TYPE_CHECKING:
    from flashinfer_bench.report.tables import Page


def show(page: Page) -> None:
    """Print a page; headings are bold where there is a terminal that may show colours."""
    styled = tuple(_bold(block) if block.kind == "heading" else block for block in page)
    click.echo(page_text(styled), color=allows_color())


def show_json(document: object) -> None:
    """Print one JSON document; numbers that JSON lacks are the strings NaN, Infinity, -Infinity."""
    plain = _json_ready(msgspec.to_builtins(document, str_keys=True))
    click.echo(json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False))


def allows_color() -> bool | None:
    """False where colours are refused; None leaves it to whether stdout is a terminal."""
    return False if settings.is_color_refused() else None


def is_terminal() -> bool:
    """Whether a person looks at stdout."""
    return sys.stdout.isatty()


def has_live_stderr() -> bool:
    """Whether lines on stderr can be drawn over."""
    return sys.stderr.isatty()


def _bold(block: Block) -> Block:
    return Block(click.style(block.text, bold=True), block.kind)


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
