"""Whole logs on disk, where a page or a document shows a part."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from flashinfer_bench.cli import log
from flashinfer_bench.data import settings

if TYPE_CHECKING:
    from collections.abc import Sequence

_DIGITS = 8


def keep_logs(name: str, of: str, logs: Sequence[tuple[str, str]]) -> str | None:
    """Write logs with their titles to one file; None where there is none."""
    texts = [f"{title}\n{text.rstrip()}\n" for title, text in logs]
    return keep_log(name, of, "\n".join(texts)) if texts else None


def keep_log(name: str, of: str, text: str) -> str | None:
    """Write the newest log of something to the cache folder; None, with a warning, where that fails."""
    digest = hashlib.sha256(of.encode()).hexdigest()[:_DIGITS]
    file = settings.cache_path() / "logs" / f"{name}-{digest}.log"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        log.warn(f"cannot keep the log at {file}: {error.strerror}")
        return None
    return str(file)
