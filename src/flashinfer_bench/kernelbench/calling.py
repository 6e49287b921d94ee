"""A model as a function of flat tensors: built by seed at its first call, in whichever process it is called."""

from __future__ import annotations

import copy
import importlib.util
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from flashinfer_bench.decompose.model_file import load_model_file
from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CANDIDATE = "ModelNew"
_SAID = "[kernelbench] "


class Caller:
    """Calls the model of a problem, or a candidate with the same weights, on arguments one after the other.

    `packing` says how the arguments make up what forward takes. A candidate's parameters and buffers are
    copied by name from the problem's model, built under the same seed; what has no namesake of its shape
    keeps what the seed gave it.
    """

    def __init__(
        self,
        problem: Path,
        packing: Packing,
        *,
        candidate: Path | None = None,
        is_compiled: bool = False,
    ) -> None:
        self._problem = load_model_file(problem)
        self._packing = packing
        self._candidate = None if candidate is None else class_of(candidate, CANDIDATE)
        self._is_compiled = is_compiled
        self._models: dict[tuple[int, str, bool], Any] = {}

    @classmethod
    def of_sources(cls, sources: Mapping[str, str], name: str, packing: Packing) -> Caller:
        """Write sources to a folder of this process's own and load the problem among them."""
        folder = Path(tempfile.mkdtemp(prefix="kernelbench-"))
        for path, text in sources.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        return cls(folder / name, packing)

    def __call__(self, *arguments: Any) -> list[torch.Tensor]:
        """Run forward on all arguments but the last, which is the seed of the weights."""
        given: list[Any] = list(arguments[:-1])
        seed = int(arguments[-1])
        packing = self._packing
        model = self._model(seed, given)
        for index in packing.written:
            given[index] = given[index].clone()
        if packing.is_random:
            torch.manual_seed(seed)
        with torch.no_grad():
            outputs = list(tensors_in(model(*packing.packed(given))))
        for index in packing.shared:
            if index < len(outputs):
                outputs[index] = outputs[index].clone()
        return outputs

    def _model(self, seed: int, given: Sequence[Any]) -> Any:
        tensors = [each for each in given if isinstance(each, torch.Tensor)]
        device = tensors[0].device if tensors else torch.device("cpu")
        is_wide = any(each.dtype is torch.float64 for each in tensors)
        key = (seed, str(device), is_wide)
        if key not in self._models:
            self._models[key] = self._widened(seed, given) if is_wide else self._built(seed, device)
        return self._models[key]

    def _widened(self, seed: int, given: Sequence[Any]) -> nn.Module:
        """Copy the model in float64, for the judge's look at rounding errors."""
        if self._packing.is_random:
            raise TypeError("random numbers in float64 are others")
        narrow = [each.float() if isinstance(each, torch.Tensor) else each for each in given]
        native: nn.Module = self._model(seed, narrow)
        return copy.deepcopy(native).double()

    def _built(self, seed: int, device: torch.device) -> Any:
        model = self._problem.build("cpu", seed)
        if self._candidate is None:
            placed = model.to(device)
            return torch.compile(placed) if self._is_compiled else placed
        torch.manual_seed(seed)
        given: Any = getattr(self._problem.module, "get_init_inputs", list)()
        made = self._candidate(**given) if isinstance(given, Mapping) else self._candidate(*given)
        if isinstance(made, nn.Module):
            _tell(share_weights(model, made))
            made = made.to(device).requires_grad_(requires_grad=False)
        return made


class Packing:
    """How flat arguments make up what forward takes, and what is done so that every call is independent."""

    def __init__(
        self,
        template: Sequence[Any],
        *,
        is_random: bool = False,
        written: Sequence[int] = (),
        shared: Sequence[int] = (),
    ) -> None:
        self._template = tuple(template)
        self._is_flat = all(part == ["input", index] for index, part in enumerate(template))
        self.is_random = is_random
        self.written = tuple(written)
        self.shared = tuple(shared)

    def packed(self, given: Sequence[Any]) -> Sequence[Any]:
        """Put the arguments where forward wants them."""
        return given if self._is_flat else [_packed(part, given) for part in self._template]


def packing_of(value: Any, leaves: list[Any]) -> list[Any]:
    """Describe a nested value, and collect the tensors and numbers in it."""
    match value:
        case torch.Tensor() | bool() | int() | float():
            leaves.append(value)
            return ["input", len(leaves) - 1]
        case None | str():
            return ["value", value]
        case list() | tuple():
            kind = "tuple" if isinstance(value, tuple) else "list"
            return [kind, [packing_of(each, leaves) for each in value]]
        case Mapping():
            return ["dict", {str(key): packing_of(each, leaves) for key, each in value.items()}]
        case _:
            raise UsageError(f"an input of type {type(value).__name__} cannot be passed on")


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Give the tensors that forward returned, one after the other; of a dict in the order of its keys."""
    match value:
        case torch.Tensor():
            yield value
        case bool() | int() | float():
            yield torch.tensor(value)
        case Mapping():
            for key in sorted(value, key=str):
                yield from tensors_in(value[key])
        case list() | tuple():
            for each in value:
                yield from tensors_in(each)
        case None:
            return
        case _:
            raise TypeError(f"forward returned a {type(value).__name__}, which is no tensor")


def share_weights(model: nn.Module, candidate: nn.Module) -> list[str]:
    """Copy parameters and buffers by name; give the names of those that have no namesake of their shape."""
    known = dict(_weights(model))
    alone = []
    with torch.no_grad():
        for name, tensor in _weights(candidate):
            namesake = known.get(name)
            if namesake is not None and namesake.shape == tensor.shape:
                tensor.copy_(namesake)
            else:
                alone.append(name)
    return alone


def class_of(path: Path, name: str) -> type[Any]:
    """Import a file, with the modules beside it in reach, and take a class from it."""
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem.replace(".", "_"), path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # kernels look their own source up by module
    spec.loader.exec_module(module)
    found = getattr(module, name, None)
    if not isinstance(found, type):
        raise ImportError(  # noqa: TRY004  # the file lacks it
            f"{path.name} defines no class {name}: a candidate is a class {name}(torch.nn.Module)"
        )
    return found


def _weights(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from model.named_parameters(remove_duplicate=False)
    yield from model.named_buffers(remove_duplicate=False)


def _packed(part: Sequence[Any], given: Sequence[Any]) -> Any:
    kind, content = part
    match kind:
        case "input":
            return given[content]
        case "value":
            return content
        case "dict":
            return {key: _packed(each, given) for key, each in content.items()}
        case _:
            packed = [_packed(each, given) for each in content]
            return tuple(packed) if kind == "tuple" else packed


def _tell(alone: Sequence[str]) -> None:
    """Say in the log which weights only the seed decided: they may not be what the problem's model has."""
    if alone:
        sys.stderr.write(f"{_SAID}given by seed, not by name: {', '.join(alone)}\n")
