"""What a parent does itself, seen where torch dispatches: nothing that reaches a kernel can hide there.

Names, aliases, helper functions, tensor methods, containers and compiled scripts all end in the dispatcher.
"""

from __future__ import annotations

import linecache
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._python_dispatch import TorchDispatchMode

from flashinfer_bench.decompose.capture.recurrent import on_meta
from flashinfer_bench.decompose.verify.files import tensors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

_COPIES = frozenset({
    "clone", "contiguous", "_unsafe_view", "_reshape_copy", "lift_fresh", "lift_fresh_copy", "lift", "detach",
    "unsafe_split", "unsafe_split_with_sizes", "unsafe_chunk", "alias", "_reshape_alias",
    "_conj", "resolve_conj", "resolve_neg",
})  # fmt: skip
"""Operations that give the same numbers in another order of memory."""
_LIKE = frozenset({
    "empty_like", "zeros_like", "ones_like", "full_like", "new_empty", "new_zeros", "new_ones", "new_full",
    "new_empty_strided",
})  # fmt: skip
"""Operations that read a tensor's size only."""
_SIZES = frozenset({"size", "stride", "storage_offset", "numel", "dim", "is_same_size"})
_HOST = frozenset({
    "numpy", "tolist", "item", "__array__", "data_ptr", "untyped_storage", "storage", "__dlpack__", "__bool__",
    "__int__", "__float__", "__index__", "equal", "allclose",
})  # fmt: skip
"""Functions that read values of tensors, or reach around torch."""


_INDEXING = frozenset({"__getitem__", "__setitem__"})
"""Functions that read numbers one by one out of nested indices."""


@dataclass(frozen=True)
class ParentOperation:
    """An operation that a parent did itself."""

    name: str
    line: int | None
    text: str
    is_host_read: bool


class Watcher:
    """Sees what one file does itself, and what its inputs are used for."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.work: list[ParentOperation] = []
        self.read: set[int] = set()
        """Ids of the given tensors that were used."""
        self.is_inside_child = False
        self._data: dict[int, torch.Tensor] = {}

    def give(self, values: Sequence[Any]) -> None:
        """Remember tensors that carry data: inputs, and what children return."""
        for each in tensors(values):
            self._data[id(each)] = each

    def use(self, values: Any) -> None:
        """Remember that these tensors were used."""
        self.read.update(id(each) for each in tensors(values))

    @contextmanager
    def inside_child(self) -> Iterator[None]:
        """Look away while a child computes."""
        before, self.is_inside_child = self.is_inside_child, True
        try:
            yield
        finally:
            self.is_inside_child = before

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look at everything that happens meanwhile."""
        with torch.no_grad(), _Functions(self), _Dispatches(self):
            yield

    def dispatched(self, func: Any, args: Any, kwargs: Any, outs: Any) -> None:
        """Judge one dispatched operation."""
        self.use((args, kwargs))
        if self.is_inside_child:
            return
        name = func._schema.name.partition("::")[2]  # the only way to it
        carries = any(id(each) in self._data for each in tensors((args, kwargs)))
        if name in _LIKE:
            return
        if not carries:
            if torch.Tag.nondeterministic_seeded in func.tags:
                self._add(name, is_host_read=False)
                self.give(outs)
            return
        self.give(outs)
        if not tensors(outs) and not _is_about_sizes(name):
            self._add(name, is_host_read=True)
        elif not _moves_nothing(func, name, args, outs):
            self._add(name, is_host_read=False)

    def called(self, func: Any, args: Any, kwargs: Any) -> None:
        """Notice calls that read values without being dispatched."""
        if getattr(func, "__name__", "") in _INDEXING:
            self.use(args)
        if self.is_inside_child:
            return
        name = (resolve_name(func) or getattr(func, "__name__", "")).rpartition(".")[2]
        carries = any(id(each) in self._data for each in tensors((args, kwargs)))
        if name in _HOST and carries:
            self._add(name, is_host_read=True)

    def ran_by_shape(self, name: str, args: Any, outs: Any) -> None:
        """Judge a recurrent network, which is not dispatched on meta."""
        self.use(args)
        self.give(outs)
        if not self.is_inside_child:
            self._add(name, is_host_read=False)

    def _add(self, name: str, *, is_host_read: bool) -> None:
        line = _line_in(self.path)
        text = linecache.getline(self.path, line).strip() if line else ""
        self.work.append(ParentOperation(name, line, text, is_host_read))


class _Dispatches(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's
    def __init__(self, watcher: Watcher) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's
        self.watcher = watcher

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,  # torch's signature
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        outs = func(*args, **(kwargs or {}))
        self.watcher.dispatched(func, args, kwargs or {}, outs)
        return outs


class _Functions(TorchFunctionMode):
    def __init__(self, watcher: Watcher) -> None:
        super().__init__()
        self.watcher = watcher

    def __torch_function__(
        self,
        func: Any,
        types: Any,  # torch's signature
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = kwargs or {}
        self.watcher.called(func, args, given)
        outs = None if given else on_meta(func, args)
        if outs is None:
            return func(*args, **given)
        self.watcher.ran_by_shape(func.__name__, args, outs)
        return outs


def _is_about_sizes(name: str) -> bool:
    return name in _SIZES or name.startswith(("sym_", "is_"))


def _moves_nothing(func: Any, name: str, args: Any, outs: Any) -> bool:
    if any(
        arg.alias_info is not None and arg.alias_info.is_write for arg in func._schema.arguments
    ):
        return False
    returns = func._schema.returns
    if returns and all(each.alias_info is not None for each in returns):
        return True
    if name == "_to_copy":
        return bool(tensors(args)[0].dtype == tensors(outs)[0].dtype)
    return name in _COPIES or (name.endswith("_copy") and name.removesuffix("_copy") in _VIEWS)


_VIEWS = frozenset({
    "view", "permute", "expand", "slice", "select", "squeeze", "unsqueeze", "transpose", "t", "diagonal",
    "split", "split_with_sizes", "unbind", "unfold", "as_strided", "narrow", "alias", "detach",
})  # fmt: skip


def _line_in(path: str) -> int | None:
    frame = sys._getframe(1)  # the caller's lines are asked for
    while frame is not None:
        if frame.f_code.co_filename == path:
            return frame.f_lineno
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return None
