"""Where the existing system's users look for runners; here every solution has a process of its own."""

from __future__ import annotations

from flashinfer_bench.moved import named_elsewhere

__getattr__ = named_elsewhere(
    __name__,
    {
        "RunnerError": "errors are in `flashinfer_bench.errors`",
        "RunnerFatalError": "errors are in `flashinfer_bench.errors`",
    },
    otherwise="every solution runs in a process of its own; `flashinfer_bench.Benchmark` starts them",
)
