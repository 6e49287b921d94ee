"""The ways a served model runs: as it is, compiled, recorded once as CUDA graphs and replayed, or both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch

from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from flashinfer_bench.deployed.served import Served

_BEFORE_RECORDING = 3
GRAPH_MODES = ("graphs", "compiled-graphs")
NO_GRAPHS = "CUDA graphs need a CUDA device"


class Steps(Protocol):
    """Both steps of a served model in one mode."""

    def begin(self, rows: int, room: int) -> None:
        """Take a cache for so many rows of so many tokens."""

    def prefill(self, tokens: torch.Tensor) -> torch.Tensor:
        """Read prompts; give the last token's logits, which the next step may overwrite."""
        ...

    def decode(self, tokens: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """Read a token of each row."""
        ...


class Compiled:
    """Steps through `torch.compile`, each compiled for the sizes it is given."""

    def __init__(self, served: Served) -> None:
        self._served = served
        compiler: Any = torch.compile
        self._prefill = compiler(served.prefill, dynamic=False)
        self._decode = compiler(served.decode, dynamic=False)

    def begin(self, rows: int, room: int) -> None:
        """Take a cache."""
        self._served.begin(rows, room)

    def prefill(self, tokens: torch.Tensor) -> torch.Tensor:
        """Read prompts."""
        logits: torch.Tensor = self._prefill(tokens)
        return logits

    def decode(self, tokens: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """Read a token of each row."""
        logits: torch.Tensor = self._decode(tokens, position)
        return logits


@dataclass
class _Recorded:
    graph: Any
    given: tuple[torch.Tensor, ...]
    answer: torch.Tensor


class Graphs:
    """Steps recorded as CUDA graphs at their first call with these sizes, then replayed on new contents."""

    def __init__(self, served: Steps) -> None:
        self._served = served
        self._sizes = (0, 0)
        self._recorded: dict[Any, _Recorded] = {}

    def begin(self, rows: int, room: int) -> None:
        """Take a cache; graphs are recorded for each."""
        self._sizes = rows, room
        self._served.begin(rows, room)

    def prefill(self, tokens: torch.Tensor) -> torch.Tensor:
        """Read prompts."""
        return self._replayed("prefill", self._served.prefill, tokens)

    def decode(self, tokens: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """Read a token of each row."""
        return self._replayed("decode", self._served.decode, tokens, position)

    def _replayed(
        self, name: str, call: Callable[..., torch.Tensor], *given: torch.Tensor
    ) -> torch.Tensor:
        key = (name, self._sizes, given[0].shape)
        known = self._recorded.get(key)
        if known is None:
            known = self._recorded[key] = _record(call, given)
        for ours, theirs in zip(known.given, given, strict=True):
            ours.copy_(theirs)
        known.graph.replay()
        return known.answer


def _record(call: Callable[..., torch.Tensor], given: tuple[torch.Tensor, ...]) -> _Recorded:
    kept = tuple(each.to("cuda", copy=True) for each in given)
    side: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(_BEFORE_RECORDING):
            call(*kept)
    torch.cuda.current_stream().wait_stream(side)
    graph: Any = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        answer = call(*kept)
    return _Recorded(graph, kept, answer)


def calls_of(mode: str, phase: str, steps: int) -> int:
    """How often the model's own code runs when a phase runs once on new `Steps`: replays do not call it.

    >>> calls_of("eager", "decode", 8), calls_of("compiled", "prefill", 8), calls_of("graphs", "decode", 8)
    (8, 1, 4)
    """
    if mode in GRAPH_MODES:
        return _BEFORE_RECORDING + 1
    return 1 if phase == "prefill" else steps


def steps_of(served: Served, mode: str, device: str) -> Steps:
    """Make the steps of a mode."""
    if mode == "eager":
        return served
    if mode == "compiled":
        return Compiled(served)
    if not device.startswith("cuda"):
        raise UsageError(f"{NO_GRAPHS}; this is {device}")
    return Graphs(Compiled(served) if mode == "compiled-graphs" else served)


def compiler_counts() -> dict[str, int]:
    """Count the graphs and the breaks between them that the compiler made in this process."""
    from torch._dynamo.utils import counters  # noqa: PLC0415  # takes seconds; only asked for compiled code

    found: Any = counters
    return {
        "graphs": int(found["stats"]["unique_graphs"]),
        "breaks": sum(found["graph_break"].values()),
    }
