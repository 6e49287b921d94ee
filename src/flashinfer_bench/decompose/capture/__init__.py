"""What one forward call of a model does, as a trace: run on the meta device, without memory or time."""

from flashinfer_bench.decompose.capture.ladder import Captured, capture, probe

__all__ = ["Captured", "capture", "probe"]
