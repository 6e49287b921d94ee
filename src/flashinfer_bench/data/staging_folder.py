"""A folder of many files is written whole or not at all."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from flashinfer_bench.data.appending import storage_error
from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
