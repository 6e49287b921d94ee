"""What comes back from a kernel: poisoned before, looked at, committed, fingerprinted."""

from __future__ import annotations

import hashlib
import math
import mmap
import weakref
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.tensors import shared_gpu_memory
from flashinfer_bench.tensors.dtypes import dtype_name, torch_dtype

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from flashinfer_bench.tensors.planned import TensorPlan

_ALIGNMENT_BYTES = 64
_GUARD = 0xA7
_GUARD_BYTES = 512  # in front: what memory of a GPU is aligned to
_LEAST_GUARD_BYTES, _MOST_GUARD_BYTES = 4096, 1 << 16
"""Behind an output lies a row more, within these bounds: a kernel that does one row too many harms nothing else."""
_CPU = torch.device("cpu")
_WORDS_AT_A_TIME = 1 << 23
_STRIDE = 0x9E3779B97F4A7C15 - 2**64  # as a signed number
_TENSOR_NAMES = frozenset(dir(torch.Tensor))
_PARAMETER_CONTENT = dict(vars(torch.nn.Parameter))
_PARAMETER_BASES = torch.nn.Parameter.__mro__
"""What a tensor and a parameter look like before code of a solution runs."""
_MIXING = ((30, 0xBF58476D1CE4E5B9 - 2**64), (27, 0x94D049BB133111EB - 2**64))


_FILLINGS = {
    torch.float16: (torch.int16, 0x7ED5),
    torch.bfloat16: (torch.int16, 0x7FD5),
    torch.float32: (torch.int32, 0x7FD5_D5D5),
    torch.float64: (torch.int64, 0x7FFD_D5D5_D5D5_D5D5),
}
"""A NaN of each type that arithmetic does not make: what outputs hold before a call."""


def slot_bytes(plans: Sequence[TensorPlan]) -> int:
    """Bytes one call's outputs take in a shared buffer."""
    return sum(_aligned(plan.size_bytes) for plan in plans)


def allocate(plans: Sequence[TensorPlan], device: torch.device) -> list[torch.Tensor]:
    """Make output buffers for a destination-passing call, each between bytes that `overrun` looks at."""
    return [_guarded(p.shape, torch_dtype(p.dtype), device) for p in plans]


def _guarded(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    size, row = math.prod(shape) * dtype.itemsize, math.prod(shape[-1:]) * dtype.itemsize
    behind = min(max(_LEAST_GUARD_BYTES, row), _MOST_GUARD_BYTES)
    raw = torch.empty(_GUARD_BYTES + size + behind, dtype=torch.uint8, device=device)
    raw[:_GUARD_BYTES].fill_(_GUARD)
    raw[_GUARD_BYTES + size :].fill_(_GUARD)
    strides = torch.empty(shape, device="meta").stride()
    output = torch.empty(0, dtype=dtype, device=device)
    return output.set_(raw.untyped_storage(), _GUARD_BYTES // dtype.itemsize, shape, strides)


def overrun(output: torch.Tensor) -> str | None:
    """Say where a call wrote beside a buffer of `allocate`; None where it kept within, or put another in its place."""
    storage = output.untyped_storage()
    size = output.numel() * output.element_size()
    if storage.nbytes() < _GUARD_BYTES + size + _LEAST_GUARD_BYTES:
        return None
    raw = torch.empty(0, dtype=torch.uint8, device=output.device).set_(storage)
    if _is_damaged(raw[_GUARD_BYTES + size :]):
        return "past the end"
    return "before the beginning" if _is_damaged(raw[:_GUARD_BYTES]) else None


def _is_damaged(guard: torch.Tensor) -> bool:
    """Look at bytes of a GPU on the host: a kernel that compares them would have to be loaded first."""
    return bool((guard.cpu() != _GUARD).any())


def poison(outputs: Iterable[torch.Tensor]) -> None:
    """Fill buffers with what no kernel means to return: NaN, or the smallest integer."""
    for output in outputs:
        if output.dtype is torch.bool:
            output.fill_(True)
        elif output.dtype.is_floating_point and output.dtype.itemsize == 1:
            output.view(torch.uint8).fill_(0x7F)  # NaN in both eight-bit formats
        elif output.dtype.is_floating_point:
            word, filling = _FILLINGS[output.dtype]
            output.view(word).fill_(filling)
        else:
            output.fill_(torch.iinfo(output.dtype).min)


def unwritten(output: torch.Tensor) -> torch.Tensor | None:
    """Tell which elements still hold what `poison` wrote; None where a kernel may well have written the same."""
    if output.dtype not in _FILLINGS:
        return None
    word, filling = _FILLINGS[output.dtype]
    return output.contiguous().view(word) == filling


class SharedOutputs:
    """Outputs of several calls in memory that two processes map.

    `is_on_device`: the descriptor is that of memory of a GPU (`shared_gpu_memory.create`), which lies where the outputs
    do. Otherwise it is that of a file in memory, which a GPU copies to and from directly.
    """

    FIXED_ATTRIBUTES = ("_plans", "_is_on_cpu", "_slots", "_start", "_stop", "arrives_late")

    def __init__(
        self,
        descriptor: int,
        plans: Sequence[TensorPlan],
        slot_count: int,
        device: torch.device = _CPU,
        *,
        is_on_device: bool = False,
    ) -> None:
        self._plans = tuple(plans)
        size = max(1, slot_bytes(plans) * slot_count)
        self._is_on_cpu = device.type == "cpu"
        self.arrives_late = not (self._is_on_cpu or is_on_device)
        """Whether outputs are on their way for so long that work could hide behind it."""
        if is_on_device:
            memory = shared_gpu_memory.mapped(self, descriptor, size, device)
        else:
            memory = torch.frombuffer(mmap.mmap(descriptor, size), dtype=torch.uint8)
        if self.arrives_late:
            _let_gpus_reach(self, memory)
        self._slots = tuple(self._views(memory, slot) for slot in range(slot_count))
        self._start, self._stop = memory.data_ptr(), memory.data_ptr() + size

    def write(self, calls: Iterable[Sequence[torch.Tensor | None]]) -> None:
        """Commit the outputs of calls, from the first slot on, whatever their strides; some may be missing, or None."""
        places: list[torch.Tensor] = []
        content: list[torch.Tensor] = []
        for slot, outputs in zip(self._slots, calls, strict=False):
            for place, output in zip(slot, outputs, strict=False):
                if output is None:
                    continue
                if self._start <= output.data_ptr() < self._stop:  # nothing would be copied
                    raise ValueError("an output lies in the memory that outputs are handed over in")
                is_in_graph = output.requires_grad  # a graph kept here would grow with every call
                places.append(place)
                content.append(output.detach() if is_in_graph else output)
        if self._is_on_cpu and places:
            torch._foreach_copy_(places, content)
            return
        for place, output in zip(places, content, strict=True):  # from a card, one copy at a time
            place.copy_(output)

    def read(self, slot: int, device: torch.device) -> list[torch.Tensor]:
        """Copy one call's outputs out; what is written afterwards does not reach them."""
        outputs = [place.to(device, copy=True) for place in self._slots[slot]]
        if not self._is_on_cpu:
            torch.cuda.synchronize(device)
        return outputs

    def _views(self, memory: torch.Tensor, slot: int) -> tuple[torch.Tensor, ...]:
        start, views = slot * slot_bytes(self._plans), []
        for plan in self._plans:
            raw = memory[start : start + plan.size_bytes]
            views.append(raw.view(torch_dtype(plan.dtype)).view(plan.torch_shape))
            start += _aligned(plan.size_bytes)
        return tuple(views)


def _let_gpus_reach(owner: SharedOutputs, memory: torch.Tensor) -> None:
    """Lock the pages in place for as long as their owner lives: copies then run at the speed of the bus.

    Where that is refused (a limit on locked memory), copies are slower and otherwise the same.
    """
    runtime: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]  # untyped in torch
    address = memory.data_ptr()
    if int(runtime.cudaHostRegister(address, memory.numel(), 0)) == 0:
        weakref.finalize(owner, runtime.cudaHostUnregister, address)


def are_plain(
    outputs: Sequence[object],
    shapes: Sequence[torch.Size],
    dtypes: Sequence[torch.dtype],
    device: torch.device,
) -> bool:
    """Tell quickly that outputs are plain tensors as declared; where it says no, `mismatch` knows whether they are."""
    if len(outputs) != len(shapes):
        return False
    for output, shape, dtype in zip(outputs, shapes, dtypes, strict=False):
        if type(output) is not torch.Tensor or output.__dict__:
            return False
        if output.dtype is not dtype or output.shape != shape or output.device != device:
            return False
    return True


def mismatch(output: object, plan: TensorPlan, device: torch.device) -> tuple[str, str] | None:
    """Say what is wrong with an output before its values are looked at: a code and a sentence."""
    if not isinstance(output, torch.Tensor):
        return "not_a_tensor", _not_a_tensor(output, plan)
    hidden = disguise(output)
    if hidden is not None:
        return "subclass", f"output {plan.name!r} is no plain torch.Tensor: {hidden}"
    if output.shape != plan.torch_shape:
        return (
            "shape",
            f"output {plan.name!r} has shape {tuple(output.shape)}, not {plan.torch_shape}",
        )
    if output.dtype is not torch_dtype(plan.dtype):
        return "dtype", f"output {plan.name!r} is {dtype_name(output.dtype)}, not {plan.dtype}"
    if output.device.type != device.type:
        return "device", f"output {plan.name!r} is on {output.device}, not on {device}"
    return None


def _not_a_tensor(output: object, plan: TensorPlan) -> str:
    """Say what came instead of a tensor, and what is expected."""
    wanted = f"a torch.Tensor, {plan.dtype} {list(plan.torch_shape)}"
    if output is None:
        how = f"return {wanted}; a function that forgets its `return` gives None"
        return f"output {plan.name!r} is None, not a tensor: {how}"
    kind = type(output).__name__
    return f"output {plan.name!r} is of type {kind}, not a tensor: return {wanted}"


def disguise(output: torch.Tensor) -> str | None:
    """Say what may run code when an output is used, or stand in for a property of it; None for plain data.

    A `Parameter` behaves like a plain tensor as long as its class is as torch made it. Attributes may hold data
    under names of their own: `torch.compile` leaves notes on its outputs, and a `Buffer` carries two flags.
    Nothing here runs code of the solution's: keys are compared only when they are plain strings.
    """
    kind = type(output)
    if kind is not torch.Tensor and not (kind is torch.nn.Parameter and _is_genuine_parameter()):
        return kind.__name__
    attributes = output.__dict__
    if type(attributes) is not dict:
        return f"its attributes are kept in a {type(attributes).__name__}"
    for name, value in attributes.items():
        if type(name) is not str:
            return f"an attribute's name is a {type(name).__name__}"
        if name in _TENSOR_NAMES or name.startswith("__"):
            return f"its attribute {name!r} stands before one of torch.Tensor"
        if callable(value):
            return f"its attribute {name!r} can be called"
    return None


def _is_genuine_parameter() -> bool:
    now = vars(torch.nn.Parameter)
    return (
        torch.nn.Parameter.__mro__ == _PARAMETER_BASES
        and now.keys() == _PARAMETER_CONTENT.keys()
        and all(now[name] is value for name, value in _PARAMETER_CONTENT.items())
    )


def overlap(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Tell whether two tensors share a byte; interleaved views of one block do not.

    Addresses are compared, not storages: the same memory can be wrapped twice.
    """
    one, other = span(first), span(second)
    if one.start >= other.stop or other.start >= one.stop:
        return False
    if first.is_contiguous() and second.is_contiguous():
        return True
    base = min(one.start, other.start)
    touched = torch.zeros(max(one.stop, other.stop) - base, dtype=torch.bool, device=_CPU)
    for tensor in (first, second):
        size = tensor.element_size()
        strides = [stride * size for stride in tensor.stride()]
        for byte in range(size):
            view = touched.as_strided(tensor.shape, strides, tensor.data_ptr() - base + byte)
            if tensor is second and bool(view.any()):
                return True
            if tensor is first:
                view.fill_(True)
    return False


def span(tensor: torch.Tensor) -> range:
    """Addresses from a tensor's first byte to behind its last; empty for an empty tensor."""
    if not tensor.numel():
        return range(0)
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    last = sum((size - 1) * stride for size, stride in pairs)
    return range(tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size())


def fingerprint(values: Iterable[object]) -> bytes:
    """Return a digest of the tensors among `values`; the same on the same kind of device.

    Collision-resistant on a CPU. On a GPU a sum of mixed words is digested, at the speed of its memory: chance
    changes do not escape it.
    """
    digest = hashlib.blake2b(digest_size=16)
    for value in values:
        if not isinstance(value, torch.Tensor):
            continue
        raw = value.detach().contiguous().reshape(-1).view(torch.uint8)
        if raw.device.type == "cpu":
            digest.update(raw.numpy().data)
        else:
            digest.update(f"{raw.numel()} {sum_of_mixed_words(raw)} ".encode())
    return digest.digest()


def sum_of_mixed_words(raw: torch.Tensor) -> int:
    """Add up eight bytes at a time, each word mixed with its place, modulo 2^64, where the bytes lie.

    The mixing is that of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), with arithmetic shifts.
    """
    missing = -raw.numel() % 8
    is_whole = not missing and raw.storage_offset() % 8 == 0
    words = (raw if is_whole else torch.nn.functional.pad(raw, (0, missing))).view(torch.int64)
    total = 0
    for start in range(0, words.numel(), _WORDS_AT_A_TIME):
        mixed = words[start : start + _WORDS_AT_A_TIME].clone()
        places = torch.arange(start, start + mixed.numel(), device=raw.device)
        mixed ^= places.mul_(_STRIDE)
        for shift, factor in _MIXING:
            mixed ^= mixed >> shift
            mixed *= factor
        total += int((mixed ^ (mixed >> 31)).sum())
    return total % 2**64


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
