"""Tools' own reports, kept under the hash of their content."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from flashinfer_bench.bench.examining.profile_values import KeptReport
from flashinfer_bench.errors import StorageError

if TYPE_CHECKING:
    from pathlib import Path


def kept_report(folder: Path | None, tool: str, content: bytes, end: str) -> KeptReport | None:
    """Write a report under its hash; None where none is to be kept."""
    if folder is None:
        return None
    digest = hashlib.sha256(content).hexdigest()
    path = folder / f"{digest[:32]}{end}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            draft = path.with_name(f".{path.name}.{os.getpid()}")
            draft.write_bytes(content)
            draft.replace(path)
    except OSError as error:
        said = error.strerror or str(error)
        raise StorageError(f"cannot keep a report in {folder}: {said}") from error
    return KeptReport(tool, str(path), digest, len(content))
