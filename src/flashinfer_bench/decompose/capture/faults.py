"""Why a run could not be recorded by one way of capturing; the next of the fallback chain is tried."""

from __future__ import annotations

from flashinfer_bench.errors import UsageError


class NotRecordableError(UsageError):
    """The function mode cannot say what happened; the message is a reason for the user."""


class HiddenStateError(NotRecordableError):
    """What happened hangs on state that no trace holds: export would guess, and wrongly."""
