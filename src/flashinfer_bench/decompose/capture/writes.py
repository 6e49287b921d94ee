"""Writing in place as a pure call: the same numbers in a new tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_map

from flashinfer_bench.decompose.capture.calls import NamedCall
from flashinfer_bench.decompose.model_errors import NotRecordableError
from flashinfer_bench.decompose.names import canonical, is_copy_form, resolve

if TYPE_CHECKING:
    from flashinfer_bench.decompose.capture.objects import Layout

_RESHAPING = {"unsqueeze_", "squeeze_", "transpose_", "t_", "swapaxes_", "swapdims_"}


def pure_form(call: NamedCall, target: torch.Tensor, before: Layout) -> NamedCall:
    """Find a call that computes what was written into `target`, without writing.

    A function is preferred; where its result would be of another type or layout than the target, or there is
    none, the call stays what it is and means a copy that is written into.
    """
    for candidate in _candidates(call, target):
        if call.last in _RESHAPING or _same_result(candidate, target, before):
            return candidate
    if is_copy_form(call.fn) and call.args[0] is target:
        return call
    raise NotRecordableError(f"{call.fn} writes in place in a way that has no pure form")


def _candidates(call: NamedCall, target: torch.Tensor) -> list[NamedCall]:
    if not is_copy_form(call.fn):
        return [call]
    match call.last:
        case "zero_":
            return [NamedCall("torch.zeros_like", (target,))]
        case "fill_" if not isinstance(call.args[1], torch.Tensor):
            return [NamedCall("torch.full_like", call.args)]
        case "copy_" if isinstance(call.args[1], torch.Tensor):
            source = call.args[1]
            is_cast = source.dtype != target.dtype
            fn = "torch.Tensor.to" if is_cast else "torch.Tensor.clone"
            args = (source, target.dtype) if is_cast else (source,)
            plain = {"memory_format": torch.contiguous_format}
            return [NamedCall(fn, args), NamedCall(fn, args, plain)]
    function = getattr(torch, call.last[:-1], None)
    name = canonical(function) if function is not None else None
    return [NamedCall(name, call.args, call.kwargs)] if name else []


def _same_result(call: NamedCall, target: torch.Tensor, before: Layout) -> bool:
    """Run a candidate on meta: its result must have the target's type and layout."""
    try:
        args, kwargs = tree_map(
            lambda each: _on_meta(each, target, before), (call.args, call.kwargs)
        )
        result = resolve(call.fn)(*args, **kwargs)
    except (RuntimeError, TypeError, NotImplementedError):
        return False
    return (
        isinstance(result, torch.Tensor)
        and result.dtype == target.dtype
        and result.shape == target.shape
        and (result.stride() == target.stride() or result.is_contiguous())
    )


def _on_meta(value: Any, target: torch.Tensor, before: Layout) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    shape, strides, _ = (
        before if value is target else (value.shape, value.stride(), value.storage_offset())
    )
    return torch.empty_strided(shape, strides, dtype=value.dtype, device="meta")
