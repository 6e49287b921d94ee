"""What one forward call of a model does, as a trace: run on the meta device, without memory or time."""

from flashinfer_bench.decompose.capture.exported import export_counts
from flashinfer_bench.decompose.capture.fallback_chain import (
    Captured,
    as_written,
    capture,
    probe,
    same_stream,
)
from flashinfer_bench.decompose.capture.tape import Watch

__all__ = [
    "Captured",
    "Watch",
    "as_written",
    "capture",
    "export_counts",
    "probe",
    "same_stream",
]
