"""The reference in float64: what it means, without the rounding of its own dtypes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

from flashinfer_bench.judging.elementwise import rms_error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_NARROW = frozenset({torch.float32, torch.float16, torch.bfloat16})
_ROUNDING = 0.25
"""The error that rounding to the output's dtype alone makes, in units of epsilon: no output can be better."""

_NUDGE = 0.25  # of epsilon; what rounds an input does as much

Pair = tuple[int, torch.Tensor, torch.Tensor]
"""Number of an output, what came back, and what it should have been."""


def run_in_double(
    reference: Callable[..., Any],
    arguments: Sequence[Any],
    native: Sequence[torch.Tensor],
    *,
    written: Sequence[int] = (),
) -> list[torch.Tensor] | None:
    """Run a reference with every narrower float type replaced; None where it cannot be run so.

    Casts to eight-bit floats stay: there, rounding is what the reference means. A reference that looks at
    the bits of its floats means something else in another type; it is not run. `written`: the numbers of the
    arguments that it writes into; what they hold after the call comes behind what it returns.
    """
    default = torch.get_default_dtype()
    torch.manual_seed(0)
    try:
        torch.set_default_dtype(torch.float64)
        with _InDouble():
            wide = [widened(value) for value in arguments]
            result = reference(*wide)
    except Exception:  # noqa: BLE001  # many references cannot run in float64; then there is no figure
        return None
    finally:
        torch.set_default_dtype(default)
    produced = list(result) if isinstance(result, tuple | list) else [result]
    produced += [wide[number] for number in written]
    if len(produced) != len(native) or not all(map(_is_wide, produced, native)):
        return None
    return produced if any(wide.dtype is torch.float64 for wide in produced) else None


def widened(value: Any) -> Any:
    """Give a float tensor in float64, anything else as it is."""
    is_float = isinstance(value, torch.Tensor) and value.dtype.is_floating_point
    return value.double() if is_float else value


def nudged(value: Any) -> Any:
    """Give a float tensor in float64, every element off by up to a quarter of its dtype's epsilon."""
    wide = widened(value)
    if not isinstance(value, torch.Tensor) or value.dtype not in _NARROW:
        return wide
    generator = torch.Generator().manual_seed(0)
    noise = torch.empty(value.shape[-1:], dtype=torch.float64).uniform_(-1, 1, generator=generator)
    signs = torch.randint(0, 2, (*value.shape[:-1], 1), generator=generator).double() * 2 - 1
    step = _NUDGE * torch.finfo(value.dtype).eps
    pattern = signs.to(value.device) * noise.to(
        value.device
    )  # few random numbers for many elements
    return wide.addcmul(wide, pattern.view(value.shape), value=step)


def size_in_double(arguments: Sequence[Any]) -> int:
    """Bytes that the widened arguments take."""
    return sum(_bytes_in_double(value) for value in arguments)


def precision(ours: Sequence[Pair], native: Sequence[Pair]) -> dict[str, float] | None:
    """Compare root mean square errors: a solution's, the reference's in its own dtypes, and their ratio.

    Of several outputs, the one with the largest ratio is told. The ratio's denominator is at least what
    rounding to the output's dtype makes of exact values: a reference that happens to be exact is no
    reason to call rounding a fault. Without floating outputs there is nothing to tell.
    """
    worst: dict[str, float] | None = None
    for (_, got, exact), (_, reference, twin) in zip(ours, native, strict=True):
        figures = {
            "solution_rms_error": rms_error(got, exact),
            "reference_rms_error": rms_error(reference, twin),
        }
        floor = _ROUNDING * torch.finfo(got.dtype).eps * rms_error(exact, torch.zeros_like(exact))
        figures["ratio"] = _ratio(
            figures["solution_rms_error"], max(floor, figures["reference_rms_error"])
        )
        if worst is None or figures["ratio"] > worst["ratio"]:
            worst = figures
    return worst


def _ratio(error: float, unit: float) -> float:
    if unit > 0:
        return error / unit
    return math.inf if error > 0 else 1.0


class _InDouble(TorchFunctionMode):
    """Turns every request for a narrower float type into one for float64."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,  # torch's protocol
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        if func in (torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16):
            return args[0].double()
        if func is torch.Tensor.view and _is_dtype(*args[1:], *named.values()):
            return _reinterpreted(args[0], *args[1:], **named)
        widened_kwargs = {name: self._wide(value) for name, value in named.items()}
        return func(*(self._wide(value) for value in args), **widened_kwargs)

    def _wide(self, value: Any) -> Any:
        return torch.float64 if isinstance(value, torch.dtype) and value in _NARROW else value


def _reinterpreted(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Read packed bytes as the floats they are; only then widen them."""
    if tensor.dtype.is_floating_point and tensor.dtype != dtype:
        raise TypeError("the bits of a float say something else in float64")
    found = tensor.view(dtype)
    return found.double() if dtype in _NARROW else found


def _is_dtype(*values: object) -> bool:
    return len(values) == 1 and isinstance(values[0], torch.dtype)


def _is_wide(produced: Any, native: torch.Tensor) -> bool:
    return (
        isinstance(produced, torch.Tensor)
        and produced.shape == native.shape
        and (produced.dtype is torch.float64 or produced.dtype == native.dtype)
    )


def _bytes_in_double(value: Any) -> int:
    if not isinstance(value, torch.Tensor):
        return 0
    size = 8 if value.dtype.is_floating_point else value.element_size()
    return value.numel() * size
