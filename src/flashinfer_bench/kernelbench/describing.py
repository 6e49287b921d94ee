"""What a problem takes and returns, and what its model is built of: found by running it, in a process of its own.

The file is somebody's program, and whatever it does, it does here.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.data import RandomInput
from flashinfer_bench.data.blobs import save_tensors
from flashinfer_bench.data.shapes import DType
from flashinfer_bench.decompose.model_file import load_model_file, raised_in
from flashinfer_bench.errors import BenchError, UsageError
from flashinfer_bench.kernelbench.calling import Packing, packing_of, tensors_in
from flashinfer_bench.kernelbench.distribution_inference import inferred_distribution, is_scalable
from flashinfer_bench.tensors.input_generation import draw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import nn

    from flashinfer_bench.decompose.model_file import ModelFile


_LOOKS = 3  # draws of inputs and of weights, to see what is drawn and what is fixed
_LARGEST_TOLERANCE = 1e-2  # KernelBench's own
_SHARE_OF_OUTPUT = 1e-2
_SHARE_OF_CHANGE = 0.1
_SCALE = 0.8  # one of those that scaled inputs get
_SMALLEST_SHARE = 1e-4  # what sums in another order may differ by, and ten times that
_DTYPES = frozenset(dtype.value for dtype in DType)


@dataclass(frozen=True, slots=True)
class _Stage:
    """A problem's model where it runs."""

    path: Path
    model: nn.Module
    device: str
    template: list[Any]

    def run(self, leaves: Sequence[Any], seed: int) -> list[torch.Tensor]:
        """Call forward on these tensors and numbers, which stay what they are."""
        return self.call(self.placed(leaves), seed)

    def placed(self, leaves: Sequence[Any]) -> list[Any]:
        """Copy tensors to the device."""
        return [
            each.to(self.device, copy=True) if isinstance(each, torch.Tensor) else each
            for each in leaves
        ]

    def call(self, arguments: Sequence[Any], seed: int) -> list[torch.Tensor]:
        """Call forward on these very tensors."""
        torch.manual_seed(seed)
        try:
            with torch.no_grad():
                return list(tensors_in(self.model(*Packing(self.template).packed(arguments))))
        except Exception as error:  # noqa: BLE001  # the file's own code: anything may come
            raise raised_in(self.path, "forward", error) from None


def describe(path: str, folder: str, seeds: Sequence[int], device: str) -> dict[str, Any]:
    """Run a problem; the inputs that no distribution gives are left in `folder`, for each seed."""
    problem = load_model_file(path)
    draws = [_leaves(problem, seed) for seed in (*seeds, *range(seeds[-1] + 1, seeds[-1] + _LOOKS))]
    template, first = draws[0]
    stage = _Stage(Path(path), problem.build("cpu", seeds[0]).to(device), device, template)
    behaviour = _behaviour(stage, first, draws[1][1], seeds[0])
    inputs = [_input(index, [leaves[index] for _, leaves in draws]) for index in range(len(first))]
    if not _runs_on_draws(stage, inputs, first):
        inputs = [_as_made(each) for each in inputs]
    for seed, (_, leaves) in zip(seeds, draws, strict=False):
        fixed = {
            each["name"]: leaves[index]
            for index, each in enumerate(inputs)
            if each["source"] == "file"
        }
        if fixed:
            save_tensors(Path(folder) / f"inputs_{seed}.safetensors", fixed)
    return {"inputs": inputs, "template": template, **behaviour}


def _leaves(problem: ModelFile, seed: int) -> tuple[list[Any], list[Any]]:
    leaves: list[Any] = []
    template = [packing_of(each, leaves) for each in problem.inputs("cpu", seed)]
    return template, leaves


def _behaviour(stage: _Stage, leaves: list[Any], others: list[Any], seed: int) -> dict[str, Any]:
    """Call forward, and see what comes of it."""
    arguments = stage.placed(leaves)
    torch.manual_seed(seed)
    before = _random_state(stage.device)
    outputs = stage.call(arguments, seed)
    is_random = not torch.equal(before, _random_state(stage.device))
    changed = [
        index
        for index, (now, then) in enumerate(zip(arguments, stage.placed(leaves), strict=True))
        if isinstance(now, torch.Tensor) and not torch.equal(now, then)
    ]
    kept = [output.clone() for output in outputs]
    return {
        "outputs": [{"shape": list(out.shape), "dtype": dtype_name(out)} for out in outputs],
        "is_random": is_random,
        "written": changed,
        "shared": _shared(outputs, arguments),
        "parameters": sum(each.numel() for each in stage.model.parameters()),
        **_tolerances(kept, stage.run(others, seed)),
    }


def _random_state(device: str) -> torch.Tensor:
    return torch.cuda.get_rng_state(device) if device.startswith("cuda") else torch.get_rng_state()


def _shared(outputs: list[torch.Tensor], arguments: list[Any]) -> list[int]:
    """Find outputs that lie in the memory of an input, or of another output."""
    taken = {
        each.untyped_storage().data_ptr() for each in arguments if isinstance(each, torch.Tensor)
    }
    shared = []
    for index, output in enumerate(outputs):
        place = output.untyped_storage().data_ptr()
        if place in taken:
            shared.append(index)
        taken.add(place)
    return shared


def _tolerances(outputs: list[torch.Tensor], others: list[torch.Tensor]) -> dict[str, float]:
    """Allow a hundredth of what the outputs are like, and a tenth of what the inputs change in them.

    A softmax over ten thousand is not nothing, and where a deep network says much the same whatever it is
    given, who returns that says nothing. Never asked for is more than an honest kernel of the dtype can give.
    """
    atol = rtol = _LARGEST_TOLERANCE
    for one, other in zip(outputs, others, strict=False):
        size = _size(one) if one.dtype.is_floating_point else 0.0
        if size == 0 or one.shape != other.shape:
            continue
        share = _SHARE_OF_OUTPUT
        change = _size(one.double() - other.double()) / (2**0.5 * size)
        if change > 0 and one.dtype is torch.float32:
            share = max(min(share, _SHARE_OF_CHANGE * change), _SMALLEST_SHARE)
        atol, rtol = min(atol, share * size), min(rtol, share)
    return {"atol": atol, "rtol": rtol}


def _size(tensor: torch.Tensor) -> float:
    """Give the root mean square of what is finite."""
    wide = tensor.double()
    finite = wide[wide.isfinite()]
    return float(finite.square().mean().sqrt()) if finite.numel() else 0.0


def _input(index: int, draws: list[Any]) -> dict[str, Any]:
    value = draws[0]
    if isinstance(value, torch.Tensor):
        described = {"name": f"x{index}", "shape": list(value.shape), "dtype": dtype_name(value)}
        distribution = inferred_distribution(draws)
        if distribution is None:
            return {**described, "source": "file", "is_scaled": is_scalable(draws)}
        return {**described, "source": "random", "distribution": distribution}
    dtype = "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float32"
    return {"name": f"x{index}", "shape": None, "dtype": dtype, "source": "scalar", "value": value}


def _as_made(described: dict[str, Any]) -> dict[str, Any]:
    """Take an input as `get_inputs` makes it."""
    if described["source"] == "scalar":
        return described
    return {**described, "source": "file", "is_scaled": False}


def dtype_name(tensor: torch.Tensor) -> str:
    """Name a dtype as definitions do; one they do not know is refused."""
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in _DTYPES:
        known = ", ".join(sorted(_DTYPES))
        raise UsageError(f"tensors of {name} cannot be judged here; known are {known}")
    return name


def _runs_on_draws(stage: _Stage, inputs: list[dict[str, Any]], leaves: list[Any]) -> bool:
    """Tell whether forward takes what will be drawn for it: inputs may belong together in ways nobody sees."""
    generator = torch.Generator().manual_seed(0)
    made = [_drawn(each, value, generator) for each, value in zip(inputs, leaves, strict=True)]
    try:
        outputs = stage.run(made, seed=0)
    except BenchError:
        return False
    return all(bool(out.isfinite().all()) for out in outputs)


def _drawn(described: dict[str, Any], value: Any, generator: torch.Generator) -> Any:
    if described.get("is_scaled"):
        return value * _SCALE
    if described["source"] != "random":
        return value
    distribution = RandomInput(distribution=described["distribution"]).distribution
    assert distribution is not None
    return draw(distribution, value.shape, value.dtype, generator)


def describe_model(path: str, folder: str, seed: int, device: str) -> dict[str, Any]:
    """Run a problem and look at its weights; those that no distribution gives are left in `folder`."""
    problem = load_model_file(path)
    models = [problem.build("cpu", seed + look) for look in range(_LOOKS)]
    draws = {name: [_state(model)[name] for model in models] for name in _state(models[0])}
    buffers = {name for name, _ in models[0].named_buffers()}
    parameters = [_parameter(name, each, name in buffers) for name, each in draws.items()]
    (name, count), *_ = [*Counter(each["name"] for each in parameters).most_common(1), ("", 0)]
    if count > 1:
        raise UsageError(f"several weights of the model would be the input {name!r}")
    fixed = {each["name"]: draws[each["path"]][0] for each in parameters if each["is_stored"]}
    if fixed:
        save_tensors(Path(folder) / "parameters.safetensors", fixed)
    found = describe(path, folder, [seed], device)
    return {"found": found, "parameters": parameters}


def _state(model: nn.Module) -> dict[str, torch.Tensor]:
    return {
        name: tensor.detach()
        for name, tensor in (*model.named_parameters(), *model.named_buffers())
    }


def _parameter(path: str, draws: list[torch.Tensor], is_buffer: bool) -> dict[str, Any]:
    if any(draw.shape != draws[0].shape for draw in draws):
        raise UsageError(f"{path}: its shape depends on chance")
    distribution = None if is_buffer else inferred_distribution(draws)
    if distribution is not None and distribution.get("low", 0) >= distribution.get("high", 1):
        distribution = None  # so small that rounding left nothing
    return {
        "path": path,
        "name": re.sub(r"\W", "_", f"p_{path}"),
        "shape": list(draws[0].shape),
        "dtype": dtype_name(draws[0]),
        "distribution": distribution,
        "is_stored": distribution is None,
        "is_buffer": is_buffer,
    }
