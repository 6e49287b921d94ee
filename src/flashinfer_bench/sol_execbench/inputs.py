"""What a problem's own function makes for a workload, in a process of its own: the function is somebody's code."""

from __future__ import annotations

import contextlib
import linecache
import random
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.data.blobs import save_tensors
from flashinfer_bench.decompose.model_errors import blaming
from flashinfer_bench.errors import UsageError
from flashinfer_bench.tensors.dtypes import dtype_name
from flashinfer_bench.tensors.planned import TensorPlan

if TYPE_CHECKING:
    from pathlib import Path

    from flashinfer_bench.sol_execbench.reading import InputsWanted


def make_inputs(wanted: InputsWanted) -> dict[str, Any]:
    """Call the function with axis values and device; store the tensors and give the scalars."""
    with blaming(wanted.file, "the reference"):
        module = _run(wanted.source, wanted.file)
    _seed(wanted.seed)
    with blaming(wanted.file, wanted.function):
        found = getattr(module, wanted.function)(dict(wanted.values), _device())
    who = f"{wanted.file}: {wanted.function}"
    if not isinstance(found, Mapping):
        raise UsageError(f"{who} gives a {type(found).__name__}, not inputs by name")
    _require_these(found, wanted.inputs, who)
    specs = wanted.inputs.items()
    tensors = {name: found[name].cpu() for name, spec in specs if spec["shape"] is not None}
    if tensors:
        save_tensors(wanted.target, tensors)
    return {name: _number(found[name]) for name in wanted.inputs if name not in tensors}


def _number(value: Any) -> Any:
    """Take the number of a tensor that holds just one."""
    return value.item() if isinstance(value, torch.Tensor) and value.dim() == 0 else value


def _run(source: str, path: Path) -> ModuleType:
    """Run the source as a module that can be looked into, as Triton does."""
    home = str(path.resolve())
    linecache.cache[home] = (len(source), None, source.splitlines(keepends=True), home)
    module = ModuleType("sol_execbench_reference")
    module.__file__ = home
    sys.modules[module.__name__] = module
    exec(compile(source, home, "exec"), module.__dict__)  # noqa: S102  # what was asked for
    return module


def _device() -> torch.device:
    """Give the first GPU, as there; the CPU where there is none."""
    return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


def _seed(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    with contextlib.suppress(ImportError):
        import numpy as np  # noqa: PLC0415  # functions may draw from it

        np.random.seed(seed)


def _require_these(found: Mapping[str, Any], wanted: Mapping[str, Any], who: str) -> None:
    """Refuse what lacks an input that was asked for, or gives it another dtype or shape; more are ignored."""
    for name in sorted(wanted.keys() - found.keys()):
        raise UsageError(f"{who} does not make {name!r}")
    for name, spec in wanted.items():
        made = found[name]
        if spec["shape"] is None:
            if not isinstance(_number(made), bool | int | float):
                raise UsageError(f"{who} makes {name!r} a {type(made).__name__}, not a number")
            continue
        if not isinstance(made, torch.Tensor):
            raise UsageError(f"{who} makes {name!r} a {type(made).__name__}, not a tensor")
        got = (list(made.shape), dtype_name(made.dtype))
        declared = list(TensorPlan(name, tuple(spec["shape"]), spec["dtype"]).torch_shape)
        if got != (declared, spec["dtype"]):
            raise UsageError(
                f"{who} makes {name!r} {got[1]} {got[0]}, where {spec['dtype']} {declared} is declared"
            )
