"""A workload's roofline on this device, and whether a claimed time is beyond it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.bench.judge.oracle import ReferenceFailedError
from flashinfer_bench.bench.outcomes import Roofline
from flashinfer_bench.bench.timing.roofline import Work, disbelief, sol_fraction

if TYPE_CHECKING:
    from flashinfer_bench.bench.judge.oracle import Oracle
    from flashinfer_bench.data import Definition, Workload
    from flashinfer_bench.tensors.ceilings import Ceilings, Remembered


class WorkloadRoofline:
    """Holds times against what the device was measured to do; measures when first asked."""

    def __init__(
        self, remembered: Remembered, oracle: Oracle, workload: Workload, *, is_cold: bool
    ) -> None:
        self._remembered = remembered
        self._is_cold = is_cold
        returned = oracle.outputs[: len(oracle.definition.outputs)]
        tensors = [*(plan.tensor for plan in oracle.inputs), *returned]
        declared_bytes = _declared(oracle.definition, "min_bytes", workload)
        self._work = Work(
            bytes=declared_bytes or float(sum(tensor.size_bytes for tensor in tensors)),
            flops=_declared(oracle.definition, "min_flops", workload),
            declared_bytes=declared_bytes,
            dtypes=frozenset(tensor.dtype for tensor in tensors),
        )

    def share(self, latency_ns: float) -> Roofline:
        """Return what a call has to do, what the device can do, and the share a time is of it."""
        ceilings = self._remembered.get()
        return Roofline(
            bytes_moved=self._work.bytes,
            flops=self._work.flops,
            sol_fraction=sol_fraction(self._work, ceilings, latency_ns, is_cold=self._is_cold),
            ceilings=_in_giga(ceilings),
        )

    def disbelief(self, latency_ns: float) -> str | None:
        """Say why a time cannot be; the ceilings are measured anew before they speak against anyone."""
        if disbelief(self._work, self._remembered.get(), latency_ns) is None:
            return None
        return disbelief(self._work, self._remembered.raise_by_measuring(), latency_ns)


def _declared(definition: Definition, field: str, workload: Workload) -> float | None:
    try:
        return definition.lower_bound(field, workload.axes)
    except ValueError as error:
        raise ReferenceFailedError(f"{field} of definition {definition.name}: {error}") from error


def _in_giga(ceilings: Ceilings) -> dict[str, float]:
    rates = {f"{name}_gflop_per_s": rate for name, rate in ceilings.flops_per_s.items()}
    found = {
        "memory_gb_per_s": ceilings.memory_bytes_per_s,
        "cache_gb_per_s": ceilings.cache_bytes_per_s,
        **rates,
    }
    return {name: rate / 1e9 for name, rate in found.items()}
