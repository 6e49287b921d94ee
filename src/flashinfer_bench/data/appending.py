"""Written durably: lines appended under a lock, on disk when the call returns; folders written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import signal
import tempfile
import threading
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from flashinfer_bench.data.opening import kind_of
from flashinfer_bench.errors import DatasetWarning, StorageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_APPENDING = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
_BLOCK_BYTES = 65_536
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


def append(blocks: Mapping[str, bytes]) -> None:
    """Append whole lines to each file, or nothing to any; in the order given.

    An interrupt is held back until they are on disk: others may have read them, and what ended is not lost.
    """
    with contextlib.ExitStack() as stack:
        files = {path: stack.enter_context(_locked(path)) for path in sorted(blocks)}
        stack.enter_context(_interrupts_held_back())
        try:
            for path, block in blocks.items():
                files[path].write(block)
        except BaseException:
            for file in files.values():
                file.undo()
            raise


@contextlib.contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM wait until the block is over; only the main thread is ever interrupted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: dict[int, None] = {}
    handlers: dict[signal.Signals, Any] = {}
    try:
        for number in _INTERRUPTS:
            handlers[number] = signal.signal(number, lambda number, _: held.setdefault(number))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        for caught in held:
            signal.raise_signal(caught)


@dataclass(slots=True)
class _AppendedFile:
    """An open, locked file and the length to go back to."""

    path: str
    descriptor: int
    length: int

    def write(self, block: bytes) -> None:
        try:
            prefix = _mend_tail(self) if self.length else b""
            _write_all(self.descriptor, prefix + block)
            os.fsync(self.descriptor)
            if not self.length:
                fsync_folder(Path(self.path).parent)
        except OSError as error:
            raise storage_error(self.path, error) from error

    def undo(self) -> None:
        with contextlib.suppress(OSError):
            if self.length:
                os.ftruncate(self.descriptor, self.length)
            else:
                Path(self.path).unlink()


@contextlib.contextmanager
def _locked(path: str) -> Iterator[_AppendedFile]:
    try:
        descriptor = _open_locked(path)
    except OSError as error:
        raise storage_error(path, error) from error
    try:
        yield _AppendedFile(path, descriptor, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)


def _open_locked(path: str) -> int:
    """Open and lock; start over if the file was replaced or moved while we waited."""
    while True:
        descriptor = _open(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_still_there(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _open(path: str) -> int:
    try:
        return _open_regular(path)
    except FileNotFoundError:
        make_folders(Path(path).parent)
        return _open_regular(path)


def _open_regular(path: str) -> int:
    """Open for appending; a pipe would take what it is given until it is full, and then wait."""
    descriptor = os.open(path, _APPENDING, 0o666)
    kind = kind_of(os.fstat(descriptor).st_mode)
    if kind is not None:
        os.close(descriptor)
        raise OSError(errno.EINVAL, f"it is {kind}, not a file")
    return descriptor


def _is_still_there(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))  # noqa: PTH116 - hot
    except FileNotFoundError:
        return False


def _mend_tail(file: _AppendedFile) -> bytes:
    """Set a torn last line aside; give what must stand between the last line and the next."""
    if os.pread(file.descriptor, 1, file.length - 1) == b"\n":
        return b""
    tail = _last_line(file.descriptor, file.length)
    if is_json(tail):
        return b"\n"
    torn = f"{file.path}.torn"
    with os.fdopen(_open_regular(torn), "ab") as aside:
        aside.write(tail + b"\n")
        aside.flush()
        os.fsync(aside.fileno())
    os.ftruncate(file.descriptor, file.length - len(tail))
    file.length -= len(tail)
    text = f"{file.path}: torn last line ({len(tail)} bytes) moved to {torn}"
    warnings.warn(text, DatasetWarning, stacklevel=2)
    return b""


def _last_line(descriptor: int, length: int) -> bytes:
    tail = b""
    while length > 0 and b"\n" not in tail:
        start = max(0, length - _BLOCK_BYTES)
        tail = os.pread(descriptor, length - start, start) + tail
        length = start
    return tail.rpartition(b"\n")[2]


def is_json(text: bytes) -> bool:
    """Tell whether the text is one whole JSON value."""
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):  # the latter: brackets nested too deeply
        return False
    return True


def _write_all(descriptor: int, block: bytes) -> None:
    view = memoryview(block)
    while view:
        view = view[os.write(descriptor, view) :]


def make_folders(folder: Path) -> None:
    """Make a folder and those above it, each there to stay."""
    if not folder.is_dir():
        make_folders(folder.parent)
        folder.mkdir(exist_ok=True)
        fsync_folder(folder.parent)


def fsync_folder(folder: Path) -> None:
    """Make a new name in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def storage_error(path: Path | str, error: OSError) -> StorageError:
    """Say which file could not be written, why, and what to do."""
    return StorageError(
        f"cannot write {path}: {error.strerror or error}; nothing was changed. "
        "Free space, or choose another folder with --output DIR"
    )


_MODE = 0o755


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Give a staging folder to write into; it becomes the folder, new or empty until then, when all went well."""
    require_new(folder)
    folder = folder.absolute()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise storage_error(folder, error) from error
    try:
        yield staging
        staging.chmod(_MODE)
        staging.replace(folder)
    except OSError as error:
        raise storage_error(folder, error) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def require_outside(folder: Path, sources: Iterable[Path]) -> None:
    """Refuse a folder that would become a part of what it is made from."""
    for source in sources:
        if folder.resolve().is_relative_to(source.resolve()):
            raise UsageError(f"{folder} lies in {source}, which is read; name a folder outside")


def require_new(folder: Path) -> None:
    """Refuse a folder that holds something."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UsageError(f"{folder} exists already; name a folder that is new or empty")
