"""The one place where a fault becomes a line on stderr and an exit code."""

from __future__ import annotations

import contextlib
import io
import signal
import sys
import threading
import traceback
import warnings
from typing import TYPE_CHECKING, TextIO

import click

from flashinfer_bench.cli import log
from flashinfer_bench.errors import BenchError, DeviceError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

INTERRUPTED = 130


@contextlib.contextmanager
def faults_in_one_line(ctx: click.Context) -> Iterator[None]:
    """Explain whatever a command raises, and exit with the code that fits it.

    `--log-level DEBUG` shows the traceback as well.
    """
    _forgive_encodings()
    with _termination_interrupts(), _warnings_logged():
        try:
            yield
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise  # click ends these as it should
        except KeyboardInterrupt:
            _fail(ctx, "interrupted", INTERRUPTED)
        except BenchError as error:
            _fail(ctx, str(error), error.exit_code)
        except OSError as error:
            _fail(ctx, _storage_text(error), DeviceError.exit_code)
        except MemoryError:
            _fail(ctx, "out of memory", DeviceError.exit_code)
        except Exception as error:  # noqa: BLE001  # a fault of ours, whatever it is
            _fail(ctx, _internal_text(error), DeviceError.exit_code)


def _forgive_encodings() -> None:
    """Let what a stream cannot say become a question mark there, not an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")


def _fail(ctx: click.Context, message: str, code: int) -> None:
    if log.is_debug(ctx):
        click.echo(traceback.format_exc(), err=True, nl=False)
    click.echo(f"error: {message}", err=True)
    ctx.exit(code)


def _storage_text(error: OSError) -> str:
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename is not None else reason


def _internal_text(error: Exception) -> str:
    said = " ".join(str(error).split())
    return (
        f"internal error: {type(error).__name__}{': ' if said else ''}{said}; "
        "run again with --log-level DEBUG for the traceback"
    )


@contextlib.contextmanager
def _termination_interrupts() -> Iterator[None]:
    """Let SIGTERM end a command as Ctrl-C does: what was finished is kept, workers are ended."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  # the signal module's
    raise KeyboardInterrupt


@contextlib.contextmanager
def _warnings_logged() -> Iterator[None]:
    """Show warnings as lines of the log, without the source line that raised them."""
    with warnings.catch_warnings():
        if not sys.warnoptions:
            warnings.filterwarnings("default", module=r"flashinfer_bench\b")
        warnings.showwarning = _log_warning
        yield


def _log_warning(  # noqa: PLR0917  # the warnings module's signature
    message: Warning | str,
    category: type[Warning],  # noqa: ARG001
    filename: str,  # noqa: ARG001
    lineno: int,  # noqa: ARG001
    file: TextIO | None = None,  # noqa: ARG001
    line: str | None = None,  # noqa: ARG001
) -> None:
    log.warn(str(message))
