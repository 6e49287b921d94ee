"""Everything this package raises on purpose, as one tree.

::

    BenchError
    ├── UsageError               what was asked for cannot be (exit code 2)
    │   ├── UnknownNameError     a name the dataset lacks; suggests the nearest (also KeyError)
    │   ├── NoFallbackError      an applied call that nothing answers (also RuntimeError)
    │   └── NestingError         runtimes stopped out of order (also RuntimeError)
    ├── DatasetError             a file says something impossible; carries path, line (exit code 3)
    │   ├── DatasetNotFoundError the path is missing (also FileNotFoundError)
    │   └── DuplicateNameError   two files claim one name (also ValueError)
    ├── BuildError               source did not become a callable; carries the compiler's output
    │   └── ToolchainMissingError  the compiler or package a language needs is not installed
    ├── DeviceError              the machine is at fault (exit code 4)
    │   ├── MissingPackageError  a package of an extra is not installed; names the lines to type
    │   └── StorageError         a file cannot be written: disk full, read-only (also OSError)
    └── WorkerError              a worker of ours failed or broke the protocol (exit code 4)

An exception is a fault of the caller, the dataset, the machine or ours; a fault of a *solution* is
an `Outcome`, never an exception.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class BenchError(Exception):
    """The root of this package's errors."""

    exit_code = 1

    def __str__(self) -> str:
        """Return the sentence itself; `KeyError` would put quotes around it."""
        return str(self.args[0]) if self.args else ""


class UsageError(BenchError, ValueError):
    """What was asked for cannot be."""

    exit_code = 2


class UnknownNameError(UsageError, KeyError):
    """A name was asked for that the dataset does not hold."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        near = difflib.get_close_matches(name, list(known), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        super().__init__(f"no {kind} named {name!r}{hint}")


class NoFallbackError(UsageError, RuntimeError):
    """A call was applied that no solution answers and that has no fallback."""


class NestingError(UsageError, RuntimeError):
    """A runtime was stopped that is not the one started last."""


class DatasetError(BenchError, ValueError):
    """A file of a dataset says something impossible; `message` is its sentence without the place."""

    exit_code = 3

    def __init__(
        self,
        message: str,
        *,
        path: Path | str | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        self.message = message
        self.path = path
        self.line = line
        self.column = column
        where = ":".join(str(part) for part in (path, line, column) if part is not None)
        super().__init__(f"{where}: {message}" if where else message)


class DatasetNotFoundError(DatasetError, FileNotFoundError):
    """A dataset, or a file it names, is not there."""


class DuplicateNameError(DatasetError):
    """Two files claim the same name."""


class DatasetWarning(UserWarning):
    """A file of a dataset says something that was passed over."""


class BuildError(BenchError):
    """A solution's source did not become a callable; `log` holds the compiler's output."""

    def __init__(self, message: str, *, log: str = "") -> None:
        self.log = log
        super().__init__(message)


class ToolchainMissingError(BuildError):
    """The compiler or package a language needs is not installed here."""


class DeviceError(BenchError):
    """The machine is at fault: a device lost, a disk full, a package absent."""

    exit_code = 4


class StorageError(DeviceError, OSError):
    """A file cannot be written: the disk is full, the folder read-only."""


TORCH_INSTALL_LINES = (
    "  CPU only:  pip install torch --index-url https://download.pytorch.org/whl/cpu\n"
    "  with CUDA: pip install torch\n"
    "  with uv:   uv pip install torch --torch-backend=auto\n"
    "then:        pip install 'flashinfer-bench[torch]'"
)


class MissingPackageError(DeviceError, ImportError):
    """An optional package is not installed; the message holds the lines to type."""

    def __init__(self, package: str, *, extra: str, needed_for: str) -> None:
        lines = (
            f"\n{TORCH_INSTALL_LINES}"
            if package == "torch"
            else f": pip install 'flashinfer-bench[{extra}]'"
        )
        super().__init__(f"{needed_for} needs {package}, which is not installed{lines}")


class WorkerError(BenchError):
    """A worker of ours failed or broke the protocol; no solution is to blame."""

    exit_code = 4
