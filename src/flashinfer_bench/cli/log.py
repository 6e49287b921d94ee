"""Lines on stderr, as many as `--log-level` asks for."""

from __future__ import annotations

import logging

import click

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")

_LOGGER = logging.getLogger("flashinfer_bench")
_LEVEL = f"{__name__}.level"


class _Stderr(logging.Handler):
    """Writes to whatever stderr is at that moment: a live view puts itself in its place."""

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(f"{record.levelname.lower()}: {record.getMessage()}", err=True)


_HANDLER = _Stderr()


def configure(ctx: click.Context, level: str) -> None:
    """Show records of this level and above until the command has ended."""
    ctx.meta[_LEVEL] = level
    before = _LOGGER.level, _LOGGER.propagate, tuple(_LOGGER.handlers)
    ctx.find_root().call_on_close(lambda: _restore(*before))
    _LOGGER.setLevel(level)
    _LOGGER.propagate = False
    if _HANDLER not in _LOGGER.handlers:
        _LOGGER.addHandler(_HANDLER)


def _restore(level: int, propagate: bool, handlers: tuple[logging.Handler, ...]) -> None:
    """Leave the logger as it was: a program may run a command and go on."""
    _LOGGER.setLevel(level)
    _LOGGER.propagate = propagate
    if _HANDLER not in handlers:
        _LOGGER.removeHandler(_HANDLER)


def is_debug(ctx: click.Context) -> bool:
    """Whether tracebacks are wanted."""
    return bool(ctx.meta.get(_LEVEL) == "DEBUG")


def is_quiet(ctx: click.Context) -> bool:
    """Whether only warnings and errors are wanted: no progress."""
    return ctx.meta.get(_LEVEL) in {"WARNING", "ERROR"}


def warn(text: str) -> None:
    """Say something the user should know."""
    _LOGGER.warning("%s", text)


def inform(text: str) -> None:
    """Say what is going on."""
    _LOGGER.info("%s", text)
