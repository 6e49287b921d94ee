"""A model to be taken apart: a file in KernelBench's format, run as a module of its own, or a module with inputs."""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib.util
import inspect
import itertools
import random
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import nn

from flashinfer_bench.decompose.model_errors import (
    ModelFileError,
    blaming,
    missing_module,
    needs_network,
    raised_in,
)
from flashinfer_bench.decompose.module_tensors import copied_to
from flashinfer_bench.decompose.run_as import RunAs
from flashinfer_bench.decompose.serving import (
    is_of_transformers,
    phase_inputs,
    prompt_in,
    served,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType


__all__ = [
    "ModelFile",
    "ModelFileError",
    "ModelObject",
    "ModelSource",
    "load_model_file",
    "raised_in",
]

_SHAPE = (
    "a model's file has a class {entry}(torch.nn.Module), get_inputs() that returns what forward takes, "
    "and get_init_inputs() that returns what the constructor takes"
)


class ModelSource(Protocol):
    """Where a model and its inputs come from."""

    @property
    def name(self) -> str:
        """What the model is called."""
        ...

    def build(self, device: str, seed: int) -> nn.Module:
        """Make the model with weights drawn from a seed; on `meta` it takes no memory."""
        ...

    def inputs(self, device: str, seed: int) -> list[Any]:
        """Make what forward is given, positionally."""
        ...


@dataclass(frozen=True)
class ModelFile:
    """A file that defines `Model`, `get_inputs` and `get_init_inputs`."""

    path: Path
    source: str
    module: ModuleType
    folder: _ModelFolder
    entry: str = "Model"
    run_as: RunAs = field(default_factory=RunAs)

    @property
    def name(self) -> str:
        """The file's name without its suffix, and the phase."""
        return "_".join(filter(None, (self.path.stem, self.run_as.phase)))

    def build(self, device: str, seed: int) -> nn.Module:
        """Make the model with weights drawn from a seed; on `meta` it takes no memory."""
        with blaming(self.path, f"the constructor of {self.entry}"), self.folder.in_reach():
            if device != "meta":
                return self._constructed(device, seed)
            try:
                return _all_on_meta(self._constructed("meta", seed))
            except Exception as error:  # some look at the numbers of their weights
                if isinstance(error, ModelFileError) or needs_network(error):
                    raise
                return copied_to(self._constructed("cpu", seed), "meta")

    def inputs(self, device: str, seed: int) -> list[Any]:
        """Make what forward is given, positionally."""
        with blaming(self.path, "get_inputs"), self.folder.in_reach():
            if device == "meta":
                with contextlib.suppress(Exception):  # some read numbers of what they made
                    return self._given("meta", "meta", seed)
            return self._given("cpu", device, seed)

    @property
    def _own_inputs(self) -> Callable[[], Any] | None:
        """The file's function for the inputs of a phase: `get_decode_inputs`."""
        found: Callable[[], Any] | None = getattr(
            self.module, f"get_{self.run_as.phase}_inputs", None
        )
        return found

    def _constructed(self, device: str, seed: int) -> nn.Module:
        made = self._plain(device, seed)
        mode = self.run_as.mode or ("eval" if is_of_transformers(made) else None)
        if mode is not None:
            made.train(mode == "train")
        if self.run_as.phase is not None and self._own_inputs is None:
            made = served(made, self.run_as.cache, str(self.path)).train(made.training)
        return made.requires_grad_(False)  # matmul picks another order of sums for a trained weight

    def _plain(self, device: str, seed: int) -> nn.Module:
        _seed(seed)
        with torch.device(device), _unscripted(), _default_dtype(self.run_as.dtype):
            given: Any = getattr(self.module, "get_init_inputs", list)()
            model = getattr(self.module, self.entry)
            made = model(**given) if isinstance(given, Mapping) else model(*_listed(given))
        if not isinstance(made, nn.Module):
            raise ModelFileError(
                f"{self.path}: {self.entry} makes a {type(made).__name__}: derive it from torch.nn.Module"
            )
        return made

    def _given(self, made_on: str, device: str, seed: int) -> list[Any]:
        _seed(seed)
        with torch.device(made_on):
            given = (self._own_inputs or self.module.get_inputs)()
        forward = getattr(self.module, self.entry).forward
        listed = list(moved(_positional(given, forward, bound=False), device))
        if self.run_as.dtype is not None:
            listed = list(_in_dtype(listed, getattr(torch, self.run_as.dtype)))
        if self.run_as.phase is None or self._own_inputs is not None:
            return listed
        return phase_inputs(
            self.run_as.phase, prompt_in(listed, str(self.path)), self._step, device=device
        )

    def _step(self, device: str) -> Any:
        return self._step_on_meta if device == "meta" else self.build(device, 0)

    @functools.cached_property
    def _step_on_meta(self) -> Any:
        return self.build("meta", 0)


@dataclass(frozen=True)
class ModelObject:
    """A module that exists already, with inputs it can be called on."""

    module: nn.Module
    example_inputs: Any
    name: str = field(default="model")

    def build(self, device: str, seed: int) -> nn.Module:  # noqa: ARG002  # its weights are given
        """Copy the module to a device; its weights stay what they are."""
        return copied_to(self.module, device).requires_grad_(False)  # as in a file's model

    def inputs(self, device: str, seed: int) -> list[Any]:  # noqa: ARG002  # they are given
        """Copy the example inputs to a device."""
        given = _positional(self.example_inputs, self.module.forward, bound=True)
        return list(moved(copy.deepcopy(given), device))  # a forward may write into them


def load_model_file(
    path: str | Path, *, entry: str = "Model", run_as: RunAs | None = None
) -> ModelFile:
    """Run a model's file, under a module name of its own and with the helper modules beside it in reach."""
    path = Path(path)
    source = _read(path)
    folder = _ModelFolder(path.resolve().parent)
    module = _run_file(path, source, folder)
    for name, what in ((entry, f"class {entry}"), ("get_inputs", "function get_inputs()")):
        if not callable(getattr(module, name, None)):
            raise ModelFileError(f"{path} defines no {what}: {_SHAPE.format(entry=entry)}")
    return ModelFile(path, source, module, folder, entry, run_as or RunAs())


@contextlib.contextmanager
def _default_dtype(name: str | None) -> Iterator[None]:
    """Let tensors of fractions that a constructor makes without a dtype have this one."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(before if name is None else getattr(torch, name))
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _in_dtype(value: Any, dtype: torch.dtype) -> Any:
    """Bring every `float32` tensor of a nested value to another dtype."""
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.dtype == torch.float32 else value
    if isinstance(value, Mapping):
        return {key: _in_dtype(each, dtype) for key, each in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(_in_dtype(each, dtype) for each in value)
    return value


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ModelFileError(f"no file {path}") from None
    except IsADirectoryError:
        raise ModelFileError(
            f"{path} is a folder: name one file; `decompose batch` takes folders"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ModelFileError(f"{path} cannot be read as Python source: {error}") from None


def _seed(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    with contextlib.suppress(ImportError):
        import numpy as np  # noqa: PLC0415  # models may draw from it

        np.random.seed(seed % 2**32)


def _listed(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list | tuple) else [given]


def _positional(given: Any, forward: Callable[..., Any], *, bound: bool) -> list[Any]:
    """Bring what `get_inputs` returned into the order in which forward takes it."""
    if not isinstance(given, Mapping):
        return _listed(given)
    arguments = () if bound else (None,)
    call = inspect.signature(forward).bind(*arguments, **given)
    call.apply_defaults()
    if call.kwargs:
        raise ModelFileError(
            f"forward takes {', '.join(call.kwargs)} by name only: a model is called with a list of inputs"
        )
    return list(call.args)[len(arguments) :]


def moved(value: Any, device: str) -> Any:
    """Bring every tensor of a nested value to a device, each once; on `meta` it loses its memory."""
    return _moved(value, device, {})


def _moved(value: Any, device: str, done: dict[int, torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        if id(value) not in done:
            done[id(value)] = value.detach().to(device)
        return done[id(value)]
    if isinstance(value, Mapping):
        return {key: _moved(each, device, done) for key, each in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_moved(each, device, done) for each in value))
    if isinstance(value, list | tuple):
        return type(value)(_moved(each, device, done) for each in value)
    return value


def _all_on_meta(module: nn.Module) -> nn.Module:
    """Copy a module again if its constructor put some tensors elsewhere."""
    elsewhere = any(
        each.device.type != "meta" for each in (*module.parameters(), *module.buffers())
    )
    return copied_to(module, "meta") if elsewhere else module


_LOADS = itertools.count()
_FOLDER = "__folder_of_the_model__"


@dataclass
class _ModelFolder:
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


def _run_file(path: Path, source: str, folder: _ModelFolder) -> ModuleType:
    """Run a file's code under a module name that no other has."""
    name = f"_decomposed_{next(_LOADS)}_{path.stem}"
    home = str(path.resolve())
    spec = importlib.util.spec_from_file_location(name, home)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    vars(module)[_FOLDER] = folder
    sys.modules[name] = module  # dataclasses and pickle look a class up by its module
    try:
        with folder.in_reach(), _unscripted():
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
    return home.in_reach() if isinstance(home, _ModelFolder) else contextlib.nullcontext()


@contextlib.contextmanager
def _unscripted() -> Iterator[None]:
    """Leave functions that are decorated for TorchScript as they are written: what it runs cannot be seen."""
    script = torch.jit.script
    setattr(torch.jit, "script", _as_it_is)  # noqa: B010  # mypy takes it for a type
    try:
        yield
    finally:
        setattr(torch.jit, "script", script)  # noqa: B010


def _as_it_is(scripted: Any = None, *_: Any, **__: Any) -> Any:
    return scripted
