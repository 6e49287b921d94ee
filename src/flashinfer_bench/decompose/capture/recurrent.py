"""What recurrent networks return, by shape alone: unrolled on meta they would take as long as with values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode, resolve_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_NAMES = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"})
_CELLS = frozenset(f"torch.{name}" for name in _NAMES)


def is_recurrent(fn: str | None) -> bool:
    """Tell whether a function runs a whole recurrent network."""
    return fn in _CELLS


def shapes_only(fn: str, args: tuple[Any, ...]) -> tuple[torch.Tensor, ...] | None:
    """Make results of the right shape and layout; none for packed sequences and what lacks a batch.

    The arguments are (input, states, weights, has_biases, layers, dropout, train, bidirectional, batch_first).
    """
    if len(args) < _PLAIN or isinstance(args[1], torch.Tensor) != (fn != "torch.lstm"):
        return None
    sequence, states, *_, bidirectional, batch_first = args
    hidden = states[0] if fn == "torch.lstm" else states
    if sequence.dim() != hidden.dim() or hidden.dim() != _WITH_BATCH:
        return None
    batch, length = sequence.shape[:2] if batch_first else reversed(sequence.shape[:2])
    width = hidden.shape[-1] * (2 if bidirectional else 1)
    out = sequence.new_empty((length, batch, width))
    out = out.transpose(0, 1) if batch_first else out
    final = states if fn == "torch.lstm" else (states,)
    return (out, *(torch.empty_like(each, memory_format=torch.contiguous_format) for each in final))


class RecurrentByShape(TorchFunctionMode):
    """Gives what recurrent networks return on meta by shape; all else runs as it is."""

    def __torch_function__(
        self,
        func: Any,
        types: Any,  # torch's signature
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = kwargs or {}
        outs = on_meta(func, args) if not given else None
        return func(*args, **given) if outs is None else outs


def on_meta(func: Callable[..., Any], args: tuple[Any, ...]) -> tuple[torch.Tensor, ...] | None:
    """Make what a recurrent network returns on meta; none for any other function or device."""
    if getattr(func, "__name__", "") not in _NAMES or not args:
        return None
    first = args[0]
    if not isinstance(first, torch.Tensor) or first.device.type != "meta":
        return None
    name = resolve_name(func)
    return shapes_only(name, args) if name is not None and is_recurrent(name) else None


def draws(args: tuple[Any, ...]) -> bool:
    """Tell whether a recurrent network drops values at random between its layers."""
    numbers = [each for each in args if isinstance(each, bool | int | float)]
    _, layers, dropout, train, *_ = numbers
    return bool(train) and layers > 1 and dropout > 0


_PLAIN = 9
_WITH_BATCH = 3
