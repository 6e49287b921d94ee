"""Why a run could not be recorded on one rung of the ladder; the next rung is tried."""

from __future__ import annotations


class NotRecordableError(Exception):
    """The function mode cannot say what happened; the message is a reason for the user."""
