"""The taskset of `verifiers` by a name that its loader takes: it finds top-level modules only."""

from __future__ import annotations

from flashinfer_bench.rl.adapters.verifiers_taskset import KernelTaskset

__all__ = ["KernelTaskset"]
