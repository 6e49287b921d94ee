"""What the harness does for each call of a sample, beside the call: the least of many samples, in microseconds.

The call is `x + 1` on 4,096 floats, and a sample has 16 of them, each on inputs of its own.

    python benchmarks/call_costs.py
"""

from __future__ import annotations

import gc
import os
import time
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.tensors.aliasing import lie_apart
from flashinfer_bench.tensors.generate import InputMaker
from flashinfer_bench.tensors.outputs import SharedOutputs, are_plain, slot_bytes
from flashinfer_bench.tensors.planned import InputPlan, TensorPlan

if TYPE_CHECKING:
    from collections.abc import Callable

ELEMENTS, CALLS, SAMPLES = 4096, 16, 2000
CPU = torch.device("cpu")


def main() -> None:
    """Go through the cycle of a sample in one process, and print what each part takes at least."""
    torch.set_num_threads(1)
    plan = TensorPlan("x", (ELEMENTS,), "float32")
    maker = InputMaker([InputPlan(plan, "window")], CPU)
    maker.open_trial(1)
    memory = os.memfd_create("outputs")
    os.ftruncate(memory, slot_bytes([plan]) * CALLS)
    shared = SharedOutputs(memory, [plan], CALLS)
    declared = ([torch.Size(plan.shape)], [torch.float32], CPU)
    least_ns: dict[str, int] = {}

    def timed(name: str, action: Callable[[], Any]) -> Any:
        began_ns = time.perf_counter_ns()
        result = action()
        took_ns = time.perf_counter_ns() - began_ns
        least_ns[name] = min(took_ns, least_ns.get(name, took_ns))
        return result

    gc.disable()
    for seed in range(SAMPLES):
        sets = timed("inputs written", lambda seed=seed: maker.prepare(seed, CALLS))
        found = timed("the calls", lambda sets=sets: [[x + 1] for (x,) in sets])
        timed(
            "outputs looked at", lambda found=found: [are_plain(each, *declared) for each in found]
        )
        timed("outputs handed over", lambda found=found: shared.write(found))
        timed("memory of calls compared", lambda found=found: lie_apart(found, maker.sets))
    for name, took_ns in least_ns.items():
        print(f"{took_ns / CALLS / 1e3:6.2f} µs a call  {name}")


if __name__ == "__main__":
    main()
