"""Models as they are served: prefill and decode, on a cache that stays in its place."""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import inspect
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch

from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_METHODS = ("begin", "prefill", "decode")
_SHAPE = (
    "a model's file has a class Model(torch.nn.Module), built with what get_init_inputs() returns, that holds a "
    "decoder of transformers or has vocab_size, begin(rows, room), prefill(tokens) and decode(tokens, position)"
)


class Served(Protocol):
    """What is measured. All methods keep their state in the same tensors, so that they can be compiled and recorded."""

    vocab_size: int

    def begin(self, rows: int, room: int) -> None:
        """Take a cache for so many rows of so many tokens; the same one for the same sizes."""

    def prefill(self, tokens: torch.Tensor) -> torch.Tensor:
        """Read prompts, rows × length, into the cache from its start; give the last token's logits."""
        ...

    def decode(self, tokens: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """Read a token of each row, rows × 1, at a position (a tensor without dimensions); give its logits."""
        ...


class OfTransformers:
    """A decoder of transformers on its static cache."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.vocab_size: int = model.config.vocab_size
        self._caches: dict[tuple[int, int], Any] = {}
        self._cache: Any = None

    def begin(self, rows: int, room: int) -> None:
        """Take the static cache of these sizes."""
        if (rows, room) not in self._caches:
            self._caches[rows, room] = self._new_cache(rows, room)
        self._cache = self._caches[rows, room]

    def _new_cache(self, rows: int, room: int) -> Any:
        from transformers import StaticCache  # noqa: PLC0415  # an extra

        config = self.model.config
        cache: Any = StaticCache(config=config, max_cache_len=room)
        if any(layer.is_sliding for layer in cache.layers):
            raise UsageError(
                "this model's cache has windows, which bench-model does not serve: give a file whose Model has "
                "begin, prefill and decode"
            )
        heads = config.num_attention_heads
        width = getattr(config, "head_dim", None) or config.hidden_size // heads
        kv_heads = getattr(config, "num_key_value_heads", None) or heads
        weight = next(self.model.parameters())
        cache.early_initialization(rows, kv_heads, width, weight.dtype, weight.device)
        return cache

    def prefill(self, tokens: torch.Tensor) -> torch.Tensor:
        """Read prompts."""
        for layer in self._cache.layers:
            layer.cumulative_length.zero_()
        return self._step(tokens)

    def decode(self, tokens: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """Read a token of each row."""
        for layer in self._cache.layers:
            layer.cumulative_length.copy_(position)
        return self._step(tokens)

    def _step(self, tokens: torch.Tensor) -> torch.Tensor:
        said = self.model(
            input_ids=tokens, past_key_values=self._cache, use_cache=True, logits_to_keep=1
        )
        logits: torch.Tensor = said.logits
        return logits[:, -1]


def load(path: str, *, device: str, dtype: torch.dtype, seed: int) -> Served:
    """Build a model from a Python file, or from a configuration of transformers, with weights drawn from a seed."""
    torch.manual_seed(seed)
    with torch.device(device), _by_default(dtype):
        model = _of_config(Path(path)) if path.endswith(".json") else _of_file(Path(path))
    model = model.to(device=device, dtype=dtype).eval().requires_grad_(False)
    return _served(model, path)


@contextlib.contextmanager
def _by_default(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _of_config(path: Path) -> Any:
    try:
        from transformers import AutoConfig, AutoModelForCausalLM  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise UsageError(
            f"{path}: a configuration needs transformers: pip install transformers"
        ) from error
    values = json.loads(path.read_text())
    if not isinstance(values, dict) or "model_type" not in values:
        raise UsageError(
            f"{path}: a configuration of transformers names its `model_type`, such as llama"
        )
    kind = values.pop("model_type")
    try:
        config = AutoConfig.for_model(kind, **values)
        return AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    except (KeyError, ValueError, TypeError) as error:
        raise UsageError(f"{path}: transformers makes no model of it: {error}") from error


def _of_file(path: Path) -> torch.nn.Module:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    sys.path.insert(0, str(path.parent))
    spec.loader.exec_module(module)
    kind = getattr(module, "Model", None)
    if not inspect.isclass(kind) or not issubclass(kind, torch.nn.Module):
        raise UsageError(f"{path}: has no class Model: {_SHAPE}")
    given: Callable[[], Any] = getattr(module, "get_init_inputs", list)
    model: torch.nn.Module = kind(*given())
    return model


def _served(model: torch.nn.Module, path: str) -> Served:
    if all(hasattr(model, name) for name in (*_METHODS, "vocab_size")):
        found: Any = model
        return found  # type: ignore[no-any-return]
    for each in model.modules():
        if "past_key_values" in inspect.signature(each.forward).parameters and hasattr(
            getattr(each, "config", None), "vocab_size"
        ):
            return OfTransformers(each)
    raise UsageError(f"{path}: {_SHAPE}")


def in_precision(served: Served, dtype: torch.dtype) -> Served:
    """Copy a model with its weights in another dtype."""
    if isinstance(served, OfTransformers):
        return OfTransformers(copy.deepcopy(served.model).to(dtype))
    model: Any = copy.deepcopy(served)
    return model.to(dtype)  # type: ignore[no-any-return]
