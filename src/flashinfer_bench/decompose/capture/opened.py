"""Functions of torch that are a piece of a network each: what they call is recorded, not they.

`multi_head_attention_forward` is projections, attention and a projection. Its own body runs, under the same
mode, so that the pieces are those of the installed torch and equal to the bit.
"""

from __future__ import annotations

import functools
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_OPENED = {"torch.nn.functional.multi_head_attention_forward"}


def is_opened(fn: str | None) -> bool:
    """Tell whether a function is recorded by what it calls."""
    return fn in _OPENED


@functools.cache
def body_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function that does what one of torch's does, without asking modes whether they want the call."""
    assert isinstance(function, FunctionType)
    names = {**function.__globals__, "has_torch_function": lambda _: False}
    body = FunctionType(function.__code__, names, function.__name__, function.__defaults__)
    body.__kwdefaults__ = function.__kwdefaults__
    return body
