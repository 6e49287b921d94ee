"""Finished builds on disk, shared by every process of a user.

A build is made in a folder of its own under a lock and renamed into place when it is complete, so
a name that exists is a build that is whole. All that belongs to one solution lies in one folder. Where
solutions are benchmarked, a process works in a copy of that folder (`bench/parent/build_copies.py`)::

    <root>/solutions/<hash>/                         of the solution's content
    ├── build_locks/<package>.lock
    ├── <kind>/.building-<package>/                  being made, or left by a process that was killed
    ├── <kind>/<package>/                            complete, never changed again
    └── triton_kernels/, …                           what compilers keep themselves
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from flashinfer_bench.errors import BuildError, DeviceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from flashinfer_bench.data import Solution

IN_PROGRESS = ".building-"
"""How the name of a folder begins that is being made."""
_KEY_DIGITS = 16
_FOLDER_DIGITS = 32
_NOT_IN_NAMES = re.compile(r"[^0-9A-Za-z_]")
_BUILD_FOLDER = re.compile(
    r"""(?:(?<=")/[^"\n]*|/[^\s"'(:]*)/solutions/[0-9a-f]{32}/\w+/[.\w-]+/"""
)
_BUILT_PACKAGE = re.compile(r"\bfib_\w+_[0-9a-f]{16}\.(?=\w)")
"""The package that Python sources were made into, before the name of a module of theirs."""
_LONGEST_NAME = 100  # file names end at 255 bytes; the key keeps shortened names apart


def build_key(content_hash: str, *, builder: str, toolchain: Mapping[str, str]) -> str:
    """Name one build: the same key, the same binary.

    `toolchain` holds what changes the binary besides the solution: compiler, libraries, processor.
    """
    facts = json.dumps([content_hash, builder, sorted(toolchain.items())])
    return hashlib.sha256(facts.encode()).hexdigest()[:_KEY_DIGITS]


def solution_folder(root: Path, solution: Solution) -> Path:
    """Say where under `root` everything lies that is made from one solution's content."""
    digest = hashlib.sha256(solution.hash().encode()).hexdigest()
    return root / "solutions" / digest[:_FOLDER_DIGITS]


def package_name(prefix: str, solution_name: str, key: str) -> str:
    """Make the folder's name, which is also an importable module name.

    >>> package_name("fib_python_", "my-kernel v2", "3a6eebe2eadd0884")
    'fib_python_my_kernel_v2_3a6eebe2eadd0884'
    """
    name = _NOT_IN_NAMES.sub("_", solution_name)[:_LONGEST_NAME]
    if not name or name[0].isdigit():
        name = "_" + name
    return f"{prefix}{name}_{key}"


def named_as_written(text: str) -> str:
    """Name a solution's files and modules as the solution does, where a text names what a build made of them.

    >>> named_as_written(f'File "/home/me/cache/solutions/{"0" * 32}/python/fib_python_k_1/main.py", line 3')
    'File "main.py", line 3'
    >>> named_as_written("fib_python_k_3a6eebe2eadd0884.main.Unfit: too long")
    'main.Unfit: too long'
    """
    return _BUILT_PACKAGE.sub("", _BUILD_FOLDER.sub("", text))


def require_writable(root: Path) -> None:
    """Refuse a cache that cannot be written, before solutions are blamed for it."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=root, buffering=0) as probe:
            probe.write(b"full?")
    except OSError as error:
        raise unwritable(root, error) from error


def unwritable(root: Path, error: OSError) -> DeviceError:
    """Say that the machine is at fault: the build cache cannot be written."""
    return DeviceError(
        f"cannot write the build cache at {root}: {error.strerror or error}; "
        "free some space or set FIB_CACHE_PATH to a folder that can be written"
    )


@dataclass(frozen=True, slots=True)
class BuildCache:
    """The build folders under one root."""

    root: Path

    def has(self, kind: str, package: str) -> bool:
        """Tell whether a package is complete."""
        return (self.root / kind / package).is_dir()

    @contextmanager
    def folder(self, kind: str, package: str, make: Callable[[Path], None]) -> Iterator[Path]:
        """Give the finished folder of `package`, calling `make` on an empty one if there is none.

        A `BuildError` of `make` leaves nothing behind, nor does one of the body if this call made
        the folder.
        """
        final = self.root / kind / package
        is_new = not final.is_dir() and self._make(final, make)
        try:
            yield final
        except BuildError:
            if is_new:
                self._discard(final)
            raise

    def _make(self, final: Path, make: Callable[[Path], None]) -> bool:
        """Make `final` unless another process just did; tell whether this call made it."""
        with self._writing(), self._lock(final.name):
            if final.is_dir():
                return False
            draft = final.with_name(IN_PROGRESS + final.name)
            self._sweep(final.parent)
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir(parents=True)
            try:
                make(draft)
                draft.rename(final)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
            return True

    def _discard(self, final: Path) -> None:
        with self._writing(), self._lock(final.name):
            if final.is_dir():
                draft = final.with_name(IN_PROGRESS + final.name)
                final.rename(draft)
                shutil.rmtree(draft, ignore_errors=True)

    def _sweep(self, kind_folder: Path) -> None:
        """Remove what killed builds left; a lock that is free has no builder behind it."""
        for draft in kind_folder.glob(IN_PROGRESS + "*"):
            try:
                with self._lock(draft.name.removeprefix(IN_PROGRESS), timeout_s=0):
                    shutil.rmtree(draft, ignore_errors=True)
            except Timeout:
                continue

    def _lock(self, package: str, *, timeout_s: float = -1) -> FileLock:
        folder = self.root / "build_locks"
        folder.mkdir(parents=True, exist_ok=True)
        return FileLock(folder / f"{package}.lock", timeout=timeout_s)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise unwritable(self.root, error) from error
