"""What a kernel does in a call that compiled code and CUDA graphs cannot take, each with its line in the kernel."""

from __future__ import annotations

import gc
import linecache
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_READS = {
    torch.Tensor.tolist: ".tolist()",
    torch.Tensor.numpy: ".numpy()",
    torch.Tensor.item: ".item()",
    torch.Tensor.__bool__: "the truth of a tensor",
    torch.Tensor.__int__: "int() of a tensor",
    torch.Tensor.__float__: "float() of a tensor",
    torch.Tensor.__index__: "a tensor as an index",
}
_READING = {
    "aten::_local_scalar_dense": "a value",
    "aten::nonzero": "nonzero(), whose size the values tell",
    "aten::masked_select": "masked_select(), whose size the values tell",
    "aten::_unique2": "unique(), whose size the values tell",
    "aten::equal": "equal()",
}
"""Operations of torch that wait for values, however they are called."""
_OF_TORCH = frozenset({"aten", "prim", "prims", "inductor", "triton", "higher_order", "profiler"})


@dataclass(frozen=True, slots=True)
class SeenDoing:
    """One thing a kernel did, and where."""

    what: str
    place: str
    """`file:line: source` as the kernel's file is called; empty where no line of it is known."""

    def __str__(self) -> str:
        """Say it in one line."""
        return f"{self.place}: {self.what}" if self.place else self.what


@dataclass
class Watched:
    """What calls of one kernel did, in order, each once."""

    reads: list[SeenDoing] = field(default_factory=list)
    """Values of tensors that Python asked for."""
    addresses: list[SeenDoing] = field(default_factory=list)
    """Where a tensor's address was asked for."""
    fakes: list[SeenDoing] = field(default_factory=list)
    """Operators of its own whose fake implementation is missing or says another output."""
    made: list[tuple[Any, SeenDoing]] = field(default_factory=list)
    """Memory that was taken in the last call."""

    def kept(self) -> list[SeenDoing]:
        """Say which memory of the last call is still held by somebody; outputs must be gone."""
        gc.collect()
        return list(dict.fromkeys(seen for storage, seen in self.made if not storage.expired()))


class Watch:
    """A kernel's calls, watched; `folder` has its sources."""

    def __init__(self, folder: Path | None) -> None:
        self.watched = Watched()
        self._folder = None if folder is None else f"{folder}/"

    def call(self, kernel: Callable[..., Any], inputs: Sequence[Any]) -> Any:
        """Call once; anything the kernel raises is the caller's."""
        self.watched.made.clear()
        with _TensorFunctions(self), _Operations(self):
            return kernel(*inputs)

    def note(self, kind: list[SeenDoing], what: str) -> None:
        """Remember what happens now, unless it happens in a package that the kernel called."""
        place = self.place()
        if place is not None and not any(place and seen.place == place for seen in kind):
            kind.append(SeenDoing(what, place))

    def place(self) -> str | None:
        """Give the kernel's line that is running; None where an interpreter of its language is below it."""
        frame: Any = sys._getframe(1)
        while frame is not None:
            name = frame.f_code.co_filename
            if "/triton/" in name:
                return None
            if self._folder is not None and name.startswith(self._folder):
                source = linecache.getline(name, frame.f_lineno).strip()
                return f"{name.removeprefix(self._folder)}:{frame.f_lineno}: `{source}`"
            frame = frame.f_back
        return ""


class _TensorFunctions(TorchFunctionMode):
    """Python's own ways to a tensor's values and address."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        if func in _READS:
            self._watch.note(self._watch.watched.reads, f"{_READS[func]} reads a value on the host")
        elif func is torch.Tensor.data_ptr:
            self._watch.note(self._watch.watched.addresses, "takes an address")
        return func(*args, **(kwargs or {}))


class _Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]  # untyped in torch
    """Everything that torch computes for a kernel."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._watch = watch

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        watch, kwargs = self._watch, kwargs or {}
        if func._schema.name in _READING or _is_masked(func, args):
            what = _READING.get(func._schema.name, "a mask, whose size the values tell")
            watch.note(watch.watched.reads, f"reads {what}")
        fake = None
        if func.namespace not in _OF_TORCH:
            fake = _faked(func, args, kwargs)
        answer = func(*args, **kwargs)
        if fake is not None and (off := _difference(func, fake, answer)):
            watch.note(watch.watched.fakes, off)
        given = {_storage(each) for each in pytree.tree_leaves((args, kwargs))}
        for each in pytree.tree_leaves(answer):
            if isinstance(each, torch.Tensor) and _storage(each) not in given:
                seen = SeenDoing(
                    f"keeps {list(each.shape)} {_short(each.dtype)}", watch.place() or ""
                )
                memory = StorageWeakRef(each.untyped_storage())  # type: ignore[no-untyped-call]
                watch.watched.made.append((memory, seen))
        return answer


def _is_masked(func: Any, args: Any) -> bool:
    return func._schema.name == "aten::index" and any(
        isinstance(each, torch.Tensor) and each.dtype == torch.bool for each in args[1]
    )


def _storage(value: Any) -> int | None:
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else None


def _faked(func: Any, args: Any, kwargs: Any) -> Any:
    """Call an operator on tensors without content; gives the error where that fails."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        fakes = pytree.tree_map_only(torch.Tensor, mode.from_tensor, (args, kwargs))
        try:
            return func(*fakes[0], **fakes[1])
        except Exception as error:  # noqa: BLE001 - whatever somebody's fake raises
            return error


def _difference(func: Any, fake: Any, answer: Any) -> str | None:
    name = func._schema.name
    if isinstance(fake, Exception):
        first = str(fake).partition("\n")[0]
        return f"the operator {name} has no fake implementation that works: {first}"
    pairs = zip(pytree.tree_leaves(fake), pytree.tree_leaves(answer), strict=False)
    for theirs, ours in pairs:
        if isinstance(ours, torch.Tensor) and (off := form_difference(theirs, ours)):
            return f"the operator {name} gives {off[1]}, its fake implementation says {off[0]}"
    return None


def form_difference(fake: Any, real: torch.Tensor) -> tuple[str, str] | None:
    """Say what an output was to be and what it is, where shape, dtype, device or strides differ."""
    if not isinstance(fake, torch.Tensor):
        return ("no tensor", _form(real))
    first, second = _form(fake), _form(real)
    if first == second and fake.stride() != real.stride() and real.numel():
        first, second = (
            f"{form} with strides {list(each.stride())}"
            for form, each in ((first, fake), (second, real))
        )
    return None if first == second else (first, second)


def _form(tensor: torch.Tensor) -> str:
    return f"{_short(tensor.dtype)}{[int(each) for each in tensor.shape]} on {tensor.device.type}"


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
