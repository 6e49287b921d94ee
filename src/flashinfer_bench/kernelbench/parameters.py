"""What a problem's model is built of, found by building it, in a process of its own."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashinfer_bench.data.blobs import save_tensors
from flashinfer_bench.decompose.model_file import load_model_file
from flashinfer_bench.errors import UsageError
from flashinfer_bench.kernelbench.describing import describe, dtype_name
from flashinfer_bench.kernelbench.distribution_inference import inferred_distribution

if TYPE_CHECKING:
    import torch
    from torch import nn

_LOOKS = 3


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
