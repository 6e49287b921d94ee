"""Calls of a solution, recorded as CUDA graphs: what `--launch graph` times is their replay."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_WARM_UPS = 3
"""Calls before the first recording, as torch asks for: they compile, and open what libraries keep."""
_EMPTY = "is empty"
"""What torch warns of a graph without work."""
_Replay: Any = torch.cuda.CUDAGraph.replay  # bound before any solution is loaded


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One call: replaying it writes what it returned when it was recorded, where it lay then."""

    graph: Any
    result: object
    in_order: list[Any]
    """Its outputs, contiguous; the copy that took is part of the graph."""


def replayed(recorded: RecordedCall) -> object:
    """Replay a call, and give what it returns."""
    _Replay(recorded.graph)
    return recorded.result


class CallGraphs:
    """One graph for each slot of a sample: a graph reads its inputs where they lay when it was recorded."""

    FIXED_ATTRIBUTES = ("_device", "_outputs_of")

    def __init__(self, device: torch.device, outputs_of: Callable[[object], list[Any]]) -> None:
        self._device = device
        self._outputs_of = outputs_of
        self._pool: Any = None
        self._recorded: list[RecordedCall] = []

    def forget(self) -> None:
        """Let go of all graphs: their inputs will lie elsewhere."""
        self._recorded = []

    def first(self, count: int) -> list[RecordedCall]:
        """Give the graphs of the first slots."""
        return self._recorded[:count]

    def record(self, call: Callable[..., Any], calls: Sequence[Sequence[Any]]) -> str | None:
        """Let go of all graphs, and record one for each of these calls; say why one cannot be recorded."""
        self.forget()
        stream: Any = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]  # untyped in torch
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UPS):
                call(*calls[0])
        torch.cuda.synchronize(self._device)
        self._pool = torch.cuda.graph_pool_handle()  # the last one went with its graphs
        for arguments in calls:
            recorded = self._one(call, arguments, stream)
            if isinstance(recorded, str):
                return recorded
            self._recorded.append(recorded)
        for each in self._recorded:
            replayed(each)  # the first replay keeps the host longer: the graph is put onto the card
        torch.cuda.synchronize(self._device)
        return None

    def _one(
        self, call: Callable[..., Any], arguments: Sequence[Any], stream: torch.cuda.Stream
    ) -> RecordedCall | str:
        graph: Any = torch.cuda.CUDAGraph()
        with warnings.catch_warnings(record=True) as said, torch.cuda.stream(stream):
            warnings.simplefilter("always")
            graph.capture_begin(pool=self._pool)
            fault = None
            try:
                result = call(*arguments)
                in_order = [_contiguous(each) for each in self._outputs_of(result)]
            except Exception as error:  # noqa: BLE001  # a solution may raise anything; it is its reason
                fault = reason_of(error)
            try:
                graph.capture_end()
            except RuntimeError as error:
                return fault or reason_of(error)
        if fault is None and any(_EMPTY in str(each.message) for each in said):
            fault = "it launches nothing on torch's current stream, so that its graph is empty"
        return fault or RecordedCall(graph, result, in_order)


def reason_of(error: BaseException) -> str:
    """Give the first line of an error: those of CUDA go on about debugging.

    >>> reason_of(RuntimeError("CUDA error: operation not permitted when stream is capturing"))
    'CUDA error: operation not permitted when stream is capturing'
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _contiguous(output: Any) -> Any:
    return output.contiguous() if type(output) is torch.Tensor else output
