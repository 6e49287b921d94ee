"""Times as traces write them."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_timestamp() -> str:
    """Give the time now, UTC, ISO-8601 with an offset every Python reads."""
    return datetime.now(UTC).isoformat()


def parse_timestamp(text: str) -> datetime | None:
    """Read a trace's timestamp; one without an offset counts as UTC, a strange one as None."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
