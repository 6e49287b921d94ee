"""States of a task: imported by commands that must start in a blink, so beside the messages."""

from __future__ import annotations

STATES = ("pending", "running", "completed", "failed")
ENDED = frozenset({"completed", "failed"})
