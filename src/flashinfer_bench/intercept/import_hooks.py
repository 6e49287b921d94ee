"""Word of modules the moment they are imported, so that nothing need be imported only to be patched."""

from __future__ import annotations

import importlib.util
import sys
from importlib.abc import Loader, MetaPathFinder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


class ImportHooks(MetaPathFinder):
    """Calls back after modules were imported; in `sys.meta_path` only while something is waited for."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Callable[[], None]]] = {}
        self._searched: set[str] = set()

    def expect(self, module: str, arrived: Callable[[], None]) -> None:
        """Have `arrived` called once `module` has been imported."""
        self._waiting.setdefault(module, []).append(arrived)
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def forget(self, module: str, arrived: Callable[[], None]) -> None:
        """Stop waiting."""
        callbacks = self._waiting.get(module, [])
        if arrived in callbacks:
            callbacks.remove(arrived)
        if not callbacks:
            self._waiting.pop(module, None)
        if not self._waiting and self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - the protocol's
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Let the others find the module, and hear when it has run."""
        if fullname not in self._waiting or fullname in self._searched:
            return None
        self._searched.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._searched.discard(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Announcing(spec.loader, lambda: self._announce(fullname))
        return spec

    def _announce(self, module: str) -> None:
        for arrived in list(self._waiting.get(module, ())):
            arrived()
            self.forget(module, arrived)


class _Announcing(Loader):
    """Loads as another loader does, which the module keeps, and says when it is done."""

    def __init__(self, loader: Any, done: Callable[[], None]) -> None:
        self._loader = loader
        self._done = done

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Leave it to the other one."""
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, then say so."""
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._done()
