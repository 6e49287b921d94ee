"""Models of `transformers` as they are served: a step of generating text, with its cache as plain tensors."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from flashinfer_bench.decompose.model_errors import ModelFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flashinfer_bench.decompose.run_as import CacheKind, Phase

_TOKENS_RANK = 2
_ROOM = 2
"""How many times as long as the prompt a static cache is."""


def is_of_transformers(model: nn.Module) -> bool:
    """Tell whether a model is one of `transformers`, or holds one."""
    return next(_of_transformers(model), None) is not None


def _of_transformers(model: nn.Module) -> Any:
    for each in model.modules():
        if any(
            f"{base.__module__}.{base.__name__}" == "transformers.modeling_utils.PreTrainedModel"
            for base in type(each).__mro__
        ):
            yield each


class ServedModel(nn.Module):
    """One step of a model that generates text: tokens and a cache in, logits and the cache out."""

    def __init__(self, model: nn.Module, cache: CacheKind) -> None:
        super().__init__()
        self.model = model
        self.cache_kind = cache
        taken = inspect.signature(model.forward).parameters
        self.only_last = {"logits_to_keep": 1} if "logits_to_keep" in taken else {}

    def forward(
        self,
        tokens: torch.Tensor,
        past_keys: Sequence[torch.Tensor] = (),
        past_values: Sequence[torch.Tensor] = (),
        length: torch.Tensor | None = None,
        filled: int = 0,
    ) -> tuple[torch.Tensor, list[torch.Tensor], list[torch.Tensor]]:
        """Take the tokens of a step; `length` is how much of a static cache is filled, for windows as a number."""
        cache = self._empty_cache(past_keys)
        for layer, keys, values in zip(cache.layers, past_keys, past_values, strict=False):
            layer.keys, layer.values = keys, values
            layer.dtype, layer.device = keys.dtype, keys.device
            layer.is_initialized = True
            if length is not None:
                layer.cumulative_length = length.clone()
                if layer.is_sliding:
                    layer.cumulative_length_int = filled
            elif hasattr(layer, "cumulative_length"):
                layer.cumulative_length = keys.shape[-2]
        said = self.model(input_ids=tokens, past_key_values=cache, use_cache=True, **self.only_last)
        layers = cache.layers
        return said[0], [each.keys for each in layers], [each.values for each in layers]

    def _empty_cache(self, past_keys: Sequence[torch.Tensor]) -> Any:
        from transformers import DynamicCache, StaticCache  # noqa: PLC0415  # an extra

        config: Any = self.model.config
        if self.cache_kind == "dynamic":
            return DynamicCache(config=config)
        return StaticCache(config=config, max_cache_len=max(each.shape[2] for each in past_keys))


def served(model: nn.Module, cache: CacheKind, place: str) -> ServedModel:
    """Find the model that generates text, and make a step of it."""
    for each in _of_transformers(model):
        takes_cache = "past_key_values" in inspect.signature(each.forward).parameters
        if takes_cache and not getattr(each.config, "is_encoder_decoder", False):
            return ServedModel(each, cache)
    raise ModelFileError(
        f"{place}: --phases finds no decoder of transformers in it: define get_prefill_inputs() and "
        "get_decode_inputs(), each returning what forward takes in that phase, the cache as plain tensors"
    )


def phase_inputs(
    phase: Phase, tokens: torch.Tensor, steps: Callable[[str], ServedModel], *, device: str
) -> list[Any]:
    """Make the inputs of a phase from a prompt; `steps` makes the model on a device."""
    step = steps("meta")
    is_static = step.cache_kind == "static"
    given = tokens if phase == "prefill" else tokens[:, -1:].clone()
    if phase == "prefill" and not is_static:
        return [given]
    shapes = _cache_shapes(steps, tokens)
    filled = 0 if phase == "prefill" else tokens.shape[1]
    rooms = (
        _rooms(step, _ROOM * tokens.shape[1])
        if is_static
        else [each.shape[2] for each in shapes[0]]
    )
    caches = [
        [_filled(each, room, filled, device) for each, room in zip(side, rooms, strict=True)]
        for side in shapes
    ]
    return [given, *caches, *([torch.tensor(filled, device=device), filled] if is_static else ())]


def _rooms(step: ServedModel, longest: int) -> list[int]:
    """Say how long a static cache is in each layer: one with a window needs no more than that."""
    from transformers import StaticCache  # noqa: PLC0415  # an extra

    config: Any = step.model.config
    layers: list[Any] = StaticCache(config=config, max_cache_len=longest).layers
    return [each.max_cache_len for each in layers]


def _cache_shapes(
    steps: Callable[[str], ServedModel], tokens: torch.Tensor
) -> list[list[torch.Tensor]]:
    """Run the prompt, without numbers where that can be, and give keys and values of each layer, without numbers."""
    try:
        return _caches(steps("meta"), tokens, "meta")
    except RuntimeError:  # experts in float32, or numbers that decide
        return _caches(steps("cpu"), tokens, "cpu")


def _caches(step: ServedModel, tokens: torch.Tensor, device: str) -> list[list[torch.Tensor]]:
    plain = ServedModel(step.model, "dynamic")
    with torch.device(device), torch.no_grad():
        _, keys, values = plain(torch.zeros_like(tokens, device=device))
    return [[each.to("meta") for each in side] for side in (keys, values)]


def _filled(like: torch.Tensor, room: int, filled: int, device: str) -> torch.Tensor:
    """Draw a cache of as many tokens as have been; what is not filled yet is zero."""
    batch, heads, _, width = like.shape
    shape = (batch, heads, room, width)
    if device == "meta":
        return torch.empty(shape, dtype=like.dtype, device=device)
    made = torch.zeros(shape)
    made[:, :, :filled] = torch.randn(made[:, :, :filled].shape)
    return made.to(device, like.dtype)


def prompt_in(given: Sequence[Any], place: str) -> torch.Tensor:
    """Find the tokens among a model's inputs."""
    found = [
        each
        for each in given
        if isinstance(each, torch.Tensor)
        and not each.is_floating_point()
        and each.dtype != torch.bool
        and each.dim() == _TOKENS_RANK
    ]
    if len(found) != 1:
        raise ModelFileError(
            f"{place}: --phases needs one input of token numbers, batch × length, and get_inputs() gives "
            f"{len(found)}: define get_prefill_inputs() and get_decode_inputs()"
        )
    return found[0]
