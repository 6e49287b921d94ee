"""Solutions built for a live process: each once, called in any style; what fails is put under quarantine."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.compile import BuilderRegistry, Runnable
from flashinfer_bench.tensors.dtypes import torch_dtype

if TYPE_CHECKING:
    from flashinfer_bench.data import Definition, Solution

_LOG = logging.getLogger("flashinfer_bench.apply")
_MOST_PACKED = 1024
"""Sets of static inputs, one a layer, whose packed form is kept."""

Kernel = Callable[..., Any]


class Kernels:
    """The solutions of a dataset as callables, and those that failed."""

    def __init__(self, builders: BuilderRegistry | None = None) -> None:
        self._builders = builders or BuilderRegistry.get_instance()
        self._lock = threading.RLock()
        self.quarantined: dict[str, str] = {}
        """Why a solution is not used any more, by its name."""

    def build(self, definition: Definition, solution: Solution) -> Runnable | None:
        """Build a solution, or give what was built; None, and a line in the log, if it cannot be."""
        with self._lock:
            if solution.name in self.quarantined:
                return None
            try:
                runnable = self._builders.build(definition, solution)
            except Exception as error:  # noqa: BLE001 - whatever it is, the program has its fallback
                self.quarantine(solution.name, f"does not build: {error}")
                return None
            if runnable.metadata.absence is not None:
                self.quarantine(solution.name, f"cannot run here: {runnable.metadata.absence}")
                return None
            return runnable

    def quarantine(self, solution: str, reason: str) -> None:
        """Use a solution no more; said once."""
        with self._lock:
            if solution in self.quarantined:
                return
            self.quarantined[solution] = reason
        _LOG.warning("%s is under quarantine, the fallback answers its calls: %s", solution, reason)


def value_returning(definition: Definition, runnable: Runnable, inputs: Sequence[Any]) -> Kernel:
    """Make a kernel that takes inputs like these and returns the outputs; buffers are made for each call."""
    call = with_state(definition, runnable)
    if not runnable.metadata.destination_passing_style:
        return call
    device = device_of(inputs)
    axes = definition.get_axes_values_from_inputs(inputs)
    places = [
        (tuple(shape or ()), torch_dtype(spec.dtype))
        for shape, spec in zip(
            definition.get_output_shapes(axes), definition.outputs.values(), strict=True
        )
    ]
    if len(places) == 1:
        ((shape, dtype),) = places

        def into_one(*args: Any) -> Any:
            output = torch.empty(shape, dtype=dtype, device=device)
            call(*args, output)
            return output

        return into_one

    def into_several(*args: Any) -> Any:
        outputs = tuple(torch.empty(shape, dtype=dtype, device=device) for shape, dtype in places)
        call(*args, *outputs)
        return outputs or None

    return into_several


def destination_passing(definition: Definition, runnable: Runnable) -> Kernel:
    """Make a kernel that takes inputs and outputs, and returns nothing."""
    call = with_state(definition, runnable)
    if runnable.metadata.destination_passing_style:

        def into(*args: Any) -> None:
            call(*args)

        return into
    count = len(definition.inputs)

    def copied(*args: Any) -> None:
        returned = call(*args[:count])
        results = returned if isinstance(returned, tuple | list) else (returned,)
        for output, result in zip(args[count:], results, strict=True):
            output.copy_(result)

    return copied


def with_state(definition: Definition, runnable: Runnable) -> Kernel:
    """Run `prepare` when the static inputs are other tensors than before, and `plan` before each call."""
    if runnable.prepare is None and runnable.plan is None:
        return runnable.callable
    roles = [spec.role for spec in definition.inputs.values()]
    static = [at for at, role in enumerate(roles) if role == "static"]
    metadata = [at for at, role in enumerate(roles) if role == "metadata"]
    packed: list[tuple[tuple[Any, ...], Any]] = []

    def prepared(args: tuple[Any, ...]) -> Any:
        if runnable.prepare is None:
            return None
        own = tuple(args[at] for at in static)
        for known, state in packed:
            if all(ours is theirs for ours, theirs in zip(own, known, strict=True)):
                return state
        state = runnable.prepare(*own)
        packed.append((own, state))
        del packed[:-_MOST_PACKED]
        return state

    def call(*args: Any) -> Any:
        state = prepared(args)
        if runnable.plan is not None:
            planned = runnable.plan(state, *(args[at] for at in metadata))
            state = state if planned is None else planned
        return runnable.callable(state, *args)

    return call


def device_of(inputs: Sequence[Any]) -> torch.device:
    """Give the device of the first tensor, the CPU where there is none."""
    tensors = (value.device for value in inputs if isinstance(value, torch.Tensor))
    return next(tensors, torch.device("cpu"))
