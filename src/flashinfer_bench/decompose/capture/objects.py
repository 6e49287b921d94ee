"""Which value each live tensor object holds: single assignment by identity, views and their bases alike."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from flashinfer_bench.decompose.ir import Ref
from flashinfer_bench.decompose.model_errors import NotRecordableError

Layout = tuple[tuple[int, ...], tuple[int, ...], int]


@dataclass(eq=False, slots=True)
class SharedMemory:
    """Objects that share memory; the version counts what was written to it."""

    root: TensorObject | None = None
    version: int = 0
    unlinked: bool = False
    """Whether some objects share its memory in a way that was not seen to come about."""


@dataclass(frozen=True, slots=True)
class ViewLink:
    """How a view was made: one call on its parent, which is the first argument."""

    parent: TensorObject
    fn: str
    args: tuple[Any, ...]
    """Those after the parent."""
    kwargs: dict[str, Any]


@dataclass(eq=False, slots=True)
class TensorObject:
    """One tensor object."""

    ref: weakref.ref[torch.Tensor]
    value: str
    group: SharedMemory
    version: int
    layout: Layout
    link: ViewLink | None = None
    strong: torch.Tensor | None = None
    dtype: torch.dtype = torch.float32
    first: str = ""
    """The value it held when it was first seen."""
    is_state: bool = False
    """Whether it is the model's or the caller's: a write to it outlives the run."""
    spoilt: str = ""
    """Why its value cannot be said any more."""


Emit = Callable[[str, tuple[Any, ...], dict[str, Any], TensorObject], str]
"""Record a call that restates aliasing: function, arguments, and the object that holds its result."""


@dataclass(eq=False)
class Objects:
    """All objects seen in a run."""

    emit: Emit
    keep: bool
    """Whether objects are held, so that an identity is never used twice; on meta they cost nothing."""
    _entries: dict[int, TensorObject] = field(default_factory=dict)
    _groups: dict[int, SharedMemory] = field(default_factory=dict)

    def find(self, tensor: torch.Tensor) -> TensorObject | None:
        """Look an object up."""
        entry = self._entries.get(id(tensor))
        return entry if entry is not None and entry.ref() is tensor else None

    def twin(self, tensor: torch.Tensor) -> TensorObject | None:
        """Find a live object that is the same memory seen in the same way."""
        group = self._groups.get(_storage(tensor))
        if group is None:
            return None
        layout = layout_of(tensor)
        for entry in self._entries.values():
            other = entry.ref() if entry.group is group and entry.layout == layout else None
            if (
                other is not None
                and other.dtype == tensor.dtype
                and _storage(other) == _storage(tensor)
            ):
                return entry
        return None

    def add(
        self, tensor: torch.Tensor, value: str, *, link: ViewLink | None = None
    ) -> TensorObject:
        """Note an object that was just made; without a link its memory is new."""
        if link is not None:
            group = link.parent.group
        else:
            group = self._groups[_storage(tensor)] = SharedMemory()
        return self._enter(tensor, value, group, link)

    def add_given(self, tensor: torch.Tensor, value: str) -> TensorObject:
        """Note an object that was there before the run; several may share memory."""
        key = _storage(tensor)
        group = self._groups.setdefault(key, SharedMemory())
        group.unlinked = group.root is not None
        entry = self._enter(tensor, value, group, None)
        entry.is_state = True
        return entry

    def _enter(
        self, tensor: torch.Tensor, value: str, group: SharedMemory, link: ViewLink | None
    ) -> TensorObject:
        entry = TensorObject(
            ref=weakref.ref(tensor),
            value=value,
            group=group,
            version=group.version,
            layout=layout_of(tensor),
            link=link,
            strong=tensor if self.keep else None,
            dtype=tensor.dtype,
            first=value,
        )
        if group.root is None:
            group.root = entry
        self._entries[id(tensor)] = entry
        return entry

    def current(self, entry: TensorObject) -> str:
        """Say which value an object holds now; a view of what was written since is viewed again."""
        if entry.spoilt:
            raise NotRecordableError(entry.spoilt)
        if entry.version == entry.group.version:
            return entry.value
        if entry.link is None:
            raise NotRecordableError(
                "memory is written under two names whose relation was not seen"
            )
        link = entry.link
        parent = self.current(link.parent)
        entry.value = self.emit(link.fn, (Ref(parent), *link.args), link.kwargs, entry)
        entry.version = entry.group.version
        return entry.value

    def write(self, entry: TensorObject, value: str) -> None:
        """Bind an object to what was written into it, and what it is a view of with it."""
        group = entry.group
        if group.unlinked:
            raise NotRecordableError(
                "memory is written under two names whose relation was not seen"
            )
        changed = [(entry, value)]
        while entry.link is not None:
            value = self._put_back(entry, value)
            entry = entry.link.parent
            changed.append((entry, value))
        group.version += 1
        for each, now in changed:
            each.value = now
            each.version = group.version

    def chain(self, entry: TensorObject) -> list[TensorObject]:
        """An object and all it is a view of, innermost first."""
        found = [entry]
        while found[-1].link is not None:
            found.append(found[-1].link.parent)
        return found

    def _put_back(self, view: TensorObject, value: str) -> str:
        """Record what the parent of a view holds once the view holds something new."""
        link = view.link
        assert link is not None
        parent = link.parent
        here = Ref(self.current(parent))
        new = Ref(value)
        args, fn = link.args, link.fn
        shape, _, offset = parent.layout
        match fn:
            case "torch.Tensor.__getitem__":
                return self.emit("torch.Tensor.__setitem__", (here, args[0], new), {}, parent)
            case "torch.select":
                return self.emit("torch.select_scatter", (here, new, *args), link.kwargs, parent)
            case "torch.narrow" if len(args) == len(("dim", "start", "length")):
                dim, start, length = args
                put = (here, new, dim, start, start + length)
                return self.emit("torch.slice_scatter", put, {}, parent)
            case "torch.diagonal":
                return self.emit("torch.diagonal_scatter", (here, new, *args), link.kwargs, parent)
            case "torch.transpose":
                return self.emit("torch.transpose", (new, *args), link.kwargs, parent)
            case "torch.permute" if len(args) == 1:
                order = [axis % len(shape) for axis in args[0]]
                back = tuple(order.index(axis) for axis in range(len(order)))
                return self.emit("torch.permute", (new, back), {}, parent)
            case "torch.detach":
                return value
            case "torch.view_as_real":
                return self.emit("torch.view_as_complex", (new,), {}, parent)
            case "torch.view_as_complex":
                return self.emit("torch.view_as_real", (new,), {}, parent)
            case _ if math.prod(shape) == math.prod(view.layout[0]) and fn in _SAME_ORDER:
                return self.emit("torch.reshape", (new, shape), {}, parent)
            case _ if _is_contiguous(parent.layout) and view.dtype == parent.dtype:
                size, steps, start = view.layout
                put = (here, new, size, steps, start - offset)
                return self.emit("torch.as_strided_scatter", put, {}, parent)
        raise NotRecordableError(f"a view made by {fn} of memory with gaps is written to")


_SAME_ORDER = {
    "torch.Tensor.view", "torch.reshape", "torch.flatten", "torch.unflatten", "torch.squeeze", "torch.unsqueeze",
    "torch.Tensor.view_as", "torch.Tensor.reshape_as", "torch.ravel", "torch.Tensor.contiguous",
}  # fmt: skip


def _is_contiguous(layout: Layout) -> bool:
    expected = 1
    for size, step in zip(reversed(layout[0]), reversed(layout[1]), strict=True):
        if size != 1 and step != expected:
            return False
        expected *= size
    return True


def layout_of(tensor: torch.Tensor) -> Layout:
    """Where a tensor's elements lie in its storage."""
    if tensor.layout is not torch.strided:
        raise NotRecordableError(f"a tensor has the layout {tensor.layout}")
    return tuple(tensor.shape), tuple(tensor.stride()), int(tensor.storage_offset())


def _storage(tensor: torch.Tensor) -> int:
    address: int = tensor.untyped_storage()._cdata
    return address  # on meta all data pointers are null


def shares_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Tell whether one tensor is a view of the other, or both of a third."""
    return _storage(one) == _storage(other)
