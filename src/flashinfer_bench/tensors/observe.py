"""A function is run on example inputs, in a process of its own, and what it takes and gives is noted.

`python -m flashinfer_bench.tensors.observe FILE FUNCTION INPUTS FOLDER SECONDS [backward]` runs FUNCTION of
FILE on what the function INPUTS of FILE gives (`-`: the first of `EXAMPLE_FUNCTIONS` that is there, else the
parameters' defaults). It writes `seen.json` into FOLDER, with tensors that random numbers cannot stand for
beside it; or `fault.json`, a sentence and a log. With `backward` it notes, too, what autograd can differentiate.
"""

from __future__ import annotations

import faulthandler
import hashlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import torch

from flashinfer_bench.data.scaffolding.definitions import (
    SeenCall,
    SeenFunction,
    SeenGradients,
    SeenValue,
)
from flashinfer_bench.data.scaffolding.reference_source import EXAMPLE_FUNCTIONS
from flashinfer_bench.data.shapes import DType
from flashinfer_bench.tensors.dtypes import dtype_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

_INDEX_DTYPES = frozenset({torch.int16, torch.int32, torch.int64})
"""Integers that are likely indices or lengths: random ones would point anywhere."""


class ObservationError(Exception):
    """The file cannot be observed; a sentence for its author."""


def observe(
    path: Path,
    function: str,
    inputs_from: str | None,
    folder: Path,
    *,
    with_gradients: bool = False,
) -> SeenFunction:
    """Run a function on every set of its example inputs."""
    module = _imported(path)
    called: Callable[..., Any] = getattr(module, function)
    sets, how = _example_sets(module, called, inputs_from)
    notes: list[str] = []
    calls = [_call(called, arguments, folder, notes) for arguments in sets]
    given = calls[0].inputs
    for name, parameter in inspect.signature(called).parameters.items():
        if name not in given and parameter.default is not parameter.empty:
            notes.append(f"{name!r} is no input: it keeps its default, {parameter.default!r}")
    doc = (inspect.getdoc(called) or "").partition("\n")[0].strip()
    gradients = _gradients(called, sets[0]) if with_gradients else None
    return SeenFunction(calls, how, doc, list(dict.fromkeys(notes)), gradients)


def _gradients(called: Callable[..., Any], arguments: Mapping[str, Any]) -> SeenGradients:
    """Differentiate once, and note by which inputs that can be done."""
    leaves = {
        name: value.detach().clone().requires_grad_()
        for name, value in arguments.items()
        if isinstance(value, torch.Tensor) and value.dtype.is_floating_point
    }
    with torch.enable_grad():
        returned = called(**{**arguments, **leaves})
    outputs = list(returned) if isinstance(returned, tuple | list) else [returned]
    numbers = [n for n, output in enumerate(outputs) if output.requires_grad]
    if not numbers:
        raise ObservationError(
            f"--backward: no output of {called.__name__!r} has a gradient by a float input; autograd must be "
            "able to follow what it computes (no `detach`, no `no_grad`, no integers between)"
        )
    found: tuple[torch.Tensor | None, ...] = torch.autograd.grad(
        [outputs[n] for n in numbers],
        list(leaves.values()),
        [torch.ones_like(outputs[n]) for n in numbers],
        allow_unused=True,
    )
    return SeenGradients(
        [name for name, each in zip(leaves, found, strict=True) if each is not None], numbers
    )


def _imported(path: Path) -> ModuleType:
    sys.path.insert(0, str(path.parent))
    name = f"_observed_{path.stem}"  # not the stem: the file may be called like a module in use
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ObservationError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _example_sets(
    module: ModuleType, called: Callable[..., Any], inputs_from: str | None
) -> tuple[list[dict[str, Any]], str]:
    """Find example inputs, and bind each set to the function's parameters."""
    names = (inputs_from,) if inputs_from else EXAMPLE_FUNCTIONS
    for name in names:
        maker = getattr(module, name, None)
        if maker is not None:
            sets = _as_sets(maker(), name)
            return [_bound(called, each, name) for each in sets], f"{name}()"
    if inputs_from:
        raise ObservationError(
            f"the file has no function {inputs_from!r} to get example inputs from"
        )
    parameters = inspect.signature(called).parameters
    bare = [n for n, parameter in parameters.items() if parameter.default is parameter.empty]
    if bare:
        raise ObservationError(
            f"{module.__file__}: no example inputs for {', '.join(map(repr, bare))}; add a function "
            "`example_inputs()` that returns them as a dict, or yields several dicts of different sizes"
        )
    defaults = {name: parameter.default for name, parameter in parameters.items()}
    return [defaults], "default arguments"


def _as_sets(given: object, name: str) -> list[Any]:
    """Tell one set of inputs from several: only a set of sets holds nothing but sets, or is a generator."""
    if isinstance(given, dict):
        return [given]
    if isinstance(given, torch.Tensor | bool | int | float):
        return [(given,)]
    try:
        items = list(given)  # type: ignore[call-overload]  # a list, a tuple or a generator
    except TypeError:
        kind = type(given).__name__
        raise ObservationError(
            f"{name}() gives a {kind}; a dict, list or tuple is needed"
        ) from None
    if not items:
        raise ObservationError(f"{name}() gives no inputs")
    if isinstance(given, Iterator):  # what yields a tensor means a function of one input
        return [item if isinstance(item, dict | tuple | list) else (item,) for item in items]
    are_sets = all(isinstance(item, dict | tuple | list) for item in items)
    return items if are_sets else [items]


def _bound(called: Callable[..., Any], given: object, name: str) -> dict[str, Any]:
    """Give the arguments by parameter name."""
    signature = inspect.signature(called)
    try:
        if isinstance(given, dict):
            return dict(signature.bind(**given).arguments)
        return dict(signature.bind(*given).arguments)  # type: ignore[misc]  # a list or tuple
    except TypeError as error:
        raise ObservationError(
            f"{name}() does not fit {called.__name__}{signature}: {error}"
        ) from None


def _call(
    called: Callable[..., Any], arguments: Mapping[str, Any], folder: Path, notes: list[str]
) -> SeenCall:
    """Run once; note what goes in and comes out."""
    inputs = {name: _seen_input(name, value, folder, notes) for name, value in arguments.items()}
    before = {n: v.clone() for n, v in arguments.items() if isinstance(v, torch.Tensor)}
    with torch.no_grad():
        returned = called(**arguments)
    for name, copy in before.items():
        if not torch.equal(_bits(arguments[name]), _bits(copy)):
            notes.append(f"the function changes its input {name!r}; a reference should not")
    outputs = list(returned) if isinstance(returned, tuple | list) else [returned]
    return SeenCall(inputs, [_seen_output(n, value) for n, value in enumerate(outputs)])


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """View a tensor so that NaN equals NaN."""
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def _seen_input(name: str, value: object, folder: Path, notes: list[str]) -> SeenValue:
    match value:
        case torch.Tensor():
            stored = _stored(name, value, folder) if value.dtype in _INDEX_DTYPES else None
            if stored is not None:
                notes.append(
                    f"input {name!r} has integers. Random values may be invalid, so the example's values "
                    f"are stored{_declarable(value)}"
                )
            shape = list(value.shape)
            return SeenValue(_known(value.dtype, f"input {name!r}"), shape, stored_in=stored)
        case bool():
            return SeenValue("bool", value=value)
        case int():
            return SeenValue("int64", value=value)
        case float():
            return SeenValue("float32", value=value)
        case _:
            kind = type(value).__name__
            raise ObservationError(
                f"input {name!r} is a {kind}; inputs are tensors, bools, ints and floats. Give the "
                "parameter a default, and leave it out of the example inputs"
            )


def _declarable(tensor: torch.Tensor) -> str:
    """Say what to declare instead of storing, if all values in the range seen are valid."""
    if not tensor.numel():
        return ""
    low, high = int(tensor.min()), int(tensor.max())
    if tensor.dim() == 1 and tensor[0] == 0 and bool((tensor.diff() >= 0).all()) and high > 0:
        pointers = f'{{"type": "index_pointers", "total": {high}}}'
        return f'. If they say where pieces begin, declare `"distribution": {pointers}`'
    declared = f'{{"type": "integers", "low": {low}, "high": {high + 1}}}'
    return f'. If any value from {low} to {high} is valid, declare `"distribution": {declared}`'


def _seen_output(index: int, value: object) -> SeenValue:
    if not isinstance(value, torch.Tensor):
        hint = " (a function that works in place must return its result)" if value is None else ""
        raise ObservationError(
            f"output {index} is a {type(value).__name__}{hint}; a reference returns a tensor or a tuple "
            "of tensors"
        )
    dtype = _known(value.dtype, f"output {index}")
    return SeenValue(dtype, list(value.shape), size=_size_of(value))


def _size_of(value: torch.Tensor) -> float | None:
    if not value.dtype.is_floating_point:
        return None
    wide = value.detach().double()
    finite = wide[wide.isfinite()]
    return float(finite.square().mean().sqrt()) if finite.numel() else None


def _known(dtype: torch.dtype, what: str) -> str:
    name = dtype_name(dtype)
    if name not in set(DType):
        known = ", ".join(DType)
        raise ObservationError(f"{what} is {name}; definitions know {known}")
    return name


def _stored(name: str, tensor: torch.Tensor, folder: Path) -> str:
    """Keep a tensor in a file named by its content."""
    from safetensors.torch import save  # noqa: PLC0415  # few inputs need it

    content = save({name: tensor.detach().cpu().contiguous()})
    file = f"{name}_{hashlib.sha256(content).hexdigest()[:12]}.safetensors"
    (folder / file).write_bytes(content)
    return file


def main(arguments: list[str]) -> None:
    """Write what was seen, or why nothing could be."""
    path, function, inputs_from, folder, limit_s, *wanted = arguments
    stack = (Path(folder) / "stack.txt").open("w", encoding="utf-8")
    faulthandler.dump_traceback_later(float(limit_s), exit=True, file=stack)
    try:
        seen = observe(
            Path(path),
            function,
            None if inputs_from == "-" else inputs_from,
            Path(folder),
            with_gradients="backward" in wanted,
        )
    except ObservationError as error:
        _write_fault(Path(folder), str(error), "")
    except SystemExit as error:
        said = f"{path}: it ends the process, exit({error.code!r}); a reference returns its outputs"
        _write_fault(Path(folder), said, "")
    except Exception as error:  # noqa: BLE001  # whatever the author's code raises
        last = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in last if frame.filename == path]
        where = f"{path}:{own[-1].lineno}: " if own else ""
        _write_fault(
            Path(folder), f"{where}{type(error).__name__}: {error}", traceback.format_exc()
        )
    else:
        faulthandler.cancel_dump_traceback_later()
        (Path(folder) / "seen.json").write_bytes(msgspec.json.encode(seen))


def _write_fault(folder: Path, message: str, log: str) -> None:
    (folder / "fault.json").write_bytes(msgspec.json.encode({"message": message, "log": log}))


if __name__ == "__main__":
    main(sys.argv[1:])
