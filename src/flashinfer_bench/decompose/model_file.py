"""A model to be taken apart: a file in KernelBench's format, or a module with example inputs."""

from __future__ import annotations

import contextlib
import copy
import inspect
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import nn

from flashinfer_bench.decompose.blame import ModelFileError, blaming, needs_network, raised_in
from flashinfer_bench.decompose.held import copied_to
from flashinfer_bench.decompose.importing import ModelFolder, run_file, unscripted

if TYPE_CHECKING:
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
    folder: ModelFolder
    entry: str = "Model"

    @property
    def name(self) -> str:
        """The file's name without its suffix."""
        return self.path.stem

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

    def _constructed(self, device: str, seed: int) -> nn.Module:
        _seed(seed)
        with torch.device(device), unscripted():
            given: Any = getattr(self.module, "get_init_inputs", list)()
            model = getattr(self.module, self.entry)
            made = model(**given) if isinstance(given, Mapping) else model(*_listed(given))
        if not isinstance(made, nn.Module):
            raise ModelFileError(
                f"{self.path}: {self.entry} makes a {type(made).__name__}: derive it from torch.nn.Module"
            )
        return made.requires_grad_(False)  # matmul picks another order of sums for a trained weight

    def _given(self, made_on: str, device: str, seed: int) -> list[Any]:
        _seed(seed)
        with torch.device(made_on):
            given = self.module.get_inputs()
        forward = getattr(self.module, self.entry).forward
        return list(moved(_positional(given, forward, bound=False), device))


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


def load_model_file(path: str | Path, *, entry: str = "Model") -> ModelFile:
    """Run a model's file, under a module name of its own and with the helper modules beside it in reach."""
    path = Path(path)
    source = _read(path)
    folder = ModelFolder(path.resolve().parent)
    module = run_file(path, source, folder)
    for name, what in ((entry, f"class {entry}"), ("get_inputs", "function get_inputs()")):
        if not callable(getattr(module, name, None)):
            raise ModelFileError(f"{path} defines no {what}: {_SHAPE.format(entry=entry)}")
    return ModelFile(path=path, source=source, module=module, folder=folder, entry=entry)


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
