"""What a problem was seen to take and return, in the words of definitions and workloads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from flashinfer_bench.data import TensorSpec
from flashinfer_bench.data.shapes import AxisConst
from flashinfer_bench.data.workload import RandomInput, SafetensorsInput, ScalarInput
from flashinfer_bench.kernelbench.library import label_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from flashinfer_bench.data.shapes import AxisSpec
    from flashinfer_bench.data.workload import InputSpec
    from flashinfer_bench.kernelbench.descriptions import Description, Input, Output


class _Shaped(Protocol):
    @property
    def shape(self) -> tuple[int, ...] | None: ...
    @property
    def dtype(self) -> str: ...


class _NamedTensor(_Shaped, Protocol):
    @property
    def name(self) -> str: ...


def definition_name(problem: Path) -> str:
    """Name a problem's definition: `level1_1_Square_matrix`."""
    return label_of(problem).replace("/", "_")


def axes_of(tensors: Iterable[_Shaped]) -> dict[str, AxisSpec]:
    """Give each size an axis of its own; KernelBench's sizes never vary."""
    sizes = {size for each in tensors for size in each.shape or ()}
    return {f"n{size}": AxisConst(value=size) for size in sorted(sizes)}


def input_specs(given: Iterable[_NamedTensor], *, role: str | None = None) -> dict[str, TensorSpec]:
    """Describe what goes in, over those axes."""
    return {each.name: _spec(each, role) for each in given}


def output_specs(made: Iterable[Output]) -> dict[str, TensorSpec]:
    """Describe what comes out."""
    return {f"y{index}": _spec(each) for index, each in enumerate(made)}


def _spec(tensor: _Shaped, role: str | None = None) -> TensorSpec:
    named = None if tensor.shape is None else [f"n{size}" for size in tensor.shape]
    content: dict[str, Any] = {"shape": named, "dtype": tensor.dtype}
    return TensorSpec.model_validate(content | ({"role": role} if role else {}))


def workload_inputs(found: Description, folder: str, seed: int) -> dict[str, InputSpec]:
    """Say where the content of each input comes from; what is stored lies in `folder`."""
    return {each.name: _content(each, folder, seed) for each in found.inputs}


def _content(given: Input, folder: str, seed: int) -> InputSpec:
    match given.source:
        case "scalar":
            assert given.value is not None
            return ScalarInput(value=given.value)
        case "file":
            path = f"{folder}/inputs_{seed}.safetensors"
            return SafetensorsInput(path=path, tensor_key=given.name, scaled=given.is_scaled)
        case "random":
            return RandomInput.model_validate({"distribution": given.distribution})
