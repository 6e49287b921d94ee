"""Where in a model an operation runs: the modules entered, and the user's own functions between them."""

from __future__ import annotations

import contextlib
import functools
import sys
import sysconfig
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.modules import module as hooks

from flashinfer_bench.decompose.ir import Scope
from flashinfer_bench.decompose.model_errors import NotRecordableError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

_TORCH = str(Path(torch.__file__).parent)
_HERE = str(Path(__file__).parent.parent)
_INNER = ("_refs", "_prims", "_prims_common", "_decomp", "_meta_registrations")
_STDLIB = sysconfig.get_path("stdlib")
_PACKAGES = str(Path(_TORCH).parent)


@dataclass(frozen=True)
class _Entered:
    frame: FrameType
    """Torch's frame that calls the module's forward: functions further in belong to this module."""
    scope: Scope


class Scopes:
    """Follows a run into modules and functions."""

    def __init__(self, model: nn.Module) -> None:
        self._paths = {id(module): path for path, module in model.named_modules()}
        self._modules: list[_Entered] = []
        self._running: list[nn.Module] = []
        self._functions: list[tuple[FrameType, Scope]] = []
        self._calls: Counter[tuple[str, str]] = Counter()
        self._told: set[Scope] = set()
        self.entered: list[tuple[Scope, dict[str, torch.Tensor]]] = []
        """Scopes whose first operation just ran, with the tensors that their code was given, by its own names."""

    @property
    def training(self) -> bool | None:
        """Whether the innermost module is in training mode; none outside of modules."""
        return self._running[-1].training if self._running else None

    @contextlib.contextmanager
    def followed(self) -> Iterator[None]:
        """Note which modules are entered and left."""
        handles = (
            hooks.register_module_forward_pre_hook(self._enter),
            hooks.register_module_forward_hook(self._leave, always_call=True),
        )
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
            self._modules.clear()
            self._running.clear()
            self._functions.clear()

    def _enter(self, module: nn.Module, _: Any) -> None:
        cls = type(module)
        path = self._paths.get(id(module), f"<{cls.__name__}>")
        scope = Scope(
            kind="module",
            path=path,
            cls=cls.__name__,
            call=self._count("module", path),
            is_library=cls.__module__.partition(".")[0] == "torch",
        )
        self._modules.append(_Entered(sys._getframe(1), scope))
        self._running.append(module)

    def _leave(self, module: nn.Module, _: Any, __: Any) -> None:
        if self._running and self._running[-1] is module:
            self._running.pop()
            self._modules.pop()

    def here(self) -> tuple[tuple[Scope, ...], str]:
        """Say where the running operation is: its scopes from the root inwards, and `file.py:12`."""
        entered = list(self._modules)
        scopes: list[Scope] = []
        functions: list[tuple[FrameType, Scope]] = []
        pending: list[FrameType] = []
        source = ""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and entered:
            if frame is entered[-1].frame:
                module = entered.pop().scope
                scopes += self._function_scopes(module, pending, functions)
                scopes.append(module)
                pending = []
            elif _is_inner(frame.f_code.co_filename):
                raise NotRecordableError("an operation runs that no mode sees, as in TorchScript")
            elif is_users(frame.f_code):
                source = source or f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
                pending.append(frame)
            frame = frame.f_back
        self._functions = functions
        return tuple(reversed(scopes)), source

    def _tell(self, scope: Scope, frame: FrameType) -> None:
        if scope in self._told:
            return
        self._told.add(scope)
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        given = {name: frame.f_locals.get(name) for name in names}
        tensors = {name: each for name, each in given.items() if isinstance(each, torch.Tensor)}
        self.entered.append((scope, tensors))

    def _function_scopes(
        self,
        module: Scope,
        frames: list[FrameType],
        functions: list[tuple[FrameType, Scope]],
    ) -> list[Scope]:
        """Turn a module's frames, innermost first, into scopes; the outermost is its forward."""
        found = []
        if frames:
            self._tell(module, frames[-1])
        for frame in frames[:-1]:
            if frame.f_code.co_name.startswith("<"):
                continue
            known = next((scope for each, scope in self._functions if each is frame), None)
            scope = known or self._new_function(frame.f_code)
            functions.append((frame, scope))
            self._tell(scope, frame)
            found.append(scope)
        return found

    def _new_function(self, code: CodeType) -> Scope:
        name = code.co_qualname.replace("<locals>.", "")
        where = f"{Path(code.co_filename).name}:{code.co_firstlineno}"
        return Scope("function", name, where, self._count("function", f"{where}:{name}"))

    def _count(self, kind: str, path: str) -> int:
        self._calls[kind, path] += 1
        return self._calls[kind, path] - 1


@functools.cache
def _is_inner(name: str) -> bool:
    """Tell whether a file holds operations that torch wrote in Python: what they call is not what was asked for."""
    return name.startswith(tuple(f"{_TORCH}/{each}" for each in _INNER))


def is_users(code: CodeType) -> bool:
    """Tell whether code is the user's: not torch's, not Python's, not ours."""
    return is_users_file(code.co_filename)


@functools.cache
def is_users_file(name: str) -> bool:
    """Tell whether a file is the user's: not torch's, not Python's, not ours."""
    if name.startswith(("<", _TORCH, _HERE)):
        return False
    return name.startswith(_PACKAGES) or not name.startswith(_STDLIB)
