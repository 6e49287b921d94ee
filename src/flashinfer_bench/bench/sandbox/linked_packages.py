"""Packages whose files are links into a cache, as `uv pip install --link-mode symlink` makes them."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from flashinfer_bench.errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

_FOLDERS_OF_PACKAGES = ("site-packages", "dist-packages")
_MOST_LINKS = 40
"""One after the other; Linux follows no more."""
_NEEDED = ("flashinfer_bench", "msgspec", "numpy", "torch", "tvm_ffi")
"""Without these a solution or a judge does not start."""


def targets(import_folders: Iterable[str]) -> Iterator[str]:
    """Name the folders that hold what an interpreter's packages link to.

    One file of each package and of each wheel is looked at: a wheel lies in the cache as it is installed, so the
    folder above that file's target holds the rest, too.
    """
    for folder in import_folders:
        if Path(folder).name in _FOLDERS_OF_PACKAGES:
            with contextlib.suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    yield from _behind(entry)


def require_shown() -> None:
    """Raise `DeviceError` where a package that is imported already cannot be read in this process's sandbox."""
    for name in _NEEDED:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is None:
            continue
        try:
            os.close(os.open(file, os.O_RDONLY | os.O_CLOEXEC))
        except PermissionError as error:
            raise DeviceError(_unshown_text(file)) from error


def failure_text(error: BaseException) -> str:
    """Say what a fault of ours was: a library's file that is not shown in a line, all else as a traceback."""
    if isinstance(error, PermissionError) and Path(str(error.filename)).is_symlink():
        return f"{_unshown_text(str(error.filename))}\n"
    return "".join(traceback.format_exception(error))


def lies_in(path: str, folders: Collection[str]) -> bool:
    """Tell whether a file or folder lies below one of these."""
    return any(parent in folders for parent in _with_parents(path) if parent != path)


def _unshown_text(file: str) -> str:
    real = os.path.realpath(file)
    where = f"{file}, a link to {real}" if real != file else file
    return (
        f"the sandbox does not show {where}: install the package without links "
        "(`uv pip install --reinstall --link-mode copy`), or use --sandbox off"
    )


def _behind(entry: os.DirEntry[str]) -> Iterator[str]:
    """Follow one entry of a folder of packages, as far as it is a link or has links in it."""
    if entry.is_symlink():
        yield from _links_from(entry.path)
        return
    is_about_wheel = entry.name.endswith(".dist-info")
    sample = "METADATA" if is_about_wheel else "__init__.py"
    for target in _links_from(f"{entry.path}/{sample}"):
        folder = Path(target).parent
        if folder.name == entry.name:
            yield str(folder.parent if is_about_wheel else folder)


def _links_from(path: str) -> Iterator[str]:
    """Follow a link step by step: each name must exist in a container, too."""
    for _ in range(_MOST_LINKS):
        try:
            link = os.readlink(path)  # noqa: PTH115  # of hundreds of names, most are no links
        except OSError:
            return
        path = os.path.normpath(Path(os.path.realpath(Path(path).parent), link))
        yield path


def _with_parents(path: str) -> Iterator[str]:
    yield path
    yield from map(str, Path(path).parents)
