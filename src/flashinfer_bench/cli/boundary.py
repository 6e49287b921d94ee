"""The one place where a fault becomes a line on stderr and an exit code."""

from __future__ import annotations

import contextlib
import errno
import io
import itertools
import re
import signal
import sys
import threading
import traceback
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TextIO

import click

from flashinfer_bench.cli import log
from flashinfer_bench.errors import BenchError, DatasetError, DeviceError, UsageError
from flashinfer_bench.text.numbers import count_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

INTERRUPTED = 130
_LONG_WORD = re.compile(r"[^\s/'\":;,]{256,}")
_SHOWN_CHARACTERS = 40
_END_CHARACTERS = 400
_WANTS_JSON = f"{__name__}.wants_json"
_KINDS: dict[int, Literal["usage", "dataset", "machine"]] = {2: "usage", 3: "dataset", 4: "machine"}


@contextlib.contextmanager
def faults_in_one_line(ctx: click.Context) -> Iterator[None]:
    """Explain whatever a command raises, and exit with the code that fits it.

    `--log-level DEBUG` shows the traceback as well.
    """
    _forgive_encodings()
    with _termination_interrupts(), _warnings_logged():
        try:
            yield
        except (click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise  # click ends these as it should
        except click.ClickException as error:
            shown = _readable(error)
            fault = CommandFault("usage", shown.format_message(), shown.exit_code)
            _show_document(ctx, _told(fault))
            raise shown from None
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  # a fault of ours, whatever it is
            _fail(ctx, _told(fault_of(error)))


@dataclass(frozen=True, slots=True)
class CommandFault:
    """Why a command ended without doing all of what it was asked."""

    kind: Literal["usage", "dataset", "machine", "build", "interrupted", "internal"]
    message: str
    exit_code: int
    path: str | None = None
    line: int | None = None


def fault_of(error: BaseException) -> CommandFault:
    """Say what an exception means to who typed the command."""
    too_long = _too_long_name(error)
    if too_long is not None:
        return CommandFault(
            "usage", f"{_middle_cut(too_long)}: too long for a file's name", UsageError.exit_code
        )
    match error:
        case KeyboardInterrupt():
            return CommandFault("interrupted", "interrupted", INTERRUPTED)
        case DatasetError(path=path, line=line):
            where = None if path is None else str(path)
            return CommandFault("dataset", str(error), error.exit_code, where, line)
        case BenchError():
            return CommandFault(_KINDS.get(error.exit_code, "build"), str(error), error.exit_code)
        case OSError():
            return CommandFault("machine", _storage_text(error), DeviceError.exit_code)
        case MemoryError():
            return CommandFault("machine", "out of memory", DeviceError.exit_code)
        case _:
            return CommandFault("internal", _internal_text(error), DeviceError.exit_code)


def _too_long_name(error: BaseException) -> str | None:
    """Find the name that no file system takes, behind what was raised."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno == errno.ENAMETOOLONG:
            return str(cause.filename)
        cause = cause.__cause__
    return None


def _told(fault: CommandFault) -> CommandFault:
    """Shorten what is too long for a line."""
    path = fault.path and _shortened(fault.path)
    return replace(fault, message=_shortened(fault.message), path=path)


def _shortened(text: str) -> str:
    """Cut words longer than a file's name can be.

    >>> _shortened("no definition named " + "x" * 300)
    'no definition named xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx… (300 characters)'
    """
    return _LONG_WORD.sub(
        lambda word: (
            f"{word.group()[:_SHOWN_CHARACTERS]}… ({count_text(len(word.group()), 'character')})"
        ),
        text,
    )


def _readable(error: click.ClickException) -> click.ClickException:
    """Shorten what click says of a long name or value."""
    said = error.format_message()
    text = _middle_cut(_shortened(said))
    if text == said or not isinstance(error, click.UsageError):
        return error
    return click.UsageError(text, error.ctx)


def _middle_cut(text: str) -> str:
    """Leave the ends of a value of many words, given on the command line, and what is said of it."""
    surplus = len(text) - 2 * _END_CHARACTERS
    if surplus <= 0:
        return text
    left_out = count_text(surplus, "character")
    return f"{text[:_END_CHARACTERS]}… ({left_out} left out) …{text[-_END_CHARACTERS:]}"


def want_json(ctx: click.Context, arguments: Sequence[str]) -> None:
    """Note whether a document was asked for: errors are one then, too, even before options are read."""
    own = list(itertools.takewhile(lambda each: each != "--", arguments))
    if "--json" in own:
        ctx.meta[_WANTS_JSON] = "lines" if "ndjson" in " ".join(own) else "document"


def _forgive_encodings() -> None:
    """Let what a stream cannot say become a question mark there, not an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")


def _fail(ctx: click.Context, fault: CommandFault) -> None:
    if log.is_debug(ctx):
        click.echo(traceback.format_exc(), err=True, nl=False)
    _show_document(ctx, fault)
    click.echo(f"error: {fault.message}", err=True)
    ctx.exit(fault.exit_code)


def _show_document(ctx: click.Context, fault: CommandFault) -> None:
    """Say it on stdout, where a document was asked for and none has been printed."""
    from flashinfer_bench.cli import screen  # noqa: PLC0415  # msgspec; `--help` does without

    if not ctx.meta.get(_WANTS_JSON) or screen.has_shown_json():
        return
    document = {"schema_version": 1, "exit_code": fault.exit_code, "error": fault}
    with contextlib.suppress(OSError):
        if ctx.meta[_WANTS_JSON] == "lines":
            screen.show_json_line({"event": "ended", **document})
        else:
            screen.show_json(document, fault.exit_code)


def _storage_text(error: OSError) -> str:
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename is not None else reason


def _internal_text(error: BaseException) -> str:
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
