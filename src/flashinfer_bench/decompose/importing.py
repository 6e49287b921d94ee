"""Running a model's file as a module of its own, with the helper modules beside it in reach."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.decompose.blame import ModelFileError, missing_module, raised_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

    from torch import nn

_LOADS = itertools.count()
_FOLDER = "__folder_of_the_model__"


@dataclass
class ModelFolder:
    """The folder of a model's file; modules found there are this file's, whatever another calls its own."""

    path: Path
    _helpers: dict[str, ModuleType] = field(default_factory=dict)

    @contextlib.contextmanager
    def in_reach(self) -> Iterator[None]:
        """Let imports find what lies in the folder."""
        before = set(sys.modules)
        sys.path.insert(0, str(self.path))
        sys.modules.update(self._helpers)
        try:
            yield
        finally:
            sys.path.remove(str(self.path))
            for name in set(sys.modules) - before:
                if self._holds(name, sys.modules[name]):
                    self._helpers[name] = sys.modules.pop(name)

    def _holds(self, name: str, module: ModuleType) -> bool:
        beside = f"{self.path}/{name.replace('.', '/')}"
        origin = getattr(module, "__file__", None)
        return origin in (f"{beside}.py", f"{beside}/__init__.py")


def run_file(path: Path, source: str, folder: ModelFolder) -> ModuleType:
    """Run a file's code under a module name that no other has."""
    name = f"_decomposed_{next(_LOADS)}_{path.stem}"
    home = str(path.resolve())
    spec = importlib.util.spec_from_file_location(name, home)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    vars(module)[_FOLDER] = folder
    sys.modules[name] = module  # dataclasses and pickle look a class up by its module
    try:
        with folder.in_reach(), unscripted():
            exec(compile(source, home, "exec"), module.__dict__)  # noqa: S102  # what was asked for
    except SyntaxError as error:
        where = f"{path}:{error.lineno}" if error.filename == home else f"{error.filename}"
        text = (error.text or "").strip()
        raise ModelFileError(f"{where}: {error.msg}" + (f": {text}" if text else "")) from None
    except ModuleNotFoundError as error:
        raise missing_module(path, error) from None
    except Exception as error:  # noqa: BLE001  # the file's own code: anything may come
        raise raised_in(path, "the file", error) from None
    return module


def in_reach_of(model: nn.Module) -> contextlib.AbstractContextManager[None]:
    """Let imports find what lies beside the file that a model comes from, if it comes from one."""
    home = vars(sys.modules.get(type(model).__module__, torch)).get(_FOLDER)
    return home.in_reach() if isinstance(home, ModelFolder) else contextlib.nullcontext()


@contextlib.contextmanager
def unscripted() -> Iterator[None]:
    """Leave functions that are decorated for TorchScript as they are written: what it runs cannot be seen."""
    script = torch.jit.script
    setattr(torch.jit, "script", _as_it_is)  # noqa: B010  # mypy takes it for a type
    try:
        yield
    finally:
        setattr(torch.jit, "script", script)  # noqa: B010


def _as_it_is(scripted: Any = None, *_: Any, **__: Any) -> Any:
    return scripted
