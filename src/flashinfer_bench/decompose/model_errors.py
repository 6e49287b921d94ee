"""What went wrong in a model's own code, in one sentence with its line; and why a run could not be recorded."""

from __future__ import annotations

import contextlib
import linecache
import traceback
from typing import TYPE_CHECKING

from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


_NETWORK = {
    "URLError", "HTTPError", "gaierror", "ConnectionError", "ConnectTimeout", "ConnectError", "MaxRetryError",
    "OfflineModeIsEnabled", "LocalEntryNotFoundError", "SSLError", "ProxyError", "ConnectionRefusedError",
}  # fmt: skip
"""Names of errors by which urllib, requests, httpx and huggingface_hub say that nothing could be fetched."""


_FULL = ("can't allocate memory", "Cannot allocate memory", "std::bad_alloc", "MemoryError")
"""What torch and Python say when memory ends."""


class ModelFileError(UsageError):
    """A model's file cannot be used as it is."""


@contextlib.contextmanager
def blaming(path: Path | None, what: str) -> Iterator[None]:
    """Turn what a model's own code raises into an error that names its line."""
    try:
        yield
    except UsageError:
        raise
    except Exception as error:  # noqa: BLE001  # the file's own code: anything may come
        raise raised_in(path, what, error) from None


def raised_in(path: Path | None, what: str, error: BaseException) -> ModelFileError:
    """Say in one sentence that a model's own code raised, with its line."""
    where, line = line_in(path, error)
    quoted = f" at `{line}`" if line else ""
    message = " ".join(str(error).split()) or "no message"
    subject = f"{path or 'the model'}{where}"
    if is_full(error):
        return ModelFileError(
            f"{subject}: {what} needs more memory than it is given{quoted}; raise the limit with --memory-limit"
        )
    if needs_network(error):
        return ModelFileError(
            f"{subject}: {what} wants to download{quoted}, and that failed: {message}; "
            "fetch it beforehand, or build the model from a configuration without trained weights"
        )
    if isinstance(error, ModuleNotFoundError):
        return missing_module(path, error)
    return ModelFileError(f"{subject}: {what} raised {type(error).__name__}{quoted}: {message}")


def missing_module(path: Path | None, error: ModuleNotFoundError) -> ModelFileError:
    """Say which package a model's file lacks."""
    where, _ = line_in(path, error)
    package = (error.name or "").partition(".")[0]
    return ModelFileError(
        f"{path or 'the model'}{where} imports {error.name}, which is not installed: "
        f"pip install {package}, or put {package}.py beside the file"
    )


def is_full(error: BaseException) -> bool:
    """Tell whether an error is that memory has ended."""
    return isinstance(error, MemoryError) or any(each in str(error) for each in _FULL)


def needs_network(error: BaseException | None) -> bool:
    """Tell whether an error, or what led to it, is that nothing could be fetched."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if any(cls.__name__ in _NETWORK for cls in type(error).__mro__):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def line_in(path: Path | None, error: BaseException) -> tuple[str, str]:
    """Find the line of the file that an error passed through last, as `:12` and its text."""
    home = str(path.resolve()) if path else None
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename == home:
            return f":{frame.lineno}", linecache.getline(frame.filename, frame.lineno or 0).strip()
    return "", ""


class NotRecordableError(UsageError):
    """The function mode cannot say what happened; the message is a reason for the user."""


class HiddenStateError(NotRecordableError):
    """What happened hangs on state that no trace holds: export would guess, and wrongly."""
