"""Rows to report on."""

from __future__ import annotations

from typing import Any

from flashinfer_bench.data.rows import TraceRow

NOTHING: dict[str, Any] = {
    "definition": "d1",
    "solution": "a",
    "author": "alice",
    "language": "python",
    "workload_uuid": "w1",
    "axes": {"n": 1},
    "status": "PASSED",
    "hardware": "card",
    "timestamp": "2026-01-02T10:00:00+00:00",
    "latency_ms": 1.0,
    "reference_latency_ms": 2.0,
    "speedup": 2.0,
    "speedup_interval": None,
    "latency_kind": "wall",
    "max_relative_error": 0.0,
    "max_absolute_error": 0.0,
    "violation_count": 0,
    "note_count": 0,
    "solution_hash": None,
    "config_hash": None,
    "trace_id": None,
    "run_id": None,
    "run_label": None,
    "interpreted": False,
}


def row(**changes: Any) -> TraceRow:
    """Make a passing row, but for what is said."""
    if changes.get("status", "PASSED") != "PASSED":
        changes = {"latency_ms": None, "reference_latency_ms": None, "speedup": None} | changes
    return TraceRow(**(NOTHING | changes))


def baseline(definition: str, **latencies_ms: float) -> list[TraceRow]:
    """Make rows of the baseline."""
    return rows("base", "baseline", definition, **latencies_ms)


def rows(solution: str, author: str, definition: str, **latencies_ms: float) -> list[TraceRow]:
    """Make passing rows, by workload."""
    return [
        row(
            solution=solution,
            author=author,
            definition=definition,
            workload_uuid=uuid,
            latency_ms=latency_ms,
        )
        for uuid, latency_ms in latencies_ms.items()
    ]
