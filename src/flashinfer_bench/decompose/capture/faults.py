"""Why a run could not be recorded on one rung of the ladder; the next rung is tried."""

from __future__ import annotations

from flashinfer_bench.errors import UsageError


class NotRecordableError(UsageError):
    """The function mode cannot say what happened; the message is a reason for the user."""
